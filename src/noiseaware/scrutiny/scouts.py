"""Short runs from the prior that look for places where the chains have not been.

R-hat compares chains with one another. If all of them ended up in the same one of two modes, they
agree, and nothing in their draws says that there is another. So when the chains are done, a few
more are started from the prior. Each first goes by Algorithm 1, whose small steps lead to the
nearest database that fits the release, and not by what the chains have learned, which would lead
to where they are. From there it goes on as the chains do, until it is in one of three states:

* **joined**: every parameter lies within what the chains have drawn. The chains' moves lead from
  there to here in a few iterations, so that they also lead from here to there;
* **elsewhere**: after several times `LONGEST` iterations its database still fits, and some
  parameter is further from all that the chains have drawn than that is wide, and not coming nearer;
* **undecided**: anything else. A run that is still on its way says nothing.

A run that is elsewhere has found a region that explains the release and that the chains never saw.
How much of the posterior it holds is not known; that it may hold some is a reason not to trust the
others. A mode into which a share p of the prior's draws would fall escapes m runs with probability
(1 - p)^m. The runs have random numbers of their own: the draws of the chains do not depend on them.
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
"""Runs in all; a mode with a tenth of the prior's draws is found with probability .92."""

LONGEST = 60
"""Iterations after which a run is given up, on its way to the release and again from there."""

PATIENCE = 4
"""A run that is elsewhere then is followed for so many times as long: it may only be slow."""

MOST_SHARE = 0.1
"""Iterations that all runs may take together, as a share of those of the chains."""


@dataclass(frozen=True)
class Scouts:
    """How many runs were followed to their end, and how many ended so.

    `where` is a parameter of a run that is elsewhere, what it is there and what the chains drew.
    """

    runs: int
    joined: int
    elsewhere: int
    where: str = ""


@dataclass(frozen=True)
class Seen:
    """What the chains have drawn of each parameter, and how well their databases fit.

    `width` is the distance of the largest draw of each entry from the smallest, and at least a
    millionth of the prior's, so that differences which only floats can see do not count. `log_g` is
    the lowest with which a run counts as fitting the release.
    """

    low: Theta
    high: Theta
    width: Theta
    log_g: float

    @staticmethod
    def by(run: Run, rng: np.random.Generator) -> Seen:
        """Look at all the draws, at the prior, and at where the chains are now."""
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
        """Return how far theta is outside, in widths of what was drawn, and where most."""
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
    """Follow the runs; None if the chains were stopped or are too short to compare with."""
    # A kernel with the records summed out begins near a mode, wherever the prior is.
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
    """Where a run ended: how far from what was seen, in words, whether it fits and stays there."""

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
    # Counts, and a model without a kernel for p(theta | x), begin as their chains did.
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
    # Far out, and coming nearer: it is still on its way.
    return Ended(distance, where, fits() and distance > 0.75 * before, iterations)
