"""The class :class:`DataSet`, which takes any data, and the choice of how to cut it."""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Iterator, Optional, Union, overload

from .base import BaseDataSet, checked_slice_size

if TYPE_CHECKING:
    from .._native import Data
    from ._units import Units


_LIBRARIES = frozenset({"numpy", "scipy", "pandas", "polars", "pyarrow"})


class DataSet(BaseDataSet):
    """A data set made of any data: a list, an array, a table, the name of a file.

    >>> from qjam import DataSet
    >>> import numpy
    >>> data = DataSet(numpy.arange(12).reshape(6, 2), slice_size=4)
    >>> data.chunks(), data.slices()
    (6, 2)
    >>> data.slice(1)
    array([[ 8,  9],
           [10, 11]])

    ``len(data)`` is the number of units (rows, items or lines), and ``data[index]`` is a unit. The function gets, for

    * a list, tuple or range: some of the items;
    * a NumPy array of any type: some of the rows (the first dimension), as a read-only array. Subclasses and masks are
      preserved;
    * a ``numpy.memmap`` or the name of an ``.npy`` file: the same; workers read the file themselves;
    * a sparse matrix of SciPy: some of the rows, for CSC some of the columns;
    * a table of pandas, polars or Arrow: some of the rows, as a table or column of the same library;
    * the name of another file: some of its lines.

    Data may change between runs: changes are detected, and changed slices are sent again. For arrays the check costs about as
    much as reading them once; everything else is pickled again and compared.

    Args:
        data: The data. It is not copied where that can be avoided.
        slice_size: Rows, items or lines in a slice. If it is not given, it follows from the size of the data alone:
            about 256 slices, of arrays between 64 KiB and 4 MiB each.
        frozen: Nobody will change the data as long as this data set is used. Spares the looking.

    Raises:
        TypeError: for things that have no order or no rows, with what to do.
        ValueError: if there is nothing in it.
    """

    _units: Units

    def __init__(self, data: Any, slice_size: Optional[int] = None, *, frozen: bool = False) -> None:
        self._set_up(units_of(data, frozen), slice_size)

    def _set_up(self, units: Units, slice_size: Optional[int]) -> None:
        self._units = units
        self._cut: Optional[int] = None
        if slice_size is not None:
            self._slice_size = checked_slice_size(slice_size)

    def chunks(self) -> int:
        """The number of smallest units: items, rows or lines."""
        return self._units.count()

    def slice(self, index: int) -> Any:
        """The argument of the function for slice ``index``, counted from 0."""
        self._check(index, self.slices(), "slice")
        size = self.slice_size
        return self._units.take(index * size, min((index + 1) * size, self.chunks()))

    @property
    def slice_size(self) -> int:
        """Units per slice. Can be set; results that depend on the order of additions depend on it too."""
        return self._units.standard() if self._slice_size is None else self._slice_size

    @slice_size.setter
    def slice_size(self, units: int) -> None:
        self._slice_size = checked_slice_size(units)
        self.forget()

    def raw_data(self) -> Any:
        """All of the data, as it was passed; for a file its content."""
        return self._units.everything()

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: builtins.slice) -> Any: ...
    def __getitem__(self, index: Union[int, builtins.slice]) -> Any:
        """One unit, or a range of them."""
        if isinstance(index, builtins.slice):
            return self._units.pick(index)
        return self._units.one(self._from_start(index, self.chunks(), "unit"))

    def __len__(self) -> int:
        return self.chunks()

    def __iter__(self) -> Iterator[Any]:
        return (self._units.one(at) for at in range(self.chunks()))

    def _native_data(self) -> Data:
        count = self.chunks()
        if not count:
            raise ValueError(f"{type(self).__name__} has become empty; a run needs at least one unit")
        size = min(self.slice_size, count)
        if self._data is None or self._cut != size:
            self._data = self._units.make(size)
            self._cut = size
        else:
            self._data = self._units.refresh(self._data, size)
        return self._data


