"""How a program ended, for the run file: by itself, or by an exception."""

from __future__ import annotations

import sys
import traceback
from typing import Optional

__all__ = ["failure", "uncaught"]


def failure(error: Optional[BaseException]) -> Optional[str]:
    """Why a run failed that this exception ended; None if it did not fail.

    >>> failure(ValueError("no such column"))
    'ValueError: no such column'
    >>> failure(SystemExit(0)) is None, failure(SystemExit(3))
    (True, 'SystemExit: 3')
    """
    if error is None or isinstance(error, GeneratorExit):
        return None
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return None
    if isinstance(error, KeyboardInterrupt):
        return "KeyboardInterrupt: interrupted by Ctrl-C"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def uncaught() -> Optional[BaseException]:
    """The exception that ends this program, when it is ending. The interpreter keeps it after it has printed it."""
    if hasattr(sys, "ps1"):
        # What was typed before the last line need not have to do with the end.
        return None
    error = getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
