"""Rows of numbers in files of all kinds: CSV, Parquet, LIBSVM, NumPy's, IDX, and folders of pictures and sounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .general import DataSet

if TYPE_CHECKING:
    from ._readers import ReadUnits


class FileDataSet(DataSet):
    """Rows of numbers in a file of any supported kind, which is detected from its content.

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

    The kinds are tables in CSV (also with tabs, semicolons or blanks) and Parquet, LIBSVM and svmlight, ``.npy`` and ``.npz``,
    IDX (the format of MNIST), folders of PNG and JPEG pictures and folders of WAV files (see :class:`ImageDataSet` and
    :class:`AudioDataSet`). Text, ``.npy`` and IDX files may be compressed by gzip or zstd. The function gets

    * for dense rows: a read-only NumPy array, with the target, if there is one, as its last column:
      ``x, y = chunk[:, :-1], chunk[:, -1]``;
    * for LIBSVM files: a ``scipy.sparse.csr_matrix`` with an attribute ``labels`` that has the label of each row; with
      ``by_columns`` a ``csc_matrix`` of some columns of all rows. Workers need SciPy then. Query numbers (``qid``) are
      ignored.

    The file may be larger than memory. A large file is converted once into a file in the user's cache folder, which workers read
    and later programs reuse. (If you set ``slice_size`` for a LIBSVM file, its slices are written to another file there.)

    Args:
        path: The file or folder.
        slice_size: Rows per slice; by default chosen from the size of the data.
        kind: ``"csv"``, ``"libsvm"``, ``"npy"``, ``"npz"``, ``"parquet"``, ``"idx"``, ``"images"`` or ``"audio"``, instead of
            detecting it.
        dtype: ``"float32"`` or ``"float64"``. By default that of the file if it has one, otherwise float64 (for pictures and
            sounds float32).
        columns: Columns of a table to read, in this order.
        without: Columns of a table to leave out.
        target: The target column of a table; it becomes the last column.
        missing: What to do about missing values: ``"error"`` (the default, which names the first), use the ``"mean"`` of the
            column, ``"drop"`` the row, or use a number.
        header: Whether the first line of a CSV file contains column names; by default detected.
        delimiter: The field separator of a CSV file.
        comment: Lines of a CSV file that start with this character are skipped.
        zero_based: Indices of a LIBSVM file start at 0, not at 1.
        features: Number of columns of a LIBSVM file, if larger than its largest index. Of other files, confirms up to so
            many columns: more than 2^24 in an array or 2^20 in a table must be confirmed, because a few bytes can claim
            any number.
        by_columns: Cuts a LIBSVM file into columns instead of rows.
        array: The name of the array in an ``.npz`` file that has several.
        in_memory: Reads the numbers into memory, regardless of their size.
        keep_in: The folder for converted files.
        threads: Number of threads; by default one per core.
        progress: Called from time to time with the bytes read and the total.

    Raises:
        TypeError: if ``path`` is not the name of a file.
        OSError: if it cannot be read.
        ValueError: if the file is invalid, with line and column, or if options do not apply to it.
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
            raise ValueError(f"by_columns applies to LIBSVM files, but kind is {settings['kind']!r}")
        self._source = ReadUnits(path, chosen, by_columns, progress)
        self._set_up(self._source, slice_size)

    @property
    def kind(self) -> str:
        """The kind of file."""
        return str(self._source.current()["kind"])

    @property
    def columns(self) -> List[str]:
        """The names of the columns of a table, in order; without a header they are ``"1"``, ``"2"`` and so on."""
        return list(self._source.current().get("columns", ()))

    @property
    def labels(self) -> Any:
        """The label of each row as an array, or None if there are none."""
        return self._source.labels()

    @property
    def dropped(self) -> int:
        """Number of rows dropped because a value was missing."""
        return int(self._source.current().get("dropped", 0))

    @property
    def filled(self) -> int:
        """Number of missing values that were replaced."""
        return int(self._source.current().get("filled", 0))


class _FolderDataSet(FileDataSet):
    """The files of a folder; each gives some rows."""

    @property
    def files(self) -> List[str]:
        """The file of each row, as a path relative to the folder."""
        return [name for name, rows in self._source.current()["files"] for _ in range(rows)]

    @property
    def labels(self) -> Any:
        """The subfolder of each row's file: files in ``cats/`` and ``dogs/`` have the labels ``cats`` and ``dogs``. None if there
        are no subfolders.
        """
        import numpy

        names = [name.rpartition("/")[0].partition("/")[0] for name in self.files]
        return numpy.array(names) if any(names) else None


class ImageDataSet(_FolderDataSet):
    """The PNG and JPEG pictures in a folder and its subfolders, one picture or square patch per row.

    A row contains the pixels line by line, colour pixels as red, green, blue, from 0 to 1. Pictures are in the order of their
    paths.

    >>> from qjam.dataset import ImageDataSet
    >>> ImageDataSet("digits/", grey=True)                  # doctest: +SKIP
    ImageDataSet(60000 units in slices of 235)
    >>> ImageDataSet("photos/", grey=True, patches=(8, 4))  # doctest: +SKIP
    ImageDataSet(1032256 units in slices of 4033)

    Args:
        path: The folder.
        slice_size: Rows per slice.
        grey: Converts pictures to greyscale.
        size: Resizes all pictures to this width and height. Without it, whole pictures must have the same size.
        patches: Cuts pictures into squares: side and step in pixels.
        dtype: ``"float32"`` (the default) or ``"float64"``.
        in_memory: Reads the numbers into memory, regardless of their size.
        keep_in: The folder for converted files.
        threads: Number of threads; by default one per core.
        progress: Called from time to time with the bytes read and the total.

    Raises:
        TypeError: if ``path`` is not the name of a folder.
        OSError: if it cannot be read.
        ValueError: if a picture is damaged, or differs in size from the first; names it, and both sizes.
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
    """The WAV files in a folder and its subfolders: frames of samples, or their spectra.

    A window moves over each file and gives a row at each position. Channels are averaged, and samples are scaled to -1 to 1. An
    incomplete last window is ignored.

    >>> from qjam.dataset import AudioDataSet
    >>> AudioDataSet("birds/", window=1024, step=512, spectrum="log").slice(0).shape  # doctest: +SKIP
    (256, 513)

    Args:
        path: The folder.
        slice_size: Rows per slice.
        window: Length of the window in samples.
        step: Step of the window in samples.
        spectrum: Uses the spectrum of each window, weighted by a Hann window: the ``"magnitude"`` or ``"power"`` of each
            frequency, or the ``"log"`` of the power. The length must then be a power of two.
        dtype: ``"float32"`` (the default) or ``"float64"``.
        in_memory: Reads the numbers into memory, regardless of their size.
        keep_in: The folder for converted files.
        threads: Number of threads; by default one per core.
        progress: Called from time to time with the bytes read and the total.

    Raises:
        TypeError: if ``path`` is not the name of a folder.
        OSError: if it cannot be read.
        ValueError: if a file is damaged, or has another sample rate than the first; names it.
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
