"""Serialises a function or module of the user for workers.

Comes in: a function, or a module with `mapfunc`. Goes out: a *blob*, which contains the pickled function or the name of the
module, and the sources of all own modules that it needs (see `qjam._own`). `qjam._worker.loader` reads it on the worker. Equal
code gives equal bytes, so a worker recognises a blob by its hash.

A function of an own module is sent as the source of the module, which is read again when the file has changed. A function of the
script itself, of a notebook cell, a lambda or a closure is sent by value, with the variables it uses at the time of the call. In
both cases every call sends the current code; if nothing can have changed, that costs a few comparisons.
"""

from __future__ import annotations

import functools
import linecache
import logging
import os
import sys
import types
from typing import Any, Callable, Dict, FrozenSet, Optional, Sequence, Set, Tuple

from qjam import _assigned, _own, _pickling
from qjam._functions import Noted, Watch, captured, lines_of
from qjam._pickling import pack_params, pickle_functions, pickle_params
from qjam._worker import loader
from qjam.common.reducing import default_reduce

__all__ = ["Prepared", "pack_params", "pickle_params", "prepare", "support"]

_log = logging.getLogger("qjam")

# A blob is sent with every round, so it should contain code and not data.
BLOB_BYTES_WARN = 1024 * 1024


class Prepared:
    """A function or module, ready to be sent.

    `blob` is what workers load, `needs` are the packages outside the standard library that it imports. `map`, `reduce`,
    `init` and `step` are the live callables, for use in this process: those of the user's own objects. Where a module
    was given whose file has changed since it was imported, they come from a fresh module made of the new text; modules
    that it imports are those of this process, as they were imported.
    """

    def __init__(
        self, name: str, blob: bytes, needs: FrozenSet[str], live: Callable[[], Dict[str, Callable[..., Any]]]
    ) -> None:
        self.name = name
        self.blob = blob
        self.needs = needs
        self._live = live
        self._functions: Optional[Dict[str, Callable[..., Any]]] = None

    def _of(self, key: str) -> Optional[Callable[..., Any]]:
        if self._functions is None:
            self._functions = self._live()
        return self._functions.get(key)

    @property
    def map(self) -> Callable[[Any, Any], Any]:
        """The value of one chunk, called with parameters and chunk."""
        found = self._of("map")
        assert found is not None
        return found

    @property
    def reduce(self) -> Optional[Callable[[Any, Any], Any]]:
        """Combines two values; None if values are added."""
        return self._of("reduce")

    @property
    def init(self) -> Optional[Callable[[Any], Any]]:
        """The first state of a chunk; None if there is no state."""
        return self._of("init")

    @property
    def step(self) -> Callable[[Any, Any, Any], Any]:
        """The value of one chunk with a state, called with parameters, chunk and state."""
        found: Callable[..., Any] = self._of("step") or self.map
        return found

    def __repr__(self) -> str:
        return "<code of {}, {} bytes>".format(self.name, len(self.blob))


def prepare(
    function: Any,
    *,
    init: Optional[Callable[[Any], Any]] = None,
    reduce: Optional[Callable[[Any, Any], Any]] = None,
) -> Prepared:
    """Serialises a function, or a module with `mapfunc`.

    `init` makes the state of a chunk, for functions that keep one; `reduce` combines two values. A module may have both, and
    its `reduce` is also that of its functions. `default_reduce` stands for adding values up, whatever the module has.

    >>> prepare(lambda params, chunk: sum(chunk)).map(None, [1, 2])
    3
    """
    if not isinstance(function, types.ModuleType):
        if reduce is None:
            reduce = beside(function)
        elif reduce is default_reduce:
            reduce = None
    key = (id(function), id(init), id(reduce))
    known = _known.get(key)
    if known is not None and known.still_holds():
        return known.prepared
    watch = Watch()
    unchanging = all(map(watch.add, (function, init, reduce)))
    made = _make(function, init, reduce, known)
    made.watch = watch if unchanging else None
    made.given = (function, init, reduce)
    if unchanging or len(made.prepared.blob) <= BLOB_BYTES_WARN:
        _known[key] = made
        while len(_known) > 64:
            del _known[next(iter(_known))]
    return made.prepared


class _Known:
    """A blob made earlier, and what must not have changed for it to be valid."""

    def __init__(self, prepared: Prepared, files: Dict[str, Optional[Tuple[int, int, int]]]) -> None:
        self.prepared = prepared
        self.files = files
        self.pickled = b""
        self.sent = len(_pickling.sent_modules)
        # The own modules of the blob, and what has been assigned to their variables since they were imported.
        self.sources: Dict[str, _own.Own] = {}
        self.assigned: _assigned.Assigned = {}
        # The prepared objects, kept alive so that their identities are not reused.
        self.given: Tuple[Any, ...] = ()
        # The external variables of these objects; None if some could change unnoticed.
        self.watch: Optional[Watch] = None

    def same_modules(self) -> bool:
        """Whether the same modules would be sent now."""
        if self.sent != len(_pickling.sent_modules):
            return False
        for filename, before in self.files.items():
            if _own.stamp(filename) != before:
                return False
        return not self.sources or _assigned.of(self.sources) == self.assigned

    def still_holds(self) -> bool:
        """Whether the blob is still valid."""
        return self.watch is not None and self.watch.same() and self.same_modules()


