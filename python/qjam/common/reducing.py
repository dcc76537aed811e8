"""The default rule for combining results, for functions without a ``reduce`` of their own.

Workers and the master use it. It needs nothing but the standard library.
"""

from __future__ import annotations

from typing import Any, Sequence

__all__ = ["default_reduce"]

_MISSING: Any = object()


def default_reduce(left: Any, right: Any = _MISSING) -> Any:
    """Adds two results: numbers and arrays with ``+``, lists and tuples element by element.

    Two tuples give a tuple, a tuple and a list give a list. If one sequence of results is passed instead, they are added from
    left to right.

    >>> default_reduce(3, 4)
    7
    >>> default_reduce([1, (2.0, 3)], (10, (20.0, 30)))
    [11, (22.0, 33)]
    >>> default_reduce([(1, 2), (3, 4), (5, 6)])
    (9, 12)

    Args:
        left: The left result, or a sequence of all results.
        right: The right result.

    Raises:
        TypeError: if sequences differ in length, arrays differ in shape, or values cannot be added; names the part of the
            result.
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
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return _add_sequences(left, right, path)
    if left is None or right is None:
        raise TypeError(
            f"{_part(path)} is None for some chunks, and None cannot be added: did the function forget to return "
            "a value? Return one for every chunk, or define a reduce(a, b) beside the function"
        )
    left_shape, right_shape = getattr(left, "shape", ()), getattr(right, "shape", ())
    # A number may be added to an array. Two arrays of different shapes would be broadcast.
    if left_shape != right_shape and left_shape != () and right_shape != ():
        raise TypeError(
            f"{_part(path)} has the shape {left_shape} for some chunks and {right_shape} for others; "
            "return arrays of one shape, or define a reduce(a, b) beside the function"
        )
    try:
        return left + right
    except TypeError as cause:
        raise TypeError(
            f"{_part(path)} is of the types {_name(left)} and {_name(right)}, which cannot be added ({cause}); return "
            "numbers, arrays, or lists and tuples of them, or define a reduce(a, b) beside the function"
        ) from cause


def _add_sequences(left: Sequence[Any], right: Sequence[Any], path: str) -> Any:
    if len(left) != len(right):
        raise TypeError(
            f"{_part(path)} has {len(left)} elements for some chunks and {len(right)} for others; return equally long "
            "ones, or define a reduce(a, b) beside the function"
        )
    items = [_add(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(left, right))]
    return tuple(items) if isinstance(left, tuple) and isinstance(right, tuple) else items


def _part(path: str) -> str:
    return f"result{path}" if path else "the result"


def _name(value: Any) -> str:
    return type(value).__name__
