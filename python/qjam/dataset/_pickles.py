"""Slices of Python objects as chunks: each one pickled, its arrays beside the pickle."""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, List, Optional, Tuple

if TYPE_CHECKING:
    from .._native import Data

# Below this, memory beside the pickle costs more than a copy.
_ASIDE_BYTES_MIN = 512


def sizes(units: int, slice_size: int) -> Iterator[int]:
    """Units in each slice."""
    for start in range(0, units, slice_size):
        yield min(slice_size, units - start)


def dump(obj: object, index: int) -> Tuple[bytes, List[pickle.PickleBuffer]]:
    """The pickle of slice ``index``, and the memory of its arrays."""
    buffers: List[pickle.PickleBuffer] = []
    refusal: Optional[Exception] = None
    try:
        stream = pickle.dumps(obj, protocol=5, buffer_callback=_aside(buffers))
        # What is defined in a script or a notebook is not there on a worker and has to go along. A text that happens to
        # have the word in it is pickled the other way for nothing, and rightly.
        if b"__main__" not in stream:
            return stream, buffers
    except Exception as error:
        refusal = error
    buffers.clear()
    try:
        return _cloudpickle(obj, buffers), buffers
    except Exception as error:
        from ..errors import PicklingError

        what = refusal or error
        raise PicklingError(
            f"slice {index} of the data set cannot be sent to workers: {type(what).__name__}: {what}; "
            "put plain data into the data set (numbers, texts, arrays, names of files) and make the rest on the worker"
        ) from what


def _aside(buffers: List[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    """Sets memory aside; says True for what is better off in the pickle itself."""

    def keep(buffer: pickle.PickleBuffer) -> bool:
        try:
            is_small = buffer.raw().nbytes < _ASIDE_BYTES_MIN
        except BufferError:  # not in one piece
            is_small = True
        if not is_small:
            buffers.append(buffer)
        return is_small

    return keep


def _cloudpickle(obj: object, buffers: List[pickle.PickleBuffer]) -> bytes:
    try:
        cloudpickle = import_module("qjam._vendor.cloudpickle")
    except ImportError:
        cloudpickle = import_module("cloudpickle")
    stream: bytes = cloudpickle.dumps(obj, protocol=5, buffer_callback=_aside(buffers))
    return stream


def write(slices: Iterable[Tuple[int, object]]) -> Data:
    """A data set of slices: how many units each has, and what it is."""
    from .._native import SliceWriter
    from .._pickling import note_modules

    writer = SliceWriter()
    for index, (units, obj) in enumerate(slices):
        stream, buffers = dump(obj, index)
        note_modules(stream)
        writer.push(units, stream, [buffer.raw() for buffer in buffers])
    return writer.finish()


def same(data: Data, slices: Iterable[object]) -> bool:
    """Whether a data set is exactly these slices."""
    count = 0
    for index, obj in enumerate(slices):
        stream, buffers = dump(obj, index)
        if not data.is_slice(index, stream, [buffer.raw() for buffer in buffers]):
            return False
        count += 1
    return count == len(data)
