"""Loads the user's code on a worker: reads what `qjam._code` has written.

A blob contains functions, and the sources of the own modules that they need. The modules of one blob are one *set*. Blobs with the
same sources share a set; any other source makes a new set with its own modules. So an edited module never meets an old one, and a
function of an earlier blob keeps the modules that it was made with: entering a job puts its set into `sys.modules` and removes the
other one.

Needs only the standard library, and writes nothing to disk.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import linecache
import marshal
import pickle
import sys
import types
import zlib
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

# Name of a module, and its file name, whether it is a package, and its text (None: a package without a file).
Sources = Dict[str, Tuple[str, bool, Optional[str]]]

# Name of a module, and what the user has assigned to its variables: names and pickled values.
Assigned = Dict[str, Tuple[Tuple[str, bytes], ...]]

FORMAT = 1


class CodeError(ImportError):
    """The code of a round cannot be loaded by this interpreter."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules among sources in memory instead of files."""

    def __init__(self, sources: Sources, assigned: Optional[Assigned] = None) -> None:
        self.sources = sources
        self.assigned = assigned or {}

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[types.ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        found = self.sources.get(fullname)
        if found is None:
            return None
        filename, is_package, text = found
        if text is None:
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = []
            return spec
        loader = _Loader(fullname, filename, text, self.assigned.get(fullname, ()))
        spec = importlib.machinery.ModuleSpec(fullname, loader, origin=filename, is_package=is_package)
        # Tracebacks then name the user's file, even if it does not exist on this machine.
        spec.has_location = True
        return spec


class _Loader(importlib.abc.InspectLoader):
    """Executes the source of one module."""

    def __init__(
        self, fullname: str, filename: str, text: str, assigned: Sequence[Tuple[str, bytes]] = ()
    ) -> None:
        self.fullname = fullname
        self.filename = filename
        self.text = text
        self.assigned = assigned

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_filename(self, fullname: str) -> str:
        return self.filename

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self.text, self.filename, "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return self.filename.endswith("__init__.py")

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self.get_code(self.fullname), module.__dict__)
        for name, pickled in self.assigned:
            setattr(module, name, pickle.loads(pickled))


class _Set:
    """The modules of one blob: their sources, and those already imported."""

    def __init__(self, sources: Sources, assigned: Assigned) -> None:
        self.sources = sources
        self.finder = _Finder(sources, assigned)
        self.modules: Dict[str, types.ModuleType] = {}
        # The modules previously under these names, restored when the set is removed.
        self.displaced: Dict[str, types.ModuleType] = {}

    def enter(self) -> None:
        global _active
        if _active is self:
            return
        if _active is not None:
            _active.leave()
        for name in self.sources:
            before = sys.modules.pop(name, None)
            if before is not None:
                self.displaced[name] = before
        sys.modules.update(self.modules)
        if self.sources:
            sys.meta_path.insert(0, self.finder)
        for filename, _, text in self.sources.values():
            if text is not None:
                _remember_lines(filename, text.splitlines(True))
        _active = self

    def leave(self) -> None:
        global _active
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        for name in self.sources:
            module = sys.modules.pop(name, None)
            if module is not None:
                self.modules[name] = module
        sys.modules.update(self.displaced)
        self.displaced = {}
        _active = None


_active: Optional[_Set] = None
# Sets in order of their last use. A job holds its own set, so leaving one out of here only means that its modules are
# not shared with later jobs.
_sets: Dict[bytes, _Set] = {}
_SETS_MAX = 32


class Job:
    """Functions of one blob, ready to be called.

    `reduce` is None where results are to be added; `init` is None where there is no state. `mapfunc` and `stepfunc` are the
    user's own functions, for who has entered the job.
    """

    def __init__(self, name: str, modules: _Set, functions: Dict[str, Callable[..., Any]]) -> None:
        self.name = name
        self.modules = modules
        self.mapfunc = functions["map"]
        self.stepfunc = functions.get("step", self.mapfunc)
        self.reduce: Optional[Callable[[Any, Any], Any]] = self._entered(functions.get("reduce"))
        self.init: Optional[Callable[[Any], Any]] = self._entered(functions.get("init"))

    def enter(self) -> None:
        """Makes this job's modules the ones that imports and unpickling find."""
        self.modules.enter()

    def map(self, params: Any, chunk: Any) -> Any:
        """The value of one chunk."""
        self.modules.enter()
        return self.mapfunc(params, chunk)

    def step(self, params: Any, chunk: Any, state: Any) -> Any:
        """The value of one chunk with a state, which the function modifies."""
        self.modules.enter()
        return self.stepfunc(params, chunk, state)

    def _entered(self, function: Optional[Callable[..., Any]]) -> Optional[Callable[..., Any]]:
        if function is None:
            return None
        called = function

        def enter_and_call(*args: Any) -> Any:
            self.modules.enter()
            return called(*args)

        return enter_and_call


