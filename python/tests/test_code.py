"""What travels: functions and modules of all kinds, prepared here and loaded by a fresh interpreter."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, List, cast

import pytest
from events import HANG_S

import qjam

PACKAGE = Path(qjam.__file__).resolve().parent

# Stands for a worker: has only the loader, reads what to do from a pickle, and answers by one.
WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
import loader, pickle, traceback
loader.install_support(open(sys.argv[2], 'rb').read())
answers = []
jobs = {}
for what, *rest in pickle.load(open(sys.argv[3], 'rb')):
    try:
        if what == 'call':
            blob, params, chunk = rest
            job = jobs.get(blob)
            if job is None:
                job = jobs[blob] = loader.load(blob)
            job.enter()
            answers.append(('gave', job.map(pickle.loads(params), chunk)))
        elif what == 'all':
            job = loader.load(rest[0])
            state = job.init([1, 2])
            value = job.step(10, [1, 2], state)
            answers.append(('gave', (value, state, job.reduce and job.reduce(1, 2))))
        else:
            answers.append(('gave', eval(what)))
    except BaseException as e:
        answers.append(('raised', type(e).__name__, str(e), traceback.format_exc()))
pickle.dump(answers, open(sys.argv[4], 'wb'))
"""


def on_worker(tmp_path: Path, calls: List[Any], support: bytes, python: str = sys.executable) -> List[Any]:
    """What a fresh interpreter without qjam answers."""
    (tmp_path / "support").write_bytes(support)
    (tmp_path / "calls").write_bytes(pickle.dumps(calls, protocol=5))
    program = [python, "-I", "-c", WORKER, str(PACKAGE / "_worker"), "support", "calls", "answers"]
    # Nothing of the test's own folders can be found from the root folder.
    paths = [str(tmp_path / part) if part in ("support", "calls", "answers") else part for part in program]
    done = subprocess.run(paths, cwd="/", capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    answers: List[Any] = pickle.loads((tmp_path / "answers").read_bytes())
    return answers


def run_script(
    tmp_path: Path, files: Dict[str, str], args: List[str], stdin: str = "", package: Path = PACKAGE
) -> List[Any]:
    """Runs a program of the user's in its own folder. It appends to `calls` and `expected`; the worker must agree."""
    project = tmp_path / "project"
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    tool = tmp_path / "tool"
    tool.mkdir(exist_ok=True)
    (tool / "note.py").write_text(
        textwrap.dedent(
            """
            import atexit, pickle
            from qjam import _code
            calls = []
            prepared = []
            def call(function, params=None, chunk=(1, 2, 3), **more):
                stream, buffers = _code.pickle_params(params)
                p = _code.prepare(function, **more)
                prepared.append((p.name, sorted(p.needs), len(p.blob)))
                calls.append(('call', p.blob, pickle.dumps(pickle.loads(stream, buffers=buffers)) if 0 else stream, chunk))
                return p
            def save():
                pickle.dump((calls, prepared, _code.support()), open(PLACE, 'wb'))
            atexit.register(save)
            """
        ).replace("PLACE", repr(str(tmp_path / "noted")))
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), str(tool)])}
    done = subprocess.run(
        [sys.executable, *args],
        cwd=str(project),
        env=env,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        input=stdin,
    )
    assert done.returncode == 0, done.stderr
    calls, prepared, support = pickle.loads((tmp_path / "noted").read_bytes())
    answers = on_worker(tmp_path, calls, support)
    return [(*answer, *about) for answer, about in zip(answers, prepared)]


def values(answers: List[Any]) -> List[Any]:
    for answer in answers:
        assert answer[0] == "gave", answer[3]
    return [answer[1] for answer in answers]


