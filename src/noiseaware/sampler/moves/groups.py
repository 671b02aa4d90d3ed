"""Move the levels of all groups, with a decision about each.

Where a model has a level for each of G groups, transport would propose them a few at a time and
build every record each time, some G times the work. But of such a model

    z_1, ..., z_G  are independent standard normals, given the other coordinates of v,

z_g changes no record outside group g, and a release by group has a noisy number, or a few, for each
group alone. With the innovations u and the other coordinates held, the target is then a product,

    p(z | rest, u, s_dp)  proportional to  prod_g phi(z_g) g_g(s_g, T_g(z_g)),

so every z_g may be moved by a Metropolis step of its own, all in one pass over the records. The
proposal is z_g' = sqrt(1 - a_g^2) z_g + a_g e, e standard normal. It is reversible for phi, so that
phi cancels and z_g' is accepted with probability min(1, r_g),

    r_g = g_g(s_g, T_g(z_g')) / g_g(s_g, T_g(z_g)).

**The size.** A step of z_g moves the level of the group by tau times as much, and how far that may
be has to do with the noise and not with tau. So a_g = b_g / sqrt(b_g^2 + tau^2), near b_g / tau
where tau is large: b_g is c_g, tuned in warm-up for each group, times a random factor. Neither
depends on z, and tau is held, so that the step stays reversible.

Transport moves the other coordinates, with z held too.

**Letting the levels follow.** Where the noise is small, the totals are known, and with u and z held
none of the other coordinates can move; a noisy sum of clamped records says little of their
variance, but says it in a way that only all of them together can change. So one of the other
coordinates is also moved with T held: v_k' = v_k + e, and every z_g' solves T_g(z_g'; v') = T_g.
With D_g = dT_g / dz_g, the map of (v_k, z) has the Jacobian determinant prod_g D_g / D_g', D_g'
being taken at the end, and its inverse is the same map with -e. So it is accepted with probability
min(1, r),

    r = p(v') prod_g D_g / (p(v) prod_g D_g'),

p being the prior density of all coordinates, z included. The solver has to come back to z from z',
or the proposal is refused: then it is an involution on (v, e), wherever the solver leads to. What
rounding leaves of T' - T is paid for by g(s, T') / g(s, T).

**Groups that do not answer.** Where all records of a group are clamped, D_g = 0 and no z_g solves
for anything. Such groups keep their z_g: the map is the one above for the others, whose D_g alone
are in the determinant, and what T' - T is in these groups is paid for by g as well. Which groups
these are has to be the same at the end, or the proposal is refused: the way back then leaves the
same z as they are.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from noiseaware.basics.adapt import WANTED_ALONE, StepSize, log_change
from noiseaware.mechanisms.terms import needs_long, term
from noiseaware.sampler.moves.base import SteppedMove, Tuning
from noiseaware.sampler.moves.geometry import Approach, differences
from noiseaware.sampler.moves.proposals import SPREAD
from noiseaware.sampler.moves.tuning import AS_BEFORE, Option, costs
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

NUDGE = 1e-6
"""How far z is moved to estimate D: so little that hardly any record comes to its clamp."""

MOST_TRIES = 16
"""Looks at the records for one solution; a solver that needs more is lost."""

FARTHEST = 30.0
"""Bound of log c_g: beyond it 1 - a_g^2, or a_g^2, is less than doubles can tell from 0 or 1."""


@njit(cache=True, nogil=True)
def log_each(density, total, out):
    """Fill `out` (G,) with log g of the coordinates of each group, as many for each."""
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    width = len(total) // len(out)
    for g in range(len(out)):
        out[g] = 0.0
        for c in range(g * width, g * width + width):
            out[g] += density.power * term(long, family, parameters, c, total[c])


class GroupMove(SteppedMove):
    """Move the levels of all groups with the innovations held, and decide about each.

    Parameters
    ----------
    steps : int
        Steps in an iteration.
    """

    reports = ("group_acceptance", "follow_acceptance")

    def __init__(self, steps: int = 3) -> None:
        super().__init__(steps)

    def __repr__(self) -> str:
        return "GroupMove()" if self.steps == 3 else super().__repr__()

    def check(self, target: Target) -> None:
        if target.levels is None:
            raise ValueError(
                "GroupMove needs a model of groups with a level for each, such as "
                "StratifiedMeans, and noisy numbers of each group, as ByGroup gives; got "
                f"{target.abilities.name} and {target.query_abilities.name}"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        assert target.levels is not None  # `check` saw to it
        maps, groups = target.coordinates, target.levels.stop - target.levels.start
        tau = maps.spread_of(maps.to_vector(state.theta))
        # One number a group and a level that moves it: more numbers could not all be held.
        held = target.levels if target.d == groups else slice(None)
        others = np.delete(np.arange(maps.size), held).tolist()
        return {
            "log_sizes": np.full(groups, math.log(tau)),  # as wide as the prior
            "ratios": [],
            "others": others,
            "other_sizes": [StepSize(0.5, WANTED_ALONE) for _ in others],
            "count": 0,
            "looks": 0,
            "warming": True,
        }

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, float]:
        """Move all levels, and another coordinate with them; report the shares accepted."""
        here = Groups(target, state)
        share = self._move_levels(here, tuning, state.rng)
        follow = math.nan
        if tuning["others"]:
            which = int(state.rng.integers(len(tuning["others"])))
            size = tuning["other_sizes"][which]
            amount = size.size * state.rng.standard_normal()
            log_ratio = here.follow(tuning["others"][which], amount)
            follow = float(-state.rng.standard_exponential() < log_ratio < math.inf)
            if follow:
                here.v = here.v_new
            if tuning["warming"]:
                size.note(log_ratio)
        if tuning["warming"]:
            tuning["looks"] += here.looks
        if share or follow > 0.0:
            target.put(state, target.coordinates.from_vector(here.v)[0], here.u)
        return (share, follow)

    def _move_levels(self, here: Groups, tuning: Tuning, rng: np.random.Generator) -> float:
        """Move all levels `steps` times; return the share accepted."""
        target, levels, v = here.target, here.levels, here.v
        tau, total, groups = target.coordinates.spread_of(v), here.total, len(v[levels])
        now, new = np.empty(groups), np.empty(groups)
        log_each(target.density, total, now)
        count = 0
        for _ in range(self.steps):
            sizes = np.exp(tuning["log_sizes"] + SPREAD * rng.standard_normal(groups))
            a = sizes / np.hypot(sizes, tau)
            proposed = v.copy()
            proposed[levels] *= np.sqrt(1.0 - a * a)
            proposed[levels] += a * rng.standard_normal(groups)
            there = here.total_at(proposed)
            log_each(target.density, there, new)
            accept = -rng.standard_exponential(groups) < new - now
            if tuning["warming"]:
                tuning["ratios"].append(new - now)
            v[levels] = np.where(accept, proposed[levels], v[levels])
            total = np.where(np.repeat(accept, len(total) // groups), there, total)
            now = np.where(accept, new, now)
            count += int(np.count_nonzero(accept))
        here.total = total
        return count / (self.steps * groups)

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        tuning["count"] += 1
        for ratio in tuning["ratios"]:
            likely = np.nan_to_num(np.exp(np.minimum(ratio, 0.0)))
            sizes = tuning["log_sizes"] + log_change(likely, WANTED_ALONE, tuning["count"])
            tuning["log_sizes"] = np.clip(sizes, -FARTHEST, FARTHEST)
        tuning["ratios"] = []
        for size in tuning["other_sizes"]:
            size.tune(tuning["count"])

    def options(self, target: Target, state: ChainState, tuning: Tuning) -> list[Option]:
        """Return what the move costs, in the way in which it goes on."""
        one = costs(target.n, target.work)
        cost = one.start + tuning["looks"] / max(tuning["count"], 1) * one.build
        return [AS_BEFORE._replace(cost=cost)]

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        tuning["warming"] = False


class Groups:
    """Where the move is, with u held: v, T there, and the v of the last proposal of `follow`.

    `looks` is how often all records were looked at.
    """

    def __init__(self, target: Target, state: ChainState) -> None:
        assert target.levels is not None
        assert target.terms is not None
        self.target, self.levels = target, target.levels
        self.inverse_scales = target.terms.parameters[:, 1]
        self.u, self.total = target.recover(state), target.total(state.records)
        self.v = self.v_new = target.coordinates.to_vector(state.theta)
        self.looks = 0

    def total_at(self, v: np.ndarray) -> np.ndarray:
        """Return T(F(u; theta(v))), (d,)."""
        self.looks += 1
        return self.target.total_at(v, self.u)

    def log_prior(self, v: np.ndarray) -> float:
        """Return the log prior density of all coordinates at v."""
        theta, log_jacobian = self.target.coordinates.from_vector(v)
        return self.target.log_prior(theta) + log_jacobian

    def derivative(self, v: np.ndarray) -> np.ndarray:
        """Return all D_g at v."""
        together = np.zeros((len(v), 1))
        together[self.levels] = NUDGE
        return differences(self.total_at, v, together)[:, 0] / NUDGE

    def solve(self, v: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """Return v with levels that lead to the total, by secants that begin with a slope; or None.

        Every group has a secant of its own, between its last two points. One with a slope of 0
        does not answer, and stays.
        """
        v, answers, approach = v.copy(), slope != 0.0, Approach()
        off = np.where(answers, self.total_at(v) - self.total, 0.0)
        for _ in range(MOST_TRIES):
            if not np.isfinite(off).all():
                return None
            step = np.where(off == 0.0, 0.0, -off / slope)
            worst = np.maximum(np.abs(off) * self.inverse_scales, np.abs(step)).max()
            if approach.ends(float(worst), step, v):
                return v
            v[self.levels] += step
            last, off = off, np.where(answers, self.total_at(v) - self.total, 0.0)
            secant = (off - last) / np.where(step == 0.0, 1.0, step)
            slope = np.where(np.abs(step) > NUDGE, secant, slope)
            if not (slope != 0.0)[answers].all():
                return None
        return None

    def follow(self, other: int, amount: float) -> float:
        """Propose another coordinate, with the levels that keep the total; return log r."""
        with np.errstate(all="ignore"):
            before = self.derivative(self.v)
            answers = np.abs(before) > 0.0
            proposed = self.v.copy()
            proposed[other] += amount
            found = self.solve(proposed, before)
            if found is None:
                return -math.inf
            after = self.derivative(found)
            if not np.array_equal(answers, np.abs(after) > 0.0):
                return -math.inf
            back = found.copy()
            back[other] = self.v[other]
            returned = self.solve(back, after)
            if returned is None or not np.allclose(returned, self.v, rtol=1e-6, atol=1e-6):
                return -math.inf
            self.v_new = found
            log_volume = float(np.log(np.abs(before / after))[answers].sum())
            reached = self.total_at(found)
            log_ratio = self.log_prior(found) - self.log_prior(self.v) + log_volume
            return log_ratio + self.target.log_g(reached) - self.target.log_g(self.total)
