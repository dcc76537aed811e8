"""Pickles objects for workers, with their arrays beside the pickle.

Plain pickle is tried first because it is fast. Cloudpickle handles what plain pickle cannot, or would do wrongly (a class of the
script is only a name in `__main__` to it, which does not exist on a worker). If both fail, the object is searched for the part that
cannot be pickled, because "cannot pickle '_thread.lock' object" alone does not say where it is.
"""

from __future__ import annotations

import functools
import io
import pickle
import time
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from qjam import _own
from qjam._functions import Noted, captured
from qjam._worker.values import BUFFER_BYTES_MIN, pack

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# Time limit of the search for the part that cannot be pickled.
SEARCH_SECONDS = 2.0

# Own modules of the classes of pickled objects. They are sent with every function from then on.
sent_modules: Set[str] = set()
# Names of all own modules whose sources have been sent to workers.
sent_names: Set[str] = set()


@functools.lru_cache(maxsize=None)
def cloudpickle() -> Any:
    """The cloudpickle that came with qjam, or the installed one."""
    import importlib

    for name in ("qjam._vendor.cloudpickle", "cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError(
        "functions and objects of a script need cloudpickle to travel, and this installation of qjam came without it: "
        "pip install cloudpickle"
    )


def pack_params(obj: Any) -> Tuple[bytes, List[pickle.PickleBuffer]]:
    """Parameters for workers: plain bytes if they are arrays and numbers, else what `pickle_params` gives.

    `qjam._worker.values.unpack` reads either.
    """
    return pack(obj) or pickle_params(obj)


def pickle_params(obj: Any, what: str = "params") -> Tuple[bytes, List[pickle.PickleBuffer]]:
    """A pickle of `obj` for workers, and the memory of its larger arrays, which is not copied.

    Raises `PicklingError`, which names the part that cannot travel; `what` is how it calls the whole.

    >>> stream, buffers = pickle_params({"rate": 0.5})
    >>> len(buffers)
    0
    """
    stream: Optional[bytes] = None
    buffers: List[pickle.PickleBuffer] = []
    kind = type(obj)
    if kind in _PLAIN:
        return pickle.dumps(obj, protocol=5), buffers
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy" and not obj.dtype.hasobject:
        # The usual case; it names no module of the user.
        aside = None if obj.nbytes < BUFFER_BYTES_MIN else _aside(buffers)
        return pickle.dumps(obj, protocol=5, buffer_callback=aside), buffers
    try:
        stream = pickle.dumps(obj, protocol=5, buffer_callback=_aside(buffers))
    except Exception:
        # Cloudpickle can do more; if it fails as well, its error is shown.
        stream = None
    if stream is None or _text(b"__main__") in stream or _text(b"__mp_main__") in stream:
        buffers.clear()
        try:
            slow: bytes = cloudpickle().dumps(obj, protocol=5, buffer_callback=_aside(buffers))
        except Exception as error:
            raise refused(obj, what, error) from error
        stream = slow
    note_modules(stream)
    return stream, buffers


def note_modules(stream: bytes) -> None:
    """Marks the own modules that a pickle names to be sent with every function from now on."""
    for name in _own.loaded():
        if name not in sent_modules and _text(name.encode()) in stream:
            sent_modules.add(name)


