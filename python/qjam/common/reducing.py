"""The default rule for combining results, for functions without a ``reduce`` of their own.

Workers and the master use it. It needs nothing but the standard library. NumPy's integers are checked for overflow, which needs
NumPy only where a result has some.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter, OrderedDict, defaultdict
from typing import Any, Callable, Dict, Optional, Sequence

__all__ = ["default_reduce"]

_MISSING: Any = object()
# Their own ``+`` is none, or loses entries.
_DICTS = (dict, OrderedDict, defaultdict, Counter)
_SETS = (set, frozenset)


def default_reduce(left: Any, right: Any = _MISSING) -> Any:
    """Adds two results.

    * Numbers, arrays, strings, and objects with a ``+``: with ``+``. An integer sum that does not fit its NumPy type is an error.
    * Lists and tuples: element by element. Two tuples give a tuple, a tuple and a list give a list.
    * Dictionaries: key by key; a key that only one of them has keeps its value.
    * Named tuples and dataclasses: field by field.
    * Sets: their union.
    * None and None: None.

    Dictionaries, named tuples, dataclasses and sets keep their type; a ``__add__`` of their own is used instead. If one sequence of
    results is passed instead, they are added from left to right.

    >>> default_reduce(3, 4)
    7
    >>> default_reduce([1, (2.0, 3)], (10, (20.0, 30)))
    [11, (22.0, 33)]
    >>> default_reduce({"rows": 2, "red": 1}, {"rows": 3, "blue": 1})
    {'rows': 5, 'red': 1, 'blue': 1}
    >>> default_reduce([(1, 2), (3, 4), (5, 6)])
    (9, 12)

    Args:
        left: The left result, or a sequence of all results.
        right: The right result.

    Raises:
        TypeError: if sequences differ in length, arrays differ in shape, or values cannot be added; names the part of the
            result.
        OverflowError: if a sum of NumPy's integers does not fit their type; names the part of the result.
    """
    if right is not _MISSING:
        return _add(left, right, "")
    if not isinstance(left, (list, tuple)) or not left:
        raise TypeError("default_reduce takes two results, or a list of at least one")
    total = left[0]
    for value in left[1:]:
        total = _add(total, value, "")
    return total


def _add(left: Any, right: Any, path: str) -> Any:
    add = _by_parts(left, right)
    if add is not None:
        return add(left, right, path)
    if left is None or right is None:
        if left is right:
            return None
        raise TypeError(
            f"{_part(path)} is None for some chunks and not for others, and None cannot be added: did the function forget to "
            "return a value? Return one for every chunk, or say how to combine two: run(..., reduce=f)"
        )
    left_shape, right_shape = getattr(left, "shape", ()), getattr(right, "shape", ())
    # A number may be added to an array. Two arrays of different shapes would be broadcast.
    if left_shape != right_shape and left_shape != () and right_shape != ():
        raise TypeError(
            f"{_part(path)} has the shape {left_shape} for some chunks and {right_shape} for others; "
            "return arrays of one shape, or say how to combine two: run(..., reduce=f)"
        )
    _check_integers(left, right, path)
    try:
        return left + right
    except TypeError as cause:
        raise TypeError(
            f"{_part(path)} is of the types {_name(left)} and {_name(right)}, which cannot be added ({cause}); return "
            "numbers, arrays, or lists, tuples and dictionaries of them, or say how to combine two: run(..., reduce=f)"
        ) from cause


def _by_parts(left: Any, right: Any) -> Optional[Callable[[Any, Any, str], Any]]:
    """How two results are added part by part; None for those that are added with ``+``."""
    kind, other = type(left), type(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        if kind is other and hasattr(kind, "_fields"):
            return None if _has_own_add(kind) else _add_named_tuples
        return _add_sequences
    if isinstance(left, dict) and isinstance(right, dict):
        return _add_dicts if kind in _DICTS or not _has_own_add(kind) else None
    if isinstance(left, _SETS) and isinstance(right, _SETS):
        return None if _has_own_add(kind) else _unite
    if kind is other and hasattr(kind, "__dataclass_fields__") and not _has_own_add(kind):
        return _add_dataclasses
    return None


def _has_own_add(kind: type) -> bool:
    return getattr(kind, "__add__", None) not in (None, tuple.__add__)


def _add_named_tuples(left: Any, right: Any, path: str) -> Any:
    return type(left)._make(_add(a, b, f"{path}.{name}") for name, a, b in zip(left._fields, left, right))


def _add_dicts(left: Dict[Any, Any], right: Dict[Any, Any], path: str) -> Any:
    total = copy.copy(left)
    for key, value in right.items():
        total[key] = _add(left[key], value, f"{path}[{key!r}]") if key in left else value
    return total


def _add_dataclasses(left: Any, right: Any, path: str) -> Any:
    import dataclasses  # loaded already, where there is one

    total = copy.copy(left)
    for field in dataclasses.fields(left):
        value = _add(getattr(left, field.name), getattr(right, field.name), f"{path}.{field.name}")
        object.__setattr__(total, field.name, value)  # also if it is frozen
    return total


def _unite(left: Any, right: Any, path: str) -> Any:
    return left | right


def _check_integers(left: Any, right: Any, path: str) -> None:
    """Refuses a sum of NumPy's integers that does not fit its type, which NumPy would wrap around."""
    if not (_is_integer(left) and _is_integer(right)) or type(left) is type(right) is int:
        return
    numpy = sys.modules["numpy"]
    dtype = numpy.result_type(left, right)
    if dtype.kind not in "iu" or getattr(left, "size", 1) == 0 or getattr(right, "size", 1) == 0:
        return
    limits = numpy.iinfo(dtype)
    # Two passes over each array, without memory of their own. Most sums are known to fit after that.
    ends = [_ends(left), _ends(right)]
    if None in ends or limits.min <= sum(low for low, _ in ends) and sum(high for _, high in ends) <= limits.max:
        return
    # What a mask hides is never added.
    known = [value.filled(0) if hasattr(value, "filled") else value for value in (left, right)]
    a, b = numpy.broadcast_arrays(*(numpy.asarray(value, dtype) for value in known))
    total = a + b  # an array: wraps around
    wrong = (a < 0) == (b < 0)
    wrong &= (total < 0) != (a < 0) if dtype.kind == "i" else total < a
    if not wrong.any():
        return
    at = numpy.unravel_index(int(wrong.argmax()), wrong.shape)
    where = f"{_part(path)}{list(map(int, at)) if at else ''}"
    raise OverflowError(
        f"{where}: {int(a[at])} + {int(b[at])} does not fit {dtype}; return a wider type (x.astype(float), or int(x) for "
        "integers of any size), or say how to combine two: run(..., reduce=f)"
    )


def _is_integer(value: Any) -> bool:
    """Whether it is an int, or one or more integers of NumPy's."""
    if type(value) is int:
        return True
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") not in ("i", "u"):
        return False
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _ends(value: Any) -> Any:
    """The least and the largest integer; None if all are masked."""
    if type(value) is int:
        return value, value
    low, high = value.min(), value.max()
    return None if getattr(low, "mask", False) else (int(low), int(high))


def _add_sequences(left: Sequence[Any], right: Sequence[Any], path: str) -> Any:
    if len(left) != len(right):
        raise TypeError(
            f"{_part(path)} has {len(left)} elements for some chunks and {len(right)} for others; return equally long "
            "ones, or say how to combine two: run(..., reduce=f)"
        )
    items = [_add(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(left, right))]
    return tuple(items) if isinstance(left, tuple) and isinstance(right, tuple) else items


def _part(path: str) -> str:
    return f"result{path}" if path else "the result"


def _name(value: Any) -> str:
    return type(value).__name__
