"""Groups with normal outcomes: two means and their difference, or means that share a prior.

A record is a group, 0, ..., G - 1, and an outcome, a number.

    outcome in group g ~ N(m_g, v_g)            m_g + sqrt(v_g) u, with u standard normal

Two means
---------
    m_g ~ N(m_0, s_0^2)                         m_0 = mean_mean, s_0 = mean_sd
    v_g ~ InverseGamma(a, b)                    density prop. to v^(-a-1) exp(-b/v)

all independent a priori; or, with ``equal_variances``, v_0 = v_1 = v ~ InverseGamma(a, b). With n_g
records of sum S_g in group g,

* m_g | v, x ~ N(w (m_0/s_0^2 + S_g / v_g), w), 1/w = 1/s_0^2 + n_g/v_g, independently;
* v_g | m, x ~ InverseGamma(a + n_g/2, b + Q_g/2), Q_g = sum over group g of (x_i - m_g)^2,
  independently; or v | m, x ~ InverseGamma(a + (n_0 + n_1)/2, b + (Q_0 + Q_1)/2) if equal.

`TwoMeans.update_parameters` draws the means, then the variances: a Gibbs scan of p(theta | x).

Stratified means
----------------
v_g = v ~ InverseGamma(a, b), and the levels of `grouped.py` are the means: m_g ~ N(mu, tau^2).
With n_g records of mean y_g in group g, given v,

* tau | v, x: with all m_g integrated out, y_g ~ N(mu, tau^2 + v/n_g). With weights
  w_g = 1/(tau^2 + v/n_g), P = s_0^-2 + sum_g w_g and M = (m_0 s_0^-2 + sum_g w_g y_g) / P, mu is
  integrated out as well, and

      p(tau | v, x)  prop. to  p(tau) P^(-1/2) prod_g w_g^(1/2)
                               exp(-[s_0^-2 (M - m_0)^2 + sum_g w_g (y_g - M)^2] / 2);

* mu | tau, v, x ~ N(M, 1/P);
* m_g | mu, tau, v, x ~ N(c (mu/tau^2 + n_g y_g/v), c), 1/c = 1/tau^2 + n_g/v, independently;
* v | m, x ~ InverseGamma(a + n/2, b + sum_i (x_i - m_{g(i)})^2 / 2).

`StratifiedMeans.update_parameters` makes one slice step for log tau and draws the rest exactly, in
this order. Up to the slice step, the first three lines are one joint draw of (tau, mu, m) given v
and x, which avoids the funnel of m and tau.

**Scaling the records.** A noisy sum determines y_g but not v. `StratifiedMeans.scale_records` keeps
every y_g and pushes the records away from it, x_i' = y_g + exp(s/2) (x_i - y_g), v' = exp(s) v.
With Q_g the sum of (x_i - y_g)^2 in group g and K groups having records,
p(m | mu, tau) f(x | theta) is, up to a constant,

    v^(-(n-K)/2) exp(-sum_g Q_g / (2 v))  prod_g N(y_g; mu, tau^2 + v/n_g)  prod_g N(m_g; a_g, c_g)

with a_g and c_g the mean and variance of m_g given the rest, above. Held fixed, the m_g would hold
v back, the more so the more groups there are. So they move along,

    m_g' = a_g' + sqrt(c_g' / c_g) (m_g - a_g),

which leaves the last product times |dm'/dm| unchanged. Q_g'/v' = Q_g/v, and the map multiplies v
by exp(s) and the n - K dimensions of the records around their group means by exp(s/2) each. So

    log [p(theta') f(x'|theta') |det| / (p(theta) f(x|theta))]
        = log p(v') - log p(v) + s
          + sum_g [log N(y_g; mu, tau^2 + v'/n_g) - log N(y_g; mu, tau^2 + v/n_g)].

A group without records has a_g = mu and c_g = tau^2, stays fixed, and adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import LOG_2PI, log_inverse_gamma
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, REAL, read_parameter, refuse_records
from noiseaware.models.grouped import Grouped, Pooled, group_of
from noiseaware.models.ready import Compiled
from noiseaware.models.slice_sampling import POOL, of_array, slice_step
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _build_normals(means, variances, innovations, records):
    """Write m_g + sqrt(v_g) u_i, the groups being given; NaN if a variance is negative."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        variance = variances[group]
        sd = math.sqrt(variance) if variance >= 0.0 else math.nan
        records[i, 1] = means[group] + sd * innovations[i, 0]


@njit(cache=True, nogil=True)
def _recover_normals(means, variances, records, innovations):
    """Write (x_i - m_g) / sqrt(v_g), NaN if v_g is not positive; False at an invalid group."""
    for i in range(records.shape[0]):
        group = group_of(records, i, means.shape[0])
        if group < 0:
            return False
        variance = variances[group]
        sd = math.sqrt(variance) if variance > 0.0 else math.nan
        innovations[i, 0] = (records[i, 1] - means[group]) / sd
    return True


