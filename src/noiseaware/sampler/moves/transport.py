"""Carry the database along with the parameters.

Algorithm 1 alternates between theta given the records and the records given theta. With large
privacy noise the release pins down neither, the two can only move together, and the chain crawls.
So write the records as x_i = F(u_i; theta), with innovations u_i from a fixed distribution, and
move theta with *u* held: every record follows.

**The ratio.** In the coordinates (theta, u) the joint posterior is

    p(theta, u | s_dp)  proportional to  p(theta) p(u) g(s_dp, T(F(u; theta))),

because x = F(u; theta) with u ~ p(u) has the density f(x | theta). With u held, p(u) cancels, and a
proposal v' ~ q(. | v) in unconstrained coordinates v (theta = theta(v), Jacobian J(v)) is accepted
with probability min(1, r),

    r =  p(theta') J(v') g(s_dp, T(F(u; theta')))  q(v | v')
        ------------------------------------------------------.
         p(theta ) J(v ) g(s_dp, T(F(u; theta )))  q(v' | v)

No density of the records is needed, only a prior and F. The cost is one pass over the records.

**Where u comes from.** The move acts on (theta, x): it draws u from p(u | x, theta), moves theta
with u held, and puts back x = F(u; theta'). Where F is invertible in u, u is its inverse at x;
where a discrete record is F(u) for a whole interval, u is drawn uniformly from it. Both leave
p(theta, x | s_dp), the marginal of p(theta, x, u | s_dp), invariant. A model that is only a
simulator carries u in its state.

**Unknown n** is one more parameter of the map from theta to the database, and the same ratio holds
with p(n) in it. `size` defines its coordinate and `row` says which innovations are held.

**Proposals.** `proposals` has random walks, an independent jump from the learned geometry, and a
jump from the prior; `formula` adds one for models and queries with a formula for T, `learned` one
for those without. An iteration makes a few steps of each with the same u; warm-up chooses how many
(`tuning`).

**Antithetic draws.** With m the learned mean of v, the map v' = 2 m - v is its own inverse and its
determinant is 1 in absolute value, so q cancels from r. Where the noise is large, theta given u is
nearly theta given s_dp, hence nearly symmetric around m, and the mirror image is accepted with a
probability a close to 1. A draw and its image average to m, so the mean of such a pair has variance
(1 - a) V, against V / 2 for two independent draws, and the image costs one look at the records
instead of an iteration. Functions such as (v - m)^2, equal at v and its image, gain nothing. So
where a exceeds 1/2 and an iteration needs no second round (`tuning.ENOUGH`), every second iteration
of `Interweave` is only the mirror image (`Transport.antithetic`).

All learning happens in warm-up and is then frozen. The move is the ancillary half of an
interweaving scheme (Yu and Meng 2011, "To center or not to center"); `ParameterUpdate` is the other
half, and each is fast where the other is slow. The levels of groups can be held as well (`groups`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Theta
from noiseaware.sampler.moves.afresh import draw_afresh, look_afresh, times_afresh
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.moves.formula import RegressionJump
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.learned import LearnedJump, can_learn
from noiseaware.sampler.moves.proposals import Jump, PriorJump, Proposal, Walk
from noiseaware.sampler.moves.row import NO_LEAN, Row
from noiseaware.sampler.moves.tuning import (
    AS_BEFORE,
    ENOUGH,
    EVERY,
    NOT_BRIEF,
    Gains,
    are_few,
    choose_brief,
    choose_steps,
    costs,
    expected_time,
    price,
    seldom,
    slowness,
)
from noiseaware.sampler.size import with_size, without_size
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target, most_likely_total

LARGEST_BLOCK = 12
"""Most coordinates proposed together; larger blocks would need steps that are too small."""

FIRST_WINDOW = 32
"""The geometry is first learned after this many iterations of warm-up, and again each time their
number doubles. A covariance of `LARGEST_BLOCK` coordinates needs about as many."""

STARTS, ATTEMPTS, CLOSE = 32, 4, 10.0
"""A chain begins at the best of `STARTS` draws from the prior, in up to `ATTEMPTS` attempts to come
within `CLOSE` noise scales of the release; the largest of some thousand noise terms is as far off.
This takes a few hundred looks at the records, under a hundredth of the chain's total."""

