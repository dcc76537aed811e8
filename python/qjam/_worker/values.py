"""Encodes results and parameters: as numbers that can be added without an interpreter, or as pickles.

A result that consists of numbers and arrays, of a function without its own ``reduce``, is divided into *leaves*, plain numbers in
memory, and a *shape*, a text that describes how to assemble them. Rust adds two results of the same shape leaf by leaf, with the bits
that ``qjam.common.reducing.default_reduce`` would give. Everything else is pickled, and combined by that function.

Shapes are compared byte by byte, so a shape contains everything that a sum depends on: types, element types, lengths::

    F               a float          I               an int
    S<f8;           a NumPy scalar   A<f8;3,4;       an array of 3 times 4
    (FA<f8;2;)      a tuple          [FF]            a list          [F*1000]   a list of 1000 floats

Parameters of arrays and numbers are sent in the same form: a head with the shape, and their bytes.
"""

from __future__ import annotations

import pickle
import struct
from array import array
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

Leaf = Tuple[str, Any]
Parts = Tuple[str, Any, List[Any]]
# A mark and, by what it is, an array's lengths, type and whether it has elements, or the plans of items.
Plan = Tuple[Any, ...]

# Shorter arrays are copied into the bytes of parameters: a separate buffer would cost more.
BUFFER_BYTES_MIN = 2048

# The element types that are added in Rust, and the leaf each one is. Complex numbers are pairs.
_LEAVES = {"<f8": "d", "<f4": "f", "<i8": "q", "<c16": "d", "<c8": "f"}
# Maximum number of leaves: beyond it, their cost exceeds the gain.
_LEAVES_MAX = 1024
# Consecutive floats that are put into one leaf.
_RUN_MIN = 4
_INT_MAX = 2**63 - 1
_DOUBLE = struct.Struct("=d")
_FLOAT = struct.Struct("=d8x")
_INT = struct.Struct("=q8x")
# What parameters have inside begins at multiples of it.
_PACKED_STEP = 16
_PACKED_MAX = 16
# The element types of arrays that are sent as plain bytes.
_PACKED = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"}

_numpy: Any = None
_ndarray: Any = None
_array_shapes: Dict[Any, Tuple[bytes, str]] = {}
# Caches of shapes; each is cleared when it gets long.
_plans: Dict[bytes, Plan] = {}
_packed_arrays: Dict[Any, bytes] = {}
_packed_heads: Dict[bytes, bytes] = {}
_unpackings: Dict[bytes, Tuple[List[Any], bool]] = {}


def _np() -> Any:
    global _numpy, _ndarray
    if _numpy is None:
        import numpy

        _numpy, _ndarray = numpy, numpy.ndarray
    return _numpy


class _NotNumbers(Exception):
    pass


def dump(
    obj: Any, summable: bool, pickler: Optional[Callable[..., bytes]] = None, what: str = "the result"
) -> Parts:
    """Encodes a result: ``("N", shape, leaves)``, or ``("P", stream, buffers)``.

    ``what`` is its name in the message if it cannot be pickled. ``leaves`` are ``("d" | "f" | "q", buffer)`` or ``("i", int)``. Nothing is copied: buffers are those of the object.

    >>> dump(1.5, True)
    ('N', b'F', [('d', array('d', [1.5]))])
    >>> dump("text", True)[0]
    'P'
    """
    if summable:
        if type(obj) is _ndarray and obj.flags.c_contiguous:
            # Fast path for the most common results.
            known = _array_shapes.get((obj.dtype, obj.shape))
            if known is not None:
                return "N", known[0], [(known[1], obj)]
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
        try:
            stream = pickler(obj, protocol=5, buffer_callback=buffers.append)
        except MemoryError:
            raise
        except Exception as error:
            raise _refused(obj, what, error) from None
    return "P", stream, [_raw(buffer) for buffer in buffers]


def _refused(obj: Any, what: str, error: Exception) -> Exception:
    """The error for a result that cannot be pickled; names the part of it."""
    try:
        # On a worker it comes with the modules that the master sends.
        from qjam._pickling import refused
    except ImportError:
        return TypeError(f"{what}: {error}")
    return refused(
        obj,
        what,
        error,
        "What a function gives is sent to another process, so it cannot have locks, files, sockets, generators and the like in "
        "it. Return numbers, arrays, or containers and objects made of them.",
    )


def _raw(buffer: pickle.PickleBuffer) -> memoryview:
    return buffer.raw()


