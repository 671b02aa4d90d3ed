"""Tables of Poisson counts, with the number of records in each cell and in total unknown.

The cells c are all combinations of the levels of some variables, with independent counts
x_c ~ Poisson(m_c). If the number of records is published, the same x are conditioned on their sum:
the chain stays on tables with this sum, and nothing else changes.

Gamma means
-----------
`PoissonTable` has m_c ~ Gamma(a_c, b_c), with density proportional to m^(a-1) exp(-b m).
Integrating m_c out of Poisson(x_c; m_c) Gamma(m_c; a_c, b_c) gives

    p(x_c) proportional to Gamma(a_c + x_c) / x_c! (1 + b_c)^-x_c,

a negative binomial: `CountsPrior` with concentrations a_c and slopes -log(1 + b_c). Given x_c,
m_c is Gamma(a_c + x_c, b_c + 1).

Normal log means
----------------
    log m = D b,        b_j ~ N(mu_j, s_j^2), independently.

In `LogNormalTable`, D is the identity, so each m_c is log-normal. In `LogLinearTable`, b consists
of an intercept, the effects of each variable, and those of the chosen interactions. The effects of
a variable with J levels are Q g, with g in R^(J-1) and Q (J, J - 1) orthonormal with columns that
sum to 0 (Helmert's): they add up to 0, and with g ~ N(0, s^2 I) all levels are exchangeable. The
effects of an interaction are the Kronecker product of the Q of its variables times g, so D has
orthogonal columns.

The kernel for p(b | x) goes through the columns e of a matrix E, moving from b to b + t e by a
slice step (`slice_sampling.py`) in

    l(t) = t sum_c d_c x_c - sum_c m_c exp(d_c t) - sum_j (b_j + t e_j - mu_j)^2 / (2 s_j^2),

d = D e, with sums over the cells and coefficients that change. E may be any function of the counts,
which are held fixed. H = D' diag(x + 1/2) D + diag(1 / s^2) approximates minus the Hessian of
log p(b | x); with its Cholesky factor L, E = L^-T makes the steps nearly independent. For
`LogNormalTable` H is diagonal, and E = I.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from noiseaware.contract import CountsPrior, Floats, LogLinear, Theta
from noiseaware.maths.densities import LOG_2PI
from noiseaware.models.arguments import positive_number, read_parameter, real_number, table_levels
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.discrete import Table, concentrations
from noiseaware.models.ready import labelled
from noiseaware.models.slice_sampling import of_generator, slice_step
from noiseaware.registry import MODELS


class CountTable(Table):
    """The cells of a table of counts; a subclass adds the law of their means."""

    example: ClassVar[dict[str, Any]] = {"n_levels": [3, 2]}
    random_size = True
    n_levels: int | list[int]

    def _prepare(self, n_levels: int | Sequence[int], variables: Sequence[str] | None) -> None:
        """Store the levels and names of the variables; one number means cells without variables."""
        flat = np.ndim(n_levels) == 0
        right = "be the number of cells, or list the number of levels of each variable"
        levels = table_levels([n_levels] if flat else n_levels, right)
        self.n_levels = levels[0] if flat else levels
        self._lay_out(levels, ["cell"] if flat and variables is None else variables, flat=flat)
        self.n_cells = len(self.record_values)
        self.count_table = self._each("counts", "real")

    def _log_means(self, theta: Theta) -> Floats:
        """Return log m_c, (C,)."""
        raise NotImplementedError

    def sample_records(
        self, theta: Theta, n: int, rng: Generator, **index: ArrayLike
    ) -> NDArray[np.int64]:
        """Draw n records: given their number, each is in cell c with probability m_c / sum m."""
        logs = self._log_means(theta)
        shares = np.exp(logs - logs.max())
        return self.record_values[rng.choice(self.n_cells, n, p=shares / shares.sum())]

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log m_c of each record's cell, (n,)."""
        return self._log_means(theta)[self._cell_numbers(records)]

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta given all records of a table."""
        counts = np.bincount(self._cell_numbers(records), minlength=self.n_cells)
        return self.update_from_counts(theta, counts, rng)

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return a new theta, by a kernel that leaves p(theta | counts) invariant."""
        raise NotImplementedError


