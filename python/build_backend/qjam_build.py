"""Builds the Python package: maturin, and the two things that maturin does not do.

Installers call the functions at the end (PEP 517 and PEP 660). Before maturin packs the wheel, two things are put where
it looks for them:

- `python/qjam.data/scripts/qjam`, the worker that is started on hosts, which is also the command `qjam`. It is linked
  statically, so that one file runs on every Linux of its CPU kind. Installers put it beside the interpreter.
- `python/qjam/_vendor/cloudpickle`, with its licence, from the environment that installers make for the build. It
  turns functions into bytes. Carried along, it is the same on every host, and NumPy stays the only dependency.

Both builds use cargo's own target folder and name no target, so the crates they share are compiled once, also with the
command that `cargo build --release` makes, and a second build compiles only what has changed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "qjam"
SCRIPTS = ROOT / "python" / "qjam.data" / "scripts"

Settings = Optional[Mapping[str, Any]]

NO_CARGO = """
qjam is partly written in Rust, and cargo, which builds that part, was not found.
Install Rust (your system's packages `cargo` and `rustc`, or rustup), see that `cargo --version` answers in this
terminal, and install again. A wheel that somebody else has built needs no Rust.
"""

# What of the checkout goes into a source distribution: what cargo and maturin need, and the tests.
SOURCES = [
    ".cargo",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "crates",
    "docs",
    "examples",
    "pyproject.toml",
    "python",
    "rustfmt.toml",
    "xtask",
]
# What builds leave among the sources.
LEAVINGS = {"__pycache__", "_vendor", "qjam.data", "target", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """Makes the wheel and returns its name."""
    with _at_root(wheel_directory, metadata_directory) as (to, metadata):
        return str(_maturin().build_wheel(to, _prepare(config_settings), metadata))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """Makes a wheel that points at this checkout, for `pip install -e .`."""
    with _at_root(wheel_directory, metadata_directory) as (to, metadata):
        return str(_maturin().build_editable(to, _prepare(config_settings), metadata))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Packs the sources and returns the archive's name.

    Maturin's own archive has the crates that the native module depends on. The worker is a crate beside them, so ours
    has the whole workspace.
    """
    with _at_root(sdist_directory) as (to,), tempfile.TemporaryDirectory() as folder:
        about = Path(folder, prepare_metadata_for_build_wheel(folder))
        metadata = (about / "METADATA").read_bytes()
        name = "qjam-" + importlib.metadata.PathDistribution(about).version
        archive = Path(str(to), f"{name}.tar.gz")
        with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
            first = tarfile.TarInfo(f"{name}/PKG-INFO")
            first.size = len(metadata)
            tar.addfile(first, io.BytesIO(metadata))
            for source in SOURCES:
                if (ROOT / source).exists():
                    tar.add(ROOT / source, f"{name}/{source}", filter=_source_only)
        return archive.name


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What the build needs besides `build-system.requires`: a linker for old systems, when it is asked for."""
    _cargo()
    return ["ziglang"] if "--zig" in _maturin().get_maturin_pep517_args(config_settings) else []


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """The same as for a wheel."""
    return get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Nothing more; cargo is asked for the version."""
    _cargo()
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Name, version and dependencies, without building anything."""
    with _at_root(metadata_directory) as (to,):
        _cargo()
        # Maturin wants to see the folder even when nothing is packed.
        SCRIPTS.mkdir(parents=True, exist_ok=True)
        return str(_maturin().prepare_metadata_for_build_wheel(to, config_settings))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def _maturin() -> Any:
    """Maturin's own backend. Imported late, so that our complaints come before those of an import."""
    import maturin

    return maturin


@contextmanager
def _at_root(*folders: Optional[str]) -> Iterator[list[Optional[str]]]:
    """Works in the checkout, wherever it was called from; folders keep their meaning."""
    absolute = [None if folder is None else os.path.abspath(folder) for folder in folders]
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        yield absolute
    finally:
        os.chdir(before)


def _prepare(config_settings: Settings) -> dict[str, Any]:
    """Puts worker and library in place, and returns the settings that make maturin build where they were built."""
    cargo = _cargo()
    target = _target_folder(cargo)
    _put_worker(cargo, target)
    _put_library("cloudpickle")
    words = list(_maturin().get_maturin_pep517_args(config_settings))
    if "--zig" in words:
        # Cargo does not notice another linker, so its outputs must not meet those of the usual one.
        words += ["--target-dir", str(target / "old-glibc")]
        if "--target" not in words:
            words += ["--target", _own_triple()]
    return {**(config_settings or {}), "maturin.build-args": words}


def _cargo() -> str:
    cargo = shutil.which("cargo")
    if cargo is None:
        sys.exit(NO_CARGO)
    return cargo


def _target_folder(cargo: str) -> Path:
    """Where cargo builds, whichever variable or setting says so."""
    words = [cargo, "metadata", "--no-deps", "--format-version", "1", "--offline"]
    return Path(json.loads(_output(words))["target_directory"])


def _own_triple() -> str:
    """What the compiler calls this machine."""
    lines = _output([os.environ.get("RUSTC", "rustc"), "-vV"]).splitlines()
    return next(line.split()[1] for line in lines if line.startswith("host:"))


def _output(words: list[str]) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _put_worker(cargo: str, target: Path) -> None:
    """Builds the worker. Only its own linking is static: the crates below it are those of the native module."""
    words = "rustc --release --locked --package qjam-cli --bin qjam --features cloud --".split()
    words = [cargo, *words, "-C", "target-feature=+crt-static", "-C", "strip=symbols"]
    print(f"Running `{' '.join(words)}`", flush=True)
    # Standard output belongs to the installer.
    if subprocess.run(words, cwd=ROOT, stdout=sys.stderr, check=False).returncode != 0:
        sys.exit("The worker `qjam` could not be built: the compiler's message is above.")
    _put(target / "release" / "qjam", SCRIPTS / "qjam")


def _put_library(name: str) -> None:
    """Copies a package of pure Python, and its licence, into ours."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        sys.exit(f"{name} is missing: it belongs into the environment that builds, beside maturin.")
    vendor = PACKAGE / "_vendor"
    shutil.rmtree(vendor, ignore_errors=True)
    version = importlib.metadata.version(name)
    for source in sorted(Path(found.origin).parent.glob("*.py")):
        _put(source, vendor / name / source.name)
    licences = [f for f in importlib.metadata.files(name) or [] if "LICENSE" in f.name.upper()]
    if not licences:
        sys.exit(f"{name} {version} came without its licence, so it may not be carried along.")
    for licence in licences:
        _put(Path(str(licence.locate())), vendor / name / licence.name)
    about = f'"""Copied when the package was built, unchanged: {name} {version}."""\n'
    (vendor / "__init__.py").write_text(about)


def _put(source: Path, to: Path) -> None:
    """Copies beside and renames, so that whoever runs the old one meanwhile keeps it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    beside = to.with_name(to.name + ".new")
    shutil.copy2(source, beside)
    os.replace(beside, to)


def _source_only(entry: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    """Leaves out what builds have made, and whose files they are."""
    parts = Path(entry.name).parts
    if LEAVINGS.intersection(parts) or parts[-1].startswith("_native") and parts[-1].endswith(".so"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
