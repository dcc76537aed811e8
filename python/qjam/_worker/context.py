"""The context of a call: seed, round and chunk, and random numbers keyed by them.

It contains only what is the same on every worker, so that a result cannot depend on the worker.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Iterator, Tuple

if TYPE_CHECKING:
    import numpy as np


class Context:
    """The context of a call of a map function.

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
        """A random generator for this (seed, round, chunk); every call returns it in its initial state.

        The numbers do not depend on the worker that runs the chunk, or on how often it is retried.
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
    """Sets the result of :func:`context` on this thread while the block runs."""
    before = now.where
    now.where = seed, round, chunk
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
