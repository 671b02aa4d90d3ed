"""Explore with a formula, decide with the records.

With u held, the transport move samples p(theta | u, s_dp), which is proportional to p(theta)
g(s_dp, T(F(u; theta))), and every look at T is a pass over the records. Where the model and the
query have a formula T*(theta; u) that is close to T and does not need the records (`formulas`), a
whole chain of steps can be made with the formula before the records are looked at once (the
surrogate transition method: Liu 2001, *Monte Carlo Strategies in Scientific Computing*, 9.4.3).

**The ratio.** Let pi(v) = p(theta) J(v) g(s_dp, T) be the target with u held, in unconstrained
coordinates v, and pi*(v) the same with T* in place of T. Let P be a Metropolis kernel for pi* that
chooses one of several proposals at random in each step, with probabilities that do not depend on
v. P satisfies detailed balance for pi*, and so does K = P^k, k steps of it: pi*(v) K(v, v') =
pi*(v') K(v', v). Take the end v' of the k steps as one proposal for pi. Its ratio is

    pi(v') K(v', v)     pi(v') pi*(v)
    ---------------  =  -------------,
    pi(v)  K(v, v')     pi(v) pi*(v')

so `FormulaJump.propose` has to return log pi*(v) - log pi*(v'), and nothing is approximated. (A
fixed order of different proposals would not do: K would not be reversible.) pi* may depend on u,
which is held, and on what warm-up learned, but not on v.

**What is added to the formula.** T*(v) = A(v) + T(r) - A(r), where A is the formula, r the
posterior mean that warm-up found, and T(r) a look at the records, one for all steps with this u.
The noise of pi* is wider than that of pi, and may have a floor (`SOFTER`, `FLOOR`): whatever pi*
is, the ratio is the one above.

**The proposals of P** are those of `proposals`: two walks and a jump. Where the formula without
clamping, B, can be solved for theta, the walk that is shaped like theta given u is made in it
instead: B' = B(v) + s c b z, with the noise's scales b, and v' solves B(v') = B'. The posterior is
as wide there as the noise, whatever its shape in theta. In B the walk is symmetric, so that in v

    q(v | v') / q(v' | v)  =  |dB / dv|(v) / |dB / dv|(v').

**Where n is not known**, the chain moves it as well, with log w as the last coordinate (`size`).
The u that are held are the first N of the row, N its span, and the database of each n up to N is
one and the same from wherever it is asked for (`row`). So pi(v), v including log w, is the target
that `row` derives,

    p(theta) J(v) p(n) w g(s_dp, T(F(u(n); theta))) prod_{i <= N} phi(u_i + d(n)),

with u(n) the u_i + d(n), i <= n, and pi* the same with T* in place of T; the ratio above holds. The
sums that the formula needs of u(n) follow from those of the first n of the row: with s = sum u_i
and Q = sum u_i u_i', they are s + n d and Q + s d' + d s' + n d d'. They are taken at some n,
`Sizes`, and are in proportion between these, as p(n) is that of the next below; T(r) - A(r) is in
proportion to n. pi* is 0 where n is outside the range that warm-up found, and a chain that is there
stays where it is.

With cells, a proposal for one block changes the rows of probabilities in the block and the cells
that these make, and only these are computed anew. The prior's part of log pi* is, with the
Jacobian, the concentration times the sum of all log probabilities.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.adapt import log_change
from noiseaware.basics.linear_algebra import copy_vector
from noiseaware.maths.coordinates import constrain, fill_simplex
from noiseaware.maths.formulas import (
    Formula,
    approximate,
    clamped,
    log_volume,
    make_room,
    read_theta,
    solve,
)
from noiseaware.mechanisms.terms import SeparableDensity, needs_long, term
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.proposals import (
    DOF,
    SPREAD,
    WANTED,
    Proposal,
    factor_of,
    jump,
    walk,
)
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.target import Target, most_likely_total

WALK_GIVEN_U, WALK, JUMP = range(3)
KINDS = 3
"""The proposals of the chain, in this order."""

FLOOR = 4.0
"""With a regression, in no coordinate is pi* lowered by more than exp(-FLOOR) b_j / n: the formula
may be far off while T fits, and a chain that got there would hardly ever leave it by a proposal
that takes the formula at its word. `python -m benchmarks ablation` has a run without it."""

STEPS = 64
"""Steps with the formula for one look at the records; `benchmarks ablation` has half and twice."""

STEPS_A_CALL = 16.0
"""Steps with the formula that cost about as much as the calls of one pass over the records:
`python -m benchmarks steps` prints what both cost."""


MOST_SIZES = 1024
"""Numbers of records at which the sums of the row are taken."""

WIDE = (0.1, 0.7)
"""The range of log n is this far on each side of its mean at least and at most, and otherwise five
standard deviations: with more, most of the row would be behind n."""


class Noise(NamedTuple):
    """The noise of pi*: the terms of log g, their least values, and (T(r) - A(r)) / n, (d,)."""

    terms: SeparableDensity
    floor: np.ndarray
    offset: np.ndarray


class Steps(NamedTuple):
    """The proposals of the chain; lists of several lengths are filled up with zeros.

    Attributes
    ----------
    blocks, widths
        The coordinates that are proposed together, and their number.
    factors, sizes
        Cholesky factors and sizes, by kind and block.
    means
        Of a jump, by block.
    shares, block_shares
        The probabilities of the kinds and of the blocks.
    """

    blocks: np.ndarray
    widths: np.ndarray
    factors: np.ndarray
    sizes: np.ndarray
    means: np.ndarray
    shares: np.ndarray
    block_shares: np.ndarray


class Sizes(NamedTuple):
    """What the chain needs to move n; nothing in it where n is known.

    Attributes
    ----------
    lowest, apart
        The sums are taken at n = lowest, lowest + apart, ...
    log_prior
        log p(n) there.
    sums
        sum_i (1, u_i)(1, u_i)' over the first n of the row, there.
    start, lean
        The mean of the database's u is start + lean log n, (width,).
    whole
        sum_i u_i over the span, (width,).
    span
        The largest n.
    """

    lowest: int
    apart: int
    log_prior: np.ndarray
    sums: np.ndarray
    start: np.ndarray
    lean: np.ndarray
    whole: np.ndarray
    span: int


class Numbers(NamedTuple):
    """Random numbers, a row for each step.

    Uniforms: its kind and its block. Normals: its direction and the spread of its size. Waits,
    standard exponentials: a jump's radius, and acceptance.
    """

    uniforms: np.ndarray
    normals: np.ndarray
    waits: np.ndarray


class Counts(NamedTuple):
    """How often each kind was tried in each block, and the sum of acceptance probabilities."""

    tried: np.ndarray
    taken: np.ndarray


@njit(cache=True, nogil=True)
def _place(uniform, shares):
    """Return which of the shares a uniform number falls into."""
    place, below = 0, shares[0]
    while place < shares.shape[0] - 1 and uniform >= below:
        place += 1
        below += shares[place]
    return place


@njit(cache=True, nogil=True)
def _radius(numbers, k):
    """Return the radius of step k, a Student t."""
    return math.sqrt(0.5 * DOF / (numbers.waits[k, 0] + numbers.waits[k, 1]))


@njit(cache=True, nogil=True)
def _size(steps, kind, block, numbers, k):
    """Return the size of step k, a walk."""
    return steps.sizes[kind, block] * math.exp(SPREAD * numbers.normals[k, -1])


@njit(cache=True, nogil=True)
def _propose(steps, kind, block, numbers, k, v, proposed):
    """Fill `proposed` with a jump or a walk; return log q(v | v') - log q(v' | v)."""
    index = steps.blocks[block, : steps.widths[block]]
    factor = steps.factors[kind, block]
    normals = numbers.normals[k]
    if kind == JUMP:
        return jump(
            v, index, steps.means[block], factor, DOF, normals, _radius(numbers, k), proposed
        )
    walk(v, index, factor, _size(steps, kind, block, numbers, k), normals, proposed)
    return 0.0


@njit(cache=True, nogil=True)
def _accepts(log_ratio, counts, kind, block, wait):
    """Count a step, and return whether it is accepted."""
    counts.tried[kind, block] += 1.0
    if log_ratio > -700.0:
        counts.taken[kind, block] += math.exp(min(0.0, log_ratio))
    return -wait < log_ratio < math.inf


# ------------------------------------------------------------------ the chain of a regression


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


@njit(cache=True, nogil=True)
def resize(sizes, log_w, summary):
    """Fill `summary` with the sums of u(n), n = floor(w); return what log w adds to log pi*.

    Where n is known, 0, and the summary is left as it is.
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


