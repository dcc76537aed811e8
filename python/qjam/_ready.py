"""Prepares arguments of the native part: code, time limits, and what worker processes need."""

from __future__ import annotations

import operator
import re
import sys
import threading
from collections import OrderedDict
from math import isnan
from typing import Any, Dict, List, Optional, Tuple

from . import _native

__all__ = ["NOT_GIVEN", "arguments", "byte_count", "code_of", "for_processes", "given", "seconds", "thread_count"]

#: Functions whose code the native part knows, the latest last.
_codes: OrderedDict[int, Tuple[Any, _native.Code, bytes]] = OrderedDict()
_codes_lock = threading.Lock()
_CODES_MAX = 64
_CODE_BYTES_MAX = 1 << 20


class _NotGiven:
    """The default of arguments for which None means something."""

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()


def given(params: Any, dataset: Any, method: str) -> Tuple[Any, Any]:
    """Parameters and data set of a round, as passed; refuses parameters that may be a data set.

    A round without data is asked for by passing neither, or by ``dataset=None``.
    """
    if dataset is NOT_GIVEN:
        if params is not NOT_GIVEN:
            raise TypeError(
                f"{method}(function, params) has no data set. If the second argument ({type(params).__name__}) is the data, "
                f"write {method}(function, None, data). To call the function once for every slot of every worker, without "
                f"data, write {method}(function, params, None)."
            )
        dataset = None
    return None if params is NOT_GIVEN else params, dataset


def code_of(prepared: Any) -> Tuple[Any, _native.Code, bytes]:
    """A prepared function, its native code, and the hash of the code."""
    found = _codes.get(id(prepared))
    if found is not None and found[0] is prepared:
        return found
    code = _native.Code(prepared.blob, prepared.name)
    entry = (prepared, code, code.id)
    if len(prepared.blob) > _CODE_BYTES_MAX:
        return entry  # data came along, which is not kept here
    with _codes_lock:
        _codes[id(prepared)] = entry
        while len(_codes) > _CODES_MAX:
            _codes.popitem(last=False)
    return entry


def seconds(timeout: Optional[float]) -> Optional[float]:
    """A validated time limit."""
    if timeout is None:
        return None
    number = float(timeout)
    if isnan(number) or number < 0:
        raise ValueError(f"a timeout is a number of seconds, 0 or more; not {timeout!r}")
    return number


_BYTES = re.compile(r"\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)


def byte_count(limit: Any, name: str) -> Optional[int]:
    """A number of bytes, which may be written as on the command line: ``"500M"``, ``"20 GiB"``.

    >>> byte_count("500MB", "memory_limit") == 500 << 20
    True
    """
    if limit is None:
        return None
    wrong = f"{name} is a number of bytes, or a text such as '500M' or '20G' (1K is 1024 bytes); not {limit!r}"
    if isinstance(limit, str):
        read = _BYTES.fullmatch(limit)
        if read is None:
            raise ValueError(wrong)
        number = int(read[1]) << 10 * " kmgt".index(read[2].lower() or " ")
    else:
        try:
            number = operator.index(limit)
        except TypeError:
            raise TypeError(wrong) from None
    if not 0 <= number < 2**64:
        raise ValueError(wrong)
    return number


def thread_count(threads: Any) -> int:
    """What ``library_threads`` says: a number, or 0 for a share of the cores."""
    wrong = f"library_threads is a number of threads, 1 or more, or 'share' for each slot's share of the cores; not {threads!r}"
    if isinstance(threads, str):
        if threads == "share":
            return 0
        raise TypeError(wrong)
    try:
        number = operator.index(threads)
    except TypeError:
        raise TypeError(wrong) from None
    if not 1 <= number < 2**16:
        raise ValueError(wrong)
    return number


def arguments() -> List[str]:
    """The command line of this program, without the interpreter."""
    original: Optional[List[str]] = getattr(sys, "orig_argv", None)
    return list(original[1:]) if original else list(sys.argv)


def for_processes(path: List[str], modules: bytes) -> Dict[str, Any]:
    """Options for workers outside this process."""
    from ._find import worker

    return {
        "worker_executable": worker(),
        "support": modules,
        "interpreter": (sys.executable or "python3", path),
    }