# By the identities of function, init and reduce.
_known: Dict[Tuple[int, int, int], _Known] = {}
# By the pickle and its module.
_alike: Dict[Tuple[Optional[str], bytes], _Known] = {}


def _make(function: Any, init: Any, reduce: Any, known: Optional[_Known]) -> _Known:
    finder = _own.Finder()
    given = {"reduce": reduce, "init": init}
    extra = {key: value for key, value in given.items() if value is not None}
    for key, value in extra.items():
        if not callable(value):
            raise TypeError("{} must be a function, not {}".format(key, _kind_of(value)))
    if isinstance(function, types.ModuleType):
        functions = loader.functions_of(function)
        if "map" not in functions:
            raise TypeError(loader.describe_without_mapfunc(function))
        by_name = finder.add(function) is not None or _is_installed(function)
        if by_name:
            return _assemble(
                finder,
                function.__name__,
                function.__name__,
                extra,
                _live_of(function, extra),
                known,
                list(functions.values()),
            )
        functions.update(extra)
        return _assemble(finder, function.__name__, None, functions, lambda: functions, known)
    if not callable(function):
        raise TypeError(
            "expected a function of parameters and chunk, or a module with a function mapfunc(params, chunk), not "
            + _kind_of(function)
        )
    functions = {"map": function, **extra}
    return _assemble(finder, _name_of(function), None, functions, lambda: functions, known)


def beside(function: Any) -> Optional[Callable[[Any, Any], Any]]:
    """The `reduce` of the module that has a function under some name."""
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, types.FunctionType):
        return None
    module = sys.modules.get(function.__module__ or "")
    known = {} if module is None else vars(module)
    # Asked in every round, and most modules have none.
    if "reduce" not in known:
        return None
    found = loader.reduce_of(known["reduce"])
    if found is None or found is function or not any(value is function for value in known.values()):
        return None
    return found


def _kind_of(obj: Any) -> str:
    return "None" if obj is None else "a value of type {}".format(type(obj).__name__)


def _name_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        return _name_of(function.func)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    name = name or type(function).__qualname__
    code = getattr(function, "__code__", None)
    if "<lambda>" in name and code is not None:
        return "the lambda in line {} of {}".format(code.co_firstlineno, os.path.basename(code.co_filename))
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(name) if module in ("__main__", "builtins") else "{}.{}".format(module, name)


def _is_installed(module: types.ModuleType) -> bool:
    filename = getattr(module, "__file__", None)
    return (
        isinstance(filename, str)
        and sys.modules.get(module.__name__) is module
        and _own.is_elsewhere(filename)
    )


def _assemble(
    finder: _own.Finder,
    name: str,
    module: Optional[str],
    functions: Dict[str, Callable[..., Any]],
    live: Callable[[], Dict[str, Callable[..., Any]]],
    known: Optional[_Known],
    entries: Sequence[Callable[..., Any]] = (),
) -> _Known:
    pickled, noted = (b"", Noted()) if not functions else pickle_functions(functions, name)
    if known is not None and known.pickled == pickled and known.same_modules():
        return known
    alike = _alike.get((module, pickled))
    if alike is not None and alike.same_modules():
        # The same lambda, created again in a loop.
        made = _Known(Prepared(name, alike.prepared.blob, alike.prepared.needs, live), alike.files)
        made.pickled, made.sources, made.assigned = pickled, alike.sources, alike.assigned
        return made
    names = set(noted.names) | _pickling.sent_modules
    if module is not None:
        names.add(module)
        for function in entries:
            noted.will_run(function)
    sources, needs = _own.gather(finder, names)
    for imported in noted.imports:
        more, also = _own.gather(finder, [imported.name])
        sources.update(more)
        if not imported.optional:
            needs.update(also)
    parts = {
        "format": loader.FORMAT,
        "python": (sys.version_info[0], sys.version_info[1]),
        "kind": "function" if module is None else "module",
        "by_value": bool(noted.codes),
        "name": name,
        "entry": module,
        "pickled": pickled,
        "sources": {key: tuple(sources[key]) for key in sorted(sources)},
        "lines": lines_of(noted.codes),
        "needs": tuple(sorted(needs)),
    }
    _pickling.sent_names.update(sources)
    assigned = _assigned.of(sources)
    if assigned:
        parts["assigned"] = assigned
    blob = loader.pack(parts)
    if len(pickled) > BLOB_BYTES_WARN:
        _warn_of_size(name, len(pickled), functions)
    files = {own.filename: _own.stamp(own.filename) for own in sources.values()}
    made = _Known(Prepared(name, blob, frozenset(needs), live), files)
    made.pickled, made.sources, made.assigned = pickled, sources, assigned
    if len(blob) <= BLOB_BYTES_WARN:
        _alike[module, pickled] = made
        while len(_alike) > 64:
            del _alike[next(iter(_alike))]
    return made