@njit(cache=True, nogil=True, error_model="numpy")
def log_target(formula, summary, noise, log_jacobian, theta, room, unclamped, total):
    """Return log pi*, up to a constant, and fill in the total without and with clamping."""
    log_prior = approximate(formula, summary, theta, room, unclamped)
    clamped(summary[0, 0], unclamped, room.moments, total)
    terms, floor, offset = noise
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    log_g = 0.0
    for j in range(total.shape[0]):
        total[j] += summary[0, 0] * offset[j]
        log_g += max(term(long, family, parameters, j, total[j]), floor[j])
    return log_prior + log_jacobian + log_g


@njit(cache=True, nogil=True, error_model="numpy")
def explore(formula, summary, sizes, layout, natural, noise, steps, numbers, solvable, v, counts):
    """Do all steps of the chain for pi*, in place in `v`; return log pi* before and after.

    `natural` is room for theta, all its parameters one after another.
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
        kind = _place(numbers.uniforms[k, 0], steps.shares)
        block = _place(numbers.uniforms[k, 1], steps.block_shares)
        if kind == WALK_GIVEN_U and solvable:
            size = _size(steps, kind, block, numbers, k)
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
            log_q = _propose(steps, kind, block, numbers, k, v, proposed)
        jacobian = constrain(layout, proposed, natural) + resize(sizes, proposed[-1], summary)
        if jacobian == -math.inf:
            counts.tried[kind, block] += 1.0
            continue
        there = log_target(formula, summary, noise, jacobian, theta, room, unclamped_there, total)
        if _accepts(there - now + log_q, counts, kind, block, numbers.waits[k, 2]):
            copy_vector(proposed, v)
            copy_vector(unclamped_there, unclamped)
            now = there
    return before, now


# ------------------------------------------------------------------ the chain with cells


class Touched(NamedTuple):
    """What each block of coordinates touches; lists of several lengths, filled up with zeros.

    Attributes
    ----------
    rows
        Every row of probabilities: where it starts in theta and in v, and its width.
    block_rows, n_rows
        The rows of each block, and their number.
    block_cells, n_cells
        The cells that these make, and their number.
    """

    rows: np.ndarray
    block_rows: np.ndarray
    n_rows: np.ndarray
    block_cells: np.ndarray
    n_cells: np.ndarray


def touched_by(
    blocks: list[np.ndarray], layout: np.ndarray, class_place: np.ndarray, level_place: np.ndarray
) -> Touched:
    """Return what blocks of coordinates touch; `layout` as in `coordinates`, all simplexes."""
    rows = np.array(
        [
            (to + r * width, at + r * (width - 1), width)
            for _, to, at, count, width in layout.tolist()
            for r in range(count)
        ],
        dtype=np.int64,
    )
    row_lists, cell_lists = [], []
    for block in blocks:
        mine = [
            r
            for r, (_, at, width) in enumerate(rows)
            if ((at <= block) & (block < at + width - 1)).any()
        ]
        entries = np.concatenate([np.arange(rows[r, 0], rows[r, 0] + rows[r, 2]) for r in mine])
        row_lists.append(np.array(mine))
        of_class = np.isin(class_place, entries)
        of_level = np.isin(level_place, entries)
        cell_lists.append(np.flatnonzero(of_class | of_level))
    return Touched(rows, *_filled_up(row_lists), *_filled_up(cell_lists))


def _filled_up(lists: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return lists as the rows of one array, and their lengths."""
    lengths = np.array([len(one) for one in lists])
    array = np.zeros((len(lists), lengths.max()), dtype=np.int64)
    for row, one in zip(array, lists, strict=True):
        row[: len(one)] = one
    return array, lengths