def _aside(buffers: List[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    def keep(buffer: pickle.PickleBuffer) -> bool:
        with buffer.raw() as raw:
            if raw.nbytes < BUFFER_BYTES_MIN:
                return True
        buffers.append(buffer)
        return False

    return keep


def _text(name: bytes) -> bytes:
    """How a pickle writes a short text."""
    return b"\x8c" + bytes([len(name)]) + name if len(name) < 256 else name


def pickle_functions(functions: Dict[str, Callable[..., Any]], name: str) -> Tuple[bytes, Noted]:
    """A pickle of functions, and what was encountered: modules, imports, bytecode."""
    noted = Noted()
    out = io.BytesIO()
    try:
        _noting_pickler()(out, noted).dump(functions)
    except Exception as error:
        what = name if len(functions) == 1 else "functions"
        obj = functions["map"] if len(functions) == 1 and "map" in functions else functions
        raise refused(obj, what, error) from error
    return out.getvalue(), noted


@functools.lru_cache(maxsize=None)
def _noting_pickler() -> Any:
    base: Any = cloudpickle().CloudPickler

    class Pickler(base):  # type: ignore[misc]
        """Records what it pickles."""

        def __init__(self, file: Any, noted: Noted) -> None:
            super().__init__(file, protocol=5)
            self._noted = noted

        def reducer_override(self, obj: Any) -> Any:
            self._noted.note(obj)
            return super().reducer_override(obj)

    return Pickler


_ADVICE = (
    "Workers are other processes, so locks, files, sockets, generators and the like cannot travel. "
    "Leave it out, make it inside the function, or give its class a __getstate__ that leaves it out."
)


def refused(obj: Any, what: str, error: BaseException, advice: str = _ADVICE) -> Exception:
    """The error for an object that cannot be pickled."""
    from qjam.errors import PicklingError

    path, reason = find_trouble(obj, what, error)
    if _is_too_deep(reason):
        return PicklingError(
            path + ": nested too deeply to be pickled. Flatten it: lists of parts instead of links."
        )
    return PicklingError("{}: {}. {}".format(path, str(reason).rstrip("."), advice))


def find_trouble(obj: Any, what: str, error: BaseException) -> Tuple[str, BaseException]:
    """The path to the innermost part that cannot be pickled, and its error."""
    deadline = time.monotonic() + SEARCH_SECONDS
    path, reason = what, error
    seen: Set[int] = set()
    while id(obj) not in seen and not _is_too_deep(reason) and time.monotonic() < deadline:
        seen.add(id(obj))
        found = _first_trouble(obj, path, deadline)
        if found is None:
            break
        path, obj, reason = found
    return (path if time.monotonic() < deadline else path + " (or something in it)"), reason


def _first_trouble(obj: Any, path: str, deadline: float) -> Optional[Tuple[str, Any, BaseException]]:
    """The part of an object that cannot be pickled. Slow parts are tried last."""
    long: List[Tuple[str, Any]] = []
    for name, part in _parts(obj, path):
        now = time.monotonic()
        if now > deadline:
            return None
        trouble = _trouble(part, min(now + 0.05, deadline))
        if isinstance(trouble, _TooLong):
            long.append((name, part))
        elif trouble is not None:
            return name, part, trouble
    for name, part in long:
        trouble = _trouble(part, deadline)
        if trouble is not None and not isinstance(trouble, _TooLong):
            return name, part, trouble
    return None


def _is_too_deep(error: BaseException) -> bool:
    return (
        isinstance(error, RecursionError)
        or isinstance(error.__cause__, RecursionError)
        or "recursion" in str(error)
    )


class _TooLong(Exception):
    pass


class _Nowhere(io.RawIOBase):
    """Discards what is written, until a deadline."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if time.monotonic() > self.deadline:
            raise _TooLong()
        return len(data)


def _trouble(obj: Any, deadline: float) -> Optional[BaseException]:
    try:
        # Buffers are out of band, so large arrays cost nothing.
        cloudpickle().CloudPickler(_Nowhere(deadline), protocol=5, buffer_callback=lambda _: False).dump(obj)
    except Exception as error:
        return error
    return None


def _parts(obj: Any, path: str) -> Iterator[Tuple[str, Any]]:
    """What an object is made of, each part with its path."""
    if isinstance(obj, dict):
        for key, value in list(obj.items()):
            yield "a key of {}: {}".format(path, type(key).__name__), key
            yield "{}[{}]".format(path, _short(key)), value
    elif isinstance(obj, (list, tuple)):
        names = getattr(obj, "_fields", None)
        for index, value in enumerate(obj):
            yield ("{}.{}".format(path, names[index]) if names else "{}[{}]".format(path, index)), value
    elif isinstance(obj, (set, frozenset)):
        for value in obj:
            yield "an element of {}".format(path), value
    elif isinstance(obj, types.FunctionType):
        for name, value in captured(obj).items():
            yield "{}, in its variable {!r}".format(path, name), value
    elif isinstance(obj, functools.partial):
        yield path + ".func", obj.func
        for index, value in enumerate(obj.args):
            yield "{}.args[{}]".format(path, index), value
        for key, value in obj.keywords.items():
            yield "{}.keywords[{!r}]".format(path, key), value
    elif isinstance(obj, types.MethodType):
        yield path + ".__self__", obj.__self__
        yield path + ".__func__", obj.__func__
    elif isinstance(obj, type):
        for name, value in list(vars(obj).items()):
            if name not in ("__dict__", "__weakref__"):
                yield "{}.{}".format(path, name), getattr(value, "__func__", value)
    elif type(obj).__module__ != "builtins":
        yield from _attributes(obj, path)


def _attributes(obj: Any, path: str) -> Iterator[Tuple[str, Any]]:
    names = list(getattr(obj, "__dict__", {}))
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    for name in names:
        try:
            value = getattr(obj, name)
        except Exception:
            continue
        yield "{}.{}".format(path, name), value
    yield "the class of {}: {}".format(path, type(obj).__qualname__), type(obj)


def _short(key: Any) -> str:
    text = (
        repr(key)
        if isinstance(key, (str, int, float, bytes, tuple, bool, type(None)))
        else type(key).__name__
    )
    return text if len(text) <= 60 else text[:57] + "..."
