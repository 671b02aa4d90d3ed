"""Move the levels of all groups, with one decision for each.

Where a model has a level for each of G groups, transport would propose them a few at a time and
build every record each time, some G times the work. But in a model where

    z_1, ..., z_G  are independent standard normals, given the other coordinates of v,

z_g changes no record outside group g, and a release by group has noisy numbers of each group alone.
With the innovations u and the other coordinates held, the target is then a product,

    p(z | rest, u, s_dp)  proportional to  prod_g phi(z_g) g_g(s_g, T_g(z_g)),

so every z_g can make its own Metropolis step, all in one pass over the records. The proposal z_g' =
sqrt(1 - a_g^2) z_g + a_g e, with e standard normal, is reversible for phi. So phi cancels and z_g'
is accepted with probability min(1, r_g),

    r_g = g_g(s_g, T_g(z_g')) / g_g(s_g, T_g(z_g)).

**The size.** A step of z_g moves the level of the group by tau times as much, and the distance it
can go depends on the noise, not on tau. So a_g = b_g / sqrt(b_g^2 + tau^2), near b_g / tau where
tau is large. b_g is c_g, tuned in warm-up for each group, times a random factor. Neither depends on
z, and tau is held, so the step stays reversible.

Transport moves the other coordinates, with z held too.

**Letting the levels follow.** Where the noise is small, the totals are nearly known, and with u and
z held none of the other coordinates, called a, can move. A noisy sum of clamped records says little
about their variance, yet the variance can change only if all coordinates change together. So a also
moves with T held: draw a' from q(a' | a), and solve H_g(z_g'; a', u) = H_g for every z_g', where
H_g is T_g, or what is held of the group instead. With D_g = dH_g / dz_g, (a, H_1, ..., H_G) are
coordinates of (a, z) whose volume is prod_g D_g times that of (a, z), and only a moves in them. So
(a', z') is accepted with probability min(1, r),

    r = p(v') q(a | a') g(s, T') prod_g D_g
        ------------------------------------,
        p(v ) q(a' | a) g(s, T ) prod_g D_g'

where p is the prior density of all coordinates, including z, and D_g' is taken at the end. T'
equals T up to rounding, except for groups where T_g is not what is held. If the solver does not
come back to z from z', the proposal is rejected, which makes the move reversible wherever the
solver leads.

a makes a random walk, or jumps to a Student t draw fitted to the posterior (`proposals`).

**Groups that do not respond.** Where all records of a group are clamped, dT_g / dz_g = 0 and there
is nothing to solve; if z_g stayed, a larger variance could bring some record back inside. Instead
hold the value H_g of the record closest to what it adds to the total, the one clamped by least. The
others are clamped by more, before and after, so T_g stays as well. The way back chooses anew what
is held; if the choice differs, it does not lead back, and the proposal is rejected. A group without
records keeps its z_g.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from noiseaware.basics.adapt import WANTED_ALONE, log_change
from noiseaware.mechanisms.terms import needs_long, term
from noiseaware.sampler.moves.base import SteppedMove, Tuning
from noiseaware.sampler.moves.geometry import Approach, Geometry
from noiseaware.sampler.moves.proposals import SPREAD, Jump, Walk
from noiseaware.sampler.moves.transport import FIRST_WINDOW, draw_prior
from noiseaware.sampler.moves.tuning import AS_BEFORE, Option, costs
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

NUDGE = 1e-6
"""How far z moves to estimate D: so little that hardly any record crosses its clamp."""

MOST_TRIES = 40
"""Most looks at the records for one solution."""

FARTHEST = 30.0
"""Bound on |log c_g|: beyond it doubles cannot tell 1 - a_g^2, or a_g^2, from 0 or 1."""


@njit(cache=True, nogil=True)
def log_each(density, total, out):
    """Fill `out` (G,) with log g of each group's coordinates; every group has equally many."""
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    width = len(total) // len(out)
    for g in range(len(out)):
        out[g] = 0.0
        for c in range(g * width, g * width + width):
            out[g] += density.power * term(long, family, parameters, c, total[c])


@njit(cache=True, nogil=True)
def find_closest(records, rows, found):
    """Write, where `found` (G,) is -1, which record of the group is closest to what it adds."""
    off = np.full(len(found), np.inf)
    wanted = found == -1
    for i in range(len(records)):
        g = int(rows[i, 0])
        far = abs(records[i, 1] - rows[i, 1])
        if wanted[g] and far < off[g]:
            off[g] = far
            found[g] = i


