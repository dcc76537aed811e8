"""Runs steps on states, and pickles the states when that is due."""

from __future__ import annotations

import time
import warnings
from typing import Any, Callable, List, Optional, Tuple

from qjam._worker import loader, values
from qjam._worker.states import State, States, StepResult, can_stay, lost

#: The number of a state, the version that a call begins with (0: there is none yet), the version that it makes, and flags.
Object = Tuple[int, int, int, int]
# Flags: it must be pickled; it is being made again, by steps that another object has gone through.
_MUST_PICKLE, _AGAIN = 1, 2
#: The kind of a pickled state that does not stay here.
STATE_ONLY = "only"
#: A pickle with its buffers, and whether it may have come from another host, and so has guards.
Given = Tuple[List[Any], bool]

Pickler = Callable[..., bytes]

# A state is looked through after its first steps and whenever it is pickled: looking takes as long as pickling.
_STEPS_CHECKED = 3
_CHANGED = (
    "a later step has put something into its state that may compute differently after it was pickled (a set, a part of an array, an "
    "object of a class that pickles in its own way), so results may depend on when states were saved. Put such things in when the "
    "state is made, or not at all"
)


def run_step(
    states: States,
    job: loader.Job,
    wanted: Object,
    given: Optional[Given],
    params: Any,
    chunk: Any,
    pickler: Pickler,
) -> Tuple[values.Parts, Optional[values.Parts]]:
    """Runs a step; returns its result, and its state if that was pickled.

    The state is the one that is here, or that of a pickle and its buffers, or a new one.
    """
    number, before, after, flags = wanted
    state = states.get(number, before) if before else None
    if state is None:
        state = State(_first(job, given, chunk), job.modules)
    elif state.modules != job.modules:
        # The classes of its objects may be others now.
        state.value = _unpickled(*values.dump(state.value, False, pickler, "the state")[1:])
        state.modules = job.modules
    # Until the step has ended it is in no version.
    states.forget(number)
    began = time.perf_counter()
    result = job.step(params, chunk, state.value)
    if isinstance(result, StepResult):
        result, state.value = result.value, result.state
    else:
        why = lost(job.stepfunc, state.value)
        if why is not None:
            raise TypeError(why)
    state.steps_s += time.perf_counter() - began
    state.steps += 1
    dumped = values.dump(result, job.reduce is None, pickler)
    state.version = after
    states.by_number[number] = state
    pickles = bool(flags & _MUST_PICKLE) or state.is_due()
    if pickles or state.steps <= _STEPS_CHECKED:
        stays = can_stay(state.value)
        if not stays and (state.steps > _STEPS_CHECKED or flags & _AGAIN):
            warnings.warn(_CHANGED, RuntimeWarning, stacklevel=2)
        if pickles or not stays:
            return dumped, _saved(states, number, state, stays, pickler)
    return dumped, None


def pickle_object(states: States, wanted: Object, pickler: Pickler) -> values.Parts:
    """Pickles a state that is here."""
    state = states.get(*wanted[:2])
    if state is None:
        raise RuntimeError("the interpreter was not given the state of a call")
    stays = can_stay(state.value)
    if not stays:
        warnings.warn(_CHANGED, RuntimeWarning, stacklevel=2)
    return _saved(states, wanted[0], state, stays, pickler)


def _first(job: loader.Job, given: Optional[Given], chunk: Any) -> Any:
    """The state of a call that brings it, or whose step is its first."""
    if given is None:
        return {} if job.init is None else job.init(chunk)
    (stream, *buffers), is_foreign = given
    if is_foreign:
        # Most workers never get a state from another one.
        from qjam._worker import guards

        return guards.load(bytes(stream), [bytearray(buffer) for buffer in buffers])
    return _unpickled(stream, buffers)


def _unpickled(stream: Any, buffers: List[Any]) -> Any:
    """An object of a pickle, which may be changed in place."""
    return values.load(("P", stream, [bytearray(buffer) for buffer in buffers]))


def _saved(states: States, number: int, state: State, stays: bool, pickler: Pickler) -> values.Parts:
    """The pickle of a state, which goes on from there if it does not stay here."""
    began = time.perf_counter()
    pickled = values.dump(state.value, False, pickler, "the state")
    state.pickling_s = time.perf_counter() - began
    state.steps_s = 0.0
    if stays:
        return pickled
    states.forget(number)
    return (STATE_ONLY, *pickled[1:])
