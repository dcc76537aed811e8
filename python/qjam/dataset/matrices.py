"""Data sets of NumPy matrices, in memory and in files."""

from __future__ import annotations

import os
from typing import Any, Optional

from .general import BySlices


class NumpyMatrixDataSet(BySlices):
    """A matrix in memory, cut into rows, or into columns.

    >>> import numpy
    >>> from qjam.dataset import NumpyMatrixDataSet
    >>> matrix = numpy.arange(12).reshape(3, 4)
    >>> NumpyMatrixDataSet(matrix, slice_size=2).slice(0)
    array([[0, 1, 2, 3],
           [4, 5, 6, 7]])
    >>> NumpyMatrixDataSet(matrix, slice_size=2, row_major=False).slice(1)
    array([[ 2,  3],
           [ 6,  7],
           [10, 11]])

    Args:
        matrix: A ``numpy.ndarray`` of any type with at least one dimension, or a ``numpy.matrix``. Functions get the
            same.
        slice_size: Rows (or columns) in a slice. If it is not given, it follows from the size of the matrix: about 256
            slices of 64 KiB to 4 MiB.
        row_major: Cut into rows; False: into columns.
        frozen: Nobody will change the matrix. Spares looking whether somebody has.

    Raises:
        TypeError: if it is not an array.
        ValueError: if it is empty.
    """

    def __init__(
        self, matrix: Any, slice_size: Optional[int] = None, row_major: bool = True, *, frozen: bool = False
    ) -> None:
        import numpy

        if not isinstance(matrix, numpy.ndarray):
            raise TypeError(
                f"NumpyMatrixDataSet takes a NumPy array or matrix, not {type(matrix).__name__}; "
                "numpy.asarray(...) makes one of a list of rows"
            )
        if not row_major and matrix.ndim != 2:
            raise TypeError(f"columns are those of a matrix; this array has {matrix.ndim} dimensions")
        from ._arrays import array_units

        self._set_up(array_units(matrix, frozen, columns=not row_major), slice_size)


class NumpyMatrixFileDataSet(BySlices):
    """A matrix in a file, which may be larger than memory; each worker reads its rows when it needs them.

    Two kinds of files are read: what ``numpy.save`` writes (``.npy``), and texts with a row of numbers on every line,
    separated by blanks or commas. All lines of a text must have the same number of bytes, so that a row is found without
    reading what is before it; ``numpy.savetxt`` with a format of fixed width such as ``"%24.17e"`` writes them that way.

    >>> import numpy, os, tempfile
    >>> from qjam.dataset import NumpyMatrixFileDataSet
    >>> path = os.path.join(tempfile.mkdtemp(), "matrix.txt")
    >>> numpy.savetxt(path, numpy.eye(3), fmt="%3d")
    >>> NumpyMatrixFileDataSet(path, slice_size=2).slice(1)
    array([[0., 0., 1.]])

    Args:
        path: The file.
        slice_size: Lines or rows in a slice.

    Raises:
        TypeError: if it is not the name of a file.
        OSError: if it cannot be read.
        ValueError: if its lines are not equally long, or not numbers; says which.
    """

    def __init__(self, path: Any, slice_size: Optional[int] = None) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise TypeError(f"NumpyMatrixFileDataSet takes the name of a file, not {type(path).__name__}")
        from ._files import matrix_file_units

        self._set_up(matrix_file_units(path), slice_size)
