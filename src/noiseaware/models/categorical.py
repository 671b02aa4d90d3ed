"""Categories with unknown probabilities.

The model
---------
A record is an integer from 0 to J - 1.

    P(x_i = j) = p_j,      p ~ Dirichlet(a_0, ..., a_{J-1})

The conditional of the parameter
--------------------------------
With n_j records at level j the likelihood is prod_j p_j^{n_j}, so p | x ~ Dirichlet(a_j + n_j)_j:
`Categorical.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1) and x is the inverse CDF of p at u; given x, u is uniform in the interval of
the CDF that gives x (`noiseaware.models.inverse_cdf`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import read_integers, read_parameter
from noiseaware.models.discrete import NO_FEATURES, Discrete, concentrations
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS


class Categorical(Discrete):
    """Independent categories with unknown probabilities.

    Parameters
    ----------
    n_levels : int
        J, at least 2.
    concentration : float or array_like, shape (J,)
        The Dirichlet prior's a_j; one number for all levels or one for each.

    Notes
    -----
    Records are int64 of shape ``(n,)``, from 0. Parameter: ``probabilities`` (J,).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Categorical
    >>> model = Categorical(3)
    >>> theta = {"probabilities": np.array([0.2, 0.3, 0.5])}
    >>> model.build_records(theta, np.array([[0.1], [0.4], [0.9]]))
    array([0, 1, 2])
    """

    example: ClassVar[dict[str, Any]] = {"n_levels": 2}

    def __init__(self, n_levels: int, concentration: float | ArrayLike = 1.0) -> None:
        self.n_levels = whole_number("n_levels", n_levels, least=2)
        given = concentrations("concentration", concentration, (self.n_levels,))
        self.concentration: float | list[float] = given.tolist()
        levels = {"level": list(range(self.n_levels))}
        self.parameters = (
            Parameter("probabilities", (self.n_levels,), "simplex", ("level",), levels),
        )
        self._prepare(self.n_levels, (), np.full(self.n_levels, given), ["the level"])
        self.record_values = self._cells.reshape(-1)

    def _read(self, theta: Theta) -> tuple[Floats, Floats, NDArray[np.int64]]:
        p = read_parameter(theta, "probabilities", (self.n_levels,))
        return p.reshape(1, -1), NO_FEATURES, self._levels

    def _theta(self, classes: Floats, features: Floats) -> Theta:
        return {"probabilities": classes}

    def _read_records(self, records: ArrayLike) -> NDArray[np.int64]:
        return read_integers(records, None).reshape(-1, 1)

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[np.int64]:
        return super().build_records(theta, innovations).reshape(-1)

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the probabilities given exact counts, a Dirichlet, and their estimate."""
        if reading.kind != "counts" or len(reading.values) != self.n_levels:
            return None
        shapes = self._concentrations + reading.values
        return ClosedForm(
            {"probabilities": estimates.shares(reading.values)},
            lambda draws, rng: {"probabilities": rng.dirichlet(shapes, size=draws)},
        )


MODELS.add(Categorical)
