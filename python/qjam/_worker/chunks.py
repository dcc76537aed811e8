"""Opens chunks: from bytes in mapped memory to the argument of a map function.

Arrays are read-only views of the bytes, because other workers map the same memory. Pickled slices are unpickled without copying
their arrays. Needs nothing but NumPy, which is imported only for kinds that are arrays.
"""

from __future__ import annotations

import ast
import functools
import pickle
import struct
from typing import Any, Callable, List, Sequence

_DENSE = {"f32": "<f4", "f64": "<f8", "i32": "<i4", "i64": "<i8", "u8": "|u1"}
_ALIGN = 64
# Bytes of the pickle, and how many buffers it has.
_PICKLED = struct.Struct("<QQ")


def open_chunk(kind: str, dtype: str, shape: Sequence[int], buffer: Any) -> Any:
    """The chunk that a function gets as its second argument.

    ``buffer`` is anything with a buffer, as long as the chunk. The result may refer to it and keeps it alive.
    """
    return opener(kind, dtype, shape)(buffer)


def opener(kind: str, dtype: str, shape: Sequence[int]) -> Callable[[Any], Any]:
    """A function that opens chunks with this header, so that the header is parsed once."""
    if kind == "nothing":
        return _nothing
    if kind == "dense":
        return _arrays(_DENSE[dtype], shape)
    if kind in ("csr", "csc"):
        return _sparse(kind, numpy_type=_DENSE[dtype], shape=shape)
    if kind == "pickle5":
        return _unpickle
    if kind in ("ndarray", "ndarray.T", "matrix", "matrix.T"):
        return _arrays(_dtype(dtype), shape, kind.endswith(".T"), kind.startswith("matrix"))
    if kind == "lines":
        return _lines
    if kind == "numbers":
        return functools.partial(_numbers, shape)
    raise TypeError(f"chunks of the kind {kind!r} cannot be opened by Python functions")


def _nothing(_: Any) -> List[Any]:
    return []


def _arrays(
    dtype: Any, shape: Sequence[int], is_transposed: bool = False, is_matrix: bool = False
) -> Callable[[Any], Any]:
    import numpy

    dims, dtype, new = tuple(shape), numpy.dtype(dtype), numpy.ndarray

    def open_array(buffer: Any) -> Any:
        array = new(dims, dtype, memoryview(buffer).cast("B"))
        array.flags.writeable = False
        if is_transposed:
            array = array.T
        return array.view(numpy.matrix) if is_matrix else array

    return open_array


def _sparse(kind: str, numpy_type: str, shape: Sequence[int]) -> Callable[[Any], Any]:
    """Rows or columns of a sparse matrix as a SciPy matrix over the chunk's memory.

    Where each line starts, the values, a label for each line if there are any, the places in the lines.
    """
    import numpy

    try:
        from scipy import sparse
    except ImportError as cause:
        raise ModuleNotFoundError(
            f"chunks of sparse matrices are opened with SciPy, which this interpreter has not got ({cause}); "
            "install scipy where workers run, or read the file into dense rows",
            name="scipy",
        ) from cause
    lines, across, count, labelled = shape
    is_rows = kind == "csr"
    make = sparse.csr_matrix if is_rows else sparse.csc_matrix
    dims = (lines, across) if is_rows else (across, lines)
    width = numpy.dtype(numpy_type).itemsize
    labels_at = (lines + 1) * 8 + count * width
    places_at = labels_at + (lines * width if labelled else 0)

    def open_sparse(buffer: Any) -> Any:
        memory = memoryview(buffer).cast("B").toreadonly()
        # SciPy wants both of one type. Starts are few; places, of which there are many, stay where they are as long as
        # they fit the sign.
        starts = numpy.frombuffer(memory, "<u8", lines + 1)
        places = numpy.frombuffer(memory, "<i4", count, places_at)
        if across > 1 << 31:
            places = places.view("<u4").astype("<i8")
        values = numpy.frombuffer(memory, numpy_type, count, (lines + 1) * 8)
        matrix: Any = make((values, places, starts.astype(places.dtype)), shape=dims, copy=False)
        matrix.has_canonical_format = True
        matrix.labels = numpy.frombuffer(memory, numpy_type, lines, labels_at) if labelled else None
        return matrix

    return open_sparse


def _dtype(text: str) -> Any:
    import numpy

    if not text.startswith("["):
        return numpy.dtype(text)
    # A structured type, as the header of a .npy file has it.
    return numpy.lib.format.descr_to_dtype(ast.literal_eval(text))


def _unpickle(buffer: Any) -> Any:
    stream_bytes, count = _PICKLED.unpack_from(buffer)
    view = memoryview(buffer).cast("B")
    if not count:
        return pickle.loads(view[16 : 16 + stream_bytes])
    view = view.toreadonly()
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
