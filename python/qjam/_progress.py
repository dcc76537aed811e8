"""The line that says how rounds are coming along, and what workers have to tell.

Like tqdm's bars: ``progress=None`` shows it where somebody looks (a terminal, a notebook) and only once a loop has taken
two seconds; ``True`` at once and anywhere; ``False`` never. It goes to standard error. Anything with ``update(1)``, as
tqdm's own bars have, is told of every round instead.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any, Callable, List, Optional, Union

from ._native import has_news, take_news

__all__ = ["Line", "Progress", "deliver", "line_for"]

#: What ``progress=`` may be: yes, no, where somebody looks, or something with ``update(1)``.
Progress = Union[None, bool, Any]

#: Seconds before a line is shown that nobody asked for.
_PATIENCE = 2.0
#: Seconds between two changes of the line.
_EVERY = 0.1
#: A loop is over when no round began for so many seconds.
_PAUSE = 5.0

_log = logging.getLogger("qjam")
_worker_log = logging.getLogger("qjam.worker")
if _worker_log.level == logging.NOTSET:
    _worker_log.setLevel(logging.INFO)  # what user code prints is wanted, whatever the level of everything else


def deliver(line: Optional[Line] = None) -> None:
    """Passes on what workers printed, and long waits, to ``logging``."""
    if not has_news():
        return
    for kind, worker, text in take_news():
        if kind == "line":
            if line is not None:
                line.clear()
            _say(_worker_log, logging.INFO, f"[{worker}] {text}")
        elif line is not None and line.is_shown:
            line.waits = text
        else:
            _say(_log, logging.WARNING, text)


def warn(text: str) -> None:
    """Says something that the user should know."""
    _say(_log, logging.WARNING, text)


def _say(logger: logging.Logger, level: int, text: str) -> None:
    if logger.hasHandlers():
        logger.log(level, "%s", text)
    elif logger.isEnabledFor(level):
        # Nobody has set up logging: the lines belong on the user's screen, as if the function had run here.
        prefix = "" if logger is _worker_log else "qjam: "
        print(prefix + text, file=sys.stderr, flush=True)


def line_for(progress: Progress, workers: Callable[[], int]) -> Optional[Line]:
    """The line for what ``progress=`` says."""
    if progress is False or (progress is None and not _is_watched()):
        return None
    if progress is None or progress is True:
        return Line(workers, 0.0 if progress else _PATIENCE)
    update = getattr(progress, "update", None)
    if not callable(update):
        raise TypeError(
            f"progress is None, True, False or something with update(1), as tqdm's bars have; not {progress!r}"
        )
    return _Foreign(update)


def _is_watched() -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or a closed one
        return False


class Line:
    """One line on standard error."""

    def __init__(self, workers: Callable[[], int], patience: float) -> None:
        self._workers = workers
        self._patience = patience
        self._began = 0.0
        self._last_round = 0.0
        self._drawn = 0.0
        self._width = 0
        self._lock = threading.Lock()
        self.rounds = 0
        self.lost = 0
        self.waits = ""
        self.is_shown = False

    def begin(self) -> None:
        """A round begins."""
        now = time.monotonic()
        if now - max(self._last_round, self._began) > _PAUSE or self._began == 0.0:
            self._began, self.rounds = now, 0

    def tick(self) -> None:
        """Somebody waits."""
        self._draw()

    def end(self) -> None:
        """A round is over."""
        self.rounds += 1
        self.waits = ""
        self._last_round = time.monotonic()
        if self.is_shown or self._last_round - self._began >= self._patience:
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._began < self._patience or now - self._drawn < _EVERY:
            return
        with self._lock:
            self._drawn = now
            self.is_shown = True
            text = self._text(now)
            # The cursor goes back to the beginning, so that what the user prints next overwrites the line.
            self._write("\r" + text.ljust(self._width) + "\r")
            self._width = len(text)

    def _text(self, now: float) -> str:
        took = max(now - self._began, 1e-9)
        rate = self.rounds / took
        words: List[str] = [f"{self.rounds} rounds" if self.rounds != 1 else "1 round", f"{took:.0f} s"]
        if self.rounds:
            words.append(f"{rate:.1f} rounds/s" if rate >= 1 else f"{took / self.rounds:.1f} s/round")
        up = self._workers()
        words.append(f"{up} workers" if up != 1 else "1 worker")
        if self.lost:
            words.append(f"{self.lost} lost")
        if self.waits:
            words.append(self.waits)
        return ", ".join(words)[:160]

    def clear(self) -> None:
        """Takes the line off the screen."""
        with self._lock:
            if self.is_shown and self._width:
                self._write("\r" + " " * self._width + "\r")
                self._width = 0

    def close(self) -> None:
        """The last state of the line stays on the screen."""
        with self._lock:
            if self.is_shown:
                text = self._text(max(self._last_round, self._began))
                self._write("\r" + text.ljust(self._width) + "\n")
                self.is_shown = False

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # standard error is gone: nobody looks
            pass


class _Foreign(Line):
    """Somebody else's bar."""

    def __init__(self, update: Callable[[int], object]) -> None:
        super().__init__(lambda: 0, 0.0)
        self._update = update

    def begin(self) -> None:
        pass

    def tick(self) -> None:
        pass

    def end(self) -> None:
        self._update(1)

    def close(self) -> None:
        pass
