"""Classes of the user's script in what a worker sends back: named, instead of sent with their code.

A class that is defined in a script, a notebook or a function travels to workers by value, under a name that cloudpickle has given it.
On the way back that name is enough, and the master does not have to run code from a host to know its own class.
"""

from __future__ import annotations

import functools
import pickle
import weakref
from typing import Any

from qjam._worker import loader

# Classes that this interpreter has made itself, which others cannot know by name.
_made_here: weakref.WeakSet[Any] = weakref.WeakSet()


def script_class(name: str) -> Any:
    """The class that cloudpickle has given this name. Pickles refer to it."""
    found = _inner(loader.cloudpickle())._DYNAMIC_CLASS_TRACKER_BY_ID.get(name)
    if found is None:
        raise pickle.UnpicklingError("it has an object of a class that was not sent from here")
    return found


def _inner(module: Any) -> Any:
    """Where cloudpickle keeps its names."""
    return getattr(module, "cloudpickle", module)


def dumps(obj: object, **options: Any) -> bytes:
    """Pickles what plain pickle does not: objects of classes of the user's script, and functions."""
    import io

    module = loader.cloudpickle()
    if module is None:
        return pickle.dumps(obj, **options)
    out = io.BytesIO()
    _pickler(module)(out, **options).dump(obj)
    return out.getvalue()


@functools.lru_cache(maxsize=None)
def _pickler(module: Any) -> Any:
    base: Any = module.CloudPickler
    names = _inner(module)._DYNAMIC_CLASS_TRACKER_BY_CLASS

    class Pickler(base):  # type: ignore[misc]
        """Names the classes that came from the master."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, type):
                name = names.get(obj)
                if name is not None and obj not in _made_here:
                    return script_class, (name,)
                if name is None:
                    _made_here.add(obj)
            return super().reducer_override(obj)

    return Pickler