@njit(cache=True, nogil=True)
def _normal_likelihood(means, variances, records, out):
    """Write log N(x_i; m_g, v_g); False at an invalid group."""
    for i in range(records.shape[0]):
        group = group_of(records, i, means.shape[0])
        if group < 0:
            return False
        out[i] = -math.inf
        if variances[group] > 0.0:
            u = (records[i, 1] - means[group]) / math.sqrt(variances[group])
            out[i] = -0.5 * (u * u + LOG_2PI + math.log(variances[group]))
    return True


@njit(cache=True, nogil=True)
def _sum_squares(records, means, squares):
    """Add (x_i - m_g)^2 to its group's entry of `squares`; the groups must be valid."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        difference = records[i, 1] - means[group]
        squares[group] += difference * difference


class NormalGroups(Grouped):
    """Groups with normal outcomes; `_read` returns the mean and variance of each group."""

    innovations = Innovations("normal", 1)
    compiled = Compiled(_build_normals, _recover_normals, _normal_likelihood)

    def _check(self, records: Floats) -> None:
        groups, G = records[:, 0], self._n_groups
        wrong = (groups < 0) | (groups >= G) | (groups != np.floor(groups))
        right = f"records must hold whole numbers from 0 to {G - 1} as the group"
        refuse_records(wrong, right, groups)


# ------------------------------------------------------------------ two means


@njit(cache=True, nogil=True)
def _draw_means(sums, sizes, variances, prior_mean, prior_precision, means):
    """Turn the standard normals in ``means`` into a draw of m | v, x."""
    for g in range(means.shape[0]):
        precision = prior_precision + sizes[g] / variances[g]
        centre = (prior_mean * prior_precision + sums[g] / variances[g]) / precision
        means[g] = centre + means[g] / math.sqrt(precision)


@dataclass(repr=False, eq=False)
class TwoMeans(NormalGroups):
    """Two groups of known sizes, each with its own unknown mean and variance.

        outcome in group g ~ N(means_g, variances_g)
        means_g            ~ N(mean_mean, mean_sd^2)
        variances_g        ~ InverseGamma(variance_shape, variance_scale)

    The defaults suit outcomes within a few tens of units of 0 that vary by about one unit.

    Parameters
    ----------
    sizes : two ints
        The number of records in each group.
    mean_mean, mean_sd : float, default 0 and 10
        Prior mean and standard deviation of both means.
    variance_shape, variance_scale : float, default 3 and 2
        The prior mean of the variances is scale / (shape - 1).
    equal_variances : bool, default False
        Whether the groups share one variance.
    labels : two texts, optional
        Names of the groups. Default: "0" and "1".

    Notes
    -----
    Records are float64 of shape ``(n, 2)``: group and outcome, group 0 first. Parameters: ``means``
    (2,) and ``variances`` (2,), or ``variance`` () if they are equal. Derived: ``difference`` (),
    the second mean minus the first, and ``effect_size`` (), which divides it by the root mean
    square of the two standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import TwoMeans
    >>> model = TwoMeans(sizes=[1, 1])
    >>> model.build_records({"means": [1.0, 2.0], "variances": [1.0, 4.0]}, np.array([[0.5], [1]]))
    array([[0. , 1.5],
           [1. , 4. ]])
    """

    sizes: Sequence[int] | None = None
    _: KW_ONLY
    mean_mean: float = field(default=0.0, metadata=REAL)
    mean_sd: float = field(default=10.0, metadata=POSITIVE)
    variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    variance_scale: float = field(default=2.0, metadata=POSITIVE)
    equal_variances: bool = False
    labels: Sequence[str] | None = None

    number = 2
    derived = (Parameter("difference"), Parameter("effect_size"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.equal_variances = bool(self.equal_variances)
        one = Parameter("variance", (), "positive")
        variance = one if self.equal_variances else self._each("variances", "positive")
        self._variance = variance.name
        self.parameters = (self._each("means", "real"), variance)

    def _read(self, theta: Theta) -> tuple[Floats, Floats]:
        """Return the means and variances of both groups."""
        means = read_parameter(theta, "means", (2,))
        if self.equal_variances:
            return means, np.full(2, float(theta["variance"]))
        return means, read_parameter(theta, "variances", (2,))

    def sample_prior(self, rng: Generator) -> Theta:
        means = self.mean_mean + self.mean_sd * rng.standard_normal(2)
        gamma = rng.standard_gamma(self.variance_shape, () if self.equal_variances else 2)
        return {"means": means, self._variance: np.asarray(self.variance_scale / gamma)}

    def log_prior(self, theta: Theta) -> float:
        means, variances = self._read(theta)
        total = -2.0 * math.log(self.mean_sd) - LOG_2PI
        for mean in means.tolist():
            z = (mean - self.mean_mean) / self.mean_sd
            total -= 0.5 * z * z
        for variance in variances[:1] if self.equal_variances else variances:
            total += log_inverse_gamma(float(variance), self.variance_shape, self.variance_scale)
        return total

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        sums, sizes = self._totals(records)
        _, variances = self._read(theta)
        means = rng.standard_normal(2)
        _draw_means(sums, sizes, variances, self.mean_mean, self.mean_sd**-2, means)
        squares = np.zeros(2)
        _sum_squares(records, means, squares)
        if self.equal_variances:
            squares, sizes = squares.sum(), sizes.sum()
        gamma = rng.standard_gamma(self.variance_shape + 0.5 * sizes)
        variance = np.asarray((self.variance_scale + 0.5 * squares) / gamma)
        return {"means": means, self._variance: variance}

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the difference and the effect size at draws of theta."""
        means, variance = np.asarray(theta["means"]), np.asarray(theta[self._variance])
        difference = means[..., 1] - means[..., 0]
        if not self.equal_variances:
            variance = variance.mean(axis=-1)
        return {"difference": difference, "effect_size": difference / np.sqrt(variance)}


