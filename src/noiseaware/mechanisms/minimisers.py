"""Outputs near the minimiser of a summed loss: objective perturbation, and K-norm gradient.

**Objective perturbation.** The curator draws noise e and releases the minimiser of

    J(s) = sum_i loss(s; x_i) + ridge ||s||^2 / 2 + e's

(Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012). With a convex loss and
ridge > 0 there is exactly one minimiser s_dp, where the slope is zero:

    e = -(G + ridge s_dp),        G = sum_i gradient of loss(s_dp; x_i).

So s_dp determines e, smoothly, and the density of s_dp is the noise density at e times the
Jacobian of this map, the determinant of the Hessian of J:

    log g(s_dp, T) = log f_e(-(G + ridge s_dp)) + log det(H + ridge I),
    H = sum_i Hessian of loss(s_dp; x_i),       t_i = (gradient, Hessian) of record i at s_dp.

T is additive over records, and the posterior is wrong without the determinant.

*Noise.* f_e(e) proportional to exp(-||e|| / b), in the l2 norm in Chaudhuri et al.; or Gaussian.

*Guarantee, unless Gaussian.* Let changing a record move the summed gradient by at most Delta, and
let a record's Hessian have eigenvalues of at most c and rank at most r. The noise density changes
by a factor of at most exp(Delta / b). For the determinant, let A be the Hessian of J without the
record, h and h' the record's before and after: A has eigenvalues of at least ridge, h >= 0, and

    det(A + h') / det(A + h) <= det(A + h') / det(A) <= (1 + c / ridge)^r,

so epsilon = Delta / b + r log(1 + c / ridge). (Chaudhuri et al. have the square of 1 + c / ridge,
for r = 1.) In their notation ridge = n (Lambda + Delta_theirs) and b = 2 / epsilon', for features
in the unit ball.

*Gaussian noise* has an (epsilon, delta) guarantee under conditions on the loss and the order of the
proof's steps. No number is stated here, so the guarantee is "unknown"; the posterior needs none.

The release must be the exact minimiser. Neither early stopping nor minimisation over a bounded set,
whose minimum can lie on the edge, is covered.

**The K-norm gradient mechanism** (Reimherr and Awan 2019) draws s with density proportional to

    exp(-||G(s)||_K / b),        G(s) = sum_i gradient of loss(s; x_i) + ridge s,

an exponential mechanism whose utility is minus the norm of the gradient. The normaliser, an
integral over s, depends on the records and is part of g. It is known in two cases.

*Quadratic losses.* Then G(s) = H s - c with the summed Hessian H (ridge included), and with
e = H s - c,

    integral of exp(-||H s - c|| / b) ds = (integral of exp(-||e|| / b) de) / det H,

so log g(s_dp, T) = -||G(s_dp)|| / b + log det H, with t_i = (gradient, Hessian) of record i at
s_dp. A release is drawn as s = H^(-1) (c + e), with e from `joint.ball_noise`.

*A finite grid of outputs*, for any loss (such as the pinball loss for quantiles). The normaliser is
a sum over the grid, and t_i holds the gradients of record i at all grid points.

If one record moves G(s) by at most Delta at every s, numerator and normaliser each change by a
factor of at most exp(Delta / b): epsilon = 2 Delta / b. For quadratic losses the normaliser is
1 / det H. With a ridge it changes by a factor of at most (1 + c / ridge)^r, as above, and not at
all if the Hessian is the same for all records. The smaller bound is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import positive
from noiseaware.contract import Floats, Neighbours, loss_abilities
from noiseaware.mechanisms import joint, losses
from noiseaware.mechanisms.calibrate import check_one_way, known_sensitivity, utility_noise
from noiseaware.mechanisms.guarantee import check_neighbours, pure_or_unknown
from noiseaware.mechanisms.joint import JointDensity, JointMechanism
from noiseaware.registry import LOSSES, MECHANISMS


class LossMechanism(JointMechanism):
    """Base class of mechanisms that release an output near the minimiser of a summed loss."""

    loss: Any
    grid: Floats | None = None
    gaussian = False

    def __init__(self, loss: Any, norm: Any, ridge: float, neighbours: Neighbours) -> None:
        check_neighbours(neighbours)
        self.loss = self.query = loss
        self.norm, self.ridge, self.neighbours = joint.norm_of(norm), ridge, neighbours

    def _sensitivity(self) -> tuple[float | None, str]:
        """Return how far one record can move the summed gradient, or None with a reason."""
        if self.gaussian:
            return None, "no guarantee is stated for objective perturbation with Gaussian noise"
        if loss_abilities(self.loss).sensitivity is None:
            return None, f"{type(self.loss).__name__} has no sensitivity"
        return known_sensitivity(self.loss, self.norm, self.neighbours)

    def total_length(self, values: Floats) -> int:
        q = len(values)
        return q + q * (q + 1) // 2

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return the gradient and upper triangle of the Hessian at s_dp, (m, q + q(q+1)/2)."""
        return losses.derivatives(self.loss, records, values)

    def joint(self, values: ArrayLike) -> JointDensity:
        values = self.check_values(values)
        kind, ridge = joint.SQUARED if self.gaussian else joint.norm_code(self.norm), self.ridge
        return joint.density(
            joint.GRADIENT, kind, 1.0 / self.scale, len(values), ridge, ridge * values
        )

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return the constant of the noise; the change of variables adds none."""
        if self.grid is not None:
            return 0.0
        q = len(self.check_values(values))
        if self.gaussian:
            return -q * math.log(self.scale * math.sqrt(2.0 * math.pi))
        return joint.log_ball_constant(q, self.norm, self.scale)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T); ValueError if the Hessian is not positive definite."""
        result = super().log_density(values, total)
        if self.grid is None:
            check_definite(result, self.loss)
        return result

    def _written(self, name: str) -> Any:
        if name == "loss" and type(self.loss).__name__ not in LOSSES.names:
            raise ValueError(
                f"a mechanism with the loss {type(self.loss).__name__} cannot be written to a "
                "file: a file holds no functions"
            )
        return super()._written(name)


