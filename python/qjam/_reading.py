"""Reads what workers send back without running anything that a host could choose.

A pickle is a program: reading it calls whatever it names. So the names in it are listed first, by native code that runs nothing
(`_native.guarded`), each with its use: called, made without a call of its constructor, filled, or put into the value as it is. The
pickle is read only if all of them are on a closed list: constructors of plain values (`_plain`), and the user's own classes, by rules
(`_rules`). Native code also puts guards in: before each call that the pickle asks for, and before objects of NumPy and the like get
their state, it is checked with what arguments (`_worker.guards`). See SECURITY.md.

Comes in: parts of results, states and exceptions, as native code hands them over. Goes out: objects, or `RefusedResult`.
"""

from __future__ import annotations

import pickle
from typing import Any, FrozenSet, Iterable, Optional, Sequence, Tuple, Union

from . import _native
from ._plain import PLAIN
from ._rules import is_among, look_up, refusal
from ._worker import guards
from ._worker.values import load as load_anything
from .errors import RefusedResult

__all__ = ["Reader", "read_exception"]

#: Module, attribute and uses.
Name = Tuple[str, str, int]


class Reader:
    """What one master accepts from its workers.

    Workers on this machine are processes of the same user, which could do anything to this one in any case, so everything is
    accepted as long as there are no others. ``is_strict`` says that some are elsewhere.
    """

    __slots__ = ("_allows_code", "_more", "guards_states", "is_strict")

    def __init__(self, more: Iterable[Any] = (), allows_code: bool = False) -> None:
        self._more: FrozenSet[Any] = frozenset(more)
        self._allows_code = allows_code
        self.is_strict = False
        # Whether workers read states from others with guards: not of a package that the user trusts.
        self.guards_states = not self._more & guards.PACKAGES

    def use_hosts(self) -> None:
        """From now on something may come from another machine."""
        self.is_strict = not self._allows_code

    def load(self, parts: Any) -> Any:
        """A result from its parts."""
        if self.is_strict and parts[0] == "P":
            return self.load_pickle(parts[1], parts[2])
        return load_anything(parts)

    def load_pickle(self, stream: bytes, buffers: Sequence[Any]) -> Any:
        """A state."""
        if not self.is_strict:
            return pickle.loads(stream, buffers=buffers)
        names, stream = _guarded(stream)
        if not names:
            return pickle.loads(stream, buffers=buffers)
        self.check(names)
        return _load(stream, buffers, self._more)

    def check(self, names: Sequence[Name]) -> None:
        """Raises :class:`RefusedResult` unless a pickle may name these. Called by native code for states."""
        for module, name, uses in names:
            # What is only named is imported, and no pickler names what it does not use.
            if not uses or uses & ~PLAIN.get((module, name), 0):
                why = refusal(module, name, uses, self._more) if uses else "It is named, and not used."
                if why is not None:
                    raise _refused(module, name, why)


def stricter(one: Reader, other: Optional[Reader]) -> Reader:
    """Of two masters that run the same function at the same time, the reader that accepts less."""
    return one if other is None or one.is_strict else other


def read_exception(stream: bytes) -> Optional[Exception]:
    """The original exception of a worker, if it can be rebuilt: its class is known here, and so is all that is in it.

    Only subclasses of ``Exception``: a ``SystemExit`` must not end the program that requested a result.
    """
    if not stream:
        return None
    try:
        names, stream = _guarded(stream)
        Reader().check(names)
        found = _load(stream, (), frozenset())
    except Exception:  # the class cannot be imported or built here: the RemoteError has the details
        return None
    return found if isinstance(found, Exception) else None


class _Unpickler(guards.Unpickler):
    """Reads a pickle with guards, whose names have been checked."""

    def __init__(self, stream: bytes, buffers: Sequence[Any], more: FrozenSet[Any]) -> None:
        super().__init__(stream, buffers)
        self._more = more

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in self._more:
            return self.trusted(pickle.Unpickler.find_class(self, module, name))
        if (module, name) in PLAIN:
            return super().find_class(module, name)
        found = look_up(module, name)
        if found is None:
            raise _refused(module, name, "It is not known here.")
        return self.trusted(found) if is_among(found, self._more) else self.guarded(module, name, found)


def _load(stream: bytes, buffers: Sequence[Any], more: FrozenSet[Any]) -> Any:
    try:
        return _Unpickler(stream, buffers, more).load()
    except guards.Refused as error:
        raise RefusedResult(f"a worker sent {error}; it is not used. {_SUSPECT}") from error.__cause__


def _guarded(stream: bytes) -> Tuple[Sequence[Name], bytes]:
    """What a pickle names, and the pickle with guards."""
    try:
        names, changed = _native.guarded(stream)
        return names, stream if changed is None else changed
    except ValueError as error:
        raise RefusedResult(f"a worker sent {error}; it was not read. {_SUSPECT}") from None


_SUSPECT = "qjam's own workers do not write such a thing: something else answers on one of the hosts."


def _refused(module: str, name: str, why: str) -> RefusedResult:
    what = f"{module}.{name}" if module else "an object of a class that was not sent from here"
    return RefusedResult(
        f"a worker sent something that would use {what!r} on this machine; it was not read, and nothing was run. {why} "
        "Return numbers, arrays, texts, containers, and objects of your own classes; or name what you expect in "
        "Master(result_classes=[...]). With Master(hosts_may_run_code_here=True) nothing is checked, and every host can run "
        "whatever it likes on this machine, as you."
    )


def extra_classes(given: Optional[Iterable[Union[str, Any]]]) -> FrozenSet[Any]:
    """The argument ``result_classes``, validated: classes and functions, or names of packages."""
    if given is None:
        return frozenset()
    if isinstance(given, str):
        given = [given]
    found = frozenset(given)
    for entry in found:
        if not isinstance(entry, str) and not callable(entry):
            raise TypeError(
                "result_classes has classes, functions that make objects, or names of packages in it; not "
                f"{entry!r}"
            )
    return found
