"""Code and objects of the user's on real workers: programs in folders of their own, with modules beside them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Dict

import pytest
from events import HANG_S

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
        [sys.executable, "main.py"], cwd=str(folder), env=env, capture_output=True, text=True, timeout=HANG_S
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


SETTINGS = {
    "settings.py": """
        rate = 1
        shape: tuple = (2, 3)
        layers = [1, 2]
        size = len("abc")
        calls = 0
        _cache = None
        lookup = object()
        depth = 1 << 4
        if rate:
            depth = 5

        def count():
            global calls, _cache
            calls += 1
            _cache = {}
    """,
    "user.py": """
        import settings
        from settings import rate as rate_then

        def mapfunc(params, chunk):
            extra = getattr(settings, "extra", None)
            return [(settings.rate, settings.shape, settings.layers, rate_then, extra, settings.calls, settings.depth)]

        def reduce(a, b):
            assert a == b
            return a
    """,
}


@pytest.mark.parametrize("workers", ["local:2", "proc:1", "inproc:2"])
def test_what_is_assigned_to_a_module_is_seen_by_workers(workers: str, tmp_path: Path) -> None:
    script = """
    import settings, user
    def ask():
        print(m.run(user, None, [1, 2])[0])
    ask()
    settings.rate = 50
    settings.shape = (2.5, None)
    settings.extra = {"a": 1}
    ask()
    settings.layers.append("x")
    settings.extra["a"] = 2
    ask()
    print(m.run(lambda p, c: [settings.rate], None, [1]))
    settings.rate, settings.shape, settings.layers = 1, (2, 3), [1, 2]
    del settings.extra
    ask()
    """
    assert run(tmp_path, script, workers, SETTINGS).splitlines() == [
        "(1, (2, 3), [1, 2], 1, None, 0, 5)",
        "(50, (2.5, None), [1, 2], 1, {'a': 1}, 0, 5)",
        "(50, (2.5, None), [1, 2, 'x'], 1, {'a': 2}, 0, 5)",
        "[50]",
        "(1, (2, 3), [1, 2], 1, None, 0, 5)",
    ]


def test_an_edited_file_and_an_assigned_variable_both_count(tmp_path: Path) -> None:
    script = """
    import settings, user
    from pathlib import Path
    settings.rate = 50
    m.run(user, None, [1, 2])
    text = Path("settings.py").read_text()
    Path("settings.py").write_text(text.replace("(2, 3)", "(7, 8)").replace("rate = 1", "rate = 9"))
    print(m.run(user, None, [1, 2])[0][:2])
    """
    assert run(tmp_path, script, "local:1", SETTINGS) == "(50, (7, 8))\n"


def test_what_is_assigned_and_cannot_travel_is_warned_of_once(tmp_path: Path) -> None:
    script = """
    import logging, sys, threading
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    import settings, user
    settings.rate = threading.Lock()
    settings.count()
    for _ in range(3):
        m.run(user, None, [1, 2])
    """
    said = run(tmp_path, script, "local:1", SETTINGS).splitlines()
    assert len(said) == 2, said
    assert said[0].startswith("settings.rate is a lock here, and workers see the value in the file of settings: its value ca")
    assert said[1].startswith("settings.calls is 1 here") and said[1].endswith("Pass it as params.")


def test_code_without_assignments_is_prepared_once(tmp_path: Path) -> None:
    script = """
    import settings, user
    from qjam import _code
    first = _code.prepare(user)
    assert all(_code.prepare(user) is first for _ in range(100))
    settings.rate = 2
    second = _code.prepare(user)
    assert second is not first and second.blob != first.blob
    assert _code.prepare(user) is second
    settings.rate = 1
    assert _code.prepare(user).blob == first.blob
    """
    run(tmp_path, script, "inproc:1", SETTINGS)


# As if the files had been written long after the program began, and nothing says which text was imported.
YOUNG = """
import os, sys, time
sys.dont_write_bytecode = True
for name in ("settings.py", "user.py"):
    os.utime(name, (time.time() + 100,) * 2)
"""


def test_what_is_assigned_is_seen_also_if_the_file_is_younger_than_the_program(tmp_path: Path) -> None:
    script = f"""{YOUNG}
import settings, user
from pathlib import Path
print(m.run(user, None, [1, 2])[0][:2])
text = Path("settings.py").read_text()
Path("settings.py").write_text(text.replace("(2, 3)", "(7, 8)").replace("rate = 1", "rate = 9"))
print(m.run(user, None, [1, 2])[0][:2])
settings.rate = 50
print(m.run(user, None, [1, 2])[0][:2])
"""
    assert run(tmp_path, script, "local:1", SETTINGS).splitlines() == ["(1, (2, 3))", "(9, (7, 8))", "(50, (7, 8))"]


def test_a_value_that_differs_from_a_younger_file_is_warned_of_and_later_ones_are_seen(tmp_path: Path) -> None:
    script = f"""{YOUNG}
import logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
import settings, user
settings.rate = 50
for rate in (50, 50, 60):
    settings.rate = rate
    print(m.run(user, None, [1, 2])[0][0])
"""
    said = run(tmp_path, script, "local:1", SETTINGS).splitlines()
    assert said[0].startswith("settings.rate is 50 here, and workers see the value in the file of settings: it was assigned, or")
    assert said[1:] == ["1", "1", "60"], said