# ------------------------------------------------------------------ stratified means


@njit(cache=True, nogil=True)
def _weigh(squared, variance, totals, sizes, hyper):
    """Return P, M and sum_g log w_g; a group without records has w_g = 0 and is left out."""
    total, mean, log_weights = hyper[1], hyper[0] * hyper[1], 0.0
    for k in range(sizes.shape[0]):
        if sizes[k] > 0.0:
            weight = 1.0 / (squared + variance / sizes[k])
            total += weight
            mean += weight * totals[k] / sizes[k]
            log_weights += math.log(weight)
    return total, mean / total, log_weights


@njit(cache=True, nogil=True)
def _log_spread(x, variance, data):
    """Return the log density of x = log tau given v and the records, up to a constant.

    ``data`` holds the sums of the outcomes, (G,), the numbers of records, (G,), and (m_0, s_0^-2,
    s^-2). The prior density of log tau is that of tau, times tau.
    """
    totals, sizes, hyper = data
    squared = math.exp(2.0 * x)
    result = x - 0.5 * hyper[2] * squared
    total, mean, log_weights = _weigh(squared, variance, totals, sizes, hyper)
    result += 0.5 * (log_weights - math.log(total) - hyper[1] * (mean - hyper[0]) ** 2)
    for k in range(sizes.shape[0]):
        if sizes[k] > 0.0:
            weight = 1.0 / (squared + variance / sizes[k])
            result -= 0.5 * weight * (totals[k] / sizes[k] - mean) ** 2
    return result


@njit(cache=True, nogil=True)
def _scan(records, spread, variance, data, scale, uniforms, normals, gamma, out):
    """Fill `out` with mu, tau, m_1, ..., m_G and v by the scan of the module docstring."""
    totals, sizes, hyper = data
    n_groups = sizes.shape[0]
    means = out[2 : 2 + n_groups]
    rest = (variance, data)
    log_spread = slice_step(_log_spread, math.log(spread), rest, 1.0, of_array, uniforms)
    squared = math.exp(2.0 * log_spread)
    precision, mean, _ = _weigh(squared, variance, totals, sizes, hyper)
    location = mean + normals[0] / math.sqrt(precision)
    out[0] = location
    out[1] = math.exp(log_spread)
    for g in range(n_groups):
        precision = 1.0 / squared + sizes[g] / variance
        centre = (location / squared + totals[g] / variance) / precision
        means[g] = centre + normals[1 + g] / math.sqrt(precision)
    squares = np.zeros(n_groups)
    _sum_squares(records, means, squares)
    out[2 + n_groups] = (scale + 0.5 * squares.sum()) / gamma


@njit(cache=True, nogil=True)
def _scale(records, totals, sizes, factor, scaled):
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        centre = totals[group] / sizes[group]
        scaled[i, 0] = records[i, 0]
        scaled[i, 1] = centre + factor * (records[i, 1] - centre)