@njit(cache=True, nogil=True)
def log_cell(formula, noise, natural, cell):
    """Return a cell's part of log pi*."""
    of_class, of_level = formula.class_place[cell], formula.level_place[cell]
    total = formula.n * (natural[of_class] * natural[of_level] + noise.offset[cell])
    terms = noise.terms
    return term(needs_long(terms), terms.family, terms.parameters, cell, total)


@njit(cache=True, nogil=True)
def explore_cells(formula, touched, natural, noise, steps, numbers, v, counts):
    """Do all steps, in place in `v`; arguments and answer as those of `explore`."""
    rows, block_rows, n_rows, block_cells, n_cells = touched
    d = noise.offset.shape[0]
    natural_there = np.empty_like(natural)
    sums, sums_there = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    parts, parts_there = np.empty(d), np.empty(d)
    proposed = np.empty_like(v)
    before = 0.0
    for r in range(rows.shape[0]):
        sums[r] = fill_simplex(v, rows[r, 1], natural, rows[r, 0], rows[r, 2])
        before += formula.concentration * sums[r]
    copy_vector(natural, natural_there)
    for cell in range(d):
        parts[cell] = log_cell(formula, noise, natural, cell)
        before += parts[cell]
    now = before
    for k in range(numbers.uniforms.shape[0]):
        kind = _place(numbers.uniforms[k, 0], steps.shares)
        block = _place(numbers.uniforms[k, 1], steps.block_shares)
        log_q = _propose(steps, kind, block, numbers, k, v, proposed)
        change = 0.0
        for i in range(n_rows[block]):
            r = block_rows[block, i]
            sums_there[r] = fill_simplex(
                proposed, rows[r, 1], natural_there, rows[r, 0], rows[r, 2]
            )
            change += formula.concentration * (sums_there[r] - sums[r])
        for i in range(n_cells[block]):
            cell = block_cells[block, i]
            parts_there[cell] = log_cell(formula, noise, natural_there, cell)
            change += parts_there[cell] - parts[cell]
        accept = _accepts(change + log_q, counts, kind, block, numbers.waits[k, 2])
        if accept:
            now += change
            copy_vector(proposed, v)
        for i in range(n_rows[block]):
            r = block_rows[block, i]
            for j in range(rows[r, 0], rows[r, 0] + rows[r, 2]):
                if accept:
                    natural[j] = natural_there[j]
                else:
                    natural_there[j] = natural[j]
            if accept:
                sums[r] = sums_there[r]
        if accept:
            for i in range(n_cells[block]):
                parts[block_cells[block, i]] = parts_there[block_cells[block, i]]
    return before, now


