"""Data sets of files that the native readers open."""

from __future__ import annotations

import gzip
import struct
import sys
import wave
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any, Tuple

import numpy as np
import pytest
from test_dataset import as_workers_see_it

from qjam import Master
from qjam._worker.chunks import open_chunk
from qjam.dataset import AudioDataSet, FileDataSet, ImageDataSet

sp: Any = import_module("scipy.sparse")


def write_png(path: Path, pixels: Any) -> None:
    """A grey picture."""
    height, width = pixels.shape

    def piece(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    lines = b"".join(b"\0" + bytes(line) for line in pixels)
    head = piece(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + piece(b"IDAT", zlib.compress(lines)) + piece(b"IEND", b""))


def table(rows: int = 5000) -> Tuple[Any, str]:
    values = np.random.default_rng(1).normal(size=(rows, 3))
    return values, "a,b,c\n" + "".join(",".join(map(repr, row.tolist())) + "\n" for row in values)


def test_a_table_is_read_and_cut_and_the_same_packed_or_kept(tmp_path: Path) -> None:
    values, text = table()
    (tmp_path / "t.csv").write_text(text)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    data = FileDataSet(tmp_path / "t.csv")
    assert (data.kind, data.columns, data.chunks(), data.labels) == ("csv", ["a", "b", "c"], 5000, None)
    seen = as_workers_see_it(data)
    assert len(seen) == data.slices() > 1 and not seen[0].flags.writeable
    assert np.array_equal(np.concatenate(seen), values) and np.array_equal(data.raw_data(), values)
    assert np.array_equal(data[4321], values[4321]) and np.array_equal(data[10:4000:7], values[10:4000:7])
    assert np.array_equal(data[5:2:-1], values[5:2:-1]) and data[3:3].shape == (0, 3)
    kept = FileDataSet(str(tmp_path / "t.csv.gz"), keep_in=tmp_path / "kept")
    assert kept.hash_list() == data.hash_list() and len(list((tmp_path / "kept").iterdir())) == 1
    short = FileDataSet(tmp_path / "t.csv", 1000, dtype="float32", columns=["c", "a"])
    assert [x.shape for x in as_workers_see_it(short)] == [(1000, 2)] * 5
    assert np.array_equal(short.slice(4), values[4000:, [2, 0]].astype("f4"))


def test_a_target_is_the_last_column_and_missing_values_are_dealt_with(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,x,name\n1,2,a\n3,,b\n5,6,c\n")
    data = FileDataSet(path, without=["name"], target="y", missing="drop")
    assert (data.columns, data.dropped, data.labels.tolist()) == (["x", "y"], 1, [1.0, 5.0])
    assert data.raw_data().tolist() == [[2.0, 1.0], [6.0, 5.0]]
    assert FileDataSet(path, columns=["x"], missing="mean").raw_data().tolist() == [[2.0], [4.0], [6.0]]
    assert FileDataSet(path, columns=["x"], missing=-1).filled == 1


def test_what_changes_on_disk_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2\n")
    data = FileDataSet(path)
    before = data.hash_list()
    path.write_text("1,2\n3,4\n")
    assert data.chunks() == 2 and data.hash_list() != before and data.raw_data().tolist() == [[1, 2], [3, 4]]


def test_sparse_rows_and_columns_are_matrices_of_scipy_over_the_memory_they_lie_in(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    dense = random.normal(size=(700, 50)) * (random.uniform(size=(700, 50)) < 0.1)
    labels = random.integers(2, size=700)
    lines = []
    for label, row in zip(labels, dense):
        lines.append(" ".join([str(label), *(f"{c + 1}:{float(row[c])!r}" for c in np.flatnonzero(row))]))
    (tmp_path / "x.svm").write_text("\n".join(lines))
    data = FileDataSet(tmp_path / "x.svm", 300, features=50)
    seen = as_workers_see_it(data)
    assert [x.shape for x in seen] == [(300, 50), (300, 50), (100, 50)] and sp.isspmatrix_csr(seen[0])
    assert np.array_equal(sp.vstack(seen).toarray(), dense) and np.array_equal(data.labels, labels)
    assert np.array_equal(seen[1].labels, labels[300:600])
    assert np.array_equal(data[650].toarray()[0], dense[650]) and np.array_equal(data[290:310].toarray(), dense[290:310])
    assert np.allclose(seen[0] @ np.ones(50), dense[:300].sum(axis=1))
    kind, dtype, shape, memory = data._native_data().chunk(0)
    matrix = open_chunk(kind, dtype, shape, memory)
    raw = np.frombuffer(memory, np.uint8)
    assert np.shares_memory(matrix.data, raw) and np.shares_memory(matrix.indices, raw)
    columns = FileDataSet(tmp_path / "x.svm", 20, features=50, by_columns=True)
    seen = as_workers_see_it(columns)
    assert [x.shape for x in seen] == [(700, 20), (700, 20), (700, 10)] and sp.isspmatrix_csc(seen[0])
    assert np.array_equal(sp.hstack(seen).toarray(), dense) and np.array_equal(columns.labels, labels)


def test_without_scipy_sparse_chunks_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ModuleNotFoundError, match="install scipy where workers run"):
        open_chunk("csr", "f64", (1, 1, 0, 0), bytes(16))


def test_arrays_of_numpy_are_read_whatever_their_type(tmp_path: Path) -> None:
    counts = np.arange(12, dtype="i4").reshape(4, 3)
    np.save(tmp_path / "x.npy", counts)
    np.savez_compressed(tmp_path / "x.npz", x=counts, y=counts[:, 0].astype("f8"))
    assert np.array_equal(FileDataSet(tmp_path / "x.npy").raw_data(), counts)
    assert np.array_equal(FileDataSet(tmp_path / "x.npz", array="y").raw_data()[:, 0], counts[:, 0])
    with pytest.raises(ValueError, match="several arrays, x, y; choose one with `array`"):
        FileDataSet(tmp_path / "x.npz")


def test_pictures_and_sounds_are_read_from_folders(tmp_path: Path) -> None:
    for index, name in enumerate(["cats/a.png", "cats/b.png", "dogs/a.png"]):
        write_png(tmp_path / "pictures" / name, np.full((4, 6), index * 51, np.uint8))
    data = ImageDataSet(tmp_path / "pictures", grey=True)
    assert data.labels.tolist() == ["cats", "cats", "dogs"] and data.files[2] == "dogs/a.png"
    assert np.allclose(data.raw_data(), np.repeat([[0.0], [0.2], [0.4]], 24, axis=1))
    assert ImageDataSet(tmp_path / "pictures", size=(3, 2)).raw_data().shape == (3, 18)
    assert ImageDataSet(tmp_path / "pictures", grey=True, patches=(2, 2)).chunks() == 18
    write_png(tmp_path / "pictures" / "dogs" / "b.png", np.zeros((5, 5), np.uint8))
    with pytest.raises(ValueError, match="5 × 5 pixels and the first, .*a.png, has 6 × 4"):
        ImageDataSet(tmp_path / "pictures")
    (tmp_path / "sounds").mkdir()
    with wave.open(str(tmp_path / "sounds" / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(np.arange(64, dtype="<i2").tobytes())
    frames = AudioDataSet(tmp_path / "sounds", window=16, step=16, dtype="float64")
    assert np.array_equal(frames.raw_data(), np.arange(64).reshape(4, 16) / 32768) and frames.labels is None
    assert AudioDataSet(tmp_path / "sounds", window=16, step=8, spectrum="log").raw_data().shape == (7, 9)


@pytest.mark.parametrize(
    ("content", "options", "error", "match"),
    [
        ("1,2\n3\n", {}, ValueError, "line 2, column 1: the line has 1 fields and the first line has 2"),
        ("a,b\n1,red\n", {}, ValueError, 'line 2, column 3: "red" in column "b" is not a number; leave'),
        ("a,b\n1,inf\n", {}, ValueError, 'line 2, column 3: "inf" is not finite'),
        ("a,b\n", {}, ValueError, "has no rows"),
        ("", {}, ValueError, "it is empty; supported are .npy"),
        ("1,2\n", {"target": "y"}, ValueError, 'no column "y"; it has "1", "2"'),
        ("1,2\n", {"zero_based": True}, ValueError, "`zero_based` does not apply"),
        ("1,2\n", {"missing": "median"}, ValueError, "missing is 'median'; it can be 'error', 'mean', 'drop'"),
        ("1,2\n", {"dtype": "int8"}, ValueError, "float32 or float64"),
        ("1,2\n", {"columns": "1"}, TypeError, "columns is a list of names"),
        ("1 1:2 1:3\n", {}, ValueError, "the index 1 follows 1; indices must increase"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, content: str, options: Any, error: Any, match: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(error, match=match):
        FileDataSet(path, **options)


def test_small_files_that_claim_to_be_large_are_errors_and_the_interpreter_goes_on(tmp_path: Path) -> None:
    def claims(shape: str) -> bytes:
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(800)

    endless, csc = claims("(40, 99999999999)"), sp.csc_matrix((1000, 3))
    files = {
        "endless.npy": (endless, "copy it again"),
        "wide.npy": (claims("(2, 30000000)"), "copy it again"),
        "endless.npy.gz": (gzip.compress(endless), "confirm it with `features`"),
        "wide.svm": (b"1 1:1 4294967294:1\n", "confirm it with `features`"),
    }
    for name, (content, words) in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            FileDataSet(path)
    tall = tmp_path / "tall.npz"
    sp.save_npz(tall, csc)
    with np.load(tall) as parts:
        np.savez(tall, **{**parts, "shape": np.array([2_000_000_000, 3])})
    with pytest.raises(ValueError, match="2000000000 rows"):
        FileDataSet(tall)


def test_files_that_are_not_there_are_the_errors_of_python(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileDataSet(tmp_path / "none.csv")
    with pytest.raises(TypeError, match="name of a file or folder, not list"):
        FileDataSet([1, 2])


def test_progress_is_told_and_its_errors_come_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table()[1])
    told = []
    FileDataSet(tmp_path / "t.csv", progress=lambda done, total: told.append((done, total)))
    size = (tmp_path / "t.csv").stat().st_size
    assert told and told[-1] == (size, size)

    def fail(done: int, total: int) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        FileDataSet(tmp_path / "t.csv", progress=fail)


def total(_: Any, chunk: Any) -> float:
    return float(chunk.sum())


def test_workers_run_over_dense_and_sparse_files(tmp_path: Path) -> None:
    values, text = table()
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "x.svm").write_text("1 1:0.5 3:2\n-1 2:1\n" * 50)
    with Master("local:2") as master:
        assert master.run(total, None, FileDataSet(tmp_path / "t.csv")) == pytest.approx(values.sum())
        assert master.run(total, None, FileDataSet(tmp_path / "x.svm", 30)) == 175.0
        assert master.run(total, None, FileDataSet(tmp_path / "x.svm", 2, by_columns=True)) == 175.0
