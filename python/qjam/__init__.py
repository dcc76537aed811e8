"""Run your own learning algorithm on several cores and several machines.

>>> import numpy as np
>>> from qjam import Master
>>> def moments(params, chunk):
...     return len(chunk), chunk.sum(axis=0)
>>> with Master("local:2") as m:
...     rows, sums = m.run(moments, None, np.ones((1000, 3)))
>>> rows, sums
(1000, array([1000., 1000., 1000.]))

Names are loaded when they are first used, so ``import qjam`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from ._held import Held
    from ._master import Master
    from ._native import __version__
    from ._pending import Pending
    from ._report import Entry, RoundReport, Worker
    from ._shared import shared
    from ._worker.context import context
    from ._worker.states import StepResult
    from ._workers import RemoteWorker
    from .dataset import (
        AudioDataSet,
        BaseDataSet,
        DataSet,
        DerivedDataSet,
        FileDataSet,
        ImageDataSet,
        ListDataSet,
        NumpyMatrixDataSet,
        NumpyMatrixFileDataSet,
        ZippedDataSet,
    )
    from .errors import (
        Busy,
        Cancelled,
        ConnectError,
        DataError,
        DoesNotFit,
        MasterClosed,
        MissingPackages,
        PicklingError,
        QjamError,
        RefusedResult,
        Released,
        RemoteError,
        RemoteWorkerError,
        ResumeError,
        TimedOut,
        WorkerDied,
        WorkerStringError,
    )

__all__ = [
    "AudioDataSet",
    "BaseDataSet",
    "Busy",
    "Cancelled",
    "ConnectError",
    "DataError",
    "DataSet",
    "DerivedDataSet",
    "DoesNotFit",
    "Entry",
    "FileDataSet",
    "Held",
    "ImageDataSet",
    "ListDataSet",
    "Master",
    "MasterClosed",
    "MissingPackages",
    "NumpyMatrixDataSet",
    "NumpyMatrixFileDataSet",
    "Pending",
    "PicklingError",
    "QjamError",
    "RefusedResult",
    "Released",
    "RemoteError",
    "RemoteWorker",
    "RemoteWorkerError",
    "ResumeError",
    "RoundReport",
    "StepResult",
    "TimedOut",
    "Worker",
    "WorkerDied",
    "WorkerStringError",
    "ZippedDataSet",
    "__version__",
    "context",
    "shared",
]

#: The module of everything that is not an error.
_WHERE: Dict[str, str] = {
    "Held": "._held",
    "Master": "._master",
    "Pending": "._pending",
    "Entry": "._report",
    "RoundReport": "._report",
    "Worker": "._report",
    "RemoteWorker": "._workers",
    "AudioDataSet": ".dataset",
    "BaseDataSet": ".dataset",
    "DataSet": ".dataset",
    "DerivedDataSet": ".dataset",
    "FileDataSet": ".dataset",
    "ImageDataSet": ".dataset",
    "ListDataSet": ".dataset",
    "NumpyMatrixDataSet": ".dataset",
    "NumpyMatrixFileDataSet": ".dataset",
    "ZippedDataSet": ".dataset",
    "__version__": "._native",
    "StepResult": "._worker.states",
    "context": "._worker.context",
    "shared": "._shared",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'qjam' has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(_WHERE.get(name, ".errors"), __name__), name)
    except ImportError as error:
        if "_native" not in str(error):
            raise
        found = _absent(name)
    globals()[name] = found
    return found


def _absent(name: str) -> Any:
    """Stands for something on workers where qjam is not installed.

    Modules of the user's travel there, and what they import for use on the master must not keep them from loading.
    """

    def __init__(self: Any, *_: object, **__: object) -> None:
        raise RuntimeError(f"qjam.{name} is for the master: qjam is not installed where this runs")

    return type(name, (), {"__init__": __init__, "__module__": __name__})


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
