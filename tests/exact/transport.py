"""The transport move on examples where everything can be added up.

**Finite theta.** The move proposes theta by an object with `propose`. Here that object walks on a
few points v_1, ..., v_K with a table q of probabilities. Then (v, x) has finitely many states, and
the move must leave

    pi(k, x)  proportional to  p(theta_k) J(v_k) prod_i f(x_i | theta_k) g(s_dp, T(x))

invariant: q is a proposal with respect to the counting measure on the points, the density in v at a
point is p(theta) J(v), and u is uniform in a box. The box of u that belongs to (k, x) is cut by the
edges of theta_k' into pieces with one x' each. `Transport.step` itself is run once in each piece,
with a scripted generator that puts u there, its acceptance probability is found by bisection, and
the length of the piece is its weight: P is exact.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from exact.enumeration import TOLERANCE, Scripted, threshold
from noiseaware.sampler.moves.proposals import DOF, PRIOR_SHARE, Laws, PriorJump, Proposal
from noiseaware.sampler.moves.transport import Transport
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


def laws_of(means, covariances, prior_share=PRIOR_SHARE) -> Laws:
    """Return the laws of a jump with these locations and scale matrices."""
    shares = np.log([1.0 - prior_share, prior_share])
    return Laws(np.array(means), np.linalg.cholesky(np.array(covariances)), shares)


def log_q(laws: Laws, v: np.ndarray) -> float:
    """Return the log density of a jump, by SciPy."""
    each = [
        stats.multivariate_t(mean, factor @ factor.T, df=DOF).logpdf(v)
        for mean, factor in zip(laws.means, laws.factors, strict=True)
    ]
    return float(special.logsumexp(each, b=np.exp(laws.log_shares)))


class Told(Proposal):
    """A proposal that goes where it is told: a list of v' with log q(v | v') - log q(v' | v)."""

    def __init__(self, where, log_q) -> None:
        self.where, self.log_q = [np.asarray(v, dtype=float) for v in where], list(log_q)

    def propose(self, v, prepared, k, proposed):
        proposed[:] = self.where[k]
        return self.log_q[k]


def frozen(move: Transport, target: Target, theta: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the move knows after warm-up, but for the proposals and the number of their steps."""
    state = ChainState(theta, np.empty(0), None, np.random.default_rng(0))
    return {**move.start(target, state), "warming": False, "gains": None}


@dataclasses.dataclass(frozen=True)
class FiniteTheta:
    """Discrete records of one entry, and theta at finitely many points.

    Attributes
    ----------
    thetas, points
        theta_k and v_k.
    log_prior
        log p(theta_k) + log J(v_k), from plain formulas.
    f
        (K, S): probabilities of the values, in the order in which the model cuts [0, 1).
    values
        (S,).
    log_g
        Of a database, plainly.
    """

    model: Any
    release: Any
    thetas: list[dict[str, np.ndarray]]
    points: np.ndarray
    log_prior: np.ndarray
    f: np.ndarray
    values: np.ndarray
    log_g: Callable[[np.ndarray], float]

    @functools.cached_property
    def databases(self) -> list[tuple[int, ...]]:
        return list(itertools.product(range(len(self.values)), repeat=self.release.n_records))

    @functools.cached_property
    def states(self) -> list[tuple[int, tuple[int, ...]]]:
        return list(itertools.product(range(len(self.thetas)), self.databases))

    @functools.cached_property
    def number(self) -> dict[tuple[int, tuple[int, ...]], int]:
        return {state: a for a, state in enumerate(self.states)}

    @functools.cached_property
    def posterior(self) -> np.ndarray:
        logs = np.array(
            [
                self.log_prior[k]
                + sum(math.log(self.f[k, value]) for value in x)
                + self.log_g(self.values[list(x)])
                for k, x in self.states
            ]
        )
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def pieces(self, k: int, new: int, value: int) -> list[tuple[float, float, int]]:
        """How the interval of `value` under theta_k is cut by the edges of theta_new.

        Each piece: its share of the interval, its middle as a fraction of the interval, and the
        value that it has under theta_new.
        """
        edges = np.concatenate([[0.0], np.cumsum(self.f[k])])
        others = np.concatenate([[0.0], np.cumsum(self.f[new])])
        edges[-1] = others[-1] = 1.0
        low, high = edges[value], edges[value + 1]
        found = []
        for other in range(len(self.values)):
            a, b = max(low, others[other]), min(high, others[other + 1])
            if b - a > 1e-14:
                found.append(((b - a) / (high - low), (0.5 * (a + b) - low) / (high - low), other))
        return found


def transport_matrix(
    example: FiniteTheta, table: np.ndarray, *, from_prior: bool = False, image: bool = False
) -> np.ndarray:
    """P of one step of `Transport.step`, with the proposal probabilities `table` (K, K).

    With `image`, of `Transport.antithetic`; `table` then says which point is whose mirror image.
    """
    move = Transport(steps=1)
    target = Target(example.model, example.release)
    tuning = frozen(move, target, example.thetas[0])
    matrix = np.zeros((len(example.states),) * 2)
    name = next(iter(example.thetas[0]))

    def step(k, new, state):
        if image:
            centre = 0.5 * (example.points[k] + example.points[new])
            move.antithetic(target, state, {**tuning, "centre": centre})
            return bool(np.allclose(state.theta[name], example.thetas[new][name]))
        if from_prior:
            proposal = PriorJump()
            example.model.next_theta = example.thetas[new]
        else:
            proposal = Told([example.points[new]], [math.log(table[new, k] / table[k, new])])
        (share,) = move.step(target, state, {**tuning, "proposals": [proposal], "steps": [1]})
        return bool(share)

    def accepts(k, x, new, middles, wanted, exponential):
        waits = exponential if image else [exponential]
        rng = Scripted(random=[middles], standard_exponential=[waits])
        records = np.ascontiguousarray(example.values[list(x)])
        state = ChainState(example.thetas[k], records, None, rng)
        accepted = step(k, new, state)
        assert rng.spent
        expected = wanted if accepted else x
        np.testing.assert_array_equal(state.records, example.values[list(expected)])
        for name, value in example.thetas[new if accepted else k].items():
            np.testing.assert_allclose(state.theta[name], value, rtol=1e-12)
        return accepted

    for a, (k, x) in enumerate(example.states):
        for new in np.flatnonzero(table[k]):
            cuts = [example.pieces(k, new, value) for value in x]
            for combination in itertools.product(*cuts):
                weight = table[k, new] * math.prod(share for share, _, _ in combination)
                middles = [middle for _, middle, _ in combination]
                wanted = tuple(value for _, _, value in combination)
                accept = threshold(functools.partial(accepts, k, x, new, middles, wanted))
                matrix[a, example.number[new, wanted]] += weight * accept
                matrix[a, a] += weight * (1 - accept)
    return matrix


def check_finite(example: FiniteTheta, table: np.ndarray, **how: bool) -> None:
    """pi P = pi for the joint posterior of theta and the records."""
    matrix = transport_matrix(example, table, **how)
    pi = example.posterior
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
    assert (np.diag(matrix) < 0.999).all()


def check_ratios(
    target: Target,
    thetas: list[dict[str, np.ndarray]],
    log_target: Callable[[dict[str, np.ndarray], np.ndarray], float],
    records: np.ndarray,
    random: Callable[[], list[Any]],
    innovations: np.ndarray,
) -> None:
    """The ratio of every step of a whole `Transport.step`, whatever the earlier steps decided.

    The steps are told to go to thetas[1], thetas[2], ... with ratios of q of our choice. For each
    pattern of earlier decisions, the acceptance probability of the last step (by bisection) is
    compared with the plain formula.

    Parameters
    ----------
    log_target
        log p(theta) + log J + log g(s_dp, T(F(u; theta))), plainly.
    random
        The uniforms that `recover_innovations` will ask for; `innovations` is the u they give.
    """
    move = Transport(steps=1)
    tuning = frozen(move, target, thetas[0])
    where = [target.coordinates.to_vector(theta) for theta in thetas[1:]]
    log_q = [0.3, -0.8, 0.45][: len(where)]
    at = [log_target(theta, innovations) for theta in thetas]
    for last in range(len(where)):
        for earlier in itertools.product((True, False), repeat=last):
            now = max((k + 1 for k, yes in enumerate(earlier) if yes), default=0)
            proposal = Told(where[: last + 1], log_q[: last + 1])

            def accepts(exponential, last=last, earlier=earlier, proposal=proposal):
                exponentials = [64.0 if yes else 0.0 for yes in earlier]
                rng = Scripted(random=random(), standard_exponential=[[*exponentials, exponential]])
                state = ChainState(thetas[0], records.copy(), None, rng)
                told = {**tuning, "proposals": [proposal], "steps": [last + 1]}
                (share,) = move.step(target, state, told)
                assert rng.spent
                return round(share * (last + 1)) == sum(earlier) + 1

            # A step that is sure to be accepted cannot be made to be rejected.
            sure = False
            position = 0
            for k, yes in enumerate(earlier):
                sure |= not yes and at[k + 1] - at[position] + log_q[k] >= 0
                position = k + 1 if yes else position
            if sure:
                continue
            log_ratio = at[last + 1] - at[now] + log_q[last]
            expected = math.exp(min(0.0, log_ratio))
            np.testing.assert_allclose(threshold(accepts), expected, rtol=1e-9)
