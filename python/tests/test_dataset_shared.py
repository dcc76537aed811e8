"""What a round over a large array costs besides computing, by counts of bytes that were named, summed and copied."""

from __future__ import annotations

import pathlib
from typing import Any, Iterator, List, Tuple

import numpy as np
import pytest

import qjam
from qjam import DataSet, Master, _native

#: More than is copied at once.
ROWS, COLS = 70_000, 128
CHUNK_ROWS = 4096


@pytest.fixture(scope="module")
def master() -> Iterator[Master]:
    with Master("local:2") as m:
        yield m


def total(params: Any, rows: Any) -> Any:
    return rows.sum(axis=0)


def numbers() -> Any:
    # An array that owns its memory: nobody can write to it through another one.
    return np.arange(ROWS * COLS, dtype=np.float64).reshape(ROWS, COLS).copy()


def traffic_of(master: Master, data: Any, rounds: int) -> List[Tuple[int, ...]]:
    """What each of some rounds names, sums and copies, in arrays; what they compute is compared."""
    raw = data.raw_data() if isinstance(data, DataSet) else data
    counts = []
    for _ in range(rounds):
        before = _native.traffic()
        found = master.run(total, None, data)
        counts.append(tuple(now - then for now, then in zip(_native.traffic(), before)))
        assert np.allclose(found, raw.sum(axis=0), rtol=1e-12)
    assert raw.nbytes > 64 << 20
    return [tuple(count / raw.nbytes for count in round_counts) for round_counts in counts]


def test_a_large_array_is_copied_until_it_was_left_alone_and_then_never(master: Master) -> None:
    x = numbers()
    data = DataSet(x, CHUNK_ROWS)
    # Named once, and looked at before every round; the copy that is kept is compared with what was named.
    assert traffic_of(master, data, 4) == [(1, 1, 1), (0, 2, 1), (0, 1, 0), (0, 1, 0)]
    x[5, 3] += 1
    changed = CHUNK_ROWS / ROWS
    named, summed, copied = traffic_of(master, data, 1)[0]
    assert summed == 1 and [named, copied] == pytest.approx([changed, changed])


def test_what_cannot_change_is_not_looked_at(master: Master) -> None:
    x = numbers()
    assert traffic_of(master, DataSet(x, frozen=True), 3) == [(1, 0, 1), (0, 0, 1), (0, 0, 0)]
    x.flags.writeable = False
    assert traffic_of(master, x, 3) == [(1, 0, 1), (0, 0, 1), (0, 0, 0)]


def test_mapped_files_are_named_and_nothing_else(master: Master, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, numbers())
    x = np.load(path, mmap_mode="r")
    assert traffic_of(master, x, 3) == [(1, 0, 0), (0, 0, 0), (0, 0, 0)]
    assert traffic_of(master, DataSet(path), 2) == [(1, 0, 0), (0, 0, 0)]
    again = np.load(path, mmap_mode="r+")
    again[7, 7] = 1e6
    again.flush()
    # The file has another time, so it is named anew.
    assert traffic_of(master, x, 2) == [(1, 0, 0), (0, 0, 0)]


def test_a_file_that_became_shorter_ends_the_round_and_not_the_program(master: Master, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.bin"
    numbers().tofile(path)
    x = np.memmap(path, np.float64, "r", shape=(ROWS, COLS))

    def shorten(params: Any, rows: Any) -> Any:
        with open(params, "r+b") as file:
            file.truncate(4096)
        return rows.sum(axis=0)

    # The interpreter dies of it, or a new one finds too few bytes.
    with pytest.raises((qjam.QjamError, TypeError, ValueError)):
        master.run(shorten, str(path), x)
    assert master.run(total, None, np.ones((10, 2))).tolist() == [10, 10]


def test_shared_arrays_are_named_once_wherever_they_begin(master: Master) -> None:
    x = qjam.shared(numbers())
    assert traffic_of(master, x, 2) == [(1, 0, 0), (0, 0, 0)]
    assert traffic_of(master, x[100:], 2) == [(1, 0, 0), (0, 0, 0)]
    before = _native.traffic()
    held = master.hold(lambda chunk: len(chunk), x)
    assert sum(held.collect()) == ROWS
    assert _native.traffic() == before
    with Master("local:1") as another:
        assert traffic_of(another, x, 1) == [(0, 0, 0)]


def test_a_hold_copies_a_large_array_once(master: Master) -> None:
    def count(params: Any, chunk: Any, state: Any) -> int:
        state["rows"] += len(chunk)
        return int(state["rows"])

    x = numbers()
    held = master.hold(lambda chunk: {"rows": 0}, DataSet(x, CHUNK_ROWS, frozen=True))
    before = _native.traffic()
    assert [held.run(count, None) for _ in range(2)] == [ROWS, 2 * ROWS]
    assert _native.traffic() == before


def test_processes_map_shared_arrays() -> None:
    x = qjam.shared(numbers())
    with Master("proc:1") as m:
        assert traffic_of(m, x, 2) == [(1, 0, 0), (0, 0, 0)]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.int16).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(12.0)[::-2],
        np.arange(6, dtype=">f4"),
        np.array(["2001-01-02", "1999-01-01"], dtype="M8[D]"),
        np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
        np.zeros((3, 0)),
        np.float64(7),
    ],
    ids=lambda array: str(array.dtype),
)
def test_shared_arrays_have_the_same_elements_and_stay_as_they_are(array: Any) -> None:
    x = qjam.shared(array)
    assert x.shape == array.shape and x.dtype == array.dtype.newbyteorder("=")
    assert (x == array).all() and not x.flags.writeable
    with pytest.raises(ValueError):
        x.flags.writeable = True
    if x.nbytes:
        assert qjam.shared(x) is x


def test_objects_are_not_shared() -> None:
    with pytest.raises(TypeError, match="Python objects"):
        qjam.shared(np.array([{}, []], dtype=object))
