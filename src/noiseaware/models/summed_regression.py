"""A kernel for the regression of cells, with the counts summed out.

Given theta the cells are independent, and `maths.cells` gives, for each, log p(s_i | eta_i),
E(x_i | s_i) and Var(x_i | s_i) in one pass. From the 32nd iteration of warm-up on,
`maths.cell_fits` gives the same numbers in a twentieth of the time. These determine the derivatives
in the linear predictor. With m_i = E(x_i), e_i = E(x_i | s_i), v_i = Var(x_i | s_i), and a factor
c_i that is 1 for Poisson and binomial counts and r / (r + m_i) for negative binomial ones, Fisher's
identity gives

    d log p(s_i) / d eta_i = E(d log f(x_i) / d eta_i | s_i) = c_i (e_i - m_i),

and Louis' the information: that of the complete data minus the variance of its score given s_i,

    Poisson m_i - v_i,   binomial m_i (1 - p_i) - v_i,   negative binomial
    c_i m_i (r + e_i) / (r + m_i) - c_i^2 v_i.

**Proposals.** A block of theta with gradient g and information H (negative cell terms set to 0, the
prior's precision added) moves by

    delta = a H^{-1} g + sqrt(a (2 - a)) H^{-1/2} z,         0 < a <= 1,  z standard normal,

with the Metropolis-Hastings ratio, which uses g and H at the new point for the reverse move. If the
target is normal with this H, the new point is x = (1 - a) x_0 + noise around the mode. This leaves
the target invariant for every a, so all proposals are accepted; a = 1 is a fresh draw (Gamerman
1997). Warm-up tunes a, down from 1 where the target is not normal.

Far below the released value, log p(s_i) is convex in eta_i: H is the prior's alone and the step
overshoots, so such places are rarely entered, and then rarely left. A random walk,

    delta = 2.4 / sqrt(dimension) H_0^{-1/2} z,

with H_0 the average over warm-up, is symmetric and has no such trouble (2.4: Roberts, Gelman and
Gilks 1997). Coefficients and effects use both. Where wide noise hides small counts, the posterior
of the intercept has a long tail on one side, which small steps cross slowly. So an independence
proposal, the jump, draws y = (beta, log dispersion) from a Student t density q with the mean and
covariance seen in warm-up. With u - C beta held fixed (C: see below), it is accepted with
probability min(1, r),

    r = p(y', u' | s) q(y) / (p(y, u | s) q(y')),        u' = u + C (beta' - beta).

**The blocks**, one pass each:

- *coefficients*, with the effects following: (beta, u) -> (beta + delta, u + C delta), C fixed
  after warm-up. C is minus the regression of u on beta under the information, so that the residual
  of u does not depend on beta: the intercept moves against the mean of the effects, a slope against
  what it explains between groups. The map has determinant 1;
- *effects* of a factor: each group has its own cells, so all effects move in one pass, each
  accepted separately;
- *spread, effects along*: in (log spread, u / spread) the effects follow their spread;
- *dispersion*: a step in its logarithm;
- *coefficients and dispersion*, by a jump.

From `FEW` cells on, the walks and the last three blocks run in some iterations only (the spread in
every fourth, one factor at a time).

Two blocks need no pass: the intercept against a factor's effects, (b_0 + d, u - d), which no cell
sees, where d has a normal conditional; and the spread given its effects, by slice sampling. Spreads
thus move both with the effects held and with the effects along (Yu and Meng 2011).

References
----------
Gamerman, D. (1997). Sampling from the posterior distribution in generalized linear mixed models.
    Statistics and Computing 7.
Louis, T. A. (1982). Finding the observed information matrix when using the EM algorithm. JRSS B 44.
Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. Journal of
    Computational and Graphical Statistics 20(3).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from noiseaware.basics.adapt import StepSize
from noiseaware.contract import Floats, Theta
from noiseaware.maths import cells
from noiseaware.maths.cell_fits import CellFits
from noiseaware.maths.cells import BINOMIAL, NEGATIVE_BINOMIAL, CellLaws, Summed
from noiseaware.models.slice_sampling import slice_draw
from noiseaware.release import ImpossibleRelease

LOG_RATES = (math.log(cells.SMALLEST), math.log(cells.LARGEST))

FARTHEST = 25.0
"""Largest |log dispersion|, and |log spread| in units of its scale; there is no mass beyond."""

FEW = 1000
"""With fewer cells, every iteration moves every block, and makes `JUMPS` jumps."""

JUMPS = 2

MOST_JUMPED = 12
"""Most coefficients that a jump draws; in larger models it draws the dispersion only."""

DOF = 5.0
"""Degrees of freedom of the jump."""

DENSE = 2000
"""Up to this many effects in total, the regression of u on beta covers all factors jointly."""


REBUILT = (32, 256, 2048)
"""Iterations of warm-up after which the sums are interpolated, over where the chain has been since
the previous one (for the first: since a quarter of it)."""


class Point(NamedTuple):
    """A value of theta, with the results of a pass there."""

    beta: Floats
    effects: list[Floats]
    """One array per factor."""
    spread: Floats
    dispersion: float
    eta: Floats
    """The linear predictor, (n,)."""
    summed: Summed
    score: Floats
    information: Floats
    """First and second derivative of log p(s_i) in eta_i, (n,); the second negated, at least 0."""


class SummedRegression:
    """The kernel of a `CountRegression`, given what is seen of each of n cells."""

    def __init__(self, model: Any, laws: CellLaws, n: int) -> None:
        self.model, self.laws, self.n = model, laws, n
        self.design = model.design(n)
        self.offset = np.zeros(n) if model.exposure is None else np.log(model.exposure)
        self.codes = [factor.codes for factor in model.factors]
        self.sizes = [len(factor.levels) for factor in model.factors]
        p = self.design.shape[1]
        self.prior_mean = np.zeros(p)
        self.prior_mean[0] = model.intercept_mean
        self.precision = np.full(p, model.coefficient_sd**-2.0)
        self.precision[0] = model.intercept_sd**-2.0
        self.jumped = p if p <= MOST_JUMPED else 0
        self.jumps = self.jumped > 0 or model.code == NEGATIVE_BINOMIAL

    # ------------------------------------------------------------------ a point

    def at(
        self,
        beta: Floats,
        effects: list[Floats],
        spread: Floats,
        dispersion: float,
        fits: CellFits | None = None,
    ) -> Point:
        """Sum out the cells at a value of theta, by polynomials where available."""
        eta = self.offset + self.design @ beta
        for u, codes in zip(effects, self.codes, strict=True):
            eta += u[codes]
        code, rate, size = self.law(eta, dispersion)
        found = None if fits is None else fits.at(eta, math.log(dispersion or 1.0))
        if found is None:
            summed = cells.sum_out(code, rate, size, self.laws)
        else:
            summed, left = found
            if left.size:
                added = self._some(left, eta[left], dispersion)
                for all_cells, some in zip(summed, added, strict=True):
                    all_cells[left] = some
        if code == NEGATIVE_BINOMIAL:
            share = size / (size + rate)
            score = share * (summed.mean - rate)
            full = share * rate * (size + summed.mean) / (size + rate)
            missing = share**2 * summed.variance
        else:
            mean = rate if code != BINOMIAL else size * rate / (1.0 + rate)
            score, missing = summed.mean - mean, summed.variance
            full = mean if code != BINOMIAL else mean / (1.0 + rate)
        information = np.maximum(full - missing, 0.0)
        return Point(beta, effects, spread, dispersion, eta, summed, score, information)

    def law(self, eta: Floats, dispersion: float, which: Any = slice(None)) -> tuple[int, Any, Any]:
        """Return the law of some cells, as `maths.cells.log_mass` reads it."""
        rate = np.exp(np.clip(eta, *LOG_RATES))
        if self.model.code == BINOMIAL:
            return self.model.code, rate, self.model.trials[which]
        return self.model.code, rate, np.full(len(eta), 1.0 / dispersion if dispersion else 0.0)

    def _some(self, which: Any, eta: Floats, dispersion: float) -> Summed:
        laws = CellLaws(self.laws.family[which], self.laws.parameters[which], self.laws.table)
        return cells.sum_out(*self.law(eta, dispersion, which), laws)

    def draw(self, point: Point, rng: Generator) -> Any:
        """Draw the counts of all cells given theta and what is seen of them, (n,)."""
        law = self.law(point.eta, point.dispersion)
        return cells.draw_out(*law, self.laws, point.summed, rng)

    def theta(self, point: Point) -> Theta:
        """Return theta at a point, by name."""
        model = self.model
        made: Theta = {"coefficients": point.beta}
        if model.factors:
            made["spread"] = point.spread
        if model.code == NEGATIVE_BINOMIAL:
            made["dispersion"] = np.array(point.dispersion)
        for factor, u in zip(model.factors, point.effects, strict=True):
            made[factor.parameter] = u
        return made

    def point(self, theta: Theta) -> Point:
        """Return the point at a theta."""
        return self.at(
            np.array(theta["coefficients"]),
            [np.array(theta[factor.parameter]) for factor in self.model.factors],
            np.array(theta.get("spread", np.zeros(0))),
            float(theta.get("dispersion", 0.0)),
        )

    # ------------------------------------------------------------------ the start

    def start(self, rng: Generator) -> tuple[Point, dict[str, Any]]:
        """Return a point around the mode, overdispersed for the posterior, and the tuning."""
        model = self.model
        beta = self.prior_mean.copy()
        beta[0] = self._crude_intercept()
        effects = [np.zeros(size) for size in self.sizes]
        spread = np.full(len(effects), 0.5 * model.spread_scale)
        dispersion = 0.3 * model.dispersion_mean if model.code == NEGATIVE_BINOMIAL else 0.0
        point = self.at(beta, effects, spread, dispersion)
        impossible = np.flatnonzero(np.isneginf(point.summed.log_p))
        if impossible.size:
            raise ImpossibleRelease(
                f"the release must be possible under the model; that of record {impossible[0]} is "
                "not: no count that the model allows can be published so"
            )
        tuning: dict[str, Any] = {
            "steps": {name: StepSize(1.0, 0.65, 0.02, 1.0) for name in self._blocks()},
            "count": 0,
            "turn": 0,
            "mean": self._place(point),
            "root": np.eye(len(self._place(point))),
            "information": None,
            "fits": CellFits(),
            "path": [0.0, *np.zeros((2, self.n)), 0.0, 0.0],
            "follow": [np.zeros((size, len(beta))) for size in self.sizes],
        }
        if model.code == NEGATIVE_BINOMIAL:
            tuning["steps"]["dispersion"] = StepSize(0.3, 0.44, 1e-3, 3.0)
        for _ in range(30):
            before = point.summed.log_p.sum()
            point = self._climb(point)
            for k in range(len(effects)):
                point = self._climb_effects(point, k)
            if abs(point.summed.log_p.sum() - before) < 0.1:
                break
        self.learn_following(point, tuning)
        return self._spread_out(point, tuning, rng), tuning

    def _blocks(self) -> list[str]:
        factors = range(len(self.sizes))
        return ["coefficients", *(f"{kind} {k}" for kind in ("effects", "spread") for k in factors)]

    def _crude_intercept(self) -> float:
        """Return an intercept at which the mean count is about the mean of what is seen."""
        family, p = self.laws.family, self.laws.parameters
        seen = np.where(family == cells.TABLE, p[:, 0] + 0.5 * p[:, 2], p[:, 0])
        between = (family >= cells.BETWEEN) & (family != cells.TABLE)
        low = np.where(np.isfinite(p[:, 0]), p[:, 0], 0.5 * p[:, 2])
        seen = np.where(between, np.where(np.isfinite(low), low, 0.0), seen)
        known = (family >= cells.BETWEEN) | (p[:, 1] > 0.0)
        total = max(float(seen[known].sum()), 0.5) + 0.5
        if self.model.code == BINOMIAL:
            share = min(max(total / float(self.model.trials[known].sum() + 1.0), 1e-4), 1 - 1e-4)
            return math.log(share / (1.0 - share))
        return math.log(total / max(float(np.exp(self.offset[known]).sum()), 1e-300))

    def _climb(self, point: Point) -> Point:
        """Take a Newton step in the coefficients, halved until it goes uphill."""
        g, H = self._slope(point, self.design, [])
        step = np.linalg.solve(H, g)
        now = self._height(point)
        for _ in range(12):
            there = self.at(point.beta + step, point.effects, point.spread, point.dispersion)
            if self._height(there) >= now:
                return there
            step = 0.5 * step
        return point

    def _climb_effects(self, point: Point, k: int) -> Point:
        """Take a Newton step in each effect of a factor, clipped to [-1, 1]."""
        g, H = self._group_slopes(point, k)
        step = np.clip(g / H, -1.0, 1.0)
        there = self._with_effects(point, k, point.effects[k] + step, None)
        return there if self._height(there) >= self._height(point) else point

    def _height(self, point: Point) -> float:
        """Return log p(s | theta) p(beta, u | spreads), up to a constant."""
        distance = point.beta - self.prior_mean
        result = point.summed.log_p.sum() - 0.5 * (self.precision * distance**2).sum()
        for u, spread in zip(point.effects, point.spread, strict=True):
            result -= 0.5 * ((u / spread) ** 2).sum()
        return float(result)

    def _spread_out(self, point: Point, tuning: dict[str, Any], rng: Generator) -> Point:
        """Move away from the mode, by twice the posterior width in the coefficients."""
        follow = tuning["follow"]
        _, H = self._slope(point, self._followed(follow), follow)
        beta = np.linalg.solve(np.linalg.cholesky(H).T, 2.0 * rng.normal(size=len(H)))
        effects = []
        for k, u in enumerate(point.effects):
            _, h = self._group_slopes(point, k)
            noise = 1.5 * rng.normal(size=len(u)) / np.sqrt(h)
            effects.append(u + follow[k] @ beta + noise)
        spread = point.spread * np.exp(0.5 * rng.normal(size=len(point.spread)))
        dispersion = point.dispersion * math.exp(0.5 * rng.normal())
        return self.at(point.beta + beta, effects, spread, dispersion)

    # ------------------------------------------------------------------ slopes

    def _followed(self, follow: list[Floats]) -> Floats:
        """Return d eta / d beta with the effects following, (n, p)."""
        made = self.design
        for codes, C in zip(self.codes, follow, strict=True):
            made = made + C[codes]
        return made

    def _slope(self, point: Point, design: Floats, follow: list[Floats]) -> tuple[Floats, Floats]:
        """Return the gradient and information in beta, with the effects following."""
        g = design.T @ point.score - self.precision * (point.beta - self.prior_mean)
        H = design.T @ (point.information[:, np.newaxis] * design)
        H[np.diag_indices_from(H)] += self.precision
        for k, C in enumerate(follow):
            scale = point.spread[k] ** -2.0
            g -= scale * (C.T @ point.effects[k])
            H += scale * (C.T @ C)
        return g, H

    def _group_slopes(self, point: Point, k: int) -> tuple[Floats, Floats]:
        """Return the gradient and information in each effect of a factor."""
        scale, codes, size = point.spread[k] ** -2.0, self.codes[k], self.sizes[k]
        g = np.bincount(codes, point.score, size) - scale * point.effects[k]
        return g, np.bincount(codes, point.information, size) + scale

    def learn_following(self, point: Point, tuning: dict[str, Any]) -> None:
        """Set C to minus the regression of the effects on the coefficients, by the information."""
        if not self.sizes:
            return
        seen = tuning["information"]
        weight = point.information if seen is None else seen
        scales = point.spread**-2.0
        right = [
            np.column_stack([np.bincount(codes, weight * column, size) for column in self.design.T])
            for codes, size in zip(self.codes, self.sizes, strict=True)
        ]
        if len(self.sizes) > 1 and sum(self.sizes) <= DENSE:
            ends, pairs = np.cumsum(self.sizes)[:-1], zip(self.codes, self.sizes, strict=True)
            joined = np.hstack([np.eye(size)[codes] for codes, size in pairs])
            H = joined.T @ (weight[:, np.newaxis] * joined)
            H[np.diag_indices_from(H)] += np.repeat(scales, self.sizes)
            tuning["follow"] = np.split(-np.linalg.solve(H, np.vstack(right)), ends)
            return
        tuning["follow"] = [
            -made / (np.bincount(codes, weight, size) + scale)[:, np.newaxis]
            for made, codes, size, scale in zip(right, self.codes, self.sizes, scales, strict=True)
        ]

    # ------------------------------------------------------------------ an iteration

    def step(self, point: Point, tuning: dict[str, Any], rng: Generator) -> tuple[Point, float]:
        """Do all blocks once; return the point and the acceptance rate."""
        accepted: list[float] = []
        point = self._move_coefficients(point, tuning, rng, accepted)
        turn = tuning["turn"] = tuning["turn"] + 1
        few = self.n < FEW
        walks = few or turn % 8 == 3
        if walks:
            point = self._walk(point, tuning, rng)
        for k in range(len(self.sizes)):
            point = self._move_effects(point, k, tuning, rng, accepted)
            if walks:
                point = self._walk_effects(point, k, tuning, rng)
            point = self._shift(point, k, rng)
            if few or (turn % 4 == 1 and turn // 4 % len(self.sizes) == k):
                point = self._move_spread(point, k, tuning, rng, accepted)
            point = self._slice_spread(point, k, rng)
        if self.model.code == NEGATIVE_BINOMIAL and (few or turn % 4 == 2):
            point = self._walk_dispersion(point, tuning, rng, accepted)
        if self.jumps and (few or turn % 2 == 1):
            for _ in range(JUMPS if few else 1):
                point = self._jump(point, tuning, rng, accepted)
        return point, math.fsum(accepted) / len(accepted)

    def forget(self, tuning: dict[str, Any]) -> None:
        """Forget the polynomials, which belong to one release."""
        tuning["fits"] = CellFits()

    def learn(self, point: Point, tuning: dict[str, Any]) -> None:
        """Tune the step sizes; update C whenever warm-up has doubled in length."""
        tuning["count"] += 1
        count, seen = tuning["count"], tuning["information"]
        share = 1.0 / min(count, 100)
        old = np.zeros(self.n) if seen is None else seen
        tuning["information"] = (1.0 - share) * old + share * point.information
        for step in tuning["steps"].values():
            step.tune(count)
        if self.jumps:
            away = self._place(point) - tuning["mean"]
            share = 1.0 / min(count / 2.0 + 2.0, 200.0)
            # A Cholesky factor of (1 - share) (R R' + share away away').
            more = np.column_stack([tuning["root"], math.sqrt(share) * away])
            tuning["root"] = math.sqrt(1.0 - share) * np.asarray(np.linalg.qr(more.T, mode="r")).T
            tuning["mean"] = tuning["mean"] + share * away
        if count >= 16 and count & (count - 1) == 0:
            self.learn_following(point, tuning)
        self._learn_path(point, tuning)

    def _learn_path(self, point: Point, tuning: dict[str, Any]) -> None:
        """Record where the cells are; after the iterations in `REBUILT`, interpolate there."""
        path, t, count = tuning["path"], math.log(point.dispersion or 1.0), tuning["count"]
        for k, value in enumerate((1.0, point.eta, point.eta**2, t, t * t)):
            path[k] = path[k] + value
        if count not in REBUILT and count != REBUILT[0] // 4:
            return
        means = [total / path[0] for total in path[1:]]
        spreads = [np.sqrt(np.maximum(means[k + 1] - means[k] ** 2, 0.0)) for k in (0, 2)]
        tuning["path"] = [0.0, *np.zeros((2, self.n)), 0.0, 0.0]
        if count in REBUILT:
            two = self.model.code == NEGATIVE_BINOMIAL

            def walk(which: Any, eta: Floats, at: float) -> Summed:
                return self._some(which, eta, math.exp(at) if two else 0.0)

            ranges = (means[0], spreads[0]), (float(means[2]), float(spreads[1]))
            tuning["fits"].build(walk, *ranges, two)

    def _decide(
        self, step: StepSize, log_ratio: float, rng: Generator, accepted: list[float]
    ) -> bool:
        step.note(log_ratio)
        accept = bool(math.log(1.0 - rng.random()) < log_ratio)
        accepted.append(float(accept))
        return accept

    def _move_coefficients(
        self, point: Point, tuning: dict[str, Any], rng: Generator, accepted: list[float]
    ) -> Point:
        follow, step = tuning["follow"], tuning["steps"]["coefficients"]
        design, a = self._followed(follow), step.size
        b = a * (2.0 - a)

        def proposal(at: Point) -> tuple[Any, Any]:
            g, H = self._slope(at, design, follow)
            return a * np.linalg.solve(H, g), np.linalg.cholesky(H)

        try:
            mean, root = proposal(point)
            delta = mean + math.sqrt(b) * np.linalg.solve(root.T, rng.normal(size=len(mean)))
            there = self._moved(point, delta, tuning)
            back, back_root = proposal(there)
        except np.linalg.LinAlgError:
            step.note(-math.inf)
            accepted.append(0.0)
            return point
        forward, backward = root.T @ (delta - mean), back_root.T @ (-delta - back)
        log_ratio = self._height(there) - self._height(point)
        log_ratio += 0.5 * (forward @ forward - backward @ backward) / b
        log_ratio += float(np.log(np.diag(back_root)).sum() - np.log(np.diag(root)).sum())
        return there if self._decide(step, log_ratio, rng, accepted) else point

    def _moved(self, point: Point, delta: Any, tuning: dict[str, Any]) -> Point:
        """Move the coefficients by delta, with the effects following."""
        pairs = zip(point.effects, tuning["follow"], strict=True)
        place = ([u + C @ delta for u, C in pairs], point.spread, point.dispersion)
        return self.at(point.beta + delta, *place, tuning["fits"])

    def _walk(self, point: Point, tuning: dict[str, Any], rng: Generator) -> Point:
        """Take a random-walk step in the coefficients."""
        follow, seen = tuning["follow"], tuning["information"]
        if seen is None:
            return point
        design = self._followed(follow)
        H = design.T @ (seen[:, np.newaxis] * design) + np.diag(self.precision)
        p = len(point.beta)
        z = rng.normal(size=p) * (2.4 / math.sqrt(p))
        delta = np.linalg.solve(np.linalg.cholesky(H).T, z)
        there = self._moved(point, delta, tuning)
        log_ratio = self._height(there) - self._height(point)
        return there if math.log(1.0 - rng.random()) < log_ratio else point

    def _walk_effects(self, point: Point, k: int, tuning: dict[str, Any], rng: Generator) -> Point:
        """Take a random-walk step in every effect of a factor, each accepted separately."""
        seen, codes, size = tuning["information"], self.codes[k], self.sizes[k]
        if seen is None:
            return point
        scale = point.spread[k] ** -2.0
        delta = 2.4 * rng.normal(size=size) / np.sqrt(np.bincount(codes, seen, size) + scale)
        there = self._with_effects(point, k, point.effects[k] + delta, tuning["fits"])
        log_ratio = np.bincount(codes, there.summed.log_p - point.summed.log_p, size)
        log_ratio -= 0.5 * (there.effects[k] ** 2 - point.effects[k] ** 2) * scale
        return self._mixed(point, there, k, np.log(1.0 - rng.random(size)) < log_ratio)

    def _with_effects(self, point: Point, k: int, u: Floats, fits: CellFits | None) -> Point:
        effects = _replaced(point.effects, k, u)
        return self.at(point.beta, effects, point.spread, point.dispersion, fits)

    def _move_effects(
        self, point: Point, k: int, tuning: dict[str, Any], rng: Generator, accepted: list[float]
    ) -> Point:
        """Move every effect of a factor, each accepted by the cells of its own group."""
        step, codes, size = tuning["steps"][f"effects {k}"], self.codes[k], self.sizes[k]
        a = step.size
        b = a * (2.0 - a)
        g, H = self._group_slopes(point, k)
        delta = a * g / H + np.sqrt(b / H) * rng.normal(size=size)
        there = self._with_effects(point, k, point.effects[k] + delta, tuning["fits"])
        back, back_H = self._group_slopes(there, k)
        change = np.bincount(codes, there.summed.log_p - point.summed.log_p, size)
        change -= 0.5 * (there.effects[k] ** 2 - point.effects[k] ** 2) * point.spread[k] ** -2.0
        forward = H * (delta - a * g / H) ** 2
        backward = back_H * (-delta - a * back / back_H) ** 2
        log_ratio = change + 0.5 * (forward - backward) / b + 0.5 * np.log(back_H / H)
        accept = np.log(1.0 - rng.random(size)) < log_ratio
        chances = np.exp(np.minimum(np.nan_to_num(log_ratio, nan=-np.inf), 0.0))
        step.acceptance.append(float(chances.mean()))
        accepted.append(float(accept.mean()))
        return self._mixed(point, there, k, accept)

    def _mixed(self, point: Point, there: Point, k: int, accept: Any) -> Point:
        """Return the point with the new effects, and the results of their cells, where accepted."""
        new = accept[self.codes[k]]
        u = np.where(accept, there.effects[k], point.effects[k])

        def mix(one: Any, other: Any) -> Any:
            return np.where(new, one, other)

        return point._replace(
            effects=_replaced(point.effects, k, u),
            eta=mix(there.eta, point.eta),
            summed=Summed(*map(mix, there.summed, point.summed)),
            score=mix(there.score, point.score),
            information=mix(there.information, point.information),
        )

    def _shift(self, point: Point, k: int, rng: Generator) -> Point:
        """Draw d for (b_0 + d, u - d), which leaves every eta as it is.

        log p(d) = -P_0 (b_0 + d - m_0)^2 / 2 - sum_g (u_g - d)^2 / (2 spread^2) + constant.
        """
        scale = point.spread[k] ** -2.0
        precision = self.precision[0] + self.sizes[k] * scale
        pull = scale * point.effects[k].sum()
        pull -= self.precision[0] * (point.beta[0] - self.prior_mean[0])
        d = pull / precision + rng.normal() / math.sqrt(precision)
        beta = point.beta.copy()
        beta[0] += d
        return point._replace(beta=beta, effects=_replaced(point.effects, k, point.effects[k] - d))

    def _move_spread(
        self, point: Point, k: int, tuning: dict[str, Any], rng: Generator, accepted: list[float]
    ) -> Point:
        """Move log spread with the effects along, so that u / spread and its prior stay fixed."""
        step, codes = tuning["steps"][f"spread {k}"], self.codes[k]
        a = step.size
        b = a * (2.0 - a)

        def slopes(at: Point) -> tuple[float, float]:
            u = at.effects[k][codes]
            g = float((at.score * u).sum()) + self._spread_slope(at.spread[k])
            # Caps the proposal's standard deviation of log spread at 2 where nothing is known.
            return g, float((at.information * u * u).sum()) + 0.25

        g, H = slopes(point)
        delta = a * g / H + math.sqrt(b / H) * rng.normal()
        spread = point.spread.copy()
        spread[k] *= math.exp(min(max(delta, -50.0), 50.0))
        if abs(math.log(spread[k] / self.model.spread_scale)) > FARTHEST:
            return point
        grown = _replaced(point.effects, k, point.effects[k] * (spread[k] / point.spread[k]))
        there = self.at(point.beta, grown, spread, point.dispersion, tuning["fits"])
        back, back_H = slopes(there)
        log_ratio = float((there.summed.log_p - point.summed.log_p).sum()) + delta
        log_ratio += self.model.log_spread_prior(spread[k])
        log_ratio -= self.model.log_spread_prior(point.spread[k])
        forward, backward = H * (delta - a * g / H) ** 2, back_H * (delta + a * back / back_H) ** 2
        log_ratio += 0.5 * (forward - backward) / b
        log_ratio += 0.5 * math.log(back_H / H)
        return there if self._decide(step, log_ratio, rng, accepted) else point

    def _spread_slope(self, spread: float) -> float:
        """Return d / d log spread of the log density of log spread."""
        z, df = (spread / self.model.spread_scale) ** 2, self.model.spread_df
        return 1.0 - z if df is None else 1.0 - (df + 1.0) * z / (df + z)

    def _slice_spread(self, point: Point, k: int, rng: Generator) -> Point:
        size, square = self.sizes[k], 0.5 * float((point.effects[k] ** 2).sum())
        centre = math.log(self.model.spread_scale)

        def log_density(t: float) -> float:
            if abs(t - centre) > FARTHEST:
                return -math.inf
            prior = self.model.log_spread_prior(math.exp(t))
            return (1.0 - size) * t - square * math.exp(-2.0 * t) + prior

        width, spread = 3.0 / math.sqrt(2.0 * size), point.spread.copy()
        spread[k] = math.exp(slice_draw(log_density, math.log(spread[k]), width, rng))
        return point._replace(spread=spread)

    def _walk_dispersion(
        self, point: Point, tuning: dict[str, Any], rng: Generator, accepted: list[float]
    ) -> Point:
        step = tuning["steps"]["dispersion"]
        t = math.log(point.dispersion) + step.size * rng.normal()
        if abs(t) > FARTHEST:
            return point
        place = (point.beta, point.effects, point.spread, math.exp(t))
        there = self.at(*place, tuning["fits"])
        log_ratio = self._log_posterior(there) - self._log_posterior(point)
        return there if self._decide(step, log_ratio, rng, accepted) else point

    def _log_posterior(self, point: Point) -> float:
        """Return the log density of (beta, u, log dispersion), up to a constant."""
        value = self._height(point)
        if self.model.code == NEGATIVE_BINOMIAL:
            value += math.log(point.dispersion) - point.dispersion / self.model.dispersion_mean
        return value

    def _place(self, point: Point) -> Floats:
        """Return what `_jump` moves, as one vector: the coefficients and log dispersion."""
        beta = point.beta[: self.jumped]
        if self.model.code != NEGATIVE_BINOMIAL:
            return beta
        return np.append(beta, math.log(point.dispersion))

    def _jump(
        self, point: Point, tuning: dict[str, Any], rng: Generator, accepted: list[float]
    ) -> Point:
        """Propose coefficients and dispersion independently of the point, the effects following."""
        mean, root, here = tuning["mean"], tuning["root"], self._place(point)
        k = len(here)
        z = rng.normal(size=k) * math.sqrt(DOF / rng.chisquare(DOF))
        there, back = mean + root @ z, np.linalg.solve(root, here - mean)
        log_ratio = 0.5 * (DOF + k) * (math.log1p(z @ z / DOF) - math.log1p(back @ back / DOF))
        delta = np.zeros(len(point.beta))
        delta[: self.jumped] = (there - here)[: self.jumped]
        dispersion = point.dispersion
        if self.model.code == NEGATIVE_BINOMIAL:
            if abs(there[-1]) > FARTHEST:
                return point
            dispersion = math.exp(there[-1])
        place = self._moved(point._replace(dispersion=dispersion), delta, tuning)
        log_ratio += self._log_posterior(place) - self._log_posterior(point)
        accept = bool(math.log(1.0 - rng.random()) < log_ratio)
        accepted.append(float(accept))
        return place if accept else point


def _replaced(effects: list[Floats], k: int, u: Floats) -> list[Floats]:
    return [*effects[:k], u, *effects[k + 1 :]]
