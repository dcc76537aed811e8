"""Code and objects of the user's on real workers: programs in folders of their own, with modules beside them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Dict

import pytest

import qjam

FILES = {
    "shapes.py": """
        from dataclasses import dataclass

        @dataclass
        class Square:
            side: float

            def __add__(self, other):
                return Square(self.side + other.side)
    """,
    "job.py": """
        import part

        def mapfunc(params, chunk):
            return part.value * len(chunk)
    """,
    "part.py": "value = 1\n",
    "both.py": """
        def mapfunc(params, chunk):
            return [min(chunk), max(chunk)]

        def reduce(a, b):
            return [min(a[0], b[0]), max(a[1], b[1])]
    """,
}


def run(folder: Path, script: str, workers: str, more: Dict[str, str]) -> str:
    """What a program prints. `m` is a master with these workers."""
    for name, text in {**FILES, **more}.items():
        (folder / name).write_text(textwrap.dedent(text))
    head = "from qjam import DataSet, Master\nm = Master({!r}, progress=False)\n".format(workers)
    (folder / "main.py").write_text(head + textwrap.dedent(script))
    package = str(Path(qjam.__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": package}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=str(folder), env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("workers", ["local:2", "proc:2", "inproc:2"])
def test_objects_of_own_classes_go_to_workers_and_come_back(workers: str, tmp_path: Path) -> None:
    script = """
        import shapes
        from shapes import Square

        class Circle:
            def __init__(self, r):
                self.r = r
            def __add__(self, other):
                return Circle(self.r + other.r)

        print(m.run(lambda params, chunk: params.side * len(chunk), Square(2.0), range(5)))
        print(m.run(lambda params, chunk: sum(s.side for s in chunk), None, [Square(1.0), Square(2.0), Square(4.0)]))
        back = m.run(lambda params, chunk: Square(float(sum(chunk))), None, [1, 2, 3])
        print(back, type(back) is Square)
        back = m.run(lambda params, chunk: Circle(len(chunk)), None, DataSet([Circle(1), Circle(2)], slice_size=1))
        print(back.r, type(back) is Circle)

        def grow(params, chunk, state):
            state.side += params.side
            return state.side

        held = m.hold(lambda chunk: Square(0.0), DataSet([1, 2], slice_size=1))
        held.run(grow, Square(1.5))
        print(held.run(grow, Square(1.5)), held.collect())
    """
    printed = run(tmp_path, script, workers, {}).splitlines()
    assert printed == [
        "10.0",
        "7.0",
        "Square(side=6.0) True",
        "2 True",
        "6.0 [Square(side=3.0), Square(side=3.0)]",
    ]


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_an_edit_counts_from_the_next_call_on(workers: str, tmp_path: Path) -> None:
    script = """
        import job
        from job import mapfunc
        from pathlib import Path
        first = m.submit(job, None, [1, 2, 3])
        print(m.run(job, None, [1, 2, 3]), m.run(mapfunc, None, [1, 2, 3]))
        for value in (10, 200, 3000):
            Path("part.py").write_text("value = %d\\n" % value)
            print(m.run(job, None, [1, 2, 3]), m.run(mapfunc, None, [1, 2, 3]))
        print(first.result())
    """
    printed = run(tmp_path, script, workers, {}).splitlines()
    assert printed == ["3 3", "30 30", "600 600", "9000 9000", "3"]


@pytest.mark.parametrize("workers", ["local:1", "local:3", "proc:2", "inproc:2"])
def test_a_module_with_its_own_reduce_combines_on_workers_and_here(workers: str, tmp_path: Path) -> None:
    script = """
        import both
        print(m.run(both, None, DataSet([5, 3, 8, 1, 9, 2], slice_size=1)))
    """
    assert run(tmp_path, script, workers, {}) == "[1, 9]\n"


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_the_lines_of_modules_and_script_are_in_the_traceback(workers: str, tmp_path: Path) -> None:
    script = """
        import fails
        def here(params, chunk):
            return fails.deep(chunk)  # the script's line
        try:
            m.run(here, None, [1])
        except KeyError as error:
            print(error.__cause__)
    """
    fails = "def deep(chunk):\n    return {}[chunk[0]]  # the module's line\n"
    printed = run(tmp_path, script, workers, {"fails.py": fails})
    assert "# the script's line" in printed and "# the module's line" in printed and "fails.py" in printed


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_mistakes_in_modules_are_told_and_mended_by_an_edit(workers: str, tmp_path: Path) -> None:
    script = """
        import job
        from pathlib import Path
        Path("part.py").write_text("value = (\\n")
        try:
            m.run(job, None, [1])
        except SyntaxError as error:
            print("SyntaxError", "part.py" in str(error.__cause__))
        Path("part.py").write_text("value = 7\\n")
        print(m.run(job, None, [1]))
    """
    assert run(tmp_path, script, workers, {}) == "SyntaxError True\n7\n"
