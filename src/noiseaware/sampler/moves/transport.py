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
each move. Both leave p(theta, x | s_dp) alone, because p(theta, x, u | s_dp) has it as its margin.
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
from collections.abc import Sequence
from typing import Any

import numpy as np

from noiseaware.arguments import whole_number
from noiseaware.sampler.moves.proposals import AimedJump, Jump, PriorJump, Walk
from noiseaware.sampler.moves.solved import SolvedJump
from noiseaware.sampler.moves.surrogate import SurrogateJump
from noiseaware.sampler.moves.tuning import (
    FEW_RECORDS,
    Costs,
    Gains,
    Shape,
    choose_steps,
    costs,
    expected_time,
    guards,
    total_cost,
)
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

LARGEST_BLOCK = 12
"""Coordinates that are proposed together; more would need steps that are too small."""

FIRST_WINDOW = 32
"""The shape is learned anew when the number of warm-up iterations reaches this, twice this, ..."""

LOOK_EVERY = 16
"""Iterations of warm-up between two looks at how the total answers to theta."""

STEPS_WHILE_LEARNING = {PriorJump: 1, Walk: 2, Jump: 2, AimedJump: 2}
"""Steps of each kind of proposal in an iteration of warm-up; early on only walks get anywhere.
With more than two blocks it is one step of each, or warm-up would take longer than the draws; and
with a surrogate only one of each in the first block, since the surrogate does the work."""

MOST_COST = {True: 9.0, False: 2.6}
"""What a transport move may cost, in iterations of Algorithm 1: with few records, and with many."""

FORMULA = (SolvedJump, SurrogateJump)
"""The proposals that work with a formula for the total; the surrogate's is the last of all."""

ENOUGH = 2.5
"""Iterations that an effective draw may cost, with many records, before more steps are taken; with
few, `Interweave` makes iterations longer."""

SWAP = 4
"""Steps of another proposal that cost about as much as one of a surrogate."""