# Functions whose size has been warned about.
_warned: Set[str] = set()


def _warn_of_size(name: str, size: int, functions: Dict[str, Callable[..., Any]]) -> None:
    if name in _warned:
        return
    _warned.add(name)
    biggest, biggest_bytes = "", 0
    for function in functions.values():
        inner = getattr(function, "__func__", getattr(function, "func", function))
        outside = captured(inner) if isinstance(inner, types.FunctionType) else {}
        if isinstance(function, functools.partial):
            outside.update({"args[{}]".format(n): value for n, value in enumerate(function.args)})
            outside.update(function.keywords)
        elif isinstance(function, types.MethodType):
            outside["self"] = function.__self__
        for variable, value in outside.items():
            try:
                value_bytes = len(_pickling.cloudpickle().dumps(value, protocol=5))
            except Exception:
                continue
            if value_bytes > biggest_bytes:
                biggest, biggest_bytes = variable, value_bytes
    whose = "the variable {!r} has {:.1f} MiB of it".format(biggest, biggest_bytes / 2**20) if biggest else ""
    _log.warning(
        "%s takes %.1f MiB to every worker in every round%s. Pass large things as params, or as the data set, "
        "which is sent once.",
        name,
        size / 2**20,
        ": " + whose if whose else "",
    )


# The source of a module when its functions were last compared with it.
_texts_of_modules: Dict[str, str] = {}


def _live_of(
    module: types.ModuleType, extra: Dict[str, Callable[..., Any]]
) -> Callable[[], Dict[str, Callable[..., Any]]]:
    filename = getattr(module, "__file__", None)
    text = None if _is_installed(module) or not isinstance(filename, str) else _own.read(filename)

    def live() -> Dict[str, Callable[..., Any]]:
        current = module
        if text is not None and isinstance(filename, str) and not _is_made_of(module, filename, text):
            current = types.ModuleType(module.__name__, module.__doc__)
            current.__dict__.update(
                {
                    key: vars(module)[key]
                    for key in ("__file__", "__package__", "__path__", "__spec__")
                    if key in vars(module)
                }
            )
            linecache.checkcache(filename)
            exec(compile(text, filename, "exec", dont_inherit=True), current.__dict__)
        functions = loader.functions_of(current)
        if "map" not in functions:
            raise TypeError(loader.describe_without_mapfunc(current))
        return {**functions, **extra}

    return live


def _is_made_of(module: types.ModuleType, filename: str, text: str) -> bool:
    """Whether an imported module still equals its file."""
    if module.__name__ in _texts_of_modules:
        return _texts_of_modules[module.__name__] == text
    now = {
        code.co_name: code
        for code in compile(text, filename, "exec", dont_inherit=True).co_consts
        if isinstance(code, types.CodeType)
    }
    for name, function in vars(module).items():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == filename:
            if name in now and now[name] != function.__code__:
                return False
    _texts_of_modules[module.__name__] = text
    return True


@functools.lru_cache(maxsize=None)
def support() -> bytes:
    """The modules that workers may lack, as one bundle: cloudpickle, and the parts of qjam that are only Python.

    A worker uses what is installed there, and these where nothing is.
    """
    sources: Dict[str, Tuple[str, bool, Optional[str]]] = {}
    _add_folder(sources, "qjam", os.path.dirname(os.path.abspath(__file__)))
    try:
        carried = _pickling.cloudpickle()
    except ImportError:
        carried = None
    if carried is not None and not carried.__name__.startswith("qjam."):
        _add_folder(sources, carried.__name__, os.path.dirname(os.path.abspath(carried.__file__)))
    return loader.pack({"format": loader.FORMAT, "sources": {key: sources[key] for key in sorted(sources)}})


def _add_folder(sources: Dict[str, Tuple[str, bool, Optional[str]]], name: str, folder: str) -> None:
    """All source files of a package."""
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if os.path.isdir(path) and entry.isidentifier() and os.path.exists(os.path.join(path, "__init__.py")):
            _add_folder(sources, name + "." + entry, path)
        elif entry.endswith(".py"):
            text = _own.read(path)
            module = name if entry == "__init__.py" else name + "." + entry[:-3]
            # A short name, because the local path does not exist on workers.
            sources[module] = (
                module.replace(".", "/") + ("/__init__.py" if module == name else ".py"),
                module == name,
                text,
            )
