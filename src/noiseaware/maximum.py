"""Maximum likelihood from a private release, and the posterior mode, by Monte Carlo EM.

The likelihood p(s_dp | theta) is an integral over all databases. EM needs only draws of x from
p(x | theta, s_dp), which the sampler's moves of records make when theta is held fixed; the paper's
Discussion mentions this use. In unconstrained coordinates v, with the complete data's score
S(x) = sum_i d log f(x_i | theta(v)) / d v and its derivative H(x),

    score         d log p(s_dp) / dv      =  E[S]                     (Fisher's identity),
    information  -d^2 log p(s_dp) / dv^2  =  E[-H] - Var[S]           (Louis 1982),

where all moments are over x given theta and s_dp. S and H are finite differences of the model's
`log_likelihood`. With C = E[-H] = L L' and Var[L^-1 S] = W diag(1 - f) W', f_k is the share of the
complete data's information that the release preserves in direction k. The gradient form of EM
(Lange 1995) takes the step C^-1 E[S], which crawls where f is small, as it is under privacy. The
step here is Newton's,

    v + L^-T W diag(1 / f) W' L^-1 E[S],

with shares f that are too small or too uncertain replaced by larger ones, so that it goes uphill.

**Stopping.** In direction k the step is a_k / sqrt(f_k) standard errors of the estimate,
a = W' L^-1 E[S], with Monte Carlo error sqrt((1 - f_k) / (ESS_k f_k)) in the same unit. Steps
continue while they are longer than chance would make them. Then draws are added until the error
reaches the target and each share f_k is known well enough. The last step must be shorter than the
square root of the target, so that what Newton's step leaves, of second order, is below the target.

**The posterior mode** adds log p(theta) and its derivatives.

**Summed out.** If a model knows p(s_i | theta) of each record exactly (`summed_kernel`), the same
steps use derivatives of the summed logarithms, and there is no Monte Carlo error.

References
----------
Lange, K. (1995). A gradient algorithm locally equivalent to the EM algorithm. JRSS B 57(2).
Louis, T. A. (1982). Finding the observed information matrix when using the EM algorithm. JRSS B 44.
Wei, G. and Tanner, M. (1990). A Monte Carlo implementation of the EM algorithm and the poor man's
    data augmentation algorithms. JASA 85.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noiseaware import models
from noiseaware.agreement.fit import check_fit
from noiseaware.basics.arguments import positive, seed_number
from noiseaware.basics.interrupts import held_back
from noiseaware.contract import Floats, Model, Size, Theta, model_abilities
from noiseaware.evidence import variance_of_mean
from noiseaware.maths.coordinates import Coordinates
from noiseaware.parameters import Parameter
from noiseaware.release import Release
from noiseaware.results.posterior import with_derived
from noiseaware.running.run import prepare
from noiseaware.sampler import chain
from noiseaware.sampler.default import moves_of_records
from noiseaware.sampler.target import Target

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Maximum", "mle"]

CHAINS = 4
WARMUP, FIRST = 300, 100
"""For each chain: iterations of the default moves, and draws, to find a starting point."""

LEAST_DRAWS, MOST_DRAWS = 250, 16_000
"""Databases imputed by each chain for one evaluation: initial and largest number."""

MOST_LOOKS, PATIENCE = 100, 15
"""The most steps, and the number after which draws are added even while the likelihood still rises:
only more draws tell a slow creep along a ridge from a slope."""

HESSIANS = 16
"""Databases of each chain at which to take second derivatives."""

STEP, STEP_TWICE = 1e-3, 5e-3
"""Step sizes of first and second differences, in units of one record's scale of a coordinate."""

SILENT = 1e-9
"""Slopes smaller than this, relative to the largest, count as rounding errors of 0."""

LEAST_SHARE = 0.02
"""In a step, f is at least this and at least three of its own errors. At the end, a direction with
smaller f counts as flat."""

KNOWN = 0.4
"""Largest relative error of f; that of a standard error is half of it."""

WIDE = 3.0
"""A parameter counts as being on the edge of its support if the standard error of the logarithm of
a positive number, or of the log odds, exceeds this."""