SHORTEST_HISTORY = 20
"""Iterations of warm-up below which nothing is learned from them."""


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
        proposals: list[Any] = [PriorJump(coordinates.size)]
        blocks = coordinates.blocks(LARGEST_BLOCK)
        for index in blocks:
            proposals += [Walk(index, given_u=True), Walk(index, given_u=False), Jump(index)]
        surrogate = target.formula()
        if target.terms is not None and (surrogate is None or len(blocks) <= 2):
            proposals += [AimedJump(index, target.terms) for index in blocks]
        if surrogate is not None:
            explorer = SurrogateJump(surrogate, blocks, target)
            proposals += [SolvedJump(explorer)] if SolvedJump.suits(explorer) else []
            proposals.append(explorer)
        prior = [
            coordinates.to_vector(target.sample_prior(state.rng))
            for _ in range(20 * coordinates.size)
        ]
        shape = Shape(np.stack(prior))
        for proposal in proposals:
            proposal.take(shape)
        if self.steps is not None:
            steps = [self.steps] * len(proposals)
        elif surrogate is not None:
            walks = 1 + 3 * len(blocks)
            steps = [1] * len(proposals)
            if len(blocks) > 2:
                steps[4:walks] = [0] * (walks - 4)
        elif len(blocks) > 2:
            steps = [1] * len(proposals)
        else:
            steps = [STEPS_WHILE_LEARNING[type(proposal)] for proposal in proposals]
        return {
            "proposals": proposals,
            "steps": steps,
            "guards": [],
            "warming": True,
            "count": 0,
            "shape": shape,
            "gains": Gains(len(proposals), coordinates.size),
        }

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Do all steps with one u; report the share accepted."""
        if not any(tuning["steps"]):
            return (math.nan,)
        numbers = tuning["steps"]
        if tuning["guards"]:
            numbers = numbers.copy()
            numbers[tuning["guards"][int(state.rng.random() * len(tuning["guards"]))]] += 1
        rng, coordinates = state.rng, target.coordinates
        model: Any = target.model
        warming, gains = tuning["warming"], tuning["gains"]
        theta, v, prior_now = state.theta, np.empty(coordinates.size), 0.0
        placed = held = False  # v is found, and the formula prepared, when they are needed
        if warming:
            v, prior_now = place(target, theta)
            placed = True
            if tuning["shape"].history:
                gains.note_others(v, tuning["shape"].history[-1])
        u = target.recover(state)
        total_now = target.total(state.records)
        log_g_now = target.log_g(total_now)
        records = None
        accepted = 0
        proposed = np.empty(coordinates.size)
        for which, (proposal, steps) in enumerate(zip(tuning["proposals"], numbers, strict=True)):
            if steps == 0:
                continue
            from_prior = isinstance(proposal, PriorJump)
            if not (from_prior or placed):
                v, prior_now = place(target, theta)
                placed = True
            aimed = isinstance(proposal, AimedJump)
            if isinstance(proposal, FORMULA) and not held:
                tuning["proposals"][-1].hold(target, u)
                held = True
            prepared = None if from_prior else proposal.prepare(steps, rng)
            log_uniform = (-rng.standard_exponential(steps)).tolist()
            for k in range(steps):
                if from_prior:
                    theta_new = target.sample_prior(rng)
                    log_ratio = 0.0  # q is the prior, so that the two cancel
                else:
                    if aimed:
                        proposal.total = total_now
                    log_q = proposal.propose(v, prepared, k, proposed)
                    theta_new, log_jacobian = coordinates.from_vector(proposed)
                    prior_new = model.log_prior(theta_new) + log_jacobian
                    log_ratio = prior_new - prior_now + log_q
                if log_ratio > -math.inf:
                    candidates = target.build(theta_new, u)
                    total_new = target.total(candidates)
                    log_g_new = target.log_g(total_new)
                    log_ratio += log_g_new - log_g_now
                    if aimed:
                        log_ratio += proposal.back(v, proposed, total_new)
                # So far out that theta rounds to the edge of its support, a prior density may be
                # infinite; there is no mass there, and such a proposal is refused.
                accept = log_uniform[k] < log_ratio < math.inf
                if from_prior and accept and placed:
                    proposed, prior_new = place(target, theta_new)
                if warming:
                    proposal.note(log_ratio)
                    gains.note_step(which, v, proposed, accept)
                if accept:
                    accepted += 1
                    log_g_now, total_now = log_g_new, total_new
                    theta, records = theta_new, candidates
                    if placed:
                        prior_now = prior_new
                        v, proposed = proposed, v
        if records is not None:
            state.theta = theta
            state.records = records
        if warming:
            tuning["shape"].history.append(v.copy())
        return (accepted / sum(numbers),)

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Tune the walks, and learn the shape anew at 32, 64, 128, ... iterations."""
        shape, proposals = tuning["shape"], tuning["proposals"]
        tuning["count"] += 1
        count = tuning["count"]
        for proposal in proposals:
            proposal.tune(count)
        new_window = count & (count - 1) == 0
        if new_window and count >= FIRST_WINDOW:
            shape.learn()
            tuning["gains"].fade()
        if new_window or count % LOOK_EVERY == 0:
            self._look(target, state, tuning, forget=new_window)
            for proposal in proposals:
                proposal.take(shape)

    def _look(
        self, target: Target, state: ChainState, tuning: dict[str, Any], *, forget: bool
    ) -> None:
        """Look at how the total answers to theta: by the formula if there is one."""
        shape, last = tuning["shape"], tuning["proposals"][-1]
        if target.terms is None:
            shape.covariance_given_u = shape.covariance
            return
        u = target.recover(state)
        coordinates = target.coordinates

        def total_at(v: np.ndarray) -> np.ndarray:
            return target.total(target.build(coordinates.from_vector(v)[0], u))

        if isinstance(last, SurrogateJump):
            last.hold(target, u)
            total_at = last.formula
        v = coordinates.to_vector(state.theta)
        shape.look(total_at, target.terms.parameters[:, 1], v, forget=forget)

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Learn for the last time, choose the number of steps, and drop the history."""
        shape, gains = tuning["shape"], tuning["gains"]
        if len(shape.history) >= SHORTEST_HISTORY:
            shape.learn()
            for proposal in tuning["proposals"]:
                proposal.take(shape)
            variances = np.diag(shape.covariance)
            inside, others = gains.of_proposals(variances), gains.of_others(variances)
            # The formula sees the size of the steps, not that they may lead to and fro; what the
            # history shows of that in warm-up is carried over to the steps chosen now.
            expected = expected_time(inside, others, tuning["steps"])
            excess = max(1.0, shape.autocorrelation_time() / expected)
            explores = [isinstance(p, SurrogateJump) for p in tuning["proposals"]]
            holds = [isinstance(p, FORMULA) for p in tuning["proposals"]]
            blocks = len(target.coordinates.blocks(LARGEST_BLOCK))
            cost = costs(
                target,
                explores,
                holds,
                getattr(tuning["proposals"][-1], "steps", 0),
                guarded=self.steps is None and any(holds) and (blocks <= 2 or sum(holds) > 1),
            )
            if self.steps is None:
                few = target.n < FEW_RECORDS
                tuning["steps"] = choose_steps(
                    inside,
                    others,
                    cost,
                    least=0 if target.abilities.can_update else 1,
                    most=MOST_COST[few],
                    enough=math.inf if few else ENOUGH / excess,
                )
                one_of_each = [1] * len(explores)
                cheap = few and total_cost(one_of_each, cost) <= MOST_COST[few]
                if cheap and not explores[-1] and not any(tuning["steps"]):
                    # One warm-up may be too hopeful about the other moves.
                    tuning["steps"] = one_of_each
                _safeguard(tuning["steps"], blocks, holds)
                _keep_within(MOST_COST[few], tuning["steps"], cost)
                tuning["guards"] = guards(tuning["steps"], cost)
            tuning["cost"] = total_cost(tuning["steps"], cost)
            expected = expected_time(inside, others, tuning["steps"])
            # The history was made with steps; it does not speak of a chain without them.
            tuning["autocorrelation_time"] = (excess if any(tuning["steps"]) else 1.0) * expected
        tuning.update(shape=None, gains=None, warming=False)


def _keep_within(most: float, steps: list[int], cost: Costs) -> None:
    """Take steps away until the move costs at most `most`, or there is one step of each."""
    while total_cost(steps, cost) > most and max(steps) > 1:
        steps[int(np.argmax(steps))] -= 1


def place(target: Target, theta: dict[str, Any]) -> tuple[np.ndarray, float]:
    """Return theta as a vector v, and its log prior density there."""
    v = target.coordinates.to_vector(theta)
    inside, log_jacobian = target.coordinates.from_vector(v)
    model: Any = target.model
    return v, model.log_prior(inside) + log_jacobian


def _safeguard(steps: list[int], blocks: int, holds: Sequence[bool]) -> None:
    """Let no single proposal do all the work.

    A fifth of a block's steps is for each of the two walks, and a sixth of all for the prior. Many
    steps of one kind give way to one of the surrogate, which goes where a learned shape does not;
    `guards` says what is added besides.

    Steps are chosen for how far they carry theta on average. Where the learned shape is wrong, far
    out in a tail, only walks lead back; and a second mode (a noisy sum of squares knows the size of
    a coefficient better than its sign) is found, and left, by draws from the prior. The proposals
    are the prior's, for each block two walks and a jump, and then those that know the release.
    """
    if any(holds) and blocks <= 2 and steps[-1] == 0:
        largest = int(np.argmax(steps))
        if steps[largest] > SWAP:
            steps[largest] -= SWAP
            steps[-1] = 1
    for k in range(1, 1 + 3 * blocks, 3):
        total = sum(steps[k : k + 3])
        least = total // 5
        largest = k + int(np.argmax(steps[k : k + 3]))
        for walk in (k, k + 1):
            if steps[walk] < least and walk != largest:
                steps[largest] -= least - steps[walk]
                steps[walk] = least
    steps[0] = max(steps[0], sum(steps) // 6)
