"""Derived data sets: how they are made from others, and nothing else.

Nothing is computed here. A round over a derived data set is a round over the slices of its source with a function that first
makes the derived slice and then calls the user's. So slices are named, sent and kept as those of the source, and what is derived
never travels.
"""

from __future__ import annotations

import hashlib
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from .base import BaseDataSet

if TYPE_CHECKING:
    from .._native import Data

# Combines two results.
Reduce = Callable[[Any, Any], Any]

# What is done, by which function, how it is called in a plan, the fraction in units of 2^-53, and the words that key draws.
Step = Tuple[str, Optional[Callable[..., Any]], str, int, Tuple[int, ...]]


class DerivedDataSet(BaseDataSet):
    """A data set that is made from another by functions over its units, when a round needs it and where its slices are.

    ``map``, ``filter``, ``flat_map`` and ``sample`` of any data set make one, and so do those of a derived one:

    >>> from qjam import DataSet, Master
    >>> words = DataSet(["to be or", "not to be"], slice_size=1).flat_map(str.split).filter(lambda word: len(word) > 2)
    >>> with Master("local:2") as m:
    ...     m.run(lambda params, chunk: len(chunk), None, words)
    1
    >>> print(words.explain())
    DataSet(2 units in slices of 1)
      flat_map(str.split)
      filter(<lambda>)

    It is lazy: a round over it makes each slice on the worker that has the slice of the source, and calls the function with it.
    The functions travel with that of the round, edits included. A derived slice is a list, but for arrays that were only
    filtered and sampled: they stay arrays. The number of units is not known before they are made.

    A sample draws by its seed, by what was done before, and by the slice, so it has the same units in every round and on every worker.
    """

    def __init__(self, source: BaseDataSet, steps: Tuple[Step, ...]) -> None:
        super().__init__()
        self._source = source
        self._steps = steps

    def chunks(self) -> int:
        """The number of slices: as many as the source has. How many units are in them is not known."""
        return self._source.slices()

    def slice(self, index: int) -> Any:
        """A slice, made in this process."""
        self._check(index, self.slices(), "slice")
        return _making(self._steps)(self._source.slice(index), index)

    def explain(self) -> str:
        """How it is made: the source, and a line for each step."""
        return "\n".join([repr(self._source), *("  " + step[2] for step in self._steps)])

    def forget(self) -> None:
        """Discards the slices of the source; they are requested again when the data set is next used."""
        super().forget()
        self._source.forget()

    def _over(self, function: Any) -> Any:
        """The function of a round, as it is run over the source."""
        return _fused(function, self._steps)

    def _then(self, step: Step) -> DerivedDataSet:
        return DerivedDataSet(self._source, (*self._steps, step))

    def __repr__(self) -> str:
        return f"DerivedDataSet({self.slices()} slices, {' → '.join(step[2] for step in self._steps)})"


def derived(source: BaseDataSet, kind: str, function: Callable[..., Any]) -> DerivedDataSet:
    """A data set with one more step."""
    if not callable(function):
        raise TypeError(f"{kind} takes a function of a unit, not {type(function).__name__}")
    name = getattr(function, "__qualname__", type(function).__name__)
    return _start(source)._then((kind, function, f"{kind}({name.rpartition('<locals>.')[2]})", 0, ()))


def sampled(source: BaseDataSet, fraction: float, seed: int) -> DerivedDataSet:
    """A data set that is sampled at the end."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"a fraction is between 0 and 1, and not {fraction!r}")
    begun = _start(source)
    # What is sampled draws by its name: the same steps and seeds give the same one in every process and on every machine.
    names = repr([step[2] for step in begun._steps])
    words = (seed.__index__(), int.from_bytes(hashlib.blake2b(names.encode(), digest_size=8).digest(), "little"))
    return begun._then(("sample", None, f"sample({fraction}, seed {seed})", int(fraction * 2**53), words))


def _start(source: BaseDataSet) -> DerivedDataSet:
    return source if isinstance(source, DerivedDataSet) else DerivedDataSet(source, ())


def _making(steps: Tuple[Step, ...]) -> Callable[[Any, int], Any]:
    """Makes a derived slice from a slice of the source and its index. Travels by value: it uses nothing of this module."""

    def make(units: Any, index: int) -> Any:
        def told(error: BaseException, at: int, done: str) -> None:
            # From CPython 3.11 on.
            add_note = getattr(error, "add_note", None)
            if add_note is not None:
                chain = " → ".join(step[2] for step in steps)
                add_note(f"in {done} of a derived data set, at unit {at} of slice {index}: {chain}")

        def each(function: Any, name: str) -> Any:
            at = 0
            try:
                for at, unit in enumerate(units):
                    yield unit, function(unit)
            except Exception as error:
                told(error, at, name)
                raise

        def chosen(keep: Any) -> Any:
            # An array stays one.
            if hasattr(units, "dtype") and hasattr(units, "shape"):
                import numpy

                return units[numpy.array(keep, dtype=bool)]
            return [unit for unit, is_kept in zip(units, keep) if is_kept]

        for kind, function, name, fraction, words in steps:
            if kind == "map":
                units = [made for _, made in each(function, name)]
            elif kind == "flat_map":
                units = [one for _, made in each(function, name) for one in made]
            elif kind == "filter":
                units = chosen([bool(made) for _, made in each(function, name)])
            else:
                import numpy

                drawn = numpy.random.default_rng(numpy.random.SeedSequence([*words, index]))
                draws = drawn.integers(2**53, size=len(units))
                units = chosen((draws < fraction).tolist())
        return units

    return make


# The last functions over derived data, by the function and the steps, so that a loop sends its code once.
_last: Dict[Tuple[int, Tuple[Step, ...]], Tuple[Any, Any]] = {}


def _fused(function: Any, steps: Tuple[Step, ...]) -> Any:
    """A function of parameters and chunk that makes the derived chunk first."""
    if isinstance(function, types.ModuleType):
        raise TypeError(
            f"a module cannot be run over a derived data set; pass its function: {function.__name__}.mapfunc"
        )
    if not callable(function):
        return function
    key = (id(function), steps)
    known = _last.get(key)
    if known is not None and known[0] is function:
        return known[1]
    make = _making(steps)

    def over_derived(*given: Any) -> Any:
        import sys

        # Under this name on workers and in the master's process alike. The chunk of an `init` is its only argument.
        where = sys.modules["qjam._worker.context"].context()
        at = min(1, len(given) - 1)
        return function(*given[:at], make(given[at], where.chunk), *given[at + 1 :])

    over_derived.__qualname__ = over_derived.__name__ = getattr(function, "__name__", type(function).__name__)
    # Sent as if it were the user's function, because hosts need not have qjam.
    over_derived.__module__ = make.__module__ = "__main__"
    _last[key] = (function, over_derived)
    while len(_last) > 16:
        del _last[next(iter(_last))]
    return over_derived


def over(
    made: Optional[BaseDataSet], function: Any, reduce: Optional[Reduce]
) -> Tuple[Any, Optional[Reduce]]:
    """What a round runs for a function over a data set, and how its results are combined."""
    if not isinstance(made, DerivedDataSet):
        return function, reduce
    if reduce is None:
        from .._code import beside

        reduce = beside(function)
    return made._over(function), reduce


def data_of(made: Optional[BaseDataSet]) -> Optional[Data]:
    """The native data set of a round over a data set: for a derived one that of its source."""
    source = made._source if isinstance(made, DerivedDataSet) else made
    return None if source is None else source._native_data()