KINDS = """
import functools, math
import numpy as np
from note import call

def plain(params, chunk):
    return sum(chunk)

factor = 10
def uses_global(params, chunk):
    return factor * sum(chunk)

def outer(n):
    def inner(params, chunk):
        return n + helper(chunk)
    return inner

def helper(chunk):
    return len(chunk)

class Model:
    weight = 2
    def __init__(self, bias):
        self.bias = bias
    def apply(self, params, chunk):
        return self.weight * sum(chunk) + self.bias
    def __call__(self, params, chunk):
        return self.apply(params, chunk) + 1
    @staticmethod
    def alone(params, chunk):
        return "static"
    @classmethod
    def of_class(cls, params, chunk):
        return cls.weight

def recursive(params, chunk):
    return 0 if not chunk else 1 + recursive(params, chunk[1:])

def three(extra, params, chunk):
    return (extra, params, sum(chunk))

def imports_inside(params, chunk):
    import json, collections
    return json.dumps(collections.OrderedDict(a=len(chunk)))

call(plain)
call(lambda params, chunk: params * len(chunk), 7)
call(uses_global)
factor = 11
call(uses_global)
call(outer(5))
call(Model(3).apply)
call(Model(3))
call(Model.alone)
call(Model.of_class)
call(recursive)
call(functools.partial(three, "x"), 1)
call(imports_inside)
call(math.pow, 2, 5)
call(np.multiply, 4, 5)
call(max, 4, 5)
call(lambda params, chunk: float(np.linalg.norm(np.asarray(chunk, float))) ** 2)
call(lambda params, chunk: params.apply(None, chunk), Model(1))
"""
GIVEN = [
    6,
    21,
    60,
    66,
    8,
    15,
    16,
    "static",
    2,
    3,
    ("x", 1, 6),
    '{"a": 3}',
    32,
    20,
    5,
    pytest.approx(14.0),
    13,
]


@pytest.mark.parametrize("how", ["script", "command", "stdin"])
def test_all_kinds_of_functions_of_main_give_on_a_worker_what_they_give_here(
    tmp_path: Path, how: str
) -> None:
    files = {"main.py": KINDS}
    args = {"script": ["main.py"], "command": ["-c", KINDS], "stdin": ["-"]}[how]
    answers = run_script(tmp_path, files, args, stdin=KINDS if how == "stdin" else "")
    assert values(answers) == GIVEN
    needs = {answer[2]: answer[3] for answer in answers}
    assert needs["plain"] == [] and needs["imports_inside"] == []
    assert needs["numpy.multiply"] == ["numpy"]


def test_a_lambda_takes_less_than_two_kilobytes(tmp_path: Path) -> None:
    script = (
        "from note import call\nx = 3\ncall(lambda params, chunk: sum(chunk) * x)\n" + "# much else\n" * 1500
    )
    answers = run_script(tmp_path, {"main.py": script}, ["main.py"])
    assert values(answers) == [18]
    assert answers[0][4] < 2048


PACKAGES = {
    "main.py": """
        import job, algos.linear.ridge
        from algos import tools
        from note import call
        import pkgspace.deep.thing
        from shapes import Square
        if __name__ == "__main__":
            call(job)
            call(algos.linear.ridge.fit)
            call(lambda params, chunk: algos.linear.ridge.fit(params, chunk) + tools.one())
            call(lambda params, chunk: pkgspace.deep.thing.value)
            call(lambda params, chunk: params.area(), Square(3))
            call(job, init=lambda chunk: 1)
    """,
    "job.py": """
        import helper_a
        counted = []
        def mapfunc(params, chunk):
            import late
            from algos.tools import one
            return helper_a.triple(sum(chunk)) + late.value + one()
        if __name__ == "__main__":
            raise SystemExit("must not run")
    """,
    "helper_a.py": "from helper_b import three\ndef triple(x):\n    return three * x\n",
    "helper_b.py": "three = 3\n",
    "late.py": "value = 100\n",
    "unused.py": "raise RuntimeError('nobody imports this')\n",
    "shapes.py": "class Square:\n    def __init__(self, a):\n        self.a = a\n    def area(self):\n        return self.a ** 2\n",
    "algos/__init__.py": "from .linear import ridge\n",
    "algos/tools.py": "def one():\n    return 1\n",
    "algos/linear/__init__.py": "",
    "algos/linear/ridge.py": "from ..tools import one\nfrom . import ridge_parts as parts\ndef fit(params, chunk):\n    return one() + parts.k\n",
    "algos/linear/ridge_parts.py": "k = 41\n",
    "pkgspace/deep/thing.py": "value = 'from a package without a file'\n",
}


def test_own_modules_and_packages_travel_with_what_they_import(tmp_path: Path) -> None:
    answers = run_script(tmp_path, PACKAGES, ["main.py"])
    assert values(answers) == [119, 42, 43, "from a package without a file", 9, 119]


