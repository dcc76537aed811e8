"""Calls from native threads into the interpreter of the master's process.

The callers are the master's loop, when two results must be combined in Python, and the slots of ``inproc`` workers. They name
a function by the hash of its code. Comes in: that hash with parameters, chunks or results. Goes out: values as parts that Rust
can hold. A round registers its code with ``enter`` while it runs; no code outside a running round is ever called.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._reading import Reader, stricter
from ._worker import values
from ._worker.chunks import open_chunk
from ._worker.context import entered
from ._worker.scripts import dumps as _cloudpickle
from ._worker.states import StepResult, lost

Pickle = Tuple[bytes, Sequence[Any]]
Chunk = Tuple[str, str, Tuple[int, ...], Any]
# Seed, round, chunk, and the step if there is one.
Where = Tuple[int, int, int, Optional[int]]


class Stopped(BaseException):
    """Raised in a user function of this process when its round has ended."""


_live: Dict[bytes, List[Any]] = {}
_lock = threading.Lock()


def enter(code: bytes, prepared: Any, reader: Reader) -> None:
    """Registers a round that runs this code, of a master that reads results in this way."""
    with _lock:
        entry = _live.get(code)
        if entry is None:
            _live[code] = [prepared, 1, reader]
        else:
            entry[1] += 1
            entry[2] = stricter(reader, entry[2])


def leave(code: bytes) -> None:
    """Ends what ``enter`` began."""
    with _lock:
        entry = _live[code]
        entry[1] -= 1
        if entry[1] == 0:
            del _live[code]


def _entry(code: bytes) -> Tuple[Any, Reader]:
    entry = _live.get(code)
    if entry is None:
        raise RuntimeError("the round that this call belonged to has ended")
    return entry[0], entry[2]


def map_chunk(code: bytes, params: Pickle, chunk: Chunk, where: Where) -> Tuple[Any, ...]:
    """The value of one chunk, as parts."""
    prepared, _ = _entry(code)
    with entered(*where):
        value = prepared.map(values.unpack(*params), open_chunk(*chunk))
        return values.dump(value, prepared.reduce is None, _cloudpickle)


def step_chunk(
    given: Tuple[bytes, Pickle, Chunk, Where], memory: Optional[Pickle]
) -> Tuple[Tuple[Any, ...], Pickle]:
    """The value of one chunk, as parts, and its new state."""
    code, params, chunk, where = given
    prepared, reader = _entry(code)
    with entered(*where):
        opened = open_chunk(*chunk)
        state = prepared.init(opened) if memory is None else reader.load_pickle(*memory)
        value = prepared.step(values.unpack(*params), opened, state)
        if isinstance(value, StepResult):
            value, state = value.value, value.state
        else:
            why = lost(prepared.step, state)
            if why is not None:
                raise TypeError(why)
        _, stream, buffers = values.dump(state, False, _cloudpickle, "the state")
        return values.dump(value, prepared.reduce is None, _cloudpickle), (stream, buffers)


def merge(code: bytes, left: Tuple[Any, ...], right: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """Combines two neighbouring results."""
    prepared, reader = _entry(code)
    one, other = reader.load(left), reader.load(right)
    reduce = prepared.reduce
    if reduce is None:
        from .common.reducing import default_reduce

        return values.dump(default_reduce(one, other), True, _cloudpickle)
    return values.dump(reduce(one, other), False, _cloudpickle)


def describe(error: BaseException) -> Tuple[str, Optional[str], str, bytes]:
    """Message, location, traceback and pickle of an exception, as a worker reports them."""
    from ._worker.raised import describe as told

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace
    return told(error, _cloudpickle)

