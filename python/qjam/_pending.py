"""The class :class:`Pending`: a submitted round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ._interpreter import leave
from ._progress import deliver
from ._ready import seconds
from ._report import RoundReport
from .errors import Cancelled, TimedOut

if TYPE_CHECKING:
    from . import _native
    from ._master import Master

__all__ = ["Pending"]


class Pending:
    """A submitted round. Dropping it without waiting cancels it."""

    __slots__ = ("_error", "_left", "_master", "_name", "_native", "_parts", "_value")

    def __init__(self, native: _native.Pending, name: bytes, master: Master) -> None:
        self._native = native
        self._name = name
        self._master = master
        self._left = False
        self._parts: Optional[Tuple[Any, ...]] = None
        self._value: List[Any] = []
        self._error: Optional[BaseException] = None

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            leave(self._name)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the round has ended, at most ``timeout`` seconds; returns whether it has ended."""
        if self._parts is not None or self._value or self._error is not None:
            return True
        line = self._master._line
        if line is not None:
            line.begin()
        try:
            parts = self._native.wait(seconds(timeout), self._master._tick)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._error = error
            self._leave()
            return True
        finally:
            if line is not None:
                line.pause()
            deliver(line)
        if parts is None:
            return False
        self._parts = parts
        self._leave()
        self._master._told(line, None)
        return True

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the value. After ``timeout`` seconds :class:`TimedOut` is raised; the round continues."""
        if not self.wait(timeout):
            raise TimedOut(f"the round has not ended after {timeout} s; it continues")
        if self._error is not None:
            raise self._error
        if not self._value:
            self._value.append(self._master._reader.load(self._parts))
            self._parts = None
        return self._value[0]

    def done(self) -> bool:
        """Whether the round has ended, with a value or an error."""
        return self._left or self._native.done()

    def cancel(self) -> None:
        """Cancels the round, unless it has ended."""
        if not self._left:
            self._native.cancel()
            self._error = Cancelled("the round was cancelled")
            self._leave()

    @property
    def report(self) -> Optional[RoundReport]:
        """Where the time went; None until the round has been waited for."""
        parts = self._native.report()
        return None if parts is None else RoundReport._of(parts)

    def __del__(self) -> None:
        if hasattr(self, "_left"):
            self._leave()

    def _repr_html_(self) -> str:
        from ._html import pending

        return pending(self)

    def __repr__(self) -> str:
        return f"<Pending, {'done' if self.done() else 'running'}>"
