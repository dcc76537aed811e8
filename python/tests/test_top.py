"""``qjam top`` in a terminal of its own, and in a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Callable

from events import HANG_S
from growing import GrowingRun

from qjam._find import worker


class Terminal:
    """The program in a pseudo terminal, and all that it has written there."""

    def __init__(self, *words: str, rows: int = 30, columns: int = 100) -> None:
        self.mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        env = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
        self.written = ""

    def until(self, happened: Callable[[str], bool], what: str) -> None:
        ends_by = time.monotonic() + HANG_S
        while not happened(self.written):
            ready, _, _ = select.select([self.mine], [], [], HANG_S)
            assert ready and time.monotonic() < ends_by, f"{what} was never shown in {self.written[-3000:]!r}"
            self.written += os.read(self.mine, 1 << 16).decode(errors="replace")

    def press(self, keys: str) -> None:
        """Presses keys. What is written from now on is only what they change on the screen."""
        self.written = ""
        os.write(self.mine, keys.encode())

    def ended(self) -> int:
        """The exit code; what is still written is read."""
        ends_by = time.monotonic() + HANG_S
        while True:
            assert time.monotonic() < ends_by, "it does not end"
            ready, _, _ = select.select([self.mine], [], [], 0.05)
            if ready:
                self.written += os.read(self.mine, 1 << 16).decode(errors="replace")
            elif self.process.poll() is not None:
                return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.mine)
        os.close(self.theirs)


def test_a_screen_follows_the_run_obeys_keys_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.run", 40, 10_000)
    run.grow(50)
    terminal = Terminal(str(worker()), "top", str(run.path))
    try:
        terminal.until(lambda text: "round" in text and "proc:0" in text and "objective" in text, "the screen")
        assert "\x1b[?1049h" in terminal.written, "a screen of its own"
        terminal.written = ""
        run.grow(723)
        terminal.until(lambda text: "773" in text, "what was added")
        terminal.press("\x1b[6~\x1b[6~\x1b[6~")
        terminal.until(lambda text: "39" in text, "the last worker")
        terminal.press("p")
        terminal.until(lambda text: "paused" in text, "the pause")
        terminal.press("q")
        assert terminal.ended() == 0
        assert "\x1b[?1049l" in terminal.written and "773 rounds" in terminal.written.rsplit("\x1b[?1049l", 1)[1]
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()
        run.close()


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.run", 2, 10_000)
    terminal = Terminal(str(worker()), "top", str(run.path))
    try:
        terminal.until(lambda text: "proc:1" in text, "the screen")
        terminal.press("\x03")
        assert terminal.ended() == 0
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()
        run.close()


def test_a_terminal_that_is_closed_ends_it(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.run", 2, 10_000)
    terminal = Terminal(str(worker()), "top", str(run.path))
    terminal.until(lambda text: "proc:1" in text, "the screen")
    os.close(terminal.theirs)
    os.close(terminal.mine)
    try:
        terminal.process.wait(HANG_S)
    finally:
        terminal.process.kill()
        run.close()


def test_in_a_pipe_there_are_plain_lines_until_the_run_ends(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.run", 3, 10_000)
    run.grow(7)
    words = [str(worker()), "top", str(run.path)]
    with subprocess.Popen([*words, "--json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["state"], first["rounds"], first["workers"], first["workers_up"]) == ("running", 7, 3, 3)
        assert first["metrics"] == [{"name": "objective", "value": 1 / 1.3}]
        run.grow(5)
        run.close()
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert (last["state"], last["rounds"]) == ("killed", 12) and process.wait(HANG_S) == 0
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0 and done.stdout == "a killed, 0.1 s, 12 rounds, objective 0.645161, 3 workers\n"