@dataclass(frozen=True)
class Maximum:
    """The maximum of the likelihood or of the posterior density.

    Attributes
    ----------
    estimate
        theta and the quantities derived from it, one array per name. NaN if the likelihood does not
        depend on a parameter, such as what the groups of a hierarchical model share.
    standard_error
        From the observed information, by the delta method; NaN likewise.
    monte_carlo_error
        The standard error of `estimate` due to simulation: how much it varies between seeds.
    draws
        The number of imputed databases.
    """

    estimate: Theta
    standard_error: Theta
    monte_carlo_error: Theta
    draws: int
    parameters: tuple[Parameter, ...] = field(repr=False)

    def table(self) -> DataFrame:
        """Return one row for each entry of theta."""
        from pandas import DataFrame

        rows = [name for p in self.parameters for name in p.labels]
        columns = {
            column: np.concatenate(
                [np.ravel(getattr(self, column)[p.name]) for p in self.parameters]
            )
            for column in ("estimate", "standard_error", "monte_carlo_error")
        }
        return DataFrame(columns, index=rows)

    def __str__(self) -> str:
        return self.table().to_string(float_format=lambda x: f"{x:.4g}")


def mle(
    model: Model,
    release: Release,
    *,
    with_prior: bool = False,
    error: float = 0.1,
    size: Size | None = None,
    derived: Mapping[str, Any] | None = None,
    random_seed: int | None = None,
) -> Maximum:
    """Maximise the likelihood p(s_dp | theta) of a model, or its product with the prior.

    The search starts at a posterior draw and climbs to a maximum; there may be others.

    Parameters
    ----------
    model
        What generated the records; it needs `log_likelihood`.
    release : Release
        The private numbers and the mechanism that made them.
    with_prior : bool
        True: find the mode of the posterior density of theta (MAP); the model then needs
        `log_prior`.
    error : float
        The target Monte Carlo error, in standard errors of the estimate.
    size
        A prior for the number of records, if the release does not give it; as for
        `noiseaware.sample`.
    derived : mapping, optional
        Further quantities computed from the parameters; as for `noiseaware.sample`.
    random_seed : int, optional
        Same seed, same answer.

    Returns
    -------
    Maximum

    Examples
    --------
    >>> import noiseaware as na
    >>> release = na.Release([9.0], na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0), 12)
    >>> found = na.mle(na.models.Bernoulli(), release, random_seed=1)
    >>> bool(abs(found.estimate["probability"] - 0.75) < 0.03)
    True
    """
    if derived is not None:
        model = models.derived(model, derived)
    error, seeds = positive("error", error), np.random.SeedSequence(seed_number(random_seed))
    check_fit(model, release, size)
    target, moves = prepare(model, release, None, size)
    able, summed = target.abilities, target.summed_kernel is not None
    if not summed and able.log_likelihood is None:
        raise ValueError(
            f"mle needs a model with log_likelihood(theta, records); {able.name} has none"
        )
    if with_prior and able.log_prior is None:
        raise ValueError(f"mle needs a model with log_prior(theta); {able.name} has none")
    kind = Summed if summed else Imputed
    likelihood = kind(target, moves, chain.generators(seeds, CHAINS), with_prior)
    v, look = _climb(likelihood, error)
    return _described(likelihood, v, look)


# ------------------------------------------------------------------ derivatives


def gradient(function: Callable[[Floats], Any], v: Floats, widths: Floats) -> Floats:
    """Return the derivatives of a function's values by central differences, (p, ...)."""
    pairs = zip(np.diag(widths), widths, strict=True)
    return np.array(
        [(function(v + step) - function(v - step)) / (2.0 * width) for step, width in pairs]
    )


