"""Move counts between the cells of a table, with the probabilities integrated out.

Records of a contingency table are exchangeable, and all that matters of them is how many there are
in each cell: n_1, ..., n_C. Under the prior p ~ Dirichlet(a_1, ..., a_C) the probabilities can be
integrated out,

    p(x) = const. prod_c Gamma(a_c + n_c),     so     p(n) = const. prod_c Gamma(a_c + n_c) / n_c!,

because n! / prod_c n_c! databases have the same counts. Given the release,

    p(n | s_dp)  proportional to  prod_c [Gamma(a_c + n_c) / n_c!]  g(s_dp, T(n)),

and x given n is any of the databases with these counts, each as likely as the other, and p given x
is a Dirichlet distribution: the model's own `update_parameters`. One step moves n by many small
Metropolis steps, then draws x given n and p given x. Each of the three leaves its distribution
invariant, and together they are a draw from p(p, x | s_dp) up to how far n got.

**Why.** Margins that are known well leave the inside of the table open. Algorithm 1 would have to
fill it one record at a time, each of which disturbs the margins; a transport of p moves about the
square root of the records that it should through every margin. Counts can be moved so that the
margins stay as they are.

**The Metropolis steps.** Pick two cells and a set S of variables in which they differ. The 2^|S|
cells that take each of these variables from one or the other (the rest of the variables as in the
first cell) are the corners of a cube. Add k to the corners that differ from the first cell in an
even number of variables, and take k from the others; k is a random size with a random sign. With
|S| = 1 this moves k records from one cell to another; |S| = 2 keeps the margins over single
variables, |S| = 3 those over pairs, and so on: a margin changes only if it has all variables of S.
(Diaconis and Sturmfels 1998 have the theory of such moves.) Cells, S and k are picked without
looking at n, and k and -k are as likely, so the proposal is symmetric and the ratio is

    r = prod_c [Gamma(a_c + n_c') n_c! / (Gamma(a_c + n_c) n_c'!)]  g(s_dp, T(n')) / g(s_dp, T(n)),

0 if a count would be negative. The moves with |S| = 1 reach every n.

**What the model offers.** `table_concentrations` (J_1, ..., J_K): a_c of each cell, the cells being
the possible records in C order; and `update_parameters`.

References
----------
Diaconis and Sturmfels (1998), Algebraic algorithms for sampling from conditional distributions,
Annals of Statistics 26(1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.mechanisms.terms import needs_long
from noiseaware.sampler.moves.records import shift
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

LARGEST_SET = 5
"""Most variables in S: 2^|S| counts change together."""

STEPS_PER_CELL = 32
FEWEST_STEPS, MOST_STEPS = 64, 4096
"""Metropolis steps in an iteration."""


@njit(cache=True, nogil=True)
def corner_of(corner, cell, step, far, width):
    """Return a corner of the box that a step moves: its cell, and by how much its count grows."""
    for a in range(width):
        if corner >> a & 1:
            cell += far[a]
            step = -step
    return cell, step


class Table(NamedTuple):
    """What a step needs to know of a table with C cells and K variables.

    Attributes
    ----------
    cells : (C, k)
        The entries of the total that a record in each cell adds 1 to; -1 is none.
    log_weights : (D, n + 1)
        log Gamma(a + m) - log m! for m = 0, ..., n, one row for each different a.
    kind : (C,)
        The row of each cell in it.
    levels, strides : (K,)
        The number of levels of each variable, and how far apart two neighbouring ones are.
    """

    cells: np.ndarray
    log_weights: np.ndarray
    kind: np.ndarray
    levels: np.ndarray
    strides: np.ndarray


class Steps(NamedTuple):
    """m Metropolis steps, as they were drawn.

    Attributes
    ----------
    ends : (m, 2)
        The two cells of each step.
    chosen : (m, K)
        Whether each variable may be in S.
    sizes : (m,) int64
        k, with its sign.
    log_uniform : (m,)
        Logarithms of uniforms.
    """

    ends: np.ndarray
    chosen: np.ndarray
    sizes: np.ndarray
    log_uniform: np.ndarray


@njit(cache=True, nogil=True)
def differences(table, first, second, chosen, far):
    """Fill `far` with the distances of two cells in the variables of S; return |S|."""
    width = 0
    for k in range(table.levels.shape[0]):
        stride, levels = table.strides[k], table.levels[k]
        apart = second // stride % levels - first // stride % levels
        if chosen[k] and apart != 0 and width < LARGEST_SET:
            far[width] = apart * stride
            width += 1
    return width


@njit(cache=True, nogil=True)
def log_prior_ratio(table, counts, first, size, far, width):
    """Return what a step does to sum_c log [Gamma(a_c + n_c) / n_c!]; -inf below a count of 0."""
    log_ratio = 0.0
    for corner in range(1 << width):
        cell, step = corner_of(corner, first, size, far, width)
        new = counts[cell] + step
        if new < 0 or new >= table.log_weights.shape[1]:
            return -math.inf
        weights = table.log_weights[table.kind[cell]]
        log_ratio += weights[new] - weights[counts[cell]]
    return log_ratio


@njit(cache=True, nogil=True)
def table_steps(density, total, counts, table, steps):
    """Do Metropolis steps on the counts, in place; return how many were accepted.

    `density` is the target's, separable; `total` (d,) is T(n) and `counts` (C,) int64 is n, both
    updated in place.
    """
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    far = np.empty(table.levels.shape[0], dtype=np.int64)
    change = np.zeros(total.shape[0])
    accepted = 0
    for i in range(steps.ends.shape[0]):
        first, size = steps.ends[i, 0], steps.sizes[i]
        width = differences(table, first, steps.ends[i, 1], steps.chosen[i], far)
        if width == 0:
            continue
        log_ratio = log_prior_ratio(table, counts, first, size, far, width)
        if log_ratio == -math.inf:
            continue
        # What the total would gain, entry by entry: most of it cancels.
        for corner in range(1 << width):
            cell, step = corner_of(corner, first, size, far, width)
            counts[cell] += step
            for a in range(table.cells.shape[1]):
                if table.cells[cell, a] >= 0:
                    change[table.cells[cell, a]] += step
        for j in range(change.shape[0]):
            if change[j] != 0.0:
                step_ratio = shift(long, family, parameters, total, j, change[j])
                log_ratio += density.power * step_ratio
        keep = steps.log_uniform[i] < log_ratio
        accepted += keep
        if not keep:
            for corner in range(1 << width):
                cell, step = corner_of(corner, first, size, far, width)
                counts[cell] -= step
        for j in range(change.shape[0]):
            if not keep:
                total[j] -= change[j]
            change[j] = 0.0
    return accepted


class MarkovBasisMove:
    """Move the counts of a contingency table, then draw the records and theta given them.

    Reports `table_acceptance`, the share of the Metropolis steps that were accepted.
    """

    reports = ("table_acceptance",)

    def __repr__(self) -> str:
        return "MarkovBasisMove()"

    def check(self, target: Target) -> None:
        """Raise if the records are not cells of a table, or g does not count them in cells."""
        name = target.abilities.name
        if target.abilities.table_concentrations is None:
            raise ValueError(
                "MarkovBasisMove needs a model whose records are the cells of a table with a "
                f"Dirichlet prior, given by its table_concentrations; {name} has none"
            )
        if target.abilities.update_parameters is None:
            raise ValueError(
                f"MarkovBasisMove needs a model with update_parameters; {name} has none"
            )
        if not target.uses_cells:
            raise ValueError(
                "MarkovBasisMove needs a query that counts records in cells and noise that is "
                f"scored coordinate by coordinate; got {target.release.mechanism!r}"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Nothing to tune; put what a step needs where it finds it."""
        concentrations = np.asarray(target.abilities.table_concentrations, dtype=np.float64)
        levels = np.array(concentrations.shape, dtype=np.int64)
        n_cells = concentrations.size
        values = np.indices(concentrations.shape, dtype=np.int64).reshape(len(levels), -1).T
        values = np.ascontiguousarray(values.reshape(n_cells, *state.records.shape[1:]))
        different, kind = np.unique(concentrations.ravel(), return_inverse=True)
        table = Table(
            target.statistic(values, 0),
            _log_weights(different, target.n),
            kind.astype(np.int64),
            levels,
            n_cells // np.cumprod(levels),
        )
        return {"values": values, "table": table}

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Nothing to learn."""

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Do the Metropolis steps on the counts, draw x given them and theta given x."""
        rng, n = state.rng, target.n
        table, values = tuning["table"], tuning["values"]
        n_cells, n_variables = len(values), len(table.levels)
        update = target.abilities.update_parameters
        assert update is not None  # `check` saw to it
        numbers = state.records.reshape(n, -1) @ table.strides
        counts = np.bincount(numbers, minlength=n_cells)
        total = target.sum(table.cells[numbers])
        m = min(max(FEWEST_STEPS, STEPS_PER_CELL * n_cells), MOST_STEPS)
        # How many variables S may have, from 1 to all, and which: the first of a random order.
        how_many = rng.integers(1, min(n_variables, LARGEST_SET) + 1, size=(m, 1))
        order = rng.random((m, n_variables)).argsort(axis=1).argsort(axis=1)
        # Sizes from 1 to n/2 or so, as many between 1 and 2 as between 50 and 100.
        sizes = np.exp(rng.random(m) * math.log(0.5 * n + 2.0)).astype(np.int64)
        steps = Steps(
            rng.integers(0, n_cells, size=(m, 2)),
            order < how_many,
            sizes * rng.choice(_SIGNS, size=m),
            -rng.standard_exponential(m),
        )
        accepted = table_steps(target.density, total, counts, table, steps)
        state.records = values[rng.permutation(np.repeat(np.arange(n_cells), counts))]
        state.theta = update(state.theta, state.records, rng)
        return (accepted / m,)


_SIGNS = np.array([-1, 1])


def _log_weights(concentrations: np.ndarray, n: int) -> np.ndarray:
    """Log Gamma(a + m) - log m! for each a and m = 0, ..., n, up to a constant of each a."""
    m = np.arange(1.0, n + 1.0)
    steps = np.log(concentrations[:, np.newaxis] + m - 1.0) - np.log(m)
    return np.concatenate((np.zeros((len(concentrations), 1)), np.cumsum(steps, axis=1)), axis=1)
