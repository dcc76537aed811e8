"""What notebooks show of estimators: scikit-learn's diagram, and below it what was fitted."""

from __future__ import annotations

from typing import Any, Callable, Dict

from sklearn.base import BaseEstimator

from .._html import fitted

__all__ = ["ShownEstimator"]


class ShownEstimator(BaseEstimator):
    """An estimator whose fitted attributes are shown in notebooks."""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        # Raises `AttributeError` where scikit-learn is set to show texts; then notebooks show the text.
        diagram: Callable[[], str] = super()._repr_html_
        return lambda: diagram() + fitted(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Dict[str, str]:
        bundle: Dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += fitted(self)
        return bundle
