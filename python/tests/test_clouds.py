"""Workers that share a bucket of a cloud. `cargo xtask test --only python-clouds` starts the servers that stand for clouds."""

from __future__ import annotations

from pathlib import Path

import containers
import numpy as np
import pytest
from test_store import Bucket, moments

import qjam


@pytest.mark.parametrize("kind", ["azure", "s3"])
def test_functions_and_learners_have_the_bits_of_threads_in_a_cloud(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qjam.learn import KMeans, close_workers

    containers.make(f"{kind}://qjam-python")
    bucket = Bucket(tmp_path, f"{kind}://qjam-python/{kind}-tests")
    monkeypatch.setenv("QJAM_STORE_KEY", str(bucket.key))
    monkeypatch.setenv("QJAM_RUNS", "off")
    x = np.sin(np.arange(900.0) * 0.37).reshape(300, 3) * 1e3
    with qjam.Master("local:2", progress=False) as m:
        wanted = m.run(moments, 2.5, x)
    centres = KMeans(3, random_state=1, workers="local:2").fit(x).cluster_centers_
    with bucket.served(2):
        with qjam.Master(bucket.workers, progress=False) as m:
            assert m.run(moments, 2.5, x).tobytes() == wanted.tobytes()
        found = KMeans(3, random_state=1, workers=bucket.workers).fit(x).cluster_centers_
        close_workers(bucket.workers)
    assert found.tobytes() == centres.tobytes()
