"""Estimators among scikit-learn's tools, and the workers that they share."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import joblib
import numpy as np
import pytest
from events import ctrl_c_when, some_rounds
from joblib.externals import loky
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qjam import Master, MasterClosed
from qjam.learn import KMeans, MiniBatchKMeans, _masters, close_workers

X, y = load_iris(return_X_y=True)


def opened(workers: Any) -> int:
    """How many chunks the workers of a master had to open or to be sent so far."""
    reports = [entry.text for entry in _masters.master_for(workers).journal if entry.kind == "report"]
    return sum(int(re.findall(r"(\d+) chunks opened", text)[0]) for text in reports)


def children() -> List[int]:
    """Workers that this process has started, but not the shell that watches over them. Threads that end meanwhile have none."""
    found = []
    for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [int(pid) for pid in listed.read_text().split()]
    return [pid for pid in found if b"qjam-watcher" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_pipeline_learns_on_distances_to_centres() -> None:
    pipeline = make_pipeline(StandardScaler(), KMeans(8, random_state=0), KNeighborsClassifier())
    assert pipeline.fit(X, y).score(X, y) > 0.9
    copied = clone(pipeline).set_params(kmeans__workers="local:1", kmeans__n_clusters=5)
    assert copied.fit(X, y)["kmeans"].cluster_centers_.shape == (5, 4)


def test_the_other_candidates_of_a_grid_search_send_no_data() -> None:
    close_workers("proc:2")
    rows = np.random.default_rng(0).normal(size=(3000, 8))
    grid = {"tol": [1e-4, 1e-3, 1e-2], "algorithm": ["auto", "lloyd"]}
    model = KMeans(2, random_state=0, max_iter=1, workers="proc:2")
    GridSearchCV(model, grid, cv=3, refit=False, error_score="raise").fit(rows)
    # The 2000 rows that a fold leaves are eight chunks of 250. As the folds overlap there are twelve of them, and each of two
    # processes has opened each once at most, for six candidates.
    assert 12 <= opened("proc:2") <= 2 * 12
    close_workers("proc:2")


def test_estimators_with_the_same_workers_share_them_and_learners_start_no_interpreters() -> None:
    close_workers()
    before = set(children())
    for model in (KMeans(3, workers="local:2"), MiniBatchKMeans(3, workers="local:2")):
        model.fit(X)
    assert _masters.master_for("local:2") is _masters.master_for("local:2")
    assert set(children()) == before, "threads are enough for native functions"
    KMeans(3, workers="proc:2").fit(X)
    assert len(set(children()) - before) == 2
    close_workers()
    assert set(children()) == before
    KMeans(3, workers="local:2").fit(X)  # starts them again


def test_jobs_in_other_processes_and_threads_give_the_same() -> None:
    grid = {"n_clusters": [2, 3]}
    scores = []
    for jobs, backend in ((1, "loky"), (2, "loky"), (2, "threading")):
        with joblib.parallel_backend(backend):
            search = GridSearchCV(KMeans(random_state=0), grid, cv=3, n_jobs=jobs).fit(X)
        scores.append(search.cv_results_["mean_test_score"].tolist())
    assert scores[0] == scores[1] == scores[2]
    loky.get_reusable_executor().shutdown(wait=True)


def test_a_forked_process_has_workers_of_its_own() -> None:
    model = KMeans(3, random_state=0).fit(X)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = KMeans(3, random_state=0).fit(X).cluster_centers_.tobytes()
        os.write(write, answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == model.cluster_centers_.tobytes()
    assert os.waitpid(pid, 0)[1] == 0


def test_a_pickle_needs_no_workers_where_it_is_used() -> None:
    model = KMeans(3, random_state=0, workers="local:1").fit(X).set_params(workers="nobody@host.invalid")
    program = "import pickle, sys; X = pickle.load(sys.stdin.buffer); print(pickle.load(sys.stdin.buffer).predict(X).sum())"
    data = pickle.dumps(X) + pickle.dumps(model)
    found = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    assert int(found.stdout) == model.labels_.sum()


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_ctrl_c_ends_a_fit_and_the_workers_can_be_used_again(workers: str) -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 32))
    # Some hundred thousand iterations of a few milliseconds.
    model = KMeans(64, workers=workers, random_state=0, tol=0, n_init=10_000, init="random")
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(some_rounds(workers)):
        model.fit(rows)
    assert len(KMeans(3, workers=workers, random_state=0).fit(X).labels_) == len(X)


def test_a_master_may_be_the_workers_of_estimators_and_of_their_clones() -> None:
    wanted = KMeans(3, random_state=0, workers="local:2").fit(X).cluster_centers_
    with Master("proc:2", progress=False) as m:
        model = KMeans(3, random_state=0, workers=m)
        assert model.fit(X).cluster_centers_.tobytes() == wanted.tobytes()
        copy = clone(model)
        assert copy.workers is m and copy.fit(X).cluster_centers_.tobytes() == wanted.tobytes()
        assert any(entry.kind == "report" for entry in m.journal)
        close_workers(m)
        assert m.closed
        with pytest.raises(MasterClosed):
            copy.fit(X)
