"""The row of innovations that transport holds.

Where n is known they are the u of the database. Where it is not, think of an endless row u_1, u_2,
..., of which the database uses the first n. With all of them held, n is one more parameter of the
map from theta to the database, and the ratio of `transport` holds with p(n) in it. The innovations
behind the n-th are independent of everything seen. They are drawn when a proposal first needs them,
and those not used at the end are forgotten.

**Innovations that lean.** With u held, a known total that grows with n, as of features whose law is
known, pins down n. Yet a few per cent more records would do as well if all were a little smaller.
And the records that come or go add a random amount to the total. So with normal innovations, where
n goes to n', the mean of those in the database goes from m to m + c log(n' / n), whatever the next
ones are. The vector c is a constant, learned in warm-up as the regression of the mean of u on log
n. With N the largest of n, n' and a constant, the span, the first N of the row become u_i + d,

    d = m + c log(n' / n) - (mean of the first n').

On the way back d has the opposite sign. The map of the row is the identity plus a matrix of rank
one, 1 a' with a = 1/n for the first n, less 1/n' for the first n'; a sums to 0, so the determinant
is 1. All of the row is standard normal, also behind n, so the ratio gains the factor

    prod_{i <= N} phi(u_i + d) / phi(u_i)  =  exp(-d' sum_{i <= N} u_i - N |d|^2 / 2).

`carry` returns d and the logarithm of the factor.

**Within the span** the path does not matter. As long as all n are at most N, the first N of the row
move together, and the mean of the database is a + c log n with an a that never changes: the
database of each n is the same from wherever it is built. `formula` relies on this.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from noiseaware.parameters import Innovations

NO_LEAN = np.zeros(0)
"""c, where innovations do not lean."""

MORE = 8
"""A row that is too short grows by at least an eighth, so that it is rarely copied."""


class Row:
    """The row of innovations u, of which the database uses the first n.

    `lean` and `span` are c and the span of the module docstring; `n_new` and `log_factor` are the
    size of the last proposal and the log of its factor.
    """

    def __init__(
        self,
        u: np.ndarray,
        innovations: Innovations,
        rng: np.random.Generator,
        lean: np.ndarray = NO_LEAN,
        span: int = 0,
    ) -> None:
        self.u, self.innovations, self.rng = u, innovations, rng
        self.lean, self.span = lean, span
        self.n = self.n_new = len(u)
        self.shift, self.log_factor = NO_LEAN, 0.0

    def own(self) -> np.ndarray:
        """Return the u of the database."""
        return self.u[: self.n]

    def draw(self, n: int) -> None:
        """Ensure that there are at least n."""
        if (lack := n - len(self.u)) > 0:
            more = self.innovations.draw(max(lack, len(self.u) // MORE), self.rng)
            self.u = np.concatenate([self.u, more])

    def first(self, n: int) -> np.ndarray:
        """Return the u of a database of n records, the next proposal."""
        self.n_new, self.shift, self.log_factor = n, NO_LEAN, 0.0
        if n == self.n or not len(self.lean):
            self.draw(n)
            return self.u[:n]
        larger = max(n, self.n, self.span)
        self.draw(larger)
        self.shift, self.log_factor = carry(self.u, self.n, n, larger, self.lean)
        return shifted(self.u[:n], n, self.shift)

    def accept(self) -> None:
        """Go to the last proposal."""
        if len(self.shift):
            self.u = shifted(self.u, max(self.n, self.n_new, self.span), self.shift)
        self.n, self.shift = self.n_new, NO_LEAN


@njit(cache=True, nogil=True)
def carry(row, n, n_new, larger, lean):
    """Return d, (width,), and the log of its factor, when n goes to n_new and `larger` is N."""
    d, log_factor = np.empty_like(lean), 0.0
    for j in range(lean.shape[0]):
        here, there, whole = 0.0, 0.0, 0.0
        for i in range(larger):
            whole += row[i, j]
            if i == n - 1:
                here = whole
            if i == n_new - 1:
                there = whole
        d[j] = here / n + lean[j] * math.log(n_new / n) - there / n_new
        log_factor -= d[j] * whole + 0.5 * larger * d[j] * d[j]
    return d, log_factor


@njit(cache=True, nogil=True)
def shifted(row, m, d):
    """Return the row, (n, width), with d added to the first m."""
    moved = np.empty_like(row)
    for i in range(row.shape[0]):
        for j in range(row.shape[1]):
            moved[i, j] = row[i, j] + d[j] if i < m else row[i, j]
    return moved
