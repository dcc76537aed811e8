"""Signatures and documentation of the estimators against the table of options, which the command has as well."""

from __future__ import annotations

import inspect
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import qjam.learn
from qjam import _native
from qjam.learn import (
    PCA,
    BernoulliNB,
    ComplementNB,
    ElasticNet,
    FastICA,
    GaussianMixture,
    GaussianNB,
    KMeans,
    Lasso,
    LinearDiscriminantAnalysis,
    LinearSVC,
    LocallyWeightedRegression,
    LogisticRegression,
    MaxAbsScaler,
    MiniBatchKMeans,
    MinMaxScaler,
    MLPClassifier,
    MLPRegressor,
    MultinomialNB,
    QuadraticDiscriminantAnalysis,
    Ridge,
    SparseAutoencoder,
    StandardScaler,
    TruncatedSVD,
)

LEARNERS = [
    ("kmeans", KMeans),
    ("minibatch-kmeans", MiniBatchKMeans),
    ("autoencoder", SparseAutoencoder),
    ("ridge", Ridge),
    ("lasso", Lasso),
    ("elasticnet", ElasticNet),
    ("logistic", LogisticRegression),
    ("svm", LinearSVC),
    ("lwr", LocallyWeightedRegression),
    ("standard-scaler", StandardScaler),
    ("minmax-scaler", MinMaxScaler),
    ("maxabs-scaler", MaxAbsScaler),
    ("gaussian-nb", GaussianNB),
    ("multinomial-nb", MultinomialNB),
    ("bernoulli-nb", BernoulliNB),
    ("complement-nb", ComplementNB),
    ("lda", LinearDiscriminantAnalysis),
    ("qda", QuadraticDiscriminantAnalysis),
    ("pca", PCA),
    ("mlp-classifier", MLPClassifier),
    ("mlp-regressor", MLPRegressor),
    ("svd", TruncatedSVD),
    ("ica", FastICA),
    ("gaussian-mixture", GaussianMixture),
]
#: What only the classes have.
OWN = {"workers", "verbose", "copy", "copy_x", "copy_X", "compute_labels", "dual", "n_jobs", "warm_start"}
OWN |= {"tol", "power_iteration_normalizer", "covariance_estimator", "verbose_interval", "whiten_solver", "feature_range"}
#: What Python calls words and numbers of the table.
NONE = ["random_state", "class_weight", "priors", "class_prior", "n_components", "shrinkage"]
NONE += ["weights_init", "means_init", "precisions_init", "w_init", "fun_args"]
DEFAULTS: dict[str, Any] = dict.fromkeys(NONE) | {"hidden_layer_sizes": (100,)}


@pytest.mark.parametrize(("name", "cls"), LEARNERS)
def test_a_signature_has_the_options_of_the_table_with_their_defaults(name: str, cls: Any) -> None:
    table = _native.learner_options(name)
    assert table["class"] == cls.__name__
    options = {option["name"]: option for option in table["options"]}
    parameters = dict(inspect.signature(cls.__init__).parameters)
    del parameters["self"]
    assert set(parameters) - (OWN - set(options)) == set(options)
    for option in options.values():
        expected = option["default"]
        if expected == "none" or option["name"] in ("random_state", "hidden_layer_sizes"):
            expected = DEFAULTS.get(option["name"], expected)
        assert parameters[option["name"]].default == expected, option["name"]


@pytest.mark.parametrize(("name", "cls"), LEARNERS)
def test_documentation_says_what_the_table_says(name: str, cls: Any) -> None:
    text = cls.__doc__
    table = _native.learner_options(name)
    assert text.startswith(table["about"])
    for option in table["options"]:
        line = next(line for line in text.splitlines() if line.startswith(f":param {option['name']}:"))
        assert option["help"] in line
        for word, meaning in option["words"]:
            assert word in line and meaning in line
    for parameter in inspect.signature(cls.__init__).parameters:
        assert parameter == "self" or f":param {parameter}:" in text


def test_an_unknown_learner_has_no_table() -> None:
    with pytest.raises(ValueError, match="no learner"):
        _native.learner_options("magic")


def test_the_package_does_without_scikit_learn_until_it_is_asked_for_learners() -> None:
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import qjam; qjam.Master('inproc:1').close()\n"
        "try:\n    import qjam.learn\nexcept ImportError as e:\n    print(e)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install" in said and "qjam[learn]" in said


def test_all_that_is_public_is_named() -> None:
    assert set(qjam.learn.__all__) == {cls.__name__ for _, cls in LEARNERS} | {"close_workers"}


def test_what_a_model_file_says_cannot_move_the_cursor(tmp_path: Path) -> None:
    entry = json.dumps({"kind": "harm\x1b[2J", "version": 1})
    header = json.dumps({"__metadata__": {"qjam": entry}}).encode()
    path = tmp_path / "bad.model"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match="harm") as caught:
        KMeans.load(path)
    assert "harm\\u{1b}[2J" in str(caught.value) and "\x1b" not in str(caught.value)
