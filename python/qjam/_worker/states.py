"""States of chunks that stay objects of their interpreter between rounds.

A state is pickled after its first step, when the slot asks for it, and when its steps have taken long compared with pickling: the
slot makes a lost state from its last pickle and the steps since. In between it is only the object here. That must not show in
results, so a state stays here only if unpickling its pickle would give an object that computes the same: see :func:`can_stay`.
"""

from __future__ import annotations

import copyreg
import gc
from typing import Any, Dict, Optional, Set, Tuple

# Steps may take this many times as long as pickling the state before it is pickled again.
_STEPS_PER_PICKLING = 50.0


class StepResult:
    """What a step returns if its state is a new object: the result of the step, and the state.

    A step may change its state in place instead. Numbers, texts and tuples cannot be changed in place.

    >>> import qjam
    >>> def count(params, chunk, state):
    ...     return qjam.StepResult(len(chunk), state + 1)
    >>> with qjam.Master("local:2") as m:
    ...     held = m.hold(lambda chunk: 0, ["a", "b"])
    ...     held.run(count), held.run(count), held.collect()
    (2, 2, [2, 2])
    """

    __slots__ = ("value", "state")

    def __init__(self, value: Any, state: Any) -> None:
        self.value = value
        """The result, which is combined with those of other chunks."""
        self.state = state
        """The state for the next round."""

    def __repr__(self) -> str:
        return f"StepResult({self.value!r}, {self.state!r})"


class State:
    """A state and what its pickles have cost."""

    __slots__ = ("version", "value", "modules", "steps", "steps_s", "pickling_s")

    def __init__(self, value: Any, modules: object) -> None:
        self.version = 0
        self.value = value
        # The user's modules that its classes are from.
        self.modules = modules
        # Steps of this object.
        self.steps = 0
        # Time of the steps since it was pickled, and of pickling it; None if it never was.
        self.steps_s = 0.0
        self.pickling_s: Optional[float] = None

    def is_due(self) -> bool:
        """Whether pickling it now costs little, compared with making it again."""
        return self.pickling_s is None or self.steps_s >= _STEPS_PER_PICKLING * self.pickling_s


class States:
    """The states of an interpreter, by number."""

    def __init__(self) -> None:
        self.by_number: Dict[int, State] = {}

    def get(self, number: int, version: int) -> Optional[State]:
        """A state, if it is here in this version."""
        state = self.by_number.get(number)
        return state if state is not None and state.version == version else None

    def forget(self, number: int) -> None:
        """Drops a state."""
        self.by_number.pop(number, None)


_FIXED = {type(None), bool, int, float, complex, str, bytes, bytearray}
# What is looked into. A class is known by its name.
_CONTAINERS = {list, tuple, dict, type}
_GENERATORS = {"Generator", "RandomState"}
_plain_classes: Dict[type, bool] = {}


def can_stay(value: Any) -> bool:
    """Whether a state computes the same after it has been pickled and unpickled, and shares nothing with other objects.

    That is so for numbers, texts, lists, dictionaries, tuples, NumPy's arrays that own their memory, its random generators, and
    objects of plain classes that have such attributes.

    >>> import numpy
    >>> can_stay({"weights": numpy.zeros(3), "log": [1.5, "text"]})
    True
    >>> can_stay(numpy.zeros(6)[::2]), can_stay({1, 2})
    (False, False)
    """
    level = [value]
    seen: Set[int] = set()
    memories: Set[int] = set()
    # Level by level, since a state may consist of a million objects, and this way most of the work is done in C.
    while level:
        kinds = set(map(type, level)) - _FIXED
        if not kinds:
            return True
        arrays = {kind for kind in kinds if kind.__module__.partition(".")[0] == "numpy"}
        if not all(kind in _CONTAINERS or kind in arrays or _is_plain_class(kind) for kind in kinds):
            return False
        found = {id(item): item for item in level if type(item) in kinds}
        for known in seen.intersection(found):
            del found[known]
        seen.update(found)
        if arrays:
            if not all(_is_own_array(item, memories) for item in found.values() if type(item) in arrays):
                return False
            found = {place: item for place, item in found.items() if type(item) not in arrays}
        # Classes are referred to by their objects.
        level = gc.get_referents(*(item for item in found.values() if type(item) is not type))
    return True


