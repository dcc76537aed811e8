"""Finds the worker: the executable `qjam` that runs as a `proc` worker and is copied to hosts.

The wheel contains it as a script, so installers put it into the folder for scripts, which depends on how they were called. In a
checkout it is in cargo's target folder. The environment variable `QJAM_WORKER` overrides all of these.

>>> from qjam._find import worker
>>> worker().endswith("qjam")
True
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import List

NAME = "qjam"
VARIABLE = "QJAM_WORKER"

# Where cargo puts it, below its target folder.
_BUILDS = ("x86_64-unknown-linux-gnu/release", "aarch64-unknown-linux-gnu/release", "dist", "release", "debug")


def worker() -> str:
    """The path of the worker executable.

    Raises :class:`qjam.RemoteWorkerError` where there is none, and says where it was looked for.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not _usable(Path(named)):
            raise _error(f"{VARIABLE} names {named}, which is not an executable file.")
        return named
    candidates = _candidates(Path(__file__).resolve().parent)
    for candidate in candidates:
        if _usable(candidate):
            return str(candidate)
    raise _error(
        "The worker executable `qjam` was not found. Looked for:\n"
        + "".join(f"    {candidate}\n" for candidate in candidates)
        + f"Install the package again with pip, or set {VARIABLE} to where the executable is."
    )


def _candidates(package: Path) -> List[Path]:
    """Where the executable may be for a package in this folder, most likely first."""
    installed = [folder / NAME for folder in _script_folders(package)]
    checkout = package.parents[1]
    if not (checkout / "crates" / "py" / "Cargo.toml").exists():
        return installed
    target = Path(checkout, os.environ.get("CARGO_TARGET_DIR") or "target")
    # The newest build is used, whether cargo or pip made it.
    both = [target / build / NAME for build in _BUILDS] + installed
    return sorted(both, key=lambda path: -path.stat().st_mtime if _usable(path) else 0)


def _script_folders(package: Path) -> List[Path]:
    """Folders for scripts: first that of the scheme of this installation, then the others."""
    schemes = sysconfig.get_scheme_names()
    folders = [sysconfig.get_path("scripts")]
    for scheme in (f"{os.name}_user", "posix_local", "posix_prefix"):
        if scheme in schemes:
            folders.append(sysconfig.get_path("scripts", scheme))
            if Path(sysconfig.get_path("platlib", scheme)).resolve() == package.parent:
                folders.insert(0, folders[-1])
    # `pip install --target` and `--prefix`, which follow no scheme of the interpreter.
    paths = [Path(folder) for folder in folders] + [package.parent / "bin"]
    paths += [package.parents[i] / "bin" for i in (3, 4) if len(package.parents) > i]
    # Each once, in this order.
    return list(dict.fromkeys(paths))


def _usable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _error(message: str) -> Exception:
    from qjam.errors import RemoteWorkerError

    return RemoteWorkerError(message)
