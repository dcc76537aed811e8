"""What is installed is whole, and imports no more than it needs. How long that takes is in `measures.py`."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import qjam

# Imported modules that would show that somebody pays for what they do not use.
HEAVY = ["scipy", "pandas", "polars", "pyarrow", "IPython", "tqdm", "multiprocessing", "asyncio", "qjam._vendor"]


def says(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *options, "-c", program]
    return subprocess.run(words, check=True, capture_output=True, text=True)


def installed() -> list[str]:
    return [str(file) for file in importlib.metadata.files("qjam") or []]


def test_the_tests_run_on_what_was_installed() -> None:
    package = Path(qjam.__file__).parent
    assert package.parent.samefile(sysconfig.get_path("platlib")), package


def test_importing_brings_nothing_that_was_not_asked_for() -> None:
    program = "import sys, qjam; print([m for m in %r if m in sys.modules])" % HEAVY
    assert says(program).stdout.strip() == "[]"


def test_numpy_is_the_only_dependency() -> None:
    wanted = importlib.metadata.requires("qjam") or []
    assert [line.split(">")[0] for line in wanted if "extra ==" not in line] == ["numpy"]


def test_types_and_licences_are_installed() -> None:
    files = installed()
    for name in ("qjam/py.typed", "qjam/_native.pyi", "qjam/_vendor/cloudpickle/LICENSE"):
        assert name in files
    assert any(file.endswith("licenses/LICENSE-MIT") for file in files)
    assert any(file.endswith("licenses/LICENSE-APACHE") for file in files)


def test_nothing_but_the_package_is_installed() -> None:
    beginnings = {Path(file).parts[0] for file in installed()} - {".."}
    version = importlib.metadata.version("qjam")
    assert beginnings == {"qjam", f"qjam-{version}.dist-info"}
    assert not [file for file in installed() if "test" in Path(file).name]


def test_the_native_module_serves_every_version_of_python() -> None:
    tags = (importlib.metadata.distribution("qjam").read_text("WHEEL") or "").splitlines()
    assert [tag for tag in tags if tag.startswith("Tag: cp39-abi3-")], tags
    assert "qjam/_native.abi3.so" in installed()


def test_the_command_and_the_package_have_one_version() -> None:
    command = os.path.join(sysconfig.get_path("scripts"), "qjam")
    said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["qjam", importlib.metadata.version("qjam")]
    assert qjam.__version__ == importlib.metadata.version("qjam")


def test_the_worker_needs_no_library_of_the_machine() -> None:
    command = Path(sysconfig.get_path("scripts"), "qjam").read_bytes()
    assert command.startswith(b"\x7fELF")
    # Where a dynamic linker is wanted, its path stands in the file's first page.
    assert b"ld-linux" not in command[:4096]