def _take_apart(obj: Any, leaves: List[Leaf]) -> bytes:
    kind = type(obj)
    if kind is _ndarray:
        return _array(obj, leaves)
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
    # Only objects from NumPy are checked with NumPy, so that it need not be imported for others.
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
    # The order of the elements in memory would have to be part of the shape.
    if not obj.flags.c_contiguous:
        raise _NotNumbers
    known = _array_shapes.get((obj.dtype, obj.shape)) or _array_shape(obj)
    leaves.append((known[1], obj))
    return known[0]


def _array_shape(obj: Any) -> Tuple[bytes, str]:
    """Shape and leaf of an array."""
    dtype = obj.dtype.str
    # The sum of two arrays without dimensions is not an array; NumPy handles it.
    if obj.ndim == 0 or dtype not in _LEAVES or obj.dtype.metadata:
        raise _NotNumbers
    if len(_array_shapes) > 256:
        _array_shapes.clear()
    shape = b"A%b;%b;" % (dtype.encode(), ",".join(map(str, obj.shape)).encode())
    known = _array_shapes[obj.dtype, obj.shape] = shape, _LEAVES[dtype]
    return known


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
    """Decodes a result.

    Arrays lie over the buffers that were given, without a copy, so they can be written where those can.

    >>> load(dump([1, (2.5, 3)], True))
    [1, (2.5, 3)]
    """
    kind, head, rest = parts
    if kind == "P":
        return pickle.loads(head, buffers=rest)
    plan = _plan_of(bytes(head))
    if plan[0] == "A" and plan[3]:
        return _np().ndarray(plan[1], plan[2], rest[0][1])
    return _build(plan, iter(rest))


def _build(plan: Plan, leaves: Iterator[Leaf]) -> Any:
    """Assembles a result by a plan, with one leaf for each number."""
    mark = plan[0]
    if mark == "A":
        leaf = next(leaves)[1]
        return _np().ndarray(plan[1], plan[2], leaf) if plan[3] else _np().zeros(plan[1], plan[2])
    if mark == "F":
        return _DOUBLE.unpack(next(leaves)[1])[0]
    if mark == "I":
        return next(leaves)[1]
    if mark == "S":
        return _np().frombuffer(next(leaves)[1], plan[2])[0]
    if plan[1] == "F*":
        items = memoryview(next(leaves)[1]).cast("B").cast("d").tolist()
    else:
        items = [_build(item, leaves) for item in plan[1]]
    return tuple(items) if mark == "(" else items


def _plan_of(shape: bytes) -> Plan:
    """The plan of a shape, parsed once for all results that have it."""
    plan = _plans.get(shape)
    if plan is None:
        if len(_plans) > 256:
            _plans.clear()
        plan = _plans[shape] = _Reader(shape.decode()).take()
    return plan


class _Reader:
    """Parses a shape from left to right."""

    def __init__(self, shape: str) -> None:
        self.shape = shape
        self.at = 0

    def until(self, end: str) -> str:
        found = self.shape.index(end, self.at)
        text = self.shape[self.at : found]
        self.at = found + 1
        return text

    def dtype(self) -> Any:
        name = self.until(";")
        if name not in _PACKED:
            raise ValueError(f"a result's shape has the element type {name!r} in it")
        return _np().dtype(name)

    def take(self) -> Plan:
        mark = self.shape[self.at : self.at + 1]
        self.at += 1
        if mark == "F" or mark == "I":
            return (mark,)
        if mark == "S":
            return mark, (), self.dtype()
        if mark == "A":
            dtype = self.dtype()
            dims = tuple(int(dim) for dim in self.until(";").split(","))
            return mark, dims, dtype, 0 not in dims
        if mark == "(" or mark == "[":
            end = ")" if mark == "(" else "]"
            if self.shape.startswith("F*", self.at):
                self.until(end)
                return mark, "F*"
            items = []
            while self.shape[self.at : self.at + 1] != end:
                items.append(self.take())
            self.at += 1
            return mark, items
        raise ValueError(f"a result's shape has {mark!r} in it")


