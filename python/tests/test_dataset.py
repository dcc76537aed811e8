"""The classes of the report, and the rules of their constructors."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from qjam._worker.chunks import open_chunk
from qjam.dataset import (
    BaseDataSet,
    DataSet,
    ListDataSet,
    NumpyMatrixDataSet,
    NumpyMatrixFileDataSet,
    ZippedDataSet,
    as_dataset,
)
from qjam.errors import PicklingError


def as_workers_see_it(data: BaseDataSet) -> list[Any]:
    """Every slice as a function on a worker gets it."""
    native = data._native_data()
    return [open_chunk(*native.chunk(index)) for index in range(len(native))]


def test_units_are_counted_and_slices_are_groups_of_them() -> None:
    data = DataSet(list("abcdefg"), slice_size=3)
    assert (data.chunks(), len(data), data.slices(), data.slice_size) == (7, 7, 3, 3)
    assert [data.slice(i) for i in range(3)] == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert data.raw_data() == list("abcdefg")
    assert data[3] == "d" and data[-1] == "g" and data[2:5] == ["c", "d", "e"] and data[::-3] == ["g", "d", "a"]
    assert list(data) == list("abcdefg")
    assert as_workers_see_it(data) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


@pytest.mark.parametrize("index", [-1, 3, 100])
def test_slices_that_are_not_there_are_an_index_error(index: int) -> None:
    data = DataSet(list("abcdefg"), slice_size=3)
    for ask in (data.slice, data.hash):
        with pytest.raises(IndexError, match="has 3"):
            ask(index)
    with pytest.raises(IndexError, match="has 7"):
        data[7]
    with pytest.raises(IndexError, match="has 7"):
        data[-8]


def test_the_slice_size_can_be_set_and_a_given_one_is_used_as_it_is() -> None:
    data = ListDataSet(range(100), slice_size=1000)
    assert data.slices() == 1 and as_workers_see_it(data) == [list(range(100))]
    assert len(as_workers_see_it(NumpyMatrixDataSet(np.ones((3, 2)), 10**30))) == 1
    data.slice_size = 40
    assert [len(items) for items in as_workers_see_it(data)] == [40, 40, 20]
    for wrong in (0, -3):
        with pytest.raises(ValueError, match="at least 1"):
            data.slice_size = wrong
    for odd in ("3", 2.0, None, True):
        with pytest.raises(TypeError, match="whole number"):
            data.slice_size = odd  # type: ignore[assignment]
    assert data.slice_size == 40
    with pytest.raises(ValueError):
        ListDataSet([1], slice_size=0)


@pytest.mark.parametrize("count, size", [(1, 1), (256, 1), (257, 2), (100_000, 391)])
def test_lists_are_cut_into_about_256_slices(count: int, size: int) -> None:
    assert ListDataSet(range(count)).slice_size == size


@pytest.mark.parametrize(
    "shape, rows",
    [((10, 4), 2048), ((1 << 20, 8), 4096), ((1 << 26, 8), 65536), ((3, 1 << 22), 1)],
)
def test_arrays_are_cut_into_slices_between_64_kib_and_4_mib(shape: tuple[int, int], rows: int) -> None:
    assert DataSet(np.broadcast_to(np.zeros(1), shape)).slice_size == rows


def test_ranges_and_tuples_are_lists_too() -> None:
    assert as_workers_see_it(ListDataSet(range(1, 8), 3)) == [[1, 2, 3], [4, 5, 6], [7]]
    assert as_workers_see_it(ListDataSet((1, 2, 3), 2)) == [(1, 2), (3,)]


@pytest.mark.parametrize("wrong", [None, 3, "text", {1: 2}, {1, 2}, (n for n in range(3)), np.ones(3)])
def test_a_list_data_set_of_something_else_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="ListDataSet takes a list"):
        ListDataSet(wrong)


@pytest.mark.parametrize("wrong", [None, 3, [[1, 2], [3, 4]], "text", np.float64(3)])
def test_a_matrix_data_set_of_something_else_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="NumPy array"):
        NumpyMatrixDataSet(wrong)


@pytest.mark.parametrize("wrong", [None, 3, [1], np.ones((2, 2))])
def test_a_file_data_set_of_something_else_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="name of a file"):
        NumpyMatrixFileDataSet(wrong)


@pytest.mark.parametrize("empty", [[], (), range(0), np.empty((0, 3)), np.empty(0)])
def test_empty_data_sets_are_a_value_error(empty: Any) -> None:
    with pytest.raises(ValueError, match="at least one"):
        DataSet(empty)


def test_matrices_are_cut_by_rows_or_by_columns() -> None:
    matrix = np.arange(12).reshape(3, 4)
    rows = NumpyMatrixDataSet(matrix, 2)
    assert (rows.chunks(), rows.slices()) == (3, 2)
    assert [x.tolist() for x in as_workers_see_it(rows)] == [matrix[:2].tolist(), matrix[2:].tolist()]
    columns = NumpyMatrixDataSet(matrix, slice_size=3, row_major=False)
    assert (columns.chunks(), columns.slices()) == (4, 2)
    assert [x.tolist() for x in as_workers_see_it(columns)] == [matrix[:, :3].tolist(), matrix[:, 3:].tolist()]
    assert columns.slice(1).tolist() == matrix[:, 3:].tolist()
    assert len(columns) == 2 and columns[1].tolist() == matrix[:, 3:].tolist()
    assert DataSet(matrix)[1].tolist() == [4, 5, 6, 7]
    with pytest.raises(TypeError, match="1 dimensions"):
        NumpyMatrixDataSet(np.ones(3), row_major=False)


def test_the_matrix_of_the_poster_stays_a_matrix() -> None:
    matrix = np.matrix("1 2 3 4; 5 6 7 8; 9 10 11 12")
    data = NumpyMatrixDataSet(matrix)
    (whole,) = as_workers_see_it(data)
    assert type(whole) is np.matrix and (whole == matrix).all() and int(whole.sum()) == 78
    (turned,) = as_workers_see_it(NumpyMatrixDataSet(matrix, row_major=False))
    assert type(turned) is np.matrix and (turned == matrix).all()


class Letters(BaseDataSet):
    """The least that a data set of one's own has."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def chunks(self) -> int:
        return len(self.text)

    def slice(self, index: int) -> Any:
        self.asked += 1
        return {"letter": self.text[index], "array": np.full(3, index)}


