"""``RemoteWorker`` where the original has it.

>>> from qjam.master.remote_worker import RemoteWorker, RemoteWorkerError
"""

from __future__ import annotations

from .._workers import RemoteWorker
from ..errors import RemoteWorkerError

__all__ = ["RemoteWorker", "RemoteWorkerError"]
