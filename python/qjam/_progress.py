"""Shows the progress of rounds, and passes log lines of workers to ``logging``.

As with tqdm, ``progress=None`` shows a line only on a terminal or in a notebook, and only after two seconds; ``True`` shows it
immediately and anywhere; ``False`` never. It is written to standard error. An object with a method ``update(1)``, such as a bar of
tqdm, is called for every round instead.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any, Callable, List, Optional, Union

from ._native import has_news, printable, take_news

__all__ = ["Line", "Progress", "deliver", "line_for"]

#: The values of ``progress=``: True, False, None for automatic, or an object with ``update(1)``.
Progress = Union[None, bool, Any]

#: Seconds before an automatic line is shown.
_PATIENCE = 2.0
#: Seconds between two updates of the line.
_EVERY = 0.1
#: A loop has ended when no round began for this many seconds.
_PAUSE = 5.0

_log = logging.getLogger("qjam")
_worker_log = logging.getLogger("qjam.worker")
if _worker_log.level == logging.NOTSET:
    _worker_log.setLevel(logging.INFO)  # what user code prints is wanted, whatever the level of everything else


def deliver(line: Optional[Line] = None) -> None:
    """Passes output of workers and messages about long waits to ``logging``."""
    if not has_news():
        return
    for kind, worker, text, level in take_news():
        if kind == "line":
            if line is not None:
                line.clear()
            # The worker's own logging has let it pass, so it is shown.
            _say(_worker_log, max(level or 0, logging.INFO), f"[{worker}] {text}")
        elif line is not None and line.is_shown:
            line.waits = printable(text)
        else:
            _say(_log, logging.WARNING, text)


def warn(text: str) -> None:
    """Logs a warning."""
    _say(_log, logging.WARNING, text)


def _say(logger: logging.Logger, level: int, text: str) -> None:
    # Hosts have their words in it, and a terminal obeys control characters.
    text = printable(text)
    if logger.hasHandlers():
        logger.log(level, "%s", text)
    elif logger.isEnabledFor(level):
        # Logging is not configured: print the lines, as if the function had run in this process.
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
    """One line on standard error.

    Its seconds are those that callers spent waiting for rounds; what a program does between rounds is not counted.
    """

    def __init__(self, workers: Callable[[], int], patience: float) -> None:
        self._workers = workers
        self._patience = patience
        # Callers that wait for rounds now, and when the first of them began to.
        self._waiting = 0
        self._since = 0.0
        # Seconds of earlier waits of this loop, and when the last of them ended.
        self._waited = 0.0
        self._last = float("-inf")
        self._drawn = 0.0
        self._width = 0
        self._lock = threading.Lock()
        self.rounds = 0
        self.lost = 0
        self.waits = ""
        self.is_shown = False

    def begin(self) -> None:
        """A caller begins to wait for a round."""
        now = time.monotonic()
        with self._lock:
            if self._waiting == 0:
                if now - self._last > _PAUSE:
                    self._waited, self.rounds = 0.0, 0
                self._since = now
            self._waiting += 1

    def pause(self) -> None:
        """A caller no longer waits, whether or not its round has ended."""
        now = time.monotonic()
        with self._lock:
            self._waiting -= 1
            if self._waiting == 0:
                self._waited += now - self._since
                self._last = now

    def tick(self) -> None:
        """Called periodically while the caller waits."""
        self._draw()

    def end(self) -> None:
        """A round has ended."""
        self.rounds += 1
        self.waits = ""
        self._draw()

    def _seconds(self, now: float) -> float:
        return self._waited + (now - self._since if self._waiting else 0.0)

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY or (not self.is_shown and self._seconds(now) < self._patience):
            return
        with self._lock:
            self._drawn = now
            self.is_shown = True
            text = self._text(now)
            # Returns the cursor, so that the user's next output overwrites the line.
            self._write("\r" + text.ljust(self._width) + "\r")
            self._width = len(text)

    def _text(self, now: float) -> str:
        took = max(self._seconds(now), 1e-9)
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
        """Erases the line."""
        with self._lock:
            if self.is_shown and self._width:
                self._write("\r" + " " * self._width + "\r")
                self._width = 0

    def close(self) -> None:
        """Ends the line; its last state stays on the screen."""
        with self._lock:
            if self.is_shown:
                text = self._text(self._last)
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
    """A progress bar supplied by the user."""

    def __init__(self, update: Callable[[int], object]) -> None:
        super().__init__(lambda: 0, 0.0)
        self._update = update

    def begin(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def tick(self) -> None:
        pass

    def end(self) -> None:
        self._update(1)

    def close(self) -> None:
        pass