class PoissonTable(CountTable):
    """A table of independent Poisson counts whose means have gamma priors.

        counts_c ~ Poisson(means_c)
        means_c  ~ Gamma(shape, rate)

    Parameters
    ----------
    n_levels : int or sequence of int
        The number of cells, or J_1, ..., J_K, the levels of each variable; each at least 2.
    shape, rate : float or array_like, shape (J_1, ..., J_K), default 1 and 0.01
        The prior, one number for all cells or one for each. The prior mean is shape / rate, by
        default 100 records per cell.
    variables : sequence of str, optional
        K names, used as dimensions of the posterior.

    Notes
    -----
    Records are int64 of shape ``(n, K)``, levels from 0, or ``(n,)`` if `n_levels` is one number.
    Parameter: ``means`` (J_1, ..., J_K). The posterior also has ``counts``, the true table. If the
    number of records is unknown, set ``n_records=None`` in the release.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import PoissonTable
    >>> model = PoissonTable(3, shape=2.0, rate=0.1)
    >>> model.from_gammas(np.log([[1.1, 2.2, 11.0]]))["means"].round(6)
    array([[ 1.,  2., 10.]])
    """

    def __init__(
        self,
        n_levels: int | Sequence[int],
        shape: float | ArrayLike = 1.0,
        rate: float | ArrayLike = 0.01,
        variables: Sequence[str] | None = None,
    ) -> None:
        self._prepare(n_levels, variables)
        a = concentrations("shape", shape, self._shape)
        b = concentrations("rate", rate, self._shape)
        self.shape: float | list[Any] = a.tolist()
        self.rate: float | list[Any] = b.tolist()
        self._a, self._b = np.full(self._shape, a), np.full(self._shape, b)
        self.parameters = (self._each("means", "positive"),)
        self.counts_prior = CountsPrior(self._a.reshape(-1), slopes=-np.log1p(self._b.reshape(-1)))
        lgammas = np.array([math.lgamma(each) for each in self._a.flat])
        self._log_constant = float((self._a * np.log(self._b)).sum() - lgammas.sum())

    def _log_means(self, theta: Theta) -> Floats:
        means = read_parameter(theta, "means", self._shape)
        logs: Floats = np.log(np.maximum(means, SMALLEST)).reshape(-1)
        return logs

    def sample_prior(self, rng: Generator) -> Theta:
        return {"means": np.maximum(rng.standard_gamma(self._a) / self._b, SMALLEST)}

    def log_prior(self, theta: Theta) -> float:
        means = read_parameter(theta, "means", self._shape)
        if not (means > 0.0).all():
            return -math.inf
        terms = (self._a - 1.0) * np.log(means) - self._b * means
        return self._log_constant + float(terms.sum())

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return means drawn from their gamma distributions given the counts."""
        drawn = rng.standard_gamma(self._a + counts.reshape(self._shape)) / (self._b + 1.0)
        return {"means": np.maximum(drawn, SMALLEST)}

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of the means, given the logarithms of (b + 1) times the means."""
        means = np.exp(logs).reshape(-1, *self._shape) / (self._b + 1.0)
        return {"means": np.maximum(means, SMALLEST)}


# ------------------------------------------------------------------ normal log means

MOST_ENTRIES = 2**27
"""Maximum size of D: 1 GiB."""

LARGEST_LOG = 40.0
"""Largest log mean in the kernel: a count beyond e^40 = 2e17 is not exact as a double. Realistic
priors do not reach it."""


@njit(cache=True, nogil=True)
def log_target(t, total, cells, weights, logs, centre, precision):
    """Return l(t), up to a constant; `logs` are log m_c at t = 0, and `total` is d . x."""
    result = t * total - 0.5 * precision * (t - centre) * (t - centre)
    for i in range(cells.shape[0]):
        log_mean = logs[cells[i]] + weights[i] * t
        if log_mean > LARGEST_LOG:
            return -math.inf
        result -= math.exp(log_mean)
    return result


@njit(cache=True, nogil=True)
def scan(b, logs, counts, steps, changes, prior, rng):
    """Move b, and log m_c with it, in place, by a slice step along each direction.

    `steps` holds the columns of E, `changes` those of D E, in sparse form: where each column
    begins, its rows and its values. The log prior is a parabola in t with its top at `centre`.
    """
    start, entry, amount = steps
    first, cell, change = changes
    centres, precisions = prior
    for k in range(start.shape[0] - 1):
        own = slice(start[k], start[k + 1])
        cells, weights = cell[first[k] : first[k + 1]], change[first[k] : first[k + 1]]
        precision, pull, total, known = 0.0, 0.0, 0.0, 0.0
        for j, e in zip(entry[own], amount[own]):  # noqa: B905
            precision += precisions[j] * e * e
            pull += precisions[j] * e * (centres[j] - b[j])
        for i in range(cells.shape[0]):
            total += weights[i] * counts[cells[i]]
            known += weights[i] * weights[i] * counts[cells[i]]
        rest = (total, cells, weights, logs, pull / precision, precision)
        width = 3.0 / math.sqrt(precision + known)
        t = slice_step(log_target, 0.0, rest, width, of_generator, rng)
        for j, e in zip(entry[own], amount[own]):  # noqa: B905
            b[j] += t * e
        for i in range(cells.shape[0]):
            logs[cells[i]] += weights[i] * t