@dataclass(repr=False, eq=False)
class StratifiedMeans(Pooled, NormalGroups):
    """Groups of known sizes with normal outcomes, whose means share an unknown normal prior.

        outcome in group g ~ N(means_g, variance)
        means_g            ~ N(location, spread^2)
        location           ~ N(location_mean, location_sd^2)
        spread             ~ half-normal(spread_scale)
        variance           ~ InverseGamma(variance_shape, variance_scale)

    The defaults suit outcomes within a few tens of units of 0 that vary by about one unit.

    Parameters
    ----------
    sizes : two or more ints
        The number of records in each group.
    location_mean, location_sd : float, default 0 and 10
        The prior of the centre of the group means.
    spread_scale : float, default 2
        The prior scale of the standard deviation between group means.
    variance_shape, variance_scale : float, default 3 and 2
        The prior mean of the variance within a group is scale / (shape - 1).
    labels : texts, optional
        Names of the groups. Default: "0", "1", ...

    Notes
    -----
    Records are float64 of shape ``(n, 2)``: group and outcome, group 0 first. Parameters:
    ``location`` (), ``spread`` (), ``means`` (G,) and ``variance`` (). Derived: ``overall`` (),
    the mean of the group means, weighted by group size.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import StratifiedMeans
    >>> model = StratifiedMeans(sizes=[1, 1])
    >>> theta = {"location": 0.0, "spread": 1.0, "means": [1.0, 2.0], "variance": 4.0}
    >>> model.build_records(theta, np.array([[0.5], [1.0]]))
    array([[0., 2.],
           [1., 4.]])
    """

    sizes: Sequence[int] | None = None
    _: KW_ONLY
    location_mean: float = field(default=0.0, metadata=REAL)
    location_sd: float = field(default=10.0, metadata=POSITIVE)
    spread_scale: float = field(default=2.0, metadata=POSITIVE)
    variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    variance_scale: float = field(default=2.0, metadata=POSITIVE)
    labels: Sequence[str] | None = None

    _priors: ClassVar = {"variance": "inverse gamma"}
    group_parameter = "means"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parameters = (*self.parameters, Parameter("variance", (), "positive"))

    def _read(self, theta: Theta) -> tuple[Floats, Floats]:
        """Return the mean and variance of each group."""
        means = read_parameter(theta, "means", (self._n_groups,))
        return means, np.full(self._n_groups, float(theta["variance"]))

    @staticmethod
    def _theta(location: float, spread: float, means: Floats, variance: Any) -> Theta:
        shared = {"location": np.array(location), "spread": np.array(spread)}
        return shared | {"means": means, "variance": np.array(variance)}

    def sample_prior(self, rng: Generator) -> Theta:
        location, spread, means = self._draw_shared(rng)
        return self._theta(location, spread, means, self._draw_number("variance", rng))

    def log_prior(self, theta: Theta) -> float:
        shared = self._log_shared(theta, self._read(theta)[0])
        return shared + self._log_density("variance", theta)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        out = np.empty(3 + self._n_groups)
        _scan(
            records,
            float(theta["spread"]),
            float(theta["variance"]),
            (*self._totals(records), self._hyper),
            self.variance_scale,
            rng.random(POOL),
            rng.standard_normal(1 + self._n_groups),
            rng.standard_gamma(self.variance_shape + 0.5 * len(records)),
            out,
        )
        return self._theta(out[0], out[1], out[2:-1], out[-1])

    def scale_records(
        self, theta: Theta, records: ArrayLike, amount: float
    ) -> tuple[Theta, Floats, float]:
        """Push the records away from their group means; see the module docstring.

        Returns theta', the records, and the log ratio of the densities including the Jacobian.
        """
        records = self._read_records(records)
        totals, sizes = self._totals(records)
        before = float(theta["variance"])
        after = before * math.exp(amount)
        scaled = np.empty_like(records)
        _scale(records, totals, sizes, math.exp(0.5 * amount), scaled)
        location, spread = float(theta["location"]), float(theta["spread"])

        def given(variance: float) -> tuple[Floats, Floats, float]:
            """Return all a_g and sqrt(c_g), and sum_g log N(y_g; mu, tau^2 + v/n_g)."""
            within = variance + spread**2 * sizes
            off = totals - location * sizes
            centres = location + spread**2 * off / within
            sds = spread * np.sqrt(variance / within)
            some = sizes > 0
            fits = np.log(within[some]) + off[some] ** 2 / (sizes * within)[some]
            return centres, sds, -0.5 * float(fits.sum())

        (centres, sds, fit), (new_centres, new_sds, new_fit) = given(before), given(after)
        means, _ = self._read(theta)
        prior = self._prior_arguments["variance"]
        log_ratio = log_inverse_gamma(after, *prior) - log_inverse_gamma(before, *prior)
        new = {name: np.array(value, dtype=np.float64) for name, value in theta.items()}
        new["variance"] = np.array(after)
        new["means"] = new_centres + new_sds / sds * (means - centres)
        return new, scaled, log_ratio + amount + new_fit - fit


MODELS.add(TwoMeans)
MODELS.add(StratifiedMeans)
