"""Runs the code of a page of the book, as a program of its own: `python book.py PAGE`, in an empty folder.

Blocks marked `python` run one after the other in one namespace, and between them those marked `sh run`, in a shell that
has the commands of this environment; a `text` block right after one is what it must have printed. `python file=NAME` is a
file of the reader's, `python no_run` is only compiled. The files in `data` beside the page are there for it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Iterator, List, NamedTuple


class Block(NamedTuple):
    """A fenced block: what it is marked as, the line it begins at, and its text."""

    mark: str
    line: int
    text: str


def blocks_of(page: str) -> Iterator[Block]:
    """All fenced blocks of a page."""
    inside: List[str] = []
    mark, begin = None, 0
    for number, line in enumerate(page.splitlines(), 1):
        fence = re.match(r"```(.*)$", line)
        if fence and mark is None:
            mark, begin, inside = fence.group(1).strip(), number + 1, []
        elif fence:
            yield Block(mark or "", begin, "\n".join(inside) + "\n")
            mark = None
        else:
            inside.append(line)


def run(path: Path) -> int:
    """Runs a page; how many blocks it has run."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.path[0] = ""
    blocks = list(blocks_of(path.read_text(encoding="utf-8")))
    ran = 0
    for block, after in zip(blocks, [*blocks[1:], Block("", 0, "")]):
        words = block.mark.split()
        if words == ["sh", "run"]:
            said = shell(block, path)
        elif not words or words[0] != "python":
            continue
        elif len(words) > 1 and words[1].startswith("file="):
            Path(words[1][5:]).write_text(block.text, encoding="utf-8")
            continue
        else:
            # The lines keep their numbers, so tracebacks show the page.
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec", dont_inherit=True)
            if words[1:] == ["no_run"]:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, main.__dict__)
            said = printed.getvalue()
        ran += 1
        if after.mark == "text" and said != after.text:
            raise SystemExit(
                "{}, line {}: prints\n{}where the page says\n{}".format(path, block.line, said, after.text)
            )
    return ran


def shell(block: Block, path: Path) -> str:
    """Runs lines as one would type them; what they print, complaints included. One that fails is the end."""
    here = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": here + os.pathsep + os.environ.get("PATH", "")}
    for file in sorted((path.parent / "data").glob("*.gz")):
        if not Path(file.name).exists():
            shutil.copy(str(file), file.name)
    done = subprocess.run(
        ["sh", "-e", "-c", block.text],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(
            "{}, line {}: ended with {} and said\n{}".format(path, block.line, done.returncode, done.stdout)
        )
    return done.stdout


if __name__ == "__main__":
    print("ran {} blocks".format(run(Path(sys.argv[1]))))