def hessian(function: Callable[[Floats], Any], v: Floats, widths: Floats) -> Floats:
    """Return the second derivatives of a function's values, (p, p, ...).

    With F(i) = f(v + h_i) + f(v - h_i) and F(i, j) likewise for h_i + h_j, the entry is
    (F(i, j) - F(i) - F(j) + 2 f(v)) / (2 h_i h_j), and on the diagonal (F(i) - 2 f(v)) / h_i^2.
    """
    steps, middle = np.diag(widths), function(v)
    single = [function(v + step) + function(v - step) for step in steps]
    made = np.empty((len(v), len(v), *np.shape(middle)))
    for i, step in enumerate(steps):
        made[i, i] = (single[i] - 2.0 * middle) / widths[i] ** 2
        for j in range(i):
            both = step + steps[j]
            pair = function(v + both) + function(v - both)
            bent = (pair - single[i] - single[j] + 2.0 * middle) / 2.0
            made[i, j] = made[j, i] = bent / (widths[i] * widths[j])
    return made


# ------------------------------------------------------------------ evaluating the likelihood


class Look(NamedTuple):
    """The likelihood evaluated at one v, in the directions L^-T W; (p,) each."""

    directions: Floats  # L^-T W, (p, p)
    slopes: Floats  # a, the score along the directions, in units of the complete data's information
    shares: Floats  # f
    slope_errors: Floats  # of Monte Carlo
    share_errors: Floats
    scales: Floats  # what one record says of each coordinate: the root of n / C_jj

    @property
    def usable(self) -> Floats:
        """The shares that a step uses."""
        return np.maximum(self.shares, np.maximum(LEAST_SHARE, 3.0 * self.share_errors))

    @property
    def step(self) -> Floats:
        """Newton's step, shortened so that no coordinate moves more than one record's scale."""
        whole = self.directions @ (self.slopes / self.usable)
        return whole / max(1.0, float(np.max(np.abs(whole) / self.scales)))

    @property
    def length(self) -> float:
        """The length of the step in standard errors of the estimate."""
        return float(np.linalg.norm(self.slopes / np.sqrt(self.usable)))

    @property
    def errors(self) -> Floats:
        """The Monte Carlo errors of the step, in standard errors of the estimate."""
        return self.slope_errors / np.sqrt(self.usable)

    def covariance(self, variances: Floats) -> Floats:
        """Return the covariance of v from variances along the directions."""
        return (self.directions * variances) @ self.directions.T


def root(information: Floats) -> Floats:
    """Return L^-1 with L L' = C; negative and very small eigenvalues are replaced."""
    spread = np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(spread, spread))
    values = np.maximum(np.abs(values), 1e-4)
    return (vectors / np.sqrt(values)).T / spread


class Likelihood:
    """A likelihood to be evaluated at successive v; `draws` counts the imputed databases."""

    draws = 0

    def __init__(
        self, target: Target, moves: Any, rngs: list[np.random.Generator], with_prior: bool
    ) -> None:
        self.target, self.with_prior = target, with_prior
        kind = "the posterior density" if with_prior else "the likelihood"
        self.name = f"{kind} of {target.abilities.name}"
        self.advice = f"try {'a narrower prior' if with_prior else 'with_prior=True'}, or sample"
        self.coordinates = Coordinates(target.abilities.parameters)
        self.active = np.arange(self.coordinates.size)
        self.v = np.zeros(self.coordinates.size)
        self.scales = np.ones(self.coordinates.size)
        self.leave_out(self.begin(moves, rngs))

    def begin(self, moves: Any, rngs: list[np.random.Generator]) -> Floats:
        """Choose a starting v; return the absolute slope of the likelihood in each coordinate."""
        raise NotImplementedError

    def theta(self, v: Floats) -> Theta:
        """Return theta; v holds only the coordinates that the likelihood depends on."""
        whole = self.v.copy()
        whole[self.active] = v
        return self.coordinates.from_vector(whole)[0]

    def log_prior(self, v: Floats) -> float:
        """Return log p(theta(v))."""
        return float(self.target.log_prior(self.theta(v)))

    def prior(self, v: Floats, widths: Floats) -> tuple[Floats, Floats]:
        """Return gradient and information of the prior, or zeros without one."""
        if not self.with_prior:
            return np.zeros(len(v)), np.zeros((len(v), len(v)))
        slope = gradient(self.log_prior, v, STEP * widths)
        return slope, -hessian(self.log_prior, v, STEP_TWICE * widths)

    def leave_out(self, slopes: Floats) -> None:
        """Drop the coordinates that the likelihood does not depend on; NaN counts as no slope."""
        if not self.with_prior:
            self.active = self.active[slopes > SILENT * np.nanmax(slopes, initial=1e-300)]
        if not len(self.active):
            raise ValueError(
                f"the log_likelihood of {self.target.abilities.name} must depend on theta; it is "
                "the same wherever theta is moved"
            )
        self.scales = self.scales[self.active]


