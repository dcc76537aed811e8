"""Data sets: what a function is run over, and how it is cut into slices.

Lists, arrays, tables and files can be given to :meth:`qjam.Master.run` as they are. The classes here are for saying more:
how large slices are, that columns are wanted and not rows, that nobody changes the data.

* :class:`DataSet` takes anything and picks what fits: lists, NumPy arrays, SciPy's sparse matrices, pandas, polars and
  Arrow tables, and names of files.
* :class:`FileDataSet` reads tables and sparse matrices in files of many kinds, :class:`ImageDataSet` and
  :class:`AudioDataSet` folders of pictures and sounds.
* :class:`ListDataSet`, :class:`NumpyMatrixDataSet` and :class:`NumpyMatrixFileDataSet` are the classes of the report.
* :class:`BaseDataSet` is for data sets of your own: give it ``chunks()`` and ``slice(index)``.

Slices are named by their content. Workers keep what they were sent, so a second run over the same data sends nothing;
what has changed in between gets another name and is sent.

>>> from qjam.dataset import DataSet
>>> data = DataSet(["a", "b", "c", "d", "e"], slice_size=2)
>>> data.chunks(), data.slice(2), data[3]
(5, ['e'], 'd')
"""

from __future__ import annotations

from .base import BaseDataSet
from .general import DataSet, as_dataset
from .lists import ListDataSet
from .matrices import NumpyMatrixDataSet, NumpyMatrixFileDataSet
from .readers import AudioDataSet, FileDataSet, ImageDataSet

__all__ = [
    "AudioDataSet",
    "BaseDataSet",
    "DataSet",
    "FileDataSet",
    "ImageDataSet",
    "ListDataSet",
    "NumpyMatrixDataSet",
    "NumpyMatrixFileDataSet",
    "as_dataset",
]
