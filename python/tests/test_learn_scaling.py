"""Scalers against scikit-learn's, against themselves on other workers, and in front of other learners in the command."""

from __future__ import annotations

import json
import pickle
import subprocess
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from scipy import sparse
from sklearn import preprocessing as theirs
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from qjam import _find
from qjam.learn import PCA, KMeans, LinearSVC, MaxAbsScaler, MinMaxScaler, StandardScaler


def rows(count: int = 900, seed: int = 0) -> Any:
    """Columns of very different sizes, far from 0 and near it, and one that is constant."""
    X = np.random.default_rng(seed).normal(size=(count, 6)) * [1.0, 1e-3, 1e4, 1.0, 5.0, 0.0]
    return X + [0.0, 7.0, -3e6, 1e4, 0.5, 3.0]


def thin(kind: str = "csr") -> Any:
    rng = np.random.default_rng(1)
    return sparse.csr_matrix(rng.normal(size=(500, 40)) * (rng.uniform(size=(500, 40)) < 0.1)).asformat(kind)


PAIRS: List[Any] = [
    (StandardScaler(), theirs.StandardScaler()),
    (StandardScaler(with_std=False), theirs.StandardScaler(with_std=False)),
    (StandardScaler(with_mean=False), theirs.StandardScaler(with_mean=False)),
    (MinMaxScaler(), theirs.MinMaxScaler()),
    (MinMaxScaler((-3, 5), clip=True), theirs.MinMaxScaler((-3, 5), clip=True)),
    (MaxAbsScaler(), theirs.MaxAbsScaler()),
]
ATTRIBUTES = ["mean_", "var_", "scale_", "min_", "data_min_", "data_max_", "data_range_", "max_abs_", "n_samples_seen_"]


def equal(ours: Any, other: Any, within: float = 1e-9) -> None:
    for name in ATTRIBUTES:
        if hasattr(other, name):
            expected, found = getattr(other, name), getattr(ours, name)
            assert (expected is None) == (found is None), name
            if expected is not None:
                np.testing.assert_allclose(found, expected, rtol=within, err_msg=name)


@pytest.mark.parametrize(("ours", "other"), PAIRS, ids=str)
def test_everything_is_scikit_learns(ours: Any, other: Any) -> None:
    X, new = rows(), rows(300, seed=9)
    equal(ours.fit(X), other.fit(X))
    np.testing.assert_allclose(ours.transform(new), other.transform(new), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, rtol=1e-12, atol=1e-12)
    assert list(ours.get_feature_names_out(list("abcdef"))) == list("abcdef")
    for number in (np.float32, np.float64):
        assert ours.fit_transform(X.astype(number)).dtype == number


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (StandardScaler(with_mean=False), theirs.StandardScaler(with_mean=False)),
        (MaxAbsScaler(), theirs.MaxAbsScaler()),
        (MaxAbsScaler(clip=True), theirs.MaxAbsScaler()),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_sparse_rows_are_scaled_and_stay_sparse(ours: Any, other: Any, kind: str) -> None:
    X = thin(kind)
    equal(ours.fit(X), other.fit(X))
    found = ours.transform(X)
    assert sparse.issparse(found) and found.nnz == X.nnz
    np.testing.assert_allclose(found.toarray(), other.transform(X).toarray(), rtol=1e-9)
    np.testing.assert_allclose(ours.inverse_transform(found).toarray(), X.toarray(), rtol=1e-12)


def test_batches_and_weights_are_scikit_learns() -> None:
    X = rows()
    for ours, other in ((StandardScaler(), theirs.StandardScaler()), (MinMaxScaler(), theirs.MinMaxScaler())):
        for batch in np.array_split(X, 7):
            ours.partial_fit(batch)
            other.partial_fit(batch)
        equal(ours, other, within=1e-6)
        equal(ours, type(ours)().fit(X), within=1e-6)
    weights = np.random.default_rng(4).integers(0, 4, len(X)).astype(float)
    ours = StandardScaler().fit(X, sample_weight=weights)
    equal(ours, StandardScaler().fit(np.repeat(X, weights.astype(int), axis=0)))
    equal(ours, theirs.StandardScaler().fit(X, sample_weight=weights), within=1e-6)


@pytest.mark.parametrize(("scaler", "_"), PAIRS, ids=str)
def test_one_result_on_all_workers_and_from_files(scaler: Any, _: Any, tmp_path: Path) -> None:
    X = rows(5000)
    models = [pickle.loads(pickle.dumps(scaler)).set_params(workers=w).fit(X) for w in ("local:1", "local:5", "proc:2")]
    expected = models[0].transform(X)
    for model in models[1:]:
        assert np.array_equal(model.transform(X), expected)
    models[0].save(tmp_path / "x.model")
    again = type(scaler).load(tmp_path / "x.model")
    assert {**again.get_params(), "workers": None, "copy": True} == {**scaler.get_params(), "workers": None}
    for copy in (again, pickle.loads(pickle.dumps(models[0]))):
        assert np.array_equal(copy.transform(X), expected)
    # Of a file, each chunk is scaled by the native part.
    np.save(tmp_path / "x.npy", X)
    from_file = type(scaler)(**{k: v for k, v in scaler.get_params().items()}).fit(tmp_path / "x.npy")
    assert np.array_equal(from_file.transform(tmp_path / "x.npy"), expected)


def test_variances_keep_their_digits_where_means_are_large() -> None:
    X = np.random.default_rng(3).normal(size=(5000, 2)) + [1e8, -1e6]
    exact = X.astype(np.longdouble)
    expected = ((exact - exact.mean(axis=0)) ** 2).mean(axis=0).astype(np.float64)
    np.testing.assert_allclose(StandardScaler().fit(X).var_, expected, rtol=1e-9)


