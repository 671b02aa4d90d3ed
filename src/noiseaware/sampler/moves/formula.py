"""The regression's formula for the total, with which the transport move explores.

`exploring` derives the ratio. A is the formula of `noiseaware.maths.formulas`.

**A walk in the total.** Where the formula without clamping, B, can be solved for theta, the walk
shaped like theta given u is made in B instead: B' = B(v) + s c b z, with noise scales b, and v'
solves B(v') = B'. There the posterior is as wide as the noise, whatever its shape in theta. The
walk is symmetric in B, so in v

    q(v | v') / q(v' | v)  =  |dB / dv|(v) / |dB / dv|(v').

**Where n is unknown**, the chain moves it too, with log w as the last coordinate (`size`). The u
that are held are the first N of the row, N its span, and the database of each n up to N is the same
from wherever it is built (`row`). So pi(v), with log w in v, is the target that `row` derives,

    p(theta) J(v) p(n) w g(s_dp, T(F(u(n); theta))) prod_{i <= N} phi(u_i + d(n)),

with u(n) the u_i + d(n), i <= n, and pi* the same with T* in place of T; the ratio holds. The sums
of u(n) that the formula needs follow from those of the first n of the row: with s = sum u_i and Q =
sum u_i u_i', they are s + n d and Q + s d' + d s' + n d d'. They are computed at some n (`Sizes`)
and taken in proportion between these, where p(n) is that of the next lower n. T(r) - A(r) is taken
in proportion to n. pi* is 0 for n outside the range found in warm-up, and a chain that is there
stays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.linear_algebra import copy_vector
from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.maths.coordinates import constrain
from noiseaware.maths.formulas import (
    RegressionFormula,
    approximate,
    clamped,
    log_volume,
    make_room,
    read_theta,
    solve,
)
from noiseaware.mechanisms.terms import needs_long, term
from noiseaware.sampler.moves.exploring import (
    WALK_GIVEN_U,
    ExploringJump,
    Numbers,
    accepts,
    pick,
    propose_step,
    size_of,
)
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.target import Target

MOST_SIZES = 1024
"""Most values of n at which the sums of the row are computed."""

WIDE = (0.1, 0.7)
"""The range of log n extends five standard deviations to each side of its mean, but at least and at
most this far: with more, most of the row would be behind n. Chosen, not tuned."""


class Sizes(NamedTuple):
    """What the chain needs to move n; empty where n is known."""

    lowest: int
    apart: int
    """The sums are computed at n = lowest, lowest + apart, ..."""
    log_prior: np.ndarray
    """log p(n) there."""
    sums: np.ndarray
    """sum_i (1, u_i)(1, u_i)' over the first n of the row, there."""
    start: np.ndarray
    lean: np.ndarray
    """The mean of the database's u is start + lean log n, (width,)."""
    whole: np.ndarray
    """sum_i u_i over the span, (width,)."""
    span: int
    """The largest n."""


@njit(cache=True, nogil=True)
def take_sums(row, n, sizes):
    """Fill `sums` and `whole` of `Sizes` from the row, and `start` with the sum of the first n."""
    width = row.shape[1]
    now = np.zeros((width, width))
    place, at = 0, sizes.lowest
    for j in range(width):
        sizes.whole[j] = 0.0
    for i in range(sizes.span):
        for j in range(width):
            sizes.whole[j] += row[i, j]
            for k in range(j + 1):
                now[j, k] += row[i, j] * row[i, k]
        if i + 1 == n:
            copy_vector(sizes.whole, sizes.start)
        if i + 1 == at:
            sums = sizes.sums[place]
            sums[0, 0] = at
            for j in range(width):
                sums[j + 1, 0] = sizes.whole[j]
                copy_vector(now[j], sums[j + 1, 1:])
            place, at = place + 1, at + sizes.apart


@njit(cache=True, nogil=True, **UNCOUNTED)
def resize(sizes, log_w, summary):
    """Fill `summary` with the sums of u(n), n = floor(w); return what log w adds to log pi*.

    Where n is known, return 0 and leave the summary.
    """
    if sizes.sums.shape[0] == 0:
        return 0.0
    w = math.exp(min(log_w, 700.0))
    if not sizes.lowest <= w < sizes.span + 1.0:
        return -math.inf
    n = math.floor(w)
    log_n = math.log(n)
    place = (n - sizes.lowest) // sizes.apart
    there = sizes.sums[place]
    more = n / there[0, 0]
    log_density = sizes.log_prior[place] + log_w
    summary[0, 0] = n
    for j in range(sizes.lean.shape[0]):
        mean, total = sizes.start[j] + sizes.lean[j] * log_n, more * there[j + 1, 0]
        d = mean - total / n
        log_density -= d * (sizes.whole[j] + 0.5 * sizes.span * d)
        summary[j + 1, 0] = summary[0, j + 1] = n * mean
        for k in range(j + 1):
            # With m the mean: Q + s d' + d s' + n d d' = Q - s s' / n + n m m'.
            product = mean * summary[k + 1, 0] - more * total * there[k + 1, 0] / n
            value = more * there[j + 1, k + 1] + product
            summary[j + 1, k + 1] = summary[k + 1, j + 1] = value
    return log_density


@njit(cache=True, nogil=True, error_model="numpy", **UNCOUNTED)
def log_target(formula, summary, noise, log_jacobian, theta, room, unclamped, total):
    """Return log pi*, up to a constant, and fill in the total without and with clamping."""
    log_prior = approximate(formula, summary, theta, room, unclamped)
    clamped(summary[0, 0], unclamped, room.moments, total)
    terms, offset = noise
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    log_g = 0.0
    for j in range(total.shape[0]):
        total[j] += summary[0, 0] * offset[j]
        log_g += term(long, family, parameters, j, total[j])
    return log_prior + log_jacobian + log_g


