"""Redraw the records and their total, and solve for theta.

Where the noise is small against the sampling error, the total T is nearly known and nothing else
is. With the records held, theta hardly moves. With theta held, a record cannot change, because the
total would. With the innovations u held (`transport`), the total pins down as many directions of
theta as it has coordinates, in a tube that may be long, narrow and bent. This move travels along
all (theta, u) whose total the noise allows.

**The coordinates.** Let v be theta without constraints and T(v; u) the total of F(u; theta(v)). Fix
r of the d coordinates of T, called t, and matrices M (k x r) and N (k x (k - r)) with [M N]
invertible, and write v = M y + N a. Where y -> t(M y + N a; u) is invertible, (a, t, u) are
coordinates of (v, u), and |d(a, t) / dv| is a constant times |det dt/dv M|. In them the target of
`transport` is

    p(theta) J(v) p(u) g(s_dp, T) / |det dt/dv M|.

**The ratio.** Draw u' from u by a kernel that is reversible for p(u): each u_i is drawn afresh with
a probability that does not depend on the state, and kept otherwise. Draw t' from t likewise: each
t_j is drawn afresh from q_j, the law that the noise leaves for it, which is g as a function of T_j.
Draw a' from a with density q(a' | a), and solve t(v'; u') = t' for v' = v + N (a' - a) + M y. Then
p(u) cancels, and (v', u') is accepted with probability min(1, r),

    r = p(theta') J(v') g(s_dp, T')  q(t ) q(a | a')  |det dt/dv M|(v;  u )
        -------------------------------------------------------------------.
        p(theta ) J(v ) g(s_dp, T )  q(t') q(a' | a)  |det dt/dv M|(v'; u')

Where t is all of T, g'/g cancels with q(t)/q(t'), and the rest varies less the more records there
are: records, total and theta are drawn nearly independently of the state, however small the noise.
Where only an interval of T_j + noise is known, t_j makes a symmetric step instead. a makes a
symmetric step, or jumps to a Student t draw fitted to the posterior (`proposals.jump`).

**Several solutions.** The solver is a fixed function of its starting point. If the way back, from
v', u' for t with u, does not end in v, the proposal is rejected, so the move is reversible however
many solutions there are (Zappa, Holmes-Cerfon and Goodman 2018). dt/dv is taken by central
differences, and the equation solved to 1e-7 of the noise, or as closely as rounding allows
(`geometry.Approach`). With t' the value that was reached, the ratio is right to about as many
digits. A total that jumps (counts) has no solution, or one that the determinant does not describe,
so the move is only used where part of theta moves without a jump, and where proposals are accepted.

**Where records have whole numbers,** such as the group of a record, some coordinates of theta
change these by jumps (`Target.smooth`). The map from v to (a, t) needs a derivative in the
direction of M only: given a and u it maps y to t, one to one, and the change of variables needs
only |dt/dy|, however t jumps with a. So M is spanned by coordinates that change no whole number,
and t consists of coordinates that these can move. The others are in N, free to jump.

**What is held.** Let b be the scales of the noise, L L' the posterior covariance of v, and J =
dT/dv. The rows of diag(1/b) J L say how far the posterior moves each coordinate of the total with u
held, in units of its noise. A pivoted QR decomposition picks the rows one after another, by how
much of each the earlier ones leave open, as long as that exceeds 1. N spans the directions that
leave these rows unchanged, in the shape of L L'. M spans the directions in which they rise, with v
in units of its posterior standard deviations but without the correlations: where T is far from
linear, v should not be solved for by parameters on which T hardly depends. All of this is learned
in warm-up, with J at the posterior mean. In a tail where a variance is so large that it moves a
clamped sum, M would include part of the variance, and a line along it have several solutions. Of
the p rows known this well, only the r that M can follow without jumps can be held. N leaves all p
unchanged. The remaining p - r directions H of v stay where they are: v = M y + N a + H h. With p >
r the innovations that change whole numbers stay as well, because they would change a row that
nothing follows, such as a noisy count of a group.

**How often.** theta alone does not say. Where the total is nearly all that the records say about
theta, as in regression, theta jumps about as it is drawn from p(theta | x). What else x holds, such
as a response beyond its bound, moves theta too little to be seen in such jumps, and only this move
changes it. So the records count as one more coordinate: if other moves redraw a share f of the
innovations, an innovation of variance 1 changes by 2 f in mean square.

**Where n is unknown** the database is the first n of an endless row of innovations (`transport`),
and theta follows n too: n' = n + a symmetric integer step, and the equation is solved with the
first n' of u'. The u_i behind the n-th are drawn afresh, which leaves p(u) invariant, so r only
gains the factor p(n') / p(n). The average response of theta to n, c log(n' / n), is added to N (a'
- a): both change sign on the way back. Half of the time only n makes a step, and u, t and a stay.

Reference
---------
Zappa, E., Holmes-Cerfon, M. and Goodman, J. (2018). Monte Carlo on manifolds: sampling densities
    and integrating functions. Communications on Pure and Applied Mathematics 71(12).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from noiseaware.basics.adapt import WANTED_ALONE, StepSize
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.moves.geometry import DIFFERENCE, Approach, differences, moments
from noiseaware.sampler.moves.proposals import DOF, SPREAD, WANTED, jump, student_radius
from noiseaware.sampler.moves.transport import CLOSE, FIRST_WINDOW, place
from noiseaware.sampler.moves.tuning import AS_BEFORE, Gains, Option, costs, expected_time
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Smooth, Target, most_likely_total

NUDGE = 1e-4
"""Width of the differences for dt/dv, in posterior standard deviations. The error of a central
difference is of the order of its square, and that of rounding a total over it."""

MOST_TRIES = 24
"""Most looks at the records for one solution; about five are usual."""

FARTHEST = 50.0
"""Posterior standard deviations at which the solver gives up: nothing is accepted so far out, and
records there may overflow."""

MOST_COORDINATES = 100
"""With more, a frame takes too many looks at the records: two for each coordinate."""

PERIODS = (1, 2, 4, 8)
"""Warm-up chooses in how many iterations, on average, the move is made once. Larger periods are
risky: this move may be the only one that leaves a tail (`TwoMeans`, 2,000 records: a chain that
made it in every 32nd sat in a tail for a hundred iterations)."""

ALL_SMOOTH = Smooth(np.ones(1, dtype=bool), np.ones(1, dtype=bool))
"""For a model whose records have no whole numbers."""

TotalAt = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Frame(NamedTuple):
    """What is held, what follows, and what is free.

    Attributes
    ----------
    rows, units
        Which coordinates of the total are held, and 1 / b of each, (r,).
    follow, free
        M (k, r) and N (k, k - r).
    whiten, mean
        a = whiten (v - mean), in posterior standard deviations; the last mean is that of log n,
        where n is unknown.
    with_size, spread
        c, (k,), and the standard deviation of log n; 0 where n is known.
    renewed
        Which entries of the innovations are drawn afresh.
    """

    rows: np.ndarray = np.zeros(0, int)
    units: np.ndarray = np.zeros(0)
    follow: np.ndarray = np.zeros(0)
    free: np.ndarray = np.zeros(0)
    whiten: np.ndarray = np.zeros(0)
    mean: np.ndarray = np.zeros(0)
    with_size: np.ndarray = np.zeros(0)
    spread: float = 0.0
    renewed: np.ndarray = ALL_SMOOTH.u

    @staticmethod
    def of(
        jacobian: np.ndarray,
        inverse_scales: np.ndarray,
        mean: np.ndarray,
        covariance: np.ndarray,
        smooth: Smooth = ALL_SMOOTH,
    ) -> Frame:
        """Return the frame that the module docstring derives; an unknown log n comes last."""
        from scipy.linalg import qr

        k, answers = jacobian.shape[1], jacobian * smooth.theta
        factor = np.linalg.cholesky(covariance[:k, :k])
        basis, widths, known = qr((inverse_scales[:, None] * (jacobian @ factor)).T, pivoting=True)
        p = int((np.abs(np.diag(widths)) > 1.0).sum())
        if p == 0:
            return Frame()
        followed = inverse_scales[known[:p], None] * (answers[known[:p]] @ factor)
        _, widths, order = qr(followed.T, pivoting=True)
        r = int((np.abs(np.diag(widths)) > 1.0).sum())
        rows, free, sds = known[order[:r]], factor @ basis[:, p:], np.sqrt(np.diag(covariance)[:k])
        follow = sds[:, None] * qr((answers[rows] * sds).T)[0][:, :r]
        pinned = basis[:, :p] @ qr(basis[:, :p].T @ np.linalg.solve(factor, follow))[0][:, r:]
        whiten = np.linalg.inv(np.hstack([follow, free, factor @ pinned]))[r : r + k - p]
        with_size, spread = np.zeros(k), 0.0
        if len(covariance) > k:
            with_size = covariance[:k, k] / covariance[k, k]
            spread = math.sqrt(covariance[k, k])
        units, renewed = inverse_scales[rows], smooth.u if p > r else ALL_SMOOTH.u
        return Frame(rows, units, follow, free, whiten, mean, with_size, spread, renewed)

    def place(self, v: np.ndarray, n: int) -> np.ndarray:
        """Return a, (k - r,), less its dependence on n, in posterior standard deviations."""
        with_n = self.with_size * (math.log(n) - self.mean[-1])
        return self.whiten @ (v - self.mean[: len(v)] - with_n)

    def of_total(self, total: np.ndarray) -> np.ndarray:
        """Return t, (r,), of a total (d,), or of several, (d, m)."""
        return (total[self.rows].T * self.units).T

    def slopes(self, total_at: TotalAt, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return dt/dv M at v and u, (r, r)."""
        steps = differences(lambda w: total_at(w, u), v, NUDGE * self.follow)
        return self.of_total(steps) / NUDGE

    def solve(
        self, total_at: TotalAt, v: np.ndarray, u: np.ndarray, slopes: np.ndarray, level: np.ndarray
    ) -> np.ndarray | None:
        """Return v + M y with t(v + M y; u) = level; None if no solution was found.

        Newton's method, starting with `slopes` and corrected by Broyden's rule.
        """
        y, approach = np.zeros(len(level)), Approach()
        try:
            inverse = np.linalg.inv(slopes)
        except np.linalg.LinAlgError:
            return None
        off = self.of_total(total_at(v, u)) - level
        for _ in range(MOST_TRIES):
            worst = float(np.abs(off).max())
            if not worst < math.inf:
                return None
            step = -inverse @ off
            if approach.ends(worst, self.follow @ step, v):
                return v + self.follow @ y
            y = y + step
            if not np.abs(y).max() < FARTHEST:
                return None
            now = self.of_total(total_at(v + self.follow @ y, u)) - level
            change = inverse @ (now - off)
            scale = float(step @ change)
            if scale != 0.0:
                inverse += np.outer((step - change) / scale, step @ inverse)
            off = now
        return None


