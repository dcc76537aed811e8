"""Results on their way: as numbers that can be added without an interpreter, or as pickles.

A result of a function without its own ``reduce`` that is made of numbers and arrays is taken apart into *leaves*, plain
numbers in memory, and a *shape*, a text that says how to put it together again. Two results of the same shape are added
leaf by leaf in Rust, with the bits that ``qjam.common.reducing.default_reduce`` would give. Everything else is pickled, and left to that.

The shape is compared byte by byte, so it holds all that decides what a sum means: types, element types, lengths::

    F               a float          I               an int
    S<f8;           a NumPy scalar   A<f8;3,4;       an array of 3 times 4
    (FA<f8;2;)      a tuple          [FF]            a list          [F*1000]   a list of 1000 floats
"""

from __future__ import annotations

import pickle
from array import array
from typing import Any, Callable, List, Optional, Tuple

Leaf = Tuple[str, Any]
Parts = Tuple[str, Any, List[Any]]

# The element types that are added in Rust, and the leaf each one is. Complex numbers are pairs.
_LEAVES = {"<f8": "d", "<f4": "f", "<i8": "q", "<c16": "d", "<c8": "f"}
# Beyond so many leaves it is no longer worth it: every leaf costs a little.
_LEAVES_MAX = 1024
# Floats in a row that are put into one leaf.
_RUN_MIN = 4
_INT_MAX = 2**63 - 1

_numpy: Any = None
_array_shapes: dict[Any, bytes] = {}


def _np() -> Any:
    global _numpy
    if _numpy is None:
        import numpy

        _numpy = numpy
    return _numpy


class _NotNumbers(Exception):
    pass


def dump(
    obj: object, summable: bool, pickler: Optional[Callable[..., bytes]] = None
) -> Parts:
    """Takes a result apart: ``("N", shape, leaves)``, or ``("P", stream, buffers)``.

    ``leaves`` are ``("d" | "f" | "q", buffer)`` or ``("i", int)``. Nothing is copied: buffers are those of the object.

    >>> dump(1.5, True)
    ('N', b'F', [('d', array('d', [1.5]))])
    >>> dump("text", True)[0]
    'P'
    """
    if summable:
        leaves: List[Leaf] = []
        try:
            shape = _take_apart(obj, leaves)
        except (_NotNumbers, RecursionError):
            pass
        else:
            return "N", shape, leaves
    buffers: List[pickle.PickleBuffer] = []
    try:
        stream = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
    except Exception:
        if pickler is None:
            raise
        buffers.clear()
        stream = pickler(obj, protocol=5, buffer_callback=buffers.append)
    return "P", stream, [_raw(buffer) for buffer in buffers]


def _raw(buffer: pickle.PickleBuffer) -> memoryview:
    return buffer.raw()


def _take_apart(obj: Any, leaves: List[Leaf]) -> bytes:
    kind = type(obj)
    if kind is float:
        leaves.append(("d", array("d", (obj,))))
        return b"F"
    if kind is int:
        if not -_INT_MAX - 1 <= obj <= _INT_MAX:
            raise _NotNumbers
        leaves.append(("i", obj))
        return b"I"
    if kind is list or kind is tuple:
        return _sequence(obj, leaves, b"[]" if kind is list else b"()")
    # Only what comes from NumPy is asked about it, so that others need not import it.
    if kind.__module__ != "numpy":
        raise _NotNumbers
    np = _np()
    if kind is np.ndarray:
        return _array(obj, leaves)
    if isinstance(obj, np.generic):
        dtype = obj.dtype.str
        leaf = _LEAVES.get(dtype)
        if leaf is None:
            raise _NotNumbers
        leaves.append((leaf, obj.tobytes()))
        return b"S%b;" % dtype.encode()
    raise _NotNumbers


def _array(obj: Any, leaves: List[Leaf]) -> bytes:
    # The sum of two arrays without dimensions is no array: that is left to NumPy. And the order of the elements in
    # memory would have to be part of the shape.
    if obj.ndim == 0 or not obj.flags.c_contiguous:
        raise _NotNumbers
    key = (obj.dtype, obj.shape)
    shape = _array_shapes.get(key)
    dtype = obj.dtype.str
    if shape is None:
        if dtype not in _LEAVES or obj.dtype.metadata:
            raise _NotNumbers
        if len(_array_shapes) > 256:
            _array_shapes.clear()
        shape = b"A%b;%b;" % (dtype.encode(), ",".join(map(str, obj.shape)).encode())
        _array_shapes[key] = shape
    leaves.append((_LEAVES[dtype], obj))
    return shape


def _sequence(obj: Any, leaves: List[Leaf], ends: bytes) -> bytes:
    if len(obj) >= _RUN_MIN and set(map(type, obj)) == {float}:
        leaves.append(("d", array("d", obj)))
        return b"%cF*%d%c" % (ends[0], len(obj), ends[1])
    if len(obj) + len(leaves) > _LEAVES_MAX:
        raise _NotNumbers
    inside = b"".join([_take_apart(item, leaves) for item in obj])
    if len(leaves) > _LEAVES_MAX:
        raise _NotNumbers
    return ends[:1] + inside + ends[1:]


def load(parts: Any) -> Any:
    """Puts a result together again.

    Arrays lie over the buffers that were given, without a copy, so they can be written where those can.

    >>> load(dump([1, (2.5, 3)], True))
    [1, (2.5, 3)]
    """
    kind, head, rest = parts
    if kind == "P":
        return pickle.loads(head, buffers=rest)
    reader = _Reader(bytes(head), rest)
    return reader.take()


class _Reader:
    """Reads a shape from left to right, and takes a leaf for each number in it."""

    def __init__(self, shape: bytes, leaves: List[Leaf]) -> None:
        self.shape = shape
        self.at = 0
        self.leaves = iter(leaves)

    def until_semicolon(self) -> str:
        end = self.shape.index(b";", self.at)
        text = self.shape[self.at : end].decode()
        self.at = end + 1
        return text

    def take(self) -> Any:
        mark = self.shape[self.at : self.at + 1]
        self.at += 1
        if mark == b"F":
            return memoryview(next(self.leaves)[1]).cast("B").cast("d")[0]
        if mark == b"I":
            return next(self.leaves)[1]
        if mark == b"S":
            return _np().frombuffer(next(self.leaves)[1], self.until_semicolon())[0]
        if mark == b"A":
            dtype, dims = self.until_semicolon(), self.until_semicolon()
            shape = tuple(int(dim) for dim in dims.split(","))
            np = _np()
            leaf = next(self.leaves)[1]
            return np.ndarray(shape, dtype, leaf) if memoryview(leaf).nbytes else np.zeros(shape, dtype)
        if mark in (b"(", b"["):
            items = self.run() if self.shape[self.at : self.at + 2] == b"F*" else self.items(mark)
            return tuple(items) if mark == b"(" else items
        raise ValueError(f"a result's shape has {mark!r} in it")

    def run(self) -> List[Any]:
        ends = [at for at in (self.shape.find(b"]", self.at), self.shape.find(b")", self.at)) if at >= 0]
        self.at = min(ends) + 1
        return memoryview(next(self.leaves)[1]).cast("B").cast("d").tolist()

    def items(self, mark: bytes) -> List[Any]:
        end = b")" if mark == b"(" else b"]"
        items = []
        while self.shape[self.at : self.at + 1] != end:
            items.append(self.take())
        self.at += 1
        return items
