"""The evidence p(s_dp) of a model: how probable it made the release, before it was seen.

Two models of one release are compared by the ratio of their evidences, the Bayes factor. With
l(x) = log g(s_dp, T(x)), normalised in s_dp, the evidence is an expectation over the prior,

    p(s_dp) = E[exp(l(x))],    theta ~ p(theta),  x_i ~ f(. | theta),

whose largest terms the prior hardly ever draws. So g is tempered: between the prior, b = 0, and the
posterior, b = 1, lies a ladder of distributions

    p_b(theta, x)  proportional to  p(theta) prod_i f(x_i | theta) g(s_dp, T(x))^b,

with normalising constants Z(0) = 1 and Z(1) = p(s_dp). The moves that sample the posterior sample
each of them, with g^b for g, and two neighbours b < b' with draws of both give the ratio of their
constants by **bridge sampling** (Meng and Wong 1996; in physics, Bennett 1976). With
u(x) = (b' - b) l(x) - c, N and N' draws, s = N / (N + N') and s' = 1 - s,

    A = mean over the draws of b  of  e^u / (s + s' e^u),
    B = mean over the draws of b' of  1 / (s + s' e^u),

c = log Z(b') - log Z(b) is where A = B =: a. This is the estimate with the smallest variance that
draws of two distributions allow. Stepping stones, log mean exp((b' - b) l) over the draws of b
alone, use only half of them.

**The error.** To first order a draw x of level k moves the sum of all c by phi_k(x) / N_k,

    phi_k(x) = [e^u / (s + s' e^u)]_{k, k+1} / a_k  -  [1 / (s + s' e^u)]_{k-1, k} / a_{k-1},

so that the variance of log p(s_dp) is the sum over the levels of Var(phi_k) / ESS(phi_k), where the
effective sample size is that of the chains; the square root is stated with some slack.

**The ladder** is chosen as it is climbed: from b, the next b' is where the weights exp((b' - b) l)
of some draws of b, which are used for nothing else, have an effective share of one half. Chains
start where those of the rung below ended. When the top is reached, the error says how many draws
more are needed for the one that was asked for, and each rung gets the more of them the more it
adds to the variance, in proportion to its standard deviation.

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
"""Of each chain on each rung: iterations in which the moves tune themselves, draws from which the
next rung is chosen, and draws for the estimate in the first round."""

SHARE = 0.5
"""Effective share of the weights that lead from one rung to the next."""

SLACK = 1.15
"""Effective sample sizes are themselves estimates, good to some ten per cent: the error is stated
so much larger, and then covers the truth as often as it says (counted in the tests)."""

MOST_RUNGS = 200
MOST_MORE = 30.0
"""A second round has at most so many times the draws of the first."""

FAR = (5.0, 15.0, 1e3, 1e6, 1e12)
FLAT = 1e-9
"""How far to look for a prior density that falls off, and how much it has to."""


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
        What made the records; `sample_prior` has to draw from its prior, which is proper.
    release : Release
        The private numbers with the mechanism that made them.
    error : float
        The standard error to aim at.
    size
        A prior for the number of records, where the release does not say it; as for
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
    # A move that sums records out would do so with g itself, at every power.
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
    """A move that moves nothing, and reports log g, up to a constant, where the chain is."""

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
        """Start the chains, where those of the rung below are if there are some."""
        for i, rng in enumerate(generators):
            state = chain.start(self.target, self.moves, rng)
            if below:
                old = below[i].copy()
                state.theta, state.records = old.theta, old.records
                state.innovations = old.innovations
            self.states.append(state)

    def draw(self, number: int) -> None:
        """Draw about so many more, in all chains together."""
        if number > 0:
            self.log_g = np.concatenate([self.log_g, self.drawn(-(-number // CHAINS))], axis=1)

    def drawn(self, draws: int) -> Floats:
        """Return log g of so many draws of each chain; the first also tune the moves."""
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
    """Go from the prior to the posterior; return the rungs with their first draws."""
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
    """Return the largest power at which draws of this one have an effective share of `SHARE`."""
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
    """Return log Z(1) - log Z(0), bridge by bridge, and the variance that each rung adds to it."""
    total, influence = 0.0, [np.zeros_like(rung.log_g) for rung in rungs]
    for k, (low, high) in enumerate(pairwise(rungs)):
        step = high.power - low.power
        c, above, below = bridge(step * low.log_g, step * high.log_g)
        total += c
        influence[k] += above / above.mean()
        influence[k + 1] -= below / below.mean()
    return total, np.array([variance_of_mean(x) for x in influence])


def bridge(low: Floats, high: Floats) -> tuple[float, Floats, Floats]:
    """Return c, and e^u / (s + s' e^u) of the draws of b, and 1 / (s + s' e^u) of those of b'.

    `low` and `high` are (b' - b) l of the draws of b and of b'. With o = log(s' / s) - c, the two
    are the logistic functions of (b' - b) l + o and of its negative, divided by s' and by s.
    """
    from scipy.optimize import brentq

    share = low.size / (low.size + high.size)

    def odds(c: float) -> tuple[Floats, Floats]:
        shift = math.log((1.0 - share) / share) - c
        return low + shift, -(high + shift)

    def difference(c: float) -> float:
        # In logarithms: a prior that is wide makes releases with g = 0 in floating-point numbers.
        above, below = (logsumexp(-np.logaddexp(0.0, -x)) for x in odds(c))
        return float(above - below)

    # c is about the log mean of e^u over the draws of b, at most log N below the largest u.
    first = min(float(low.max()) - math.log(low.size), float(high.min())) - 50.0
    last = max(float(low.max()), float(high.max())) + 50.0
    c = float(brentq(difference, first, last, xtol=1e-10))
    above, below = map(expit, odds(c))
    return c, above / (1.0 - share), below / share


def variance_of_mean(values: Floats) -> float:
    """Return the variance of the mean of chains, (chain, draw)."""
    from arviz_stats.base import array_stats

    spread = float(values.var())
    if spread == 0.0:
        return 0.0
    return spread / float(array_stats.ess(values, method="mean"))


def check_proper(target: Target) -> None:
    """Raise ValueError if the prior is flat along a coordinate: it is improper, and Z(0) infinite.

    Of a model that has its log prior. In coordinates without constraints, a density that is the
    same at a draw and wherever else one looks, left and right, cannot be integrated.
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
    """Return the log prior density of v; None where floats, or the model, cannot go."""
    try:
        with np.errstate(all="ignore"):
            theta, log_jacobian = target.coordinates.from_vector(v)
            value = float(target.log_prior(theta) + log_jacobian)
    except (ValueError, ArithmeticError):
        return None
    return None if math.isnan(value) or not math.isfinite(log_jacobian) else value
