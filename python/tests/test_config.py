"""Names of clusters, which the user's configuration file has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qjam import Master
from qjam.errors import WorkerStringError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    path = tmp_path / "config.toml"
    path.write_text('[clusters]\npair = "proc:1, local:1"\n')
    path.chmod(0o600)
    monkeypatch.setenv("QJAM_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def total(rows: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", workers: str) -> float:
    with Master(workers, progress=False) as m:
        return float(m.run(lambda _, rows: rows.sum(), None, rows))


def test_a_name_of_a_cluster_stands_for_its_workers(config: Path) -> None:
    rows = np.arange(60.0).reshape(20, 3)
    with Master("pair", progress=False) as m:
        assert len(m.workers) == 2
    assert total(rows, "pair") == total(rows, "auto:pair") == rows.sum()


def test_a_wrong_file_is_told_with_its_line_and_only_if_it_is_needed(config: Path) -> None:
    config.write_text("\nworker = 'proc:2'\n")
    with pytest.raises(WorkerStringError, match="line 2: there is no key `worker`"):
        Master("pair")
    with Master("local:1", progress=False) as m:
        assert len(m.workers) == 1
    config.chmod(0o666)
    with pytest.raises(WorkerStringError, match="others can write to"):
        Master("pair")
