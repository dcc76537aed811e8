"""Naive Bayes of counts against scikit-learn's, and against itself on other workers, from batches and from files."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import pytest
import sklearn.naive_bayes as theirs_of
from scipy import sparse

from qjam import _find
from qjam.learn import BernoulliNB, ComplementNB, MultinomialNB

KINDS = [MultinomialNB, BernoulliNB, ComplementNB]
ATTRIBUTES = ("feature_count_", "feature_log_prob_", "class_count_", "class_log_prior_")
QUESTIONS = ("predict_proba", "predict_log_proba", "predict_joint_log_proba")


def words(rows: int = 600, seed: int = 0) -> Tuple[Any, Any, Any]:
    """Rows like counts of words: mostly zeros, a few columns that are never there; four classes of very different sizes."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, rows, p=[0.6, 0.25, 0.1, 0.05])
    rates = rng.gamma(0.3, 1.0, (4, 80))
    X = rng.poisson(rates[y]).astype(float)
    X[:, [0, 41]] = 0.0
    return X, y, rng.uniform(0, 3, rows)


def theirs(kind: Any, **options: Any) -> Any:
    return getattr(theirs_of, kind.__name__)(**options)


def equal(ours: Any, other: Any, X: Any) -> None:
    for name in ATTRIBUTES:
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=1e-12, atol=1e-12, err_msg=name)
    assert (ours.classes_ == other.classes_).all()
    assert (ours.predict(X) == other.predict(X)).all()
    for question in QUESTIONS:
        expected = getattr(other, question)(X)
        np.testing.assert_allclose(getattr(ours, question)(X), expected, rtol=1e-9, atol=1e-11, err_msg=question)


OPTIONS: Dict[Any, Any] = {
    MultinomialNB: [{}, {"alpha": 0.1, "fit_prior": False}, {"class_prior": [0.1, 0.2, 0.3, 0.4]}],
    BernoulliNB: [{}, {"binarize": 1.5}, {"alpha": 0.5, "fit_prior": False}],
    ComplementNB: [{}, {"norm": True}, {"alpha": 1e-3}],
}


@pytest.mark.parametrize(("kind", "options"), [(kind, options) for kind in KINDS for options in OPTIONS[kind]])
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_everything_is_scikit_learns(kind: Any, options: Any, stored: Any, number: Any) -> None:
    X, y, weights = words()
    X = stored(X.astype(number))
    for weight in (None, weights):
        equal(kind(**options).fit(X, y, weight), theirs(kind, **options).fit(X, y, weight), X)


