"""Opens chunks: from the bytes that lie in a mapping to what a map function sees.

Arrays are views over the bytes and read-only, because other workers map the same memory. Pickled slices are unpickled
with the memory of their arrays left in place. Nothing here needs more than NumPy, and it is only imported for kinds that
are arrays.
"""

from __future__ import annotations

import ast
import pickle
import struct
from typing import Any, Sequence

_DENSE = {"f32": "<f4", "f64": "<f8", "i32": "<i4", "i64": "<i8", "u8": "|u1"}
_ALIGN = 64


def open_chunk(kind: str, dtype: str, shape: Sequence[int], buffer: Any) -> Any:
    """What a function gets as its second argument.

    ``buffer`` is anything with a buffer, as long as the chunk. The result may refer to it and keeps it alive.
    """
    if kind == "nothing":
        return []
    if kind == "dense":
        return _array(_DENSE[dtype], shape, buffer)
    if kind == "pickle5":
        return _unpickle(buffer)
    if kind in ("ndarray", "ndarray.T", "matrix", "matrix.T"):
        array = _array(_dtype(dtype), shape, buffer)
        if kind.endswith(".T"):
            array = array.T
        if kind.startswith("matrix"):
            import numpy

            array = array.view(numpy.matrix)
        return array
    if kind == "lines":
        return _lines(buffer)
    if kind == "numbers":
        return _numbers(shape, buffer)
    raise TypeError(f"chunks of the kind {kind!r} cannot be opened by Python functions")


def _array(dtype: Any, shape: Sequence[int], buffer: Any) -> Any:
    import numpy

    array = numpy.ndarray(tuple(shape), dtype, memoryview(buffer).cast("B"))
    array.flags.writeable = False
    return array


def _dtype(text: str) -> Any:
    import numpy

    if not text.startswith("["):
        return numpy.dtype(text)
    # A structured type, as the header of a .npy file has it.
    return numpy.lib.format.descr_to_dtype(ast.literal_eval(text))


def _unpickle(buffer: Any) -> Any:
    view = memoryview(buffer).cast("B").toreadonly()
    stream_bytes, count = struct.unpack_from("<QQ", view)
    lengths = struct.unpack_from(f"<{count}Q", view, 16)
    at = 16 + 8 * count
    stream = view[at : at + stream_bytes]
    at += stream_bytes
    buffers = []
    for length in lengths:
        at += -at % _ALIGN
        buffers.append(view[at : at + length])
        at += length
    return pickle.loads(stream, buffers=buffers)


def _lines(buffer: Any) -> list[str]:
    lines = bytes(buffer).decode("utf-8").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


def _numbers(shape: Sequence[int], buffer: Any) -> Any:
    """Lines of numbers, separated by blanks or commas, as a matrix."""
    import numpy

    rows, cols = shape
    words = bytes(buffer).replace(b",", b" ").split()
    if len(words) != rows * cols:
        raise ValueError(
            f"{rows} lines of {cols} numbers should have {rows * cols} numbers and have {len(words)}"
        )
    matrix = numpy.array(words, dtype=numpy.float64).reshape(rows, cols)
    matrix.flags.writeable = False
    return matrix
