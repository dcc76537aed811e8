"""Slices of Python objects as chunks: a pickle each, with the memory of its arrays beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Iterator, List, Tuple

if TYPE_CHECKING:
    from .._native import Data


def sizes(units: int, slice_size: int) -> Iterator[int]:
    """Units in each slice."""
    for start in range(0, units, slice_size):
        yield min(slice_size, units - start)


def dump(obj: object, index: int) -> Tuple[bytes, List[memoryview]]:
    """The pickle of slice ``index``, and the memory of its arrays."""
    from .._pickling import pickle_params

    stream, buffers = pickle_params(obj, f"slice {index} of the data set")
    return stream, [buffer.raw() for buffer in buffers]


def write(slices: Iterable[Tuple[int, object]]) -> Data:
    """A data set of slices, given as pairs of number of units and slice."""
    from .._native import SliceWriter

    writer = SliceWriter()
    for index, (units, obj) in enumerate(slices):
        writer.push(units, *dump(obj, index))
    return writer.finish()


def same(data: Data, slices: Iterable[object]) -> bool:
    """Whether a data set consists of exactly these slices."""
    count = 0
    for index, obj in enumerate(slices):
        if not data.is_slice(index, *dump(obj, index)):
            return False
        count += 1
    return count == len(data)
