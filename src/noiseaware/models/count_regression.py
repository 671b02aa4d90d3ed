"""Counts of cells (areas, pages, groups) with known covariates.

The model
---------
A record is a published cell; x_i is its true count. With known features z_i (1 first), exposure E_i
and, for each grouping factor k, the group g_k(i) of the cell,

    eta_i = log E_i + z_i' beta + sum_k u_k[g_k(i)],        u_k[g] ~ N(0, spread_k^2),

    poisson              x_i ~ Poisson(exp(eta_i)),
    negative-binomial    mean exp(eta_i), variance mean + dispersion * mean^2,
    binomial             x_i ~ Binomial(N_i, 1 / (1 + exp(-eta_i))), N_i trials, no exposure.

exp(eta) is clamped to between 1e-290 and 2^36, so that every count has a probability. For the
priors see `CountRegression`, for the sampling `noiseaware.models.summed_regression`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.frames import columns_of
from noiseaware.contract import Floats, Theta
from noiseaware.maths import cells
from noiseaware.maths.cells import BINOMIAL, NEGATIVE_BINOMIAL, POISSON, CellLaws
from noiseaware.models import arguments
from noiseaware.models.arguments import POSITIVE, REAL, read_integers
from noiseaware.models.ready import ReadyModel, labelled
from noiseaware.models.summed_regression import LOG_RATES, SummedRegression
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

FAMILIES = {"poisson": POISSON, "negative-binomial": NEGATIVE_BINOMIAL, "binomial": BINOMIAL}


class Factor(NamedTuple):
    """A grouping factor: its name, its levels, and the level of each cell."""

    name: str
    levels: list[Any]
    codes: NDArray[np.int64]

    @property
    def parameter(self) -> str:
        """The name of its effects in theta."""
        return "effects_" + re.sub(r"\W", "_", self.name)


@dataclass(repr=False, eq=False)
class CountRegression(ReadyModel):
    """Regression for counts of cells, with known features, exposure and groups.

        log rate_i     = log exposure_i + intercept + slopes . features_i + effects of its groups
        count_i        ~ Poisson(rate_i)                   or negative binomial with this mean
        intercept      ~ N(intercept_mean, intercept_sd^2)
        slopes_j       ~ N(0, coefficient_sd^2)
        effects_g      ~ N(0, spread^2)                    one spread per grouping factor
        spread         ~ half-normal(spread_scale)
        dispersion     ~ Exponential(mean dispersion_mean)

    The variance of a negative binomial count is rate + dispersion rate^2. For the binomial family,
    the right-hand side of the first line, without exposure, is the log odds of each trial.

    Parameters
    ----------
    features : frame, array (n, p), or mapping from names to columns, optional
        Known features of each cell; the intercept is added. A frame's columns keep their names.
    exposure : array_like (n,), optional
        What the count is proportional to, such as the population. Not for `"binomial"`.
    groups : array_like (n,), frame, or mapping, optional
        The group of each cell, with any labels; each column is a grouping factor.
    coefficient_sd : float, default 2
        Prior standard deviation of each slope.
    family : {"poisson", "negative-binomial", "binomial"}, default "poisson"
        The distribution of a count given its rate.
    trials : array_like (n,), optional
        The number of trials of each binomial count.
    intercept_mean, intercept_sd : float, default 0 and 10
        The prior of the intercept.
    spread_scale : float, default 1
        The scale of the prior of each spread.
    spread_df : float, optional
        If given, the prior of each spread is half-t with these degrees of freedom.
    dispersion_mean : float, default 1
        The prior mean of the dispersion.

    Notes
    -----
    Records are int64 of shape ``(n,)``, from 0. Parameters: ``coefficients`` (p + 1,), the
    intercept first; with groups, ``spread``, one per factor, and ``effects_<factor>``;
    ``dispersion`` if the family has it.

    Examples
    --------
    >>> from noiseaware.models import CountRegression
    >>> model = CountRegression({"income": [0.2, 1.4, -0.3]}, exposure=[100, 250, 80])
    >>> [parameter.name for parameter in model.parameters]
    ['coefficients']
    >>> model.n_records
    3
    """

    features: Any = None
    exposure: Any = None
    groups: Any = None
    coefficient_sd: float = field(default=2.0, metadata=POSITIVE)
    family: str = "poisson"
    trials: Any = None
    _: KW_ONLY
    intercept_mean: float = field(default=0.0, metadata=REAL)
    intercept_sd: float = field(default=10.0, metadata=POSITIVE)
    spread_scale: float = field(default=1.0, metadata=POSITIVE)
    spread_df: float | None = field(default=None, metadata=POSITIVE)
    dispersion_mean: float = field(default=1.0, metadata=POSITIVE)

    uses_index = True

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}; got {self.family!r}")
        super().__post_init__()
        self.code = FAMILIES[self.family]
        try:
            self.features = arguments.feature_columns(self.features)
        except TypeError as error:
            raise TypeError(f"{error}; a column of labels goes into groups=") from None
        named = {"exposure": self.exposure, "trials": self.trials}
        single = {name: columns_of(name, given, name) for name, given in named.items()}
        grouping = columns_of("groups", self.groups, "group", labels=True)
        self.n_records = _common_length({**self.features, **grouping}, single)
        self.exposure, self.trials = (_only(name, single[name]) for name in named)
        self._check_sizes()
        self.groups = grouping or None
        self.factors = [Factor(name, *_levels(labels)) for name, labels in grouping.items()]
        self.parameters = self._parameters()

    def _check_sizes(self) -> None:
        """Raise unless exposure and trials are possible and fit the family."""
        if self.family == "binomial":
            if self.exposure is not None:
                raise ValueError("exposure is not for a binomial count; give trials alone")
            if self.trials is None:
                raise ValueError("trials is missing: a binomial count needs its number of trials")
        elif self.trials is not None:
            raise ValueError(f"trials is for family='binomial'; the family is {self.family!r}")
        for name, right in (("exposure", "positive"), ("trials", "positive whole numbers")):
            given = getattr(self, name)
            if given is None:
                continue
            whole = name != "trials" or given == np.floor(given)
            wrong = ~(np.isfinite(given) & (given > 0.0) & whole)
            if wrong.any():
                i = int(np.argmax(wrong))
                raise ValueError(f"{name} must be {right}; got {given[i]} in row {i}")

    def _parameters(self) -> tuple[Parameter, ...]:
        made = [labelled("coefficients", "real", "coefficient", ["intercept", *self.features])]
        if self.factors:
            names = [factor.name for factor in self.factors]
            made.append(labelled("spread", "positive", "factor", names))
        if self.family == "negative-binomial":
            made.append(Parameter("dispersion", (), "positive"))
        for factor in self.factors:
            dim = factor.parameter.removeprefix("effects_")
            made.append(labelled(factor.parameter, "real", dim, factor.levels))
        return tuple(made)

    # ------------------------------------------------------------------ the rate of each cell

    def design(self, n: int) -> Floats:
        """Return the features of n cells, the intercept first, (n, p + 1)."""
        return np.column_stack([np.ones(n), *self.features.values()])

    def _index(self, n: int, index: ArrayLike | None) -> Any:
        if index is None:
            return np.arange(n) % (self.n_records or n)  # more records than cells: the cells again
        return np.asarray(index)

    def _eta(self, theta: Theta, n: int, index: ArrayLike | None) -> Floats:
        """Return eta of n cells: those in ``index``, or the first n."""
        chosen = self._index(n, index)
        beta = np.asarray(theta["coefficients"], dtype=np.float64)
        eta = np.full(n, beta[0])
        for slope, column in zip(beta[1:], self.features.values(), strict=True):
            eta += slope * column[chosen]
        if self.exposure is not None:
            eta += np.log(self.exposure[chosen])
        for factor in self.factors:
            eta += np.asarray(theta[factor.parameter])[factor.codes[chosen]]
        return eta

    def count_law(
        self, theta: Theta, n: int, index: ArrayLike | None = None
    ) -> tuple[int, Floats, Floats]:
        """Return the law of n cells as `maths.cells.log_mass` reads it: code, rate, size."""
        rate = np.exp(np.clip(self._eta(theta, n, index), *LOG_RATES))
        size = np.zeros(n)
        if self.family == "negative-binomial":
            size[:] = 1.0 / max(float(theta["dispersion"]), 1e-12)
        elif self.family == "binomial":
            size[:] = np.asarray(self.trials)[self._index(n, index)]
        return self.code, rate, size

    @property
    def misfit(self) -> str:
        """Advice for a release that varies more than the model allows."""
        kind = self.family.replace("poisson", "Poisson").replace("-", " ")
        options = ['family = "negative-binomial"'] if self.family == "poisson" else []
        options += [] if self.factors else ["groups"]
        options += [] if self.exposure is not None or self.trials is not None else ["an exposure"]
        options += ["other features"]
        tried = f"{', '.join(options[:-1])} or {options[-1]}" if options[1:] else options[0]
        return f"the counts vary more than a {kind} model with these columns allows; try {tried}"

    def summed_kernel(self, laws: CellLaws, n: int) -> SummedRegression:
        """Return a kernel for p(theta | s_dp), the counts summed out."""
        return SummedRegression(self, laws, n)

    # ------------------------------------------------------------------ the usual methods

    def sample_prior(self, rng: Generator) -> Theta:
        p = len(self.features)
        beta = rng.normal(size=p + 1) * self.coefficient_sd
        beta[0] = rng.normal(self.intercept_mean, self.intercept_sd)
        theta: Theta = {"coefficients": beta}
        if self.factors:
            normal = rng.normal(size=len(self.factors))
            if self.spread_df is not None:
                normal /= np.sqrt(rng.chisquare(self.spread_df, len(normal)) / self.spread_df)
            theta["spread"] = np.abs(normal) * self.spread_scale
        if self.family == "negative-binomial":
            theta["dispersion"] = np.array(rng.exponential(self.dispersion_mean))
        for k, factor in enumerate(self.factors):
            theta[factor.parameter] = rng.normal(size=len(factor.levels)) * theta["spread"][k]
        return theta

    def log_spread_prior(self, spread: float) -> float:
        """Return the log density of a spread, up to a constant."""
        z = spread / self.spread_scale
        if self.spread_df is None:
            return -0.5 * z * z
        return -0.5 * (self.spread_df + 1.0) * math.log1p(z * z / self.spread_df)

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), up to a constant."""
        beta = np.asarray(theta["coefficients"])
        result = -0.5 * ((beta[0] - self.intercept_mean) / self.intercept_sd) ** 2
        result -= 0.5 * float(((beta[1:] / self.coefficient_sd) ** 2).sum())
        for k, factor in enumerate(self.factors):
            spread = float(theta["spread"][k])
            if not spread > 0.0:
                return -math.inf
            u = np.asarray(theta[factor.parameter]) / spread
            result += self.log_spread_prior(spread) - len(u) * math.log(spread)
            result -= 0.5 * float((u**2).sum())
        if self.family == "negative-binomial":
            result -= float(theta["dispersion"]) / self.dispersion_mean
        return float(result)

    def sample_records(
        self, theta: Theta, n: int, rng: Generator, index: ArrayLike | None = None, **_: Any
    ) -> NDArray[np.int64]:
        return cells.draw_counts(*self.count_law(theta, n, index), rng)

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log f(x_i | theta), (n,), for the first n cells."""
        array = read_integers(records, None)
        out = np.empty(len(array))
        cells.log_masses(*self.count_law(theta, len(array)), array, out)
        return out

    def check_records(self, records: ArrayLike) -> None:
        array = read_integers(records, None)
        most = np.inf if self.trials is None else self.trials[self._index(len(array), None)]
        right = "counts" if self.trials is None else "counts of at most their trials"
        arguments.refuse_records((array < 0) | (array > most), f"records must be {right}", array)

    def __repr__(self) -> str:
        parts = [f"family={self.family!r}"]
        if self.features:
            parts.append(f"features={list(self.features)}")
        if self.factors:
            parts.append(f"groups={[factor.name for factor in self.factors]}")
        if self.n_records is not None:
            parts.append(f"{self.n_records} cells")
        parts += filter(None, [lone_groups(factor.name, factor.codes) for factor in self.factors])
        return f"CountRegression({', '.join(parts)})"


def lone_groups(name: str, labels: NDArray[Any]) -> str:
    """Say how many groups consist of one cell, which is allowed but notable; "" if none."""
    counts = np.unique(labels.astype(str), return_counts=True)[1]
    alone = int((counts == 1).sum())
    return f"{alone} of the {len(counts)} groups of {name!r} with one cell" if alone else ""


def _levels(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct labels, sorted, and the level of each cell."""
    levels, codes = np.unique(labels, return_inverse=True)
    return levels.tolist(), codes.reshape(-1).astype(np.int64)


def _only(name: str, columns: Mapping[str, NDArray[Any]]) -> Floats | None:
    if not columns:
        return None
    if len(columns) > 1:
        raise ValueError(f"{name} must be one column; got {list(columns)}")
    (column,) = columns.values()
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        first = column[:1].tolist()[0]
        raise TypeError(f"{name} must be numbers; got {first!r} in row 0") from None


def _common_length(
    columns: Mapping[str, NDArray[Any]], single: Mapping[str, Mapping[str, NDArray[Any]]]
) -> int | None:
    """Return the number of cells; ValueError if columns differ in length."""
    lengths = {f"column {name!r}": len(column) for name, column in columns.items()}
    lengths |= {name: len(next(iter(found.values()))) for name, found in single.items() if found}
    if not lengths:
        return None
    first, n = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != n:
            raise ValueError(f"all columns must be of one length; {first} has {n}, {name} {length}")
    return n


MODELS.add(CountRegression)