NO_FRAME = Frame()
"""No frame: none is learned yet, or there is none."""


class LevelMove(ReadyMove):
    """Redraw records and the part of their total that the noise pins down, and solve for theta."""

    reports = ("level_acceptance",)

    def check(self, target: Target) -> None:
        if not can_follow(target):
            raise ValueError(
                "LevelMove needs a model with innovations whose records are no integers, of "
                f"at most {MOST_COORDINATES} parameters, and noise that is scored coordinate by "
                f"coordinate; {target.abilities.name} with this release has not all"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        v = _coordinates(target, state)
        return {
            "frame": NO_FRAME,
            "size": StepSize(1.0, WANTED),
            "n_size": StepSize(1.0, WANTED_ALONE),
            "period": 1,
            "count": 0,
            "looks": 0,
            "history": [v],
            "renewed": int(state.acceptance.sum()),
            "gains": Gains(1, len(v) + 1),
        }

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        history, gains = tuning["history"], tuning["gains"]
        warming, accept = history is not None, math.nan
        if warming:
            renewed = int(state.acceptance.sum())
            share = min(1.0, max(0, renewed - tuning["renewed"]) / len(state.records))
            tuning["renewed"] = renewed
            v = _coordinates(target, state)
            gains.record_others(_and_records(v, share), _and_records(history[-1], 0.0))
        # At random: with a fixed schedule the iterations might coincide with those of another move.
        if len(tuning["frame"].rows) and tuning["period"] * state.rng.random() < 1.0:
            here = Level(target, state, tuning["frame"])
            only_n = target.size is not None and state.rng.random() < 0.5
            size = tuning["n_size" if only_n else "size"]
            log_ratio = here.propose(state.rng, size.size, warming, only_n)
            wait = state.rng.standard_exponential()
            # Solving for the way back costs as much as solving did: only where it decides.
            if log_ratio > -math.inf and (warming or -wait < log_ratio) and not here.leads_back():
                log_ratio = -math.inf
            accept = float(-wait < log_ratio < math.inf)
            if accept:
                here.accept(state)
            if warming:
                tuning["looks"] += here.looks
                size.note(log_ratio)
                before, v = v, _coordinates(target, state)
                there = _and_records(v, here.renewed)
                gains.record_step(0, _and_records(before, 0.0), there, accept > 0.0)
        if warming:
            history.append(v)
        return (accept,)

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        """Tune the size; after 32, 64, ... iterations, relearn the frame."""
        tuning["count"] += 1
        for size in (tuning["size"], tuning["n_size"]):
            size.tune(max(1, round(tuning["gains"].tried[0])))
        if tuning["count"] >= FIRST_WINDOW and tuning["count"] & (tuning["count"] - 1) == 0:
            self._learn_frame(target, state, tuning)
            # Until warm-up ends, the move costs about as much as an iteration of Algorithm 1.
            looks = 4.0 * len(tuning["frame"].rows) + 0.5 * MOST_TRIES
            tuning["period"] = math.ceil(looks * costs(target.n, target.work).build)
            tuning["gains"].fade()
            tuning["looks"] *= 0.1

    def _learn_frame(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        assert target.terms is not None  # `check` saw to it
        mean, covariance = moments(np.stack(tuning["history"][len(tuning["history"]) // 2 :]))
        u, k = target.recover(state), target.coordinates.size
        widths = DIFFERENCE * np.sqrt(np.diag(covariance)[:k])
        jacobian = differences(lambda w: target.total_at(w, u), mean[:k], np.diag(widths)) / widths
        tuning["frame"] = NO_FRAME
        if np.isfinite(jacobian).all():
            units = target.terms.parameters[:, 1]
            frame = Frame.of(jacobian, units, mean, covariance, target.smooth)
            if len(frame.rows):
                tuning["frame"] = frame

    def options(self, target: Target, state: ChainState, tuning: Tuning) -> list[Option]:
        """Return what the move would do and cost with each of `PERIODS`."""
        gains = tuning["gains"]
        if not (len(tuning["frame"].rows) and gains.inside.any()):
            return [AS_BEFORE] * len(PERIODS)
        recent = np.stack(tuning["history"][len(tuning["history"]) // 2 :])
        variances = np.append(np.maximum(recent.var(axis=0), 1e-12), 1.0)
        own, others = gains.of_proposals(variances), gains.of_others(variances)
        one = costs(target.n, target.work)
        cost = one.start + tuning["looks"] / gains.tried[0] * one.build
        return [
            Option(
                (1 - np.minimum(own[0, :-1], 0.999)) ** (1 / period - 1 / tuning["period"]),
                expected_time(own[:, -1:], others[-1:], [1 / period]),
                cost / period,
            )
            for period in PERIODS
        ]

    def take(self, tuning: Tuning, option: int) -> None:
        """Set the period to that of an option."""
        tuning["period"] = PERIODS[option]

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        """Learn the frame for the last time; by default, make the move in every iteration."""
        if len(tuning["frame"].rows) and tuning["gains"].inside.any():
            self._learn_frame(target, state, tuning)
        else:
            tuning["frame"] = NO_FRAME
        tuning.update(history=None, gains=None, period=1)


class Level:
    """Where the move is, and where its proposal would take it.

    Attributes
    ----------
    v, u, v_new, u_new
        theta as a vector, and the innovations.
    looks
        The number of looks at all records.
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

    def propose(
        self, rng: np.random.Generator, size: float, warming: bool, only_n: bool = False
    ) -> float:
        """Make a proposal, and return the log of its ratio r; minus infinity if there is none.

        It may be accepted only if it `leads_back`. With size s, a record and a coordinate of t are
        redrawn with probability min(1, s^2), so theta follows by about s of its sampling error. A
        step of s 2.4 / sqrt(dimension) posterior standard deviations is optimal for a normal target
        (Roberts, Gelman and Gilks 1997). In warm-up, far from the release, t goes straight to it.
        """
        frame, target, n = self.frame, self.target, len(self.u)
        assert target.abilities.innovations is not None  # `check` saw to it
        assert target.terms is not None
        t = t_new = frame.of_total(self.total)
        log_ratio, a_step = 0.0, np.zeros(frame.free.shape[1])
        if not only_n:
            size *= math.exp(SPREAD * rng.standard_normal())
            fresh = (rng.random((n, 1)) < size * size) & frame.renewed
            self.renewed = float(fresh.mean())
            self.u_new = np.where(fresh, target.abilities.innovations.draw(n, rng), self.u)
            a_step, log_a = self.step_free(rng, size)
            t_new = self.redraw(t, rng, size)
            log_ratio = log_a
        log_ratio += self.resize(rng, size)
        if log_ratio == -math.inf:
            return log_ratio
        released = frame.of_total(most_likely_total(target.terms))
        drawn = not (warming and np.abs(t - released).max() > CLOSE)
        if not drawn:
            t_new, log_ratio = released, 0.0
        self.along = frame.free @ a_step + frame.with_size * math.log(len(self.u_new) / n)
        slopes = frame.slopes(self.total_at, self.v, self.u)
        there = frame.solve(self.total_at, self.v + self.along, self.u_new, slopes, t_new)
        if there is None:
            return -math.inf
        self.slopes_new = frame.slopes(self.total_at, there, self.u_new)
        self.v_new = there
        self.theta, log_jacobian = target.coordinates.from_vector(there)
        self.records, total = target.rebuild(self.theta, self.u_new)
        if drawn:  # where t did not move, both are the same
            log_ratio += self.log_q(t) - self.log_q(frame.of_total(total))
        return (
            log_ratio + target.log_prior(self.theta) + log_jacobian - self.log_prior
            + target.log_g(total) - target.log_g(self.total)
            + np.linalg.slogdet(slopes)[1] - np.linalg.slogdet(self.slopes_new)[1]
        )  # fmt: skip

    def leads_back(self) -> bool:
        """Whether the solver returns from the last proposal to the current position."""
        start, t = self.v_new - self.along, self.frame.of_total(self.total)
        back = self.frame.solve(self.total_at, start, self.u, self.slopes_new, t)
        return back is not None and np.allclose(back, self.v, rtol=1e-6, atol=1e-9)

    def step_free(self, rng: np.random.Generator, size: float) -> tuple[np.ndarray, float]:
        """Return a' - a, and log q(a | a') - log q(a' | a)."""
        a = self.frame.place(self.v, len(self.u))
        k, a_new = len(a), a.copy()
        normals, radius = rng.standard_normal(k), student_radius(rng)
        if k == 0 or rng.random() < 0.5:
            return min(size, 1.0) * 2.4 / math.sqrt(max(k, 1)) * normals, 0.0
        log_q = jump(a, np.arange(k), np.zeros(k), np.eye(k), DOF, normals, radius, a_new)
        return a_new - a, log_q

    def redraw(self, t: np.ndarray, rng: np.random.Generator, size: float) -> np.ndarray:
        """Return t'."""
        r, (centre, laplace, gaussian) = len(t), self.law
        normals = rng.standard_normal(r)
        fresh = centre + np.where(laplace, rng.laplace(size=r), normals)
        fresh = np.where(rng.random(r) < size * size, fresh, t)
        return np.where(laplace | gaussian, fresh, t + size / math.sqrt(r) * normals)

    def log_q(self, t: np.ndarray) -> float:
        """Return log q(t), up to a constant; 0 for coordinates that make symmetric steps."""
        centre, laplace, gaussian = self.law
        off = np.abs(t - centre)
        return -float((laplace * off + gaussian * 0.5 * off**2).sum())

    @property
    def law(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The centre of each t_j, and whether its noise is Laplace or Gaussian."""
        rows, terms = self.frame.rows, self.target.terms
        assert terms is not None  # see `check`
        family = terms.family[rows]
        centre = terms.parameters[rows, 0] * self.frame.units
        return centre, family == LAPLACE, family == GAUSSIAN

    def resize(self, rng: np.random.Generator, size: float) -> float:
        """Lengthen or shorten u', where n is unknown; return log p(n') - log p(n)."""
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
        """Go to the proposal."""
        self.target.put(state, self.theta, self.u_new, self.records)


def _coordinates(target: Target, state: ChainState) -> np.ndarray:
    """Return theta as a vector, with log n where n is unknown."""
    v = target.coordinates.to_vector(state.theta)
    return v if target.size is None else np.append(v, math.log(len(state.records)))


def _and_records(v: np.ndarray, renewed: float) -> np.ndarray:
    """Return v with the records as one more coordinate; see "How often"."""
    return np.append(v, math.sqrt(2.0 * renewed))


def can_follow(target: Target) -> bool:
    """Whether theta can follow: it is short, and part of it moves built records without a jump."""
    able = target.abilities
    if not able.can_transport or target.terms is None:
        return False
    if target.coordinates.size > MOST_COORDINATES:
        return False
    if target.uses_cells or target.query_abilities.integer_valued:
        return False
    return bool(target.smooth.theta.any())