@njit(cache=True, nogil=True)
def next_steps(off, slope, rises, z, between, step):
    """Write the next step of each z_g, and narrow the bracket of its solution, (G, 2)."""
    for g in range(len(off)):
        if off[g] == 0.0:
            step[g] = 0.0
            continue
        above = off[g] * rises[g] > 0.0
        low, high = between[g, 0], between[g, 1]
        low, high = (low, min(high, z[g])) if above else (max(low, z[g]), high)
        between[g, 0], between[g, 1] = low, high
        if slope[g] * rises[g] > 0.0:
            step[g] = -off[g] / slope[g]
        else:
            step[g] = -2.0 * abs(step[g]) if above else 2.0 * abs(step[g])
        middle = 0.5 * (low + high)
        if math.isfinite(middle) and not low < z[g] + step[g] < high:
            step[g] = middle - z[g]


class GroupMove(SteppedMove):
    """Move the levels of all groups with the innovations held, with a decision for each.

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
        # With several numbers for each group, its one level could not hold them all.
        held = target.levels if target.d == groups else slice(None)
        others = np.delete(np.arange(maps.size), held)
        tuning: Tuning = {
            "log_sizes": np.full(groups, math.log(tau)),  # as wide as the prior
            "ratios": [],
            "others": others,
            "proposals": [],
            "geometry": None,
            "count": 0,
            "looks": 0,
            "warming": True,
        }
        if len(others):
            index = np.arange(len(others))
            prior = [draw_prior(target, state.rng, True)[1] for _ in range(20 * len(others))]
            tuning["geometry"] = Geometry(np.stack(prior))
            tuning["proposals"] = [Walk(index, 0, given_u=False), Jump(index, 0)]
            for proposal in tuning["proposals"]:
                proposal.set_geometry(tuning["geometry"])
        return tuning

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, float]:
        here = Groups(target, state)
        share = self._move_levels(here, tuning, state.rng)
        follow = math.nan
        if tuning["proposals"]:
            follow = self._move_others(here, tuning, state.rng)
        if tuning["warming"]:
            tuning["looks"] += here.looks
        if share or follow > 0.0:
            target.put(state, target.coordinates.from_vector(here.v)[0], here.u)
        return (share, follow)

    def _move_others(self, here: Groups, tuning: Tuning, rng: np.random.Generator) -> float:
        """Move what the groups share, by a walk or a jump; return whether it was accepted."""
        others = tuning["others"]
        proposal = tuning["proposals"][int(rng.random() < 0.5)]
        now, proposed = here.v[others], here.v.copy()
        there = np.empty_like(now)
        log_ratio = proposal.propose(now, proposal.prepare(1, rng), 0, there)
        proposed[others] = there
        log_ratio += here.follow(proposed)
        wait = rng.standard_exponential()
        # Solving for the way back costs as much as solving did: only where it decides.
        if log_ratio > -math.inf and (tuning["warming"] or -wait < log_ratio):
            log_ratio = log_ratio if here.leads_back() else -math.inf
        accept = -wait < log_ratio < math.inf
        if accept:
            here.v = here.v_new
        if tuning["warming"]:
            proposal.record(log_ratio)
            tuning["geometry"].history.append(here.v[others])
        return float(accept)

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
        for proposal in tuning["proposals"]:
            proposal.tune(tuning["count"])
        if tuning["count"] >= FIRST_WINDOW and tuning["count"] & (tuning["count"] - 1) == 0:
            self._learn_geometry(tuning)

    def _learn_geometry(self, tuning: Tuning) -> None:
        if tuning["geometry"] is not None:
            tuning["geometry"].learn()
            for proposal in tuning["proposals"]:
                proposal.set_geometry(tuning["geometry"])

    def options(self, target: Target, state: ChainState, tuning: Tuning) -> list[Option]:
        """Return the cost of the move, which has no other option."""
        one = costs(target.n, target.work)
        cost = one.start + tuning["looks"] / max(tuning["count"], 1) * one.build
        return [AS_BEFORE._replace(cost=cost)]

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        if tuning["count"] >= FIRST_WINDOW:
            self._learn_geometry(tuning)
        tuning.update(warming=False, geometry=None)


class Groups:
    """Where the move is, with u held: v, T there, and the v of the last proposal of `follow`.

    `looks` counts the looks at all records. `records` says which record is held of each group: -1
    for none, and -2 for a group whose number is held.
    """

    def __init__(self, target: Target, state: ChainState) -> None:
        assert target.levels is not None
        assert target.terms is not None
        self.target, self.levels = target, target.levels
        self.inverse_scales = target.terms.parameters[:, 1]
        self.u, self.total = target.recover(state), target.total(state.records)
        self.v = self.v_new = target.coordinates.to_vector(state.theta)
        self.room = np.empty_like(state.records)
        self.records = np.full(target.levels.stop - target.levels.start, -2)
        self.looks = 0

    def total_at(self, v: np.ndarray) -> np.ndarray:
        """Return T(F(u; theta(v))), (d,)."""
        self.looks += 1
        return self.target.total_at(v, self.u)

    def build(self, v: np.ndarray) -> np.ndarray:
        """Return all records at v."""
        theta = self.target.coordinates.from_vector(v)[0]
        return self.target.build_all(theta, self.u, self.room)

    def look(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return T and all H_g at v."""
        if (self.records == -2).all():
            total = self.total_at(v)
            return total, total
        self.looks += 1
        records = self.build(v)
        total = self.target.total(records)
        held = np.where(self.records < 0, v[self.levels], records[self.records, 1])
        return total, np.where(self.records == -2, total, held)

    def log_prior(self, v: np.ndarray) -> float:
        """Return the log prior density of all coordinates at v."""
        theta, log_jacobian = self.target.coordinates.from_vector(v)
        return self.target.log_prior(theta) + log_jacobian

    def hold(self, v: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Choose what is held of each group at v, whose T is given; return all H_g and D_g."""
        nudged = v.copy()
        nudged[self.levels] += NUDGE
        self.records[:] = -2
        held, there = total, self.total_at(nudged)
        if not (there != total).all():
            records = self.build(v)
            self.records[there == total] = -1
            find_closest(records, self.target.statistic(records, 0), self.records)
            held, there = self.look(v)[1], self.look(nudged)[1]
        return held, (there - held) / NUDGE

    def solve(
        self, v: np.ndarray, slope: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return v with levels where all H_g are as wanted, and T there; None if not found.

        Every group has its own secant, between its last two points, starting with a given slope.
        Once two points bracket the solution, all later ones stay inside: at the middle, where the
        secant leads out. Where H_g is flat, the step doubles.
        """
        v, approach, rises = v.copy(), Approach(), np.sign(slope)
        between = np.full((len(slope), 2), (-math.inf, math.inf))
        step, (total, held) = np.zeros(len(slope)), self.look(v)
        off = held - wanted
        for _ in range(MOST_TRIES):
            if not np.isfinite(off).all():
                return None
            next_steps(off, slope, rises, v[self.levels], between, step)
            worst = np.maximum(np.abs(off) * self.inverse_scales, np.abs(step)).max()
            if approach.ends(float(worst), step, v):
                return v, total
            v[self.levels] += step
            last, (total, held) = off, self.look(v)
            off = held - wanted
            secant = (off - last) / np.where(step == 0.0, 1.0, step)
            slope = np.where(np.abs(step) > NUDGE, secant, slope)
        return None

    def follow(self, proposed: np.ndarray) -> float:
        """Let the levels of a proposed v follow, so that all H_g stay; return log r without q.

        It may be accepted only if it `leads_back`.
        """
        spread_of = self.target.coordinates.spread_of
        with np.errstate(all="ignore"):
            held, before = self.hold(self.v, self.total)
            self.wider = spread_of(proposed) / spread_of(self.v)
            found = self.solve(proposed, before * self.wider, held)
            if found is None:
                return -math.inf
            self.v_new, total = found
            self.held_new, self.slope_new = self.hold(self.v_new, total)
            log_volume = float(np.log(np.abs(before / self.slope_new)).sum())
            log_ratio = self.log_prior(self.v_new) - self.log_prior(self.v) + log_volume
            return log_ratio + self.target.log_g(total) - self.target.log_g(self.total)

    def leads_back(self) -> bool:
        """Whether the solver returns from the last proposal to the current position."""
        back = self.v.copy()
        back[self.levels] = self.v_new[self.levels]
        with np.errstate(all="ignore"):
            returned = self.solve(back, self.slope_new / self.wider, self.held_new)
        return returned is not None and np.allclose(returned[0], self.v, rtol=1e-6, atol=1e-6)
