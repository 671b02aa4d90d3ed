"""The chain of `surrogate` for class-feature counts, where a step touches few of the cells.

The formula of a cell is n p_class p_level, and every parameter is a row of probabilities. A
proposal for one block of coordinates changes the rows of the block and the cells that these rows
make, so that only these are computed anew. With the Jacobian, the prior's part of log pi* is the
concentration times the sum of all log probabilities.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.coordinates import fill_simplex
from noiseaware.mechanisms.terms import term
from noiseaware.sampler.moves.proposals import DOF, JUMP, SPREAD, choose, jump, walk


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


def touched_by(blocks: list[np.ndarray], layout: np.ndarray, integers: np.ndarray) -> Touched:
    """Return what blocks of coordinates touch; `layout` as in `coordinates`, all of it simplexes.

    `integers` holds, for each cell, where its class and then where its level stands in theta.
    """
    rows = np.array(
        [
            (to + r * width, at + r * (width - 1), width)
            for _, to, at, count, width in layout.tolist()
            for r in range(count)
        ],
        dtype=np.int64,
    )
    of_class, of_level = integers.reshape(2, -1)
    row_lists, cell_lists = [], []
    for block in blocks:
        mine = [
            r
            for r, (_, at, width) in enumerate(rows)
            if ((at <= block) & (block < at + width - 1)).any()
        ]
        entries = np.concatenate([np.arange(rows[r, 0], rows[r, 0] + rows[r, 2]) for r in mine])
        row_lists.append(np.array(mine))
        cell_lists.append(np.flatnonzero(np.isin(of_class, entries) | np.isin(of_level, entries)))
    return Touched(rows, *_filled_up(row_lists), *_filled_up(cell_lists))


def _filled_up(lists: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return lists as the rows of one array, and their lengths."""
    lengths = np.array([len(one) for one in lists])
    array = np.zeros((len(lists), lengths.max()), dtype=np.int64)
    for row, one in zip(array, lists, strict=True):
        row[: len(one)] = one
    return array, lengths


@njit(cache=True, nogil=True)
def log_cell(integers, n, natural, offset, terms, cell):
    """Return a cell's part of log pi*."""
    d = offset.shape[0]
    total = n * natural[integers[cell]] * natural[integers[d + cell]] + offset[cell]
    return term(terms, cell, total)


@njit(cache=True, nogil=True)
def explore_cells(
    integers, fixed, touched, offset, terms, blocks, widths, factors, means, sizes, shares,
    block_shares, uniforms, normals, waits, natural_size, v, tried, taken,
):  # fmt: skip
    """Do all steps, in place in `v`; arguments and answer as those of `surrogate.explore`."""
    rows, block_rows, n_rows, block_cells, n_cells = touched
    n, weight = fixed[0], fixed[1] + 1.0
    d = offset.shape[0]
    natural, natural_there = np.empty(natural_size), np.empty(natural_size)
    sums, sums_there = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    parts, parts_there = np.empty(d), np.empty(d)
    proposed = np.empty_like(v)
    before = 0.0
    for r in range(rows.shape[0]):
        sums[r] = fill_simplex(v, rows[r, 1], natural, rows[r, 0], rows[r, 2])
        before += weight * sums[r]
    natural_there[:] = natural
    for cell in range(d):
        parts[cell] = log_cell(integers, n, natural, offset, terms, cell)
        before += parts[cell]
    now = before
    for k in range(uniforms.shape[0]):
        kind, block = choose(uniforms[k], shares, block_shares, JUMP + 1)
        width = widths[block]
        index = blocks[block, :width]
        factor = factors[kind, block, :width, :width]
        log_q = 0.0
        if kind == JUMP:
            radius = math.sqrt(0.5 * DOF / (waits[k, 0] + waits[k, 1]))
            mean = means[block, :width]
            log_q = jump(v, index, mean, factor, DOF, normals[k], radius, proposed)
        else:
            size = sizes[kind, block] * math.exp(SPREAD * normals[k, -1])
            walk(v, index, factor, size, normals[k], proposed)
        change = 0.0
        for i in range(n_rows[block]):
            r = block_rows[block, i]
            sums_there[r] = fill_simplex(
                proposed, rows[r, 1], natural_there, rows[r, 0], rows[r, 2]
            )
            change += weight * (sums_there[r] - sums[r])
        for i in range(n_cells[block]):
            cell = block_cells[block, i]
            parts_there[cell] = log_cell(integers, n, natural_there, offset, terms, cell)
            change += parts_there[cell] - parts[cell]
        log_ratio = change + log_q
        tried[kind, block] += 1.0
        if log_ratio > -700.0:
            taken[kind, block] += math.exp(min(0.0, log_ratio))
        accept = -waits[k, 2] < log_ratio < math.inf
        if accept:
            now += change
            v[:] = proposed
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
