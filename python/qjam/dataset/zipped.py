"""Several data sets as one, cut at the same rows."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ._units import PickledUnits, Units
from .base import BaseDataSet
from .general import DataSet, units_of


class ZippedUnits(PickledUnits):
    """The units of several data sets side by side; a unit is a tuple."""

    def __init__(self, parts: List[Units], frozen: bool) -> None:
        super().__init__(tuple(part.raw for part in parts), frozen)
        self.parts = parts

    def count(self) -> int:
        """The number of rows."""
        return self.parts[0].count()

    def everything(self) -> Any:
        """The data, as it was passed."""
        return tuple(part.everything() for part in self.parts)

    def standard(self) -> int:
        """The default number of rows per slice."""
        return min(part.standard() for part in self.parts)

    def take(self, start: int, stop: int) -> Tuple[Any, ...]:
        """Some rows, as a function gets them."""
        return tuple(part.take(start, stop) for part in self.parts)

    def one(self, at: int) -> Tuple[Any, ...]:
        """A single row."""
        return tuple(part.one(at) for part in self.parts)

    def pick(self, which: slice) -> Tuple[Any, ...]:
        """The rows of a Python slice."""
        return tuple(part.pick(which) for part in self.parts)


class ZippedDataSet(DataSet):
    """Several data sets of the same length, cut at the same rows: features and labels, for example.

    >>> import numpy
    >>> from qjam import Master, ZippedDataSet
    >>> x, y = numpy.arange(6.0).reshape(3, 2), ["a", "b", "a"]
    >>> def of_class(name, chunk):
    ...     rows, labels = chunk
    ...     return sum(row for row, label in zip(rows, labels) if label == name)
    >>> with Master("local:2") as m:
    ...     m.run(of_class, "a", ZippedDataSet(x, y))
    array([4., 6.])

    The function gets a tuple with some units of each, as :class:`DataSet` would give them. Slices are copied into memory that
    workers share, so the data needs twice its memory on this machine; columns of one array (``numpy.column_stack``) do not.

    Args:
        data: Two or more of what :class:`DataSet` takes.
        slice_size: Rows, items or lines in a slice; by default the smallest that one of them would have alone.
        frozen: Nobody will change the data as long as this data set is used. Saves the comparison.

    Raises:
        TypeError: for things that have no order or no rows.
        ValueError: if they differ in length; says the lengths.
    """

    def __init__(self, *data: Any, slice_size: Optional[int] = None, frozen: bool = False) -> None:
        if len(data) < 2:
            raise TypeError(f"ZippedDataSet takes two or more data sets, not {len(data)}: ZippedDataSet(x, y)")
        for part in data:
            if isinstance(part, BaseDataSet):
                raise TypeError(f"give ZippedDataSet the data itself instead of a data set: {part!r}")
        parts = [units_of(part, frozen) for part in data]
        counts = [part.count() for part in parts]
        if len(set(counts)) > 1:
            raise ValueError(
                f"data sets that are cut at the same rows must have the same length; these have {counts} units"
            )
        self._set_up(ZippedUnits(parts, frozen), slice_size)
