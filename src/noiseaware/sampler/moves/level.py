"""Redraw the records, and let theta follow so that the total stays where it is.

Where the noise is small against the sampling error, the total T is known and nothing else is. With
the records held theta hardly moves; with theta held a record cannot change, because the total
would; with the innovations u held (`transport`) the total pins down as many directions of theta as
it has coordinates, in a tube that may be long, narrow and bent. What the release leaves open is the
set of all (theta, u) with the same total. This move goes along it.

**The coordinates.** Let v be theta without constraints and T(v; u) the total of F(u; theta(v)). Fix
matrices A (r x d), M (k x r) and N (k x (k - r)) with [M N] invertible, and write v = M y + N a.
Where y -> A T(M y + N a; u) is invertible, (a, t, u) with t = A T are coordinates of (v, u), and
|d(a, t) / dv| is a constant times |det A J M|, J = dT/dv. The target of `transport` is in them

    p(theta) J(v) p(u) g(s_dp, T) / |det A J M|.

**The ratio.** Draw u' from u by a kernel that is reversible for p(u): each u_i is drawn afresh with
a probability that does not depend on the state, and kept otherwise. Let a' = a + a symmetric step
and t' = t + a symmetric step, and solve A T(v'; u') = t' for v' = v + N (a' - a) + M y. Then p(u)
cancels, and v', u' is accepted with probability min(1, r),

    r = p(theta') J(v') g(s_dp, T')  |det A J M|(v;  u )
        -------------------------------------------------.
        p(theta ) J(v ) g(s_dp, T )  |det A J M|(v'; u')

Where A T is all of T, g'/g is that of a small step, however small the noise and however many
records are redrawn.

**Several solutions.** The solver is a fixed function of where it starts. The way back starts from
v', u' and solves for t with u; if that does not end in v, the proposal is refused, so that the move
is reversible whether there is one solution or many (Zappa, Holmes-Cerfon and Goodman 2018). J is
taken by central differences and the equation solved to 1e-7 of the noise: the ratio is right to
about as many digits. A total that jumps (counts) has no solution, or one that the determinant does
not describe, so the move is only used where records are no integers, and where it is accepted.

**What is held.** With b the scales of the noise and L L' the posterior covariance of v, the
singular values of diag(1/b) J L = U S W' are the widths of the posterior in units of what the total
allows with u held. Directions with S > 1 are held: A = U_r' diag(1/b), M = L W_r. In all others
theta is free, N = L W_rest, and what they do to T is in g'/g. All of it is learned in warm-up.

**How often.** Theta alone does not say. Where the total is nearly all that the records say of it,
as of a regression, theta is drawn from p(theta | x) and jumps about; what x holds besides, a
response beyond its bound, moves a part of theta that is too small to be seen in such jumps, and
with it nothing but this move. So the records are a coordinate more: if other moves draw a share f
of the innovations afresh, an innovation of variance 1 changes by 2 f in mean square.

**Where n is not known** the database is the first n of an endless row of innovations
(`transport`), and theta follows n too: n' = n + a symmetric integer step, and the equation is
solved with the first n' of u'. The u_i behind the n-th are drawn afresh, which leaves p(u)
invariant, so that r only has the factor p(n') / p(n) more. How theta goes with n on average, c
log(n' / n), is added to N (a' - a): both change sign on the way back.

Reference
---------
Zappa, E., Holmes-Cerfon, M. and Goodman, J. (2018). Monte Carlo on manifolds: sampling densities
    and integrating functions. Communications on Pure and Applied Mathematics 71(12).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from noiseaware.basics.adapt import StepSize
from noiseaware.sampler.moves.geometry import DIFFERENCE, differences, moments
from noiseaware.sampler.moves.proposals import SPREAD, WANTED
from noiseaware.sampler.moves.transport import CLOSE, FIRST_WINDOW, place
from noiseaware.sampler.moves.tuning import Gains, costs, expected_time
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target, most_likely_total

TOLERANCE = 1e-7
"""How close a solution comes, in units of the noise: rounding moves a total less than that."""

NUDGE = 1e-5
"""Width of the differences for J, in posterior standard deviations: the error of a central
difference is of the order of its square, and that of rounding about 1e-16 over it."""

MOST_TRIES = 12
"""Looks at the records for one solution. From n records a step leads only about 1/sqrt(n) of the
width of what is curved, so a few do; a solver that needs more is lost."""

FARTHEST = 50.0
"""Posterior standard deviations after which the solver is given up: nothing is accepted so far
out, and records there may overflow."""

PERIODS = (1, 2, 4, 8, 16)
"""The move is made in every iteration, every second, ...; which is chosen in warm-up."""

TotalAt = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Frame(NamedTuple):
    """A (r, d), M (k, r) and N (k, k - r): what is held, what follows, and what is free.

    `with_size` is c, (k,), and `spread` the standard deviation of log n; 0 where n is known.
    """

    hold: np.ndarray
    follow: np.ndarray
    free: np.ndarray
    with_size: np.ndarray = np.zeros(0)
    spread: float = 0.0

    @staticmethod
    def of(jacobian: np.ndarray, inverse_scales: np.ndarray, covariance: np.ndarray) -> Frame:
        """Return the frame that the module docstring derives; log n is the last where it moves."""
        k = jacobian.shape[1]
        factor = np.linalg.cholesky(covariance[:k, :k])
        left, width, right = np.linalg.svd(inverse_scales[:, None] * (jacobian @ factor))
        r = int((width > 1.0).sum())
        basis = factor @ right.T
        with_size, spread = np.zeros(k), 0.0
        if len(covariance) > k:
            with_size = covariance[:k, k] / covariance[k, k]
            spread = math.sqrt(covariance[k, k])
        return Frame(left.T[:r] * inverse_scales, basis[:, :r], basis[:, r:], with_size, spread)

    def slopes(self, total_at: TotalAt, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return A J M at v and u, (r, r)."""
        return self.hold @ differences(lambda w: total_at(w, u), v, NUDGE * self.follow) / NUDGE

    def solve(
        self, total_at: TotalAt, v: np.ndarray, u: np.ndarray, slopes: np.ndarray, level: np.ndarray
    ) -> np.ndarray | None:
        """Return v + M y with A T(v + M y; u) = level; None if no solution was found.

        Newton's method, which begins with `slopes` and corrects them by Broyden's rule.
        """
        y = np.zeros(len(level))
        try:
            inverse = np.linalg.inv(slopes)
        except np.linalg.LinAlgError:
            return None
        off = self.hold @ total_at(v, u) - level
        for _ in range(MOST_TRIES):
            worst = float(np.abs(off).max())
            if worst < TOLERANCE:
                return v + self.follow @ y
            if not worst < math.inf:
                return None
            step = -inverse @ off
            y = y + step
            if not np.abs(y).max() < FARTHEST:
                return None
            now = self.hold @ total_at(v + self.follow @ y, u) - level
            change = inverse @ (now - off)
            scale = float(step @ change)
            if scale == 0.0:
                return None
            inverse += np.outer((step - change) / scale, step @ inverse)
            off = now
        return None


