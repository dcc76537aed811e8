"""The base class of all data sets."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional, Union, overload

if TYPE_CHECKING:
    from .._native import Data
    from .derived import DerivedDataSet


class BaseDataSet:
    """The base class for your own data sets: define the number of slices and each slice.

    >>> from qjam.dataset import BaseDataSet
    >>> class Squares(BaseDataSet):
    ...     def chunks(self):
    ...         return 4
    ...     def slice(self, index):
    ...         return [index * index]
    >>> squares = Squares()
    >>> len(squares), squares.slice(3), squares.raw_data()
    (4, [9], [[0], [1], [4], [9]])

    The map function is called once with each ``slice(index)``. Slices are requested when the data set is first used, and kept;
    if they change, call :meth:`forget`.

    If there are many small units, set ``slice_size`` to how many of them a slice has, or pass it to ``BaseDataSet.__init__``:
    ``chunks()`` is then the number of units, and ``slice(index)`` gives units ``index * slice_size`` up to
    ``(index + 1) * slice_size``. ``len(data)`` is the number of slices, and ``data[index]`` is ``slice(index)``.

    Args:
        slice_size: Units in a slice; 1 if it is not given. A subclass need not call this.
    """

    # On the class, so that a subclass need not call our __init__.
    _slice_size: Optional[int] = None
    _data: Optional[Data] = None

    def __init__(self, slice_size: Optional[int] = None) -> None:
        if slice_size is not None:
            self._slice_size = checked_slice_size(slice_size)

    def chunks(self) -> int:
        """The number of smallest units: items, rows or lines."""
        raise NotImplementedError(f"{type(self).__name__} must define chunks(), the number of its slices")

    def slice(self, index: int) -> Any:
        """The argument of the function for slice ``index``, counted from 0."""
        raise NotImplementedError(f"{type(self).__name__} must define slice(index)")

    @property
    def slice_size(self) -> int:
        """Units per slice. Can be set; results that depend on the order of additions depend on it too."""
        return 1 if self._slice_size is None else self._slice_size

    @slice_size.setter
    def slice_size(self, units: int) -> None:
        self._slice_size = checked_slice_size(units)
        self.forget()

    def slices(self) -> int:
        """The number of slices."""
        return -(-self.chunks() // self.slice_size)

    def hash(self, index: int) -> str:
        """The name of slice ``index``: the hash of its content, the same in every process."""
        self._check(index, self.slices(), "slice")
        return self._native_data().hash(index)

    def hash_list(self) -> list[str]:
        """The names of all slices."""
        data = self._native_data()
        return [data.hash(index) for index in range(len(data))]

    def raw_data(self) -> Any:
        """All of the data."""
        return [self.slice(index) for index in range(self.slices())]

    def map(self, function: Callable[[Any], Any]) -> DerivedDataSet:
        """A :class:`DerivedDataSet` of what the function gives for each unit. It is made on workers, when a round needs it."""
        from .derived import derived

        return derived(self, "map", function)

    def filter(self, function: Callable[[Any], Any]) -> DerivedDataSet:
        """A :class:`DerivedDataSet` of the units for which the function gives something true."""
        from .derived import derived

        return derived(self, "filter", function)

    def flat_map(self, function: Callable[[Any], Iterable[Any]]) -> DerivedDataSet:
        """A :class:`DerivedDataSet` of all that the function gives for each unit, one after the other."""
        from .derived import derived

        return derived(self, "flat_map", function)

    def sample(self, fraction: float, seed: int = 0) -> DerivedDataSet:
        """A :class:`DerivedDataSet` of each unit with this probability, by itself."""
        from .derived import sampled

        return sampled(self, fraction, seed)

    def forget(self) -> None:
        """Discards the slices; they are requested again when the data set is next used."""
        self._data = None

    def __len__(self) -> int:
        return self.slices()

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: builtins.slice) -> Any: ...
    def __getitem__(self, index: Union[int, builtins.slice]) -> Any:
        """One slice, or a list of them."""
        count = self.slices()
        if isinstance(index, builtins.slice):
            return [self.slice(at) for at in range(*index.indices(count))]
        return self.slice(self._from_start(index, count, "slice"))

    def __iter__(self) -> Iterator[Any]:
        return (self.slice(at) for at in range(self.slices()))

    def _repr_html_(self) -> str:
        from .._html import dataset

        return dataset(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.chunks()} units in slices of {self.slice_size})"

    def _from_start(self, index: int, count: int, what: str) -> int:
        """An index of so many; a negative index counts from the end."""
        at = index.__index__()
        at = at + count if at < 0 else at
        self._check(at, count, what)
        return at

    def _check(self, index: int, count: int, what: str) -> None:
        if not 0 <= index < count:
            raise IndexError(f"there is no {what} {index}: {type(self).__name__} has {count}")

    def _native_data(self) -> Data:
        """The native data set for a run: cut, hashed, and up to date."""
        if self._data is None:
            from . import _pickles

            count = self.slices()
            if count < 1:
                raise ValueError(f"{type(self).__name__} has no slices: chunks() gave {self.chunks()}")
            sizes = _pickles.sizes(self.chunks(), self.slice_size)
            self._data = _pickles.write((size, self.slice(i)) for i, size in enumerate(sizes))
        return self._data


def checked_slice_size(units: Any) -> int:
    """A valid slice size, or an error with the reason."""
    try:
        size = units.__index__()
    except AttributeError:
        raise TypeError(f"slice_size is a whole number, not {type(units).__name__}") from None
    if isinstance(units, bool) or not isinstance(size, int):
        raise TypeError(f"slice_size is a whole number, not {type(units).__name__}")
    if size < 1:
        raise ValueError(f"slice_size must be at least 1, and is {size}")
    return size
