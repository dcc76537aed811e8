"""Data sets of NumPy arrays: rows along the first dimension, used in place."""

from __future__ import annotations

import ast
import mmap
import os
import warnings
from typing import TYPE_CHECKING, Any, Optional, Tuple

import numpy as np

from ._files import file_stamp
from ._units import PickledUnits, Units, standard_rows

if TYPE_CHECKING:
    from .._native import Data


def array_units(array: Any, frozen: bool, columns: bool = False) -> Units:
    """The units of an array: its memory in place, or pickled slices for types that only NumPy understands."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{type(array).__name__} cannot be a data set; give an array with at least one dimension")
    if array.ndim == 0:
        raise TypeError("an array without dimensions has no rows; array.reshape(1) has one")
    if array.shape[1 if columns else 0] == 0:
        what = "columns" if columns else "rows"
        raise ValueError(f"the array has no {what} (its shape is {array.shape}); a data set has at least one")
    kind = {np.ndarray: "ndarray", np.memmap: "ndarray", np.matrix: "matrix"}.get(type(array))
    if kind is None or dtype_text(array.dtype) is None:
        return PickledArrayUnits(array, frozen, columns)
    if is_plain_file(array) and not columns:
        return MemmapUnits(array, frozen)
    return ArrayUnits(array, frozen, kind, columns)


def dtype_text(dtype: Any) -> Optional[str]:
    """An element type in the notation of chunks; None if there is none."""
    if dtype.hasobject or dtype.itemsize == 0 or dtype.kind not in "biufcmMSUV":
        return None
    if dtype.names is None:
        text: str = dtype.str
        return text if np.dtype(text) == dtype else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = repr(np.lib.format.dtype_to_descr(dtype))
        try:
            again = np.lib.format.descr_to_dtype(ast.literal_eval(text))
        except (ValueError, TypeError, SyntaxError):
            return None
    return text if again == dtype and len(text) < 4096 else None


def may_change(array: Any) -> bool:
    """Whether an array's memory is writable, through the array or through its base."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        if array.base is None:
            return False
        array = array.base
    if isinstance(array, bytes):
        return False
    from .._native import Memory

    if isinstance(array, Memory):
        return not array.sealed
    try:
        return not memoryview(array).readonly
    except TypeError:
        return True


def is_sealed(array: Any) -> bool:
    """Whether an array lies in shared memory that nobody can write to."""
    from .._native import Memory

    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, Memory) and array.sealed


def memory_of(array: Any) -> Any:
    """The bytes of a contiguous array, as an object with a buffer.

    Not the array itself: NumPy gives out no buffers of dates, among others.
    """
    return array.reshape(-1).view(np.uint8) if array.nbytes else b""


def signature(array: Any) -> Tuple[Any, ...]:
    """Attributes of an array that can change without its memory changing."""
    return array.shape, array.strides, array.dtype, array.__array_interface__["data"]


class ArrayUnits(Units):
    """Rows of an array, or columns of a matrix.

    If the rows lie one after the other in the processor's byte order, chunks are named and read where they are. If not, a
    copy is made that does, and the original is watched by a checksum of its memory.
    """

    def __init__(self, raw: Any, frozen: bool, kind: str, columns: bool) -> None:
        super().__init__(raw, frozen)
        self.kind = f"{kind}.T" if columns else kind
        self.columns = columns
        self._plain = False

    def _rows(self) -> Any:
        array = np.asarray(self.raw)
        return array.T if self.columns else array

    def count(self) -> int:
        return int(self.raw.shape[1 if self.columns else 0])

    def own_references(self) -> int:
        # The native part holds a view, which keeps only the owner of the memory alive.
        return 2 if self._plain and self.raw.base is None else 1

    def standard(self) -> int:
        return standard_rows(self.count(), self.raw.nbytes)

    def take(self, start: int, stop: int) -> Any:
        return self.pick(slice(start, stop))

    def one(self, at: int) -> Any:
        rows = np.asarray(self.raw) if isinstance(self.raw, np.memmap) else self.raw
        return rows[:, at] if self.columns else rows[at]

    def pick(self, which: slice) -> Any:
        # As workers see it: without the mapping.
        rows = np.asarray(self.raw) if isinstance(self.raw, np.memmap) else self.raw
        return rows[:, which] if self.columns else rows[which]

    def make(self, slice_size: int) -> Data:
        from .._native import Data

        rows = self._rows()
        self._signature = signature(rows)
        self._plain = bool(rows.flags.c_contiguous and rows.dtype.isnative)
        watched = not self.frozen and may_change(self.raw)
        self._seen = fingerprint(rows) if watched and not self._plain else None
        if not self._plain:
            rows = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("="))
        return Data.array(
            memory_of(rows),
            kind=self.kind,
            dtype=dtype_text(rows.dtype) or "",
            shape=rows.shape,
            item_bytes=rows.dtype.itemsize,
            slice_size=slice_size,
            may_change=watched and self._plain,
        )

    def refresh(self, data: Data, slice_size: int) -> Data:
        rows = self._rows()
        if self._signature != signature(rows):
            return self.make(slice_size)
        if self._plain:
            data.refresh()
        elif self._seen is not None and self._seen != fingerprint(rows):
            return self.make(slice_size)
        return data