NO_FRAME = Frame(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
"""Until one is learned, and where there is none."""


class LevelMove:
    """Redraw records and let theta follow, so that what the noise pins down of the total stays."""

    reports = ("level_acceptance",)

    def __repr__(self) -> str:
        return "LevelMove()"

    def check(self, target: Target) -> None:
        """Raise if theta cannot follow."""
        if not can_follow(target):
            raise ValueError(
                "LevelMove needs a model with innovations whose records are no integers, and noise "
                f"that is scored coordinate by coordinate; {target.abilities.name} with this "
                "release has not both"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin without a frame: it takes a few iterations to learn one."""
        v = _coordinates(target, state)
        return {
            "frame": NO_FRAME,
            "size": StepSize(1.0, WANTED, 1e-4, 10.0),
            "period": 1,
            "count": 0,
            "looks": 0,
            "history": [v],
            "renewed": int(state.acceptance.sum()),
            "gains": Gains(1, len(v) + 1),
            "outlook": (math.inf, 0.0),
        }

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Make one proposal, if it is time for one; report whether it was accepted."""
        history, gains = tuning["history"], tuning["gains"]
        warming, accept = history is not None, math.nan
        if warming:
            renewed = int(state.acceptance.sum())
            share = min(1.0, max(0, renewed - tuning["renewed"]) / len(state.records))
            tuning["renewed"] = renewed
            v = _coordinates(target, state)
            gains.record_others(_and_records(v, share), _and_records(history[-1], 0.0))
        if len(tuning["frame"].hold) and state.iteration % tuning["period"] == 0:
            here = Level(target, state, tuning["frame"])
            log_ratio = here.propose(state.rng, tuning["size"].size, warming)
            accept = float(-state.rng.standard_exponential() < log_ratio < math.inf)
            before = _coordinates(target, state)
            if accept:
                here.accept(state)
            if warming:
                tuning["looks"] += here.looks
                tuning["size"].note(log_ratio)
                there = _and_records(_coordinates(target, state), here.renewed)
                gains.record_step(0, _and_records(before, 0.0), there, accept > 0.0)
        if warming:
            history.append(_coordinates(target, state))
        return (accept,)

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Tune the size; after 32, 64, ... iterations, learn the frame anew."""
        tuning["count"] += 1
        tuning["size"].tune(tuning["count"])
        if tuning["count"] >= FIRST_WINDOW and tuning["count"] & (tuning["count"] - 1) == 0:
            self._learn_frame(target, state, tuning)
            tuning["gains"].fade()
            tuning["looks"] *= 0.1

    def _learn_frame(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        assert target.terms is not None  # `check` saw to it
        _, covariance = moments(np.stack(tuning["history"][len(tuning["history"]) // 2 :]))
        u, v = target.recover(state), target.coordinates.to_vector(state.theta)
        widths = DIFFERENCE * np.sqrt(np.diag(covariance)[: len(v)])
        jacobian = differences(lambda w: target.total_at(w, u), v, np.diag(widths)) / widths
        tuning["frame"] = NO_FRAME
        if np.isfinite(jacobian).all():
            frame = Frame.of(jacobian, target.terms.parameters[:, 1], covariance)
            if len(frame.hold):
                tuning["frame"] = frame
                # Until warm-up ends: about as much as an iteration of Algorithm 1.
                looks = 4.0 * len(frame.hold) + MOST_TRIES
                cost = looks * costs(target.n, target.work).build
                tuning["period"] = max(1, math.ceil(cost))

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Choose how often the move is made: so that an effective draw is cheapest."""
        gains, history = tuning["gains"], tuning["history"]
        if len(tuning["frame"].hold) and gains.inside.any():
            self._learn_frame(target, state, tuning)
            variances = np.maximum(np.var(history[len(history) // 2 :], axis=0), 1e-12)
            variances = np.append(variances, 1.0)
            own, others = gains.of_proposals(variances), gains.of_others(variances)
            one = costs(target.n, target.work)
            cost = one.start + tuning["looks"] / gains.tried[0] * one.build

            def price(period: int) -> float:
                # An iteration is one of Algorithm 1, and about as much again of transport.
                return expected_time(own, others, [1.0 / period]) * (2.0 + cost / period)

            period = tuning["period"] = min(PERIODS, key=price)
            tuning["outlook"] = expected_time(own, others, [1.0 / period]), cost / period
        else:
            tuning["frame"] = NO_FRAME
        tuning.update(history=None, gains=None)

    def outlook(self, tuning: dict[str, Any]) -> tuple[float, float]:
        """Return the iterations that an effective draw should cost, and the cost of the move."""
        return tuning["outlook"]


class Level:
    """Where the move is, and where its proposal would take it.

    Attributes
    ----------
    v, u, v_new, u_new
        theta as a vector, and the innovations.
    looks
        How often all records were looked at.
    renewed
        The share of the innovations that the proposal draws afresh.
    """

    def __init__(self, target: Target, state: ChainState, frame: Frame) -> None:
        self.target, self.frame = target, frame
        self.u = self.u_new = target.recover(state)
        self.v, self.log_prior = place(target.coordinates, target.log_prior, state.theta)
        self.v_new = self.v
        self.total = target.total(state.records)
        self.theta = state.theta
        self.records: np.ndarray | None = None
        self.looks = 0
        self.renewed = 0.0

    def total_at(self, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return T(v; u), (d,)."""
        self.looks += 1
        return self.target.total_at(v, u)

    def propose(self, rng: np.random.Generator, size: float, warming: bool) -> float:
        """Make a proposal, and return the log of its ratio r; minus infinity if there is none.

        With size s, a record is redrawn with probability min(1, s^2), so that theta follows by
        about s of its sampling error. A step of s 2.4 / sqrt(dimension) posterior standard
        deviations is the best for a normal target (Roberts, Gelman and Gilks 1997); t moves by
        about s in all. In warm-up, and far from the release, t goes there at once.
        """
        frame, target, n = self.frame, self.target, len(self.u)
        held, free = len(frame.hold), frame.free.shape[1]
        normals = rng.standard_normal(1 + held + free)
        size *= math.exp(SPREAD * normals[0])
        assert target.abilities.innovations is not None  # `check` saw to it
        fresh = rng.random((n, 1)) < size * size
        self.renewed = float(fresh.mean())
        self.u_new = np.where(fresh, target.abilities.innovations.draw(n, rng), self.u)
        log_ratio = self.resize(rng, size)
        if log_ratio == -math.inf:
            return log_ratio
        along = frame.free @ (size * 2.4 / math.sqrt(max(free, 1)) * normals[1 : 1 + free])
        along += frame.with_size * math.log(len(self.u_new) / n)
        level = frame.hold @ self.total
        level_new = level + size / math.sqrt(held) * normals[1 + free :]
        assert target.terms is not None
        released = frame.hold @ most_likely_total(target.terms)
        if warming and np.abs(level - released).max() > CLOSE:
            level_new = released
        slopes = frame.slopes(self.total_at, self.v, self.u)
        there = frame.solve(self.total_at, self.v + along, self.u_new, slopes, level_new)
        if there is None:
            return -math.inf
        slopes_new = frame.slopes(self.total_at, there, self.u_new)
        back = frame.solve(self.total_at, there - along, self.u, slopes_new, level)
        if back is None or not np.allclose(back, self.v, rtol=1e-6, atol=1e-9):
            return -math.inf
        self.v_new = there
        self.theta, log_jacobian = target.coordinates.from_vector(there)
        self.records, total = target.rebuild(self.theta, self.u_new)
        return (
            log_ratio + target.log_prior(self.theta) + log_jacobian - self.log_prior
            + target.log_g(total) - target.log_g(self.total)
            + np.linalg.slogdet(slopes)[1] - np.linalg.slogdet(slopes_new)[1]
        )  # fmt: skip

    def resize(self, rng: np.random.Generator, size: float) -> float:
        """Let u' be longer or shorter, where n is not known; return log p(n') - log p(n)."""
        prior, n, innovations = self.target.size, len(self.u), self.target.abilities.innovations
        if prior is None:
            return 0.0
        assert innovations is not None
        n_new = n + round(size * self.frame.spread * self.target.n * rng.standard_normal())
        if not prior.lower <= n_new <= prior.upper:
            return -math.inf
        more = innovations.draw(max(n_new - n, 0), rng)
        self.u_new = np.concatenate([self.u_new[:n_new], more])
        return prior.log_pmf(n_new) - prior.log_pmf(n)

    def accept(self, state: ChainState) -> None:
        """Go where the proposal leads."""
        records = self.records
        if records is None:
            records = self.target.build_all(self.theta, self.u_new, state.records)
        state.theta = self.theta
        state.set_records(records, None if state.innovations is None else self.u_new)


def _coordinates(target: Target, state: ChainState) -> np.ndarray:
    """Return theta as a vector, with log n where it is not known."""
    v = target.coordinates.to_vector(state.theta)
    return v if target.size is None else np.append(v, math.log(len(state.records)))


def _and_records(v: np.ndarray, renewed: float) -> np.ndarray:
    """Return v with the records as a coordinate more; see "How often"."""
    return np.append(v, math.sqrt(2.0 * renewed))


def can_follow(target: Target) -> bool:
    """Whether theta can follow: records are built from innovations and are no integers."""
    able = target.abilities
    if not able.can_transport or target.terms is None:
        return False
    if target.uses_cells or target.query_abilities.integer_valued:
        return False
    return not target.jumps
