"""The prior of an unknown covariance matrix, as the models with normal vectors take it.

Sigma ~ InverseWishart(df, S)               density prop. to |Sigma|^(-(df+p+1)/2)
                                            exp(-tr(S Sigma^{-1})/2)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.models.arguments import covariance_matrix, positive_number
from noiseaware.models.conjugate import (
    draw_inverse_wishart,
    log_inverse_wishart,
    log_inverse_wishart_constant,
)
from noiseaware.parameters import Parameter


class InverseWishart:
    """InverseWishart(df, S) for the parameter ``name``.

    Parameters
    ----------
    name
        The parameter; the arguments of its model are called ``name``_df and ``name``_scale.
    size_name, size
        p, and what the model calls it.
    df
        Degrees of freedom; None: p + 3.
    scale
        S, ``(p, p)``; None: 2 I.
    """

    def __init__(
        self, name: str, size_name: str, size: int, df: float | None, scale: ArrayLike | None
    ) -> None:
        self._name, self._size = name, size
        self.df = size + 3.0 if df is None else positive_number(f"{name}_df", df)
        if self.df <= size - 1:
            raise ValueError(
                f"{name}_df must be above {size_name} - 1 = {size - 1}, or the prior is not "
                f"proper; got {df!r}"
            )
        self.scale = (
            2.0 * np.eye(size) if scale is None else covariance_matrix(f"{name}_scale", scale, size)
        )
        self.scale_factor = np.linalg.cholesky(self.scale)
        self._constant = log_inverse_wishart_constant(self.df, self.scale_factor)
        self.gamma_shapes = 0.5 * (self.df - np.arange(size))  # n records add n/2 to each
        self.n_normals = size * (size - 1) // 2

    def parameter(self, dim: str, labels: list[str]) -> Parameter:
        """Return the covariance as a parameter."""
        dims, coords = (dim, f"{dim}_bis"), {dim: labels, f"{dim}_bis": labels}
        return Parameter(self._name, (self._size, self._size), "covariance", dims, coords)

    def sample(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw Sigma."""
        covariance = np.empty((self._size, self._size))
        gammas = rng.standard_gamma(self.gamma_shapes)
        normals = rng.standard_normal(self.n_normals)
        draw_inverse_wishart(self.scale, gammas, normals, 0, covariance)
        return covariance

    def log_density(self, covariance: NDArray[np.float64]) -> float:
        """Return log p(Sigma), normalised, by the lower triangle."""
        return log_inverse_wishart(covariance, self.df, self.scale_factor, self._constant)

    def to_dict(self) -> dict[str, Any]:
        """Return the two arguments, ready for JSON; None for what is left at its default."""
        usual = np.array_equal(self.scale, 2.0 * np.eye(self._size))
        return {
            f"{self._name}_df": None if self.df == self._size + 3 else self.df,
            f"{self._name}_scale": None if usual else self.scale.tolist(),
        }
