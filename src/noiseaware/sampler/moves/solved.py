"""Jump to where the release points, by solving a formula for theta.

With u held, p(theta | u, s_dp) is proportional to p(theta) g(s_dp, T(F(u; theta))). Where there are
as many totals as parameters, and T is close to a formula B(theta; u), the one without clamping,
that can be solved for theta (`models.surrogates`), the release itself says where theta is: draw a
total T' around s_dp, as wide as the noise, and take the theta' at which the formula gives it.
Nothing is taken as linear or as normal, so that this works on a posterior of any shape, as long as
the noise leaves a solution.

**The ratio.** Let c be where the release draws T to, b its noise's scale, and o = T(r) - B(r) how
far off the formula is at a fixed point r. The proposal

    T'_j = c_j - o_j + b_j e_j,  e_j standard Laplace,   v' the solution of B(v') = T'

does not depend on v, and has the density

    q(v') = prod_j exp(-|B_j(v') + o_j - c_j| / b_j) / (2 b_j)  *  |dB / dv|(v').

The ratio of `transport` needs log q(v) - log q(v'). Where no solution exists the proposal is
refused; there is none to come back from either.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from noiseaware.coordinates import constrain
from noiseaware.models.surrogates import approximate, log_volume, solve, work_size
from noiseaware.sampler.moves.surrogate import SurrogateJump
from noiseaware.sampler.moves.tuning import Shape


@njit(cache=True, nogil=True, error_model="numpy")
def solved_jump(
    code, integers, fixed, summary, layout, offset, centre, inverse_scales, noise, v, natural_size,
    proposed,
):  # fmt: skip
    """Fill `proposed` with the solution for the total that `noise` leads to.

    Returns log q(v) - log q(v'), or minus infinity, with v in `proposed`, if there is no solution.
    """
    natural = np.empty(natural_size)
    work = np.empty(work_size(code, integers))
    total = np.empty(offset.shape[0])
    constrain(layout, v, natural)
    fits = approximate(code, integers, fixed, summary, natural, work, total) > -math.inf
    log_ratio = 0.0
    for j in range(total.shape[0]):
        away = total[j] + offset[j] - centre[j]
        log_ratio += abs(noise[j]) - abs(away) * inverse_scales[j]
        total[j] = centre[j] - offset[j] + noise[j] / inverse_scales[j]
    if not (fits and solve(integers, fixed, summary, total, proposed, work)):
        proposed[:] = v
        return -math.inf
    return log_ratio + log_volume(integers, v) - log_volume(integers, proposed)


class SolvedJump:
    """A draw of all of theta from where the release points, with u held.

    Parameters
    ----------
    explorer
        The proposal that holds the formula, prepared for this u; its softened noise is used.
    """

    def __init__(self, explorer: SurrogateJump) -> None:
        self.explorer = explorer
        self.index = explorer.index

    @staticmethod
    def suits(explorer: SurrogateJump) -> bool:
        """Whether the formula can be solved, and the release points to one total."""
        low, high = explorer.centres
        return explorer.surrogate.solvable and bool((low == high).all())

    def take(self, shape: Shape) -> None:
        """Take nothing: the formula knows."""

    def note(self, log_ratio: float) -> None:
        """Nothing to note."""

    def tune(self, count: int) -> None:
        """Nothing to tune."""

    def prepare(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the random numbers of `steps` proposals."""
        return rng.laplace(size=(steps, len(self.explorer.centres[0])))

    def propose(self, v: np.ndarray, prepared: Any, k: int, proposed: np.ndarray) -> float:
        """Fill `proposed` with the k-th prepared proposal."""
        explorer = self.explorer
        code, integers, fixed = explorer.surrogate[:3]
        return solved_jump(
            code, integers, fixed, explorer.summary, explorer.layout, explorer.offset_unclamped,
            explorer.centres[0], explorer.terms[1][:, 1], prepared[k], v, explorer.natural_size,
            proposed,
        )  # fmt: skip
