"""The units of a data set, which can be read and cut into chunks.

There is one class for each kind of storage. :class:`Units` is the interface that :class:`qjam.dataset.DataSet` uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Optional

from . import _pickles

if TYPE_CHECKING:
    from .._native import Data

# By default, lists are cut into about this many slices.
SLICES = 256


class Units:
    """An ordered sequence of units."""

    #: The object that the user passed.
    raw: Any
    #: Whether the user promised that it does not change.
    frozen: bool

    def __init__(self, raw: Any, frozen: bool) -> None:
        self.raw = raw
        self.frozen = frozen

    def count(self) -> int:
        """The number of units."""
        return len(self.raw)

    def everything(self) -> Any:
        """All of the data, as it was passed."""
        return self.raw

    def own_references(self) -> int:
        """The number of references to the user's object that this data set holds."""
        return 1

    def standard(self) -> int:
        """The default number of units per slice: a function of the data alone."""
        return max(1, -(-self.count() // SLICES))

    def take(self, start: int, stop: int) -> Any:
        """Some units, as a function gets them."""
        raise NotImplementedError

    def one(self, at: int) -> Any:
        """A single unit."""
        return self.raw[at]

    def pick(self, which: slice) -> Any:
        """The units of a Python slice."""
        return self.raw[which]

    def make(self, slice_size: int) -> Data:
        """Cuts the units into chunks and hashes them."""
        raise NotImplementedError

    def refresh(self, data: Data, slice_size: int) -> Data:
        """The same data set if nothing has changed since it was made, otherwise a new one."""
        raise NotImplementedError


class PickledUnits(Units):
    """Units whose slices are pickled. To detect changes, they are pickled again and compared."""

    def fingerprint(self) -> Optional[Any]:
        """A cheap stamp that differs whenever the data differs, if there is one."""
        return None

    def slices(self, slice_size: int) -> Iterator[Any]:
        count = self.count()
        for start in range(0, count, slice_size):
            yield self.take(start, min(start + slice_size, count))

    def make(self, slice_size: int) -> Data:
        # Before the data is read, so that a concurrent change is detected the next time.
        self._seen = None if self.frozen else self.fingerprint()
        return _pickles.write(zip(_pickles.sizes(self.count(), slice_size), self.slices(slice_size)))

    def refresh(self, data: Data, slice_size: int) -> Data:
        if self.frozen:
            return data
        if self._seen is not None:
            return data if self._seen == self.fingerprint() else self.make(slice_size)
        return data if _pickles.same(data, self.slices(slice_size)) else self.make(slice_size)


def standard_rows(count: int, nbytes: int) -> int:
    """The number of rows per slice for data of this size."""
    from .._native import standard_rows

    return standard_rows(nbytes, max(1, nbytes // max(1, count)))
