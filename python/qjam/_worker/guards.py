"""Reads pickles that may have come from another host, and asks before each call and each change whether it may be done.

Native code looks a pickle through before it is read: it refuses what no worker writes, lists the names, and puts guards in
(`crates/python/src/named`). The names are decided on by the master (`qjam._plain`, `qjam._rules`). Here is decided what may be done
with them: a function that makes an array does not check what it is told, and a false length or element type would be believed. A
guard gets the objects themselves, checks them, and then does what the pickle asked for. What was checked cannot be changed by what
follows in the pickle: objects of packages with native code get their state once, before anything else refers to them.

Guards of packages are in `guards_numpy` and `guards_tables`. Guards here are about Python's own types: memory that is taken by a
claim, and native types that believe what they are told.
"""

from __future__ import annotations

import builtins
import datetime
import io
import pickle
import re
import sys
import types
from collections import deque
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

__all__ = ["CallGuard", "Refused", "Unpickler", "exactly", "load", "need", "takes"]

#: Gets a callable and its arguments; calls it, or raises `Refused`.
CallGuard = Callable[[Any, Tuple[Any, ...]], Any]
#: Gets an object and its state; gives it that state, or raises `Refused`.
BuildGuard = Callable[[Any, Any], None]

# What a guarded pickle asks for.
_CALL, _NEW, _BUILD, _NEW_WITH_KEYWORDS = 0, 1, 2, 3


class Refused(ValueError):
    """A pickle asked for something that no worker of ours would write. The message says what was sent."""


def need(condition: Any, what: str) -> None:
    """Raises `Refused` unless a condition holds."""
    if not condition:
        raise Refused(what)


def exactly(value: Any, *kinds: type) -> bool:
    """Whether a value is of one of these types, and not of a class derived from it."""
    return type(value) in kinds


def load(stream: bytes, buffers: Sequence[Any]) -> Any:
    """Reads a pickle with guards, whose names the master has decided on."""
    try:
        return Unpickler(stream, buffers).load()
    except Refused as error:
        raise _told(error) from None


def _told(error: Refused) -> Exception:
    """The error as the master raises it, where its module is at hand."""
    message = f"the state of this chunk is not used: another host sent {error}"
    try:
        from qjam.errors import RefusedResult
    except ImportError:
        return Refused(message)
    return RefusedResult(message)


