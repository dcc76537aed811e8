"""The class :class:`Held`: states that stay with the chunks of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Generic, List, Optional, TypeVar

from ._code import pack_params, prepare
from ._interpreter import enter, leave
from ._pending import Pending
from ._progress import deliver
from ._ready import code_of, seconds
from .dataset.derived import over
from .errors import DataError

if TYPE_CHECKING:
    from . import _native
    from ._master import Master

__all__ = ["Held"]

S = TypeVar("S")


class Held(Generic[S]):
    """States that stay with the chunks of a data set, on the workers that have them. Made by :meth:`Master.hold`.

    A state that is lost with its worker is rebuilt on another one, with the same bits. Changes made by a step are kept only if
    its round has a value.
    """

    __slots__ = ("_data", "_init", "_master", "_native", "_rounds", "_set")

    def __init__(
        self, master: Master, init: Callable[[Any], S], made: Any, data: Any, native: _native.Held
    ) -> None:
        self._master = master
        self._init = init
        self._set = made  # keeps the user's memory alive
        self._data = data
        self._native = native
        # Rounds begun so far.
        self._rounds = 0

    def _step(self, given: Optional[int]) -> int:
        """The step of a round that begins now: the caller's, that of a loop, or the number of the round of these states."""
        step = self._master._steps.next(given)
        if step is None:
            step = self._rounds
            self._rounds += 1
        return step

    def _must_be_unchanged(self) -> None:
        if self._data is not None and self._data.changed():
            raise DataError("the data set has changed since `hold`: the states belong to the old data; hold it again")

    def run(
        self,
        step: Any,
        params: Any = None,
        *,
        reduce: Optional[Callable[[Any, Any], Any]] = None,
        step_number: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Runs ``step(params, chunk, state)`` on every chunk and combines the results.

        The step changes the state in place, or returns a :class:`StepResult`, which has its result and the state.
        ``reduce`` is that of :meth:`Master.run`, and ``step_number`` is its ``step``.
        """
        master = self._master
        stream, buffers = pack_params(params)
        step, reduce = over(self._set, step, reduce)
        prepared, code, name = code_of(prepare(step, init=self._init, reduce=reduce))
        self._must_be_unchanged()
        line = master._line
        if line is not None:
            line.begin()
        number = self._step(step_number)
        try:
            if master._has_hosts:
                master._ready(prepared.needs, master._tick)
            enter(name, prepared, master._reader)
            try:
                parts = self._native.run(code, stream, buffers, seconds(timeout), master._tick, number)
            finally:
                leave(name)
        finally:
            if line is not None:
                line.pause()
            deliver(line)
        master._told(line, None)
        return master._reader.load(parts)

    def submit(
        self,
        step: Any,
        params: Any = None,
        *,
        reduce: Optional[Callable[[Any, Any], Any]] = None,
        step_number: Optional[int] = None,
    ) -> Pending:
        """Starts a round and returns immediately. The next one can start when it has ended."""
        stream, buffers = pack_params(params)
        step, reduce = over(self._set, step, reduce)
        prepared, code, name = code_of(prepare(step, init=self._init, reduce=reduce))
        self._must_be_unchanged()
        number = self._step(step_number)
        if self._master._has_hosts:
            self._master._ready(prepared.needs, self._master._tick)
        enter(name, prepared, self._master._reader)
        try:
            return Pending(self._native.submit(code, stream, buffers, number), name, self._master)
        except BaseException:
            leave(name)
            raise

    def collect(self) -> List[S]:
        """Returns all states, in the order of the chunks."""
        states = self._native.collect(self._master._tick)
        if None in states:
            self.run(_nothing, step_number=self._rounds)  # some have not been needed yet: create them now
            states = self._native.collect(self._master._tick)
        load = self._master._reader.load_pickle
        return [load(state[0], state[1]) for state in states if state is not None]

    def checkpoint(self) -> None:
        """Makes a checkpoint now, in addition to the automatic ones."""
        self._native.checkpoint(self._master._tick)

    def release(self) -> None:
        """Drops the states on the workers."""
        self._native.release()

    def __len__(self) -> int:
        return len(self._native)

    def __enter__(self) -> Held[S]:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _repr_html_(self) -> str:
        from ._html import held

        return held(self)

    def __repr__(self) -> str:
        return f"<Held, {len(self)} states>"


def _nothing(params: Any, chunk: Any, state: Any) -> int:
    return 0


# Sent as if it were the user's function, because hosts need not have qjam.
_nothing.__module__ = "__main__"