MOST_DRAWS = 2000
"""The geometry begins with 20 draws from the prior for each coordinate; with many coordinates, with
this many in all, but at least two for each."""

LOOKS = {"start": 2000, "learn": 10}
"""An estimate of dT/dv looks at the records twice for each coordinate. With many coordinates there
are fewer estimates: about this many looks in an attempt at the start, and later in an iteration."""

LOOK_EVERY = 8
"""Every eighth iteration of warm-up evaluates the ratio of the mirror image. Proposals that are not
worth their cost, as far as warm-up has found, are made in every eighth iteration only; afterwards,
those that always keep a share."""

NOTHING = np.empty(0)
"""A vector that is not yet known."""

MOST_COST = {True: 9.0, False: 3.0}
"""The most a transport move may cost, in iterations of Algorithm 1, if records are few or many."""


class Transport(ReadyMove):
    """Move theta and rebuild every record with the same innovations.

    Parameters
    ----------
    steps : int, optional
        Steps of each proposal in an iteration. None chooses in warm-up.
    hold_levels : bool
        Hold the levels of groups and leave them to `GroupMove`, for targets it supports.
    """

    reports = ("transport_acceptance",)
    moves_size = True
    chooses = True

    def __init__(self, steps: int | None = None, *, hold_levels: bool = False) -> None:
        self.steps = None if steps is None else whole_number("steps", steps)
        self.hold_levels = hold_levels

    def __repr__(self) -> str:
        given = [] if self.steps is None else [f"steps={self.steps}"]
        given += ["hold_levels=True"] * self.hold_levels
        return f"Transport({', '.join(given)})"

    def check(self, target: Target) -> None:
        if not target.abilities.can_transport:
            raise ValueError(
                f"Transport needs a model with innovations, build_records and, if it has "
                f"update_parameters, recover_innovations; {type(target.model).__name__} lacks them"
            )
        if self.hold_levels and target.levels is None:
            raise ValueError(
                "hold_levels must be False where GroupMove cannot move the levels; got True, for "
                f"{target.abilities.name} and {target.query_abilities.name}"
            )

    def find_start(self, target: Target, state: ChainState) -> None:
        """Go to where the release fits, or nearly fits: a chain that starts far off may take long.

        A theta from the prior may be so far off that every record is clamped. The total then does
        not respond to the parameter that is wrong, and the chain escapes by another, such as a
        variance of thousands with noisy sums of clamped records. So the start is the best of
        several draws from the prior, moved towards the released total with the innovations held. If
        no solution is found, more attempts follow, each with new records.
        """
        best = here = self._position(target, state)
        for attempt in range(ATTEMPTS):
            if attempt:
                theta = target.sample_prior(state.rng)
                records, u = target.propose(theta, len(state.records), state.rng)
                here = self._position(target, ChainState(theta, records, u, state.rng))
            here.begin(state.rng)
            if here.log_g > best.log_g:
                best = here
            if target.terms is None or np.abs(best.misfit(best.total)).max() < CLOSE:
                break
        best.put_into(state)
        if state.innovations is not None:
            state.innovations = best.row.own()

    def _position(
        self,
        target: Target,
        state: ChainState,
        tuning: Tuning | None = None,
        log_g: float | None = None,
    ) -> Position:
        lean, span = NO_LEAN, 0
        if tuning is not None and target.size is not None:
            lean, span = tuning["lean"], max(proposal.span for proposal in tuning["proposals"])
        return Position(target, state, lean, span, log_g, hold_levels=self.hold_levels)

    def start(self, target: Target, state: ChainState) -> Tuning:
        maps = maps_at(target, state.theta, self.hold_levels)
        proposals = make_proposals(target, maps)
        number = maps.size * max(2, min(20, MOST_DRAWS // maps.size))
        draws = [draw_prior(target, state.rng, self.hold_levels) for _ in range(number)]
        prior = [v for _, v in draws]
        geometry = Geometry(np.stack(prior))
        fresh = fresh_proposals(target, maps)
        for proposal in (*proposals, *fresh):
            proposal.set_geometry(geometry)
        return {
            "proposals": proposals,
            "steps": [self.steps or int(not proposal.if_needed) for proposal in proposals],
            "seldom": [False] * len(proposals),
            "warming": True,
            "count": 0,
            "geometry": geometry,
            "gains": Gains(len(proposals), maps.size),
            "outlook": (0.0, 0.0),
            "options": None,
            "option": 0,
            "lean": np.zeros(_leaning(target)),
            "means": [],
            "images": [],
            "centre": None,
            "fresh": fresh,
            "looks": [[] for _ in fresh],
            "brief": NOT_BRIEF,
        }

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        numbers, rng = tuning["steps"], state.rng
        if not any(numbers):
            return (math.nan,)
        warming, gains = tuning["warming"], tuning["gains"]
        here = self._position(target, state, tuning)
        if warming:
            here.find_v()
            if tuning["geometry"].history:
                gains.record_others(here.v, tuning["geometry"].history[-1])
            if tuning["fresh"] and state.iteration % LOOK_EVERY == 0:
                for looks, proposal in zip(tuning["looks"], tuning["fresh"], strict=True):
                    looks.append(look_afresh(target, state, proposal))
        accepted = tried = 0
        for which, (proposal, steps) in enumerate(zip(tuning["proposals"], numbers, strict=True)):
            if steps == 0 or (tuning["seldom"][which] and _rests(state, warming)):
                continue
            tried += steps
            if proposal.needs_v:
                here.find_v()
            proposal.condition_on(target, here.row)
            prepared = proposal.prepare(steps, rng)
            log_uniform = (-rng.standard_exponential(steps)).tolist()
            for k in range(steps):
                log_ratio = here.propose(proposal, prepared, k, rng)
                # Far out, where theta rounds to the edge of its support, a prior density may be
                # infinite. There is no mass there, and the proposal is rejected.
                accept = log_uniform[k] < log_ratio < math.inf
                if accept:
                    here.accept()
                    accepted += 1
                if warming:
                    proposal.record(log_ratio)
                    gains.record_step(which, here.v, here.v_new, accept)
        if warming and state.iteration % LOOK_EVERY == 0 and not self.hold_levels:
            log_ratio = here.look(2.0 * tuning["geometry"].mean - here.v, rng)
            tuning["images"].append(math.exp(min(0.0, log_ratio)) if log_ratio > -700.0 else 0.0)
        if accepted:
            here.put_into(state)
        if warming:
            tuning["geometry"].history.append(here.v.copy())
            if len(here.row.lean):
                tuning["means"].append(here.row.own().mean(axis=0))
        return (accepted / max(tried, 1),)

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        """Tune the walks; after 1, 2, 4, ... iterations, relearn the geometry."""
        geometry, proposals = tuning["geometry"], tuning["proposals"]
        tuning["count"] += 1
        count = tuning["count"]
        for proposal in proposals:
            proposal.tune(count)
        if count & (count - 1) == 0:
            if count >= FIRST_WINDOW:
                geometry.learn()
                tuning["gains"].fade()
                _learn_lean(tuning)
            here = self._position(target, state, tuning)
            if count == 1 or 2 * len(geometry.mean) <= LOOKS["learn"] * count:
                estimate_jacobian(here, geometry)
            for proposal in (*proposals, *tuning["fresh"]):
                proposal.set_geometry(geometry)
            if count >= FIRST_WINDOW:
                self._use_formula(here, tuning)
                if self.steps is None:
                    best = self._best_steps(target, tuning, _gains(tuning)[1])
                    tuning["seldom"] = [steps == 0 for steps in best]

    def _use_formula(self, here: Position, tuning: Tuning) -> None:
        """Use a formula where an effective draw would otherwise cost too many iterations."""
        geometry, steps = tuning["geometry"], tuning["steps"]
        for which, proposal in enumerate(tuning["proposals"]):
            if proposal.if_needed:
                steps[which] = 0
                gains, others = _gains(tuning)
                if self.steps or expected_time(gains, others, steps) > ENOUGH:
                    proposal.learn_formula(here, geometry)
                    steps[which] = self.steps or 1

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        if len(tuning["geometry"].history) >= FIRST_WINDOW:
            tuning["geometry"].learn()
            _learn_lean(tuning)
            for proposal in (*tuning["proposals"], *tuning["fresh"]):
                proposal.set_geometry(tuning["geometry"])
            self._use_formula(self._position(target, state, tuning), tuning)
            self._choose(target, tuning)
            self._choose_brief(target, tuning)
        tuning["seldom"] = seldom(tuning["steps"], tuning["proposals"])
        pairs = zip(tuning["steps"], tuning["seldom"], strict=True)
        tuning["steps"] = [steps + one for steps, one in pairs]
        nothing: dict[str, Any] = {name: [] for name in ("means", "images", "looks")}
        tuning.update(nothing, geometry=None, gains=None, warming=False, options=None)

    def _choose_brief(self, target: Target, tuning: Tuning) -> None:
        """Choose whether to make mirror images, and whether to make fresh draws."""
        images, cost = tuning["images"], costs(target.n, target.work)
        recent = images[len(images) // 2 :]
        mirrored = math.fsum(recent) > 0.5 * len(recent)
        if self.steps is None:
            most = int((1 + tuning["outlook"][1]) / cost.fresh)
            halves = [looks[len(looks) // 2 :] for looks in tuning["looks"]]
            times = [times_afresh(looks, most) for looks in halves if looks]
            chosen = choose_brief(times, cost, tuning["outlook"], mirrored)
            tuning["brief"], tuning["outlook"] = chosen
        if mirrored and tuning["outlook"][0] < ENOUGH:
            tuning["centre"] = tuning["geometry"].mean.copy()

    def brief(
        self, target: Target, state: ChainState, tuning: Tuning, log_g: float | None = None
    ) -> float | None:
        """Make a cheap draw, if this iteration is to have one.

        If mirror images pay, every second iteration is one. If fresh draws pay, so are all other
        iterations except every `EVERY`-th. Takes log g if it is known, and returns it.
        """
        turn, (which, steps) = state.iteration, tuning["brief"]
        if tuning["centre"] is not None:
            if turn % 2 == 0:
                return self.antithetic(target, state, tuning, log_g)
            turn //= 2
        if steps and (turn + 1) % EVERY:
            return draw_afresh(target, state, tuning["fresh"][which], steps, log_g)
        return None

    def antithetic(
        self, target: Target, state: ChainState, tuning: Tuning, log_g: float | None = None
    ) -> float:
        """Propose the mirror image of v and nothing else; return log g."""
        here = self._position(target, state, tuning, log_g)
        here.find_v()
        log_ratio = here.look(2.0 * tuning["centre"] - here.v, state.rng)
        if -state.rng.standard_exponential() < log_ratio < math.inf:
            here.accept()
            here.put_into(state)
        return here.log_g

    def _best_steps(
        self, target: Target, tuning: Tuning, others: np.ndarray, besides: float = 0.0
    ) -> list[int]:
        """Return the steps of each proposal, given the gains and the cost of the other moves."""
        proposals, few = tuning["proposals"], are_few(target.n, target.work)
        # One warm-up may be too optimistic; with few records a step of each is cheap.
        each = not target.abilities.can_update or (few and target.formula() is None)
        return choose_steps(
            proposals,
            _gains(tuning)[0],
            others,
            costs(target.n, target.work, proposals, sized=target.size is not None),
            least=[int(each and steps > 0) for steps in tuning["steps"]],
            most=MOST_COST[few],
            besides=besides,
        )

    def _choose(self, target: Target, tuning: Tuning) -> None:
        """Choose the steps, unless they are given, and an option for the other moves."""
        gains, others = _gains(tuning)
        cost = costs(target.n, target.work, tuning["proposals"], sized=target.size is not None)
        lowest, chosen = math.inf, tuning["steps"]
        history = np.stack(tuning["geometry"].history[len(tuning["geometry"].history) // 2 :])
        slower = slowness(history, expected_time(gains, others, tuning["steps"]))
        for which, option in enumerate(tuning["options"] or [AS_BEFORE]):
            rest = np.clip(1 - (1 - others) * option.left, 0.0, 1.0)
            steps = tuning["steps"]
            if self.steps is None:
                steps = self._best_steps(target, tuning, rest, option.cost)
            time = max(slower * expected_time(gains, rest, steps), option.time)
            besides = option.cost + cost.total(steps)
            if (now := price(time, besides)) < lowest:
                lowest, chosen = now, steps
                tuning["option"], tuning["outlook"] = which, (time, besides)
        tuning["steps"] = chosen


class Position:
    """Where the move is while u is held, and where the last proposal would take it.

    Attributes
    ----------
    theta, records, total, log_g
        theta, F(u; theta), its total and log g; with suffix `_new`, those of the last proposal.
        Large databases are None until built at the end; if log g is given, the total is empty until
        a proposal is accepted.
    row
        The innovations u that are held.
    maps
        The coordinates that move: all, or all but the levels of groups.
    v, log_prior
        theta as a vector, and its log density, once `find_v` has been called.
    """

    def __init__(
        self,
        target: Target,
        state: ChainState,
        lean: np.ndarray = NO_LEAN,
        span: int = 0,
        log_g: float | None = None,
        *,
        hold_levels: bool = False,
    ) -> None:
        self.target, self.hold_levels = target, hold_levels
        assert target.abilities.innovations is not None  # `check` saw to it
        u, self.rng = target.recover(state), state.rng
        self.row = Row(u, target.abilities.innovations, self.rng, lean, span)
        self.theta = self.theta_new = state.theta
        if target.size is not None:
            self.theta = with_size(state.theta, len(state.records), state.rng)
        self.records: np.ndarray | None = state.records
        self.total = NOTHING
        if log_g is None:
            self.total = target.total(state.records)
            log_g = target.log_g(self.total)
        self.log_g, self.found = log_g, False
        self.maps = maps_at(target, self.theta, hold_levels)
        self.v, self.v_new, self.log_prior = NOTHING, NOTHING, 0.0

    def find_v(self) -> None:
        """Compute v and its prior density, if not yet done."""
        if not self.found:
            self.v, self.log_prior = self._place()
            self.v_new, self.found = np.empty_like(self.v), True

    def _place(self) -> tuple[np.ndarray, float]:
        if self.hold_levels:
            self.maps = maps_at(self.target, self.theta, self.hold_levels)
        return place(self.maps, self.target.log_prior_moved, self.theta)

    def propose(self, proposal: Proposal, prepared: Any, k: int, rng: np.random.Generator) -> float:
        """Return the log of the ratio r of a new proposal."""
        if proposal.needs_v:
            log_q = proposal.propose(self.v, prepared, k, self.v_new)
            return log_q + self.look(self.v_new, rng)
        self.moved_v = False
        self.theta_new = self.target.sample_moved(rng)
        self.rebuild(rng)
        # q is the prior, so that the two cancel
        return self.log_g_new - self.log_g + self.row.log_factor

    def look(self, v: np.ndarray, rng: np.random.Generator) -> float:
        """Return the log density at v less that of the current position, with u held."""
        target = self.target
        self.v_new, self.moved_v = v, True
        self.theta_new, log_jacobian = self.maps.from_vector(v)
        self.log_prior_new = target.log_prior_moved(self.theta_new) + log_jacobian
        log_ratio = self.log_prior_new - self.log_prior
        if log_ratio > -math.inf:
            self.rebuild(rng)
            log_ratio += self.log_g_new - self.log_g + self.row.log_factor
        return log_ratio

    def begin(self, rng: np.random.Generator) -> None:
        """Go to the best of several theta from the prior, and from there towards the release."""
        prior = []
        for _ in range(STARTS):
            self.theta_new, v = draw_prior(self.target, rng, self.hold_levels)
            prior.append(v)
            self.rebuild(rng)
            if self.log_g_new > self.log_g:
                self.accept()
        if self.target.terms is not None:
            self.find_v()
            if self.look(self.solve(Geometry(np.stack(prior)), rng), rng) > 0.0:
                self.accept()

    def misfit(self, total: np.ndarray) -> np.ndarray:
        """Return how far a total is off, in units of the noise, (d,)."""
        terms = self.target.terms
        assert terms is not None  # the callers saw to it
        return (most_likely_total(terms) - total) * terms.parameters[:, 1]

    def solve(self, geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
        """Return where Gauss-Newton steps from v towards the released total lead, with u held.

        With small noise theta given u is a long, narrow and bent valley, where steps scaled to the
        noise get nowhere. So each step assumes noise as large as the remaining misfit.
        """
        terms = self.target.terms
        assert terms is not None  # the caller saw to it

        def total_at(v: np.ndarray) -> np.ndarray:
            return self.build(self.maps.from_vector(v)[0], rng)[1]

        v, off = self.v, self.misfit(self.total)
        for _ in range(max(1, min(STARTS, LOOKS["start"] // (2 * len(v))))):
            softer = float(np.abs(off).max())
            if not CLOSE < softer < math.inf:
                break
            geometry.estimate_jacobian(total_at, terms.parameters[:, 1] / softer, v)
            step = geometry.pull @ (off / softer)
            for part in (1.0, 0.5, 0.25, 0.125):
                there = self.misfit(total_at(v + part * step))
                if there @ there < off @ off:
                    v, off = v + part * step, there
                    break
            else:
                break
        return v

    def rebuild(self, rng: np.random.Generator) -> None:
        """Build the records of the proposed theta."""
        self.records_new, self.total_new = self.build(self.theta_new, rng)
        self.log_g_new = self.target.log_g(self.total_new)

    def build(self, theta: Theta, rng: np.random.Generator) -> tuple[np.ndarray | None, np.ndarray]:
        """Return `Target.rebuild` of theta with the same u; if n is unknown, with theta's n."""
        if self.target.size is None:
            return self.target.rebuild(theta, self.row.u)
        own, n = without_size(theta)
        # At least one: a difference that estimates dT/dn may ask for none.
        return self.target.rebuild(own, self.row.first(max(1, n)))

    def put_into(self, state: ChainState) -> None:
        """Write the position into the chain's state."""
        state.theta = self.theta
        if self.target.size is not None:
            state.theta, _ = without_size(self.theta)
        records = self.records
        if records is None:
            records = self.target.build_all(state.theta, self.row.own(), state.records)
        if self.target.size is None:
            state.records = records
            return
        held = None if state.innovations is None else self.row.own().copy()
        state.set_records(records, held)

    def accept(self) -> None:
        """Go to the last proposal."""
        self.row.accept()
        self.theta, self.records = self.theta_new, self.records_new
        self.total, self.log_g = self.total_new, self.log_g_new
        if self.found:
            if not self.moved_v:
                self.v_new, self.log_prior_new = self._place()
            self.v, self.v_new = self.v_new, self.v
            self.log_prior = self.log_prior_new


def _rests(state: ChainState, warming: bool) -> bool:
    """Whether a proposal that is made seldom is left out now.

    After warm-up by chance: whole classes of iterations, such as every second, make a mirror image
    or a fresh draw and no other move.
    """
    if warming:
        return state.iteration % LOOK_EVERY > 0
    return bool(state.rng.random() * LOOK_EVERY >= 1.0)


def _leaning(target: Target) -> int:
    """Return how many innovations of a record lean on n: the normal ones, where n is unknown."""
    innovations = target.abilities.innovations
    if target.size is None or innovations is None or innovations.kind != "normal":
        return 0
    return innovations.width


def _gains(tuning: Tuning) -> tuple[np.ndarray, np.ndarray]:
    """Return the gains of one step of each proposal, and of the other moves in an iteration."""
    variances = np.diag(tuning["geometry"].covariance)
    return tuning["gains"].of_proposals(variances), tuning["gains"].of_others(variances)


def _learn_lean(tuning: Tuning) -> None:
    """Learn c from the later half of the history."""
    means = tuning["means"][len(tuning["means"]) // 2 :]
    if means:
        log_n = np.stack(tuning["geometry"].history[-len(means) :])[:, -1]
        off = log_n - log_n.mean()
        tuning["lean"] = off @ np.stack(means) / max(float(off @ off), 1e-12)


def maps_at(target: Target, theta: Theta, hold_levels: bool) -> Any:
    """Return the coordinates that move from theta."""
    return target.coordinates.around(theta) if hold_levels else target.moved


def draw_prior(
    target: Target, rng: np.random.Generator, hold_levels: bool
) -> tuple[Theta, np.ndarray]:
    """Draw theta from the prior; return it and its v."""
    theta = target.sample_moved(rng)
    return theta, maps_at(target, theta, hold_levels).to_vector(theta)


def make_proposals(target: Target, maps: Any) -> list[Proposal]:
    """Return all proposals that a target allows, in the order in which they are made."""
    blocks = maps.blocks(LARGEST_BLOCK)
    # A draw from the prior would change levels that are held.
    whole = maps is target.moved
    proposals: list[Proposal] = [PriorJump()] if whole else []
    formula = target.formula()
    # With many blocks, the formula's own chain goes through them.
    for b, index in enumerate(blocks if formula is None or len(blocks) <= 2 else []):
        parts = [part for part in maps.blocks(max(1, maps.size - 1)) if set(part) < set(index)]
        proposals += [Walk(index, b, given_u=True), Walk(index, b, given_u=False)]
        proposals.append(Jump(index, b, parts))
    if formula is not None:
        proposals.append(RegressionJump(formula, blocks, target))
    elif whole and len(blocks) == 1 and can_learn(target):
        proposals.append(LearnedJump(blocks[0], target))
    return proposals


def fresh_proposals(target: Target, maps: Any) -> list[Proposal]:
    """Return the proposals of theta that can come with fresh records (`afresh`)."""
    if maps is not target.moved:
        return []
    whole = np.arange(maps.size)
    return [PriorJump(), *([Jump(whole, 0)] if maps.size <= LARGEST_BLOCK else [])]


def place(
    coordinates: Any, log_prior: Callable[[Theta], float], theta: Theta
) -> tuple[np.ndarray, float]:
    """Return theta as a vector v, and its log prior density there."""
    v = coordinates.to_vector(theta)
    inside, log_jacobian = coordinates.from_vector(v)
    return v, log_prior(inside) + log_jacobian


def estimate_jacobian(here: Position, geometry: Geometry) -> None:
    """Estimate dT/dv where the chain is."""
    terms = here.target.terms
    if terms is None:
        geometry.covariance_given_u = geometry.covariance
        return

    def total_at(v: np.ndarray) -> np.ndarray:
        return here.build(here.maps.from_vector(v)[0], here.rng)[1]

    geometry.estimate_jacobian(total_at, terms.parameters[:, 1], here.maps.to_vector(here.theta))
