"""Plain records: the report of a round, a worker, an entry of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

__all__ = ["Entry", "RoundReport", "Worker"]


@dataclass(frozen=True, repr=False)
class RoundReport:
    """Where the time and the bytes of a round went.

    ``total = worker + master + overhead``, in seconds: the computing time of the slowest worker, the master's time for encoding
    parameters and combining results, and the rest, which is the cost of distribution.

    >>> from qjam import Master
    >>> with Master("inproc:2") as m:
    ...     m.run(lambda params, chunk: sum(chunk), None, [1, 2, 3])
    ...     r = m.last_round
    ...     abs(r.total - r.worker - r.master - r.overhead) < 1e-9
    6
    True
    """

    #: Number of the round.
    round: int
    #: From submission to value.
    total: float
    #: Computing time of the slowest worker.
    worker: float
    #: Encoding parameters and combining results on the master.
    master: float
    #: The rest.
    overhead: float
    #: Bytes to the workers.
    bytes_out: int
    #: Bytes from the workers.
    bytes_in: int
    #: Chunks sent to other hosts because they were not in a cache there.
    chunks_sent: int
    #: Chunks that workers had open.
    cache_hits: int
    #: Chunks that had to be sent or opened.
    cache_misses: int
    #: Blocks assigned again after a loss.
    retries: int
    #: Blocks whose results arrived but no longer counted.
    discarded: int
    #: Blocks taken from slow workers before they were started, for idle workers.
    stolen: int
    #: Late blocks that were also given to another worker.
    backups: int
    #: Workers lost during the round.
    lost: int
    #: States that were rebuilt.
    restored: int
    #: Rounds that were run again to rebuild them.
    replayed: int

    @classmethod
    def _of(cls, parts: Tuple[int, Sequence[float], Sequence[int]]) -> RoundReport:
        number, (total, worker, master, overhead), counts = parts
        return cls(number, total, worker, master, overhead, *counts)

    def _repr_html_(self) -> str:
        from ._html import report

        return report(self)

    def __repr__(self) -> str:
        text = (
            f"round {self.round}: {_time(self.total)} = {_time(self.worker)} worker + {_time(self.master)} master"
            f" + {_time(self.overhead)} overhead; {_bytes(self.bytes_out)} out, {_bytes(self.bytes_in)} in"
        )
        names = ("chunks_sent", "cache_misses", "retries", "discarded", "stolen", "backups", "lost", "restored")
        told = [f"{getattr(self, name)} {name.replace('_', ' ')}" for name in names if getattr(self, name)]
        return f"RoundReport({'; '.join([text, *told])})"


@dataclass(frozen=True)
class Worker:
    """A worker of a master."""

    #: Its name in messages: ``local``, ``proc:0``, ``ann@big``.
    name: str
    #: How many chunks it processes at the same time.
    slots: int
    #: Process number on this machine, if it is a separate running process.
    pid: Optional[int] = None
    #: Process number on its host, if it is on another one.
    remote_pid: Optional[int] = None


@dataclass(frozen=True)
class Entry:
    """An event in the journal of a master."""

    #: Seconds since the master was created.
    at: float
    #: The kind of event: ``worker lost``, ``round started``.
    kind: str
    #: The details.
    text: str


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
