"""The evidence p(s_dp) of a model: the prior probability (density) of the release.

The ratio of the evidences of two models of one release is their Bayes factor. With
l(x) = log g(s_dp, T(x)), normalised in s_dp, the evidence is an expectation over the prior,

    p(s_dp) = E[exp(l(x))],    theta ~ p(theta),  x_i ~ f(. | theta),

but the prior hardly ever draws its largest terms. So g is tempered. A ladder of distributions leads
from the prior, b = 0, to the posterior, b = 1:

    p_b(theta, x)  proportional to  p(theta) prod_i f(x_i | theta) g(s_dp, T(x))^b,

with normalising constants Z(0) = 1 and Z(1) = p(s_dp). The moves that sample the posterior sample
each of them, with g^b in place of g. **Bridge sampling** (Meng and Wong 1996; in physics, Bennett
1976) estimates the ratio of the constants of neighbours b < b' from draws of both. With
u(x) = (b' - b) l(x) - c, N and N' draws, s = N / (N + N') and s' = 1 - s,

    A = mean over the draws of b  of  e^u / (s + s' e^u),
    B = mean over the draws of b' of  1 / (s + s' e^u),

c = log Z(b') - log Z(b) solves A = B =: a. No other estimate from draws of two distributions has a
smaller variance. Stepping stones, log mean exp((b' - b) l) over the draws of b alone, use only half
of the draws.

**The error.** To first order, a draw x of level k shifts the sum of all c by phi_k(x) / N_k, where

    phi_k(x) = [e^u / (s + s' e^u)]_{k, k+1} / a_k  -  [1 / (s + s' e^u)]_{k-1, k} / a_{k-1},

so the variance of log p(s_dp) is the sum over the levels of Var(phi_k) / ESS(phi_k), with the
effective sample size of the chains. The reported error is its square root with some slack.

**The ladder** is built from the bottom: given b, the next b' is where the weights exp((b' - b) l)
of pilot draws of b, used for nothing else, have an effective share of one half. Chains start where
those of the rung below ended. At the top, the error so far determines how many more draws are
needed, and each rung gets draws in proportion to the standard deviation of its phi_k.

References
----------
Bennett, C. (1976). Efficient estimation of free energy differences from Monte Carlo data. Journal
    of Computational Physics 22.
Meng, X.-L. and Wong, W. H. (1996). Simulating ratios of normalizing constants via a simple
    identity. Statistica Sinica 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.special import expit, logsumexp

from noiseaware.agreement.fit import check_fit
from noiseaware.basics.arguments import positive, seed_number
from noiseaware.contract import Floats, Model, Move, Size
from noiseaware.mechanisms.ready import log_normaliser
from noiseaware.release import Release
from noiseaware.running.run import pick_moves, prepare
from noiseaware.sampler import chain
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

__all__ = ["Evidence", "evidence"]

CHAINS = 4
WARMUP, PILOT, FIRST = 200, 100, 300
"""For each chain on each rung: tuning iterations, pilot draws from which the next rung is chosen,
and draws for the estimate in the first round."""

SHARE = 0.5
"""Effective share of the weights between neighbouring rungs."""

SLACK = 1.15
"""Inflates the stated error. Effective sample sizes are themselves estimates, good to some ten per
cent; with this factor the error covers the truth as often as it says (counted in the tests)."""

MOST_RUNGS = 200
MOST_MORE = 30.0
"""The most draws in the second round, as a multiple of the first."""

FAR = (5.0, 15.0, 1e3, 1e6, 1e12)
FLAT = 1e-9
"""How far to look for the prior density to fall off, and by how much it must."""


@dataclass(frozen=True)
class Evidence:
    """The log evidence with its Monte Carlo error.

    Attributes
    ----------
    log_evidence
        log p(s_dp): a density for continuous noise, a probability for discrete noise.
    error
        Its standard error.
    powers
        The ladder, from 0 to 1.
    """

    log_evidence: float
    error: float
    powers: tuple[float, ...] = field(repr=False)

    def __str__(self) -> str:
        return f"log evidence {self.log_evidence:.3f}, standard error {self.error:.3f}"


def evidence(
    model: Model,
    release: Release,
    *,
    error: float = 0.015,
    size: Size | None = None,
    random_seed: int | None = None,
    moves: Sequence[Move] | None = None,
) -> Evidence:
    """Estimate log p(s_dp) of a model.

    Parameters
    ----------
    model
        What generated the records. It needs `sample_prior`, and its prior must be proper.
    release : Release
        The private numbers and the mechanism that made them.
    error : float
        The target standard error.
    size
        A prior for the number of records, if the release does not give it; as for
        `noiseaware.sample`.
    random_seed : int, optional
        Same seed, same answer.
    moves : sequence of moves, optional
        As for `noiseaware.sample`.

    Returns
    -------
    Evidence

    Examples
    --------
    >>> import noiseaware as na
    >>> release = na.Release([9.0], na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0), 10)
    >>> fair = na.evidence(na.models.Bernoulli(a=50.0, b=50.0), release, random_seed=1)
    >>> open_minded = na.evidence(na.models.Bernoulli(), release, random_seed=1)
    >>> bool(open_minded.log_evidence > fair.log_evidence)
    True
    """
    error, seeds = positive("error", error), np.random.SeedSequence(seed_number(random_seed))
    check_fit(model, release, size)
    constant = log_normaliser(release.mechanism, release.values)
    target, picked = prepare(model, release, moves, size)
    if target.has_exact:
        raise ValueError(
            "the evidence needs noise on every number; the release has exact numbers (Exact), "
            "which a draw of the prior hardly ever gives"
        )
    check_proper(target)
    # A move that sums records out would use g itself at every power.
    picked = pick_moves(moves, target.tempered(1.0)) if target.summed_kernel else picked
    rungs = _climb(target, picked, seeds)
    log_ratio, variances = _bridge(rungs)
    if _error(variances) > error:
        # N_k in proportion to d_k brings the variance to (sum d)^2 / sum N.
        deviations = np.sqrt(variances * [len(rung) for rung in rungs])
        wanted = deviations * deviations.sum() / error**2
        for rung, number in zip(rungs, wanted, strict=True):
            rung.draw(int(min(number, MOST_MORE * len(rung))) - len(rung))
        log_ratio, variances = _bridge(rungs)
    powers = tuple(rung.power for rung in rungs)
    return Evidence(log_ratio + constant, _error(variances), powers)


class Watch(ReadyMove):
    """A move that changes nothing and reports log g, up to a constant, at the current state."""

    reports = ("log_g",)

    def __init__(self, target: Target) -> None:
        self.target = target

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        """Return log g itself, whatever the power of the target."""
        return (self.target.log_g(self.target.total(state.records)),)


class Rung:
    """One rung of the ladder: its chains, and log g of their draws, (chain, draw)."""

    def __init__(self, target: Target, moves: Sequence[Move], power: float) -> None:
        self.target, self.power = target.tempered(power), power
        self.moves = (*moves, Watch(target))
        self.states: list[ChainState] = []
        self.log_g: Floats = np.empty((CHAINS, 0))

    def __len__(self) -> int:
        return self.log_g.size

    def start(self, below: list[ChainState], generators: Sequence[np.random.Generator]) -> None:
        """Start the chains, from the states of the rung below if there is one."""
        for i, rng in enumerate(generators):
            state = chain.start(self.target, self.moves, rng)
            if below:
                old = below[i].copy()
                state.theta, state.records = old.theta, old.records
                state.innovations = old.innovations
            self.states.append(state)

    def draw(self, number: int) -> None:
        """Make about `number` more draws, over all chains together."""
        if number > 0:
            self.log_g = np.concatenate([self.log_g, self.drawn(-(-number // CHAINS))], axis=1)

    def drawn(self, draws: int) -> Floats:
        """Return log g of this many draws of each chain, after tuning the moves."""
        if self.power == 0.0:
            return np.array([[self._from_prior(s) for _ in range(draws)] for s in self.states])
        schedule, made = chain.Schedule(WARMUP, draws), []
        for i, state in enumerate(self.states):
            self.states[i], drawn = chain.run_through(self.target, self.moves, schedule, state)
            made.append(drawn.reports["log_g"])
        return np.array(made)

    def _from_prior(self, state: ChainState) -> float:
        """Draw theta and the records of a chain anew, and return log g there."""
        with np.errstate(all="ignore"):
            state.theta = self.target.sample_prior(state.rng)
            records, state.innovations = self.target.propose(
                state.theta, self.target.draw_n(state.rng), state.rng
            )
            state.records = np.ascontiguousarray(records)
            return self.moves[-1].step(self.target, state, {})[0]


def _climb(target: Target, moves: Sequence[Move], seeds: np.random.SeedSequence) -> list[Rung]:
    rungs: list[Rung] = []
    below: list[ChainState] = []
    power = 0.0
    while True:
        rung = Rung(target, moves, power)
        rung.start(below, chain.generators(seeds, CHAINS))
        pilot = rung.drawn(PILOT).ravel()  # kept for nothing but the next power
        rung.draw(FIRST * CHAINS)
        rungs.append(rung)
        if power == 1.0:
            return rungs
        if len(rungs) == MOST_RUNGS:
            raise ValueError(
                f"the release is too far from what the prior of {target.abilities.name} would "
                f"make: {MOST_RUNGS} steps from the prior end at power {power:.2g} of 1. "
                "noiseaware.check says which prior to set"
            )
        power, below = next_power(power, pilot), rung.states


def next_power(power: float, log_g: Floats) -> float:
    """Return the largest power for which draws at this power have effective share `SHARE`."""
    from scipy.optimize import brentq

    shifted = np.where(np.isfinite(log_g), log_g - log_g.max(), -np.inf)

    def excess(step: float) -> float:
        weights = np.exp(step * shifted)
        return float(weights.sum() ** 2 / (weights**2).sum() / len(weights)) - SHARE

    if excess(1.0 - power) >= 0.0:
        return 1.0
    low, high = -60.0, math.log(1.0 - power)
    if excess(math.exp(low)) < 0.0:  # some draws cannot make the release at all
        return min(1.0, power + math.exp(low))
    return power + math.exp(brentq(lambda log_step: excess(math.exp(log_step)), low, high))


def _error(variances: Floats) -> float:
    return SLACK * math.sqrt(float(variances.sum()))


def _bridge(rungs: Sequence[Rung]) -> tuple[float, Floats]:
    """Return log Z(1) - log Z(0), and the variance that each rung contributes to it."""
    total, influence = 0.0, [np.zeros_like(rung.log_g) for rung in rungs]
    for k, (low, high) in enumerate(pairwise(rungs)):
        step = high.power - low.power
        c, above, below = bridge(step * low.log_g, step * high.log_g)
        total += c
        influence[k] += above / above.mean()
        influence[k + 1] -= below / below.mean()
    return total, np.array([variance_of_mean(x) for x in influence])


def bridge(low: Floats, high: Floats) -> tuple[float, Floats, Floats]:
    """Return c, e^u / (s + s' e^u) for the draws of b, and 1 / (s + s' e^u) for those of b'.

    `low` and `high` are (b' - b) l for the draws of b and of b'. With o = log(s' / s) - c, the two
    are the logistic functions of (b' - b) l + o and of its negative, divided by s' and by s.
    """
    from scipy.optimize import brentq

    share = low.size / (low.size + high.size)

    def odds(c: float) -> tuple[Floats, Floats]:
        shift = math.log((1.0 - share) / share) - c
        return low + shift, -(high + shift)

    def difference(c: float) -> float:
        # In logarithms: under a wide prior, g = 0 in floating-point numbers for some databases.
        above, below = (logsumexp(-np.logaddexp(0.0, -x)) for x in odds(c))
        return float(above - below)

    # c is about the log mean of e^u over the draws of b, at most log N below the largest u.
    first = min(float(low.max()) - math.log(low.size), float(high.min())) - 50.0
    last = max(float(low.max()), float(high.max())) + 50.0
    c = float(brentq(difference, first, last, xtol=1e-10))
    above, below = map(expit, odds(c))
    return c, above / (1.0 - share), below / share


def variance_of_mean(values: Floats) -> float:
    """Return the variance of the mean over chains, (chain, draw)."""
    from arviz_stats.base import array_stats

    spread = float(values.var())
    if spread == 0.0:
        return 0.0
    return spread / float(array_stats.ess(values, method="mean"))


def check_proper(target: Target) -> None:
    """Raise ValueError if the prior is flat along a coordinate: then it is improper.

    Only for models with a log prior. A density in unconstrained coordinates that is the same at a
    draw and wherever else one looks, left and right, cannot be integrated.
    """
    if target.abilities.log_prior is None:
        return
    v = target.coordinates.to_vector(target.sample_prior(np.random.default_rng(0)))
    here = _log_prior(target, v)
    for j, axis in enumerate(np.eye(len(v))):
        seen = [_log_prior(target, v + sign * far * axis) for far in FAR for sign in (-1.0, 1.0)]
        known = [x for x in seen if x is not None]
        if here is not None and known and max(abs(x - here) for x in known) < FLAT:
            raise ValueError(
                f"the evidence needs a proper prior; the log_prior of {target.abilities.name} is "
                f"flat in coordinate {j} of its parameters "
                f"({', '.join(p.name for p in target.abilities.parameters)})"
            )


def _log_prior(target: Target, v: Floats) -> float | None:
    """Return the log prior density of v; None where floats or the model fail."""
    try:
        with np.errstate(all="ignore"):
            theta, log_jacobian = target.coordinates.from_vector(v)
            value = float(target.log_prior(theta) + log_jacobian)
    except (ValueError, ArithmeticError):
        return None
    return None if math.isnan(value) or not math.isfinite(log_jacobian) else value
