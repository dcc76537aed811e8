"""Marks lines that user code logs with their level, so that the master logs them at the same level.

A marked line begins with a control character, the number of the level and another control character. Rust removes the mark. Output of
``print`` is not marked. Standard output and standard error are the only streams whose lines are marked.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from typing import Any, Optional, Sequence

_MARK, _END = "\x1e", "\x1f"
_WARNING = 30


def marked(text: str, level: int) -> str:
    r"""Text whose lines carry a level.

    >>> marked("a", 30)
    '\x1e30\x1fa'
    """
    head = f"{_MARK}{level}{_END}"
    return head + text.replace("\n", "\n" + head)


def install() -> None:
    """Marks what ``logging`` and ``warnings`` write to the streams that this interpreter has now."""
    streams = (sys.stdout, sys.stderr)

    def show(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Optional[str] = None
    ) -> None:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        stream = sys.stderr if file is None else file
        if stream is None:
            return
        if any(stream is known for known in streams):
            text = marked(text.rstrip("\n"), _WARNING) + "\n"
        try:
            stream.write(text)
        except OSError:
            pass

    warnings.showwarning = show
    if "logging" in sys.modules:
        _mark(sys.modules["logging"], streams)
    else:
        # Most functions never log, and importing it takes longer than many of them.
        sys.meta_path.insert(0, _Watch(streams))


class _Watch(importlib.abc.MetaPathFinder):
    """Waits for the first import of ``logging``."""

    def __init__(self, streams: Sequence[Any]) -> None:
        self.streams = streams

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[types.ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != "logging":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            _mark(module, self.streams)

        loader.exec_module = exec_module
        return spec


def _mark(logging: Any, streams: Sequence[Any]) -> None:
    emit = logging.StreamHandler.emit

    def emit_marked(self: Any, record: Any) -> None:
        stream = self.stream
        if not any(stream is known for known in streams):
            emit(self, record)
            return
        try:
            stream.write(marked(self.format(record), record.levelno) + self.terminator)
            self.flush()
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    logging.StreamHandler.emit = emit_marked
