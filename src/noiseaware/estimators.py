"""The three regressions as scikit-learn estimators: `fit`, `predict`, `score`.

`fit_release` is for a published release. `fit(X, y)` is for studies, in pipelines and
cross-validation: it simulates a release of these records, the clamped `RegressionMoments` with
Laplace noise, and fits that. (Noise for a real release belongs to a vetted library.)

Needs scikit-learn: ``pip install "noiseaware[estimators]"``. LinearRegression and
LogisticRegression pass scikit-learn's own `check_estimator`; PoissonRegression refuses the
responses of many of these checks, which are not counts.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware import mechanisms, models, queries
from noiseaware.contract import Floats
from noiseaware.release import Release
from noiseaware.results.predictive import predict
from noiseaware.sampling import sample

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        'noiseaware.estimators needs scikit-learn: pip install "noiseaware[estimators]"',
        name=missing.name,
    ) from None

__all__ = ["LinearRegression", "LogisticRegression", "PoissonRegression"]

Bounds = tuple[ArrayLike, ArrayLike]


class _Regression(BaseEstimator):
    """What the three share.

    Parameters
    ----------
    epsilon : float
        The epsilon of the release that `fit` simulates, for one changed record.
    bounds_X : pair of numbers, or of array_like of shape (p,)
        The bounds to which features are clamped. Choose them without looking at the records.
    bounds_y : pair of numbers, optional
        The bounds to which the response is clamped, by default (-10, 10) for LinearRegression and
        (0, 20) for PoissonRegression. That of LogisticRegression is 0 or 1, and is not clamped.
    model : optional
        The model of the same name in `noiseaware.models`, to change the default priors.
    draws, warmup, chains : int
        As in `noiseaware.sample`.
    random_state : int, RandomState instance or None
        For the simulated noise and the chains.

    Attributes
    ----------
    posterior_ : xarray.DataTree
        What `noiseaware.sample` returned, for `noiseaware.summary` and `noiseaware.check`.
    coef_, intercept_ : ndarray of shape (p,), float
        Posterior means.
    release_, model_
        The release and the model that were fitted.
    """

    _model: ClassVar[Any]
    _bounds_y: ClassVar[Bounds]
    _numeric: ClassVar[bool] = True

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        bounds_X: Bounds = (-10.0, 10.0),
        bounds_y: Bounds | None = None,
        model: Any = None,
        draws: int = 1000,
        warmup: int = 1000,
        chains: int = 4,
        random_state: Any = None,
    ) -> None:
        self.epsilon, self.bounds_X, self.bounds_y = epsilon, bounds_X, bounds_y
        self.model, self.random_state = model, random_state
        self.draws, self.warmup, self.chains = draws, warmup, chains

    def fit(self, X: Any, y: Any) -> Self:
        """Simulate a release of these records, and draw from the posterior given it.

        Parameters
        ----------
        X : array_like, shape (n, p)
            Features.
        y : array_like, shape (n,)
            Responses.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=self._numeric)
        records = np.column_stack([X, self._responses(y)])
        p = X.shape[1]
        of_y = self._bounds_y if self.bounds_y is None else self.bounds_y
        lower, upper = (
            [*np.broadcast_to(np.asarray(x, dtype=np.float64), p), end]
            for x, end in zip(self.bounds_X, of_y, strict=True)
        )
        query = queries.RegressionMoments(p, lower, upper)
        rng = np.random.default_rng(self._seed())
        made = mechanisms.Laplace(query, epsilon=self.epsilon).privatize(records, rng)
        return self._draw(made, p)

    def fit_release(self, release: Release, n_features: int | None = None) -> Self:
        """Draw from the posterior given a published release.

        Parameters
        ----------
        release : Release
            The release; its records are features with the response last.
        n_features : int, optional
            The number of features; not needed if `model` was given.

        Returns
        -------
        self
        """
        if n_features is None:
            if self.model is None:
                raise ValueError("n_features must be given, or a model; got neither")
            n_features = self.model.n_features
        self.__dict__.pop("feature_names_in_", None)
        return self._draw(release, n_features)

    def _draw(self, release: Release, p: int) -> Self:
        self.model_ = self._model(p) if self.model is None else self.model
        if self.model_.n_features != p:
            raise ValueError(
                f"model must have n_features = {p}, as there are; got {self.model_.n_features}"
            )
        self.n_features_in_, self.release_ = p, release
        self.posterior_ = sample(
            self.model_,
            release,
            draws=self.draws,
            warmup=self.warmup,
            chains=self.chains,
            random_seed=self._seed(),
            progressbar=False,
        )
        drawn = np.asarray(self.posterior_["posterior"]["coefficients"])
        mean = drawn.mean(axis=(0, 1))
        self.intercept_, self.coef_ = float(mean[0]), mean[1:]
        return self

    def _responses(self, y: NDArray[Any]) -> NDArray[Any]:
        return y

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _predicted(self, X: Any) -> tuple[Floats, Floats]:
        """Return the expected response for each row, and the standard deviation of a response."""
        check_is_fitted(self, "posterior_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        made = predict(self.posterior_, self.model_, X, random_seed=0)["predictions"]
        expected, response = np.asarray(made["expected"]), np.asarray(made["response"])
        return expected.mean(axis=(0, 1)), response.std(axis=(0, 1))


class _Regressor(RegressorMixin, _Regression):
    """A regression whose prediction is the expected response."""

    def __sklearn_tags__(self) -> Any:
        """Declare that noise may spoil the score."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the posterior mean of the expected response for each row of X, (m,).

        With `return_std` also the standard deviation of a response, which combines the uncertainty
        about the parameters with the spread of single records.
        """
        mean, sd = self._predicted(X)
        return (mean, sd) if return_std else mean


class LinearRegression(_Regressor):
    """Linear regression from a private release.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.estimators import LinearRegression
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(500, 1))
    >>> y = 1.0 + 2.0 * X[:, 0] + rng.normal(size=500)
    >>> fitted = LinearRegression(epsilon=5.0, bounds_X=(-4, 4), random_state=1).fit(X, y)
    >>> fitted.predict([[0.5]]).round().tolist()
    [2.0]
    """

    _model = models.LinearRegression
    _bounds_y = (-10.0, 10.0)


class PoissonRegression(_Regressor):
    """Poisson regression from a private release; responses are counts."""

    _model = models.PoissonRegression
    _bounds_y = (0.0, 20.0)

    def _responses(self, y: NDArray[Any]) -> NDArray[Any]:
        wrong = y[(y < 0) | (y != np.floor(y))]
        if len(wrong):
            raise ValueError(f"y must be counts, whole numbers from 0; got {wrong[0]:g}")
        return y


class LogisticRegression(ClassifierMixin, _Regression):
    """Logistic regression of two classes from a private release.

    `fit` takes labels of any kind; a release is about 0 and 1, so `classes_` is then [0, 1].
    """

    _model = models.LogisticRegression
    _bounds_y = (0.0, 1.0)
    _numeric = False

    def __sklearn_tags__(self) -> Any:
        """Declare that there are two classes, and that noise may spoil the score."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class, tags.classifier_tags.poor_score = False, True
        return tags

    def fit_release(self, release: Release, n_features: int | None = None) -> Self:  # noqa: D102
        self.classes_ = np.array([0, 1])
        return super().fit_release(release, n_features)

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior mean probability of each class, (m, 2)."""
        of_second, _ = self._predicted(X)
        return np.column_stack([1.0 - of_second, of_second])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more probable class, (m,)."""
        likelier = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likelier]

    def _responses(self, y: NDArray[Any]) -> NDArray[Any]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported: y must have 2 classes; got "
                f"{len(self.classes_)} classes"
            )
        if len(self.classes_) < 2:
            raise ValueError("y must have 2 classes; got 1 class")
        if self.bounds_y is not None:
            raise ValueError(f"bounds_y must be None, for y is 0 or 1; got {self.bounds_y!r}")
        return codes


for _made in (LinearRegression, PoissonRegression, LogisticRegression):
    # The arguments are described once; `help` shows them with each class.
    _first, _, _more = str(_made.__doc__).partition("\n\n    Examples")
    _shared = str(_Regression.__doc__).partition("share.")[2].rstrip()
    _made.__doc__ = _first.rstrip() + _shared + (f"\n\n    Examples{_more}" if _more else "\n    ")
