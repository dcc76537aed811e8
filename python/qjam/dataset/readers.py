"""Rows of numbers in files of all kinds: CSV, Parquet, LIBSVM, NumPy's, IDX, and folders of pictures and sounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .general import DataSet

if TYPE_CHECKING:
    from ._readers import ReadUnits


class FileDataSet(DataSet):
    """Rows of numbers in a file of any kind: what kind is seen from its content.

    >>> import os, tempfile
    >>> from qjam.dataset import FileDataSet
    >>> path = os.path.join(tempfile.mkdtemp(), "homes.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("street,size,price\\nElm,50,100\\nOak,80,160\\nFir,60,\\n")
    >>> homes = FileDataSet(path, without=["street"], target="price", missing="drop")
    >>> homes.columns, homes.dropped
    (['size', 'price'], 1)
    >>> homes.raw_data()
    array([[ 50., 100.],
           [ 80., 160.]])
    >>> homes.labels
    array([100., 160.])

    Read are tables in CSV (also tabs, semicolons, blanks) and Parquet, LIBSVM and svmlight, ``.npy`` and ``.npz``, IDX (as
    MNIST comes in), folders of PNG and JPEG pictures and folders of WAV files (for those see :class:`ImageDataSet` and
    :class:`AudioDataSet`); texts, ``.npy`` and IDX also packed by gzip or zstd. A function gets of it:

    * of dense rows: a read-only NumPy array, with the target, if there is one, as its last column:
      ``x, y = chunk[:, :-1], chunk[:, -1]``;
    * of LIBSVM files: a ``scipy.sparse.csr_matrix`` whose attribute ``labels`` has the label of each row; with
      ``by_columns`` a ``csc_matrix`` of some columns of all rows. Workers need SciPy then. Query numbers (``qid``) are
      not kept.

    The file may be larger than memory. What is not small is converted once into a file in the user's cache folder, from
    which workers read it, and which the next program finds there. (Slices of their own size of LIBSVM files are written
    beside it.)

    Args:
        path: The file or folder.
        slice_size: Rows in a slice. If it is not given, it follows from the size of the data.
        kind: ``"csv"``, ``"libsvm"``, ``"npy"``, ``"npz"``, ``"parquet"``, ``"idx"``, ``"images"`` or ``"audio"``, if it
            is not the one it looks like.
        dtype: ``"float32"`` or ``"float64"``. If it is not given, that of the file where it has one, else float64 (of
            pictures and sounds float32).
        columns: Columns of a table to read, in this order.
        without: Columns of a table to leave out.
        target: The column of a table that is to be learnt; it becomes the last one.
        missing: What to do about values that are missing: ``"error"`` (the default, which names the first), ``"mean"`` of
            the column, ``"drop"`` the row, or a number that takes their place.
        header: Whether a CSV file has names in its first line. If it is not given, that is seen from the line.
        delimiter: What is between the fields of a CSV file.
        comment: Lines of a CSV file that start with this character are left out.
        zero_based: Indices of a LIBSVM file count from 0, not from 1.
        features: Columns of a LIBSVM file, if there are more than are seen in it.
        by_columns: Cuts a LIBSVM file into columns, not rows.
        array: The name of the array in an ``.npz`` file that has several.
        in_memory: Keeps what is read in memory, whatever its size.
        keep_in: The folder for what is converted.
        threads: Threads that read; all cores if it is not given.
        progress: Called with bytes done and bytes in all, now and then.

    Raises:
        TypeError: if it is not the name of a file.
        OSError: if it cannot be read.
        ValueError: for what is wrong in the file, with line and column, and for options that do not suit it.
    """

    _source: ReadUnits

    def __init__(
        self,
        path: Any,
        slice_size: Optional[int] = None,
        *,
        kind: Optional[str] = None,
        dtype: Optional[str] = None,
        columns: Optional[Sequence[str]] = None,
        without: Sequence[str] = (),
        target: Optional[str] = None,
        missing: Union[str, float] = "error",
        header: Optional[bool] = None,
        delimiter: Optional[str] = None,
        comment: Optional[str] = None,
        zero_based: bool = False,
        features: Optional[int] = None,
        by_columns: bool = False,
        array: Optional[str] = None,
        in_memory: bool = False,
        keep_in: Any = None,
        threads: Optional[int] = None,
        progress: Optional[Callable[[int, int], object]] = None,
    ) -> None:
        settings = {
            "kind": kind, "dtype": dtype, "columns": columns, "without": list(without) or None, "target": target,
            "missing": None if missing == "error" else missing, "header": header, "delimiter": delimiter,
            "comment": comment, "zero_based": zero_based or None, "features": features, "array": array,
        }  # fmt: skip
        self._read(path, slice_size, settings, in_memory, keep_in, threads, progress, by_columns)

    def _read(
        self,
        path: Any,
        slice_size: Optional[int],
        settings: Dict[str, Any],
        in_memory: bool,
        keep_in: Any,
        threads: Optional[int],
        progress: Optional[Callable[[int, int], object]],
        by_columns: bool = False,
    ) -> None:
        from ._readers import ReadUnits, file_name

        for name in ("columns", "without"):
            if isinstance(settings.get(name), str):
                raise TypeError(f"{name} is a list of names, not one: [{settings[name]!r}]")
        path = file_name(path, type(self).__name__)
        settings.update(in_memory=in_memory or None, keep_in=keep_in, threads=threads)
        chosen = {name: value for name, value in settings.items() if value is not None}
        if "dtype" in chosen:
            chosen["dtype"] = str(getattr(chosen["dtype"], "__name__", chosen["dtype"]))
        if by_columns and settings.get("kind") not in (None, "libsvm"):
            raise ValueError(f"by_columns goes with LIBSVM files, and kind is {settings['kind']!r}")
        self._source = ReadUnits(path, chosen, by_columns, progress)
        self._set_up(self._source, slice_size)

    @property
    def kind(self) -> str:
        """What kind of file it is."""
        return str(self._source.current()["kind"])

    @property
    def columns(self) -> List[str]:
        """The names of the columns of a table, in order; without a header they are called ``"1"``, ``"2"`` and so on."""
        return list(self._source.current().get("columns", ()))

    @property
    def labels(self) -> Any:
        """The label of each row as an array, or None if there are none."""
        return self._source.labels()

    @property
    def dropped(self) -> int:
        """Rows that were left out because a value was missing."""
        return int(self._source.current().get("dropped", 0))

    @property
    def filled(self) -> int:
        """Values that were put where some were missing."""
        return int(self._source.current().get("filled", 0))


class _FolderDataSet(FileDataSet):
    """Files of a folder, each of which gives some rows."""

    @property
    def files(self) -> List[str]:
        """The file that each row is from, below the folder."""
        return [name for name, rows in self._source.current()["files"] for _ in range(rows)]

    @property
    def labels(self) -> Any:
        """The folder that each row's file is in, below the folder: files in ``cats/`` and ``dogs/`` are ``cats`` and
        ``dogs``. None if there are no folders in it.
        """
        import numpy

        names = [name.rpartition("/")[0].partition("/")[0] for name in self.files]
        return numpy.array(names) if any(names) else None


class ImageDataSet(_FolderDataSet):
    """The PNG and JPEG pictures in a folder and the folders in it, one picture a row, or squares cut out of them.

    A row has the pixels line by line, in colour red, green and blue of each side by side, from 0 to 1. Pictures come in the
    order of their names.

    >>> from qjam.dataset import ImageDataSet
    >>> ImageDataSet("digits/", grey=True)                  # doctest: +SKIP
    ImageDataSet(60000 units in slices of 235)
    >>> ImageDataSet("photos/", grey=True, patches=(8, 4))  # doctest: +SKIP
    ImageDataSet(1032256 units in slices of 4033)

    Args:
        path: The folder.
        slice_size: Rows in a slice.
        grey: Takes the brightness alone.
        size: Brings all pictures to this width and height. Without it, whole pictures must be of one size.
        patches: Cuts squares of so many pixels a side, every so many pixels.
        dtype: ``"float32"`` (the default) or ``"float64"``.
        in_memory: Keeps what is read in memory, whatever its size.
        keep_in: The folder for what is converted.
        threads: Threads that read; all cores if it is not given.
        progress: Called with bytes done and bytes in all, now and then.

    Raises:
        TypeError: if it is not the name of a folder.
        OSError: if it cannot be read.
        ValueError: if a picture is damaged, or of another size than the first; says which, and both sizes.
    """

    def __init__(
        self,
        path: Any,
        slice_size: Optional[int] = None,
        *,
        grey: bool = False,
        size: Optional[Tuple[int, int]] = None,
        patches: Optional[Tuple[int, int]] = None,
        dtype: Optional[str] = None,
        in_memory: bool = False,
        keep_in: Any = None,
        threads: Optional[int] = None,
        progress: Optional[Callable[[int, int], object]] = None,
    ) -> None:
        settings = {"kind": "images", "grey": grey or None, "size": size, "patches": patches, "dtype": dtype}
        self._read(path, slice_size, settings, in_memory, keep_in, threads, progress)


class AudioDataSet(_FolderDataSet):
    """The WAV files in a folder and the folders in it: pieces of sound, or their spectra.

    Each file is gone through with a window, which gives a row at every place it stops. Channels are averaged, and samples go
    from -1 to 1. What does not fill the last window is left out.

    >>> from qjam.dataset import AudioDataSet
    >>> AudioDataSet("birds/", window=1024, step=512, spectrum="log").slice(0).shape  # doctest: +SKIP
    (256, 513)

    Args:
        path: The folder.
        slice_size: Rows in a slice.
        window: Samples in the window.
        step: Samples that it moves by.
        spectrum: Takes of each window, faded in and out, the ``"magnitude"`` or ``"power"`` of each frequency, or the
            ``"log"`` of the power. The window is then a power of two.
        dtype: ``"float32"`` (the default) or ``"float64"``.
        in_memory: Keeps what is read in memory, whatever its size.
        keep_in: The folder for what is converted.
        threads: Threads that read; all cores if it is not given.
        progress: Called with bytes done and bytes in all, now and then.

    Raises:
        TypeError: if it is not the name of a folder.
        OSError: if it cannot be read.
        ValueError: if a file is damaged, or has another number of samples a second than the first; says which.
    """

    def __init__(
        self,
        path: Any,
        slice_size: Optional[int] = None,
        *,
        window: int = 1024,
        step: int = 512,
        spectrum: Optional[str] = None,
        dtype: Optional[str] = None,
        in_memory: bool = False,
        keep_in: Any = None,
        threads: Optional[int] = None,
        progress: Optional[Callable[[int, int], object]] = None,
    ) -> None:
        settings = {"kind": "audio", "frames": (window, step), "spectrum": spectrum, "dtype": dtype}
        self._read(path, slice_size, settings, in_memory, keep_in, threads, progress)
