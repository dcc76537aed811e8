"""The context of a call: seed, round and chunk, and random numbers keyed by them.

It contains only what is the same on every worker, so that a result cannot depend on the worker.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Iterator, Optional, Tuple

if TYPE_CHECKING:
    import numpy as np


class Context:
    """The context of a call of a map function.

    >>> with entered(seed=7, round=0, chunk=3):
    ...     context().chunk
    3
    """

    __slots__ = ("seed", "round", "chunk", "step")

    def __init__(self, seed: int, round: int, chunk: int, step: Optional[int] = None) -> None:
        self.seed = seed
        """The seed of the run."""
        self.round = round
        """The number of the round, of all rounds of the master."""
        self.chunk = chunk
        """The index of the chunk in its data set."""
        self.step = round if step is None else step
        """The step that the caller gave (``run(..., step=n)``), or the number of the round in its loop (``Master.loop``) or
        of its states (``Master.hold``). Outside of these it is ``round``."""

    def rng(self, by: str = "step") -> np.random.Generator:
        """A random generator for this (seed, step, chunk); every call returns it in its initial state.

        The numbers do not depend on the worker that runs the chunk, or on how often it is retried. ``by="round"`` uses
        (seed, round, chunk): then the numbers of a loop depend on how many rounds the master has had before.
        """
        import numpy

        if by not in ("step", "round"):
            raise ValueError(f"random numbers are keyed by 'step' or by 'round', not by {by!r}")
        number = self.step if by == "step" else self.round
        return numpy.random.default_rng(numpy.random.SeedSequence([self.seed, number, self.chunk]))

    def __repr__(self) -> str:
        step = "" if self.step == self.round else f", step={self.step}"
        return f"Context(seed={self.seed}, round={self.round}, chunk={self.chunk}{step})"


class _Now(threading.local):
    # In one process several threads may each be inside a call of their own. Seed, round, chunk and step, since few ask.
    where: Tuple[int, int, int, Optional[int]] | None = None


now = _Now()


@contextlib.contextmanager
def entered(seed: int, round: int, chunk: int, step: Optional[int] = None) -> Iterator[None]:
    """Sets the result of :func:`context` on this thread while the block runs."""
    before = now.where
    now.where = seed, round, chunk, step
    try:
        yield
    finally:
        now.where = before


def context() -> Context:
    """The context of the current call.

    >>> def mapfunc(params, chunk):
    ...     return qjam.context().rng().normal(size=len(chunk)).sum()

    Raises:
        RuntimeError: outside of a call.
    """
    if now.where is None:
        raise RuntimeError(
            "qjam.context() was called outside of a map function: it tells what a call on a worker is about, "
            "so call it inside the function that is given to run()"
        )
    return Context(*now.where)