class Summed(Likelihood):
    """log p(s_dp | theta) as a sum over records that the model knows exactly."""

    def begin(self, moves: Any, rngs: list[np.random.Generator]) -> Floats:
        """Start where the kernel with the records summed out starts."""
        kernel = self.target.summed_kernel
        self.v = self.coordinates.to_vector(kernel.theta(kernel.start(rngs[0])[0]))
        return np.abs(self._scores(self.v)).max(axis=0)

    def _log_p(self, v: Floats) -> Floats:
        point = self.target.summed_kernel.point(self.theta(v))
        return np.asarray(point.summed.log_p)

    def _scores(self, v: Floats) -> Floats:
        return gradient(self._log_p, v, STEP * self.scales).T

    def look(self, v: Floats, draws: int) -> Look:
        """Evaluate the likelihood; C is the sum of the squares of the records' scores."""
        scores = self._scores(v)
        own = -hessian(lambda there: float(self._log_p(there).sum()), v, STEP_TWICE * self.scales)
        slope, curvature = self.prior(v, self.scales)
        complete = scores.T @ scores + curvature
        self.scales = np.sqrt(len(scores) / np.maximum(np.abs(np.diag(complete)), 1e-300))
        whiten = root(complete)
        shares, turn = np.linalg.eigh(whiten @ (own + curvature) @ whiten.T)
        nothing = np.zeros(len(v))
        slopes = turn.T @ (whiten @ (scores.sum(axis=0) + slope))
        return Look(whiten.T @ turn, slopes, shares, nothing, nothing, self.scales)