@njit(cache=True, nogil=True, error_model="numpy")
def explore(formula, summary, sizes, layout, natural, noise, steps, numbers, solvable, v, counts):
    """Do all steps of the chain for pi*, in place in `v`; return log pi* before and after.

    `natural` is room for all parameters of theta, one after another.
    """
    d = noise.offset.shape[0]
    theta, room = read_theta(formula, natural), make_room(formula)
    p = theta.mean.shape[0]
    total = np.empty(d)
    unclamped, unclamped_there = np.empty(d), np.empty(d)
    proposed = np.empty_like(v)
    jacobian = constrain(layout, v, natural) + resize(sizes, v[-1], summary)
    if jacobian == -math.inf:
        return 0.0, 0.0  # an n that it does not know of
    before = log_target(formula, summary, noise, jacobian, theta, room, unclamped, total)
    now = before
    for k in range(numbers.uniforms.shape[0]):
        kind = pick(numbers.uniforms[k, 0], steps.shares)
        block = pick(numbers.uniforms[k, 1], steps.block_shares)
        if kind == WALK_GIVEN_U and solvable:
            size = size_of(steps, kind, block, numbers, k)
            resize(sizes, v[-1], summary)
            proposed[-1] = v[-1]
            for j in range(d):
                step = size * numbers.normals[k, j] / noise.terms.parameters[j, 1]
                unclamped_there[j] = unclamped[j] + step
            if not solve(formula, summary, unclamped_there, proposed, room):
                counts.tried[kind, block] += 1.0  # no such theta: refused
                continue
            log_q = log_volume(p, v) - log_volume(p, proposed)
        else:
            log_q = propose_step(steps, kind, block, numbers, k, v, proposed)
        there = constrain(layout, proposed, natural) + resize(sizes, proposed[-1], summary)
        if there > -math.inf:
            there = log_target(formula, summary, noise, there, theta, room, unclamped_there, total)
        if accepts(there - now + log_q, counts, kind, block, numbers.waits[k, 2]):
            copy_vector(proposed, v)
            copy_vector(unclamped_there, unclamped)
            now = there
    return before, now


class RegressionJump(ExploringJump):
    """The chain of a regression; it also moves n, from `lowest` to `span`."""

    learned = (*ExploringJump.learned, "lowest", "span")
    scratch = (*ExploringJump.scratch, "summary", "sizes")

    def __init__(
        self, formula: RegressionFormula, blocks: list[np.ndarray], target: Target
    ) -> None:
        super().__init__(blocks, target)
        self.formula, self.summary = formula, np.empty((0, 0))
        if formula.solvable:
            self._normals = max(self._normals, target.d)
        self.prior, self.lowest, self.span = target.size, 0, 0
        none = np.zeros(0)
        self.sizes = Sizes(0, 1, none, np.zeros((0, 0, 0)), none, none, none, 0)

    def total(self, v: np.ndarray) -> np.ndarray:
        return self.formula.totals(self._natural(v), self.summary)[1]

    def _natural(self, v: np.ndarray) -> np.ndarray:
        """Return theta(v), all its parameters one after another."""
        natural = np.empty(self.coordinates.natural_size)
        constrain(self.coordinates.layout, v, natural)
        return natural

    def condition_on(self, target: Target, row: Row) -> None:
        """Look at the records once, at r."""
        u = self.reference(row)
        theta, _ = target.coordinates.from_vector(self.mean[: target.coordinates.size])
        offset = (target.rebuild(theta, u)[1] - self.total(self.mean)) / len(u)
        self.noise = self.noise._replace(offset=offset)

    def set_geometry(self, geometry: Geometry) -> None:
        """Take the range of n as well."""
        super().set_geometry(geometry)
        if self.prior is None:
            return
        wide = 5.0 * math.sqrt(geometry.covariance[-1, -1])
        wide = min(max(wide, WIDE[0]), WIDE[1])
        low, high = (math.exp(self.mean[-1] + sign * wide) for sign in (-1, 1))
        self.lowest = min(max(math.floor(low), self.prior.lower), self.prior.upper)
        self.span = max(min(math.ceil(high), self.prior.upper), self.lowest)

    def reference(self, row: Row) -> np.ndarray:
        """Compute the sums of the row, and return the u at r."""
        if self.prior is None:
            self.summary = self.formula.summarise(row.own())
            return row.own()
        row.draw(self.span)
        sizes, width = self.sizes, row.u.shape[1]
        if (sizes.lowest, sizes.span) != (self.lowest, self.span):
            apart = -(-(self.span + 1 - self.lowest) // MOST_SIZES)
            known = range(self.lowest, self.span + 1, apart)
            log_prior = np.array([self.prior.log_pmf(n) for n in known])
            sums = np.empty((len(log_prior), width + 1, width + 1))
            start, whole = np.empty((2, width))
            sizes = Sizes(self.lowest, apart, log_prior, sums, start, row.lean, whole, self.span)
        take_sums(row.u, row.n, sizes)
        sizes.start[:] = sizes.start / row.n - row.lean * math.log(row.n)
        self.sizes = sizes._replace(lean=row.lean)
        n = min(max(math.floor(math.exp(self.mean[-1])), self.lowest), self.span)
        self.summary = np.empty((width + 1, width + 1))
        resize(self.sizes, math.log(n + 0.5), self.summary)
        return row.first(n)

    def explore(self, numbers: Numbers, v: np.ndarray) -> tuple[float, float]:
        return explore(
            self.formula, self.summary, self.sizes, self.coordinates.layout, self._natural(v),
            self.noise, self.steps, numbers, self.formula.solvable, v, self.counts,
        )  # fmt: skip
