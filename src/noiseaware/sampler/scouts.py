"""Short runs from the prior that look for places where the chains have not been.

R-hat compares chains with one another. If all of them ended up in the same one of two modes, they
agree, and nothing in their draws says that there is another. So when the chains are done, a few
more are started from the prior. Each first goes by Algorithm 1, whose small steps lead to the
nearest database that fits the release, and not by what the chains have learned, which would lead
to where they are. From there it goes on as the chains do, until it is in one of three states:

* **joined**: every parameter lies within what the chains have drawn. The chains' moves lead from
  there to here in a few iterations, so that they also lead from here to there;
* **elsewhere**: after `LONGEST` iterations its database still fits, and some parameter is further
  from all that the chains have drawn than that is wide;
* **undecided**: anything else. A run that is still on its way says nothing.

A run that is elsewhere has found a region that explains the release and that the chains never saw.
How much of the posterior it holds is not known; that it may hold some is a reason not to trust the
others. A mode into which a share p of the prior's draws would fall escapes m runs with probability
(1 - p)^m. The runs have random numbers of their own: the draws of the chains do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.contract import Move, Theta
from noiseaware.sampler import chain
from noiseaware.sampler.moves import algorithm1
from noiseaware.sampler.run import Run
from noiseaware.sampler.target import Target

RUNS = 24
"""Runs in all; a mode with a tenth of the prior's draws is found with probability .92."""

LONGEST = 60
"""Iterations after which a run is given up, on its way to the release and again from there."""

LEAST_DRAWS = 400
"""With fewer draws in all, what the chains have drawn is too narrow to compare with."""

SCOUTS_KEY = 2**32 - 2
"""Their own stream of random numbers, next to those of the chains (0, 1, ...)."""


@dataclass(frozen=True)
class Scouts:
    """What the runs found.

    Attributes
    ----------
    runs, joined, elsewhere
        How many there were, and how many ended so.
    where
        A parameter of a run that is elsewhere, what it is there and what the chains drew, in words.
    """

    runs: int
    joined: int
    elsewhere: int
    where: str = ""


@dataclass(frozen=True)
class Seen:
    """What the chains have drawn of each parameter, and how well their databases fit.

    Attributes
    ----------
    low, high
        The smallest and the largest draw of each entry.
    log_g
        The lowest log g with which a run counts as fitting the release.
    """

    low: Theta
    high: Theta
    log_g: float

    @staticmethod
    def by(run: Run) -> Seen:
        """Look at all the draws, and at where the chains are now."""
        draws = {
            name: np.concatenate([d.theta[name] for d in run.draws]) for name in run.draws[0].theta
        }
        fits = [run.target.log_g(run.target.total(state.records)) for state in run.states]
        # The noise of d numbers varies by about sqrt(d) in log g.
        slack = 5.0 + 3.0 * np.sqrt(run.target.d)
        return Seen(
            {name: x.min(axis=0) for name, x in draws.items()},
            {name: x.max(axis=0) for name, x in draws.items()},
            min(fits) - slack,
        )

    def distance(self, theta: Theta) -> tuple[float, str]:
        """Return how far theta is outside, in widths of what was drawn, and where most."""
        worst: tuple[float, str] = (0.0, "")
        for name, value in theta.items():
            low, high = self.low[name], self.high[name]
            outside = np.maximum(low - value, value - high) / np.maximum(high - low, 1e-300)
            k = int(np.argmax(outside))
            if outside.flat[k] > worst[0]:
                at = (
                    f"[{', '.join(map(str, np.unravel_index(k, outside.shape)))}]"
                    if outside.ndim
                    else ""
                )
                words = (
                    f"{name}{at} = {np.asarray(value).flat[k]:.4g}, where the chains drew "
                    f"{low.flat[k]:.4g} to {high.flat[k]:.4g}"
                )
                worst = (float(outside.flat[k]), words)
        return worst


def send(run: Run) -> Scouts | None:
    """Follow the runs; None if the chains were stopped or are too short to compare with."""
    if not run.complete or len(run.draws) * len(run.draws[0]) < LEAST_DRAWS:
        return None
    seen = Seen.by(run)
    sequence = np.random.SeedSequence(run.random_seed, spawn_key=(SCOUTS_KEY,))
    joined, places = 0, []
    for k, seed in enumerate(sequence.spawn(RUNS)):
        learned = run.states[k % len(run.states)].tunings
        rng = np.random.Generator(np.random.SFC64(seed))
        distance, where, fits = follow(run.target, run.moves, learned, seen, rng)
        joined += distance == 0.0
        if distance > 1.0 and fits:
            places.append(where)
    return Scouts(RUNS, joined, len(places), places[0] if places else "")


def follow(
    target: Target,
    moves: Sequence[Move],
    learned: Sequence[dict[str, Any]],
    seen: Seen,
    rng: np.random.Generator,
) -> tuple[float, str, bool]:
    """Follow one run; return how far it ends from what was seen, where, and whether it fits."""
    # A model without a kernel for p(theta | x) begins as its chains did.
    first = algorithm1() if target.abilities.can_update else moves
    state = chain.start(target, first, rng)
    for _ in range(LONGEST):
        if target.log_g(target.total(state.records)) >= seen.log_g:
            break
        chain.iterate(target, first, state)
    state.tunings = list(learned)  # frozen: a step reads them only
    for _ in range(LONGEST):
        distance, where = seen.distance(state.theta)
        if distance == 0.0:
            break
        chain.iterate(target, moves, state)
    return distance, where, target.log_g(target.total(state.records)) >= seen.log_g