def test_chunks_and_slice_are_all_that_a_data_set_of_ones_own_needs() -> None:
    data = Letters("abc")
    seen = as_workers_see_it(data)
    assert [one["letter"] for one in seen] == ["a", "b", "c"]
    assert [one["array"].tolist() for one in seen] == [[0] * 3, [1] * 3, [2] * 3]
    assert len(data) == 3 and data[-1]["letter"] == "c" and data[1:][0]["letter"] == "b"
    assert data.asked == 3 + 1 + 2
    assert len(set(data.hash_list())) == 3 and data.hash(0) == data.hash_list()[0]
    assert data.asked == 6, "slices are asked for once"
    data.text = "xbc"
    data.forget()
    assert as_workers_see_it(data)[0]["letter"] == "x"


def test_slices_of_ones_own_may_have_several_units() -> None:
    class Blocks(BaseDataSet):
        slice_size = 4

        def chunks(self) -> int:
            return 10

        def slice(self, index: int) -> list[int]:
            return list(range(10))[4 * index : 4 * index + 4]

    data = Blocks()
    assert data.slices() == 3
    assert as_workers_see_it(data) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert data._native_data().records == 10 and len(data) == 3 and data[2] == [8, 9]


def test_what_a_data_set_of_ones_own_lacks_is_named() -> None:
    class Nothing(BaseDataSet):
        pass

    class Empty(BaseDataSet):
        def chunks(self) -> int:
            return 0

    with pytest.raises(NotImplementedError, match=r"Nothing must define chunks\(\)"):
        Nothing()._native_data()
    with pytest.raises(ValueError, match="Empty has no slices"):
        Empty()._native_data()


