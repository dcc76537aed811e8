"""The study of Spark and MPI, and what it needs of the jar for Scala: on a standalone cluster with two executors.

`cargo xtask test --only spark` builds the jar and its library, and says where they are.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest
import spark_cluster
from events import wait_until

import qjam

BENCH = Path(__file__).resolve().parents[2] / "bench"
LAMBDA = 0.5


def named(variable: str) -> str:
    """A file that `cargo xtask test --only spark` has built."""
    path = os.environ.get(variable, "")
    assert os.path.exists(path), f"{variable} names no file: run cargo xtask test --only spark"
    return path


@pytest.fixture(scope="module")
def modules() -> Iterator[Callable[[str], Any]]:
    """The modules of the study by name."""
    before = list(sys.path)
    sys.path[:0] = [str(BENCH / "paper"), str(BENCH)]
    try:
        yield importlib.import_module
    finally:
        sys.path[:] = before


@pytest.fixture(scope="module")
def data(modules: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small problem in two partitions; some of its columns are empty."""
    return modules("problem").made(tmp_path_factory.mktemp("data"), (300, 700, 6), LAMBDA, 2)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A context on a cluster with two executors, with the jar."""
    with contextlib.ExitStack() as ends, pytest.MonkeyPatch.context() as patch:
        patch.setenv("QJAM_RUNS", "off")
        standalone = spark_cluster.Standalone(tmp_path_factory.mktemp("cluster"))
        ends.callback(standalone.stop)
        made = spark_cluster.context(standalone.url, {"spark.jars": named("QJAM_TEST_SPARK_JAR")})
        ends.callback(made.stop)
        made.addPyFile(str(BENCH / "paper" / "local_solver.py"))
        wait_until(lambda: len(spark_cluster.executors(made.applicationId)) == 2, "that there are two executors")
        wait_until(lambda: made.defaultParallelism == 2, "that both are known to the driver")
        yield made


@pytest.fixture
def program(modules: Callable[[str], Any], context: Any, data: Any) -> Any:
    """The program in Scala."""
    return modules("on_jvm").program(context, data, Path(named("QJAM_TEST_SPARK_NATIVE")))


def test_all_variants_take_the_same_steps(modules: Callable[[str], Any], context: Any, data: Any) -> None:
    native = Path(named("QJAM_TEST_SPARK_NATIVE"))
    jvm, ours, variants = modules("on_jvm"), modules("on_qjam"), modules("variants")
    found: Dict[str, List[float]] = {}

    def check(variant: Any) -> None:
        run = variants.checked(data, variant, variant.run(1.0, 4, 0.0, 1e9))
        found[variant.letter] = [one.objective for one in run.rounds]

    for variant in [jvm.variant(context, data, letter, native) for letter in ("A", "B", "B*")]:
        check(variant)
    for is_native in (False, True):
        check(modules("on_pyspark").variant(context, data, is_native))
    check(modules("on_mpi").variant(data))
    with qjam.Master(spark=context, progress=False) as m:
        check(ours.same("D*", "", lambda: m, data))
        tuned = ours.own("tuned", "", lambda: m, data, True).run(1.0, 200, data.target, 1e9)
        assert tuned.rounds[-1].objective <= data.target
    with qjam.Master("local:2", progress=False) as m:
        check(ours.same("local", "", lambda: m, data))
    wanted = found["local"]
    assert sorted(found) == ["A", "B", "B*", "C", "D", "D*", "E", "local"] and wanted[-1] < wanted[0]
    # To rounding: NumPy and Scala add up in orders of their own.
    for letter, objectives in found.items():
        np.testing.assert_allclose(objectives, wanted, rtol=1e-11, err_msg=letter)
    # Those with the native solver do nothing in another order.
    assert found["D*"] == wanted


def bits(descent: Any) -> List[bytes]:
    return [struct.pack(f"{len(part)}d", *part) for part in descent.coordinates()]


def test_an_executor_killed_between_rounds_in_scala_leaves_the_bits_alone(context: Any, program: Any) -> None:
    undisturbed, killed = program.held(1.0, 4), program.held(1.0, 4)
    # Coordinates come home after the fourth round: executors are lost before that and after it.
    for number in range(7):
        undisturbed.round()
        if number in (2, 6):
            pid = spark_cluster.executors(context.applicationId)[0]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "that the executor is gone")
        killed.round()
    assert killed.restored() >= 2
    assert bits(killed) == bits(undisturbed)
    undisturbed.release()
    killed.release()


def test_ridge_in_scala_is_as_good_as_it_says(context: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    x, y = random.standard_normal((60, 17)) * (random.random((60, 17)) < 0.4), random.standard_normal(60)
    # The last column is there, or the file would say nothing of it.
    x[0, -1] = 1.0
    lines = [
        f"{target!r} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row) if value != 0)
        for row, target in zip(x.tolist(), y.tolist())
    ]
    path = tmp_path / "rows.libsvm"
    path.write_text("\n".join(lines) + "\n")
    scala = context._jvm.qjam.spark.Qjam
    sc = context._jsc.sc()
    scala.addLibrary(sc, named("QJAM_TEST_SPARK_NATIVE"))
    found = scala.ridgeOfFile(sc, str(path), LAMBDA, 1e-9, 2, 1.0)
    a = np.array(list(found.coefficients()))
    wanted = np.linalg.solve(x.T @ x + LAMBDA * np.eye(17), x.T @ y)

    def objective(a: Any) -> float:
        return float(0.5 * np.sum((x @ a - y) ** 2) + 0.5 * LAMBDA * a @ a)

    assert abs(found.objective() - objective(a)) <= 1e-10 * objective(a)
    assert 0 <= objective(a) - objective(wanted) <= found.gap() + 1e-12 <= 1e-8 * objective(a)
    np.testing.assert_allclose(a, wanted, atol=1e-3)
    with pytest.raises(Exception, match="lambda is -1"):
        scala.ridgeOfFile(sc, str(path), -1.0, 1e-9, 2, 1.0)


def test_results_are_read_back_and_every_claim_is_on_the_page(modules: Callable[[str], Any], tmp_path: Path) -> None:
    results, variants = modules("results"), modules("variants")
    run = variants.Run([variants.Round(0.5, 0.25, 0.125, 3.0), variants.Round(0.5, 0.25, 0.125, 2.0)], 1.0)
    about = {"data": "small", "lambda": 1.0, "partitions": 2, "turns": 1, "rounds": 2, "machine": "a", "when": "today", "load": 0.5}
    kept = results.Results(about, 1.999, 2.0)
    for letter in ("A", "E"):
        kept.measured[letter] = results.Measured(letter, "one", True, True, run, [run])
    kept.save(tmp_path / "results.json")
    again = results.loaded(tmp_path / "results.json")
    assert results.dumped(again) == results.dumped(kept)
    assert again.best_s("A") == 1.0 and again.best_s("B") is None
    modules("page").write(again, tmp_path)
    page = (tmp_path / "index.html").read_text()
    for claim in modules("claims").CLAIMS:
        assert html.escape(claim.words) in page
    assert page.count("not measured") > 5