class Imputed(Likelihood):
    """log p(s_dp | theta) as an integral over databases, imputed by chains with theta held."""

    def begin(self, moves: Any, rngs: list[np.random.Generator]) -> Floats:
        """Start at a typical draw of the posterior."""
        target, schedule = self.target, chain.Schedule(WARMUP, FIRST)
        names = [p.name for p in target.abilities.parameters]
        self.states, vectors = [], []
        for rng in rngs:
            state = chain.start(target, moves, rng)
            state, drawn = chain.run_through(target, moves, schedule, state)
            self.states.append(state)
            for i in range(FIRST):
                theta = {name: drawn.theta[name][i] for name in names}
                vectors.append(self.coordinates.to_vector(theta))
        self.v, self.scales = _typical(np.array(vectors))
        self.moves, self.warmed = moves_of_records(target), False
        scores = gradient(self._log_f(self.states[0].records), self.v, STEP * self.scales)
        return np.abs(scores) * self.scales

    def _log_f(self, records: Any) -> Callable[[Floats], float]:
        """Return log f(x | theta(v)) of a database as a function of v."""
        log_likelihood: Any = self.target.abilities.log_likelihood
        return lambda v: float(np.sum(log_likelihood(self.theta(v), records)))

    def _hold(self, v: Floats) -> Target:
        """Set theta in the chains; the first time, let the moves tune themselves."""
        theta = self.theta(v)
        held = self.target.given(theta)
        for i, state in enumerate(self.states):
            state.theta = theta
            if not self.warmed:
                state.iteration = 0
                state.tunings = [move.start(held, state) for move in self.moves]
                schedule = chain.Schedule(WARMUP, 0)
                self.states[i], _ = chain.advance(held, self.moves, schedule, state, WARMUP)
        self.warmed = True
        return held

    def _derivatives(self, v: Floats) -> tuple[Callable[[Any], Floats], Callable[[Any], Floats]]:
        """Return S(x) and -H(x) at v, as functions of the records that a state holds.

        For counts they are linear: sums of the derivatives of each possible record's log f.
        """
        small, large = STEP * self.scales, STEP_TWICE * self.scales
        if not self.target.on_counts:
            return (
                lambda records: gradient(self._log_f(records), v, small),
                lambda records: -hessian(self._log_f(records), v, large),
            )
        log_values = self.target.log_values
        slopes = gradient(lambda there: log_values(self.theta(there)), v, small)
        bends = hessian(lambda there: log_values(self.theta(there)), v, large)
        return lambda counts: slopes @ counts, lambda counts: -(bends @ counts)

    def _impute(self, v: Floats, draws: int) -> tuple[Floats, Floats]:
        """Return S of databases given theta(v), (chain, draw, p), and -H of some, (m, p, p)."""
        held, bent = self._hold(v), []
        score, bend = self._derivatives(v)
        scores = np.empty((CHAINS, draws, len(v)))
        every = max(1, draws // HESSIANS)
        with held_back() as let_go:
            for c, state in enumerate(self.states):
                for d in range(-(draws // 4), draws):  # before 0, on the way from the last theta
                    let_go()
                    chain.iterate(held, self.moves, state)
                    if d >= 0:
                        scores[c, d] = score(state.records)
                    if d >= 0 and d % every == 0:
                        bent.append(bend(state.records))
        self.draws += CHAINS * draws
        return scores, np.array(bent)

    def look(self, v: Floats, draws: int) -> Look:
        """Evaluate the likelihood from `draws` databases of each chain."""
        scores, bent = self._impute(v, draws)
        slope, curvature = self.prior(v, self.scales)
        complete = bent.mean(axis=0) + curvature
        n = np.mean([len(state.records) for state in self.states])
        whiten = root(complete)
        centred = (scores - scores.mean(axis=(0, 1))) @ whiten.T
        squares = np.einsum("cdi,cdj->ij", centred, centred)
        lost, turn = np.linalg.eigh(squares / centred[..., 0].size)
        shares = np.diag(turn.T @ whiten @ complete @ whiten.T @ turn) - lost
        slopes = turn.T @ (whiten @ (scores.mean(axis=(0, 1)) + slope))
        along = centred @ turn
        slope_errors = np.sqrt([variance_of_mean(z) for z in np.moveaxis(along, 2, 0)])
        spreads = [variance_of_mean(z * z) for z in np.moveaxis(along, 2, 0)]
        curved = np.einsum("ki,mij,kj->mk", turn.T @ whiten, bent, turn.T @ whiten)
        share_errors = np.sqrt(np.array(spreads) + curved.var(axis=0) / len(curved))
        self.scales = np.sqrt(n / np.maximum(np.abs(np.diag(complete)), 1e-300))
        return Look(whiten.T @ turn, slopes, shares, slope_errors, share_errors, self.scales)


def _typical(vectors: Floats) -> tuple[Floats, Floats]:
    """Return the draw nearest to the medians of the coordinates, and the widths of these.

    The medians themselves might be a saddle between two modes.
    """
    middle = np.median(vectors, axis=0)
    widths = np.maximum(1.5 * np.median(np.abs(vectors - middle), axis=0), 1e-9)
    distances = (((vectors - middle) / widths) ** 2).sum(axis=1)
    return vectors[int(np.argmin(distances))], widths


# ------------------------------------------------------------------ the climb


def _climb(likelihood: Any, error: float) -> tuple[Floats, Look]:
    """Take steps until the stopping rule in the module's description is met."""
    v, draws = likelihood.v[likelihood.active], LEAST_DRAWS
    for looks in range(MOST_LOOKS):
        look = likelihood.look(v, draws)
        v = v + look.step
        worst = float(look.errors.max())
        chance = 3.0 * float(np.linalg.norm(look.errors))
        rises = look.length > max(math.sqrt(error), chance)
        if rises and looks < PATIENCE:
            continue
        _check_not_flat(likelihood, look, 4.0)
        unsure = look.share_errors > KNOWN * np.maximum(look.shares, 0.0)
        enough = worst <= error and not unsure.any()
        if enough and look.length <= math.sqrt(error):
            return v, look
        if draws >= MOST_DRAWS and not rises:
            _check_not_flat(likelihood, look, -2.0)
            return v, look
        wanted = 2.0 if rises or unsure.any() else (worst / error) ** 2
        draws = min(MOST_DRAWS, int(draws * min(4.0, max(1.2 * wanted, 1.0))) + 1)
    raise ValueError(
        f"{likelihood.name} must have a maximum; after {MOST_LOOKS} steps it still rises: "
        f"{likelihood.advice}"
    )


def _check_not_flat(likelihood: Any, look: Look, errors: float) -> None:
    """Raise ValueError if a share plus `errors` of its errors is below `LEAST_SHARE`."""
    if (look.shares + errors * look.share_errors >= LEAST_SHARE).all():
        return
    direction = look.directions[:, int(np.argmin(look.shares))]
    # The relative change of each number of theta along this direction.
    step = direction / max(float(np.max(np.abs(direction) / likelihood.scales)), 1e-300)
    v = likelihood.v[likelihood.active]
    thetas = [likelihood.theta(v + sign * step) for sign in (-0.5, 0.5)]
    low, high = (np.concatenate([np.ravel(x) for x in theta.values()]) for theta in thetas)
    changes = np.abs((high - low) / np.maximum(np.abs(low) + np.abs(high), 1e-12))
    names = [name for p in likelihood.target.abilities.parameters for name in p.labels]
    raise ValueError(
        f"{likelihood.name} must not be flat; the release says too little, less than "
        f"{LEAST_SHARE:.0%} of what the records would, of {names[int(np.argmax(changes))]}, alone "
        f"or with others: {likelihood.advice}"
    )


# ------------------------------------------------------------------ the answer


def _described(likelihood: Any, v: Floats, look: Look) -> Maximum:
    """Return the maximum by parameter name, with standard errors from the delta method."""
    model = likelihood.target.model
    shown = model_abilities(model).shown
    estimate = _flat(model, likelihood.theta(v))
    slopes = gradient(lambda there: _flat(model, likelihood.theta(there)), v, STEP * look.scales)
    missing = ~(np.abs(slopes) > 0.0).any(axis=0)
    spread = look.covariance(1.0 / look.usable)
    noise = look.covariance((look.slope_errors / look.usable) ** 2)
    variances = (np.einsum("ik,ij,jk->k", slopes, matrix, slopes) for matrix in (spread, noise))
    parts = [estimate, *map(np.sqrt, variances)]
    for part in parts:
        part[missing] = np.nan
    _check_edges(likelihood, parts[0], parts[1])
    ends, named = np.cumsum([p.size for p in shown])[:-1], []
    for part in parts:
        pairs = zip(shown, np.split(part, ends), strict=True)
        named.append({p.name: x.reshape(p.shape) for p, x in pairs})
    return Maximum(named[0], named[1], named[2], likelihood.draws, shown)


def _flat(model: Model, theta: Theta) -> Floats:
    whole = with_derived(model, {name: np.asarray(x)[np.newaxis] for name, x in theta.items()})
    return np.concatenate([np.ravel(whole[p.name]) for p in model_abilities(model).shown])


def _check_edges(likelihood: Any, estimate: Floats, error: Floats) -> None:
    at = 0
    for parameter in likelihood.target.abilities.parameters:
        values, errors = (part[at : at + parameter.size] for part in (estimate, error))
        at += parameter.size
        far = np.flatnonzero(errors > WIDE * _room(parameter, values))
        if len(far):
            raise ValueError(
                f"{likelihood.name} must have its maximum inside the support of theta; it rises as "
                f"{parameter.labels[far[0]]} goes to the edge (now {values[far[0]]:.2g}): "
                f"{likelihood.advice}"
            )


def _room(parameter: Parameter, values: Floats) -> Floats:
    if parameter.support == "unit":
        return np.minimum(values, 1.0 - values)
    if parameter.support in ("positive", "simplex", "table"):
        return values
    room = np.full(parameter.size, np.inf)
    if parameter.support == "covariance":
        diagonal = np.arange(parameter.shape[0]) * (parameter.shape[0] + 1)
        room[diagonal] = values[diagonal]
    return room
