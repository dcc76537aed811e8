"""Reads what workers send back without running anything that a host could choose.

A pickle is a program: reading it calls whatever it names. So the names in it are listed first, by native code that runs nothing
(`_native.names_in`), each with its use: called, made without a call of its constructor, filled, or put into the value as it is. The
pickle is read only if all of them are on a closed list: constructors of plain values (`_plain`), and the user's own classes, by rules
(`_rules`). See SECURITY.md.

Comes in: parts of results, states and exceptions, as native code hands them over. Goes out: objects, or `RefusedResult`.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Callable, FrozenSet, Iterable, List, Optional, Sequence, Tuple, Union

from . import _native
from ._plain import PLAIN, is_honest
from ._rules import look_up, refusal
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

    __slots__ = ("_allows_code", "_more", "is_strict")

    def __init__(self, more: Iterable[Any] = (), allows_code: bool = False) -> None:
        self._more: FrozenSet[Any] = frozenset(more)
        self._allows_code = allows_code
        self.is_strict = False

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
        names = _names(stream)
        if not names:
            return pickle.loads(stream, buffers=buffers)
        self.check(names)
        return _load(stream, buffers, self._more)

    def check(self, names: Sequence[Name]) -> None:
        """Raises :class:`RefusedResult` unless a pickle may name these. Called by native code for states."""
        for module, name, uses in names:
            if uses & ~PLAIN.get((module, name), 0):
                why = refusal(module, name, uses, self._more)
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
        Reader().check(_native.names_in(stream))
        found = _load(stream, (), frozenset())
    except Exception:  # the class cannot be imported or built here: the RemoteError has the details
        return None
    return found if isinstance(found, Exception) else None


class _Unpickler(pickle.Unpickler):
    """Reads a pickle whose names have been checked, and distrusts the element types of arrays."""

    def __init__(self, stream: bytes, buffers: Sequence[Any], made: List[Any], more: FrozenSet[Any]) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._made = made
        self._more = more

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PLAIN and module.partition(".")[0] not in self._more:
            # Also what is named and not used is not imported.
            found = look_up(module, name)
            if found is None:
                raise _refused(module, name, "It is not known here.")
            return _validating(found) if name == "_restore_array" else found
        found = super().find_class(module, name)
        if not module.startswith("numpy"):
            return found
        if module == "numpy.random._pickle":
            return _of_bit_generators(found)
        if name == "dtype":
            return _noting(found, self._made)
        # These give something that can be a key, and so be used before the end.
        which = _DTYPE_AT.get(name)
        return found if which is None else _distrusting(found, which)


#: Which argument is the element type.
_DTYPE_AT = {"_frombuffer": 1, "scalar": 0}


def _validating(function: Any) -> Callable[..., Any]:
    """Arrow believes the offsets of texts and lists; its own check does not."""

    def make(*arguments: Any) -> Any:
        made = function(*arguments)
        made.validate(full=True)
        return made

    return make


def _of_bit_generators(function: Any) -> Callable[..., Any]:
    """These call a function that is given to them: here it must be none."""

    def make(*arguments: Any) -> Any:
        from numpy.random import BitGenerator

        for given in arguments:
            is_kind = isinstance(given, type) and issubclass(given, BitGenerator)
            if len(arguments) > 1 or not (is_kind or isinstance(given, (str, BitGenerator))):
                raise RefusedResult(f"a worker sent a false generator of random numbers; it is not used. {_SUSPECT}")
        return function(*arguments)

    return make


def _noting(dtype: Any, made: List[Any]) -> Callable[..., Any]:
    def make(*arguments: Any) -> Any:
        made.append(dtype(*arguments))
        return made[-1]

    return make


def _distrusting(function: Any, which: int) -> Callable[..., Any]:
    def make(*arguments: Any) -> Any:
        _must_be_honest(arguments[which : which + 1])
        return function(*arguments)

    return make


def _must_be_honest(dtypes: Iterable[Any]) -> None:
    for dtype in dtypes:
        if hasattr(dtype, "hasobject") and not is_honest(dtype):
            raise RefusedResult(f"a worker sent an array with a false element type; it is not used. {_SUSPECT}")


def _load(stream: bytes, buffers: Sequence[Any], more: FrozenSet[Any]) -> Any:
    made: List[Any] = []
    value = _Unpickler(stream, buffers, made, more).load()
    _must_be_honest(made)
    return value


def _names(stream: bytes) -> Sequence[Name]:
    try:
        return _native.names_in(stream)
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
