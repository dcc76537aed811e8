"""Makes functions of a blob of code."""

from __future__ import annotations

import linecache
import types
from typing import Any, Callable, Optional


class Job:
    """The functions that a blob holds."""

    def __init__(self, name: str, names: dict[str, Any]) -> None:
        self.name = name
        self.map: Callable[[Any, Any], Any] = names["mapfunc"]
        self.reduce: Optional[Callable[[Any, Any], Any]] = names.get("reduce")
        self.init: Optional[Callable[[Any], Any]] = names.get("init")
        self.step: Optional[Callable[[Any, Any, Any], Any]] = names.get("step")

    def enter(self) -> None:
        """Makes the modules that came with it importable."""


def load(blob: bytes) -> Job:
    """Reads a blob. One that begins with ``src`` and a newline is plain source text."""
    if not blob.startswith(b"src\n"):
        raise ValueError("this is no code that this version of qjam can read")
    source = blob[4:].decode()
    file = "<source>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    module = types.ModuleType("source")
    exec(compile(source, file, "exec"), module.__dict__)
    return Job("source", module.__dict__)


def install_support(bundle: bytes) -> None:
    """Makes modules importable that came with the interpreter."""


def cloudpickle() -> Any:
    """What pickles that which :mod:`pickle` does not, if it is here."""
    return None
