"""Rules for the classes that a pickle from another machine may use on this one.

A class of the user is a data type to us, not a constructor: an instance is made by ``__new__`` and gets its attributes, as pickle does
by default. It is called only if it says itself how it is pickled. Functions are never called, and modules are not imported, except
those of the user that were sent to the workers.
"""

from __future__ import annotations

import copyreg
import enum
import importlib
import sys
import types
from collections import deque
from typing import Any, Dict, FrozenSet, Optional

from . import _own, _pickling
from ._plain import BUILD, CALL, FILL, LOOKUP, NEW, PACKAGES, VALUE

__all__ = ["is_among", "look_up", "refusal"]

_CONTAINERS = (list, dict, set, deque)
#: Packages whose classes are of native code, which believes the state that it is given.
_NATIVE = ("_ctypes", "numpy", "pyarrow", "scipy")
_NOT_KNOWN = "It is neither a plain value nor a class of yours."


def refusal(module: str, name: str, uses: int, more: FrozenSet[Any]) -> Optional[str]:
    """Why a pickle may not use something in this way; None if it may. ``more`` is what the user has added."""
    if not module:
        found = _script_class(name)
        return _NOT_KNOWN if found is None else _of_own_class(found, uses)
    if more and module.partition(".")[0] in more:
        return None
    found = look_up(module, name)
    if found is None:
        return _NOT_KNOWN
    if not uses & ~PACKAGES.get(module.partition(".")[0], {}).get((module, name), 0):
        return None
    if more and is_among(found, more):
        return None
    if isinstance(found, enum.Enum) and uses == VALUE:
        return None
    if not isinstance(found, type):
        return "It is a function: only classes are used, since a function does something."
    if found.__module__ != module or found.__qualname__ != name:
        return "It is another name of a class."
    if uses & ~(VALUE | LOOKUP) and _does_something_at_the_end(found):
        return _AT_THE_END
    if _is_constant(found) or issubclass(found, BaseException):
        return _of_known_kind(found, uses)
    if _is_named_tuple(found):
        return None if not uses & ~(NEW | VALUE) else _NOT_KNOWN
    if module in ("__main__", "__mp_main__") or module in _own.loaded() or module in _pickling.sent_names:
        return _of_own_class(found, uses)
    if _is_plain_dataclass(found):
        return None if not uses & ~(NEW | BUILD | VALUE) else "It would be called."
    return "It is a class of an installed package, of which only plain values and dataclasses are used."


def is_among(found: Any, more: FrozenSet[Any]) -> bool:
    """Whether the user has named this."""
    try:
        return found in more
    except TypeError:
        return False


def _script_class(name: str) -> Optional[type]:
    from ._worker.scripts import script_class

    try:
        found = script_class(name)
    except Exception:
        return None
    return found if isinstance(found, type) else None


def look_up(module: str, name: str) -> Any:
    """What a pickle means by a name. Between the module and it there are only classes, so that nothing is run."""
    found: Any = sys.modules.get(module)
    if found is None:
        if module not in _pickling.sent_names:
            return None
        try:
            found = importlib.import_module(module)
        except Exception:
            return None
    parts = name.split(".")
    for number, part in enumerate(parts):
        space: Dict[str, Any] = getattr(found, "__dict__", {})
        if part not in space or (part.startswith("__") and part.endswith("__")):
            return None
        found = space[part]
        if isinstance(found, (staticmethod, classmethod)):
            return None
        if number + 1 < len(parts) and not isinstance(found, type):
            return None
    return found


def _of_own_class(found: type, uses: int) -> Optional[str]:
    if _is_constant(found) or issubclass(found, BaseException):
        return _of_known_kind(found, uses)
    if uses & LOOKUP:
        return "A method of it would be looked up."
    if uses & ~VALUE and _does_something_at_the_end(found):
        return _AT_THE_END
    if uses & CALL and not _says_how(found):
        return "It would be called, and the class does not say that it is pickled in this way (__reduce__)."
    if uses & FILL and not issubclass(found, _CONTAINERS):
        return "Items would be added to it, and it is no container."
    if uses & (NEW | BUILD) and any(base.__module__.partition(".")[0] in _NATIVE for base in found.__mro__):
        return "It derives from a class of native code, and is not pickled as that is."
    return None


_AT_THE_END = "It does something when an object of it ends (__del__), and would do it with what the host has put in."


def _does_something_at_the_end(found: type) -> bool:
    return any("__del__" in base.__dict__ for base in found.__mro__)


def _of_known_kind(found: type, uses: int) -> Optional[str]:
    """Enumerations, whose members are looked up and never changed, and exceptions, which are called."""
    allowed = CALL | VALUE | (LOOKUP if _is_constant(found) else BUILD)
    return "It would be used in a way that is not that of its kind." if uses & ~allowed else None


def _is_constant(found: Any) -> bool:
    """Whether a class is an enumeration: to call it is to look up a member, if it has any."""
    return issubclass(found, enum.Enum) and bool(found.__members__)


def _says_how(found: Any) -> bool:
    """Whether a class has a way of its own to be pickled."""
    return (
        found.__reduce__ is not object.__reduce__
        or found.__reduce_ex__ is not object.__reduce_ex__
        or found in copyreg.dispatch_table
    )


def _is_named_tuple(found: type) -> bool:
    made_by = str(getattr(found.__new__, "__module__", ""))
    return issubclass(found, tuple) and hasattr(found, "_fields") and made_by.startswith("namedtuple_")


#: What would run when an object is made, found or given its attributes.
_HOOKS = ("__setattr__", "__delattr__", "__getattr__", "__getattribute__", "__del__", "__set__", "__delete__")


def _is_plain_dataclass(found: Any) -> bool:
    """A dataclass that runs nothing when it is read."""
    new: Any = found.__new__
    if not hasattr(found, "__dataclass_fields__") or new is not object.__new__ or not isinstance(found, type):
        return False
    # A class of classes could do something, too.
    if found.__class__ is not type:
        return False
    for base in found.__mro__[:-1]:
        space = dict(base.__dict__)
        sets = space.get("__setstate__")
        if sets is not None and getattr(sets, "__module__", "") != "dataclasses":
            return False
        if getattr(space.get("__dataclass_params__"), "frozen", False):
            # They refuse, and are not written by anybody.
            space.pop("__setattr__", None)
            space.pop("__delattr__", None)
        if any(name in space for name in _HOOKS):
            return False
        # Slots are set as such, and nothing else may set itself.
        if any(hasattr(type(value), "__set__") and not isinstance(value, _SLOTS) for value in space.values()):
            return False
    return True


_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