def test_modules_beside_a_script_in_another_folder_travel(tmp_path: Path) -> None:
    files = {"inner/" + name: text for name, text in PACKAGES.items()}
    answers = run_script(tmp_path, files, [os.path.join("inner", "main.py")])
    assert values(answers)[:2] == [119, 42]


def test_an_edit_takes_effect_on_the_next_call_and_old_jobs_keep_their_modules(tmp_path: Path) -> None:
    script = """
        import os, job
        from job import mapfunc
        from note import call, calls
        first = call(job)
        assert call(job) is first
        by_name = call(mapfunc)
        with open('part.py', 'w') as f:
            f.write('value = 222222\\n')
        second = call(job)
        call(mapfunc)
        assert second.blob != first.blob
        calls.append(calls[0])
        calls.append(calls[3])
    """
    files = {
        "main.py": script,
        "job.py": "def mapfunc(params, chunk):\n    import part\n    return part.value\n",
        "part.py": "value = 1\n",
    }
    answers = run_script(tmp_path, files, ["main.py"])
    assert [a[1] for a in answers] == [1, 1, 1, 222222, 222222]
    calls, prepared, support = pickle.loads((tmp_path / "noted").read_bytes())
    assert [a[1] for a in on_worker(tmp_path, calls, support)] == [1, 1, 1, 222222, 222222, 1, 222222]