def fingerprint(array: Any) -> bytes:
    """A checksum of an array's memory, without a copy if the array is contiguous in some order."""
    from .._native import checksum

    if array.flags.f_contiguous:
        array = array.T
    return checksum(memory_of(np.ascontiguousarray(array)))


class PickledArrayUnits(PickledUnits):
    """Pickled slices of arrays that only NumPy understands: of objects, with masks, of other subclasses."""

    def __init__(self, raw: Any, frozen: bool, columns: bool) -> None:
        super().__init__(raw, frozen)
        self.columns = columns

    def count(self) -> int:
        return int(self.raw.shape[1 if self.columns else 0])

    def standard(self) -> int:
        return super().standard() if self.raw.dtype.hasobject else standard_rows(self.count(), self.raw.nbytes)

    def take(self, start: int, stop: int) -> Any:
        return self.pick(slice(start, stop))

    def one(self, at: int) -> Any:
        return self.raw[:, at] if self.columns else self.raw[at]

    def pick(self, which: slice) -> Any:
        return self.raw[:, which] if self.columns else self.raw[which]


def is_plain_file(array: Any) -> bool:
    """Whether an array is a whole read-only mapping of a file that still has the same name."""
    return (
        type(array) is np.memmap
        and array.mode == "r"
        and array.filename is not None
        and isinstance(array.base, mmap.mmap)
        and bool(array.flags.c_contiguous)
        and os.path.isfile(array.filename)
        and os.stat(array.filename).st_ino == _mapped_inode(array)
    )


def _mapped_inode(array: Any) -> int:
    """The file that an array maps; another file may have its name now."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            where, _, _, _, inode = line.split(maxsplit=5)[:5]
            start, _, end = where.partition("-")
            if int(start, 16) <= address < int(end, 16):
                return int(inode)
    return 0


class MemmapUnits(ArrayUnits):
    """Rows of an array in a file. Workers on this machine read or map the file themselves.

    If another file takes its name, the array still shows the old one, and is like any other array from then on.
    """

    def __init__(self, raw: Any, frozen: bool) -> None:
        super().__init__(raw, frozen, "ndarray", columns=False)
        self._stamp: Optional[Tuple[int, ...]] = None

    def own_references(self) -> int:
        # The native part holds a view, whose base is the mapping's array.
        return super().own_references() if self._stamp is None else 2

    def make(self, slice_size: int) -> Data:
        from .._native import Data

        array = self.raw
        if not is_plain_file(array):
            self._stamp = None
            return super().make(slice_size)
        self._stamp = self._stamp_now()
        return Data.array_file(
            os.fspath(array.filename),
            offset=array.offset,
            kind="ndarray",
            dtype=dtype_text(array.dtype) or "",
            shape=array.shape,
            item_bytes=array.dtype.itemsize,
            slice_size=slice_size,
            memory=memory_of(array),
        )

    def refresh(self, data: Data, slice_size: int) -> Data:
        if self._stamp is None:
            return super().refresh(data, slice_size)
        return data if self._stamp == self._stamp_now() else self.make(slice_size)

    def _stamp_now(self) -> Tuple[int, ...]:
        try:
            return file_stamp(os.fspath(self.raw.filename))
        except FileNotFoundError:
            return ()
