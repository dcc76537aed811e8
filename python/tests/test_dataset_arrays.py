"""Arrays of every kind: what workers get is what the array holds, without a copy where that can be."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_dataset import as_workers_see_it

from qjam.dataset import DataSet, NumpyMatrixDataSet, NumpyMatrixFileDataSet, as_dataset

ROWS = 10


def numbers(dtype: Any) -> Any:
    return (np.arange(ROWS * 3) % 7).reshape(ROWS, 3).astype(dtype)


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


ARRAYS: dict[str, Any] = {
    **{dtype: numbers(dtype) for dtype in "? b B h H i I l L q Q e f d g F D".split()},
    "one dimension": np.arange(ROWS),
    "four dimensions": np.arange(ROWS * 8).reshape(ROWS, 2, 2, 2),
    "big-endian": numbers(">f8"),
    "big-endian integers": numbers(">i2"),
    "Fortran order": np.asfortranarray(numbers("d")),
    "Fortran order, big-endian": np.asfortranarray(numbers(">c8")),
    "every second row": np.arange(ROWS * 6).reshape(ROWS * 2, 3)[::2],
    "backwards": numbers("d")[::-1],
    "some columns": np.arange(ROWS * 5.0).reshape(ROWS, 5)[:, 1:4],
    "turned": np.arange(ROWS * 3).reshape(3, ROWS).T,
    "stretched": np.broadcast_to(np.arange(3.0), (ROWS, 3)),
    "read-only": frozen(numbers("d")),
    "from bytes": np.frombuffer(bytes(range(ROWS * 3)), "u1").reshape(ROWS, 3),
    "misaligned": np.frombuffer(b"x" + bytes(ROWS * 8), "<f8", offset=1),
    "dates": np.arange("2020-01", "2020-11", dtype="M8[M]"),
    "durations": np.arange(ROWS).astype("m8[ns]"),
    "texts": np.array([f"text {n}" for n in range(ROWS)]),
    "bytes": np.array([b"abc"[: n % 4] for n in range(ROWS)]),
    "raw": np.arange(ROWS * 3, dtype="u1").view("V3"),
    "structured": np.array([(n, n / 2, f"{n}") for n in range(ROWS)], dtype=[("a", "i4"), ("b", "f8"), ("c", "U3")]),
    "structured with gaps": np.zeros(ROWS, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "structured, nested": np.zeros(ROWS, [("p", [("x", "f4", (2, 2)), ("y", ">i2")]), ("q", "S2")]),
    "no columns": np.zeros((ROWS, 0)),
    "texts without letters": np.array([""] * ROWS, dtype="U0"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("slice_size", [1, 4, 100])
def test_workers_get_the_values_and_the_type_of_any_array(name: str, slice_size: int) -> None:
    array = ARRAYS[name]
    data = DataSet(array, slice_size)
    seen = as_workers_see_it(data)
    assert [len(x) for x in seen] == [len(data.slice(i)) for i in range(data.slices())]
    together = np.concatenate(seen)
    assert together.shape == array.shape
    assert np.array_equal(together, array)
    for x in seen:
        assert x.dtype == array.dtype.newbyteorder("=")
        assert type(x) is np.ndarray and not x.flags.writeable and x.flags.c_contiguous


@pytest.mark.parametrize("name", ARRAYS)
def test_a_change_of_any_array_is_noticed(name: str) -> None:
    array = ARRAYS[name].copy(order="K") if name != "stretched" else ARRAYS[name].copy()
    if array.nbytes == 0:
        return
    data = DataSet(array, slice_size=3)
    before = data.hash_list()
    assert data.hash_list() == before
    assert not data._native_data().changed()
    # The last byte of the last row.
    last = np.frombuffer(array[-1:].tobytes(), "u1").copy()
    last[0] ^= 1
    array[-1:] = last.view(array.dtype).reshape(array[-1:].shape)
    after = data.hash_list()
    assert after[:-1] == before[:-1] and after[-1] != before[-1]
    assert np.array_equal(np.concatenate(as_workers_see_it(data)), array)


def test_a_change_of_shape_or_type_in_place_is_noticed() -> None:
    array = np.arange(12.0)
    data = DataSet(array, slice_size=2)
    assert len(data.hash_list()) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of NumPy would rather that nobody did this
        array.shape = (6, 2)
    assert [x.shape for x in as_workers_see_it(data)] == [(2, 2)] * 3


def test_arrays_that_nobody_can_write_to_are_not_looked_at() -> None:
    array = np.arange(12.0)
    view = frozen(array[:6])
    own = frozen(np.arange(6.0))
    changes, stays = DataSet(view), DataSet(own)
    before = changes.hash(0)
    stays.hash(0)
    array[0] = 7
    assert changes.hash(0) != before, "through what it is a view of"
    own.flags.writeable = True
    own[0] = 7
    assert not stays._native_data().changed()


def test_plain_matrices_can_be_read_by_learners_in_rust() -> None:
    for dtype, name in [("f8", "f64"), ("f4", "f32"), ("i8", "i64"), ("i4", "i32"), ("u1", "u8")]:
        kind, element, shape, _ = DataSet(numbers(dtype))._native_data().chunk(0)
        assert (kind, element, shape) == ("dense", name, [ROWS, 3])
    assert DataSet(numbers("c16"))._native_data().chunk(0)[:2] == ("ndarray", "<c16")


def test_masks_stay() -> None:
    array = np.ma.array(numbers("d"), mask=numbers("i") == 3)
    masked: Any = np.ma
    seen = masked.concatenate(as_workers_see_it(DataSet(array, 4)))
    assert isinstance(seen, np.ma.MaskedArray) and np.array_equal(seen.mask, array.mask)
    assert seen.sum() == array.sum()
    data = DataSet(array, 4)
    before = data.hash_list()
    array[5, 1] = np.ma.masked
    assert [a == b for a, b in zip(data.hash_list(), before)] == [True, False, True]


def test_subclasses_stay_what_they_are() -> None:
    matrix = np.matrix(numbers("d"))
    assert all(type(x) is np.matrix for x in as_workers_see_it(DataSet(matrix, 4)))
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    (seen,) = as_workers_see_it(DataSet(records))
    assert type(seen) is np.recarray and seen.b.tolist() == [2.0, 4.0]


def test_arrays_of_objects_are_pickled_and_watched() -> None:
    array = np.array([{"a": 1}, [2], "three", None], dtype=object)
    data = DataSet(array, 3)
    seen = as_workers_see_it(data)
    assert seen[0].tolist() == [{"a": 1}, [2], "three"] and seen[1].tolist() == [None]
    before = data.hash_list()
    array[0]["a"] = 7
    assert data.hash_list()[0] != before[0] and data.hash_list()[1] == before[1]


def test_anything_that_is_an_array_to_numpy_is_one_here() -> None:
    import array

    (seen,) = as_workers_see_it(DataSet(array.array("d", [1, 2, 3])))
    assert seen.tolist() == [1, 2, 3]

    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3)

    assert as_workers_see_it(DataSet(Wrapped()))[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("empty", [np.empty((0, 3)), np.ma.array([]), np.empty(0, dtype=object), np.matrix(np.empty((0, 2)))])
def test_arrays_without_rows_are_a_value_error(empty: Any) -> None:
    with pytest.raises(ValueError, match="no rows"):
        DataSet(empty)


def test_columns_without_rows_are_columns_all_the_same() -> None:
    data = NumpyMatrixDataSet(np.empty((0, 3)), row_major=False)
    assert data.chunks() == 3 and as_workers_see_it(data)[0].shape == (0, 3)
    with pytest.raises(ValueError, match="no columns"):
        NumpyMatrixDataSet(np.empty((3, 0)), row_major=False)


def test_equal_content_has_equal_names_in_another_process() -> None:
    code = (
        "import numpy as np; from qjam.dataset import DataSet\n"
        "print(*DataSet(np.arange(1000.0).reshape(100, 10), 30).hash_list())\n"
        "print(*DataSet([1, 'two', (3.0, b'four')], 2).hash_list())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = [
        DataSet(np.asfortranarray(np.arange(1000.0).reshape(100, 10)), 30).hash_list(),
        DataSet([1, "two", (3.0, b"four")], 2).hash_list(),
    ]
    assert [line.split() for line in out.splitlines()] == here


def test_names_depend_on_content_type_and_shape() -> None:
    zeros = [np.zeros((4, 2)), np.zeros((2, 4)), np.zeros((4, 2), "i8"), np.zeros(8), np.zeros((4, 2)) + 1]
    assert len({DataSet(array, 100).hash(0) for array in zeros}) == 5


def test_a_memory_map_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    array = np.arange(3000.0).reshape(1000, 3)
    np.save(path, array)
    for mapped in (np.load(path, mmap_mode="r"), np.memmap(path, "f8", "r", 128, (1000, 3))):
        data = DataSet(mapped, 300)
        assert np.array_equal(np.concatenate(as_workers_see_it(data)), array)
        assert data.hash_list() == DataSet(array, 300).hash_list()
        assert type(data._units).__name__ == "MemmapUnits"


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_a_memory_map_that_can_be_written_is_like_any_array(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(3000.0).reshape(1000, 3))
    mapped = np.load(path, mmap_mode=mode)
    data = DataSet(mapped, 300)
    before = data.hash_list()
    mapped[999, 0] = -1
    assert [a == b for a, b in zip(data.hash_list(), before)] == [True, True, True, False]
    assert as_workers_see_it(data)[3][-1, 0] == -1


def test_a_part_of_a_memory_map_is_the_part_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    array = np.arange(3000.0).reshape(1000, 3)
    np.save(path, array)
    part = np.load(path, mmap_mode="r")[10:20]
    assert np.array_equal(as_workers_see_it(DataSet(part))[0], array[10:20])


def test_a_file_that_is_written_to_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(12.0).reshape(6, 2))
    data = NumpyMatrixFileDataSet(path, slice_size=4)
    before = data.hash_list()
    mapped = np.load(path, mmap_mode="r+")
    mapped[5, 1] = -1
    mapped.flush()
    os.utime(path, (1, 1))
    after = data.hash_list()
    assert after[0] == before[0] and after[1] != before[1]


def test_a_file_with_another_array_in_it_is_read_as_what_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(12.0).reshape(6, 2))
    data = DataSet(path, slice_size=4)
    assert data.chunks() == 6 and data.raw_data().shape == (6, 2)
    given = as_dataset(str(path))
    assert given is as_dataset(path), "the same file is cut once"
    mapped = np.load(path, mmap_mode="r")
    from_map = DataSet(mapped, slice_size=4)
    before = from_map.hash_list()
    np.save(tmp_path / "y.npy", np.arange(20, dtype="i4").reshape(5, 4))
    os.replace(tmp_path / "y.npy", path)
    assert data.chunks() == 5
    assert np.array_equal(np.concatenate(as_workers_see_it(data)), np.arange(20).reshape(5, 4))
    assert as_workers_see_it(as_dataset(path))[0].dtype == "i4"  # type: ignore[arg-type]
    assert from_map.hash_list() == before, "a mapping shows what was mapped"
    assert np.array_equal(np.concatenate(as_workers_see_it(from_map)), np.arange(12.0).reshape(6, 2))
    assert np.array_equal(np.concatenate(as_workers_see_it(DataSet(mapped, 4))), mapped)
    os.remove(path)
    with pytest.raises(FileNotFoundError):
        data.hash_list()
    assert from_map.hash_list() == before


@pytest.mark.parametrize("name", ["big-endian", "Fortran order", "dates", "structured", "four dimensions", "?"])
def test_npy_files_of_many_types_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npy"
    np.save(path, ARRAYS[name])
    for data in (DataSet(str(path), 3), NumpyMatrixFileDataSet(path, 3)):
        assert np.array_equal(np.concatenate(as_workers_see_it(data)), ARRAYS[name])


def test_npy_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}, []], dtype=object))
    with pytest.raises(ValueError, match="x.npy"):
        DataSet(path)
    path.write_bytes(b"not an array")
    with pytest.raises(ValueError, match="x.npy"):
        DataSet(path)
    np.savez(tmp_path / "y.npz", a=np.ones(3))
    with pytest.raises(TypeError, match="several arrays"):
        DataSet(tmp_path / "y.npz")


LARGE = """
import numpy as np, sys
from qjam.dataset import DataSet

def resident():
    with open("/proc/self/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon", "RssShmem"))) >> 10

array = np.ones((1 << 21, 16))  # 256 MiB
before = resident()
data = DataSet(array)
native = data._native_data()
assert len(native) == 256, len(native)
names = data.hash_list()
start = native.chunk(0)[3].__array_interface__["data"][0]
assert start == array.__array_interface__["data"][0], "the chunk lies in the array"
array[-1, -1] = 7
after = data.hash_list()
assert names[:-1] == after[:-1] and names[-1] != after[-1]
grown = resident() - before
print(grown)
"""


def test_a_large_array_is_not_copied() -> None:
    out = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True).stdout
    assert int(out) < 16, "MiB more than the array itself"


def test_no_warnings_are_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for array in ARRAYS.values():
            as_workers_see_it(DataSet(array, 3))