@pytest.mark.parametrize("kind", KINDS)
def test_smoothing_by_column_is_scikit_learns(kind: Any) -> None:
    X, y, _ = words()
    alpha = np.linspace(0.01, 2, X.shape[1])
    ours = kind(alpha=alpha).fit(X, y)
    if kind is BernoulliNB:
        # Scikit-learn's own cannot do that: its classes and columns do not fit together.
        logs = np.log(ours.feature_count_ + alpha) - np.log(ours.class_count_[:, None] + 2 * alpha)
        np.testing.assert_allclose(ours.feature_log_prob_, logs, rtol=1e-12)
    else:
        equal(ours, theirs(kind, alpha=alpha).fit(X, y), X)
    with pytest.warns(UserWarning, match="alpha too small"):
        kind(alpha=0.0, force_alpha=False).fit(X, y)
    with pytest.raises(ValueError, match="alpha has 2 numbers for 80 columns"):
        kind(alpha=[1.0, 2.0]).fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_scikit_learns_and_as_good_as_all_rows(kind: Any) -> None:
    X, y, weights = words()
    ours, other = kind(), theirs(kind)
    for part in np.array_split(np.arange(len(X)), 5):
        for model in (ours, other):
            model.partial_fit(X[part], y[part], classes=np.arange(4), sample_weight=weights[part])
    equal(ours, other, X)
    np.testing.assert_allclose(ours.feature_log_prob_, kind().fit(X, y, weights).feature_log_prob_, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_one_result_on_all_workers(kind: Any, stored: Any) -> None:
    X, y, weights = words(2500)
    X = stored(X)
    models = [kind(workers=workers).fit(X, y, weights) for workers in ("local:1", "local:2", "local:5", "proc:2")]
    for model in models[1:]:
        for name in ATTRIBUTES:
            assert np.array_equal(getattr(model, name), getattr(models[0], name)), (model, name)
        for question in QUESTIONS:
            assert np.array_equal(getattr(model, question)(X), getattr(models[0], question)(X)), (model, question)


def test_names_of_classes_are_kept_and_one_class_is_enough() -> None:
    X, y, _ = words(200)
    names = np.array(["a", "b", "c", "d"])[y]
    for kind in KINDS:
        equal(kind().fit(X, names), theirs(kind).fit(X, names), X)
        one = kind().fit(X, np.full(len(X), 7))
        assert (one.predict(X) == 7).all()
        np.testing.assert_allclose(one.predict_proba(X), 1.0)


def test_rows_that_are_binary_already_stay_as_they_are() -> None:
    X, y, _ = words()
    X = (X > 0).astype(float)
    equal(BernoulliNB(binarize=None).fit(X, y), theirs(BernoulliNB, binarize=None).fit(X, y), X)
    half = BernoulliNB(binarize=None).fit(X / 2, y)
    np.testing.assert_allclose(half.feature_count_, theirs(BernoulliNB, binarize=None).fit(X / 2, y).feature_count_)


def test_what_cannot_be_learnt_from_is_refused() -> None:
    X, y, weights = words(50)
    for kind in (MultinomialNB, ComplementNB):
        bad = X.copy()
        bad[7, 3] = -2.0
        with pytest.raises(ValueError, match=r"Negative values.*row 7, column 3 \(counted from 0\) is -2"):
            kind().fit(bad, y)
        with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is -2"):
            kind().fit(sparse.csr_matrix(bad), y)
    for kind in KINDS:
        bad = X.copy()
        bad[9, 1] = np.nan
        with pytest.raises(ValueError, match=r"row 9, column 1 \(counted from 0\) is NaN"):
            kind().fit(bad, y)
        with pytest.raises(ValueError, match=r"row 9, column 1 \(counted from 0\) is NaN"):
            kind().fit(X, y).predict(bad)
        with pytest.raises(ValueError, match="number of priors must match"):
            kind(class_prior=[0.5, 0.5]).fit(X, y)
        with pytest.raises(ValueError, match="not negative"):
            kind(alpha=-1.0).fit(X, y)
        with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 80"):
            kind().fit(X, y).predict(X[:, :2])
        with pytest.raises(ValueError, match="do not exist in the initial classes"):
            kind().partial_fit(X, y, classes=[0])
    with pytest.raises(ValueError, match="zeros would be ones"):
        BernoulliNB(binarize=-1.0).fit(sparse.csr_matrix(X), y)


@pytest.mark.parametrize("kind", KINDS)
def test_models_come_back_from_files_and_pickles(kind: Any, tmp_path: Path) -> None:
    X, y, _ = words(300)
    options: Any = {"binarize": None} if kind is BernoulliNB else {"alpha": 0.25}
    for classes in (y, np.array(["a", "b", "c", "d"])[y]):
        model = kind(**options).fit(X > 0 if kind is BernoulliNB else X, classes)
        model.save(tmp_path / "words.model")
        again = kind.load(tmp_path / "words.model")
        assert again.get_params() == model.get_params() and again.n_features_in_ == 80
        for copy in (again, pickle.loads(pickle.dumps(model))):
            assert (copy.predict(X) == model.predict(X)).all()
            assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
        more = again.partial_fit(X > 0 if kind is BernoulliNB else X, classes)
        assert np.array_equal(more.feature_count_, 2 * model.feature_count_)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_fits_the_same_model(kind: Any, tmp_path: Path) -> None:
    X, y, _ = words(300)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y.astype(float))
    qjam = _find.worker()
    data, model = str(tmp_path / "x.npy"), str(tmp_path / "nb.model")
    fit = [qjam, "fit", kind._learner, data, "--labels", str(tmp_path / "y.npy"), "--out", model]
    subprocess.run(fit, check=True, capture_output=True)
    ours = kind().fit(X, y)
    assert np.array_equal(kind.load(model).feature_log_prob_, ours.feature_log_prob_)
    said = subprocess.run([qjam, "predict", model, data], check=True, capture_output=True, text=True).stdout
    assert np.array_equal(np.array(said.split(), float), ours.predict(X))
    # Files are read chunk by chunk: the same model without an array in memory.
    assert np.array_equal(kind().fit(data, y).feature_log_prob_, ours.feature_log_prob_)