class Unpickler(pickle.Unpickler):
    """Reads a pickle with guards."""

    def __init__(self, stream: bytes, buffers: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._calls: Dict[int, CallGuard] = {}
        # Keeps what the numbers above are of.
        self._found: List[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        """What a name means, with its guard noted."""
        return self.guarded(module, name, super().find_class(module, name))

    def guarded(self, module: str, name: str, found: Any) -> Any:
        """Notes the guard of what was found under a name."""
        guard = call_guard(module, name)
        if guard is not None:
            self._calls[id(found)] = guard
            self._found.append(found)
        return found

    def trusted(self, found: Any) -> Any:
        """Notes that something may be called with anything."""
        self._calls[id(found)] = lambda function, arguments: function(*arguments)
        self._found.append(found)
        return found

    def persistent_load(self, pid: Any) -> Any:
        """Does what a guarded pickle asks for."""
        if len(pid) == 2:
            (kind, arguments, keywords), _ = pid
            return _new(kind, arguments, keywords)
        what, given, how = pid
        if how == _CALL:
            need(exactly(given, tuple), "a call with something else than arguments")
            guard = self._calls.get(id(what))
            return _call(what, given) if guard is None else guard(what, given)
        if how == _NEW:
            return _new(what, given, {})
        _build(what, given)
        return what


# ---- calls -------------------------------------------------------------------------------------------------------


def _call(function: Any, arguments: Tuple[Any, ...]) -> Any:
    if not isinstance(function, type):
        return function(*arguments)
    _check_call(function, arguments)
    return _checked(function(*arguments))


#: Types that are made of a value, as long as that says it is. The first ones get it from `__init__`, the others from `__new__`.
_FILLED = (list, set, dict, deque, bytearray)
_FIXED = (tuple, frozenset, str, bytes, int, float, complex)
#: Exceptions that make a tuple of an argument.
_MAKE_TUPLES = (SyntaxError, getattr(builtins, "BaseExceptionGroup", SyntaxError))
#: Types that are as long as they say.
_TRUE = (tuple, list, set, frozenset, dict, deque, str, bytes, bytearray, type)
# As long as a range may be that something is made of.
_RANGE_MAX = 1 << 20


def _check_call(kind: type, arguments: Tuple[Any, ...]) -> None:
    """Whether a class may be called with these: one of Python's containers with a `range` takes what that claims to have."""
    constructor: Any
    if issubclass(kind, _FILLED):
        constructor = kind.__init__
    elif issubclass(kind, _FIXED) or _is_array(kind):
        constructor = kind.__new__
    elif issubclass(kind, _MAKE_TUPLES):
        constructor = None
    else:
        return
    if not _is_python(constructor):
        is_length = issubclass(kind, (bytes, bytearray)) and any(exactly(value, int) for value in arguments)
        is_true = not _is_array(kind) and not is_length and all(map(_is_true, arguments))
        need(is_true, f"a {kind.__name__} made of something that claims to be long")


def _is_true(value: Any) -> bool:
    """Whether something is as long as it says, if it says so."""
    if exactly(value, range):
        return not value[_RANGE_MAX:]
    has_items = hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")
    return not has_items or isinstance(value, _TRUE) or _is_array(type(value))


def _is_python(function: Any) -> bool:
    """Whether a function belongs to the user; those of the standard library do as the native ones."""
    return isinstance(function, types.FunctionType) and function.__module__ != "collections"


def _is_array(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.ndarray)


def _new(kind: Any, arguments: Any, keywords: Any) -> Any:
    """An instance by `__new__`. Picklers give it arguments where a value cannot be changed after it was made."""
    need(isinstance(kind, type) and exactly(arguments, tuple), "an object that is made of something else than a class")
    need(exactly(keywords, dict) and all(exactly(key, str) for key in keywords), "an object with false keywords")
    new: Any = kind.__new__
    # That of the type that it derives from gets a value of that type.
    base = None if isinstance(new, types.FunctionType) else getattr(new, "__self__", None)
    if base in _FIXED:
        fits = all(type(value) is (float if base is complex else base) for value in arguments)
        need(fits and not keywords, f"a {kind.__name__} made of something else than its value")
    need(base is None or base in _FIXED or not _is_array(kind), f"a {kind.__name__} of a length that it only claims to have")
    return _checked(new(kind, *arguments, **keywords))


# ---- states ------------------------------------------------------------------------------------------------------


def _build(obj: Any, state: Any) -> None:
    kind = type(obj)
    guard = _build_guards.get(kind)
    if guard is None:
        guard = build_guard(kind) or set_state
        if kind.__module__.partition(".")[0] in PACKAGES:
            _build_guards[kind] = guard
    guard(obj, state)


#: Those of the classes of packages, which stay.
_build_guards: Dict[type, BuildGuard] = {}


def set_state(obj: Any, state: Any) -> None:
    """As pickle does it, but slots are set as such: `setattr` would also run what the class does for other attributes."""
    own = getattr(obj, "__setstate__", None)
    if own is not None:
        own(state)
        return
    slots = None
    if exactly(state, tuple) and len(state) == 2:
        state, slots = state
    if state is not None:
        set_attributes(obj, state)
    if slots is not None:
        need(exactly(slots, dict), "an object with a false state")
        for name, value in slots.items():
            slot = getattr(type(obj), name, None)
            need(
                isinstance(slot, types.MemberDescriptorType),
                f"an object with an attribute {name!r} that its class has no slot for",
            )
            slot.__set__(obj, value)  # type: ignore[union-attr]


def set_attributes(obj: Any, state: Any) -> None:
    """Gives an object its attributes."""
    need(exactly(state, dict) and all(exactly(name, str) for name in state), "an object with a false state")
    obj.__dict__.update(state)


#: Attributes of exceptions in native code that are in their pickles.
_OF_EXCEPTIONS = {"name": str, "path": str, "msg": str, "args": tuple}
_NATIVE_ATTRIBUTES = (types.MemberDescriptorType, types.GetSetDescriptorType, property)


def _build_exception(obj: Any, state: Any) -> None:
    """Native exceptions believe their attributes; and where one of them is printed, Python imports a module that it names."""
    if isinstance(type(obj).__setstate__, types.FunctionType):
        # That of a class in Python.
        obj.__setstate__(state)
        return
    need(exactly(state, dict) and all(exactly(name, str) for name in state), "an exception with a false state")
    checked = {}
    for name, value in state.items():
        if name == "name_from":
            continue
        need(not name.startswith("__") or name == "__notes__", f"an exception with the attribute {name!r}")
        if isinstance(getattr(type(obj), name, None), _NATIVE_ATTRIBUTES):
            kind = _OF_EXCEPTIONS.get(name)
            need(kind is not None and (value is None or type(value) is kind), f"an exception with a false {name!r}")
        checked[name] = value
    obj.__setstate__(checked)


# ---- Python's own types ------------------------------------------------------------------------------------------


def takes(*kinds: Any, at_least: int = 0) -> CallGuard:
    """A guard for a function whose arguments are of exactly these types; a tuple of types is a choice."""
    choices = [kind if isinstance(kind, tuple) else (kind,) for kind in kinds]

    def guard(function: Any, arguments: Tuple[Any, ...]) -> Any:
        fits = at_least <= len(arguments) <= len(choices) and all(map(_is_one_of, arguments, choices))
        need(fits, f"false arguments of {getattr(function, '__name__', function)}")
        return function(*arguments)

    return guard


def _is_one_of(value: Any, kinds: Iterable[Any]) -> bool:
    return type(value) in kinds


def _look_up(_: Any, arguments: Tuple[Any, ...]) -> Any:
    """The methods and constants that pickles name by their class."""
    need(len(arguments) == 2 and exactly(arguments[1], str), "an attribute of something")
    kind, name = arguments
    if name == "_unpickle" and kind is getattr(sys.modules.get("zoneinfo"), "ZoneInfo", 0):
        return _time_zone
    members = getattr(kind, "__members__", {}) if isinstance(kind, _enumerations()) else {}
    need(name in members, f"the attribute {name!r} of something")
    return members[name]


def _enumerations() -> Any:
    import enum

    return enum.EnumMeta


_TIME_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def _time_zone(key: Any, from_cache: Any) -> Any:
    from zoneinfo import ZoneInfo

    need(exactly(key, str) and _TIME_ZONE.fullmatch(key), "a false time zone")
    return ZoneInfo(key) if from_cache else ZoneInfo.no_cache(key)


def _older_time_zone(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """A time zone of pytz, perhaps with one of its differences to UTC; others would be added to it."""
    need(len(arguments) in (1, 4) and exactly(arguments[0], str) and _TIME_ZONE.fullmatch(arguments[0]), "a false time zone")
    if len(arguments) == 4:
        need(all(exactly(part, int) for part in arguments[1:3]) and exactly(arguments[3], str), "a false time zone")
        known = getattr(function(arguments[0]), "_tzinfos", {})
        difference = (*(datetime.timedelta(seconds=part) for part in arguments[1:3]), arguments[3])
        need(difference in known, "a false time zone")
    return function(*arguments)


def _deque(function: Any, arguments: Tuple[Any, ...]) -> Any:
    is_empty = not arguments or (exactly(arguments[0], tuple) and not arguments[0])
    need(is_empty and (len(arguments) < 2 or exactly(arguments[1], int, type(None))), "a false deque")
    return function(*arguments)


_FRACTION = re.compile(r"-?[0-9]+(/[0-9]+)?")


def _fraction(function: Any, arguments: Tuple[Any, ...]) -> Any:
    if len(arguments) == 1 and exactly(arguments[0], str):
        # Others have exponents, which are written in few digits.
        need(_FRACTION.fullmatch(arguments[0]), "a false fraction")
    else:
        need(len(arguments) == 2 and all(exactly(part, int) for part in arguments), "a false fraction")
    return function(*arguments)


def _pattern(function: Any, arguments: Tuple[Any, ...]) -> Any:
    fits = len(arguments) == 2 and exactly(arguments[0], str, bytes) and exactly(arguments[1], int)
    need(fits and not arguments[1] & re.DEBUG, "a false regular expression")
    return function(*arguments)


def _checked(made: Any) -> Any:
    """Of dates, the bytes are believed; one that is none is looked up beyond the end of a table."""
    if isinstance(made, (datetime.date, datetime.time)):
        try:
            if exactly(made, datetime.date, datetime.datetime, datetime.time):
                made.replace()
                return made
            # A class of the user may have other attributes of these names.
            if isinstance(made, datetime.date):
                datetime.date(*(getattr(datetime.date, name).__get__(made) for name in ("year", "month", "day")))
            if isinstance(made, datetime.datetime):
                datetime.time(*(getattr(datetime.datetime, name).__get__(made) for name in _TIMES))
            elif isinstance(made, datetime.time):
                datetime.time(*(getattr(datetime.time, name).__get__(made) for name in _TIMES))
        except ValueError:
            raise Refused("a date that is none") from None
    return made


_TIMES = ("hour", "minute", "second", "microsecond")


def _defaults(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) <= 1, "a false defaultdict")
    return function(*arguments)


_CALLS: Dict[Tuple[str, str], CallGuard] = {
    ("builtins", "getattr"): _look_up,
    ("builtins", "complex"): takes(float, float, at_least=2),
    ("builtins", "range"): takes(int, int, int, at_least=1),
    ("collections", "OrderedDict"): takes(),
    ("collections", "Counter"): takes(dict),
    ("collections", "defaultdict"): _defaults,
    ("collections", "deque"): _deque,
    ("fractions", "Fraction"): _fraction,
    ("decimal", "Decimal"): takes(str, at_least=1),
    ("re", "_compile"): _pattern,
    ("random", "Random"): takes(),
    ("pytz", "_p"): _older_time_zone,
    ("pytz", "_UTC"): takes(),
    ("time", "struct_time"): takes(tuple, dict),
    ("types", "SimpleNamespace"): takes(),
}

#: Packages, and the module that has their guards.
_MODULES = {"numpy": "guards_numpy", "pandas": "guards_tables", "pyarrow": "guards_tables", "scipy": "guards_tables"}
PACKAGES = frozenset(_MODULES)


def _module_of(package: str) -> Any:
    import importlib

    name = _MODULES.get(package)
    return None if name is None else importlib.import_module("qjam._worker." + name)


def call_guard(module: str, name: str) -> Optional[CallGuard]:
    """The guard of a function, if it has one."""
    package = module.partition(".")[0]
    guards = _module_of(package)
    found: Optional[CallGuard] = _CALLS.get((module, name)) if guards is None else guards.CALLS.get((package, name))
    return found


def build_guard(kind: type) -> Optional[BuildGuard]:
    """The guard of the state of objects of a class, if it has one."""
    if issubclass(kind, BaseException):
        return _build_exception
    for base in kind.__mro__:
        guards = _module_of(str(base.__module__).partition(".")[0])
        found: Optional[BuildGuard] = None if guards is None else guards.build_guard(base)
        if found is not None:
            return found
    return None
