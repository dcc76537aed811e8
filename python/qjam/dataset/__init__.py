"""Data sets: the data that a function runs over, cut into slices.

Lists, arrays, tables and files can be passed to :meth:`qjam.Master.run` directly. The classes here control more: the size of
slices, whether columns instead of rows are cut, and whether the data can change.

* :class:`DataSet` takes any data: lists, NumPy arrays, SciPy's sparse matrices, pandas, polars and
  Arrow tables, and names of files.
* :class:`FileDataSet` reads tables and sparse matrices in files of many kinds, :class:`ImageDataSet` and
  :class:`AudioDataSet` folders of pictures and sounds.
* :class:`DerivedDataSet` is what ``map``, ``filter``, ``flat_map`` and ``sample`` of any of these give: it is made on workers.
* :class:`ZippedDataSet` cuts several arrays, lists or tables at the same rows.
* :class:`ListDataSet`, :class:`NumpyMatrixDataSet` and :class:`NumpyMatrixFileDataSet` are the classes of the original report.
  Their length is the number of slices, and ``data[index]`` is a slice, as of data sets of your own.
* :class:`BaseDataSet` is the base class for your own data sets: define ``chunks()`` and ``slice(index)``.

Slices are named by the hash of their content. Workers keep the slices that they have, so a second run over the same data sends
nothing; slices that have changed get another name and are sent.

>>> from qjam.dataset import DataSet
>>> data = DataSet(["a", "b", "c", "d", "e"], slice_size=2)
>>> data.chunks(), data.slice(2), data[3]
(5, ['e'], 'd')
"""

from __future__ import annotations

from .base import BaseDataSet
from .derived import DerivedDataSet
from .general import DataSet, as_dataset
from .lists import ListDataSet
from .matrices import NumpyMatrixDataSet, NumpyMatrixFileDataSet
from .readers import AudioDataSet, FileDataSet, ImageDataSet
from .zipped import ZippedDataSet

__all__ = [
    "AudioDataSet",
    "BaseDataSet",
    "DataSet",
    "DerivedDataSet",
    "FileDataSet",
    "ImageDataSet",
    "ListDataSet",
    "NumpyMatrixDataSet",
    "NumpyMatrixFileDataSet",
    "ZippedDataSet",
    "as_dataset",
]