class BySlices(DataSet):
    """What the classes of the report share: their length and items are those of slices, as of every :class:`BaseDataSet`."""

    def __len__(self) -> int:
        return BaseDataSet.__len__(self)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: builtins.slice) -> Any: ...
    def __getitem__(self, index: Union[int, builtins.slice]) -> Any:
        """One slice, or a list of them."""
        return BaseDataSet.__getitem__(self, index)

    def __iter__(self) -> Iterator[Any]:
        return BaseDataSet.__iter__(self)


def units_of(data: Any, frozen: bool) -> Units:
    """The units for some data. A library is imported only if the data belongs to it."""
    if isinstance(data, BaseDataSet):
        raise TypeError(f"this is a data set already: {data!r}")
    if isinstance(data, tuple) and any(map(_is_array, data)):
        raise TypeError(
            f"a tuple of {len(data)} arrays would be a data set of {len(data)} items. To cut arrays at the same rows, write "
            "qjam.ZippedDataSet(x, y): the function gets tuples of rows. To make each array one item, write list(...)"
        )
    if isinstance(data, (list, tuple, range)):
        from .lists import checked_list

        return checked_list(data, frozen)
    if isinstance(data, (str, os.PathLike)):
        from ._files import file_units

        return file_units(os.fspath(data))
    for kind in type(data).__mro__:
        library = kind.__module__.partition(".")[0]
        if library == "numpy":
            from ._arrays import array_units

            return array_units(data, frozen)
        if library in ("scipy", "pandas", "polars", "pyarrow"):
            from ._tables import table_units

            return table_units(library, data, frozen)
    if hasattr(data, "__array__") or type(data).__name__ in ("array", "memoryview"):
        import numpy

        from ._arrays import array_units

        return array_units(numpy.asarray(data), frozen)
    name = type(data).__name__
    if isinstance(data, dict):
        hint = "list(d.items()) is a list of its entries"
    elif isinstance(data, (set, frozenset)):
        hint = "a set has no order that results could be combined in; sorted(s) has"
    elif hasattr(data, "__iter__"):
        hint = "list(...) makes a list of any iterable"
    else:
        hint = "give a list, an array, a table or the name of a file"
    raise TypeError(f"{name} cannot be a data set; {hint}")


def _is_array(obj: Any) -> bool:
    """Whether it is an array or table with rows."""
    libraries = (kind.__module__.partition(".")[0] for kind in type(obj).__mro__)
    return not _LIBRARIES.isdisjoint(libraries) and len(getattr(obj, "shape", (0,))) > 0


# The data sets of what was given to runs as it is, by identity or by the file's name, so that a loop of runs cuts and
# names it once.
_recent: OrderedDict[object, DataSet] = OrderedDict()
_RECENT_MAX = 4
_recent_lock = threading.Lock()


def as_dataset(data: Any) -> Optional[BaseDataSet]:
    """The data set that :meth:`qjam.Master.run` uses: the argument itself, one made of it, or None for None.

    The most recent ones are remembered while their data is alive.

    >>> from qjam.dataset import as_dataset
    >>> items = [1, 2, 3]
    >>> as_dataset(items) is as_dataset(items)
    True
    """
    if data is None or isinstance(data, BaseDataSet):
        return data
    if isinstance(data, (list, tuple, range)) and not data:
        raise ValueError(
            "the data set is empty; a round needs at least one item. To call the function once for every slot of every worker, "
            "without data, write dataset=None"
        )
    is_file = isinstance(data, (str, os.PathLike))
    key: object = os.path.abspath(os.fspath(data)) if is_file else id(data)
    with _recent_lock:
        _drop_unused()
        known = _recent.get(key)
        if known is not None and (is_file or known._units.raw is data):
            _recent.move_to_end(key)
            return known
    made = DataSet(key if is_file else data)
    with _recent_lock:
        _recent[key] = made
        while len(_recent) > _RECENT_MAX:
            _recent.popitem(last=False)
    return made


def _drop_unused() -> None:
    """Lets go of data that nobody but us has."""
    for key in list(_recent):
        known = _recent[key]
        if isinstance(key, (str, bytes)):
            continue  # the name of a file holds on to nothing
        # Besides those of the data set: of the call that counts, and of this name.
        ours = 2 + known._units.own_references()
        data = known._units.raw
        if sys.getrefcount(data) <= ours:
            del _recent[key]
        del data, known