class ObjectivePerturbation(LossMechanism):
    """The minimiser of a summed convex loss plus a ridge and a random slope.

    Parameters
    ----------
    loss
        `LogisticLoss`, `LinearLoss`, or your own (see `noiseaware.mechanisms.losses`).
    ridge
        The positive weight of ||s||^2 / 2 beside the sum (not the mean) of the losses.
    epsilon
        Pure differential privacy to reach (not with Gaussian noise).
    scale
        Alternatively, the scale of the noise.
    norm
        1, 2 or inf: the density of the noise is proportional to exp(-||e|| / scale).
    gaussian
        True for Gaussian noise instead, with standard deviation `scale`.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> loss = losses.LogisticLoss(1, lower=-1.0, upper=1.0)
    >>> mechanism = ObjectivePerturbation(loss, ridge=2.0, epsilon=1.0)
    >>> print(mechanism.guarantee)
    pure differential privacy with epsilon = 1, when one record is changed
    """

    needed = ("scale", "ridge", "loss")
    optional_arguments = ("norm", "gaussian", "neighbours", "guarantee")
    example_arguments = {"loss": losses.LogisticLoss.example(), "ridge": 1.0, "epsilon": 1.0}

    def __init__(
        self,
        loss: Any,
        ridge: float,
        epsilon: float | None = None,
        scale: float | None = None,
        norm: float = 2,
        gaussian: bool = False,
        neighbours: Neighbours = "change",
    ) -> None:
        losses.check_loss(loss, hessian=True)
        super().__init__(loss, norm, positive("ridge", ridge), neighbours)
        self.gaussian = bool(gaussian)
        check_one_way("epsilon and scale", epsilon=epsilon, scale=scale)
        sensitivity, reason = self._sensitivity()
        spent = math.inf if sensitivity is None else determinant_epsilon(loss, ridge, neighbours)
        if sensitivity is not None and math.isinf(spent):
            sensitivity, reason = None, f"{type(loss).__name__} has no hessian_bound"
        if epsilon is not None:
            epsilon = positive("epsilon", epsilon)
            if sensitivity is None:
                raise ValueError(f"no scale follows from epsilon: {reason} (give scale instead)")
            if spent >= epsilon:
                raise ValueError(
                    f"ridge must be larger for epsilon = {epsilon:g}: with ridge = {ridge:g} the "
                    f"determinant alone takes {spent:.6g} of it"
                )
            self.scale = sensitivity / (epsilon - spent)
        else:
            self.scale = positive("scale", scale)
            epsilon = None if sensitivity is None else sensitivity / self.scale + spent
        self.guarantee = pure_or_unknown(epsilon, neighbours, reason)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        q = len(self.loss.names)
        if self.gaussian:
            noise = self.scale * rng.standard_normal(q)
        else:
            noise = joint.ball_noise(q, self.norm, self.scale, rng)[0]
        return self.minimise(records, noise)

    def minimise(self, records: NDArray[Any], noise: Floats) -> Floats:
        """Return the minimiser of J for this noise e (q,), by Newton's method.

        Halving each step until the gradient shrinks ensures convergence, as J is strictly convex.
        """
        q = len(noise)

        def slope_and_hessian(s):
            total = losses.derivatives(self.loss, records, s).sum(axis=0)
            return total[:q] + self.ridge * s + noise, symmetric(total[q:], q, self.ridge)

        s = np.zeros(q)
        slope, hessian = slope_and_hessian(s)
        tolerance = 1e-11 * (1.0 + float(np.abs(slope).max()))
        for _ in range(200):
            if np.abs(slope).max() <= tolerance:
                return s
            step = np.linalg.solve(hessian, slope)
            size = 1.0
            while True:
                tried = s - size * step
                new_slope, new_hessian = slope_and_hessian(tried)
                if np.linalg.norm(new_slope) < np.linalg.norm(slope) or size < 1e-10:
                    break
                size *= 0.5
            s, slope, hessian = tried, new_slope, new_hessian
        raise ValueError(
            f"no minimiser was found in 200 steps: is {type(self.loss).__name__} convex, and are "
            "its gradient and Hessian right?"
        )


