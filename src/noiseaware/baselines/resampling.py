"""The parametric bootstrap of Ferrando, Wang and Sheldon (AISTATS 2022).

Not Bayesian, and not what `noiseaware.sample` does: an estimate and confidence intervals that know
the noise. From a point estimate theta^ made from the noisy statistics, simulate a database of n
records, release it by the same mechanism, and make the estimate again; the spread of the estimates
over many simulations is the spread of the estimator around the truth, privacy noise included. It
spends no privacy budget, because only theta^ and public constants are used.

Two intervals are usual, with q_a the quantile of the simulated estimates: the percentile interval
(q_{a/2}, q_{1-a/2}), and the basic one, (2 theta^ - q_{1-a/2}, 2 theta^ - q_{a/2}), which turns the
simulated errors around. The basic one also moves against a bias (of clamping, say), and may leave
the parameter space. Both have their level only in the limit of many records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from noiseaware.baselines.closed_forms import find
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Model, Theta, draw_records, mechanism_abilities
from noiseaware.release import Release


@dataclass(frozen=True)
class Bootstrap:
    """The outcome of a parametric bootstrap.

    Attributes
    ----------
    estimate
        theta^, from the release.
    replicates
        For each parameter the estimates from simulated releases, (draws, *shape).
    """

    estimate: Theta
    replicates: Theta

    def interval(
        self, name: str, level: float = 0.9, kind: Literal["basic", "percentile"] = "percentile"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper ends of a confidence interval, each of the parameter's shape.

        Parameters
        ----------
        name
            The parameter.
        level
            The nominal coverage.
        kind
            `"percentile"` or `"basic"`; see `noiseaware.baselines.resampling`.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {level!r}")
        if kind not in ("basic", "percentile"):
            raise ValueError(f'kind must be "basic" or "percentile"; got {kind!r}')
        if name not in self.replicates:
            raise ValueError(f"name must be one of {', '.join(self.replicates)}; got {name!r}")
        tail = 0.5 * (1.0 - level)
        low, high = np.quantile(self.replicates[name], [tail, 1.0 - tail], axis=0)
        if kind == "percentile":
            return low, high
        centre = self.estimate[name]
        return 2.0 * centre - high, 2.0 * centre - low


def bootstrap(
    model: Model, release: Release, *, draws: int = 1000, random_seed: int | None = None
) -> Bootstrap:
    """Run the parametric bootstrap of Ferrando, Wang and Sheldon (2022).

    Parameters
    ----------
    model
        What made the records. Its prior is not used.
    release : Release
        The private numbers; they must be sufficient statistics of the model (see
        `noiseaware.baselines.closed_forms`), because the estimate is made from them.
    draws : int
        Simulated releases.
    random_seed : int, optional
        Same seed, same outcome.

    Returns
    -------
    Bootstrap
        The estimate, the simulated estimates, and intervals from them.

    Examples
    --------
    >>> import noiseaware as na
    >>> from noiseaware.baselines import bootstrap
    >>> mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    >>> release = na.Release([20.4], mechanism, n_records=50)
    >>> outcome = bootstrap(na.models.Bernoulli(), release, draws=200, random_seed=1)
    >>> round(float(outcome.estimate["probability"]), 3)
    0.408
    """
    draws = whole_number("draws", draws)
    privatize = mechanism_abilities(release.mechanism).privatize
    found = find(model, release)
    if found is None or privatize is None:
        raise ValueError(
            f"the parametric bootstrap needs an estimate of {type(model).__name__} from "
            f"{type(release.query).__name__}, and there is none: the released numbers are not "
            "sufficient statistics of the model"
        )
    rng = np.random.default_rng(random_seed)
    estimate = found.form.estimate
    again: dict[str, list[Any]] = {name: [] for name in estimate}
    for _ in range(draws):
        records = draw_records(model, estimate, np.arange(release.known_n), rng)
        simulated = find(model, privatize(records, rng))
        assert simulated is not None
        for name, value in simulated.form.estimate.items():
            again[name].append(value)
    return Bootstrap(estimate, {name: np.array(values) for name, values in again.items()})
