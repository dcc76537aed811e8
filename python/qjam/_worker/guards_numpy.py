"""Guards of NumPy's arrays, element types, scalars and generators of random numbers.

NumPy believes the state of an element type in a pickle. A false one would have bytes from elsewhere taken for addresses of objects,
or elements read beyond the end of an array. So a type is made anew by NumPy's public constructor from what the pickle says of it,
and the object gets the state that NumPy itself would write for that. From then on all types are true, and the length of an array
is compared with its shape before it takes memory.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Optional, Tuple

from qjam._worker.guards import CallGuard, Refused, exactly, need, set_attributes

_FALSE_TYPE = "an array with a false element type"
_FALSE_SHAPE = "an array with a false shape"
_FALSE_RANDOM = "a false generator of random numbers"
# Flags of a type.
_HAS_OBJECTS, _IS_ALIGNED = 0x01, 0x80
# Types within types.
_DEPTH_MAX = 32
_DIMS_MAX = 64
_KINDS = re.compile(r"[?biufcSUVOMm][0-9]*")
_UNITS = re.compile(r"[A-Za-zμ]+")


# ---- element types -----------------------------------------------------------------------------------------------


def _dtype(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """A type that is not shared with anybody: the last argument asks for a copy."""
    import numpy

    need(len(arguments) == 3 and [bool(flag) for flag in arguments[1:] if exactly(flag, int, bool)] == [False, True], _FALSE_TYPE)
    kind = arguments[0]
    need(kind is numpy.record or (exactly(kind, str) and _KINDS.fullmatch(kind)), _FALSE_TYPE)
    return function(kind, False, True)


def _build_dtype(made: Any, state: Any) -> None:
    try:
        expected = _expected(made, state)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError) as error:
        raise Refused(_FALSE_TYPE) from error
    made.__setstate__(expected.__reduce__()[2])
    need(made == expected and made.hasobject == expected.hasobject and made.itemsize == expected.itemsize, _FALSE_TYPE)


def _expected(made: Any, state: Any) -> Any:
    """The type that a state describes, as NumPy makes it."""
    import numpy

    found: Any
    need(exactly(state, tuple) and state[0] in (3, 4) and len(state) == state[0] + 5, _FALSE_TYPE)
    order, shape, names, fields, itemsize, _, flags = state[1:8]
    metadata = state[8] if len(state) > 8 else None
    need(exactly(itemsize, int) and exactly(flags, int) and order in ("<", ">", "|", "="), _FALSE_TYPE)
    if made.kind in "Mm":
        metadata, unit = (None, (b"generic", 1, 1, 1)) if metadata is None else metadata
        found = numpy.dtype(_moment_type(made.kind, unit)).newbyteorder(order)
    elif shape is not None:
        base, dims = shape
        need(made.kind == "V" and names is None and fields is None and _is_type(base), _FALSE_TYPE)
        dims = (dims,) if exactly(dims, int) else dims
        need(_is_shape(dims), _FALSE_TYPE)
        found = numpy.dtype((base, dims))
        need(found.itemsize == itemsize, _FALSE_TYPE)
    elif names is not None or fields is not None:
        need(made.kind == "V" and exactly(names, tuple) and exactly(fields, dict), _FALSE_TYPE)
        found = _structure(names, fields, itemsize)
        found = numpy.dtype(found, align=bool(flags & _IS_ALIGNED))
        if made.type is numpy.record:
            found = numpy.dtype((numpy.record, found))
    elif made.kind in "SUV":
        length, rest = divmod(itemsize, 4 if made.kind == "U" else 1)
        need(length >= 0 and not rest, _FALSE_TYPE)
        found = numpy.dtype(f"{made.kind}{length}").newbyteorder(order)
        if made.type is numpy.record:
            found = numpy.dtype((numpy.record, found))
    else:
        found = numpy.dtype(made.char).newbyteorder(order)
    if metadata:
        need(exactly(metadata, dict), _FALSE_TYPE)
        found = numpy.dtype(found, metadata=dict(metadata))
    need(_depth(found) <= _DEPTH_MAX and found.hasobject == bool(flags & _HAS_OBJECTS), _FALSE_TYPE)
    return found


def _is_type(value: Any) -> bool:
    import numpy

    return isinstance(value, numpy.dtype)


def _moment_type(kind: str, unit: Any) -> str:
    name, count, divided, _ = unit
    name = name.decode() if exactly(name, bytes) else name
    need(exactly(name, str) and _UNITS.fullmatch(name) and exactly(count, int) and divided == 1, _FALSE_TYPE)
    return f"{kind}8" if name == "generic" else f"{kind}8[{count}{name}]"


def _structure(names: Any, fields: Dict[Any, Any], itemsize: int) -> Dict[str, Any]:
    """A structured type as the public constructor takes it."""
    parts = [fields[name] for name in names]
    need(all(exactly(part, tuple) and len(part) in (2, 3) and _is_type(part[0]) for part in parts), _FALSE_TYPE)
    need(all(exactly(name, str) for name in names) and all(exactly(part[1], int) for part in parts), _FALSE_TYPE)
    titles = [part[2] if len(part) == 3 else None for part in parts]
    need(all(exactly(title, str, type(None)) for title in titles), _FALSE_TYPE)
    need(set(fields) == set(names) | {title for title in titles if title is not None}, _FALSE_TYPE)
    made: Dict[str, Any] = {
        "names": list(names),
        "formats": [part[0] for part in parts],
        "offsets": [part[1] for part in parts],
        "itemsize": itemsize,
    }
    if any(title is not None for title in titles):
        made["titles"] = titles
    return made


def _depth(dtype: Any, depth: int = 0) -> int:
    if depth > _DEPTH_MAX:
        return depth
    inside = [field[0] for field in (dtype.fields or {}).values()]
    if dtype.subdtype is not None:
        inside.append(dtype.subdtype[0])
    return max([_depth(part, depth + 1) for part in inside], default=depth)


# ---- arrays ------------------------------------------------------------------------------------------------------


def _is_shape(shape: Any) -> bool:
    return exactly(shape, tuple) and len(shape) <= _DIMS_MAX and all(exactly(dim, int) and dim >= 0 for dim in shape)


def _count(shape: Any) -> int:
    """How many elements an array of this shape has."""
    need(_is_shape(shape), _FALSE_SHAPE)
    count = 1
    for dim in shape:
        count *= dim
    return count


def _is_empty(shape: Any, dtype: Any) -> bool:
    """What arrays begin as, before they get their state."""
    return _is_shape(shape) and shape == (0,) and exactly(dtype, str, bytes) and dtype in (b"b", "b")


def _reconstruct(function: Any, arguments: Tuple[Any, ...]) -> Any:
    import numpy

    need(len(arguments) == 3, _FALSE_SHAPE)
    kind, shape, dtype = arguments
    need(isinstance(kind, type) and issubclass(kind, numpy.ndarray) and _is_empty(shape, dtype), _FALSE_SHAPE)
    return function(kind, shape, dtype)


def _masked(function: Any, arguments: Tuple[Any, ...]) -> Any:
    import numpy

    need(len(arguments) == 4, _FALSE_SHAPE)
    kind, base, shape, dtype = arguments
    need(isinstance(kind, type) and issubclass(kind, numpy.ma.MaskedArray) and _is_empty(shape, dtype), _FALSE_SHAPE)
    need(isinstance(base, type) and issubclass(base, numpy.ndarray), _FALSE_SHAPE)
    need(not issubclass(base, numpy.ma.MaskedArray), _FALSE_SHAPE)
    return function(kind, base, shape, dtype)


def _check_elements(shape: Any, dtype: Any, is_fortran: Any, data: Any) -> None:
    need(_is_type(dtype), _FALSE_TYPE)
    need(exactly(is_fortran, bool, int), _FALSE_SHAPE)
    count = _count(shape)
    if dtype.hasobject:
        need(exactly(data, list) and len(data) == count, _FALSE_SHAPE)
    else:
        need(exactly(data, bytes) and len(data) == count * dtype.itemsize, _FALSE_SHAPE)


def _build_array(made: Any, state: Any) -> None:
    import numpy

    need(exactly(state, tuple), _FALSE_SHAPE)
    if type(made).__setstate__ is numpy.ndarray.__setstate__:
        need(len(state) == 5 and state[0] == 1, _FALSE_SHAPE)
    # A class of the user has the usual state in front of its own.
    if len(state) >= 5 and state[0] == 1:
        _check_elements(*state[1:5])
    try:
        made.__setstate__(state)
    except SystemError as error:
        # Objects that are not elements of this type.
        raise Refused(_FALSE_TYPE) from error


def _build_masked(made: Any, state: Any) -> None:
    import numpy

    need(exactly(state, tuple) and len(state) >= 7 and state[0] == 1, _FALSE_SHAPE)
    shape, dtype, is_fortran, data, mask = state[1:6]
    _check_elements(shape, dtype, is_fortran, data)
    masks = numpy.ma.make_mask_descr(dtype)
    need(exactly(mask, bytes) and len(mask) == _count(shape) * masks.itemsize, _FALSE_SHAPE)
    made.__setstate__(state)


def _from_buffer(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(4 <= len(arguments) <= 5, _FALSE_SHAPE)
    buffer, dtype, shape, order = arguments[:4]
    need(_is_type(dtype) and not dtype.hasobject, _FALSE_TYPE)
    need(memoryview(buffer).nbytes == _count(shape) * dtype.itemsize, _FALSE_SHAPE)
    axes = arguments[4] if len(arguments) == 5 else None
    need(order in ("C", "F", "A", "K") and (axes is None or _is_shape(axes)), _FALSE_SHAPE)
    return function(*arguments)


def _scalar(function: Any, arguments: Tuple[Any, ...]) -> Any:
    import numpy

    need(len(arguments) == 2 and _is_type(arguments[0]), _FALSE_TYPE)
    dtype, value = arguments
    if dtype.hasobject:
        is_element = type(value) is numpy.ndarray and value.shape == () and value.dtype == dtype
        need(dtype.kind == "O" or is_element, _FALSE_TYPE)
    else:
        need(exactly(value, bytes) and len(value) == dtype.itemsize, _FALSE_TYPE)
    return function(dtype, value)


# ---- random numbers ----------------------------------------------------------------------------------------------


def _bit_generator(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 1 and _is_bit_generator(arguments[0]), _FALSE_RANDOM)
    return function(*arguments)


def _is_bit_generator(given: Any) -> bool:
    """A name of one, or its class."""
    from numpy.random import BitGenerator

    is_kind = isinstance(given, type) and issubclass(given, BitGenerator) and given is not BitGenerator
    return exactly(given, str) or is_kind


def _generator(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """Gets the generator of bits; in older versions its name, and the function that makes it."""
    from numpy.random import BitGenerator, _pickle

    makes = getattr(_pickle, "__bit_generator_ctor")
    is_made = len(arguments) == 1 and isinstance(arguments[0], BitGenerator)
    is_older = 1 <= len(arguments) <= 2 and exactly(arguments[0], str) and all(given is makes for given in arguments[1:])
    need(is_made or is_older, _FALSE_RANDOM)
    return function(*arguments)


def _seeds(function: Any, arguments: Tuple[Any, ...]) -> Any:
    from numpy.random import SeedSequence

    need(len(arguments) == 3 and arguments[0] is SeedSequence and exactly(arguments[1], int), _FALSE_RANDOM)
    need(arguments[2] is None or _are_seeds(arguments[2]), _FALSE_RANDOM)
    return function(*arguments)


def _are_seeds(state: Any) -> bool:
    import numpy

    if not exactly(state, tuple) or len(state) != 5:
        return False
    entropy, spawned, pool, size, key = state
    is_pool = type(pool) is numpy.ndarray and pool.dtype == numpy.uint32 and pool.shape == (size,)
    is_entropy = exactly(entropy, int, list, tuple, numpy.ndarray, type(None))
    return is_pool and is_entropy and exactly(spawned, int) and exactly(size, int) and exactly(key, tuple)


def _build_seeds(made: Any, state: Any) -> None:
    need(_are_seeds(state), _FALSE_RANDOM)
    made.__setstate__(state)


def _build_random(made: Any, state: Any) -> None:
    from numpy.random import SeedSequence

    numbers = state
    if exactly(state, tuple):
        need(len(state) == 2 and (state[1] is None or isinstance(state[1], SeedSequence)), _FALSE_RANDOM)
        numbers = state[0]
    _check_random(numbers)
    made.__setstate__(state)


def _check_random(state: Any) -> None:
    """Places in tables of numbers are believed."""
    need(exactly(state, dict) and exactly(state.get("bit_generator"), str), _FALSE_RANDOM)
    inside = state.get("state")
    need(exactly(inside, dict), _FALSE_RANDOM)
    if "pos" in inside:
        need(exactly(inside["pos"], int) and 0 <= inside["pos"] <= 624, _FALSE_RANDOM)
    if "buffer_pos" in state:
        need(exactly(state["buffer_pos"], int) and 0 <= state["buffer_pos"] <= 4, _FALSE_RANDOM)
    for part in [*inside.values(), *state.values()]:
        need(not isinstance(part, _arrays()) or part.dtype.kind in "ui", _FALSE_RANDOM)


def _arrays() -> Any:
    import numpy

    return numpy.ndarray


CALLS: Dict[Tuple[str, str], CallGuard] = {
    ("numpy", "dtype"): _dtype,
    ("numpy", "_reconstruct"): _reconstruct,
    ("numpy", "_mareconstruct"): _masked,
    ("numpy", "_frombuffer"): _from_buffer,
    ("numpy", "scalar"): _scalar,
    ("numpy", "__bit_generator_ctor"): _bit_generator,
    ("numpy", "__generator_ctor"): _generator,
    ("numpy", "__randomstate_ctor"): _generator,
    ("numpy", "__pyx_unpickle_SeedSequence"): _seeds,
}


def build_guard(kind: type) -> Optional[Callable[[Any, Any], None]]:
    """The guard of the state of objects of one of NumPy's classes."""
    import numpy

    random = numpy.random
    for bases, guard in (
        (numpy.dtype, _build_dtype),
        (numpy.ma.MaskedArray, _build_masked),
        (numpy.ndarray, _build_array),
        ((random.BitGenerator, random.Generator, random.RandomState), _build_random),
        (random.SeedSequence, _build_seeds),
    ):
        if issubclass(kind, bases):
            return guard
    return set_attributes if kind.__module__.startswith("numpy.polynomial") else None
