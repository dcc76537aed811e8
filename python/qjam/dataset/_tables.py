"""Data sets of sparse matrices and tables: slices of rows, pickled with their memory out of band.

Libraries expose their memory beside a pickle where they can. What they cannot expose is inside the pickle, which is slower but
equivalent.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from operator import methodcaller
from typing import Any, Optional, Tuple

from ._units import PickledUnits, Units, standard_rows


def table_units(library: str, data: Any, frozen: bool) -> Units:
    """The units of an object of one of these libraries."""
    make = {"scipy": _scipy, "pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}[library]
    units = make(data, frozen)
    if units is None:
        name = f"{type(data).__module__.partition('.')[0]}'s {type(data).__name__}"
        raise TypeError(f"{name} cannot be a data set; give a table, a column or a sparse matrix, or a list")
    if units.count() == 0:
        raise ValueError(f"the {type(data).__name__} has no rows; a data set has at least one")
    return units


def _scipy(data: Any, frozen: bool) -> Optional[Units]:
    if not import_module("scipy.sparse").issparse(data):
        return None
    if data.format == "csc":
        return SparseUnits(data, frozen, columns=True)
    if data.format == "csr":
        return SparseUnits(data, frozen, columns=False)
    raise TypeError(
        f"a sparse matrix of the format {data.format!r} has no rows to cut; "
        "x.tocsr() is cut into rows, x.tocsc() into columns"
    )


class SparseUnits(PickledUnits):
    """Rows of a CSR matrix or columns of a CSC matrix, whichever lie together in memory."""

    def __init__(self, raw: Any, frozen: bool, columns: bool) -> None:
        super().__init__(raw, frozen)
        self.columns = columns

    def count(self) -> int:
        return int(self.raw.shape[1 if self.columns else 0])

    def standard(self) -> int:
        arrays = self.raw.data, self.raw.indices, self.raw.indptr
        return standard_rows(self.count(), sum(array.nbytes for array in arrays))

    def take(self, start: int, stop: int) -> Any:
        return self.pick(slice(start, stop))

    def one(self, at: int) -> Any:
        return self.pick(slice(at, at + 1))

    def pick(self, which: slice) -> Any:
        return self.raw[:, which] if self.columns else self.raw[which]

    def fingerprint(self) -> Tuple[Any, ...]:
        from ._arrays import fingerprint

        arrays = self.raw.data, self.raw.indices, self.raw.indptr
        return self.raw.shape, [(array.dtype, array.shape, fingerprint(array)) for array in arrays]


def _pandas(data: Any, frozen: bool) -> Optional[Units]:
    pandas = import_module("pandas")
    return PandasUnits(data, frozen) if isinstance(data, (pandas.DataFrame, pandas.Series)) else None


class PandasUnits(PickledUnits):
    """Rows of a DataFrame or a Series."""

    def standard(self) -> int:
        nbytes = self.raw.memory_usage(index=False)
        return standard_rows(self.count(), int(nbytes if isinstance(nbytes, int) else nbytes.sum()))

    def take(self, start: int, stop: int) -> Any:
        return self.raw.iloc[start:stop]

    def one(self, at: int) -> Any:
        return self.raw.iloc[at]

    def pick(self, which: slice) -> Any:
        return self.raw.iloc[which]


def _polars(data: Any, frozen: bool) -> Optional[Units]:
    polars = import_module("polars")
    if isinstance(data, polars.LazyFrame):
        raise TypeError("a LazyFrame has no rows yet; collect() it")
    return PolarsUnits(data, frozen) if isinstance(data, (polars.DataFrame, polars.Series)) else None


class PolarsUnits(PickledUnits):
    """Rows of a DataFrame or a Series."""

    def standard(self) -> int:
        return standard_rows(self.count(), int(self.raw.estimated_size()))

    def take(self, start: int, stop: int) -> Any:
        return self.raw.slice(start, stop - start)


def _pyarrow(data: Any, frozen: bool) -> Optional[Units]:
    pyarrow = import_module("pyarrow")
    kinds = (pyarrow.Table, pyarrow.RecordBatch)
    return ArrowUnits(data, frozen) if isinstance(data, kinds) else None


class ArrowUnits(PickledUnits):
    """Rows of a table or a record batch."""

    def count(self) -> int:
        return int(self.raw.num_rows)

    def standard(self) -> int:
        return standard_rows(self.count(), int(self.raw.nbytes))

    def take(self, start: int, stop: int) -> Any:
        return self.raw.slice(start, stop - start)

    def one(self, at: int) -> Any:
        return self.raw.slice(at, 1)

    def pick(self, which: slice) -> Any:
        start, stop, step = which.indices(self.count())
        return self.take(start, max(start, stop)) if step == 1 else self.raw.take(list(range(start, stop, step)))

    def slices(self, slice_size: int) -> Any:
        return (_ArrowSlice(rows) for rows in super().slices(slice_size))


class _ArrowSlice:
    """A slice of a table, pickled in Arrow's stream format.

    The pickle of a slice would hold the buffers of the whole table. The stream has the slice alone, and whoever reads it
    sees the columns where they lie.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __reduce__(self) -> Tuple[Any, ...]:
        pyarrow = import_module("pyarrow")
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write(self.rows)
        is_table = isinstance(self.rows, pyarrow.Table)
        read = methodcaller("read_all" if is_table else "read_next_batch")
        return read, (_ArrowStream(sink.getvalue()),)


class _ArrowStream:
    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __reduce__(self) -> Tuple[Any, ...]:
        pyarrow = import_module("pyarrow")
        return pyarrow.ipc.open_stream, (pickle.PickleBuffer(self.stream),)
