"""The worker executable is found however the package was installed, and where it is not, the error says where it was
looked for."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import qjam
from qjam import _find
from qjam.errors import RemoteWorkerError


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def copied(package: Path) -> Path:
    """The module alone, in a package that lies elsewhere."""
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name in ("_find.py", "errors.py"):
        (package / name).write_bytes((Path(qjam.__file__).parent / name).read_bytes())
    return package


def asked(package: Path, **variables: str) -> str:
    """What a fresh interpreter says that uses the package there."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), **variables}
    environment.pop("QJAM_WORKER", None)
    program = "from qjam import _find; print(_find.worker())"
    words = [sys.executable, "-c", program]
    return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_what_is_found_runs() -> None:
    answer = subprocess.run([_find.worker(), "--version"], check=True, capture_output=True, text=True)
    assert answer.stdout.startswith("qjam ")


def test_the_variable_stands_above_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = executable(tmp_path / "own")
    monkeypatch.setenv("QJAM_WORKER", str(own))
    assert _find.worker() == str(own)


def test_a_variable_that_names_no_executable_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = executable(tmp_path / "plain")
    plain.chmod(stat.S_IRUSR)
    monkeypatch.setenv("QJAM_WORKER", str(tmp_path / "none"))
    with pytest.raises(RemoteWorkerError, match="QJAM_WORKER names .*none, which is not an executable file"):
        _find.worker()


def test_it_lies_beside_a_package_in_a_folder_of_its_own(tmp_path: Path) -> None:
    package = copied(tmp_path / "vendored" / "qjam")
    worker = executable(tmp_path / "vendored" / "bin" / "qjam")
    assert worker in _find._candidates(package)


def test_it_lies_among_the_scripts_of_a_prefix(tmp_path: Path) -> None:
    package = copied(tmp_path / "lib" / "python3.11" / "site-packages" / "qjam")
    worker = executable(tmp_path / "bin" / "qjam")
    assert worker in _find._candidates(package)


def test_in_a_checkout_the_newest_build_runs(tmp_path: Path) -> None:
    package = copied(tmp_path / "python" / "qjam")
    (tmp_path / "crates" / "py").mkdir(parents=True)
    (tmp_path / "crates" / "py" / "Cargo.toml").write_text("")
    release = executable(tmp_path / "target" / "release" / "qjam")
    debug = executable(tmp_path / "target" / "debug" / "qjam")
    now = os.stat(debug).st_mtime
    os.utime(release, (now + 100, now + 100))
    os.utime(debug, (now + 200, now + 200))
    assert asked(package, CARGO_TARGET_DIR="target") == str(debug)
    os.utime(release, (now + 300, now + 300))
    assert asked(package, CARGO_TARGET_DIR="target") == str(release)


def test_the_error_names_every_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QJAM_WORKER", raising=False)
    places = [tmp_path / "one" / "qjam", tmp_path / "two" / "qjam"]
    monkeypatch.setattr(_find, "_candidates", lambda package: places)
    with pytest.raises(RemoteWorkerError) as caught:
        _find.worker()
    for place in places:
        assert str(place) in str(caught.value)
    assert "QJAM_WORKER" in str(caught.value)