def test_pipelines_scale_what_they_are_asked_about() -> None:
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), LinearSVC(C=0.01)).fit(X, y)
    assert model.score(X, y) > 0.95
    frame = make_pipeline(MinMaxScaler(), PCA(5)).set_output(transform="pandas").fit_transform(X)
    assert list(frame.columns) == [f"pca{n}" for n in range(5)]


def test_what_cannot_be_scaled_is_refused() -> None:
    X = rows(50)
    bad = X.copy()
    bad[7, 3] = np.nan
    for scaler in (StandardScaler(), MinMaxScaler(), MaxAbsScaler()):
        with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
            scaler.fit(bad)
        with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
            scaler.fit(X).transform(bad)
        with pytest.raises(ValueError, match="X has 2 features"):
            scaler.transform(X[:, :2])
        with pytest.raises(ValueError, match="X has 2 columns"):
            scaler.inverse_transform(X[:, :2])
    with pytest.raises(ValueError, match="Cannot center sparse matrices"):
        StandardScaler().fit(thin())
    with pytest.raises(ValueError, match="Cannot center sparse matrices"):
        StandardScaler().fit(thin().toarray()).transform(thin())
    with pytest.raises(TypeError, match="[Ss]parse"):
        MinMaxScaler().fit(thin())
    with pytest.raises(ValueError, match="Minimum of desired feature range"):
        MinMaxScaler((1, 1)).fit(X)
    with pytest.raises(ValueError, match="the weight of row 1"):
        StandardScaler().fit(X, sample_weight=[1.0, -1.0] + [1.0] * 48)


def qjam(*words: Any) -> Any:
    return subprocess.run([_find.worker(), *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flag", ["--standardize", "--minmax", "--standardise"])
def test_a_scaling_in_the_command_is_the_pipelines(flag: str, tmp_path: Path) -> None:
    X = rows(600)
    X[:300, 4] += 40.0
    np.save(tmp_path / "x.npy", X)
    fit = qjam("fit", "kmeans", tmp_path / "x.npy", "--k", 2, flag, "--out", tmp_path / "m", "--dtype", "f64", "--json")
    assert fit.returncode == 0, fit.stderr
    told = json.loads(fit.stdout)
    assert told["scaled_by"] == ("minmax" if flag == "--minmax" else "standard")
    scaler: Any = MinMaxScaler() if flag == "--minmax" else StandardScaler()
    model = make_pipeline(scaler, KMeans(2, n_init=1, random_state=0)).fit(X)
    predict = qjam("predict", tmp_path / "m", tmp_path / "x.npy", "--dtype", "f64", "--out", tmp_path / "labels.npy")
    assert predict.returncode == 0, predict.stderr
    assert np.array_equal(np.load(tmp_path / "labels.npy"), model.predict(X))
    transform = qjam("predict", tmp_path / "m", tmp_path / "x.npy", "--dtype", "f64", "--transform", "--out", tmp_path / "d.npy")
    assert transform.returncode == 0, transform.stderr
    assert np.array_equal(np.load(tmp_path / "d.npy"), model.transform(X))
    scores = qjam("evaluate", tmp_path / "m", tmp_path / "x.npy", "--json")
    assert scores.returncode == 0, scores.stderr
    # Distances are those between scaled rows.
    found = json.loads(scores.stdout)
    found = found.get("scores", found)
    np.testing.assert_allclose(found["inertia"], -model.score(X), rtol=1e-9)
    inspect = qjam("inspect", tmp_path / "m")
    assert "of kind scaled" in inspect.stdout and "of kmeans" in inspect.stdout
    with pytest.raises(ValueError, match="kind scaled"):
        KMeans.load(tmp_path / "m")


def test_cross_validation_scales_without_the_fold(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y.astype(float))
    words = ("fit", "lda", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--cv", 3, "--standardize")
    fit = qjam(*words, "--out", tmp_path / "m", "--json")
    assert fit.returncode == 0, fit.stderr
    assert json.loads(fit.stdout)["cv"]
    scores = qjam("evaluate", tmp_path / "m", tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    assert scores.returncode == 0 and "accuracy" in scores.stdout, scores.stderr


def test_wrong_calls_of_the_command_say_what_to_do(tmp_path: Path) -> None:
    X = rows(60)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "centres.npy", X[:2])
    out = ("--out", tmp_path / "m")
    both = qjam("fit", "pca", tmp_path / "x.npy", "--standardize", "--minmax", *out)
    assert both.returncode != 0 and "cannot be used with" in both.stderr
    centres = qjam("fit", "kmeans", tmp_path / "x.npy", "--k", 2, "--init", tmp_path / "centres.npy", "--standardize", *out)
    assert centres.returncode != 0 and "units of the data" in centres.stderr
    (tmp_path / "x.svm").write_text("1 1:2 3:1\n2 2:1\n")
    centred = qjam("fit", "standard-scaler", tmp_path / "x.svm", *out)
    assert centred.returncode != 0 and "--no-center" in centred.stderr
    assert qjam("fit", "standard-scaler", tmp_path / "x.svm", "--no-center", *out).returncode == 0
    twice = qjam("fit", "standard-scaler", tmp_path / "x.npy", "--standardize", *out)
    assert twice.returncode != 0 and "unexpected argument" in twice.stderr
    bad = X.copy()
    bad[3, 1] = np.inf
    np.save(tmp_path / "bad.npy", bad)
    refused = qjam("fit", "minmax-scaler", tmp_path / "bad.npy", *out)
    assert refused.returncode != 0 and "row 3, column 1" in refused.stderr and "--missing" in refused.stderr
