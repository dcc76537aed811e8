"""Learners with scikit-learn's interface, on all cores of this machine or on other machines.

They have scikit-learn's names, parameters and attributes, and go where its own estimators go: ``Pipeline``,
``GridSearchCV``, ``clone``, pickles. What they compute has the same bits whatever the ``workers`` are.

>>> import numpy as np
>>> from qjam.learn import KMeans
>>> X = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 0.0], [10.0, 2.0], [10.0, 4.0], [10.0, 0.0]])
>>> model = KMeans(n_clusters=2, random_state=0).fit(X)
>>> sorted(model.cluster_centers_.tolist())
[[1.0, 2.0], [10.0, 2.0]]

The classes need scikit-learn 1.6 or newer, which ``pip install "qjam[learn]"`` brings; the rest of ``qjam`` does without.
"""

from __future__ import annotations

try:
    from sklearn.utils.validation import validate_data as _  # noqa: F401  # the newest of what is used
except ImportError as error:
    raise ImportError(
        "qjam.learn needs scikit-learn 1.6 or newer, which is not in this environment: "
        'pip install "qjam[learn]" or pip install -U scikit-learn'
    ) from error

from ._autoencoder import SparseAutoencoder
from ._bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from ._classification import LinearSVC, LogisticRegression
from ._decomposition import FastICA, TruncatedSVD
from ._discriminant import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from ._kmeans import KMeans
from ._local import LocallyWeightedRegression
from ._masters import close_workers
from ._minibatch import MiniBatchKMeans
from ._mixture import GaussianMixture
from ._pca import PCA
from ._perceptron import MLPClassifier, MLPRegressor
from ._regression import ElasticNet, Lasso, Ridge
from ._scaling import MaxAbsScaler, MinMaxScaler, StandardScaler

__all__ = [
    "PCA",
    "BernoulliNB",
    "ComplementNB",
    "ElasticNet",
    "FastICA",
    "GaussianMixture",
    "GaussianNB",
    "KMeans",
    "Lasso",
    "LinearDiscriminantAnalysis",
    "LinearSVC",
    "LocallyWeightedRegression",
    "LogisticRegression",
    "MLPClassifier",
    "MLPRegressor",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MiniBatchKMeans",
    "MultinomialNB",
    "QuadraticDiscriminantAnalysis",
    "Ridge",
    "SparseAutoencoder",
    "StandardScaler",
    "TruncatedSVD",
    "close_workers",
]
