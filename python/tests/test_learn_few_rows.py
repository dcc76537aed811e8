"""A few rows are answered by the calling thread: no round, and the bits of one."""

from __future__ import annotations

import warnings
from typing import Any, List, Tuple

import numpy as np
import pandas
import pytest

from qjam import learn
from qjam.learn import _models

CASES: List[Tuple[Any, List[str]]] = [
    (learn.GaussianNB(), ["predict", "predict_proba", "predict_joint_log_proba"]),
    (learn.MultinomialNB(), ["predict", "predict_log_proba"]),
    (learn.LinearDiscriminantAnalysis(), ["predict", "decision_function", "transform"]),
    (learn.QuadraticDiscriminantAnalysis(), ["predict", "predict_proba"]),
    (learn.PCA(2), ["transform"]),
    (learn.TruncatedSVD(2), ["transform"]),
    (learn.GaussianMixture(2, random_state=0), ["predict", "predict_proba", "score_samples"]),
    (learn.MLPClassifier(hidden_layer_sizes=(5,), max_iter=3, random_state=0), ["predict", "predict_proba"]),
    (learn.MLPRegressor(hidden_layer_sizes=(5,), max_iter=3, random_state=0), ["predict"]),
]


def asked(estimator: Any, question: str, rows: Any) -> Tuple[Any, int]:
    """What it answers, and how many rounds that took."""
    rounds: List[Any] = []
    answered = _models.answered

    def counted(*args: Any) -> Any:
        rounds.append(args)
        return answered(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_models, "answered", counted)
        return getattr(estimator, question)(rows), len(rounds)


@pytest.mark.parametrize("estimator, questions", CASES, ids=[type(estimator).__name__ for estimator, _ in CASES])
def test_a_few_rows_take_no_round_and_have_its_bits(
    estimator: Any, questions: List[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).uniform(size=(60, 4))
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.set_params(workers="local:2").fit(X, y)
    for question in questions:
        for rows in (X[:1], X, np.asfortranarray(X)):
            here, rounds = asked(estimator, question, rows)
            assert rounds == 0
            with monkeypatch.context() as patch:
                patch.setattr(_models, "_SMALL_WORK", -1)
                there, rounds = asked(estimator, question, rows)
            assert rounds == 1
            np.testing.assert_array_equal(here, there)
        # Numbers of 32 bits are computed with as they come.
        assert asked(estimator, question, X.astype(np.float32))[1] == 1


def test_names_of_columns_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pandas.DataFrame(np.random.default_rng(1).normal(size=(30, 2)), columns=["a", "b"])
    model = learn.GaussianNB().fit(frame, [0, 1, 2] * 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = model.predict(frame[:3])
        monkeypatch.setattr(_models, "_SMALL_WORK", -1)
        assert (model.predict(frame[:3]) == few).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])
