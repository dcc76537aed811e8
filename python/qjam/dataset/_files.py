"""Files: arrays that NumPy saved, texts of numbers, and lines."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ._units import Units, standard_rows

if TYPE_CHECKING:
    from .._native import Data


def file_units(path: Any) -> Units:
    """What fits a file by its name: arrays of ``.npy``, lines of all others."""
    path = _name(path)
    os.stat(path)  # says what is wrong with the name, if anything
    if path.endswith(".npy"):
        return npy_units(path)
    if path.endswith(".npz"):
        raise TypeError(f"{path} may hold several arrays; give one of them: numpy.load({path!r})['name']")
    return LineUnits(path)


def matrix_file_units(path: Any) -> Units:
    """What fits the file of a matrix: an array that NumPy saved, or lines of numbers."""
    path = _name(path)
    os.stat(path)
    return npy_units(path) if path.endswith(".npy") else NumberUnits(path)


def _name(path: Any) -> str:
    path = os.fspath(path)
    return os.fsdecode(path)


def npy_units(path: str) -> Units:
    import numpy as np

    from ._arrays import array_units

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as cause:
        raise ValueError(f"{path}: {cause}") from cause
    return array_units(array, frozen=False)


class FileUnits(Units):
    """Something in a file; it is looked at again when the file has been written to."""

    def __init__(self, path: str) -> None:
        super().__init__(path, frozen=False)
        self._made: Optional[Tuple[int, Tuple[int, ...], Data]] = None

    def _open(self, slice_size: int) -> Data:
        raise NotImplementedError

    def make(self, slice_size: int) -> Data:
        from ._arrays import file_stamp

        stamp = file_stamp(self.raw)
        if self._made is None or self._made[:2] != (slice_size, stamp):
            self._made = slice_size, stamp, self._open(slice_size)
        return self._made[2]

    def refresh(self, data: Data, slice_size: int) -> Data:
        return self.make(slice_size)

    def pick(self, which: slice) -> Any:
        start, stop, step = which.indices(self.count())
        if step < 0:
            return self.pick(slice(stop + 1, start + 1))[::-1][::-step] if start > stop else self.take(0, 0)
        return self.take(start, max(start, stop))[::step]


class LineUnits(FileUnits):
    """The lines of a text in UTF-8."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._counted: Optional[Tuple[Tuple[int, ...], int]] = None
        if self.count() == 0:
            raise ValueError(f"{path} has no lines; a data set has at least one")

    def count(self) -> int:
        from ._arrays import file_stamp

        stamp = file_stamp(self.raw)
        if self._counted is None or self._counted[0] != stamp:
            with open(self.raw, "rb") as file:
                self._counted = stamp, sum(1 for _ in file)
        return self._counted[1]

    def standard(self) -> int:
        return standard_rows(self.count(), os.path.getsize(self.raw))

    def take(self, start: int, stop: int) -> List[str]:
        with open(self.raw, "rb") as file:
            lines = [line.decode("utf-8") for line in itertools.islice(file, start, stop)]
        return [line.removesuffix("\n").removesuffix("\r") for line in lines]

    def one(self, at: int) -> str:
        return self.take(at, at + 1)[0]

    def _open(self, slice_size: int) -> Data:
        from .._native import Data

        return Data.lines(self.raw, slice_size)


class NumberUnits(FileUnits):
    """Lines of numbers, all equally long."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with open(path, "rb") as file:
            first = file.readline()
        if not first:
            raise ValueError(f"{path} is empty; a matrix has at least one line of numbers")
        words = first.replace(b",", b" ").split()
        try:
            [float(word) for word in words]
        except ValueError as cause:
            raise ValueError(f"{path}, line 1: {cause}; a matrix file has lines of numbers") from None
        if not words:
            raise ValueError(f"{path}, line 1 is blank; a matrix file has lines of numbers")
        self.cols = len(words)
        self.line_bytes = len(first) if first.endswith(b"\n") else len(first) + 1
        self.make(1 << 40)  # all lines are compared with the first

    def count(self) -> int:
        return -(-os.path.getsize(self.raw) // self.line_bytes)

    def standard(self) -> int:
        return standard_rows(self.count(), os.path.getsize(self.raw))

    def take(self, start: int, stop: int) -> Any:
        from .._worker.chunks import open_chunk

        stop = min(stop, self.count())
        with open(self.raw, "rb") as file:
            file.seek(start * self.line_bytes)
            text = file.read((stop - start) * self.line_bytes)
        return open_chunk("numbers", "f64", (stop - start, self.cols), text)

    def one(self, at: int) -> Any:
        return self.take(at, at + 1)[0]

    def _open(self, slice_size: int) -> Data:
        from .._native import Data

        return Data.number_lines(self.raw, self.cols, slice_size)
