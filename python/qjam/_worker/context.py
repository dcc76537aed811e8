"""Where a function runs: the seed, the round and the chunk, and random numbers keyed by them.

Only what is the same on every worker is told, so that a result cannot depend on who computed it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Iterator, Tuple

if TYPE_CHECKING:
    import numpy as np


class Context:
    """What a map function may know of the call it is in.

    >>> with entered(seed=7, round=0, chunk=3):
    ...     context().chunk
    3
    """

    __slots__ = ("seed", "round", "chunk")

    def __init__(self, seed: int, round: int, chunk: int) -> None:
        self.seed = seed
        """The seed of the run."""
        self.round = round
        """The number of the round."""
        self.chunk = chunk
        """The index of the chunk in its data set."""

    def rng(self) -> np.random.Generator:
        """Random numbers of this (seed, round, chunk), from their beginning at every call.

        They are the same whichever worker runs the chunk, and however often it is tried.
        """
        import numpy

        return numpy.random.default_rng(numpy.random.SeedSequence([self.seed, self.round, self.chunk]))

    def __repr__(self) -> str:
        return f"Context(seed={self.seed}, round={self.round}, chunk={self.chunk})"


class _Now(threading.local):
    # In one process several threads may each be inside a call of their own. Seed, round and chunk, since few ask.
    where: Tuple[int, int, int] | None = None


now = _Now()


@contextlib.contextmanager
def entered(seed: int, round: int, chunk: int) -> Iterator[None]:
    """Makes :func:`context` answer, on this thread, for as long as the block runs."""
    before = now.where
    now.where = seed, round, chunk
    try:
        yield
    finally:
        now.where = before


def context() -> Context:
    """The context of the call that this code is in.

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
