"""Priors for the number of records, if it has not been published.

Under the add-or-remove-one-record neighbour relation the size of the database is itself
confidential: at most a noisy count of the records is released. The release then has
`n_records=None`, and `sample` needs a prior for n: one of those here, or any class with `log_pmf`,
`sample`, `lower` and `upper`. Every prior is for n >= 1.

- `Uniform`: all numbers in a range are equally likely;
- `Near`: the same, on the range that a released noisy count leaves for n;
- `Poisson`, `NegativeBinomial`: around a mean, with the usual or with more variation;
- `LogPmf`: any function of yours.

Example
-------
>>> import noiseaware as na
>>> prior = na.sizes.Uniform(1, 40)
>>> prior.upper
40
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from noiseaware.basics.arguments import function_name, whole_number
from noiseaware.basics.described import Described
from noiseaware.contract import Size, missing
from noiseaware.registry import SIZES

__all__ = ["LogPmf", "Near", "NegativeBinomial", "Poisson", "Uniform", "from_dict"]

MOST = 10**12
"""The largest possible n; more records would not fit into any memory."""

WIDTHS = 40.0
"""`Near` extends this many noise scales to each side. Laplace noise exceeds that with probability
exp(-40), about 4e-18, and Gaussian noise practically never, so nothing is cut off."""

NEGLECTED = 1e-15
"""The probability that Poisson and negative binomial sizes omit in the upper tail."""


class Uniform(Described):
    """Every number of records from `lower` to `upper` is equally likely.

    Parameters
    ----------
    lower, upper : int
        The smallest and the largest possible number of records.
    """

    lower: int
    upper: int
    flat = True

    def __init__(self, lower: int, upper: int) -> None:
        lower = whole_number("lower", lower)
        upper = whole_number("upper", upper, lower)
        if upper > MOST:
            raise ValueError(f"upper must be at most {MOST:g}; got {upper}")
        self._hold(lower=lower, upper=upper)

    def log_pmf(self, n: int) -> float:
        """Return 0: the prior is flat."""
        return 0.0

    def sample(self, rng: np.random.Generator) -> int:
        """Draw n."""
        return int(rng.integers(self.lower, self.upper + 1))


class Near(Uniform):
    """Flat on the range that a noisy count of the records leaves for n.

    The count itself belongs in the release, with `queries.Count(value=None)`, not in the prior:
    this only saves naming a range. It extends 40 scales of the noise to each side, so the omitted
    values have probability less than 1e-17.

    Parameters
    ----------
    count : float
        The released noisy count.
    scale : float
        The scale of its noise.
    """

    def __init__(self, count: float, scale: float) -> None:
        for name, value in (("count", count), ("scale", scale)):
            real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not real or not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number; got {value!r}")
        if scale <= 0:
            raise ValueError(f"scale must be positive; got {scale!r}")
        upper = math.ceil(count + WIDTHS * scale)
        if upper < 1 or upper > MOST:
            raise ValueError(
                f"count must leave between 1 and {MOST:g} records possible; got {count!r} with "
                f"scale {scale!r}"
            )
        lower = max(1, math.floor(count - WIDTHS * scale))
        self._hold(count=float(count), scale=float(scale), lower=lower, upper=upper)


class _AroundMean(Described):
    """A distribution on 0, 1, 2, ... given n >= 1, truncated far out in the upper tail."""

    mean: float
    lower = 1

    @cached_property
    def upper(self) -> int:
        """The n above which less than 1e-15 is left."""
        return max(1, int(self._last()))

    def _last(self) -> float:
        raise NotImplementedError

    def _draw(self, rng: np.random.Generator) -> int:
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> int:
        """Draw n, repeatedly until it is in range."""
        while True:
            n = int(self._draw(rng))
            if self.lower <= n <= self.upper:
                return n


def _check_mean(mean: Any) -> float:
    # Below 1, nearly every draw would be an empty database.
    if not isinstance(mean, int | float | np.number) or not 1 <= mean <= MOST:
        raise ValueError(f"mean must be a number from 1 to {MOST:g}; got {mean!r}")
    return float(mean)


class Poisson(_AroundMean):
    """A Poisson number of records, given that there is at least one.

    Parameters
    ----------
    mean : float
        The mean number of records, at least 1.
    """

    def __init__(self, mean: float) -> None:
        self._hold(mean=_check_mean(mean))

    def log_pmf(self, n: int) -> float:
        """Return log p(n), up to a constant."""
        return n * math.log(self.mean) - math.lgamma(n + 1.0)

    def _draw(self, rng: np.random.Generator) -> int:
        return rng.poisson(self.mean)

    def _last(self) -> float:
        from scipy.stats import poisson

        return poisson.isf(NEGLECTED, self.mean)


class NegativeBinomial(_AroundMean):
    """A negative binomial number of records, given that there is at least one.

    Its variance is mean + mean^2 / dispersion.

    Parameters
    ----------
    mean : float
        The mean number of records, at least 1.
    dispersion : float
        Smaller values make the distribution wider: its standard deviation is at least
        mean / sqrt(dispersion).
    """

    dispersion: float

    def __init__(self, mean: float, dispersion: float) -> None:
        if not isinstance(dispersion, int | float | np.number) or not 0 < dispersion < math.inf:
            raise ValueError(f"dispersion must be a positive number; got {dispersion!r}")
        self._hold(mean=_check_mean(mean), dispersion=float(dispersion))

    @property
    def _success(self) -> float:
        return self.dispersion / (self.dispersion + self.mean)

    def log_pmf(self, n: int) -> float:
        """Return log p(n), up to a constant."""
        choices = math.lgamma(n + self.dispersion) - math.lgamma(n + 1.0)
        return choices + n * math.log1p(-self._success)

    def _draw(self, rng: np.random.Generator) -> int:
        return rng.negative_binomial(self.dispersion, self._success)

    def _last(self) -> float:
        from scipy.stats import nbinom

        return nbinom.isf(NEGLECTED, self.dispersion, self._success)


class LogPmf:
    """Any prior on a range, given by a function of yours.

    Parameters
    ----------
    function : callable
        n -> log p(n), up to a constant; -inf where p(n) is 0.
    lower, upper : int
        The range of n. The function is called for every number in it, so it may hold at most ten
        million.
    """

    def __init__(self, function: Callable[[int], float], lower: int, upper: int) -> None:
        if not callable(function):
            raise TypeError(f"function must be a function of n; got {function!r}")
        self.function = function
        self.lower = whole_number("lower", lower)
        self.upper = whole_number("upper", upper, self.lower)
        if self.upper - self.lower >= 10**7:
            raise ValueError(
                f"upper - lower must be below ten million; got {self.upper - self.lower}"
            )
        logs = np.array([self.log_pmf(n) for n in range(self.lower, self.upper + 1)])
        if np.isnan(logs).any() or logs.max() == math.inf or logs.max() == -math.inf:
            raise ValueError(
                f"function {function_name(function)} must return log p(n), below infinity and not "
                "-infinity everywhere; "
                f"got {logs[np.argmax(~np.isfinite(logs))]} for n = "
                f"{self.lower + int(np.argmax(~np.isfinite(logs)))}"
            )
        weights = np.exp(logs - logs.max())
        self._cumulative = np.cumsum(weights / weights.sum())

    def __repr__(self) -> str:
        return f"LogPmf({function_name(self.function)}, {self.lower}, {self.upper})"

    def log_pmf(self, n: int) -> float:
        """Return log p(n), up to a constant."""
        return float(self.function(n))

    def sample(self, rng: np.random.Generator) -> int:
        """Draw n."""
        place = int(np.searchsorted(self._cumulative, rng.random(), side="right"))
        return self.lower + min(place, self.upper - self.lower)


SIZES.add(Near)
SIZES.add(NegativeBinomial)
SIZES.add(Poisson)
SIZES.add(Uniform)

from_dict = SIZES.read


def check_size(size: Any) -> Size:
    """Return the prior; TypeError unless it has what the sampler needs."""
    if missing(size, Size) or isinstance(size, type):
        raise TypeError(
            "size must be a prior for the number of records, such as "
            f"noiseaware.sizes.Uniform(1, 1000); got {size!r}"
        )
    whole_number("lower of size", size.lower)
    whole_number("upper of size", size.upper, size.lower)
    return size


def check_number(n_records: int | None, size: Size | None) -> int:
    """Return the number of records, or a typical one; ValueError unless exactly one is given."""
    if n_records is None:
        if size is None:
            raise ValueError(
                "the release does not say how many records there are: give size, a prior for "
                "their number, such as noiseaware.sizes.Uniform(1, 1000), or the table [size] of a "
                "model file"
            )
        return typical(size)
    if size is not None:
        raise ValueError(
            f"size must not be given: the release says that there are {n_records} records"
        )
    return n_records


def typical(size: Size) -> int:
    """Return the median of draws of n."""
    rng = np.random.default_rng(0)
    return int(np.median([size.sample(rng) for _ in range(25)]))
