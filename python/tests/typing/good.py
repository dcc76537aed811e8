"""Right uses of the package: type checkers must find nothing here."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
from numpy.typing import NDArray

import qjam
from qjam import DataSet, Master, RemoteWorker
from qjam.common.reducing import default_reduce
from qjam.dataset import BaseDataSet, ListDataSet, NumpyMatrixDataSet
from qjam.errors import QjamError, RemoteError

Array = NDArray[np.float64]


def total(params: float, chunk: List[float]) -> float:
    return params * sum(chunk)


def begin(chunk: Array) -> Dict[str, int]:
    return {"rounds": 0}


def step(params: Optional[float], chunk: Array, state: Dict[str, int]) -> int:
    state["rounds"] += 1
    return state["rounds"]


class Letters(BaseDataSet):
    def chunks(self) -> int:
        return 26

    def slice(self, index: int) -> Any:
        return [chr(ord("a") + index)]


def uses(rows: Array) -> float:
    with Master("local:2", seed=1, progress=False) as m:
        value: float = m.run(total, 2.0, [1.0, 2.0], timeout=10.0)
        m.run(lambda params, chunk: chunk.sum(), None, rows)
        m.run(total, 1.0, Letters())
        m.run(total, 1.0, DataSet(rows, slice_size=10))
        m.run(total, 1.0, ListDataSet([1, 2, 3]))
        m.run(total, 1.0, NumpyMatrixDataSet(rows))
        pending = m.submit(total, 1.0, [1.0])
        pending.wait(1.0)
        value += pending.result()
        with m.loop():
            value += m.run(total, None, qjam.ZippedDataSet(rows, rows), reduce=max)
            value += m.submit(total, None, rows, step=3).result()
        held = m.hold(begin, rows)
        held.run(step, None)
        states: List[Dict[str, int]] = held.collect()
        report = m.last_round
        if report is not None:
            value += report.total + report.bytes_out + len(states)
    default_reduce([1, 2], [3, 4])
    return value


def on_hosts() -> None:
    Master([RemoteWorker("localhost"), RemoteWorker("localhost")]).close()
    try:
        Master().run(total)
    except RemoteError as error:
        where: Optional[str] = error.host
        print(where)
    except QjamError:
        print(qjam.__version__)


def draws(params: None, chunk: Array) -> float:
    return float(qjam.context().rng().random())
