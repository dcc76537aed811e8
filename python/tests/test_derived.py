"""Derived data sets: made on workers from the slices of their source, with the same results everywhere."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any, List

import numpy
import pytest

from qjam import DataSet, DerivedDataSet, Master, RemoteError, ZippedDataSet, context
from qjam.dataset import BaseDataSet

LINES = [f"shop{n % 7} {n * 37 % 101 / 4}" if n % 5 else "" for n in range(2000)]


def parse(line: str) -> List[Any]:
    return [(line.split()[0], float(line.split()[1]))] if line else []


def is_dear(sale: Any) -> bool:
    return bool(sale[1] > 5)


def takings(params: float, sales: Any) -> Any:
    assert isinstance(sales, list)
    return numpy.array([sum(price for _, price in sales) * params, len(sales)])


def sales_of(lines: List[str]) -> List[Any]:
    return [(shop, 2 * price) for line in lines for shop, price in parse(line) if price > 5]


def derived() -> DerivedDataSet:
    return DataSet(LINES, slice_size=150).flat_map(parse).filter(is_dear).map(lambda sale: (sale[0], 2 * sale[1]))


@pytest.mark.parametrize("workers", ["local:1", "local:3", "proc:2"])
def test_derived_data_is_that_of_a_walk_by_hand(workers: str) -> None:
    wanted = sales_of(LINES)
    with Master(workers) as m:
        for _ in range(2):
            total, count = m.run(takings, 0.5, derived())
            assert count == len(wanted) and math.isclose(total, sum(price for _, price in wanted) / 2)
        pending = m.submit(takings, 0.5, derived())
        assert pending.result()[1] == count
        assert m.run(lambda params, chunk: chunk, None, derived(), reduce=lambda a, b: a + b) == wanted
    assert [unit for part in derived().raw_data() for unit in part] == wanted


def test_samples_are_the_same_on_all_workers_and_differ_by_seed_and_by_what_is_sampled() -> None:
    def drawn(data: BaseDataSet, workers: str) -> Any:
        with Master(workers, seed=len(workers)) as m:
            return m.run(lambda params, chunk: list(chunk), None, data, reduce=lambda a, b: a + b)

    data = DataSet(range(3000), slice_size=500)
    sample = data.sample(0.3, seed=5)
    found = drawn(sample, "local:1")
    assert 700 < len(found) < 1100 and found == sorted(set(found))
    assert found == drawn(sample, "local:3") == drawn(sample, "proc:2")
    assert found == [unit for part in sample.raw_data() for unit in part]
    assert found != drawn(data.sample(0.3, seed=6), "local:1")
    assert [2 * n for n in found] != drawn(data.map(lambda n: 2 * n).sample(0.3, seed=5), "local:1")
    assert drawn(data.sample(1.0), "local:1") == list(range(3000)) and data.sample(0.0).slice(2) == []


def test_arrays_that_are_filtered_stay_arrays() -> None:
    x = numpy.arange(600.0).reshape(200, 3)
    with Master("proc:2") as m:
        kept = DataSet(x, slice_size=30).filter(lambda row: row[0] % 2 == 0).sample(1.0)
        sums = m.run(lambda params, rows: rows.sum(axis=0), None, kept)
    assert (sums == x[x[:, 0] % 2 == 0].sum(axis=0)).all()
    pairs = ZippedDataSet(x, list(range(200)), slice_size=50)
    assert pairs.map(lambda part: len(part)).slice(0) == [50, 50], "a unit of a zipped slice is one of its parts"


def test_states_stay_with_the_slices_of_derived_data() -> None:
    def visit(params: int, chunk: Any, state: Any) -> int:
        state["seen"] += params * len(chunk)
        return int(state["seen"] + context().chunk)

    def run(workers: str) -> Any:
        with Master(workers) as m, m.hold(lambda chunk: {"seen": len(chunk)}, derived()) as held:
            return [held.run(visit, n) for n in range(3)], held.submit(visit, 1).result(), held.collect()

    assert run("local:1") == run("proc:2")
    assert sum(state["seen"] for state in run("local:2")[2]) == 5 * len(sales_of(LINES))


def test_a_function_that_fails_is_told_with_the_slice_and_the_chain() -> None:
    def broken(line: str) -> float:
        return 1 / (0 if line == "bad" else 1)

    lines = ["good"] * 25
    lines[17] = "bad"
    data = DataSet(lines, slice_size=5).filter(bool).map(broken)
    with Master("proc:1") as m:
        with pytest.raises(ZeroDivisionError) as caught:
            m.run(lambda params, chunk: len(chunk), None, data)
        assert isinstance(caught.value.__cause__, RemoteError)
        text = str(caught.value.__cause__)
        assert "at unit 2 of slice 3: filter(bool) → map(broken)" in text or not hasattr(caught.value, "add_note"), text
        assert m.run(lambda params, chunk: len(chunk), None, data.filter(bool)._source) == 25


def test_the_reduce_of_a_module_is_that_of_its_functions(tmp_path: Path, monkeypatch: Any) -> None:
    text = "def longest(params, chunk):\n    return len(chunk)\n\n\ndef reduce(a, b):\n    return max(a, b)\n"
    (tmp_path / "own_reduce.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("own_reduce")
    data = DataSet(range(10), slice_size=4).filter(lambda n: n != 5)
    with Master("proc:1") as m:
        assert m.run(module.longest, None, data) == 4
        with pytest.raises(TypeError, match="pass its function"):
            m.run(module, None, data)


def test_plans_and_mistakes_are_told() -> None:
    data = DataSet(["a"], slice_size=1).flat_map(str.split).sample(0.25, seed=3).filter(lambda word: True)
    assert data.explain().splitlines() == [
        "DataSet(1 units in slices of 1)",
        "  flat_map(str.split)",
        "  sample(0.25, seed 3)",
        "  filter(<lambda>)",
    ]
    assert (len(data), data.slices()) == (1, 1)
    with pytest.raises(TypeError, match="map takes a function of a unit, not int"):
        data.map(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="between 0 and 1"):
        data.sample(1.5)
