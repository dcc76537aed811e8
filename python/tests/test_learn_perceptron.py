"""Networks against scikit-learn's, and against themselves on other workers, in batches and from their files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import sklearn.neural_network as theirs
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qjam import _find
from qjam.learn import MLPClassifier, MLPRegressor

DIGITS = load_digits()
X, Y = DIGITS.data / 16.0, DIGITS.target


def at_parameters(ours: Any, other: Any) -> Any:
    """Ours, with its loss at the parameters of a network of scikit-learn's: a fit that may evaluate it once."""
    ours.coefs_, ours.intercepts_ = other.coefs_, other.intercepts_
    return ours


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_loss_and_probabilities_are_scikit_learns_at_the_same_parameters(activation: str, classes: int) -> None:
    rows, y = X[classes > Y], Y[classes > Y]
    shape: Dict[str, Any] = {"hidden_layer_sizes": (20, 10), "activation": activation, "alpha": 0.3, "random_state": 1}
    other = theirs.MLPClassifier(**shape, max_iter=5).fit(rows, y)
    ours = MLPClassifier(**shape, solver="lbfgs", max_fun=1, warm_start=True).fit(rows, y)
    at_parameters(ours, other).fit(rows, y)
    squares = sum(float((w * w).sum()) for w in other.coefs_)
    expected = log_loss(y, other.predict_proba(rows)) + 0.5 * 0.3 * squares / len(y)
    assert abs(ours.loss_ - expected) < 1e-10
    assert np.abs(ours.predict_proba(rows) - other.predict_proba(rows)).max() < 1e-12
    assert (ours.predict(rows) == other.predict(rows)).all()
    assert (ours.out_activation_, ours.n_layers_, ours.n_outputs_) == (
        other.out_activation_,
        other.n_layers_,
        other.n_outputs_,
    )


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_losses_of_numbers_are_scikit_learns_at_the_same_parameters(loss: str) -> None:
    y = DIGITS.target.astype(float)
    shape: Dict[str, Any] = {"hidden_layer_sizes": (15,), "alpha": 0.2, "random_state": 1}
    try:
        other = theirs.MLPRegressor(loss, **shape, max_iter=5).fit(X, y)
    except TypeError:
        # Before 1.7 there was one loss.
        other = theirs.MLPRegressor(**shape, max_iter=5).fit(X, y)
    ours = MLPRegressor(loss, **shape, solver="lbfgs", max_fun=1, warm_start=True).fit(X, y)
    at_parameters(ours, other).fit(X, y)
    sums = np.maximum(X @ other.coefs_[0] + other.intercepts_[0], 0) @ other.coefs_[1] + other.intercepts_[1]
    sums = sums.ravel()
    with np.errstate(all="ignore"):
        logs = np.where(y > 0, y * (np.log(y) - sums), 0.0)
    mean = np.mean(logs - y + np.exp(sums)) if loss == "poisson" else 0.5 * np.mean((y - sums) ** 2)
    squares = sum(float((w * w).sum()) for w in other.coefs_)
    assert abs(ours.loss_ - (mean + 0.5 * 0.2 * squares / len(y))) < 1e-10 * max(1.0, mean)
    expected = np.exp(sums) if loss == "poisson" else sums
    assert np.allclose(ours.predict(X), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "adam", "max_iter": 60},
        {"solver": "sgd", "learning_rate_init": 0.1, "max_iter": 60},
        {"solver": "lbfgs", "max_iter": 100},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_digits_are_told_apart_as_well_as_scikit_learn_does(options: Dict[str, Any]) -> None:
    train, test, y_train, y_test = train_test_split(X, Y, test_size=0.3, random_state=0)
    ours = MLPClassifier((64,), random_state=0, **options).fit(train, y_train).score(test, y_test)
    other = theirs.MLPClassifier((64,), random_state=0, **options).fit(train, y_train).score(test, y_test)
    assert ours > 0.95 and ours > other - 0.015, (ours, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_are_predicted_as_well_as_scikit_learn_does() -> None:
    rows, y = load_diabetes(return_X_y=True)
    rows, y = StandardScaler().fit_transform(rows), (y - y.mean()) / y.std()
    options: Dict[str, Any] = {"hidden_layer_sizes": (30,), "max_iter": 300, "random_state": 0}
    ours, other = MLPRegressor(**options).fit(rows, y), theirs.MLPRegressor(**options).fit(rows, y)
    assert ours.score(rows, y) > other.score(rows, y) - 0.05
    both = MLPRegressor(**options).fit(rows, np.column_stack((y, -y)))
    assert both.predict(rows[:5]).shape == (5, 2) and both.n_outputs_ == 2


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "adam", "early_stopping": True},
        {"solver": "sgd", "learning_rate": "adaptive"},
        {"solver": "sgd", "learning_rate": "invscaling", "shuffle": False},
        {"solver": "lbfgs"},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bits_are_the_same_on_all_workers(options: Dict[str, Any]) -> None:
    found: List[Any] = []
    for workers in [None, "local:1", "local:3", "proc:2"]:
        model = MLPClassifier((12, 7), max_iter=4, random_state=3, batch_size=150, workers=workers, **options)
        model.fit(X, Y)
        found.append((model.loss_, [part.tobytes() for part in (*model.coefs_, *model.intercepts_)]))
    assert all(one == found[0] for one in found)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_every_kind_are_learnt_from() -> None:
    dense = MLPClassifier((10,), max_iter=8, random_state=0).fit(X, Y)
    single = MLPClassifier((10,), max_iter=8, random_state=0).fit(X.astype(np.float32), Y)
    thin = MLPClassifier((10,), max_iter=8, random_state=0).fit(sparse.csr_matrix(X), Y)
    assert np.abs(dense.predict_proba(X) - thin.predict_proba(sparse.csr_matrix(X))).max() < 1e-8
    assert np.abs(dense.predict_proba(X) - single.predict_proba(X.astype(np.float32))).max() < 1e-2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_epochs_leave_what_scikit_learns_leave() -> None:
    model = MLPClassifier((10,), max_iter=5, random_state=0).fit(X, Y)
    assert len(model.loss_curve_) == model.n_iter_ == 5 and model.t_ == 5 * len(X)
    assert model.loss_curve_[-1] == model.loss_ < model.loss_curve_[0]
    assert model.best_loss_ == min(model.loss_curve_) and model.validation_scores_ is None
    early = MLPClassifier((10,), max_iter=30, early_stopping=True, n_iter_no_change=2, tol=0.01, random_state=0)
    early.fit(X, Y)
    scores = early.validation_scores_
    assert scores is not None and early.best_validation_score_ == max(scores) and len(scores) == early.n_iter_
    assert early.best_loss_ is None and early.t_ == early.n_iter_ * (len(X) - 179)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_batches_go_on_where_the_last_one_ended() -> None:
    model = MLPClassifier((20,), random_state=0, learning_rate_init=0.01)
    for _ in range(6):
        for part in np.array_split(np.arange(len(X)), 3):
            model.partial_fit(X[part], Y[part], classes=np.arange(10))
    assert len(model.loss_curve_) == 18 and model.t_ == 6 * len(X) and model.score(X, Y) > 0.9
    whole = MLPClassifier((20,), max_iter=3, warm_start=True, random_state=0).fit(X, Y)
    first = whole.loss_
    whole.fit(X, Y)
    assert whole.loss_ < first and len(whole.loss_curve_) == 6
    # As scikit-learn's: epochs of this call, rows of all.
    assert whole.n_iter_ == 3 and whole.t_ == 6 * len(X)
    assert whole.partial_fit(X, Y).n_iter_ == 1 and whole.t_ == 7 * len(X)
    with pytest.raises(ValueError, match="warm_start can only be used"):
        whole.fit(X, Y > 3)
    with pytest.raises(ValueError, match="does not support early_stopping"):
        MLPClassifier(early_stopping=True).partial_fit(X, Y, classes=np.arange(10))
    assert not hasattr(MLPClassifier(solver="lbfgs"), "partial_fit")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_network_is_the_same_from_its_file_and_for_the_command(tmp_path: Path) -> None:
    names = np.array([f"digit {digit}" for digit in Y])
    model = MLPClassifier((12,), activation="tanh", max_iter=5, random_state=0).fit(X, names)
    path, rows, out = tmp_path / "digits.model", tmp_path / "rows.npy", tmp_path / "chances.npy"
    model.save(path)
    again = MLPClassifier.load(path)
    assert again.classes_.tolist() == model.classes_.tolist() and again.hidden_layer_sizes == (12,)
    assert (again.predict_proba(X) == model.predict_proba(X)).all() and again.activation == "tanh"
    np.save(rows, X)
    command = [_find.worker(), "predict", str(path), str(rows), "--probabilities", "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    assert (np.load(out) == model.predict_proba(X)).all()
    counts = MLPRegressor("poisson", (5,), max_iter=3, random_state=0).fit(X, Y)
    counts.n_iter_no_change = np.inf
    counts.save(path)
    assert MLPRegressor.load(path).n_iter_no_change == np.inf
    assert (MLPRegressor.load(path).predict(X) == counts.predict(X)).all()
    with pytest.raises(ValueError, match="kind mlp-regressor"):
        MLPClassifier.load(path)


def test_wrong_input_is_told_by_name() -> None:
    bad = X.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        MLPClassifier(max_iter=2).fit(bad, Y)
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        MLPClassifier(max_iter=2).fit(X, np.zeros(len(X)))
    model = MLPClassifier((4,), solver="lbfgs", max_iter=3, tol=100.0).fit(X, Y)
    with pytest.raises(ValueError, match="X has 60 features, but MLPClassifier is expecting 64 features"):
        model.predict(X[:, :60])
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        model.predict(bad)
    with pytest.raises(ValueError, match="non-finite parameter weights"):
        MLPRegressor(solver="sgd", learning_rate_init=1e6, max_iter=50).fit(X * 1e3, Y * 1e6)
    with pytest.raises(ValueError, match="hidden_layer_sizes must be > 0"):
        MLPClassifier((5, 0)).fit(X, Y)
    with pytest.raises(ValueError, match="beta_1 is 1; give a number"):
        MLPClassifier(beta_1=1.0).fit(X, Y)
    with pytest.raises(ValueError, match=r"the target of row 0 \(counted from 0\) is -1"):
        MLPRegressor("poisson").fit(X, -np.ones(len(X)))
    with pytest.raises(ValueError, match="validation set is too small"):
        MLPClassifier(early_stopping=True).fit(X[:9], Y[:9])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_count_as_repetitions_do() -> None:
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    options: Dict[str, Any] = {"hidden_layer_sizes": (6,), "solver": "lbfgs", "max_iter": 20, "random_state": 0}
    weighted = MLPClassifier(**options).fit(X, Y, sample_weight=weights)
    repeated = MLPClassifier(**options).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    assert abs(weighted.loss_ - repeated.loss_) < 1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_goes_into_pipelines() -> None:
    model = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=20, learning_rate_init=0.01, random_state=0)).fit(X, Y)
    assert model.score(X, Y) > 0.95
