"""Data sets of lists."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, Optional

from ._units import PickledUnits
from .general import BySlices

if TYPE_CHECKING:
    from .._native import Data

_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})


class ListUnits(PickledUnits):
    """The items of a list, a tuple or a range."""

    def __init__(self, raw: Any, frozen: bool) -> None:
        # Immutable data need not be checked for changes.
        immutable = isinstance(raw, range) or type(raw) is tuple and _ATOMS.issuperset(map(type, raw))
        super().__init__(raw, frozen or immutable)

    def take(self, start: int, stop: int) -> Any:
        """Some of the items; those of a range as a list."""
        some = self.raw[start:stop]
        return list(some) if isinstance(some, range) else some

    def pick(self, which: slice) -> Any:
        """The items of a Python slice."""
        some = self.raw[which]
        return list(some) if isinstance(some, range) else some

    def make(self, slice_size: int) -> Data:
        """Pickles the items, and remembers their identities if that suffices to detect changes."""
        # Immutable items have not changed if they are the same objects.
        watches = not self.frozen and type(self.raw) is list and _ATOMS.issuperset(map(type, self.raw))
        self._items = list(self.raw) if watches else None
        return super().make(slice_size)

    def refresh(self, data: Data, slice_size: int) -> Data:
        """The same data set, if the items have not changed."""
        items = self._items
        if items is not None and len(items) == len(self.raw) and all(map(is_, items, self.raw)):
            return data
        return super().refresh(data, slice_size)


def checked_list(items: Any, frozen: bool) -> ListUnits:
    """The units of a list, or an error that names the type found."""
    if not isinstance(items, (list, tuple, range)):
        raise TypeError(
            f"ListDataSet takes a list, a tuple or a range, not {type(items).__name__}; list(...) makes one of "
            "any iterable, and qjam.DataSet takes arrays, tables and files"
        )
    if not len(items):
        raise ValueError("the list is empty; a data set has at least one item")
    return ListUnits(items, frozen)


class ListDataSet(BySlices):
    """A list, tuple or range of anything that can be pickled; functions get lists of ``slice_size`` items.

    >>> from qjam.dataset import ListDataSet
    >>> data = ListDataSet(range(1, 100), slice_size=30)
    >>> data.chunks(), data.slices(), data.slice(3)
    (99, 4, [91, 92, 93, 94, 95, 96, 97, 98, 99])
    >>> len(data), data[3] == data.slice(3)
    (4, True)

    Args:
        items: The list. It may change between runs: it is pickled for every run and compared with what was sent before.
        slice_size: Items per slice; by default about 256 slices are made.
        frozen: Promises that the list and its items do not change. Saves the comparison.

    Raises:
        TypeError: if it is not a list.
        ValueError: if it is empty.
    """

    def __init__(self, items: Any, slice_size: Optional[int] = None, *, frozen: bool = False) -> None:
        self._set_up(checked_list(items, frozen), slice_size)