def load(blob: bytes) -> Job:
    """The job of a blob. Imports the user's modules, and raises what they raise."""
    if blob.startswith(b"src\n"):
        return _plain(blob[4:].decode())
    parts = unpack(blob)
    here = (sys.version_info[0], sys.version_info[1])
    made_by = tuple(parts["python"])
    if parts["by_value"] and made_by != here:
        raise CodeError(
            "{}: this function was made by Python {}.{} and travels as bytecode, which Python {}.{} ({}) cannot run. "
            "Put the function into a module of its own and import it: modules travel as source. Or let the worker use "
            "Python {}.{} (QJAM_REMOTE_PYTHON).".format(
                parts["name"], *made_by, *here, sys.executable, *made_by
            )
        )
    modules = _set_of(parts["sources"], parts.get("assigned", {}))
    modules.enter()
    for filename, blocks in parts["lines"].items():
        _add_lines(filename, blocks)
    functions: Dict[str, Callable[..., Any]] = {}
    if parts["kind"] == "module":
        module = importlib.import_module(parts["entry"])
        functions = functions_of(module)
        if "map" not in functions:
            raise CodeError(describe_without_mapfunc(module))
    if parts["pickled"]:
        functions.update(pickle.loads(parts["pickled"]))
    return Job(parts["name"], modules, functions)


def _plain(text: str) -> Job:
    """A blob may be just the text of a module."""
    _remember_lines("<source>", text.splitlines(True))
    module = types.ModuleType("source")
    exec(compile(text, "<source>", "exec", dont_inherit=True), module.__dict__)
    functions = functions_of(module)
    if "map" not in functions:
        raise CodeError(describe_without_mapfunc(module))
    return Job("source", _set_of({}, {}), functions)


def unpack(blob: bytes) -> Dict[str, Any]:
    """The content of a blob, as a dictionary."""
    mark, body = blob[:2], blob[2:]
    if mark == b"Qz":
        body = zlib.decompress(body)
    elif mark != b"Q0":
        raise CodeError("the code of this round does not begin as it should: {!r}".format(blob[:16]))
    parts: Dict[str, Any] = marshal.loads(body)
    if parts.get("format") != FORMAT:
        raise CodeError(
            "the code of this round has format {}, this worker knows {}".format(parts.get("format"), FORMAT)
        )
    return parts


def pack(parts: Dict[str, Any]) -> bytes:
    """The opposite of `unpack`. The same parts give the same bytes."""
    # Version 2 of the format has no references between equal objects, so it does not depend on who else holds them.
    body = marshal.dumps(parts, 2)
    # Beyond that it is mostly data, which compresses slowly and little.
    return b"Qz" + zlib.compress(body, 6) if 4096 < len(body) <= 1 << 20 else b"Q0" + body


def functions_of(module: types.ModuleType) -> Dict[str, Callable[..., Any]]:
    """The functions of a module that a round uses."""
    names = {"map": "mapfunc", "reduce": "reduce", "init": "init", "step": "step"}
    found = {key: getattr(module, name, None) for key, name in names.items()}
    found["reduce"] = reduce_of(found["reduce"])
    functions = {key: function for key, function in found.items() if callable(function)}
    if "map" not in functions and "step" in functions:
        functions["map"] = functions["step"]
    return functions


def reduce_of(found: Any) -> Optional[Callable[[Any, Any], Any]]:
    """What a module calls `reduce`, if it combines two values: not that of `functools`, which was imported for something else."""
    return found if callable(found) and found is not functools.reduce else None


def describe_without_mapfunc(module: types.ModuleType) -> str:
    """The message for a module that cannot be run."""
    own = sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__ and name[:1] != "_"
    )
    has = "its functions are: " + ", ".join(own) if own else "it has no functions of its own"
    if "mapfunc" in vars(module):
        has = "its mapfunc is not a function but a {}".format(type(module.mapfunc).__name__)
    return "module {!r} has no function mapfunc(params, chunk), where a round begins; {}".format(
        module.__name__, has
    )


def _set_of(sources: Sources, assigned: Assigned) -> _Set:
    key = marshal.dumps((sorted(sources.items()), sorted(assigned.items())), 2)
    found = _sets.pop(key, None) or _Set(sources, assigned)
    _sets[key] = found
    while len(_sets) > _SETS_MAX:
        del _sets[next(iter(_sets))]
    return found


def _remember_lines(filename: str, lines: list[str]) -> None:
    # Without a modification time, linecache does not look for the file.
    linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)


def _add_lines(filename: str, blocks: list[tuple[int, str]]) -> None:
    """Registers pieces of a file for tracebacks, each with the number of its first line."""
    known = linecache.cache.get(filename)
    # Several blobs may contain functions of one file.
    lines = list(known[2]) if known and len(known) == 4 and known[1] is None else []
    for first, text in blocks:
        new = text.splitlines(True)
        lines.extend(["\n"] * (first - 1 + len(new) - len(lines)))
        lines[first - 1 : first - 1 + len(new)] = new
    _remember_lines(filename, lines)


class _Behind(_Finder):
    """A finder used last, so that installed modules have priority."""


class _Before(_Finder):
    """A finder used first, so that pickles are read by the version of cloudpickle that wrote them."""


def install_support(bundle: bytes) -> None:
    """Makes the modules that the master sent along importable: those of qjam itself, and cloudpickle.

    What is installed on this host is preferred, except to cloudpickle: its pickles want the version that wrote them.
    """
    if not bundle:
        return
    sources: Sources = unpack(bundle)["sources"]
    same = {name: source for name, source in sources.items() if name.startswith(("qjam._vendor", "cloudpickle"))}
    others = {name: source for name, source in sources.items() if name not in same}
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, (_Before, _Behind))]
    sys.meta_path.insert(0, _Before(same))
    sys.meta_path.append(_Behind(others))


def cloudpickle() -> Optional[types.ModuleType]:
    """The cloudpickle module, if there is one."""
    for name in ("qjam._vendor.cloudpickle", "cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
