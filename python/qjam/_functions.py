"""Examines a function: its external variables, its imports, its source lines, and whether any of these can change.

Everything is read from the function and its bytecode; nothing is executed.
"""

from __future__ import annotations

import functools
import linecache
import sys
import types
from typing import Any, Dict, List, Set, Tuple

from qjam import _own

# Maximum number of source lines sent for tracebacks.
LINES_BYTES_MAX = 64 * 1024


def captured(function: types.FunctionType) -> Dict[str, Any]:
    """The external variables that are sent with a function, by name: of enclosing functions, and global ones."""
    found: Dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            # Not assigned yet.
            continue
    for name in global_names(function.__code__):
        if name in function.__globals__:
            found.setdefault(name, function.__globals__[name])
    for index, value in enumerate(function.__defaults__ or ()):
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        found.setdefault(names[len(names) - len(function.__defaults__ or ()) + index], value)
    found.update(function.__kwdefaults__ or {})
    return found


@functools.lru_cache(maxsize=1000)
def global_names(code: types.CodeType) -> Tuple[str, ...]:
    """Names of the global variables that code reads, including nested functions."""
    import dis

    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(global_names(constant))
    return tuple(sorted(names))


_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(Ellipsis),
    types.BuiltinFunctionType,
    types.CodeType,
)
_ABSENT = object()


class Watch:
    """The external variables of a function, if each can only change by being rebound.

    Looking at it again compares identities and nothing else. It holds on to what it has seen, so that no other object gets
    the same identity.
    """

    def __init__(self) -> None:
        # Dictionary, key, value: global variables, modules, names in modules.
        self.entries: List[Tuple[Dict[str, Any], str, Any]] = []
        self.cells: List[Tuple[Any, Any]] = []
        self.functions: List[Tuple[types.FunctionType, Any, Any]] = []
        self.seen: Dict[int, Any] = {}

    def same(self) -> bool:
        """Whether nothing has changed."""
        try:
            for known, key, value in self.entries:
                if known.get(key, _ABSENT) is not value:
                    return False
            for cell, value in self.cells:
                if cell.cell_contents is not value:
                    return False
            for f, code, defaults in self.functions:
                if f.__code__ is not code or f.__defaults__ is not defaults or f.__dict__:
                    return False
            return True
        except ValueError:
            # A variable that no longer exists.
            return False

    def add(self, obj: Any) -> bool:
        """Adds an object and its external variables; returns False if some part of it is mutable."""
        if isinstance(obj, _PLAIN):
            # A method of a built-in object, like [].append, refers to that object.
            owner = getattr(obj, "__self__", None)
            return owner is None or isinstance(owner, types.ModuleType)
        if id(obj) in self.seen:
            return True
        self.seen[id(obj)] = obj
        if isinstance(obj, (tuple, frozenset)):
            return type(obj) in (tuple, frozenset) and all(map(self.add, obj))
        if isinstance(obj, types.ModuleType):
            self.entries.append((sys.modules, obj.__name__, obj))
            return sys.modules.get(obj.__name__) is obj and obj.__name__ != "__main__"
        if isinstance(obj, (types.FunctionType, type)):
            return self._add_named(obj) if is_by_name(obj) else self._add_function(obj)
        if type(obj) is functools.partial:
            self.entries.extend((obj.keywords, key, value) for key, value in obj.keywords.items())
            return not obj.__dict__ and all(map(self.add, [obj.func, obj.args, *obj.keywords.values()]))
        if isinstance(obj, types.MethodType):
            return self.add(obj.__self__) and self.add(obj.__func__)
        # NumPy's functions and numbers do not change.
        return type(obj).__name__ == "ufunc" or (
            type(obj).__module__ == "numpy" and hasattr(obj, "item") and _is_scalar(obj)
        )

    def _add_named(self, obj: Any) -> bool:
        """A function or class that is found by its name; it changes if the name is rebound."""
        module = sys.modules[obj.__module__]
        top, _, _ = obj.__qualname__.partition(".")
        self.entries.append((sys.modules, obj.__module__, module))
        self.entries.append((vars(module), top, vars(module).get(top, _ABSENT)))
        return True

    def _add_function(self, obj: Any) -> bool:
        """A function that is sent by value."""
        if isinstance(obj, type) or obj.__dict__:
            return False
        self.functions.append((obj, obj.__code__, obj.__defaults__))
        parts: List[Any] = [*(obj.__defaults__ or ()), *(obj.__kwdefaults__ or {}).values()]
        self.entries.extend(
            (obj.__kwdefaults__, key, value) for key, value in (obj.__kwdefaults__ or {}).items()
        )
        for name in global_names(obj.__code__):
            # A name that does not exist yet may be defined later.
            value = obj.__globals__.get(name, _ABSENT)
            self.entries.append((obj.__globals__, name, value))
            if value is not _ABSENT:
                parts.append(value)
        for cell in obj.__closure__ or ():
            try:
                self.cells.append((cell, cell.cell_contents))
            except ValueError:
                return False
            parts.append(cell.cell_contents)
        return all(map(self.add, parts))


def _is_scalar(obj: Any) -> bool:
    return any(kind.__name__ == "generic" and kind.__module__ == "numpy" for kind in type(obj).__mro__)


def is_by_name(obj: Any) -> bool:
    """Whether a function or class can be found by its module and name, as pickle requires."""
    module = getattr(obj, "__module__", None)
    if module is None or module in ("__main__", "__mp_main__"):
        return False
    found = sys.modules.get(module)
    for part in getattr(obj, "__qualname__", "<locals>").split("."):
        found = getattr(found, part, None)
    return found is obj


class Noted:
    """What was encountered while a function was pickled."""

    def __init__(self) -> None:
        # Modules that the pickle names.
        self.names: Set[str] = set()
        # Imports that the user's functions make when they run.
        self.imports: Set[_own.Imported] = set()
        # Code of functions that are sent by value, in order.
        self.codes: List[types.CodeType] = []

    def note(self, obj: Any) -> None:
        if isinstance(obj, types.ModuleType):
            self.names.add(obj.__name__)
        elif isinstance(obj, types.FunctionType):
            if is_by_name(obj):
                self.names.add(obj.__module__)
            else:
                self.codes.append(obj.__code__)
            self.will_run(obj)
        elif isinstance(obj, type):
            if is_by_name(obj):
                self.names.add(obj.__module__)
        else:
            for owner in (obj, type(obj)):
                name = getattr(owner, "__module__", None)
                if isinstance(name, str) and name in sys.modules:
                    self.names.add(name)

    def will_run(self, function: Any) -> None:
        """Records the imports of a function of the user."""
        code = getattr(function, "__code__", None)
        if isinstance(code, types.CodeType) and not _own.is_elsewhere(code.co_filename):
            self.imports.update(imports_of(code, function.__globals__.get("__package__") or ""))


@functools.lru_cache(maxsize=1000)
def imports_of(code: types.CodeType, package: str) -> Tuple[_own.Imported, ...]:
    """The imports of some code, including nested functions."""
    import dis

    steps = list(dis.get_instructions(code))
    # An import inside a try may be allowed to fail; bytecode does not show it.
    forgiven = bool(getattr(code, "co_exceptiontable", b"")) or any(
        step.opname == "SETUP_FINALLY" for step in steps
    )
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
            found.extend(imports_of(constant, package))
    return tuple(found)


def lines_of(codes: List[types.CodeType]) -> Dict[str, Tuple[Tuple[int, str], ...]]:
    """The source lines of these functions, by file: pieces with the number of their first line."""
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