def test_in_this_process_an_edited_module_is_used_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qjam import _code

    (tmp_path / "edited_job.py").write_text("def mapfunc(params, chunk):\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import edited_job  # type: ignore[import-not-found]

    assert _code.prepare(edited_job).map is edited_job.mapfunc
    (tmp_path / "edited_job.py").write_text("def mapfunc(params, chunk):\n    return 12345\n")
    assert _code.prepare(edited_job).map(None, None) == 12345
    (tmp_path / "edited_job.py").write_text("def other(params, chunk):\n    return 12345\n")
    with pytest.raises(TypeError, match="its functions are: other"):
        _code.prepare(edited_job).map(None, None)


def test_tracebacks_on_a_worker_show_the_lines_of_the_user(tmp_path: Path) -> None:
    script = """
        from note import call
        import job

        def fails(params, chunk):
            # A comment.
            total = sum(
                chunk)
            return total / 0  # in the script

        call(fails)
        call(job)
        call(lambda params, chunk: chunk.nothing_of_the_kind)
    """
    files = {
        "main.py": script,
        "job.py": "def mapfunc(params, chunk):\n    return {}['missing']  # in the module\n",
    }
    answers = run_script(tmp_path, files, ["main.py"])
    texts = [answer[3] for answer in answers]
    assert "return total / 0  # in the script" in texts[0] and "line 9, in fails" in texts[0]
    assert "return {}['missing']  # in the module" in texts[1] and "job.py" in texts[1]
    assert "chunk.nothing_of_the_kind" in texts[2] and "main.py" in texts[2]


def test_needs_are_the_packages_that_nobody_has_yet(tmp_path: Path) -> None:
    script = """
        from note import call
        import job, numpy as np
        def late(params, chunk):
            import scipy.sparse
            return 0
        def maybe(params, chunk):
            try:
                import pandas
            except ImportError:
                pandas = None
            return 1
        call(job)
        call(late)
        call(maybe)
        call(lambda params, chunk: float(np.sum(chunk)))
        from helper import late
        call(late)
        call(lambda params, chunk: late(params, chunk))
    """
    job = """
        from __future__ import annotations
        import os.path, helper
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import pandas
        try:
            import numba
        except ImportError:
            numba = None
        def mapfunc(params, chunk):
            import sklearn.linear_model
            return 0
        def draw(result):
            import matplotlib.pyplot
    """
    helper = "import numpy.linalg\nfrom qjam import errors\ndef late(params, chunk):\n    import torch\n"
    files = {"main.py": script, "job.py": job, "helper.py": helper}
    answers = run_script(tmp_path, files, ["main.py"])
    assert [answer[-2] for answer in answers] == [
        ["numpy", "sklearn"],
        ["scipy"],
        [],
        ["numpy"],
        *[["numpy", "torch"]] * 2,
    ]


def test_state_and_reduce_come_from_the_module_or_from_the_call(tmp_path: Path) -> None:
    from qjam import _code

    (tmp_path / "kept_job.py").write_text(
        "def init(chunk):\n    return [len(chunk)]\n"
        "def step(params, chunk, state):\n    state.append(params)\n    return sum(state)\n"
        "def mapfunc(params, chunk):\n    return 0\n"
        "def reduce(a, b):\n    return (a, b)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import kept_job  # type: ignore[import-not-found]

        whole = _code.prepare(kept_job)

        def step(params: Any, chunk: Any, state: List[Any]) -> Any:
            state.append("stepped")
            return len(state)

        given = _code.prepare(step, init=lambda chunk: list(chunk), reduce=max)
    finally:
        sys.path.remove(str(tmp_path))
    answers = on_worker(tmp_path, [("all", whole.blob), ("all", given.blob)], _code.support())
    assert values(answers) == [(12, [2, 10], (1, 2)), (3, [1, 2, "stepped"], 2)]
    assert whole.init is not None and whole.init([1]) == [1] and whole.reduce is kept_job.reduce
    assert whole.step is kept_job.step


def test_preparing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    script = """
        import job, numpy as np
        from note import call
        table = {"a": [1, 2], "b": {3}}
        class Thing:
            def go(self, chunk):
                return np.linalg.norm(np.asarray(chunk, float)) + len(table)
        def work(params, chunk):
            return Thing().go(chunk)
        assert call(work) is call(work)
        from qjam import _code
        first = call(work).blob
        _code._known.clear()
        assert call(work).blob == first
        table["c"] = 1
        assert call(work).blob != first
        import hashlib, sys
        print(hashlib.sha1(first).hexdigest())
    """
    files = {"main.py": script, "job.py": "x = 1\n"}
    values(run_script(tmp_path, files, ["main.py"]))


def test_code_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    from qjam import _code
    from qjam._worker import loader

    parts = loader.unpack(_code.prepare(lambda params, chunk: 1).blob)
    parts["python"] = (3, 5)
    with pytest.raises(ImportError, match=r"made by Python 3\.5 .*module of its own"):
        loader.load(loader.pack(parts))
    parts["by_value"] = False
    assert loader.load(loader.pack(parts)).map(None, None) == 1
    with pytest.raises(ImportError, match="does not begin as it should"):
        loader.load(b"nonsense")


def test_what_cannot_be_run_is_told() -> None:
    import textwrap as without

    from qjam import _code

    with pytest.raises(TypeError, match=r"'textwrap' has no function mapfunc.*its functions are: .*dedent"):
        _code.prepare(without)
    with pytest.raises(TypeError, match="not a value of type int"):
        _code.prepare(5)
    with pytest.raises(TypeError, match="not None"):
        _code.prepare(None)
    with pytest.raises(TypeError, match="init must be a function"):
        _code.prepare(len, init=cast(Any, 5))


def test_a_module_of_the_workers_own_modules_is_not_mixed_up_with_a_users_of_the_same_name(
    tmp_path: Path,
) -> None:
    script = "import loader, json\nfrom note import call\ncall(loader)\n"
    files = {
        "main.py": script,
        "loader.py": "import json\ndef mapfunc(params, chunk):\n    return json.value\n",
        "json.py": "value = 9\n",
    }
    # `json` of the user hides that of the standard library, here as there.
    answers = run_script(tmp_path, files, ["main.py"])
    assert values(answers) == [9]


def test_functions_of_notebook_cells_travel_with_their_lines(tmp_path: Path) -> None:
    script = """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        def cell(text):
            shell.run_cell(text).raise_error()
        cell("from note import call; scale = 2; import helper")
        cell("class Model:\\n    def __init__(self, w): self.w = w\\n    def go(self, x): return self.w * x")
        cell("def work(params, chunk):\\n    return scale * params.go(helper.total(chunk))")
        cell("call(work, Model(5))")
        cell("scale = 3")
        cell("call(work, Model(5))")
        cell("def work(params, chunk):\\n    return 1 / 0  # in the cell")
        cell("call(work)")
    """
    files = {"main.py": script, "helper.py": "def total(chunk):\n    return sum(chunk)\n"}
    answers = run_script(tmp_path, files, ["main.py"])
    assert [answer[1] for answer in answers] == [60, 90, "ZeroDivisionError"]
    assert "return 1 / 0  # in the cell" in answers[2][3]


def test_another_run_of_the_same_script_makes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
        import job, numpy as np
        from note import call
        names = ("b", "a")
        def work(params, chunk):
            first = [name for name in names if name in dir(job)]
            return float(np.linalg.norm(np.asarray(chunk, float))) + len(first)
        call(work)
        call(job)
    """
    job = "import helper\ndef mapfunc(params, chunk):\n    return helper.x\n"
    blobs = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        values(run_script(tmp_path, {"main.py": script, "job.py": job, "helper.py": "x = 1\n"}, ["main.py"]))
        calls = pickle.loads((tmp_path / "noted").read_bytes())[0]
        blobs.append([call[1] for call in calls])
    assert blobs[0] == blobs[1]


def test_a_module_that_was_loaded_by_its_path_travels(tmp_path: Path) -> None:
    script = """
        import importlib.util
        from note import call
        spec = importlib.util.spec_from_file_location("by_path", "../elsewhere/by_path.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        call(module)
        call(module.mapfunc)
    """
    files = {
        "main.py": script,
        "../elsewhere/by_path.py": "def mapfunc(params, chunk):\n    import beside\n    return beside.value\n",
        "../elsewhere/beside.py": "value = 'beside'\n",
    }
    answers = run_script(tmp_path, files, ["main.py"])
    assert answers[0][1] == "beside"
    # The function itself is not found by its name, so it travels by value, and what it imports is out of sight.
    assert answers[1][1] == "ModuleNotFoundError" and answers[1][-2] == ["beside"]


def test_modules_made_by_hand_and_the_script_itself_can_be_run(tmp_path: Path) -> None:
    script = """
        import sys, types
        from note import call
        made = types.ModuleType("made")
        exec("def mapfunc(params, chunk):\\n    return len(chunk)", made.__dict__)
        call(made)
        factor = 5
        def mapfunc(params, chunk):
            return factor * len(chunk)
        call(sys.modules[__name__])
    """
    assert values(run_script(tmp_path, {"main.py": script}, ["main.py"])) == [3, 15]


def test_a_mistake_in_a_module_is_told_with_file_and_line(tmp_path: Path) -> None:
    script = """
        import job
        from note import call
        with open("job.py", "a") as f:
            f.write("def oops(:\\n")
        call(job)
    """
    files = {"main.py": script, "job.py": "def mapfunc(params, chunk):\n    return 1\n"}
    answers = run_script(tmp_path, files, ["main.py"])
    assert answers[0][1] == "SyntaxError" and "job.py" in answers[0][3] and "def oops(:" in answers[0][3]


def test_the_cloudpickle_inside_the_package_is_used_and_goes_along(tmp_path: Path) -> None:
    import shutil

    from qjam._pickling import cloudpickle

    package = tmp_path / "installed" / "qjam"
    shutil.copytree(str(PACKAGE), str(package), ignore=shutil.ignore_patterns("*.so", "_vendor"))
    shutil.copytree(os.path.dirname(cloudpickle().__file__), str(package / "_vendor" / "cloudpickle"))
    (package / "_vendor" / "__init__.py").write_text("")
    script = """
        from note import call
        call(lambda params, chunk: params(sum(chunk)), lambda x: x + 1)
    """
    assert values(run_script(tmp_path, {"main.py": script}, ["main.py"], package=package)) == [7]
    calls = pickle.loads((tmp_path / "noted").read_bytes())[0]
    assert b"qjam._vendor.cloudpickle" in calls[0][1]


def test_modules_of_qjam_can_be_imported_on_a_worker_that_has_none(tmp_path: Path) -> None:
    job = """
        import qjam.errors
        from qjam.errors import QjamError
        def mapfunc(params, chunk):
            return issubclass(qjam.errors.PicklingError, QjamError), qjam.__name__
    """
    script = "import job\nfrom note import call\ncall(job)\n"
    assert values(run_script(tmp_path, {"main.py": script, "job.py": job}, ["main.py"])) == [(True, "qjam")]
