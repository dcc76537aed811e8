"""K-means in Python: what it computes, on which workers, and what it says to wrong input."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any, List

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn.cluster
import sklearn.datasets
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

import qjam
import qjam.dataset
from qjam.learn import KMeans, MiniBatchKMeans, SparseAutoencoder


def blobs(rows: int = 2000, cols: int = 12, k: int = 9, seed: int = 3, kind: Any = np.float64) -> Any:
    random = np.random.default_rng(seed)
    middles = random.normal(0, 6, (k, cols))
    return (middles[random.integers(0, k, rows)] + random.normal(0, 1, (rows, cols))).astype(kind)


def same_bits(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("learner", [KMeans, MiniBatchKMeans])
def test_centres_and_labels_have_the_same_bits_on_all_workers(kind: Any, learner: Any) -> None:
    X = blobs(kind=kind)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    for given in (None, weights):
        fits = [
            learner(9, random_state=5, workers=workers).fit(X, sample_weight=given)
            for workers in ("local:1", "local:3", "proc:2", None)
        ]
        assert fits[0].cluster_centers_.dtype == kind and fits[0].labels_.dtype == np.int32
        for fit in fits[1:]:
            assert same_bits(fit.cluster_centers_, fits[0].cluster_centers_)
            assert same_bits(fit.labels_, fits[0].labels_)
            assert (fit.inertia_, fit.n_iter_) == (fits[0].inertia_, fits[0].n_iter_)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_from_the_same_start_it_is_scikit_learns(kind: Any) -> None:
    data = [(blobs(kind=kind), 9), (load_digits().data.astype(kind), 10), (load_iris().data.astype(kind), 3)]
    for X, k in data:
        # Beside the rows: numbers of pixels are whole, and equally far rows may go to either centre.
        start = X[:: len(X) // k][:k] + np.random.default_rng(0).uniform(0, 0.1, (k, X.shape[1])).astype(kind)
        weights = np.random.default_rng(1).integers(1, 4, len(X))
        for given in (None, weights):
            ours = KMeans(k, init=start, tol=0).fit(X, sample_weight=given)
            theirs = sklearn.cluster.KMeans(k, init=start, n_init=1, tol=0).fit(X, sample_weight=given)
            assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
            assert np.mean(ours.labels_ == theirs.labels_) > 0.999
            assert np.allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-3, atol=1e-3)
            assert np.allclose(ours.transform(X[:50]), theirs.transform(X[:50]), rtol=1e-2, atol=1e-2)
            assert ours.score(X, sample_weight=given) == pytest.approx(-ours.inertia_, rel=1e-9)
            assert (ours.predict(X) == ours.labels_).all()


def test_a_sparse_matrix_gives_the_bits_of_the_dense_one() -> None:
    X = blobs(600, 20, 5)
    X[np.abs(X) < 4] = 0
    weights = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    for make in (sp.csr_matrix, sp.csc_array, sp.coo_matrix):
        for given in (None, weights):
            dense = KMeans(5, random_state=0).fit(X, sample_weight=given)
            sparse = KMeans(5, random_state=0).fit(make(X), sample_weight=given)
            assert same_bits(sparse.cluster_centers_, dense.cluster_centers_)
            assert same_bits(sparse.labels_, dense.labels_)
            assert same_bits(sparse.predict(make(X)), dense.predict(X))
            assert np.allclose(sparse.transform(make(X)), dense.transform(X))
            assert sparse.score(make(X), sample_weight=given) == pytest.approx(-dense.inertia_)
    unsorted = sp.csr_matrix((np.array([2.0, 1.0, 1.5]), np.array([3, 0, 0]), np.array([0, 3, 3])), (2, 4))
    assert KMeans(1, random_state=0).fit(unsorted).cluster_centers_.tolist() == [[1.25, 0.0, 0.0, 1.0]]


@pytest.mark.parametrize("learner", [KMeans, MiniBatchKMeans])
def test_answers_about_little_data_are_those_of_rounds(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = blobs()
    model = learner(9, random_state=5).fit(X)
    here = model.predict(X), model.transform(X)
    monkeypatch.setattr("qjam.learn._centres._SMALL_WORK", 0)
    assert same_bits(here[0], model.predict(X)) and same_bits(here[1], model.transform(X))


def test_a_row_of_weight_two_is_the_row_twice_and_one_of_weight_zero_is_none() -> None:
    X = blobs(300, 3, 4)
    weights = np.arange(300) % 3
    weighted = KMeans(4, random_state=0).fit(X, sample_weight=weights)
    repeated = KMeans(4, random_state=0).fit(np.repeat(X, weights, axis=0))
    assert np.allclose(weighted.cluster_centers_, repeated.cluster_centers_)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)


def test_whatever_holds_the_rows_the_result_is_the_same(tmp_path: Path) -> None:
    X = blobs(400, 4, 3)
    names = ["a", "b", "c", "d"]
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", X.dtype, X.shape)
    mapped[:] = X
    frame, table = pd.DataFrame(X, columns=names), pa.table({name: X[:, n] for n, name in enumerate(names)})
    model = KMeans(3, random_state=0).fit(X)
    for held in (np.asfortranarray(X), X.tolist(), frame, table, table.to_batches()[0], mapped, qjam.DataSet(X)):
        other = KMeans(3, random_state=0).fit(held)
        assert same_bits(other.cluster_centers_, model.cluster_centers_), type(held)
        assert (other.predict(held) == model.labels_).all()
        assert other.n_features_in_ == 4
    for held in (frame, table):
        named = KMeans(3, random_state=0).fit(held)
        assert named.feature_names_in_.tolist() == names
        named.predict(held)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(table.rename_columns(["a", "b", "c", "e"]))
    assert named.get_feature_names_out().tolist() == ["kmeans0", "kmeans1", "kmeans2"]
    assert list(named.set_output(transform="pandas").transform(frame).columns) == ["kmeans0", "kmeans1", "kmeans2"]


def test_files_of_all_kinds_are_read_where_rows_are_wanted(tmp_path: Path) -> None:
    X = blobs(500, 4, 3).round(3)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    np.save(tmp_path / "x.npy", X)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    expected = KMeans(3, random_state=0).fit(X)
    for file in ("x.npy", "x.csv", "x.parquet"):
        model = KMeans(3, random_state=0, workers="proc:2").fit(tmp_path / file)
        assert same_bits(model.cluster_centers_, expected.cluster_centers_), file
        assert (model.predict(os.fspath(tmp_path / file)) == expected.labels_).all()
        if file != "x.npy":
            assert model.feature_names_in_.tolist() == names
    sklearn.datasets.dump_svmlight_file(X, np.zeros(len(X)), os.fspath(tmp_path / "x.svm"), zero_based=False)
    sparse = KMeans(3, random_state=0).fit(qjam.dataset.FileDataSet(tmp_path / "x.svm", kind="libsvm", dtype="float64"))
    assert np.allclose(sparse.cluster_centers_, expected.cluster_centers_)
    with pytest.raises(ValueError, match="X has 4 features, but KMeans is expecting 3"):
        KMeans(2, random_state=0).fit(X[:, :3]).predict(tmp_path / "x.csv")
    with pytest.raises(FileNotFoundError):
        KMeans(2).fit(tmp_path / "none.csv")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match="line 3"):
        KMeans(1).fit(tmp_path / "ragged.csv")


def test_rows_are_not_copied_by_the_package_and_not_written_to() -> None:
    X = blobs()
    X.flags.writeable = False
    before = X.copy()
    KMeans(3, random_state=0).fit(X).predict(X)
    assert (X == before).all()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_is_named_by_row_and_column(make: Any, bad: float) -> None:
    X = blobs(3000, 4, 3)
    model = KMeans(3, random_state=0).fit(make(X))
    X[1234, 2] = bad
    word = "NaN" if np.isnan(bad) else "inf"
    for ask in (KMeans(3).fit, MiniBatchKMeans(3).fit, model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match=rf"row 1234, column 2 \(counted from 0\) is {word}"):
            ask(make(X))
    fit = KMeans(3, random_state=0, skip_bad_rows=True).fit(make(X))
    assert np.isfinite(fit.cluster_centers_).all() and fit.labels_[1234] == -1
    assert (np.delete(fit.labels_, 1234) >= 0).all()
    if make is np.asarray:
        with pytest.raises(ValueError, match="row 1234, column 2"):
            SparseAutoencoder(2).fit(X)


def test_wrong_calls_say_what_would_be_right() -> None:
    X = blobs(50, 4, 3)
    with pytest.raises(ValueError, match="n_samples=50 should be >= n_clusters=51"):
        KMeans(51).fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but KMeans is expecting 4"):
        KMeans(3, random_state=0).fit(X).predict(X[:, :3])
    wrong: List[Any] = [
        (dict(n_clusters=0), "n_clusters is 0; give a whole number from 1"),
        (dict(n_clusters=2.5), "n_clusters is 2.5; give a whole number"),
        (dict(max_iter=-1), "max_iter"),
        (dict(tol=-1.0), "tol is -1; give a finite number that is not negative"),
        (dict(init="kmeans"), "init"),
        (dict(algorithm="fast"), "algorithm is \"fast\"; give auto, lloyd or elkan"),
        (dict(n_init="often"), "n_init"),
        (dict(init=X[:2]), "2 first centres of 4 columns"),
        (dict(init=X[:3, :2]), "3 first centres of 2 columns"),
        (dict(random_state=-3), "Seed|seed"),
    ]
    for options, message in wrong:
        with pytest.raises((ValueError, TypeError), match=message):
            KMeans(**{"n_clusters": 3, **options}).fit(X)
    with pytest.raises(ValueError, match="weight of row 7"):
        KMeans(3).fit(X, sample_weight=np.where(np.arange(50) == 7, -1.0, 1.0))
    with pytest.raises(ValueError, match="at least one non-zero|all weights are 0"):
        KMeans(3).fit(X, sample_weight=np.zeros(50))
    with pytest.raises(qjam.WorkerStringError, match="proc:two"):
        KMeans(3, workers="proc:two").fit(X)
    with pytest.warns(RuntimeWarning, match="begins from them once"):
        KMeans(3, init=X[:3], n_init=4).fit(X)


def test_copies_of_one_row_make_one_cluster_and_a_warning() -> None:
    for init in ("k-means++", "parallel", "random"):
        with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(1\) found smaller than n_clusters \(3\)"):
            model = KMeans(3, init=init, random_state=0).fit(np.full((40, 2), 2.5))
        assert model.inertia_ == 0 and len(set(model.labels_)) == 1


def test_one_column_one_row_and_one_cluster_are_enough() -> None:
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    assert sorted(KMeans(2, random_state=0).fit(X).cluster_centers_.ravel()) == [0.5, 10.5]
    assert KMeans(1).fit([[1.0, 2.0]]).cluster_centers_.tolist() == [[1.0, 2.0]]


def test_starts_may_be_words_arrays_and_functions() -> None:
    X = blobs(500, 4, 3)

    def first(X: Any, n_clusters: int, random_state: Any) -> Any:
        return X[random_state.choice(len(X), n_clusters, replace=False)]

    for init in ("k-means++", "k-means||", "parallel", "random", X[:3], first):
        model = KMeans(3, init=init, random_state=np.random.RandomState(0)).fit(X)
        assert model.cluster_centers_.shape == (3, 4)
    same = [KMeans(3, init="random", random_state=4).fit(X).inertia_ for _ in range(2)]
    assert same[0] == same[1]
    lloyd, auto = (KMeans(3, algorithm=name, random_state=4).fit(X) for name in ("lloyd", "auto"))
    assert same_bits(lloyd.cluster_centers_, auto.cluster_centers_)


def test_batches_one_by_one_come_near_to_all_rows_at_once() -> None:
    X = blobs(4000, 5, 4)
    model = MiniBatchKMeans(4, random_state=0)
    for batch in np.array_split(X, 20):
        model.partial_fit(batch)
    assert model.n_steps_ == 20 and model.counts_.sum() == 4000
    assert -model.score(X) < 1.3 * KMeans(4, random_state=0).fit(X).inertia_
    before = model.cluster_centers_.copy()
    model.partial_fit(X[:2], sample_weight=[2.0, 0.0])  # fewer rows than clusters, once there are centres
    assert model.counts_.sum() == 4002 and not same_bits(before, model.cluster_centers_)
    with pytest.raises(ValueError, match="n_samples=2 should be >= n_clusters=4"):
        MiniBatchKMeans(4).partial_fit(X[:2])
    fit = MiniBatchKMeans(4, random_state=0, batch_size=200, max_iter=3, compute_labels=False).fit(X)
    assert not hasattr(fit, "labels_") and 0 < fit.n_iter_ <= 60
    fit.partial_fit(X[:100])
    assert fit.n_steps_ == fit.n_iter_ and fit.counts_.sum() > 100


def test_models_are_kept_in_files_and_pickles(tmp_path: Path) -> None:
    X = blobs(300, 3, 4, kind=np.float32)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for model in (KMeans(4, random_state=1, max_iter=50), MiniBatchKMeans(4, random_state=1)):
        model.fit(frame)
        again = pickle.loads(pickle.dumps(model))
        model.save(tmp_path / "m.model")
        loaded = type(model).load(tmp_path / "m.model", workers="local:1")
        for other in (again, loaded):
            assert same_bits(other.cluster_centers_, model.cluster_centers_)
            assert same_bits(other.predict(frame), model.predict(frame))
        assert loaded.get_params()["max_iter"] == model.max_iter and loaded.n_clusters == 4
        assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    path = os.fspath(tmp_path / "m.model")
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="m.model"):
        KMeans.load(path)
    with pytest.raises(FileNotFoundError):
        KMeans.load(tmp_path / "none.model")
    coder = SparseAutoencoder(2, max_evaluations=5, random_state=0).fit(X)
    coder.save(path)
    assert same_bits(SparseAutoencoder.load(path).transform(X), coder.transform(X))
    with pytest.raises(ValueError, match="autoencoder"):
        KMeans.load(path)


def test_the_autoencoder_has_the_same_bits_on_all_workers_and_reproduces_its_rows() -> None:
    random = np.random.default_rng(0)
    X = np.tanh(random.normal(0, 0.3, (1500, 3)) @ random.normal(0, 1, (3, 8))) * 0.8
    options: Any = dict(n_hidden=4, sparsity_weight=0.0, weight_decay=1e-5, max_evaluations=150, random_state=0)
    fits = [SparseAutoencoder(**options, workers=workers).fit(X) for workers in ("local:1", "local:3", "proc:2")]
    for fit in fits[1:]:
        assert same_bits(fit.components_, fits[0].components_) and fit.cost_ == fits[0].cost_
    fit = fits[0]
    assert -fit.score(X) < 0.2 * np.sum(X.var(axis=0))
    assert np.allclose(fit.inverse_transform(fit.transform(X)), fit.reconstruct(X), atol=1e-12)
    hidden = np.tanh(X @ fit.components_.T + fit.intercept_)
    assert np.allclose(fit.transform(X), hidden, atol=1e-12)
    with pytest.raises(ValueError, match="X has 7 features, but SparseAutoencoder is expecting 8"):
        fit.transform(X[:, :7])


def test_no_warning_comes_without_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KMeans(3, random_state=0).fit(blobs(200, 3, 3)).predict(blobs(200, 3, 3))


def test_centres_that_lose_all_rows_go_where_scikit_learns_go() -> None:
    X = blobs(1500, 6, 8)
    start = X[:8].copy()
    start[[2, 5]] += 1e3
    ours = KMeans(8, init=start, tol=0).fit(X)
    theirs = sklearn.cluster.KMeans(8, init=start, n_init=1, tol=0).fit(X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert len(set(ours.labels_)) == 8
    assert same_bits(KMeans(8, init=start, tol=0, workers="proc:2").fit(X).cluster_centers_, ours.cluster_centers_)
