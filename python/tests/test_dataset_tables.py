"""Sparse matrices and tables: slices are right, carry no more than themselves, and are not copied where that can be."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from test_dataset import as_workers_see_it

from qjam._worker.chunks import open_chunk
from qjam.dataset import DataSet

# Not all of them have types, and those that have change them.
pd: Any = import_module("pandas")
pl: Any = import_module("polars")
pa: Any = import_module("pyarrow")
sp: Any = import_module("scipy.sparse")

ROWS = 1000


def frame() -> Any:
    n = np.arange(ROWS)
    return pd.DataFrame(
        {"i": n, "f": n / 3, "s": [f"text {k}" for k in n], "b": n % 2 == 0, "c": pd.Categorical([f"{k % 3}" for k in n])}
    )


def sparse(form: str, kind: str) -> Any:
    random = np.random.default_rng(0)
    dense = random.normal(size=(ROWS, 40)) * (random.uniform(size=(ROWS, 40)) < 0.1)
    return getattr(sp, f"{form}_{kind}")(dense)


@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_csr_is_cut_into_rows_and_csc_into_columns(kind: str) -> None:
    rows = sparse("csr", kind)
    data = DataSet(rows, 300)
    seen = as_workers_see_it(data)
    assert data.chunks() == ROWS and [x.shape for x in seen] == [(300, 40)] * 3 + [(100, 40)]
    assert type(seen[0]) is type(rows) and (sp.vstack(seen) != rows).nnz == 0
    assert data[5].shape == (1, 40) and data[5:9].shape == (4, 40)
    columns = sparse("csc", kind)
    data = DataSet(columns, 30)
    seen = as_workers_see_it(data)
    assert data.chunks() == 40 and [x.shape for x in seen] == [(ROWS, 30), (ROWS, 10)]
    assert type(seen[0]) is type(columns) and (sp.hstack(seen) != columns).nnz == 0


@pytest.mark.parametrize("array", ["data", "indices"])
def test_a_change_in_a_sparse_matrix_is_noticed(array: str) -> None:
    matrix = sparse("csr", "matrix")
    data = DataSet(matrix, 300)
    before = data.hash_list()
    assert data._native_data() is data._native_data()
    getattr(matrix, array)[-1] -= 1
    assert [a == b for a, b in zip(data.hash_list(), before)] == [True, True, True, False]


def test_other_sparse_formats_say_what_to_do() -> None:
    for form in ("coo", "lil", "dok", "bsr"):
        with pytest.raises(TypeError, match="tocsr"):
            DataSet(sparse("csr", "matrix").asformat(form))


def test_the_arrays_of_a_sparse_matrix_are_not_copied_on_the_worker() -> None:
    chunk = DataSet(sparse("csr", "matrix"), ROWS)._native_data().chunk(0)
    matrix = open_chunk(*chunk)
    memory = np.frombuffer(chunk[3], "u1")
    for array in (matrix.data, matrix.indices, matrix.indptr):
        assert np.may_share_memory(array, memory)


def test_pandas_is_cut_into_rows() -> None:
    table = frame()
    data = DataSet(table, 300)
    seen = as_workers_see_it(data)
    assert data.chunks() == ROWS and all(type(x) is pd.DataFrame for x in seen)
    pd.testing.assert_frame_equal(pd.concat(seen), table)
    pd.testing.assert_frame_equal(data[10:13], table[10:13])
    assert data[7]["s"] == "text 7"
    for name in table:
        column = as_workers_see_it(DataSet(table[name], 300))
        pd.testing.assert_series_equal(pd.concat(column), table[name])
    own_index = table.set_index("s")
    pd.testing.assert_frame_equal(pd.concat(as_workers_see_it(DataSet(own_index, 300))), own_index)


def test_a_change_in_a_table_is_noticed() -> None:
    table = frame()
    data = DataSet(table, 300)
    before = data.hash_list()
    assert data.hash_list() == before
    table.loc[999, "f"] = -1.0
    assert [a == b for a, b in zip(data.hash_list(), before)] == [True, True, True, False]
    table["new"] = 1
    assert not set(data.hash_list()) & set(before)
    assert "new" in as_workers_see_it(data)[0]


def test_polars_is_cut_into_rows() -> None:
    table = pl.from_pandas(frame())
    data = DataSet(table, 300)
    seen = as_workers_see_it(data)
    assert data.chunks() == ROWS and pl.concat(seen).equals(table)
    assert pl.concat(as_workers_see_it(DataSet(table["f"], 300))).equals(table["f"])
    assert data[10:13].equals(table[10:13])
    before = data.hash_list()
    table[999, "i"] = -1
    assert [a == b for a, b in zip(data.hash_list(), before)] == [True, True, True, False]
    with pytest.raises(TypeError, match="collect"):
        DataSet(table.lazy())


def test_arrow_is_cut_into_rows_and_not_copied_on_the_worker() -> None:
    table = pa.Table.from_pandas(frame())
    data = DataSet(table, 300)
    seen = as_workers_see_it(data)
    assert data.chunks() == ROWS and all(isinstance(x, pa.Table) for x in seen)
    assert pa.concat_tables(seen).combine_chunks().equals(table.combine_chunks())
    assert data[10:13].equals(table.slice(10, 3)) and data[7].num_rows == 1
    assert data[::500].column("i").to_pylist() == [0, 500]
    batch = table.to_batches()[0]
    batches = as_workers_see_it(DataSet(batch, 300))
    assert all(isinstance(x, pa.RecordBatch) for x in batches)
    assert pa.Table.from_batches(batches).combine_chunks().equals(table.combine_chunks())
    chunk = data._native_data().chunk(0)
    address = open_chunk(*chunk).column("f").chunk(0).buffers()[1].address
    start = np.frombuffer(chunk[3], "u1").__array_interface__["data"][0]
    assert start <= address < start + len(chunk[3])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "csr"])
def test_a_slice_carries_no_more_than_itself(library: str) -> None:
    table = frame()
    data: Any = {
        "pandas": lambda: table,
        "polars": lambda: pl.from_pandas(table),
        "pyarrow": lambda: pa.Table.from_pandas(table),
        "csr": lambda: sparse("csr", "matrix"),
    }[library]()
    whole = DataSet(data, ROWS)._native_data().nbytes
    slices = DataSet(data, ROWS // 10)._native_data()
    largest = max(len(slices.chunk(index)[3]) for index in range(len(slices)))
    assert largest < whole / 4


@pytest.mark.parametrize(
    "empty",
    [frame()[:0], frame()["f"][:0], pl.DataFrame({"a": []}), pa.table({"a": []}), sp.csr_matrix((0, 3)), sp.csc_matrix((3, 0))],
)
def test_tables_without_rows_are_a_value_error(empty: Any) -> None:
    with pytest.raises(ValueError, match="no rows"):
        DataSet(empty)


def test_other_things_of_these_libraries_are_a_type_error() -> None:
    for wrong in (pd.Timestamp("2020"), pa.schema([]), pl.col("a"), pd.Index([1])):
        with pytest.raises(TypeError, match="cannot be a data set"):
            DataSet(wrong)


@pytest.mark.parametrize("rows", [1, 100, 100_000])
def test_slices_of_tables_follow_from_their_size(rows: int) -> None:
    table = pd.DataFrame({"a": np.arange(rows), "b": np.arange(rows)})
    assert DataSet(table).slices() == max(1, -(-rows * 16 // 65536))