@pytest.mark.parametrize(
    "wrong, hint",
    [
        ({1: 2}, r"list\(d.items\(\)\)"),
        ({1, 2}, "no order"),
        ((n for n in range(3)), r"list\(...\)"),
        (42, "give a list"),
        (np.float64(3), "at least one dimension"),
        (np.array(3), "without dimensions"),
        (object(), "give a list"),
        (lambda: 0, "give a list"),
    ],
)
def test_what_cannot_be_a_data_set_is_a_type_error_with_a_hint(wrong: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        DataSet(wrong)
    with pytest.raises(TypeError, match=hint):
        as_dataset(wrong)


def test_a_data_set_is_not_put_into_another() -> None:
    data = ListDataSet([1])
    assert as_dataset(data) is data
    with pytest.raises(TypeError, match="data set already"):
        DataSet(data)


def test_none_is_no_data_set_and_an_empty_one_is_an_error() -> None:
    assert as_dataset(None) is None
    nothings: list[Any] = [[], (), range(0)]
    for empty in nothings:
        with pytest.raises(ValueError, match="empty.*dataset=None"):
            as_dataset(empty)


def test_length_and_items_of_the_classes_of_the_report_are_those_of_slices(tmp_path: Path) -> None:
    matrix = np.arange(10.0).reshape(5, 2)
    np.savetxt(tmp_path / "matrix.txt", matrix, fmt="%3d")
    sets: list[tuple[Any, Any]] = [
        (ListDataSet(list("abcde"), 2), list("abcde")),
        (NumpyMatrixDataSet(matrix, 2), matrix),
        (NumpyMatrixFileDataSet(tmp_path / "matrix.txt", 2), matrix),
    ]
    for data, all_of_it in sets:
        slices = [list(map(repr, data.slice(index))) for index in range(data.slices())]
        assert slices == [list(map(repr, all_of_it[at : at + 2])) for at in (0, 2, 4)]
        assert (data.chunks(), len(data)) == (5, 3)
        assert [list(map(repr, data[index])) for index in range(len(data))] == slices
        assert [list(map(repr, some)) for some in data] == slices == [list(map(repr, some)) for some in data[0:3]]
        assert list(map(repr, data[-1])) == slices[-1]
        with pytest.raises(IndexError, match="no slice 3.* has 3"):
            data[3]


def test_a_data_set_of_ones_own_may_call_the_base_with_a_slice_size_as_the_report_does() -> None:
    class Words(BaseDataSet):
        def __init__(self, words: Any, slice_size: int) -> None:
            BaseDataSet.__init__(self, slice_size)
            self.words = words

        def chunks(self) -> int:
            return len(self.words)

        def slice(self, index: int) -> Any:
            return self.words[index * self.slice_size : (index + 1) * self.slice_size]

    one, two = Words(["a", "b", "c"], 1), Words(["a", "b", "c"], 2)
    assert (len(one), one[2], as_workers_see_it(one)) == (3, ["c"], [["a"], ["b"], ["c"]])
    assert (len(two), two[1], as_workers_see_it(two)) == (2, ["c"], [["a", "b"], ["c"]])
    with pytest.raises(ValueError, match="at least 1"):
        Words(["a"], 0)


def test_zipped_data_is_cut_at_the_same_rows_and_watched() -> None:
    x, y = np.arange(10.0).reshape(5, 2), [1, 0, 1, 1, 0]
    data = ZippedDataSet(x, y, slice_size=2)
    assert (data.chunks(), data.slices()) == (5, 3)
    rows, labels = as_workers_see_it(data)[1]
    assert rows.tolist() == x[2:4].tolist() and labels == [1, 1]
    assert data[4][1] == 0 and data[1:3][0].tolist() == x[1:3].tolist() and data.raw_data()[0] is x
    before = data.hash_list()
    x[4, 1] = 7
    after = data.hash_list()
    assert before[:2] == after[:2] and before[2] != after[2]
    with pytest.raises(ValueError, match=r"same length.*\[5, 4\]"):
        ZippedDataSet(x, y[:4])
    with pytest.raises(TypeError, match="two or more"):
        ZippedDataSet(x)


def test_a_tuple_of_arrays_is_refused_and_what_to_write_is_said() -> None:
    x, y = np.ones((4, 2)), np.ones(4)
    for wrong in ((x, y), (x, [1, 2, 3, 4]), (pd.DataFrame(x), y), (sp.csr_matrix(x), y)):
        with pytest.raises(TypeError, match=r"data set of 2 items.*ZippedDataSet\(x, y\).*list"):
            as_dataset(wrong)
    assert as_dataset([x, y]).chunks() == 2  # type: ignore[union-attr]
    assert as_dataset((np.float64(1), 2.5)).chunks() == 2  # type: ignore[union-attr]


def test_an_item_that_cannot_be_pickled_is_named_by_its_slice() -> None:
    with pytest.raises(PicklingError, match="slice 1 of the data set.*lock"):
        ListDataSet([1, 2, threading.Lock()], slice_size=2)._native_data()


def test_items_may_be_functions_and_classes_of_the_script() -> None:
    assert as_workers_see_it(ListDataSet([lambda: 42]))[0][0]() == 42


def test_changed_lists_are_noticed_however_deep_the_change_is() -> None:
    items: list[Any] = [{"a": [1, 2]}, "b", "c", "d"]
    data = ListDataSet(items, slice_size=2)
    before = data.hash_list()
    assert data.hash_list() == before
    assert data._native_data() is data._native_data()
    items[0]["a"].append(3)
    after = data.hash_list()
    assert after[0] != before[0] and after[1] == before[1]
    items.append("e")
    assert len(data.hash_list()) == 3 and as_workers_see_it(data)[2] == ["e"]
    items[1:] = []
    assert as_workers_see_it(data) == [[{"a": [1, 2, 3]}]]
    items.clear()
    with pytest.raises(ValueError, match="become empty"):
        data.hash_list()


def test_frozen_lists_are_not_looked_at_again() -> None:
    items = [1, 2, 3]
    data = DataSet(items, frozen=True)
    before = data.hash_list()
    items[0] = 7
    assert data.hash_list() == before


def test_equal_numbers_of_other_types_are_a_change() -> None:
    items: list[Any] = [1, 2]
    data = ListDataSet(items)
    before = data.hash_list()
    items[0] = 1.0
    assert data.hash_list()[0] != before[0]


def test_what_is_given_to_runs_again_and_again_is_cut_once_and_let_go() -> None:
    matrix = np.ones((1000, 3))
    first = as_dataset(matrix)
    assert first is not None
    first._native_data()
    assert as_dataset(matrix) is first
    assert as_dataset(matrix.copy()) is not first
    del first
    count = sys.getrefcount(matrix)
    view_of_nothing_else = np.ones(3)
    as_dataset(view_of_nothing_else)
    assert sys.getrefcount(matrix) == count, "it is still in use here"
    import weakref

    gone = weakref.ref(matrix)
    del matrix
    as_dataset(view_of_nothing_else)
    assert gone() is None, "nobody else has it any more"


def test_lines_of_a_text_file_are_units(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes("roses\r\nvioläts\n\nsugar".encode())
    data = DataSet(path, slice_size=2)
    assert data.chunks() == 4
    assert as_workers_see_it(data) == [["roses", "violäts"], ["", "sugar"]] == [data.slice(0), data.slice(1)]
    assert data[3] == "sugar" and data[1:3] == ["violäts", ""]
    assert data[::-1] == data.raw_data()[::-1] and data[2::-2] == ["", "roses"] and data[1:3:-1] == []
    path.write_text("other\n")
    assert data.chunks() == 1 and as_workers_see_it(data) == [["other"]]
    path.write_text("")
    with pytest.raises(ValueError, match="no lines"):
        DataSet(str(path))
    with pytest.raises(FileNotFoundError):
        DataSet(tmp_path / "absent.txt")
    with pytest.raises((OSError, TypeError)):
        DataSet(tmp_path)


def test_a_text_file_of_numbers_is_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    matrix = np.random.default_rng(0).normal(size=(50, 4))
    np.savetxt(path, matrix, fmt="%24.17e")
    data = NumpyMatrixFileDataSet(str(path), slice_size=20)
    assert (data.chunks(), data.slices()) == (50, 3)
    assert np.array_equal(np.vstack(as_workers_see_it(data)), matrix)
    assert np.array_equal(data.slice(2), matrix[40:])
    rows = DataSet(matrix)
    assert np.array_equal(rows[7], matrix[7]) and np.array_equal(rows[3:9], matrix[3:9])
    path.write_bytes(b"1,2\n3,4\n5,6")
    assert data.chunks() == 3 and data.raw_data().tolist() == [[1, 2], [3, 4], [5, 6]], "it was written anew"
    again = NumpyMatrixFileDataSet(path, slice_size=2)
    assert [x.tolist() for x in as_workers_see_it(again)] == [[[1, 2], [3, 4]], [[5, 6]]]


@pytest.mark.parametrize(
    "text, words",
    [
        ("1 2\n3 40\n5 6\n", "line 2 has 5 bytes"),
        ("", "empty"),
        ("\n\n", "blank"),
        ("a b\nc d\n", "line 1.*'a'"),
    ],
)
def test_a_text_file_that_is_no_matrix_is_a_value_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        NumpyMatrixFileDataSet(path)


def test_a_line_with_too_few_numbers_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text("1 2\n345\n5 6\n")
    with pytest.raises(ValueError, match="should have 6 numbers and have 5"):
        as_workers_see_it(NumpyMatrixFileDataSet(path))
