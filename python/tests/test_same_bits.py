"""The same bits of Python functions: threads of libraries, random numbers, and what interpreters on hosts compute with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest

import qjam
from qjam import DataSet, Master
from qjam._numbers import differences, warning

THREADS = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]


@pytest.fixture(autouse=True)
def without_choices_of_the_environment(monkeypatch: Any) -> None:
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)


def products(params: Any, rows: Any) -> Tuple[Any, ...]:
    """Products that a library for linear algebra divides among its threads, and the threads it may use."""
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
    said = {os.environ.get(name, "") for name in names}
    weights = np.sin(np.arange(len(rows)))
    return rows.T @ rows, rows.T @ weights, np.dot(rows[:, 0], weights), {"threads": said}


def run_products(workers: str, **options: Any) -> Tuple[List[bytes], Any]:
    rows = np.random.default_rng(5).normal(size=(60_000, 40))
    with Master(workers, **options) as m:
        *arrays, said = m.run(products, None, DataSet(rows, slice_size=30_000))
    return [np.asarray(array).tobytes() for array in arrays], said["threads"]


def test_the_number_of_workers_changes_no_bit_of_a_matrix_product() -> None:
    one, threads = run_products("local:1")
    assert threads == {"1"}
    for workers in ("local:2", "proc:1", "proc:2"):
        assert run_products(workers) == (one, {"1"}), workers


def test_the_threads_of_libraries_are_chosen_by_name() -> None:
    assert run_products("local:1", library_threads=2)[1] == {"2"}
    assert run_products("proc:1", library_threads=3)[1] == {"3"}
    share = len(os.sched_getaffinity(0))
    # In a process of its own: slots of other masters of this one have a share, too.
    asked = "import test_same_bits as t; print(*t.run_products('local:1', library_threads='share')[1])"
    shown = subprocess.run([sys.executable, "-c", asked], cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [str(share)]
    for wrong, kind in ((0, ValueError), (-1, ValueError), ("all", TypeError), (1.5, TypeError), (None, TypeError)):
        with pytest.raises(kind, match="library_threads is a number of threads.*'share'"):
            Master("local:1", library_threads=wrong)  # type: ignore[arg-type]


def test_threads_that_the_environment_sets_come_first(monkeypatch: Any) -> None:
    for name in THREADS:
        monkeypatch.setenv(name, "2")
    assert run_products("local:1")[1] == {"2"}


def draw(params: Any, chunk: Any) -> Any:
    rng = qjam.context().rng()
    return rng.integers(2**62, size=2).astype(float)


def by_round(params: Any, chunk: Any) -> Any:
    return qjam.context().rng("round").integers(2**62, size=2).astype(float)


def where(params: Any, chunk: Any) -> Any:
    now = qjam.context()
    return [(now.round, now.step)]


def train(m: Master, function: Any = draw) -> List[List[float]]:
    with m.loop():
        return [m.run(function, None, ["a", "b"]).tolist() for _ in range(3)]


@pytest.mark.parametrize("workers", ["local:2", "proc:2", "inproc:2"])
def test_the_same_training_twice_on_one_master_draws_the_same_numbers(workers: str) -> None:
    with Master(workers) as m:
        first = train(m)
        assert len({tuple(numbers) for numbers in first}) == 3
        assert train(m) == first
        before = [m.run(draw, None, ["a", "b"]).tolist() for _ in range(2)]
        assert not any(numbers in first for numbers in before), "outside of a loop every round has its own"
        assert [m.submit(draw, None, ["a", "b"], step=n).result().tolist() for n in range(3)] == first
        assert m.run(draw, None, ["a", "b"], step=1).tolist() == first[1]
        assert train(m, by_round) != train(m, by_round), "the old way, by name"
        with m.loop():
            with m.loop():
                assert m.run(draw, None, ["a", "b"]).tolist() == first[0]
                assert m.run(draw, None, ["a", "b"]).tolist() == first[1]
            assert m.run(draw, None, ["a", "b"]).tolist() == first[0]
        rounds, step = m.run(where, None, ["a"], step=9)[0]
        assert rounds > 9 and step == 9
    with Master(workers) as fresh:
        assert [fresh.run(draw, None, ["a", "b"]).tolist() for _ in range(3)] == first


@pytest.mark.parametrize("workers", ["local:2", "inproc:2"])
def test_rounds_of_states_are_counted_from_the_first(workers: str) -> None:
    def step(params: Any, chunk: Any, state: Any) -> Any:
        state["sum"] = state["sum"] + qjam.context().rng().random()
        return state["sum"]

    def once(m: Master) -> List[Any]:
        with m.hold(lambda chunk: {"sum": qjam.context().rng().random()}, ["a", "b"]) as held:
            found = [held.run(step, None), held.submit(step, None).result()]
            return [*found, held.collect(), held.run(step, None, step_number=0)]

    with Master(workers) as m:
        assert once(m) == once(m)


def test_a_step_that_is_none_is_refused() -> None:
    with Master("local:1") as m:
        for wrong, kind in ((-1, ValueError), (2**63, ValueError), (1.5, TypeError), ("1", TypeError)):
            with pytest.raises(kind, match="step is a whole number"):
                m.run(draw, None, ["a"], step=wrong)  # type: ignore[arg-type]
        assert m.run(draw, None, ["a"], step=np.int64(3)).shape == (2,)


def test_interpreters_that_compute_with_other_libraries_are_told_once_with_their_hosts() -> None:
    here = ("this machine", "2.1.0", "scipy-openblas 0.3.29", "AVX2 SSE")
    assert differences([here, ("a", *here[1:]), ("b", "2.1.0", "", "")]) == [] and warning([here]) == ""
    found = differences([here, ("a", "1.26.4", "mkl 2024", "AVX2 SSE"), ("b", "1.26.4", "mkl 2024", "SSE")])
    assert found == [
        "different versions of NumPy: 2.1.0 (this machine), 1.26.4 (a, b)",
        "different libraries for linear algebra (BLAS): scipy-openblas 0.3.29 (this machine), mkl 2024 (a, b)",
        "different CPU features: this machine and a; b",
    ]
    assert "may round differently" in warning([here, ("a", "1.26.4", "", "")])
