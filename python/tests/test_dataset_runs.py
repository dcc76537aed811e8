"""Data sets in real runs: what functions on workers get, what is sent, and what is copied."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from events import wait_until
from test_dataset_arrays import ARRAYS

from qjam import Master
from qjam.dataset import BaseDataSet, DataSet, ListDataSet, NumpyMatrixDataSet, NumpyMatrixFileDataSet

# Not all of them have types, and those that have change them.
pd: Any = import_module("pandas")
pl: Any = import_module("polars")
pa: Any = import_module("pyarrow")
sp: Any = import_module("scipy.sparse")


@pytest.fixture(scope="module", params=["local:2", "proc:2", "inproc:2"])
def master(request: pytest.FixtureRequest) -> Iterator[Master]:
    with Master(request.param) as m:
        yield m


def described(params: Any, chunk: Any) -> str:
    """What a worker got: the type, and the values in all digits. Texts are put together in the order of the chunks."""
    values = hashlib.sha256(repr(chunk.tolist()).encode()).hexdigest()
    return f"{type(chunk).__name__} {chunk.dtype.str} {chunk.shape} {values}\n"


@pytest.mark.parametrize("name", ARRAYS)
def test_every_array_arrives_as_it_is(master: Master, name: str) -> None:
    array = ARRAYS[name]
    data = DataSet(array, 3)
    rows = [array[i : i + 3].astype(array.dtype.newbyteorder("="), order="C") for i in range(0, len(array), 3)]
    assert master.run(described, None, data) == "".join(described(None, chunk) for chunk in rows)


def total(params: Any, chunk: Any) -> Any:
    return chunk.sum()


def test_a_change_between_runs_counts(master: Master) -> None:
    small, large = np.ones((1000, 3)), np.ones((9 << 20, 1))  # in shared memory, and left where it is
    for array in (small, large):
        assert master.run(total, None, array) == array.size
        array[7] = 0
        assert master.run(total, None, array) == array.size - array.shape[1]
        array[7] = 1
        assert master.run(total, None, array) == array.size


def test_arrays_that_nobody_has_any_more_are_let_go(master: Master) -> None:
    small, large = np.ones((1000, 3)), np.ones((9 << 20, 1))
    for array in (small, large):
        master.run(total, None, array)
    gone = [weakref.ref(small), weakref.ref(large)]
    del small, large, array

    def are_gone() -> bool:
        master.run(lambda params, chunk: 1, None, [1])
        return all(ref() is None for ref in gone)

    wait_until(are_gone, "the end of the arrays")


def test_two_arrays_of_the_same_content_are_not_mixed_up_when_one_changes(master: Master) -> None:
    one, other = np.ones((9 << 20, 1)), np.ones((9 << 20, 1))
    assert master.run(total, None, one) == master.run(total, None, other) == one.size
    one[:] = 2
    assert master.run(total, None, other) == one.size
    assert master.run(total, None, one) == 2 * one.size


def test_a_second_run_over_the_same_data_sends_none_of_it(master: Master) -> None:
    for data in (np.arange(30_000.0).reshape(10_000, 3), np.ones((9 << 20, 1)), [{"a": n} for n in range(300)]):
        for _ in range(2):
            master.run(lambda params, chunk: len(chunk), None, data)
        report = master.last_round
        assert report is not None
        # What goes out is where chunks lie, to a worker that has not had them before.
        assert report.chunks_sent == 0 and report.bytes_out < 64 << 10


def test_changed_lists_count(master: Master) -> None:
    items = [[1], [2], [3]]

    def added(params: Any, chunk: Any) -> int:
        return sum(sum(item) for item in chunk)

    assert master.run(added, None, items) == 6
    items[1].append(10)
    assert master.run(added, None, items) == 16


def test_the_programs_of_the_report_and_the_poster_have_their_results(master: Master, tmp_path: Path) -> None:
    def multiply_sum(theta: Any, dataset: Any) -> Any:
        return sum([theta * x_i for x_i in dataset])

    assert master.run(multiply_sum, 42, ListDataSet(range(1, 100))) == 42 * 4950
    assert master.run(multiply_sum, 3, ListDataSet(list(range(100)))) == 14850
    matrix = np.matrix("1 2 3 4; 5 6 7 8; 9 10 11 12")
    assert master.run(lambda params, dataset: np.sum(dataset), None, NumpyMatrixDataSet(matrix)) == 78
    rows = np.array([[n, n] for n in range(1, 11)])

    def inner_product(theta: Any, dataset: Any) -> Any:
        return (dataset @ np.asarray(theta)).sum()

    assert master.run(inner_product, (1, 2), NumpyMatrixDataSet(rows, 3)) == 165
    path = tmp_path / "matrix.txt"
    np.savetxt(path, rows, fmt="%3d")
    assert master.run(inner_product, (1, 2), NumpyMatrixFileDataSet(path, 3)) == 165


def test_no_data_set_runs_once_on_every_worker(master: Master) -> None:
    assert master.run(lambda params, chunk: params + len(chunk), 42, None) == 84
    assert master.run(lambda params, chunk: params + len(chunk), 42, dataset=None) == 84


def test_tables_and_sparse_matrices_arrive(master: Master) -> None:
    frame = pd.DataFrame({"a": np.arange(1000), "s": [f"{n}" for n in range(1000)]})

    def of_table(params: Any, rows: Any) -> Any:
        return len(rows), int(rows["a"].sum()), type(rows).__name__ == params

    for table in (frame, pl.from_pandas(frame)):
        assert master.run(of_table, "DataFrame", DataSet(table, 300)) == (1000, 499500, 4)

    def of_arrow(params: Any, rows: Any) -> Any:
        return rows.num_rows, rows.column("a").to_numpy().sum()

    assert master.run(of_arrow, None, DataSet(pa.Table.from_pandas(frame), 300)) == (1000, 499500)
    matrix = sp.random(1000, 20, 0.2, format="csr", random_state=0)
    for sparse in (matrix, matrix.tocsc()):
        assert master.run(lambda params, x: x.sum(), None, DataSet(sparse, 7)) == pytest.approx(matrix.sum())


def test_files_arrive(master: Master, tmp_path: Path) -> None:
    text = tmp_path / "poem.txt"
    text.write_text("roses are red\nviolets are blue\n" * 100)

    def characters(params: Any, lines: Any) -> int:
        return sum(len(line) for line in lines)

    assert master.run(characters, None, DataSet(text, 30)) == 100 * 29
    saved = tmp_path / "x.npy"
    np.save(saved, np.arange(3000.0).reshape(1000, 3))
    assert master.run(total, None, saved) == 2999 * 1500
    assert master.run(total, None, np.load(saved, mmap_mode="r")) == 2999 * 1500


class Primes(BaseDataSet):
    def chunks(self) -> int:
        return 3

    def slice(self, index: int) -> Any:
        return [[2, 3], [5, 7], [11, 13]][index]


def test_data_sets_of_ones_own_arrive_slice_by_slice(master: Master) -> None:
    assert master.run(lambda params, chunk: repr(chunk), None, Primes()) == "[2, 3][5, 7][11, 13]"


def write(params: Any, chunk: Any) -> int:
    chunk[0] = 1
    return 0


def test_functions_cannot_write_to_what_others_read(master: Master) -> None:
    for array in (np.zeros((10, 2)), np.zeros((9 << 20, 1)), np.zeros(10)):
        with pytest.raises(ValueError, match="read-only"):
            master.run(write, None, array)
        assert array.sum() == 0


LARGE = """
import os, sys
import numpy as np
from qjam import Master

def memory(pid):
    with open(f"/proc/{pid}/status") as status:
        found = dict(line.split(":") for line in status)
    return {key: int(found[key].split()[0]) / 1024 for key in ("RssAnon", "RssShmem")}

def total(params, chunk):
    found = memory("self")
    return f"{chunk.sum()} {found['RssAnon']} {found['RssShmem']}\\n"

with Master("local:2") as m:
    m.run(total, None, np.ones((10, 16)))
    array = np.ones((1 << 21, 16))  # 256 MiB
    before = memory("self")
    lines = [[float(word) for word in line.split()] for line in m.run(total, None, array).splitlines()]
    after = memory("self")
    sums, anonymous, shared = zip(*lines)
    assert sum(sums) == array.size and len(sums) == 256, len(sums)
    print(max(anonymous), max(shared), *[after[key] - before[key] for key in before])
"""


def test_a_large_array_is_nowhere_copied_as_a_whole() -> None:
    out = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, env=os.environ)
    assert out.returncode == 0, out.stderr
    anonymous, shared, master_anonymous, master_shared = map(float, out.stdout.split())
    assert anonymous < 100, "MiB of a child interpreter's own"
    assert shared < 32 and master_shared < 32 and master_anonymous < 32
