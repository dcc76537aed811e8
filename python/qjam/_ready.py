"""Prepares arguments of the native part: code, time limits, and what worker processes need."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from math import isnan
from typing import Any, Dict, List, Optional, Tuple

from . import _native

__all__ = ["arguments", "code_of", "for_processes", "seconds"]

#: Functions whose code the native part knows, the latest last.
_codes: OrderedDict[int, Tuple[Any, _native.Code, bytes]] = OrderedDict()
_codes_lock = threading.Lock()
_CODES_MAX = 64
_CODE_BYTES_MAX = 1 << 20


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
