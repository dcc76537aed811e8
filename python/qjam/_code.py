"""What travels: a function or module of the user's, put together for workers.

`prepare` makes a *blob*: the pickled function, or the name of the module, and with it the sources of all own modules it
leads to (see `qjam._own`). `qjam._worker.loader` takes it apart on the other side. The same code gives the same bytes,
so a worker that has seen a blob knows it by its hash.

A function of an own module travels as the module's source, which is read again when the file has changed. A function of
the script itself, of a notebook cell, a lambda or a closure travels by value, with the variables it uses as they are at
the moment of the call. Either way the next call has what is true then; when nothing can have changed, it costs a few
comparisons.
"""

from __future__ import annotations

import functools
import io
import linecache
import logging
import os
import sys
import types
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple

from qjam import _own, _pickling
from qjam._pickling import pickle_params
from qjam._worker import loader

__all__ = ["Prepared", "pickle_params", "prepare", "support"]

_log = logging.getLogger("qjam")

# Lines of the user's script that go along for tracebacks.
LINES_BYTES_MAX = 64 * 1024
# A blob goes out with every round, so it should be code and not data.
BLOB_BYTES_WARN = 1024 * 1024


class Prepared:
    """A function or module, ready to travel.

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
        """Makes one value of two; None if values are added."""
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
    """Makes a function, or a module with `mapfunc`, ready to travel.

    `init` makes the state of a chunk, for functions that keep one; `reduce` combines two values. A module may have both.

    >>> prepare(lambda params, chunk: sum(chunk)).map(None, [1, 2])
    3
    """
    key = (id(function), id(init), id(reduce))
    known = _known.get(key)
    if known is not None and known.still_holds():
        return known.prepared
    watched: List[Any] = [function, init, reduce]
    settled = all(_settled(part, watched, set()) for part in (function, init, reduce))
    made = _make(function, init, reduce, known)
    made.settled, made.watched = settled, watched
    if settled or len(made.prepared.blob) <= BLOB_BYTES_WARN:
        _known[key] = made
        while len(_known) > 64:
            del _known[next(iter(_known))]
    return made.prepared


class _Known:
    """A blob that was made before, and what must not have changed for it to be the one to use."""

    def __init__(self, prepared: Prepared, files: Dict[str, Optional[Tuple[int, int, int]]]) -> None:
        self.prepared = prepared
        self.files = files
        self.pickled = b""
        self.sent = len(_pickling.sent_modules)
        # Whether all that the function has from outside is unchangeable, and what it was. Holding it keeps its
        # identities from being given to other objects.
        self.settled = False
        self.watched: List[Any] = []

    def same_modules(self) -> bool:
        """Whether no other modules would go along than did."""
        if self.sent != len(_pickling.sent_modules):
            return False
        return all(_own.stamp(filename) == before for filename, before in self.files.items())

    def still_holds(self) -> bool:
        if not self.settled or not self.same_modules():
            return False
        now: List[Any] = self.watched[:3]
        if not all(_settled(part, now, set()) for part in self.watched[:3]):
            return False
        return len(now) == len(self.watched) and all(a is b for a, b in zip(now, self.watched))


_known: Dict[Tuple[int, int, int], _Known] = {}

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), types.BuiltinFunctionType, types.CodeType)
_ABSENT = object()


def _settled(obj: Any, watched: List[Any], seen: Set[int]) -> bool:
    """Whether an object can only differ by being another object; notes those objects."""
    if isinstance(obj, _PLAIN):
        watched.append(obj)
        # A method of a built-in object, like [].append, has that object with it.
        owner = getattr(obj, "__self__", None)
        return owner is None or isinstance(owner, types.ModuleType)
    if id(obj) in seen:
        return True
    seen.add(id(obj))
    watched.append(obj)
    if isinstance(obj, (tuple, frozenset)):
        return type(obj) in (tuple, frozenset) and all(_settled(part, watched, seen) for part in obj)
    if isinstance(obj, types.ModuleType):
        return sys.modules.get(obj.__name__) is obj and obj.__name__ != "__main__"
    if isinstance(obj, (types.FunctionType, type)):
        if _is_by_name(obj):
            return True
        if isinstance(obj, type) or obj.__dict__:
            return False
        watched.append(obj.__code__)
        outside = _pickling.captured(obj)
        names = _pickling.global_names(obj.__code__) + obj.__code__.co_freevars
        # A name that is not there yet may come.
        watched.extend(_ABSENT for name in names if name not in outside)
        return all(_settled(part, watched, seen) for part in outside.values())
    if type(obj) is functools.partial:
        parts = [obj.func, obj.args, *obj.keywords.values()]
        return not obj.__dict__ and all(_settled(part, watched, seen) for part in parts)
    if isinstance(obj, types.MethodType):
        return _settled(obj.__self__, watched, seen) and _settled(obj.__func__, watched, seen)
    # NumPy's functions and numbers do not change.
    return type(obj).__name__ == "ufunc" or (type(obj).__module__ == "numpy" and hasattr(obj, "item") and _is_scalar(obj))


def _is_scalar(obj: Any) -> bool:
    return any(kind.__name__ == "generic" and kind.__module__ == "numpy" for kind in type(obj).__mro__)


def _is_by_name(obj: Any) -> bool:
    """Whether a function or class is found again by its module and name, as pickles want it."""
    module = getattr(obj, "__module__", None)
    if module is None or module in ("__main__", "__mp_main__"):
        return False
    found = sys.modules.get(module)
    for part in getattr(obj, "__qualname__", "<locals>").split("."):
        found = getattr(found, part, None)
    return found is obj


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
            return _assemble(finder, function.__name__, function.__name__, extra, _live_of(function, extra), known)
        functions.update(extra)
        return _assemble(finder, function.__name__, None, functions, lambda: functions, known)
    if not callable(function):
        raise TypeError(
            "expected a function of parameters and chunk, or a module with a function mapfunc(params, chunk), not "
            + _kind_of(function)
        )
    functions = {"map": function, **extra}
    return _assemble(finder, _name_of(function), None, functions, lambda: functions, known)


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
    return isinstance(filename, str) and sys.modules.get(module.__name__) is module and _own.is_elsewhere(filename)


def _assemble(
    finder: _own.Finder,
    name: str,
    module: Optional[str],
    functions: Dict[str, Callable[..., Any]],
    live: Callable[[], Dict[str, Callable[..., Any]]],
    known: Optional[_Known],
) -> _Known:
    pickled, noted = (b"", _Noted()) if not functions else _pickled(functions, name)
    if known is not None and known.pickled == pickled and known.same_modules():
        return known
    names = set(noted.names) | _pickling.sent_modules
    if module is not None:
        names.add(module)
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
        "lines": _lines_of(noted.codes),
        "needs": tuple(sorted(needs)),
    }
    blob = loader.pack(parts)
    if len(blob) > BLOB_BYTES_WARN:
        _warn_of_size(name, len(blob), functions)
    files = {own.filename: _own.stamp(own.filename) for own in sources.values()}
    made = _Known(Prepared(name, blob, frozenset(needs), live), files)
    made.pickled = pickled
    return made


class _Noted:
    """What was seen while a function was pickled."""

    def __init__(self) -> None:
        # Modules that the pickle names.
        self.names: Set[str] = set()
        # What functions that travel by value import when they run.
        self.imports: Set[_own.Imported] = set()
        # Code of functions that travel by value, in order.
        self.codes: List[types.CodeType] = []

    def note(self, obj: Any) -> None:
        if isinstance(obj, types.ModuleType):
            self.names.add(obj.__name__)
        elif isinstance(obj, types.FunctionType):
            if _is_by_name(obj):
                self.names.add(obj.__module__)
            else:
                self.codes.append(obj.__code__)
                self.imports.update(_imports_of(obj.__code__, obj.__globals__.get("__package__") or ""))
        elif isinstance(obj, type):
            if _is_by_name(obj):
                self.names.add(obj.__module__)
        else:
            for owner in (obj, type(obj)):
                name = getattr(owner, "__module__", None)
                if isinstance(name, str) and name in sys.modules:
                    self.names.add(name)


@functools.lru_cache(maxsize=1000)
def _imports_of(code: types.CodeType, package: str) -> Tuple[_own.Imported, ...]:
    """What a piece of code imports when it runs, also in functions inside it."""
    import dis

    steps = list(dis.get_instructions(code))
    # An import inside a try may be meant to fail; in bytecode there is no telling.
    forgiven = bool(getattr(code, "co_exceptiontable", b"")) or any(step.opname == "SETUP_FINALLY" for step in steps)
    found: List[_own.Imported] = []
    for index, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, parts = steps[index - 2].argval, steps[index - 1].argval
        name = _own.absolute(package, level if isinstance(level, int) else 0, step.argval or None)
        if name:
            found.append(_own.Imported(name, (), forgiven))
            below = parts if isinstance(parts, tuple) else ()
            found.extend(_own.Imported(name + "." + part, (), True) for part in below)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.extend(_imports_of(constant, package))
    return tuple(found)


def _pickled(functions: Dict[str, Callable[..., Any]], name: str) -> Tuple[bytes, _Noted]:
    noted = _Noted()
    out = io.BytesIO()
    try:
        _pickler_class()(out, noted).dump(functions)
    except Exception as error:
        what = name if len(functions) == 1 else "functions"
        obj = functions["map"] if len(functions) == 1 and "map" in functions else functions
        raise _pickling.refused(obj, what, error) from error
    return out.getvalue(), noted


@functools.lru_cache(maxsize=None)
def _pickler_class() -> Any:
    base: Any = _pickling.cloudpickle().CloudPickler

    class Pickler(base):  # type: ignore[misc]
        """Notes what it pickles."""

        def __init__(self, file: Any, noted: _Noted) -> None:
            super().__init__(file, protocol=5)
            self._noted = noted

        def reducer_override(self, obj: Any) -> Any:
            self._noted.note(obj)
            return super().reducer_override(obj)

    return Pickler


def _lines_of(codes: List[types.CodeType]) -> Dict[str, Tuple[Tuple[int, str], ...]]:
    """The lines of these functions, by file: pieces with the number of their first line."""
    wanted: Dict[str, Set[int]] = {}
    for code in codes:
        if not _own.is_elsewhere(code.co_filename):
            wanted.setdefault(code.co_filename, set()).update(_line_numbers(code))
    found: Dict[str, Tuple[Tuple[int, str], ...]] = {}
    left = LINES_BYTES_MAX
    for filename in sorted(wanted):
        lines = linecache.getlines(filename)
        pieces: List[Tuple[int, str]] = []
        for number in sorted(wanted[filename]):
            if not 1 <= number <= len(lines) or len(lines[number - 1]) > left:
                continue
            line = lines[number - 1]
            left -= len(line)
            if pieces and pieces[-1][0] + pieces[-1][1].count("\n") == number:
                pieces[-1] = (pieces[-1][0], pieces[-1][1] + line)
            else:
                pieces.append((number, line))
        if pieces:
            found[filename] = tuple(pieces)
    return found


def _line_numbers(code: types.CodeType) -> Set[int]:
    import dis

    numbers = {line for _, line in dis.findlinestarts(code) if line}
    numbers.add(code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            numbers |= _line_numbers(constant)
    # Lines between, which may continue a statement.
    return set(range(min(numbers), max(numbers) + 1))


def _warn_of_size(name: str, size: int, functions: Dict[str, Callable[..., Any]]) -> None:
    biggest, biggest_bytes = "", 0
    for function in functions.values():
        inner = getattr(function, "__func__", getattr(function, "func", function))
        outside = _pickling.captured(inner) if isinstance(inner, types.FunctionType) else {}
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


# What the text of a module was when its functions were seen to be those of the text.
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
                {key: vars(module)[key] for key in ("__file__", "__package__", "__path__", "__spec__") if key in vars(module)}
            )
            linecache.checkcache(filename)
            exec(compile(text, filename, "exec", dont_inherit=True), current.__dict__)
        functions = loader.functions_of(current)
        if "map" not in functions:
            raise TypeError(loader.describe_without_mapfunc(current))
        return {**functions, **extra}

    return live


def _is_made_of(module: types.ModuleType, filename: str, text: str) -> bool:
    """Whether a module, as it was imported, is still what its file says."""
    if module.__name__ in _texts_of_modules:
        return _texts_of_modules[module.__name__] == text
    now = {code.co_name: code for code in compile(text, filename, "exec", dont_inherit=True).co_consts if isinstance(code, types.CodeType)}
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
            # A short name instead of the path here, which means nothing there.
            sources[module] = (module.replace(".", "/") + ("/__init__.py" if module == name else ".py"), module == name, text)