def determinant_epsilon(loss: Any, ridge: float, neighbours: Neighbours) -> float:
    """Return how far one record can move log det(H + ridge I); infinity if unknown."""
    able = loss_abilities(loss)
    if neighbours == "change" and able.constant_hessian:
        return 0.0
    if ridge == 0.0 or able.hessian_bound is None:
        return math.inf
    largest, rank = able.hessian_bound()
    return rank * math.log1p(largest / ridge)


def symmetric(triangle: Floats, q: int, ridge: float) -> Floats:
    """Return the matrix (q, q) with this upper triangle, plus ridge times the identity."""
    return losses.from_triangle(triangle[np.newaxis], q)[0] + ridge * np.eye(q)


def check_definite(log_density: float, loss: Any) -> None:
    """Raise ValueError if the Hessian's determinant makes a log density minus infinity."""
    if not np.isfinite(log_density):
        raise ValueError(
            f"the Hessian of {type(loss).__name__}, summed over the records, is not positive "
            "definite at the released values: the loss is not convex there, or the records are "
            "too few for a ridge of 0"
        )


class KNormGradient(LossMechanism):
    """An output near the minimiser of a summed loss, by the norm of its gradient.

    Parameters
    ----------
    loss
        A quadratic loss (`LinearLoss`, `MeanLoss`, your own), or any loss with a grid.
    grid
        The possible outputs, (K,) or (K, q); None for a quadratic loss.
    norm
        1, 2 or inf.
    epsilon
        Pure differential privacy to reach (with a grid, or a constant Hessian).
    scale
        Alternatively, the scale: the density is proportional to exp(-||G(s)|| / scale).
    ridge
        The weight, at least 0, of ||s||^2 / 2 beside the summed loss.
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
    example_arguments = {"loss": losses.MeanLoss.example(), "epsilon": 1.0}

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
        return super().total_length(values) if self.grid is None else self.grid.size

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return the gradient and Hessian at s_dp, (m, q + q(q+1)/2), or gradients on the grid."""
        if self.grid is None:
            return super().statistic(records, index, values)
        at_once = loss_abilities(self.loss).gradients
        if at_once is not None:
            made = at_once(records, self.grid)
        else:
            made = np.stack([self.loss.gradient(records, s) for s in self.grid], axis=1)
        return np.ascontiguousarray(made, dtype=np.float64).reshape(len(records), -1)

    def joint(self, values: ArrayLike) -> JointDensity:
        if self.grid is None:
            return super().joint(values)
        position = np.flatnonzero((self.grid == self.check_values(values)).all(axis=1))[0]
        head = (position, 1.0 / self.scale, joint.norm_code(self.norm), self.grid.shape[1])
        return joint.density(joint.GRADIENT_GRID, *head, self.ridge * self.grid.ravel())

    def check_values(self, values: ArrayLike) -> Floats:
        array = super().check_values(values)
        if self.grid is not None and not (self.grid == array).all(axis=1).any():
            raise ValueError(
                f"values must be one of the {len(self.grid)} outputs of the grid, from "
                f"{self.grid[0].tolist()} to {self.grid[-1].tolist()}; got {array.tolist()}"
            )
        return array

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        q = len(self.loss.names)
        total = self.statistic(records, np.arange(len(records)), np.zeros(q)).sum(axis=0)
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


MECHANISMS.add(ObjectivePerturbation, KNormGradient)
