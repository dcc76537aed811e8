"""The steps that random numbers are keyed by: the caller's own, or the count of a loop."""

from __future__ import annotations

import operator
import threading
from typing import List, Optional

__all__ = ["Loop", "Steps"]

_STEP_MAX = 2**63 - 1


class Steps(threading.local):
    """The loops of one master that this thread is in, each with the number of its next round."""

    def __init__(self) -> None:
        self.loops: List[int] = []

    def next(self, given: Optional[int]) -> Optional[int]:
        """The step of a round that begins now; None if it has only its number among all rounds."""
        if given is not None:
            return _checked(given)
        if not self.loops:
            return None
        self.loops[-1] += 1
        return self.loops[-1] - 1


def _checked(step: int) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        raise TypeError(f"step is a whole number, such as the number of the iteration; not {type(step).__name__}") from None
    if not 0 <= number <= _STEP_MAX:
        raise ValueError(f"step is a whole number from 0 to 2**63 - 1; not {number}")
    return number


class Loop:
    """Counts the rounds that are begun inside its ``with`` block, from 0. Made by :meth:`Master.loop`."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __enter__(self) -> Loop:
        self._steps.loops.append(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._steps.loops.pop()
