"""`qjam evaluate` and `qjam fit --cv`: scores equal to scikit-learn's, and wrong calls that say what to do."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import datasets, metrics
from sklearn.linear_model import Ridge

from qjam import _find

Floats = NDArray[np.float64]


def run(words: List[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([_find.worker(), *words], capture_output=True, text=True)


def said(words: List[str]) -> Dict[str, Any]:
    done = run([*words, "--json"])
    assert done.returncode == 0, done.stderr
    answer: Dict[str, Any] = json.loads(done.stdout)
    return answer


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-12, atol=1e-12)


class Data:
    """Rows, targets, and a model that was fitted to half of them."""

    def __init__(self, folder: Path, learner: str, x: Floats, y: Floats, more: List[str]) -> None:
        self.x, self.y, self.folder = x, y, folder
        self.rows, self.labels, self.model = (str(folder / name) for name in ("x.npy", "y.npy", "x.model"))
        half = {"x": str(folder / "half.npy"), "y": str(folder / "half-y.npy")}
        np.save(self.rows, x)
        np.save(self.labels, y)
        np.save(half["x"], x[::2])
        np.save(half["y"], y[::2])
        said(["fit", learner, half["x"], "--labels", half["y"], *more, "--out", self.model])

    def answers(self, *words: str) -> Floats:
        out = str(self.folder / "answers.npy")
        done = run(["predict", self.model, self.rows, *words, "--out", out])
        assert done.returncode == 0, done.stderr
        answers: Floats = np.load(out)
        return answers

    def scores(self, *words: str) -> Dict[str, Any]:
        return said(["evaluate", self.model, self.rows, "--labels", self.labels, *words])


def few(count: int) -> "tuple[Floats, Floats]":
    """Digits of a few classes, which are not easy to tell apart."""
    x, y = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    kept = y < count
    noisy: Floats = x[kept] + rng.normal(0, 8, x[kept].shape)
    return noisy, y[kept].astype(float)


@pytest.mark.parametrize(
    ("learner", "classes"), [("gaussian-nb", 10), ("logistic", 2), ("lda", 4), ("gaussian-nb", 2)]
)
def test_scores_of_classes_are_those_of_scikit_learn(tmp_path: Path, learner: str, classes: int) -> None:
    data = Data(tmp_path, learner, *few(classes), [])
    predicted, probabilities = data.answers(), data.answers("--probabilities")
    found = data.scores("--workers", "local:3")
    close(found["accuracy"], metrics.accuracy_score(data.y, predicted))
    close(found["log_loss"], metrics.log_loss(data.y, probabilities))
    scores = probabilities[:, 1] if classes == 2 else probabilities
    close(found["roc_auc"], metrics.roc_auc_score(data.y, scores, multi_class="ovr"))
    each = metrics.precision_recall_fscore_support(data.y, predicted)
    for name, expected in zip(("precision", "recall", "f1", "support"), each):
        close(found[name], expected)
    mean = metrics.precision_recall_fscore_support(data.y, predicted, average="macro")
    close([found[f"{name}_macro"] for name in ("precision", "recall", "f1")], mean[:3])
    assert found["confusion"] == metrics.confusion_matrix(data.y, predicted).tolist()
    assert found["rows"] == len(data.y) and found["remarks"] == []
    for workers in ("local:1", "proc:2"):
        assert data.scores("--workers", workers) == found


def test_decision_values_have_a_curve_but_no_log_loss(tmp_path: Path) -> None:
    data = Data(tmp_path, "svm", *few(2), [])
    found = data.scores()
    close(found["roc_auc"], metrics.roc_auc_score(data.y, data.answers("--decisions")))
    assert "log_loss" not in found


def test_scores_of_values_are_those_of_scikit_learn(tmp_path: Path) -> None:
    x, y = datasets.load_diabetes(return_X_y=True)
    data = Data(tmp_path, "ridge", x, y + 1e4, [])
    predicted = data.answers()
    found = data.scores("--workers", "local:3")
    close(found["r2"], metrics.r2_score(data.y, predicted))
    close(found["mean_squared_error"], metrics.mean_squared_error(data.y, predicted))
    close(found["root_mean_squared_error"], metrics.mean_squared_error(data.y, predicted) ** 0.5)
    close(found["mean_absolute_error"], metrics.mean_absolute_error(data.y, predicted))
    assert data.scores("--workers", "proc:2") == found


def test_scores_of_clusters_are_those_of_scikit_learn(tmp_path: Path) -> None:
    x = datasets.load_digits().data
    rows, model, out = (str(tmp_path / name) for name in ("x.npy", "x.model", "labels.npy"))
    np.save(rows, x)
    said(["fit", "kmeans", rows, "--k", "8", "--seed", "1", "--out", model])
    assert run(["predict", model, rows, "--out", out]).returncode == 0
    labels = np.load(out)
    found = said(["evaluate", model, rows])
    close(found["silhouette"], metrics.silhouette_score(x, labels))
    assert found["sizes"] == np.bincount(labels).tolist() and found["remarks"] == []
    centres = np.array([x[labels == k].mean(axis=0) for k in range(8)])
    assert abs(found["inertia"] / ((x - centres[labels]) ** 2).sum() - 1) < 1e-6
    part = said(["evaluate", model, rows, "--sample", "300", "--seed", "5"])
    assert part["remarks"] == ["the silhouette is that of 300 of 1797 rows, which the seed 5 chose"]
    assert abs(part["silhouette"] - found["silhouette"]) < 0.1
    assert said(["evaluate", model, rows, "--sample", "300", "--seed", "5", "--workers", "proc:2"]) == part


def test_the_explained_share_is_that_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.decomposition import PCA

    x = datasets.load_digits().data
    rows, model = str(tmp_path / "x.npy"), str(tmp_path / "x.model")
    np.save(rows, x)
    said(["fit", "pca", rows, "--components", "7", "--out", model])
    theirs = PCA(7, svd_solver="full").fit(x)
    again = theirs.inverse_transform(theirs.transform(x))
    found = said(["evaluate", model, rows])
    close(found["explained_share"], metrics.r2_score(x, again, multioutput="variance_weighted"))
    close(found["mean_squared_error"], metrics.mean_squared_error(x, again))


def test_rows_of_unknown_classes_and_missing_classes_are_told(tmp_path: Path) -> None:
    x, y = few(3)
    data = Data(tmp_path, "gaussian-nb", x, y, [])
    y[0] = 7
    np.save(data.labels, y)
    found = data.scores()
    assert found["classes"] == [0, 1, 2, 7] and found["log_loss"] is None and found["roc_auc"] is None
    assert found["remarks"][0].startswith("1 row is of classes that the model does not know")
    close(found["accuracy"], metrics.accuracy_score(y, data.answers()))
    np.save(data.labels, np.minimum(data.y, 1))
    found = data.scores()
    assert "ROC AUC leaves out what all rows are of, or none: class 2" in found["remarks"][0]


def test_a_table_is_measured_by_the_columns_of_the_model(tmp_path: Path) -> None:
    table, model = tmp_path / "homes.csv", str(tmp_path / "homes.model")
    rng = np.random.default_rng(1)
    rows = rng.uniform(0, 9, (80, 3))
    text = "\n".join(f"{n},{a:.6},{b:.6},{2 * a - b + c:.6}" for n, (a, b, c) in enumerate(rows))
    table.write_text(f"id,size,rooms,price\n{text}\n")
    said(["fit", "ridge", str(table), "--target", "price", "--without", "id", "--out", model])
    found = said(["evaluate", model, str(table), "--target", "price"])
    values = np.loadtxt(table, delimiter=",", skiprows=1)
    theirs = Ridge(alpha=1.0).fit(values[:, 1:3], values[:, 3])
    assert abs(found["r2"] - theirs.score(values[:, 1:3], values[:, 3])) < 1e-6


def test_pictures_are_drawn(tmp_path: Path) -> None:
    data = Data(tmp_path, "gaussian-nb", *few(3), [])
    picture = tmp_path / "scores.svg"
    done = run(["evaluate", data.model, data.rows, "--labels", data.labels, "--picture", str(picture)])
    assert done.returncode == 0 and f"picture in {picture}" in done.stdout, done.stderr
    root = xml.etree.ElementTree.parse(picture).getroot()
    assert len(root.findall(".//{*}polyline")) == 3
    assert "prefers-color-scheme: dark" in picture.read_text()


def test_cross_validation_has_the_scores_of_fits_to_the_other_folds(tmp_path: Path) -> None:
    x, y = datasets.load_diabetes(return_X_y=True)
    rows, labels, model = (str(tmp_path / name) for name in ("x.npy", "y.npy", "x.model"))
    np.save(rows, x)
    np.save(labels, y)
    words = ["fit", "ridge", rows, "--labels", labels, "--alpha", "0.1", "--cv", "5", "--out", model]
    found = said([*words, "--workers", "local:3"])["cv"]
    assert sum(found["rows"]) == len(y) and len(found["scores"]["r2"]["folds"]) == 5
    close(found["scores"]["r2"]["mean"], np.mean(found["scores"]["r2"]["folds"]))
    close(found["scores"]["r2"]["spread"], np.std(found["scores"]["r2"]["folds"]))
    assert 0.3 < found["scores"]["r2"]["mean"] < 0.6
    for workers in ("local:1", "proc:2"):
        assert said([*words, "--workers", workers])["cv"] == found
    assert said([*words, "--cv-seed", "1"])["cv"]["hash"] != found["hash"]


@pytest.mark.parametrize("seed", ["0", "3", "5"])
def test_eigenvalues_that_are_rounding_do_not_stop_a_fit(tmp_path: Path, seed: str) -> None:
    # Covariances between ten classes have nine directions; the others are left with rounding, which once came back for ever.
    x, y = few(10)
    rows, labels = str(tmp_path / "x.npy"), str(tmp_path / "y.npy")
    np.save(rows, x)
    np.save(labels, y)
    words = ["fit", "lda", rows, "--labels", labels, "--cv", "3", "--cv-seed", seed]
    found = said([*words, "--out", str(tmp_path / "x.model")])["cv"]
    assert found["scores"]["accuracy"]["mean"] > 0.6


WRONG: List[Any] = [
    (["good.model", "good.npy"], "what is to be learnt? Give a number for each row with --labels FILE.npy"),
    (["good.model", "wide.npy", "--labels", "y.npy"], "it has 4 columns and"),
    (["good.model", "nan.npy", "--labels", "y.npy"], "row 5, column 2 (counted from 0) is NaN"),
    (["good.model", "good.npy", "--labels", "short.npy"], "9 numbers for the 60 rows"),
    (
        ["good.model", "good.npy", "--labels", "halves.npy"],
        "the target of row 1 (counted from 0) is 0.5; classes are whole",
    ),
    (["good.model", "ragged.csv", "--target", "y"], "line 3"),
    (["good.model", "empty.csv", "--target", "y"], "empty.csv"),
    (["cut.model", "good.npy", "--labels", "y.npy"], "it is cut off"),
    (["good.npy", "good.npy", "--labels", "y.npy"], "is no model file"),
    (["none.model", "good.npy"], "is the path right?"),
    (
        ["good.model", "good.npy", "--labels", "y.npy", "--picture", "scores.png"],
        "pictures are drawn as .svg",
    ),
    (
        ["clusters.model", "good.npy", "--labels", "y.npy"],
        "models of kind kmeans are not compared with targets",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    good = np.random.default_rng(0).uniform(0, 5, (60, 3))
    y = (np.arange(60) % 2).astype(float)
    nan = good.copy()
    nan[5, 2] = np.nan
    arrays = {"good": good, "nan": nan, "wide": np.column_stack([good, good[:, 0]]), "y": y}
    arrays.update(short=y[:9], halves=y / 2, thin=np.r_[1.0, np.zeros(59)])
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "ragged.csv").write_text("a,b,c,y\n1,2,3,0\n1,2,0\n")
    (folder / "empty.csv").write_text("")
    words = ["fit", "gaussian-nb", str(folder / "good.npy"), "--labels", str(folder / "y.npy")]
    said([*words, "--out", str(folder / "good.model")])
    said(["fit", "kmeans", str(folder / "good.npy"), "--k", "2", "--out", str(folder / "clusters.model")])
    (folder / "cut.model").write_bytes((folder / "good.model").read_bytes()[:-9])
    return folder


@pytest.mark.parametrize(("words", "expected"), WRONG)
def test_a_wrong_call_is_explained_in_one_line(folder: Path, words: List[str], expected: str) -> None:
    at = [word if word.startswith("--") or "." not in word else str(folder / word) for word in words]
    done = run(["evaluate", *at])
    assert done.returncode == 1 and expected in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "panicked" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "labels", "expected"),
    [
        (["--cv", "1"], "y.npy", "1 is not in 2..=1000"),
        (["--cv", "100"], "y.npy", "100 folds need at least 100 rows, and there are 60"),
        (["--cv", "40"], "y.npy", "all classes have fewer than 40 rows, the largest 30"),
        (["--cv", "3"], "thin.npy", "class 1 has one row only"),
        (["--cv-seed", "3"], "y.npy", "--cv"),
    ],
)
def test_wrong_folds_are_explained(folder: Path, words: List[str], labels: str, expected: str) -> None:
    rows, out = str(folder / "good.npy"), folder / "folds.model"
    done = run(["fit", "gaussian-nb", rows, "--labels", str(folder / labels), *words, "--out", str(out)])
    assert done.returncode != 0 and expected in done.stderr and not out.exists(), done.stderr
