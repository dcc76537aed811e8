"""What a data set is made of: units somewhere, which can be taken out and made into chunks.

One class for each way data lies. :class:`Units` is what :class:`qjam.dataset.DataSet` asks of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Optional

from . import _pickles

if TYPE_CHECKING:
    from .._native import Data

# Without a word about it, lists are cut into about so many slices.
SLICES = 256


class Units:
    """Units in an order."""

    #: What the user gave.
    raw: Any
    #: Whether the user has said that it does not change.
    frozen: bool

    def __init__(self, raw: Any, frozen: bool) -> None:
        self.raw = raw
        self.frozen = frozen

    def count(self) -> int:
        """How many there are."""
        return len(self.raw)

    def everything(self) -> Any:
        """All of the data, as it was given."""
        return self.raw

    def own_references(self) -> int:
        """References to what the user gave that are there because of this data set."""
        return 1

    def standard(self) -> int:
        """Units in a slice when nobody says how many: a function of the data alone."""
        return max(1, -(-self.count() // SLICES))

    def take(self, start: int, stop: int) -> Any:
        """Some of them, as a function gets them."""
        raise NotImplementedError

    def one(self, at: int) -> Any:
        """A single one."""
        return self.raw[at]

    def pick(self, which: slice) -> Any:
        """Those that a slice of Python's names."""
        return self.raw[which]

    def make(self, slice_size: int) -> Data:
        """Cuts and names them."""
        raise NotImplementedError

    def refresh(self, data: Data, slice_size: int) -> Data:
        """The same data set if nothing has changed since it was made, and another if something has."""
        raise NotImplementedError


class PickledUnits(Units):
    """Units whose slices are pickled. To see whether they have changed, they are pickled again and compared."""

    def fingerprint(self) -> Optional[Any]:
        """Something cheap that differs whenever the data differ, if there is such a thing."""
        return None

    def slices(self, slice_size: int) -> Iterator[Any]:
        count = self.count()
        for start in range(0, count, slice_size):
            yield self.take(start, min(start + slice_size, count))

    def make(self, slice_size: int) -> Data:
        # Before the data are looked at: what changes meanwhile is noticed the next time.
        self._seen = None if self.frozen else self.fingerprint()
        return _pickles.write(zip(_pickles.sizes(self.count(), slice_size), self.slices(slice_size)))

    def refresh(self, data: Data, slice_size: int) -> Data:
        if self.frozen:
            return data
        if self._seen is not None:
            return data if self._seen == self.fingerprint() else self.make(slice_size)
        return data if _pickles.same(data, self.slices(slice_size)) else self.make(slice_size)


def standard_rows(count: int, nbytes: int) -> int:
    """Rows in a slice of data that takes so much memory."""
    from .._native import standard_rows

    return standard_rows(nbytes, max(1, nbytes // max(1, count)))