def _is_own_array(item: Any, memories: Set[int]) -> bool:
    """Whether this is an array with memory that no other array of the state has, or another object of NumPy's that may stay."""
    import numpy

    if isinstance(item, numpy.generic):
        return not item.dtype.hasobject
    if type(item).__name__ in _GENERATORS and type(item).__module__.startswith("numpy.random"):
        return True
    if type(item) is not numpy.ndarray or item.dtype.hasobject or not item.flags.writeable:
        return False
    # A pickle has the elements of other arrays in another order.
    if not (item.flags.c_contiguous or item.flags.f_contiguous):
        return False
    owner = item
    while type(owner.base) is numpy.ndarray:
        owner = owner.base
    memory = owner
    if owner.base is not None:
        # What was unpickled has memory of its own; all else is memory of parameters or chunks.
        memory = owner.base.obj if type(owner.base) is memoryview else owner.base
        if type(memory) is not bytearray:
            return False
    length = memory.nbytes if memory is owner else len(memory)
    if length != item.nbytes or id(memory) in memories:
        return False
    memories.add(id(memory))
    return True


def _is_plain_class(kind: type) -> bool:
    """Whether pickle stores objects of this class as their attributes, and nothing else."""
    known = _plain_classes.get(kind)
    if known is None:
        bases = kind.__mro__[:-1]
        known = _plain_classes[kind] = (
            type(kind) is type
            and all(base.__flags__ & _HEAP_TYPE and "__slots__" not in vars(base) for base in bases)
            and all(getattr(kind, name, None) is getattr(object, name, None) for name in _PICKLING)
            and kind not in copyreg.dispatch_table
        )
    return known


# Py_TPFLAGS_HEAPTYPE: classes that are written in Python.
_HEAP_TYPE = 1 << 9
_PICKLING = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


def lost(step: Any, state: Any) -> Optional[str]:
    """Why a step's change of its state is lost, if it is: the state cannot be changed in place, and the step only assigns it.

    >>> def count(params, chunk, state):
    ...     state += 1
    >>> lost(count, 5)
    'count assigns state, which does not change a state of type int: return qjam.StepResult(result, state), or make the state a list or a dictionary'
    >>> lost(count, [5]) is None
    True
    """
    code = getattr(step, "__code__", None)
    if code is None:
        return None
    place = 3 if getattr(step, "__self__", None) is not None else 2
    if code.co_argcount <= place or not _assigns(code, code.co_varnames[place]):
        return None
    if _is_fixed(state):
        name = code.co_varnames[place]
        return (
            f"{getattr(step, '__name__', 'the step')} assigns {name}, which does not change a state of type {type(state).__name__}: "
            f"return qjam.StepResult(result, {name}), or make the state a list or a dictionary"
        )
    return None


def _assigns(code: Any, name: str) -> bool:
    """Whether a function assigns one of its variables."""
    import dis

    stored: Set[Tuple[str, str]] = set()
    put_aside: Set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_FAST_AND_CLEAR":
            put_aside.add(str(instruction.argval))
        if instruction.opname.startswith("STORE_"):
            names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            # An instruction of newer interpreters assigns a variable and reads another one.
            names = names[:1] if instruction.opname == "STORE_FAST_LOAD_FAST" else names
            stored.update((instruction.opname, str(name)) for name in names)
    # Newer interpreters put a comprehension's variables aside, and back.
    if name in put_aside:
        return False
    return any(
        stores == name and opname.startswith(("STORE_FAST", "STORE_DEREF")) for opname, stores in stored
    )


def _is_fixed(state: Any) -> bool:
    """Whether a state cannot be changed in place."""
    if type(state) is tuple or type(state) is frozenset:
        return all(map(_is_fixed, state))
    if type(state) in _FIXED:
        return type(state) is not bytearray
    kind = type(state)
    return kind.__module__.partition(".")[0] == "numpy" and any(base.__name__ == "generic" for base in kind.__mro__)
