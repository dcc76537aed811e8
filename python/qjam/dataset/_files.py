"""Data sets of files: arrays saved by NumPy, texts of numbers, and lines."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ._units import Units, standard_rows

if TYPE_CHECKING:
    from .._native import Data


def file_units(path: Any) -> Units:
    """The units of a file by its name: rows of an ``.npy`` array, lines of any other file."""
    path = _name(path)
    if path.endswith(".npy"):
        return NpyUnits(path)
    if path.endswith(".npz"):
        raise TypeError(f"{path} may hold several arrays; give one of them: numpy.load({path!r})['name']")
    return LineUnits(path)


def matrix_file_units(path: Any) -> Units:
    """The units of a file with a matrix: rows of an array saved by NumPy, or lines of numbers."""
    path = _name(path)
    return NpyUnits(path) if path.endswith(".npy") else NumberUnits(path)


def _name(path: Any) -> str:
    path = os.fspath(path)
    return os.fsdecode(path)


class FileUnits(Units):
    """The content of a file, which is examined again when the file has changed."""

    def __init__(self, path: str) -> None:
        super().__init__(path, frozen=False)
        self._stamp: Optional[Tuple[int, ...]] = None
        self._made: Optional[Tuple[int, Data]] = None
        self._current()

    def _look(self) -> None:
        """Examines the file."""
        raise NotImplementedError

    def _open(self, slice_size: int) -> Data:
        raise NotImplementedError

    def _current(self) -> None:
        """Examines the file again if it has changed."""
        stamp = file_stamp(self.raw)
        if stamp != self._stamp:
            self._made = None
            self._look()
            self._stamp = stamp

    def everything(self) -> Any:
        return self.take(0, self.count())

    def make(self, slice_size: int) -> Data:
        self._current()
        if self._made is None or self._made[0] != slice_size:
            self._made = slice_size, self._open(slice_size)
        return self._made[1]

    def refresh(self, data: Data, slice_size: int) -> Data:
        return self.make(slice_size)

    def pick(self, which: slice) -> Any:
        start, stop, step = which.indices(self.count())
        if step > 0:
            return self.take(start, max(start, stop))[::step]
        return self.take(min(stop + 1, start + 1), start + 1)[::step]


class NpyUnits(FileUnits):
    """Rows of an array saved by NumPy."""

    def _look(self) -> None:
        import numpy as np

        from ._arrays import array_units

        try:
            array = np.load(self.raw, mmap_mode="r", allow_pickle=False)
        except ValueError as cause:
            raise ValueError(f"{self.raw}: {cause}") from cause
        self._units = array_units(array, frozen=False)

    def count(self) -> int:
        self._current()
        return self._units.count()

    def standard(self) -> int:
        self._current()
        return self._units.standard()

    def everything(self) -> Any:
        self._current()
        return self._units.raw

    def take(self, start: int, stop: int) -> Any:
        self._current()
        return self._units.take(start, stop)

    def one(self, at: int) -> Any:
        self._current()
        return self._units.one(at)

    def pick(self, which: slice) -> Any:
        self._current()
        return self._units.pick(which)

    def _open(self, slice_size: int) -> Data:
        return self._units.make(slice_size)


class LineUnits(FileUnits):
    """The lines of a text in UTF-8."""

    def _look(self) -> None:
        with open(self.raw, "rb") as file:
            self._count = sum(1 for _ in file)
        if self._count == 0:
            raise ValueError(f"{self.raw} has no lines; a data set has at least one")

    def count(self) -> int:
        self._current()
        return self._count

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
    """Lines of numbers, all of the same length."""

    def _look(self) -> None:
        with open(self.raw, "rb") as file:
            first = file.readline()
        if not first:
            raise ValueError(f"{self.raw} is empty; a matrix has at least one line of numbers")
        words = first.replace(b",", b" ").split()
        if not words:
            raise ValueError(f"{self.raw}, line 1 is blank; a matrix file has lines of numbers")
        try:
            [float(word) for word in words]
        except ValueError as cause:
            raise ValueError(f"{self.raw}, line 1: {cause}; a matrix file has lines of numbers") from None
        self._cols = len(words)
        self._line_bytes = len(first) if first.endswith(b"\n") else len(first) + 1
        # All lines are compared with the first.
        whole = self._open(1 << 40)
        self._count = whole.records

    def count(self) -> int:
        self._current()
        return self._count

    def standard(self) -> int:
        return standard_rows(self.count(), os.path.getsize(self.raw))

    def take(self, start: int, stop: int) -> Any:
        from .._worker.chunks import open_chunk

        stop = min(stop, self.count())
        with open(self.raw, "rb") as file:
            file.seek(start * self._line_bytes)
            text = file.read((stop - start) * self._line_bytes)
        return open_chunk("numbers", "f64", (stop - start, self._cols), text)

    def one(self, at: int) -> Any:
        return self.take(at, at + 1)[0]

    def _open(self, slice_size: int) -> Data:
        from .._native import Data

        return Data.number_lines(self.raw, self._cols, slice_size)


def file_stamp(path: str) -> Tuple[int, ...]:
    """A stamp that differs when a file has changed, or another file has its name."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