# ------------------------------------------------------------------ the proposals


class FormulaJump(Proposal):
    """The end of a chain that was run with a formula for the total; all of theta.

    Parameters
    ----------
    formula
        The formula.
    blocks
        The coordinates that the chain proposes together.
    target
        What is sampled.

    Attributes
    ----------
    mean
        The posterior mean of v: r.
    summary
        What the formula needs of the u that it is conditioned on.
    """

    scratch: tuple[str, ...] = ("counts", "noise", "summary")
    learned: tuple[str, ...] = ("mean", "steps")
    softer = 0.95
    """pi* is given wider noise than pi: 1 / b_j, the second column of the terms, is multiplied by
    this. A chain gets stuck where pi* is lower than pi; it never does where pi* is higher. Measured
    by `python -m benchmarks ablation`."""

    def __init__(self, formula: Any, blocks: list[np.ndarray], target: Target) -> None:
        assert target.terms is not None
        self.formula = formula
        self.coordinates = target.coordinates
        self.mean = np.zeros(target.moved.size)
        self.summary = np.empty((0, 0))
        self.formula_total = self.total
        self.formula_steps = STEPS
        self.more_calls = STEPS / STEPS_A_CALL
        count, widest = len(blocks), max(map(len, blocks))
        self.steps = Steps(
            *_filled_up(blocks),
            factors=np.zeros((KINDS, count, widest, widest)),
            sizes=np.ones((KINDS, count)),
            means=np.zeros((count, widest)),
            shares=np.full(KINDS, 1.0 / KINDS),
            block_shares=np.full(count, 1.0 / count),
        )
        self.counts = Counts(np.zeros((KINDS, count)), np.zeros((KINDS, count)))
        wider = target.terms.parameters * np.array([1.0, self.softer, 1.0, 1.0])
        self.noise = Noise(
            target.terms._replace(parameters=wider),
            floor=np.full(target.d, -np.inf),
            offset=np.zeros(target.d),
        )
        solvable = formula is not None and formula.solvable
        self._normals = max(widest, target.d) if solvable else widest

    def total(self, v: np.ndarray) -> np.ndarray:
        """Return A(v), (d,), with the u that is held."""
        return self.formula.totals(self._natural(v), self.summary)[1]

    def _natural(self, v: np.ndarray) -> np.ndarray:
        """Return theta(v), all its parameters one after another."""
        natural = np.empty(self.coordinates.natural_size)
        constrain(self.coordinates.layout, v, natural)
        return natural

    def condition_on(self, target: Target, row: Row) -> None:
        """Prepare for steps with these u: one look at the records, at r."""
        u = self.reference(row)
        theta, _ = target.coordinates.from_vector(self.mean[: target.coordinates.size])
        offset = (target.rebuild(theta, u)[1] - self.total(self.mean)) / len(u)
        self.noise = self.noise._replace(offset=offset)

    def reference(self, row: Row) -> np.ndarray:
        """Take the summary at r, and return the u there."""
        self.summary = self.formula.summarise(row.own())
        return row.own()

    def set_geometry(self, geometry: Geometry) -> None:
        """Take the shapes of the proposals, and the posterior mean."""
        self.mean = geometry.mean.copy()
        for b, width in enumerate(self.steps.widths.tolist()):
            index = self.steps.blocks[b, :width]
            factors = self.steps.factors[:, b, :width, :width]
            factors[WALK_GIVEN_U] = factor_of(geometry.covariance_given_u, index)
            factors[WALK] = factors[JUMP] = factor_of(geometry.covariance, index)
        self.steps = self.steps._replace(means=self.mean[self.steps.blocks])

    def tune(self, count: int) -> None:
        """Tune the sizes of the walks in every block."""
        tried, taken = self.counts
        sizes = self.steps.sizes
        for at in np.argwhere(tried[:JUMP]):
            kind, block = at.tolist()
            acceptance = float(taken[kind, block] / tried[kind, block])
            size = sizes[kind, block] * math.exp(log_change(acceptance, WANTED, count, gain=2.0))
            sizes[kind, block] = min(max(size, 1e-4), 10.0)
        tried[:] = 0.0
        taken[:] = 0.0

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Draw the random numbers of `steps` chains."""
        shape = (steps, self.formula_steps)
        return (
            rng.random((*shape, 2)),
            rng.standard_normal((*shape, self._normals + 1)),
            rng.standard_exponential((*shape, 3)),
        )

    def propose(self, v, prepared, k, proposed) -> float:
        """Fill `proposed` with the end of the k-th chain; return log pi*(v) - log pi*(v')."""
        proposed[:] = v
        before, after = self.explore(Numbers(*(numbers[k] for numbers in prepared)), proposed)
        return before - after

    def explore(self, numbers: Numbers, v: np.ndarray) -> tuple[float, float]:
        """Run the chain, in place in v; return log pi* before and after."""
        raise NotImplementedError


class RegressionJump(FormulaJump):
    """The chain of a regression, with `FLOOR`; it moves n too, where n is not known.

    Attributes
    ----------
    lowest, span
        The numbers of records that it knows of.
    sizes
        What it needs to move n.
    """

    learned = (*FormulaJump.learned, "lowest", "span")
    scratch = (*FormulaJump.scratch, "sizes")

    def __init__(self, formula: Formula, blocks: list[np.ndarray], target: Target) -> None:
        super().__init__(formula, blocks, target)
        self.noise = self.noise._replace(floor=_floor(self.noise, target.n))
        self.prior, self.lowest, self.span = target.size, 0, 0
        none = np.zeros(0)
        self.sizes = Sizes(0, 1, none, np.zeros((0, 0, 0)), none, none, none, 0)

    def set_geometry(self, geometry: Geometry) -> None:
        """Take the range of n besides."""
        super().set_geometry(geometry)
        if self.prior is None:
            return
        wide = 5.0 * math.sqrt(geometry.covariance[-1, -1])
        wide = min(max(wide, WIDE[0]), WIDE[1])
        low, high = (math.exp(self.mean[-1] + sign * wide) for sign in (-1, 1))
        self.lowest = min(max(math.floor(low), self.prior.lower), self.prior.upper)
        self.span = max(min(math.ceil(high), self.prior.upper), self.lowest)

    def reference(self, row: Row) -> np.ndarray:
        """Take the sums of the row, and return the u at r."""
        if self.prior is None:
            return super().reference(row)
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
        """Run the chain, in place in v; return log pi* before and after."""
        return explore(
            self.formula, self.summary, self.sizes, self.coordinates.layout, self._natural(v),
            self.noise, self.steps, numbers, self.formula.solvable, v, self.counts,
        )  # fmt: skip


def _floor(noise: Noise, n: int) -> np.ndarray:
    """Return the lowest that a coordinate's part of log pi* may be, (d,); see `FLOOR`."""
    family, parameters = noise.terms
    at = most_likely_total(noise.terms)
    long = needs_long(noise.terms)
    highest = [term(long, family, parameters, j, total) for j, total in enumerate(at)]
    return np.array(highest) - FLOOR - np.log1p(n * parameters[:, 1])


class CellsJump(FormulaJump):
    """The chain with cells. Its formula is the rougher one, so its noise is wider."""

    softer = 0.85

    def __init__(self, formula: Formula, blocks: list[np.ndarray], target: Target) -> None:
        super().__init__(formula, blocks, target)
        assert formula.cell_places is not None
        self.touched = touched_by(blocks, target.coordinates.layout, *formula.cell_places)
        # A block that touches more cells is harder to move, and gets more of the steps.
        weights = np.sqrt(self.touched.n_cells)
        self.steps = self.steps._replace(block_shares=weights / weights.sum())

    def explore(self, numbers: Numbers, v: np.ndarray) -> tuple[float, float]:
        """Run the chain, in place in v; return log pi* before and after."""
        return explore_cells(
            self.formula, self.touched, self._natural(v), self.noise, self.steps, numbers,
            v, self.counts,
        )  # fmt: skip


def formula_jump(formula: Formula, blocks: list[np.ndarray], target: Target) -> FormulaJump:
    """Return the proposal that a formula makes possible."""
    kind = RegressionJump if formula.cell_places is None else CellsJump
    return kind(formula, blocks, target)