def _columns(matrix: sparse.csc_array) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data


class NormalTable(CountTable):
    """A table whose log means are D b; a subclass defines D and the prior of b."""

    def _normal(self, design: sparse.csc_array, centres: Floats, sds: Floats) -> None:
        """Store D, (C, P), and the prior of b."""
        self._design, self._centres, self._sds = design, centres, sds
        self.log_linear = LogLinear(design, centres, sds**-2.0, LARGEST_LOG)
        self._log_constant = float(-np.log(sds).sum() - 0.5 * len(sds) * LOG_2PI)

    def _coefficients(self, theta: Theta) -> Floats:
        parameter = self.parameters[0]
        return read_parameter(theta, parameter.name, parameter.shape).reshape(-1)

    def _theta(self, b: Floats) -> Theta:
        return {self.parameters[0].name: b.reshape(self.parameters[0].shape)}

    def _log_means(self, theta: Theta) -> Floats:
        return np.minimum(self._design @ self._coefficients(theta), LARGEST_LOG)

    def sample_prior(self, rng: Generator) -> Theta:
        return self._theta(self._centres + self._sds * rng.standard_normal(len(self._sds)))

    def log_prior(self, theta: Theta) -> float:
        z = (self._coefficients(theta) - self._centres) / self._sds
        return self._log_constant - 0.5 * float(z @ z)

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return a new theta by one scan of p(theta | counts)."""
        b = self._coefficients(theta).copy()
        steps = self._directions(counts)
        changes = sparse.csc_array(self._design @ steps)
        prior = (self._centres, self.log_linear.precisions)
        scan(b, self._log_means(theta), counts, _columns(steps), _columns(changes), prior, rng)
        return self._theta(b)

    def _directions(self, counts: NDArray[np.int64]) -> sparse.csc_array:
        """Return E, (P, P)."""
        weighted = self._design.T * (counts + 0.5)
        known = (weighted @ self._design).toarray() + np.diag(self.log_linear.precisions)
        return sparse.csc_array(np.linalg.inv(np.linalg.cholesky(known)).T)


class LogNormalTable(NormalTable):
    """A table of independent Poisson counts whose means have log-normal priors.

        counts_c    ~ Poisson(exp(log_means_c))
        log_means_c ~ N(log_mean, log_sd^2)

    Parameters
    ----------
    n_levels : int or sequence of int
        The number of cells, or J_1, ..., J_K, the levels of each variable; each at least 2.
    log_mean, log_sd : float, default 3 and 1.5
        The prior; the default median is e^3, about 20 records per cell.
    variables : sequence of str, optional
        K names, used as dimensions of the posterior.

    Notes
    -----
    Records are int64 of shape ``(n, K)``, levels from 0, or ``(n,)`` if `n_levels` is one number.
    Parameter: ``log_means`` (J_1, ..., J_K). The posterior also has ``counts``, the true table. If
    the number of records is unknown, set ``n_records=None`` in the release.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import LogNormalTable
    >>> model = LogNormalTable(2, log_mean=3.0)
    >>> model.log_likelihood({"log_means": np.array([2.0, 4.0])}, np.array([1, 0, 0]))
    array([4., 2., 2.])
    """

    def __init__(
        self,
        n_levels: int | Sequence[int],
        log_mean: float = 3.0,
        log_sd: float = 1.5,
        variables: Sequence[str] | None = None,
    ) -> None:
        self._prepare(n_levels, variables)
        self.log_mean = real_number("log_mean", log_mean)
        self.log_sd = positive_number("log_sd", log_sd)
        each = np.ones(self.n_cells)
        design = sparse.csc_array(sparse.eye_array(self.n_cells))
        self._normal(design, self.log_mean * each, self.log_sd * each)
        self.parameters = (self._each("log_means", "real"),)

    def _directions(self, counts: NDArray[np.int64]) -> sparse.csc_array:
        return self._design


class LogLinearTable(NormalTable):
    """A table of independent Poisson counts with a log-linear model of effects and interactions.

        counts_c        ~ Poisson(means_c)
        log means       = intercept + effects of each variable + interactions
        intercept       ~ N(intercept_mean, intercept_sd^2)
        coefficients_j  ~ N(0, effect_sd^2)      of effects and interactions

    The effects of a variable sum to 0 over its levels.

    Parameters
    ----------
    n_levels : sequence of int
        J_1, ..., J_K, the levels of each variable, each at least 2.
    interactions : sequence of sequences, optional
        Sets of interacting variables, by name or number; the interactions of their subsets are
        included. Default: all pairs.
    intercept_mean, intercept_sd : float, default 3 and 3
        The prior of the average log mean.
    effect_sd : float, default 1
        Prior standard deviation of each coefficient except the intercept.
    variables : sequence of str, optional
        K names, used as dimensions of the posterior.

    Notes
    -----
    Records are int64 of shape ``(n, K)``, levels from 0. Parameter: ``coefficients`` (P,), the
    intercept first. Derived: ``means`` (J_1, ..., J_K). The posterior also has ``counts``, the true
    table. If the number of records is unknown, set ``n_records=None`` in the release.

    Examples
    --------
    >>> from noiseaware.models import LogLinearTable
    >>> model = LogLinearTable([2, 3], interactions=[], variables=["sex", "age"])
    >>> list(model.parameters[0].coords["coefficient"])
    ['intercept', 'sex 1', 'age 1', 'age 2']
    """

    def __init__(
        self,
        n_levels: Sequence[int],
        interactions: Sequence[Sequence[int | str]] | None = None,
        intercept_mean: float = 3.0,
        intercept_sd: float = 3.0,
        effect_sd: float = 1.0,
        variables: Sequence[str] | None = None,
    ) -> None:
        self._prepare(n_levels, variables)
        if self._width is None:
            raise ValueError(f"n_levels must list the levels of each variable; got {n_levels!r}")
        self.intercept_mean = real_number("intercept_mean", intercept_mean)
        self.intercept_sd = positive_number("intercept_sd", intercept_sd)
        self.effect_sd = positive_number("effect_sd", effect_sd)
        self.interactions = [
            [self.variables[k] for k in self._numbers(part)]
            for part in (
                combinations(range(self._width), 2) if interactions is None else interactions
            )
        ]
        terms = self._terms([self._numbers(part) for part in self.interactions])
        labels, design = self._effects(terms)
        P = design.shape[1]
        centres, sds = np.zeros(P), np.full(P, self.effect_sd)
        centres[0], sds[0] = self.intercept_mean, self.intercept_sd
        self._normal(design, centres, sds)
        self.parameters = (labelled("coefficients", "real", "coefficient", labels),)
        self.derived = (self._each("means", "positive"),)

    def _numbers(self, part: Sequence[int | str]) -> list[int]:
        """Return the numbers of a set of variables, given by name or number."""
        listed = [] if isinstance(part, str) else list(part)
        found = [self.variables.index(v) if v in self.variables else v for v in listed]
        K = len(self.variables)
        if len(set(found)) < max(2, len(found)) or not all(k in range(K) for k in found):
            raise ValueError(
                "interactions must be sets of two or more of the variables "
                f"{', '.join(self.variables)}, by name or number; got {part!r}"
            )
        return sorted(int(k) for k in found)

    def _terms(self, interactions: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Return the sets of variables with effects: single ones, and all within interactions."""
        found: set[tuple[int, ...]] = {(k,) for k in range(len(self._shape))}
        for part in interactions:
            found |= {t for size in range(2, len(part) + 1) for t in combinations(part, size)}
        return [(), *sorted(found, key=lambda term: (len(term), term))]

    def _effects(self, terms: Sequence[tuple[int, ...]]) -> tuple[list[str], sparse.csc_array]:
        """Return a name for each coefficient, and D."""
        P = sum(math.prod(self._shape[k] - 1 for k in term) for term in terms)
        if P * self.n_cells > MOST_ENTRIES:
            raise ValueError(
                f"interactions must be fewer, or of fewer levels: {P:,} coefficients of "
                f"{self.n_cells:,} cells are more than fit in memory"
            )
        labels, parts = [], []
        for term in terms:
            columns: Any = np.ones((1, 1))
            for k, J in enumerate(self._shape):
                columns = np.kron(columns, helmert(J) if k in term else np.ones((J, 1)))
            parts.append(columns)
            name = ":".join(self.variables[k] for k in term)
            places = np.ndindex(*(self._shape[k] - 1 for k in term))
            labels += [" ".join([name, *(str(i + 1) for i in place)]) for place in places]
        labels[0] = "intercept"
        return labels, sparse.csc_array(np.hstack(parts))

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the means of the cells at draws of theta."""
        b = np.asarray(theta["coefficients"])
        logs = np.minimum(b @ self._design.T.toarray(), LARGEST_LOG)
        return {"means": np.exp(logs).reshape(*b.shape[:-1], *self._shape)}


def helmert(levels: int) -> Floats:
    """Return Q, (J, J - 1): orthonormal columns that sum to 0."""
    q = np.zeros((levels, levels - 1))
    for j in range(1, levels):
        q[:j, j - 1], q[j, j - 1] = 1.0, -j
        q[:, j - 1] /= math.sqrt(j * (j + 1))
    return q


MODELS.add(PoissonTable)
MODELS.add(LogNormalTable)
MODELS.add(LogLinearTable)
