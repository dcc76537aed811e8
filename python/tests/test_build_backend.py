"""The build backend says what is missing, and packs what is needed and nothing that a build has left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BACKEND = Path(__file__).resolve().parents[1] / "build_backend"


def hook(call: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What an installer gets to see when it calls the backend."""
    program = f"import sys; sys.path.insert(0, {str(BACKEND)!r}); import qjam_build; {call}"
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


def test_without_cargo_it_says_what_to_do(tmp_path: Path) -> None:
    for call in ("get_requires_for_build_wheel()", "get_requires_for_build_editable()", "get_requires_for_build_sdist()"):
        done = hook(f"qjam_build.{call}", PATH=str(tmp_path))
        assert done.returncode == 1
        assert "cargo, which builds that part, was not found" in done.stderr
        assert "Install Rust" in done.stderr


def test_what_builds_leave_is_not_packed() -> None:
    names = ["python/qjam/_vendor/x.py", "python/qjam/_native.abi3.so", "python/qjam.data/scripts/qjam"]
    names += ["crates/py/target/x", "python/qjam/__pycache__/x.pyc", "python/qjam/_native.pyi", "crates/py/src/lib.rs"]
    done = hook(
        "import tarfile; "
        f"print([name for name in {names} if qjam_build._source_only(tarfile.TarInfo('qjam-1/' + name))])"
    )
    assert done.stdout.strip() == "['python/qjam/_native.pyi', 'crates/py/src/lib.rs']", done.stderr


def test_packed_files_belong_to_nobody() -> None:
    done = hook(
        "import tarfile; t = tarfile.TarInfo('qjam-1/Cargo.toml'); t.uid = 1000; t.uname = 'me'; "
        "t = qjam_build._source_only(t); print(t.uid, repr(t.uname))"
    )
    assert done.stdout.strip() == "0 ''", done.stderr


def test_all_that_is_to_be_packed_is_there() -> None:
    done = hook("print([s for s in qjam_build.SOURCES if not (qjam_build.ROOT / s).exists()])")
    assert done.stdout.strip() == "[]", done.stderr