def pack(obj: Any) -> Optional[Tuple[bytes, List[Any]]]:
    """Parameters that are an array, or a tuple of numbers and arrays, as plain bytes and the memory of long arrays.

    Reading a pickle of them takes longer than many a function. None for anything else, and where a pickle would give
    something else: other orders in memory, other element types, subclasses.

    >>> import numpy
    >>> unpack(*pack((0.5, numpy.ones(2))))
    (0.5, array([1., 1.]))
    """
    buffers: List[Any] = []
    if type(obj) is not tuple:
        mark, leaf = _pack_array(obj, buffers)
        return None if mark is None else (_packed_head(mark) + leaf, buffers)
    if not 0 < len(obj) <= _PACKED_MAX:
        return None
    text, leaves, has_array = [], [], False
    for item in obj:
        kind = type(item)
        if kind is float:
            text.append(b"F")
            leaves.append(_FLOAT.pack(item))
        elif kind is int and -_INT_MAX - 1 <= item <= _INT_MAX:
            text.append(b"I")
            leaves.append(_INT.pack(item))
        else:
            mark, leaf = _pack_array(item, buffers)
            if mark is None:
                return None
            has_array = True
            text.append(mark)
            leaves.append(leaf)
    if not has_array:
        return None
    return b"".join([_packed_head(b"(%b)" % b"".join(text)), *leaves]), buffers


def _pack_array(obj: Any, buffers: List[Any]) -> Tuple[Optional[bytes], bytes]:
    kind = type(obj)
    if kind is not _ndarray and (kind.__module__ != "numpy" or kind is not _np().ndarray):
        return None, b""
    if not obj.flags.c_contiguous:
        return None, b""
    key = obj.dtype, obj.shape
    mark = _packed_arrays.get(key)
    if mark is None:
        dtype = obj.dtype.str
        if dtype not in _PACKED or not obj.nbytes or obj.ndim == 0:
            return None, b""
        if len(_packed_arrays) > 256:
            _packed_arrays.clear()
        mark = b"A%b;%b;" % (dtype.encode(), ",".join(map(str, obj.shape)).encode())
        _packed_arrays[key] = mark
    if obj.dtype.metadata:
        return None, b""
    if obj.nbytes >= BUFFER_BYTES_MIN:
        buffers.append(pickle.PickleBuffer(obj))
        return mark, b""
    data = obj.tobytes()
    return mark, data + bytes(-len(data) % _PACKED_STEP) if len(data) % _PACKED_STEP else data


def _packed_head(shape: bytes) -> bytes:
    """The head: a byte that no pickle begins with, the length of the head, and the shape."""
    head = _packed_heads.get(shape)
    if head is None:
        if len(_packed_heads) > 256:
            _packed_heads.clear()
        steps = -(-(len(shape) + 2) // _PACKED_STEP)
        head = _packed_heads[shape] = (b"\0%c%b" % (steps, shape)).ljust(steps * _PACKED_STEP, b"\0")
    return head


def unpack(stream: Any, buffers: Sequence[Any]) -> Any:
    """Parameters from the output of :func:`pack`, or from a pickle. Arrays are read-only."""
    if stream[0]:
        return pickle.loads(stream, buffers=buffers)
    head = bytes(stream[: stream[1] * _PACKED_STEP])
    entries, is_tuple = _unpackings.get(head) or _unpacking(head)
    if not is_tuple:
        _, dims, dtype, at = entries[0]
        return _ndarray(dims, dtype, stream, at) if at >= 0 else _ndarray(dims, dtype, buffers[0])
    items = []
    beside = iter(buffers)
    for mark, dims, dtype, at in entries:
        if mark == "A":
            items.append(_ndarray(dims, dtype, stream, at) if at >= 0 else _ndarray(dims, dtype, next(beside)))
        else:
            items.append((_FLOAT if mark == "F" else _INT).unpack_from(stream, at)[0])
    return tuple(items)


def _unpacking(head: bytes) -> Tuple[List[Any], bool]:
    """The offsets of all parts after a head; negative for separate buffers."""
    plan = _plan_of(head[2:].rstrip(b"\0"))
    entries = []
    at = len(head)
    for item in plan[1] if plan[0] == "(" else [plan]:
        if item[0] != "A":
            entries.append((item[0], (), None, at))
            at += 16
            continue
        _, dims, dtype, _ = item
        length = dtype.itemsize
        for dim in dims:
            length *= dim
        if length >= BUFFER_BYTES_MIN:
            entries.append(("A", dims, dtype, -1))
            continue
        entries.append(("A", dims, dtype, at))
        at += -(-length // _PACKED_STEP) * _PACKED_STEP
    if len(_unpackings) > 256:
        _unpackings.clear()
    _unpackings[head] = entries, plan[0] == "("
    return _unpackings[head]
