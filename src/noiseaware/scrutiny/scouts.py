"""Short runs from the prior that look for regions that the chains have missed.

R-hat compares chains with one another. If all of them are in the same one of two modes, they agree,
and nothing in their draws reveals the other. So when the chains are done, a few more runs start
from the prior. Each first uses Algorithm 1, whose small steps lead to the nearest database that
fits the release, and not the chains' tuning, which would lead to the chains. It then continues with
the chains' own moves until it is in one of three states:

* **joined**: every parameter lies within the range of the chains' draws. The chains' moves lead
  from there to here in a few iterations, so they also lead from here to there;
* **elsewhere**: after several times `LONGEST` iterations its database still fits, and some
  parameter lies outside the chains' range by more than the width of that range, and is not coming
  nearer;
* **undecided**: anything else. A run that is still on its way is no evidence.

A run that is elsewhere has found a region that explains the release and that the chains never
visited. Its share of the posterior is unknown, but it may be enough to make the chains' draws
untrustworthy. A mode that attracts a share p of the prior's draws escapes m runs with probability
(1 - p)^m. The runs have their own random numbers, so the chains' draws do not depend on them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noiseaware.basics.interrupts import held_back
from noiseaware.contract import Move, Theta
from noiseaware.running.run import SCOUTS, Run
from noiseaware.sampler import chain
from noiseaware.sampler.moves import algorithm1
from noiseaware.sampler.target import Target
from noiseaware.scrutiny import harmless, long_enough

RUNS = 24
"""The number of runs; a mode with a tenth of the prior's draws is found with probability .92."""

LONGEST = 60
"""Iterations after which a run is stopped, on its way to the release and again from there."""

PATIENCE = 4
"""A run that is then elsewhere continues for this many times as long: it may only be slow."""

MOST_SHARE = 0.1
"""The most iterations of all runs together, as a share of those of the chains."""


@dataclass(frozen=True)
class Scouts:
    """How many runs were completed, and how many ended in each state.

    `where` describes a parameter of a run that is elsewhere: its value there and the chains' range.
    """

    runs: int
    joined: int
    elsewhere: int
    where: str = ""


@dataclass(frozen=True)
class Seen:
    """The range of the chains' draws of each parameter, and how well their databases fit.

    `width` is the largest minus the smallest draw of each entry, and at least a millionth of the
    prior's width, so that differences at rounding level do not count. `log_g` is the lowest value
    with which a run counts as fitting the release.
    """

    low: Theta
    high: Theta
    width: Theta
    log_g: float

    @staticmethod
    def by(run: Run, rng: np.random.Generator) -> Seen:
        """Collect the range from all draws, the prior, and the last states of the chains."""
        target = run.target
        prior = [target.sample_moved(rng) for _ in range(100)]
        low, high, width = {}, {}, {}
        for name in prior[0]:  # not the counts, if a model shows them
            draws = np.concatenate([chain.theta[name] for chain in run.draws])
            low[name], high[name] = draws.min(axis=0), draws.max(axis=0)
            ends = np.quantile([theta[name] for theta in prior], (0.05, 0.95), axis=0)
            width[name] = np.maximum(high[name] - low[name], 1e-6 * (ends[1] - ends[0]))
        fits = [target.log_g(target.total(state.records)) for state in run.states]
        # The noise of d numbers varies by about sqrt(d) in log g.
        return Seen(low, high, width, min(fits) - 5.0 - 3.0 * float(np.sqrt(target.d)))

    def distance(self, theta: Theta) -> tuple[float, str]:
        """Return how far theta is outside, in widths of the range, and where it is furthest."""
        worst: tuple[float, str] = (0.0, "")
        for name, value in theta.items():
            low, high = self.low[name], self.high[name]
            with np.errstate(divide="ignore", invalid="ignore"):
                outside = np.maximum(low - value, value - high) / self.width[name]
            k = np.unravel_index(int(np.argmax(np.nan_to_num(outside))), np.shape(outside))
            if outside[k] > worst[0]:
                here = f"{name}{list(map(int, k)) or ''} = {np.asarray(value)[k]:.4g}"
                drew = f"where the chains drew {low[k]:.4g} to {high[k]:.4g}"
                worst = (float(outside[k]), f"{here}, {drew}")
        return worst


def send(run: Run) -> Scouts | None:
    """Run the scouts; None if the chains were stopped or are too short to compare with."""
    # A kernel with the records summed out starts near a mode, whatever the prior.
    if run.target.summed_kernel is not None or not long_enough(run):
        return None
    left = int(MOST_SHARE * run.schedule.iterations * len(run.draws))
    generators = chain.generators(run.seed(SCOUTS), RUNS + 1)
    runs, joined, places = 0, 0, []
    with harmless("the search for other modes"):
        seen = Seen.by(run, generators.pop())
        for k, rng in enumerate(generators):
            if left <= 0:
                break
            learned = run.states[k % len(run.states)].tunings
            ended = follow(run.target, run.moves, learned, seen, rng)
            left -= ended.iterations
            runs += 1
            joined += ended.distance == 0.0
            if ended.distance > 1.0 and ended.fits:
                places.append(ended.where)
    return Scouts(runs, joined, len(places), places[0] if places else "")


class Ended(NamedTuple):
    """Where a run ended: its distance, in words too, and whether it fits and stays there."""

    distance: float
    where: str
    fits: bool
    iterations: int


def follow(
    target: Target,
    moves: Sequence[Move],
    learned: Sequence[dict[str, Any]],
    seen: Seen,
    rng: np.random.Generator,
) -> Ended:
    """Follow one run from the prior to its end."""
    # Chains of counts, and models without a kernel for p(theta | x), start as their chains did.
    first = algorithm1() if target.abilities.can_update and not target.on_counts else moves
    state = chain.start(target, moves, rng)
    if first is not moves:
        state.tunings = [move.start(target, state) for move in first]

    def fits() -> bool:
        return target.log_g(target.total(state.records)) >= seen.log_g

    iterations = 0
    with held_back() as let_go:
        while iterations < LONGEST and not fits():
            let_go()
            chain.iterate(target, first, state)
            iterations += 1
        state.tunings = copy.deepcopy(list(learned))
        distance, where = seen.distance(state.theta)
        for more in (LONGEST, PATIENCE * LONGEST):
            before, until = distance, iterations + more
            while iterations < until and distance > 0.0:
                let_go()
                chain.iterate(target, moves, state)
                iterations += 1
                distance, where = seen.distance(state.theta)
            if distance <= 1.0:
                break
    # If it is still coming nearer, it is on its way.
    return Ended(distance, where, fits() and distance > 0.75 * before, iterations)
