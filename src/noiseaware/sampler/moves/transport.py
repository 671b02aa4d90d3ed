"""Carry the database along with the parameters.

Algorithm 1 moves theta with the records held and the records with theta held. When the privacy
noise is large, the release pins down neither, the two move only together, and the chain crawls.
Write the records as x_i = F(u_i; theta), with innovations u_i from a fixed distribution, and move
theta with *u* held: every record follows.

**The ratio.** In the coordinates (theta, u) the joint posterior is

    p(theta, u | s_dp)  proportional to  p(theta) p(u) g(s_dp, T(F(u; theta))),

because x = F(u; theta) with u ~ p(u) is how f(x | theta) makes x. With u held, p(u) cancels, and a
proposal v' ~ q(. | v) in unconstrained coordinates v (theta = theta(v), Jacobian J(v)) is accepted
with probability min(1, r),

    r =  p(theta') J(v') g(s_dp, T(F(u; theta')))  q(v | v')
        ------------------------------------------------------.
         p(theta ) J(v ) g(s_dp, T(F(u; theta )))  q(v' | v)

No density of the records appears, so none is needed: a model that only gives a prior and F can be
sampled. The cost is one pass over the records.

**Where u comes from.** The move acts on (theta, x): u is drawn from p(u | x, theta), theta is
moved with u held, and x = F(u; theta') is put back. Where F is invertible in u, u is F's inverse at
x. A discrete record is F(u) for a whole interval of u, and u is drawn uniformly from it, afresh in
each move. Both leave
p(theta, x | s_dp) invariant, because p(theta, x, u | s_dp) has it as its margin.
A model that is only a simulator carries u in its state.

**Proposals.** `proposals` has four: a random walk, an independent jump from the learned shape, a
jump aimed at the release, and a jump from the prior; `surrogate` and `solved` have one each, for
models and queries with a formula for T. An iteration does a few steps of each with the same u; how
many is chosen in warm-up, from how far each carries theta for what it costs, and may be none. One
step more may be of a kind that is drawn at random, whatever theta: a mixture of kernels that each
leave the posterior alone.

All that is learned is learned in warm-up and then frozen. The move is the ancillary half of an
interweaving scheme (Yu and Meng 2011, "To center or not to center"); `ParameterUpdate` is the other
half, and each is fast where the other is slow.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from noiseaware.arguments import whole_number
from noiseaware.sampler.moves.formula import formula_proposals
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.proposals import AimedJump, Jump, PriorJump, Proposal, Walk
from noiseaware.sampler.moves.tuning import (
    FEW_RECORDS,
    Gains,
    choose_steps,
    costs,
    expected_time,
    guards,
    keep_within,
    safeguard,
    total_cost,
)
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

LARGEST_BLOCK = 12
"""Coordinates that are proposed together; more would need steps that are too small."""

FIRST_WINDOW = 32
"""The geometry is learned anew after so many iterations of warm-up, twice as many, ..."""

LOOK_EVERY = 16
"""Iterations of warm-up between two estimates of how the total answers to theta."""

MOST_COST = {True: 9.0, False: 2.6}
"""What a transport move may cost, in iterations of Algorithm 1: with few records, and with many."""

ENOUGH = 2.5
"""Iterations that an effective draw may cost, with many records, before more steps are taken; with
few, `Interweave` makes iterations longer."""

SHORTEST_HISTORY = 20
"""Iterations of warm-up below which nothing is learned from them."""


class Outlook(NamedTuple):
    """What a transport move expects of the draws after warm-up.

    Attributes
    ----------
    autocorrelation_time
        Iterations that an effective draw of the slowest coordinate should cost.
    cost
        What the move costs, in iterations of Algorithm 1.
    """

    autocorrelation_time: float
    cost: float


class Transport:
    """Move theta and rebuild every record with the same innovations.

    Parameters
    ----------
    steps : int, optional
        Steps of each proposal in an iteration. None chooses in warm-up.
    """

    reports = ("transport_acceptance",)

    def __init__(self, steps: int | None = None) -> None:
        self.steps = None if steps is None else whole_number("steps", steps)

    def __repr__(self) -> str:
        return "Transport()" if self.steps is None else f"Transport(steps={self.steps})"

    def check(self, target: Target) -> None:
        """Raise if the model does not build its records from innovations."""
        if not target.abilities.can_transport:
            raise ValueError(
                f"Transport needs a model with innovations, build_records and, if it has "
                f"update_parameters, recover_innovations; {type(target.model).__name__} lacks them"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin with the prior's mean and covariance, from draws of it."""
        coordinates = target.coordinates
        proposals = make_proposals(target)
        prior = [
            coordinates.to_vector(target.sample_prior(state.rng))
            for _ in range(20 * coordinates.size)
        ]
        geometry = Geometry(np.stack(prior))
        for proposal in proposals:
            proposal.set_geometry(geometry)
        return {
            "proposals": proposals,
            "steps": self._steps_while_learning(proposals),
            "guards": [],
            "warming": True,
            "count": 0,
            "geometry": geometry,
            "gains": Gains(len(proposals), coordinates.size),
            "outlook": Outlook(0.0, 0.0),
        }

    def _steps_while_learning(self, proposals: list[Proposal]) -> list[int]:
        """Return the steps of each proposal in an iteration of warm-up.

        With more than two blocks it is one step of each, or warm-up would take longer than the
        draws; and with a formula one of each, and with more than two blocks only those of the
        first block: the formula does the work.
        """
        if self.steps is not None:
            return [self.steps] * len(proposals)
        many_blocks = any((proposal.block or 0) > 1 for proposal in proposals)
        if any(proposal.held for proposal in proposals):
            return [0 if many_blocks and proposal.block else 1 for proposal in proposals]
        return [1 if many_blocks else proposal.learning_steps for proposal in proposals]

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Do all steps with one u; report the share accepted."""
        numbers, rng = tuning["steps"], state.rng
        if not any(numbers):
            return (math.nan,)
        if tuning["guards"]:
            numbers = numbers.copy()
            numbers[tuning["guards"][int(rng.random() * len(tuning["guards"]))]] += 1
        warming, gains = tuning["warming"], tuning["gains"]
        here = Position(target, state)
        if warming:
            here.find_v()
            if tuning["geometry"].history:
                gains.record_others(here.v, tuning["geometry"].history[-1])
        held = False
        accepted = 0
        for which, (proposal, steps) in enumerate(zip(tuning["proposals"], numbers, strict=True)):
            if steps == 0:
                continue
            if proposal.needs_v:
                here.find_v()
            if proposal.held is not None and not held:
                proposal.held.condition_on(target, here.u)
                held = True
            prepared = proposal.prepare(steps, rng)
            log_uniform = (-rng.standard_exponential(steps)).tolist()
            for k in range(steps):
                log_ratio = here.propose(proposal, prepared, k, rng)
                # So far out that theta rounds to the edge of its support, a prior density may be
                # infinite; there is no mass there, and such a proposal is refused.
                accept = log_uniform[k] < log_ratio < math.inf
                if accept:
                    here.accept()
                    accepted += 1
                if warming:
                    proposal.record(log_ratio)
                    gains.record_step(which, here.v, here.v_new, accept)
        if accepted:
            state.theta, state.records = here.theta, here.records
        if warming:
            tuning["geometry"].history.append(here.v.copy())
        return (accepted / sum(numbers),)

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Tune the walks, and learn the geometry anew at 32, 64, 128, ... iterations."""
        geometry, proposals = tuning["geometry"], tuning["proposals"]
        tuning["count"] += 1
        count = tuning["count"]
        for proposal in proposals:
            proposal.tune(count)
        new_window = count & (count - 1) == 0
        if new_window and count >= FIRST_WINDOW:
            geometry.learn()
            tuning["gains"].fade()
        if new_window or count % LOOK_EVERY == 0:
            estimate_jacobian(target, state, geometry, proposals, forget=new_window)
            for proposal in proposals:
                proposal.set_geometry(geometry)

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Learn for the last time, choose the number of steps, and drop the history."""
        if len(tuning["geometry"].history) >= SHORTEST_HISTORY:
            tuning["geometry"].learn()
            for proposal in tuning["proposals"]:
                proposal.set_geometry(tuning["geometry"])
            self._choose(target, tuning)
        tuning.update(geometry=None, gains=None, warming=False)

    def _choose(self, target: Target, tuning: dict[str, Any]) -> None:
        """Choose the steps and the guards, unless they are given, and say what they promise."""
        geometry, gains, proposals = tuning["geometry"], tuning["gains"], tuning["proposals"]
        variances = np.diag(geometry.covariance)
        inside, others = gains.of_proposals(variances), gains.of_others(variances)
        # The formula sees the size of the steps, not that they may lead to and fro; what the
        # history shows of that in warm-up is carried over to the steps chosen now.
        expected = expected_time(inside, others, tuning["steps"])
        excess = max(1.0, geometry.autocorrelation_time() / expected)
        holds = sum(proposal.held is not None for proposal in proposals)
        two_blocks = not any((proposal.block or 0) > 1 for proposal in proposals)
        guarded = self.steps is None and holds > 0 and (two_blocks or holds > 1)
        cost = costs(target, proposals, guarded=guarded)
        if self.steps is None:
            few = target.n < FEW_RECORDS
            steps = choose_steps(
                inside,
                others,
                cost,
                least=0 if target.abilities.can_update else 1,
                most=MOST_COST[few],
                enough=math.inf if few else ENOUGH / excess,
            )
            one_of_each = [1] * len(proposals)
            cheap = few and total_cost(one_of_each, cost) <= MOST_COST[few]
            if cheap and not holds and not any(steps):
                steps = one_of_each  # one warm-up may be too hopeful about the other moves
            safeguard(steps, proposals)
            keep_within(MOST_COST[few], steps, cost)
            tuning.update(steps=steps, guards=guards(steps, cost))
        steps = tuning["steps"]
        expected = expected_time(inside, others, steps)
        # The history was made with steps; it does not speak of a chain without them.
        time = (excess if any(steps) else 1.0) * expected
        tuning["outlook"] = Outlook(time, total_cost(steps, cost))

    def outlook(self, tuning: dict[str, Any]) -> Outlook:
        """Return what the move expects of the draws, once warm-up has ended."""
        return tuning["outlook"]


class Position:
    """Where the move is while u is held, and where the last proposal would take it.

    Attributes
    ----------
    theta, records, total, log_g
        theta, F(u; theta), T and log g there; with `_new`, of the last proposal.
    v, log_prior
        theta as a vector, and its log density there, from when `find_v` is first called.
    """

    def __init__(self, target: Target, state: ChainState) -> None:
        self.target = target
        self.u = target.recover(state)
        self.theta = self.theta_new = state.theta
        self.records = state.records
        self.total = target.total(state.records)
        self.log_g = target.log_g(self.total)
        self.found = False
        self.v = np.empty(target.coordinates.size)
        self.v_new = np.empty(target.coordinates.size)
        self.log_prior = 0.0

    def find_v(self) -> None:
        """Find v and the prior there, if that has not been done."""
        if not self.found:
            self.v, self.log_prior = place(self.target, self.theta)
            self.found = True

    def propose(self, proposal: Proposal, prepared: Any, k: int, rng: np.random.Generator) -> float:
        """Make a proposal, and return the log of its ratio r."""
        target = self.target
        self.moved_v = proposal.needs_v
        if proposal.needs_v:
            log_q = proposal.propose(self.v, self.total, prepared, k, self.v_new)
            self.theta_new, log_jacobian = target.coordinates.from_vector(self.v_new)
            self.log_prior_new = target.log_prior(self.theta_new) + log_jacobian
            log_ratio = self.log_prior_new - self.log_prior + log_q
        else:
            self.theta_new = target.sample_prior(rng)
            log_ratio = 0.0  # q is the prior, so that the two cancel
        if log_ratio > -math.inf:
            self.records_new = target.build(self.theta_new, self.u)
            self.total_new = target.total(self.records_new)
            self.log_g_new = target.log_g(self.total_new)
            log_ratio += self.log_g_new - self.log_g
            log_ratio += proposal.log_reverse(self.v, self.v_new, self.total_new)
        return log_ratio

    def accept(self) -> None:
        """Go where the last proposal leads."""
        self.theta, self.records = self.theta_new, self.records_new
        self.total, self.log_g = self.total_new, self.log_g_new
        if self.found:
            if not self.moved_v:
                self.v_new, self.log_prior_new = place(self.target, self.theta)
            self.v, self.v_new = self.v_new, self.v
            self.log_prior = self.log_prior_new


def make_proposals(target: Target) -> list[Proposal]:
    """Return all proposals that a target allows, in the order in which they are made."""
    blocks = target.coordinates.blocks(LARGEST_BLOCK)
    proposals: list[Proposal] = [PriorJump()]
    for b, index in enumerate(blocks):
        proposals += [Walk(index, b, given_u=True), Walk(index, b, given_u=False), Jump(index, b)]
    formula = target.formula()
    if target.terms is not None and (formula is None or len(blocks) <= 2):
        proposals += [AimedJump(index, target.terms) for index in blocks]
    if formula is not None:
        proposals += formula_proposals(formula, blocks, target)
    return proposals


def place(target: Target, theta: dict[str, Any]) -> tuple[np.ndarray, float]:
    """Return theta as a vector v, and its log prior density there."""
    v = target.coordinates.to_vector(theta)
    inside, log_jacobian = target.coordinates.from_vector(v)
    return v, target.log_prior(inside) + log_jacobian


def estimate_jacobian(
    target: Target,
    state: ChainState,
    geometry: Geometry,
    proposals: list[Proposal],
    *,
    forget: bool,
) -> None:
    """Estimate how the total answers to theta where the chain is: by a formula if there is one."""
    if target.terms is None:
        geometry.covariance_given_u = geometry.covariance
        return
    u, coordinates = target.recover(state), target.coordinates

    def total_at(v: np.ndarray) -> np.ndarray:
        return target.total(target.build(coordinates.from_vector(v)[0], u))

    held = next((proposal.held for proposal in proposals if proposal.held is not None), None)
    if held is not None:
        held.condition_on(target, u)
        total_at = held.total
    v = coordinates.to_vector(state.theta)
    geometry.estimate_jacobian(total_at, target.terms.parameters[:, 1], v, forget=forget)
