"""The K-norm gradient mechanism (Reimherr and Awan 2019).

An output s is the better, the smaller the gradient of a summed convex loss is there. The mechanism
draws s with density proportional to

    exp(-||G(s)||_K / b),        G(s) = sum_i gradient of loss(s; x_i) + ridge s,

an exponential mechanism whose utility is minus the norm of a gradient. The normaliser is an
integral over s that depends on the records, so it is part of g. It is known in two cases.

*Quadratic losses.* Then G(s) = H s - c with the summed Hessian H (ridge included), and with
e = H s - c,

    integral of exp(-||H s - c|| / b) ds = (integral of exp(-||e|| / b) de) / det H,

so that log g(s_dp, T) = -||G(s_dp)|| / b + log det H, with t_i = (gradient, Hessian) of record i at
s_dp. A release is drawn by s = H^(-1) (c + e), with e from `joint.ball_noise`.

*A finite grid of outputs*, for any loss (quantiles: the pinball loss). Then the normaliser is a sum
over the grid, and t_i has the gradients of record i at all its points.

If one record moves G(s) by at most Delta, at any s, then numerator and normaliser each move by at
most exp(Delta / b): epsilon = 2 Delta / b. For quadratic losses the normaliser is 1 / det H, which
with a ridge moves by at most (1 + c / ridge)^r for Hessians with eigenvalues of at most c and rank
at most r (`ObjectivePerturbation` has the proof), and not at all if the Hessian is the same for
all records; the smaller bound is used.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import positive
from noiseaware.contract import Floats, Neighbours, loss_abilities
from noiseaware.mechanisms import joint, losses
from noiseaware.mechanisms.calibrate import utility_noise
from noiseaware.mechanisms.joint import JointDensity
from noiseaware.mechanisms.objective_perturbation import (
    LossMechanism,
    check_definite,
    determinant_epsilon,
    symmetric,
)
from noiseaware.registry import MECHANISMS


class KNormGradient(LossMechanism):
    """An output near the minimiser of a summed loss, by the norm of its gradient.

    Parameters
    ----------
    loss
        What is minimised; quadratic (`LinearLoss`, `MeanLoss`, your own), or any with a grid.
    grid
        The possible outputs, (K,) or (K, q); None for a quadratic loss.
    norm
        1, 2 or inf.
    epsilon
        The pure differential privacy to reach (with a grid, or a constant Hessian).
    scale
        Or the scale itself: the density is proportional to exp(-||G(s)|| / scale).
    ridge
        The weight of ridge ||s||^2 / 2 beside the summed loss, at least 0.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> import numpy as np
    >>> grid = np.linspace(0.0, 10.0, 21)
    >>> median = KNormGradient(losses.QuantileLoss(0.5), grid=grid, epsilon=1.0)
    >>> print(median.guarantee)
    pure differential privacy with epsilon = 1, when one record is changed
    """

    needed = ("scale", "norm", "loss")
    optional_arguments = ("ridge", "grid", "neighbours", "guarantee")
    example_arguments: ClassVar[dict[str, Any]] = {
        "loss": losses.MeanLoss.example(),
        "epsilon": 1.0,
    }

    def __init__(
        self,
        loss: Any,
        grid: ArrayLike | None = None,
        norm: float = 2,
        epsilon: float | None = None,
        scale: float | None = None,
        ridge: float = 0.0,
        neighbours: Neighbours = "change",
    ) -> None:
        losses.check_loss(loss)
        zero = type(ridge) in (int, float) and ridge == 0
        super().__init__(loss, norm, 0.0 if zero else positive("ridge", ridge), neighbours)
        self.grid = None if grid is None else _check_grid(grid, len(loss.names))
        if grid is None and not loss_abilities(loss).quadratic:
            raise ValueError(
                f"{type(loss).__name__} is not quadratic, so the normaliser is not known: "
                "give grid, a finite set of outputs"
            )
        normaliser = math.inf
        if grid is None:
            normaliser = determinant_epsilon(loss, self.ridge, neighbours)
        self.scale, self.guarantee = utility_noise(
            *self._sensitivity(),
            neighbours,
            epsilon=epsilon,
            scale=scale,
            normaliser=normaliser,
            whose="the loss's",
        )

    def total_length(self, values: Floats) -> int:
        """Return the length of T."""
        return super().total_length(values) if self.grid is None else self.grid.size

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return gradient and Hessian at s_dp, (m, q + q(q+1)/2), or the gradients on the grid."""
        if self.grid is None:
            return super().statistic(records, index, values)
        gradients = loss_abilities(self.loss).gradients
        if gradients is not None:
            made = gradients(records, self.grid)
        else:
            made = np.stack([self.loss.gradient(records, s) for s in self.grid], axis=1)
        return np.ascontiguousarray(made, dtype=np.float64).reshape(len(records), -1)

    def joint(self, values: ArrayLike) -> JointDensity:
        """Return the log density of this output, for compiled code."""
        if self.grid is None:
            return super().joint(values)
        position = np.flatnonzero((self.grid == self.check_values(values)).all(axis=1))[0]
        head = (position, 1.0 / self.scale, joint.norm_code(self.norm), self.grid.shape[1])
        return joint.density(joint.GRADIENT_GRID, *head, self.ridge * self.grid.ravel())

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the output as float64 (q,); ValueError if it is not on the grid."""
        array = super().check_values(values)
        if self.grid is not None and not (self.grid == array).all(axis=1).any():
            raise ValueError(
                f"values must be one of the {len(self.grid)} outputs of the grid, from "
                f"{self.grid[0].tolist()} to {self.grid[-1].tolist()}; got {array.tolist()}"
            )
        return array

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        q = len(self.loss.names)
        zero = np.zeros(q)
        total = self.statistic(records, np.arange(len(records)), zero).sum(axis=0)
        if self.grid is None:
            noise = joint.ball_noise(q, self.norm, self.scale, rng)[0]
            hessian = symmetric(total[q:], q, self.ridge)
            check_definite(np.linalg.slogdet(hessian)[1], self.loss)
            return np.linalg.solve(hessian, noise - total[:q])
        gradients = total.reshape(self.grid.shape) + self.ridge * self.grid
        utilities = -np.linalg.norm(gradients, ord=self.norm, axis=1) / self.scale
        return self.grid[int(np.argmax(utilities + rng.gumbel(size=len(utilities))))]


def _check_grid(grid: ArrayLike, q: int) -> Floats:
    array = np.array(grid, dtype=np.float64)
    if array.ndim == 1 and q == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != q or not np.isfinite(array).all():
        raise ValueError(f"grid must be finite numbers of shape (K, {q}); got {array.shape}")
    if len(array) < 2 or len(np.unique(array, axis=0)) < len(array):
        raise ValueError("grid must have at least two outputs, all different")
    return array


MECHANISMS.add(KNormGradient)
