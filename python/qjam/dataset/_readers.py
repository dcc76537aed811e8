"""Data sets of files that the native readers open: rows of numbers, dense or sparse."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from ._files import file_stamp
from ._units import Units, standard_rows

if TYPE_CHECKING:
    from .._native import Data


class ReadUnits(Units):
    """Rows (or columns) of a file, which is read again when it has changed."""

    def __init__(
        self,
        path: str,
        settings: Dict[str, Any],
        by_columns: bool,
        progress: Optional[Callable[[int, int], object]],
    ) -> None:
        super().__init__(path, frozen=False)
        self.settings = settings
        self.by_columns = by_columns
        self.progress = progress
        self._stamp: Optional[Tuple[int, ...]] = None
        self._cut: Optional[Tuple[int, Data]] = None
        self.current()

    def current(self) -> Dict[str, Any]:
        """Facts about the file, which is read again if it has changed."""
        stamp = file_stamp(self.raw)
        if stamp != self._stamp:
            from .._native import read_file

            self._cut = None
            self._data, self._about = read_file(self.raw, self.settings, self.by_columns, self.progress)
            self._kind, self._dtype, shape, _ = self._data.chunk(0)
            self._first = shape[0]
            self._stamp = stamp
        return self._about

    def count(self) -> int:
        self.current()
        return self._data.records

    def standard(self) -> int:
        self.current()
        if self._kind == "dense":
            return self._first
        return standard_rows(self._data.records, self._data.nbytes)

    def make(self, slice_size: int) -> Data:
        self.current()
        if self._cut is None or self._cut[0] != slice_size:
            self._cut = slice_size, self._data.cut(slice_size)
        return self._cut[1]

    def refresh(self, data: Data, slice_size: int) -> Data:
        return self.make(slice_size)

    def everything(self) -> Any:
        return self.take(0, self.count())

    def parts(self, start: int, stop: int) -> List[Any]:
        """The ranges within slices that contain these rows."""
        from .._worker.chunks import open_chunk

        size = self.standard()
        data = self.make(size)
        found = []
        for index in range(start // size, -(-stop // size)):
            chunk = open_chunk(*data.chunk(index))
            inside = slice(max(start - index * size, 0), min(stop - index * size, size))
            found.append(chunk[:, inside] if self._kind == "csc" else chunk[inside])
        return found

    def take(self, start: int, stop: int) -> Any:
        stop = min(stop, self.count())
        parts = self.parts(start, stop)
        if len(parts) == 1:
            return parts[0]
        if self._kind == "dense":
            import numpy

            return numpy.concatenate(parts)
        from importlib import import_module

        sparse = import_module("scipy.sparse")
        return sparse.hstack(parts, "csc") if self._kind == "csc" else sparse.vstack(parts, "csr")

    def one(self, at: int) -> Any:
        some = self.take(at, at + 1)
        return some[0] if self._kind == "dense" else some

    def pick(self, which: slice) -> Any:
        start, stop, step = which.indices(self.count())
        if step < 0:
            start, stop = stop + 1, start + 1
        some = self.take(start, max(start, stop)) if stop > start else self.take(start, start + 1)[:0]
        return some[:, ::step] if self._kind == "csc" else some[::step]

    def labels(self) -> Any:
        """The label of each row, or None."""
        import numpy

        about = self.current()
        if self.by_columns:
            return numpy.frombuffer(about["labels"], "<f8")
        if not about["labelled"]:
            return None
        from .._worker.chunks import open_chunk

        chunks = (open_chunk(*self._data.chunk(index)) for index in range(len(self._data)))
        return numpy.concatenate([x[:, -1] if self._kind == "dense" else x.labels for x in chunks])


def file_name(path: Any, what: str) -> str:
    """The name of a file or folder, or an error that says what is expected."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{what} takes the name of a file or folder, not {type(path).__name__}")
    return os.fsdecode(os.fspath(path))
