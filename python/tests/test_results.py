"""What comes of results of all kinds, in real rounds: the same at every number of chunks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, Iterator, NamedTuple

import numpy as np
import pytest

from qjam import DataSet, Master, PicklingError
from qjam.common.reducing import default_reduce


class Moments(NamedTuple):
    rows: int
    sums: Any


@dataclass
class Loss:
    value: float
    gradient: Any


@pytest.fixture(scope="module", params=["local:2", "inproc:2"])
def master(request: Any) -> Iterator[Master]:
    with Master(request.param) as m:
        yield m


ROWS = [3, 1, 2, 3, 1, 3]

FUNCTIONS: Dict[str, Any] = {
    "dict": lambda p, rows: {str(row): rows.count(row) for row in sorted(set(rows))},
    "counter": lambda p, rows: Counter(map(str, rows)),
    "set": lambda p, rows: set(rows),
    "none": lambda p, rows: None,
    "named tuple": lambda p, rows: Moments(len(rows), np.array([sum(rows), -1.0 * sum(rows)])),
    "dataclass": lambda p, rows: Loss(float(sum(rows)), {"g": np.array(rows).sum()}),
}


@pytest.mark.parametrize("kind", sorted(FUNCTIONS))
def test_a_result_is_the_same_however_many_chunks_there_are(master: Master, kind: str) -> None:
    function = FUNCTIONS[kind]
    whole = function(None, ROWS)
    for slice_size in (6, 3, 2, 1):
        found = master.run(function, None, DataSet(ROWS, slice_size=slice_size))
        assert type(found) is type(whole)
        assert repr(sorted(found.items()) if isinstance(found, dict) else found) == repr(
            sorted(whole.items()) if isinstance(whole, dict) else whole
        ), slice_size


@pytest.mark.parametrize(
    "result",
    [np.array([1, 2**62]), np.int64(2**62), np.uint8(200), np.array([[200]], "u1"), (1.5, {"a": np.int32(2**30)})],
    ids=repr,
)
def test_an_integer_sum_that_overflows_is_an_error_and_the_master_goes_on(master: Master, result: Any) -> None:
    with pytest.raises(OverflowError, match="does not fit"):
        master.run(lambda p, chunk: p, result, ["a", "b", "c", "d"])
    assert master.run(lambda p, chunk: 2**62, None, ["a", "b"]) == 2**63


def test_a_result_that_cannot_be_sent_is_named_as_the_result(master: Master) -> None:
    def give(params: Any, chunk: Any) -> Any:
        return {"model": [1, (row for row in chunk)]}

    with pytest.raises(PicklingError, match=r"^the result\['model'\]\[1\]: cannot pickle 'generator'.*Return numbers"):
        master.run(give, None, [1])


MODULE = """
from functools import reduce as fold

def largest(params, chunk):
    return max(chunk)

def mapfunc(params, chunk):
    return max(chunk)

def reduce(left, right):
    return max(left, right)
"""


def test_results_are_combined_by_the_reduce_that_is_given_or_stands_beside_the_function(
    master: Master, tmp_path: Any, monkeypatch: Any
) -> None:
    (tmp_path / "extremes.py").write_text(MODULE)
    (tmp_path / "sums.py").write_text("from functools import reduce\ndef mapfunc(p, c):\n    return max(c)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import extremes  # type: ignore[import-not-found]
    import sums  # type: ignore[import-not-found]

    data = DataSet([3, 1, 4, 1], slice_size=1)
    for function in (extremes, extremes.mapfunc, extremes.largest):
        assert master.run(function, None, data) == 4
        assert master.submit(function, None, data).result() == 4
    assert master.run(extremes.largest, None, data, reduce=min) == 1
    assert master.run(extremes, None, data, reduce=min) == 1
    assert master.submit(extremes.largest, None, data, reduce=min).result() == 1
    for added in (extremes, extremes.largest):
        assert master.run(added, None, data, reduce=default_reduce) == 9
    assert master.run(sums, None, data) == 9 and master.run(sums.mapfunc, None, data) == 9, "functools' is none"
    held: Any = master.hold(lambda chunk: {}, data)
    assert held.run(lambda params, chunk, state: max(chunk), None, reduce=max) == 4
    assert held.submit(lambda params, chunk, state: max(chunk), None, reduce=max).result() == 4
    with pytest.raises(TypeError, match="reduce must be a function"):
        master.run(extremes.largest, None, data, reduce=3)  # type: ignore[arg-type]
