"""Describes an exception of the user's code, so that it can be shown and raised again elsewhere."""

from __future__ import annotations

import pickle
import sys
import traceback
from types import TracebackType
from typing import Any, Callable, Optional, Tuple

Description = Tuple[str, Optional[str], str, bytes]

_MESSAGE_MAX = 16 << 10
_TRACEBACK_MAX = 32 << 10
_PICKLE_MAX = 1 << 20
_OURS = ("qjam._", "qjam.common.")


def describe(error: BaseException, pickler: Optional[Callable[..., bytes]] = None) -> Description:
    """Message, location, traceback, and pickle of an exception.

    The message is the last line of a traceback; the place is the last line of the user's own code; the traceback begins
    with the user's code; the pickle is empty if the exception cannot be pickled and read again.

    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     describe(error)[0]
    "ValueError: invalid literal for int() with base 10: 'x'"
    """
    _trim(error, set())
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    if isinstance(error, SyntaxError):
        # Its first lines show the place.
        message = message.splitlines()[-1]
    if isinstance(error, MemoryError):
        message += memory_words()
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return _cut(message, _MESSAGE_MAX), _place(error), _cut_middle(text), _pickled(error, pickler)


def _is_ours(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS)


def _trim(error: Optional[BaseException], seen: set[int]) -> None:
    """Removes our own frames from the beginning, also in causes and contexts."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    trace: Optional[TracebackType] = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame):
        trace = trace.tb_next
    error.__traceback__ = trace
    _trim(error.__cause__, seen)
    _trim(error.__context__, seen)


def _place(error: BaseException) -> Optional[str]:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not _is_ours(frame) and (place is None or not _is_library(file)):
            place = f"{file}:{line}"
    return place


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith((sys.prefix, sys.base_prefix, "<frozen", "<__array_function__"))


def memory_words() -> str:
    """The memory limit and the peak of an interpreter that ran out of memory."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    allowed = "" if limit == resource.RLIM_INFINITY else f"memory limit of this interpreter: {limit >> 20} MiB; "
    return f" ({allowed}peak: {peak} MiB)"


def _pickled(error: BaseException, pickler: Optional[Callable[..., bytes]]) -> bytes:
    for dumps in (pickle.dumps, pickler):
        if dumps is None:
            continue
        try:
            stream = dumps(error, protocol=5)
            if type(pickle.loads(stream)) is type(error) and len(stream) <= _PICKLE_MAX:
                return stream
        except Exception:
            continue
    return b""


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"


def _cut_middle(text: str) -> str:
    if len(text) <= _TRACEBACK_MAX:
        return text
    half = _TRACEBACK_MAX // 2
    return text[:half] + "\n…\n" + text[-half:]
