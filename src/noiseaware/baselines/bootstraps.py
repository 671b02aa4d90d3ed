"""Two parametric bootstraps: frequentist confidence intervals that account for the noise.

**Ferrando, Wang and Sheldon** (AISTATS 2022). From a point estimate theta^ based on the noisy
statistics, simulate a database of n records, release it by the same mechanism, and estimate again.
The spread of the estimates over many simulations is that of the estimator around the truth, privacy
noise included. This spends no privacy budget: it uses only theta^ and public constants.

With q_a the a-quantile of the simulated estimates, two intervals are common: the percentile
interval (q_{a/2}, q_{1-a/2}), and the basic interval (2 theta^ - q_{1-a/2}, 2 theta^ - q_{a/2}),
which reflects the simulated errors. The basic interval also corrects for bias (of clamping, say),
but may leave the parameter space. Both have their nominal level only asymptotically.

**Wang, Chang and Awan** (2025). The bootstrap above starts from an estimate that ignores clamping,
which is biased, with its intervals, however many records there are. Indirect inference takes the
theta whose simulated releases look like the observed one. With R innovations u_r and noises drawn
once and held fixed, let s_r(theta) be the release of the database F(u_r; theta), m(theta) the mean
of the R releases and S(theta) their covariance. The adaptive indirect estimate is

    theta^ = argmin (s - m(theta))' S(theta)^-1 (s - m(theta)),

the theta at which the release is closest to its simulated mean, in units of its covariance.
Clamping and every other step of the mechanism affect both, so they do not bias the estimate; these
weights give the smallest variance among such estimates (theorem of the paper). The bootstrap then
simulates releases at theta^ and estimates again.

The minimum is found by Gauss-Newton steps in unconstrained coordinates v, with S held fixed during
a step. s_r(theta) may be a step function (counts), so derivatives are finite differences over a
width that is not small. The paper's hypothesis tests are not implemented.

Reference
---------
Wang, Z., Chang, A. and Awan, J. (2025). Optimal debiased inference on privatized data via indirect
    estimation and parametric bootstrap. arXiv 2507.10746.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from noiseaware.baselines.naive import find
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import (
    Floats,
    Model,
    Theta,
    draw_records,
    mechanism_abilities,
    model_abilities,
)
from noiseaware.maths.coordinates import Coordinates
from noiseaware.release import Release

WIDTH = 0.1
"""Half the width of the finite differences, in v: 2.5 per cent for a probability near 1/2."""

STEPS = 25
CLOSE = 1e-3
"""The largest number of steps; stop after a step below CLOSE standard errors of the estimate."""

STARTS = 30
"""Draws from the prior; the search for the first estimate starts at the best of them."""


@dataclass(frozen=True)
class Bootstrap:
    """The outcome of a parametric bootstrap.

    Attributes
    ----------
    estimate
        theta^, from the release.
    replicates
        For each parameter, the estimates from simulated releases, (draws, *shape).
    """

    estimate: Theta
    replicates: Theta

    def interval(
        self, name: str, level: float = 0.9, kind: Literal["basic", "percentile"] = "percentile"
    ) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of a confidence interval, each of the parameter's shape.

        Parameters
        ----------
        name
            The parameter.
        level
            The nominal coverage.
        kind
            `"percentile"` or `"basic"`; see `noiseaware.baselines.bootstraps`.
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
        The model of the records. Its prior is not used.
    release : Release
        The private numbers; they must be sufficient statistics of the model (see
        `noiseaware.baselines.naive`).
    draws : int
        The number of simulated releases.
    random_seed : int, optional
        The same seed gives the same outcome.

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
    again = []
    for _ in range(draws):
        records = draw_records(model, estimate, np.arange(release.known_n), rng)
        simulated: Any = find(model, privatize(records, rng))
        again.append(simulated.form.estimate)
    return Bootstrap(estimate, {name: np.array([one[name] for one in again]) for name in estimate})


def debiased_bootstrap(
    model: Model,
    release: Release,
    *,
    draws: int = 200,
    simulations: int = 50,
    random_seed: int | None = None,
) -> Bootstrap:
    """Run the parametric bootstrap around the adaptive indirect estimate of Wang et al. (2025).

    Parameters
    ----------
    model
        The model of the records; it must have `build_records`. Its prior only provides starting
        points for the search.
    release : Release
        The private numbers, at least as many as the model has parameters.
    draws : int
        The number of simulated releases.
    simulations : int
        R, the number of databases simulated for one estimate.
    random_seed : int, optional
        The same seed gives the same outcome.

    Returns
    -------
    Bootstrap
        The estimate, the simulated estimates, and intervals from them.

    Examples
    --------
    >>> import noiseaware as na
    >>> from noiseaware.baselines import debiased_bootstrap
    >>> mechanism = na.mechanisms.Laplace(na.queries.Sum(0.0, 1.0), epsilon=1.0)
    >>> release = na.Release([84.1], mechanism, n_records=100)
    >>> model = na.models.Normal(variance=1.0)
    >>> outcome = debiased_bootstrap(model, release, draws=50, random_seed=1)
    >>> bool(outcome.estimate["mean"] > 1.2)  # the mean of the clamped records is .84
    True
    """
    draws = whole_number("draws", draws)
    simulations = whole_number("simulations", simulations, 2 + len(release.values))
    rng = np.random.default_rng(random_seed)
    simulator = Simulator(model, release)
    found = Estimator(simulator, simulations, rng).find(release.values, None)
    theta = simulator.theta(found)
    made = []
    for _ in range(draws):
        seen = simulator.draw(theta, rng)
        made.append(simulator.theta(Estimator(simulator, simulations, rng).find(seen, found)))
    names = [p.name for p in simulator.able.parameters]
    return Bootstrap(theta, {name: np.stack([one[name] for one in made]) for name in names})


class Simulator:
    """Simulates from a model and the mechanism of a release."""

    def __init__(self, model: Model, release: Release) -> None:
        able = self.able = model_abilities(model)
        mechanism = mechanism_abilities(release.mechanism)
        if able.build_records is None or able.innovations is None or mechanism.privatize is None:
            raise ValueError(
                "the debiased bootstrap needs a model with build_records and a mechanism with "
                f"privatize; {able.name} with {mechanism.name} lacks one of them"
            )
        own = able.coordinates
        self.coordinates = Coordinates(able.parameters) if own is None else own
        if len(release.values) < self.coordinates.size:
            raise ValueError(
                "the debiased bootstrap needs at least as many released numbers as "
                f"{able.name} has parameters, {self.coordinates.size}; got {len(release.values)}"
            )
        self.model, self.release, self.privatize = model, release, mechanism.privatize
        self.n = release.known_n
        self.additive = mechanism.noisy_totals and mechanism.statistic is None

    def theta(self, v: Floats) -> Theta:
        """Return the parameters at v."""
        return self.coordinates.from_vector(v)[0]

    def innovations(self, count: int, rng: np.random.Generator) -> Floats:
        """Return the innovations of `count` databases, (count, n, width)."""
        kind: Any = self.able.innovations
        return kind.draw(count * self.n, rng).reshape(count, self.n, kind.width)

    def databases(self, theta: Theta, u: Floats) -> Any:
        """Return the databases (R, n, ...) of innovations u (R, n, width)."""
        build: Any = self.able.build_records
        index = self.able.index(np.tile(np.arange(self.n), len(u)))
        with np.errstate(all="ignore"):
            records = build(theta, u.reshape(len(u) * self.n, -1), **index)
        return records.reshape(len(u), self.n, *records.shape[1:])

    def draw(self, theta: Theta, rng: np.random.Generator) -> Floats:
        """Return one simulated release."""
        database = self.databases(theta, self.innovations(1, rng))[0]
        return self.privatize(database, rng).values

    def totals(self, databases: Any) -> Floats:
        """Return the total of each database, (R, d)."""
        rows = databases.reshape(-1, *databases.shape[2:])
        t = self.release.query.statistic(rows)
        return t.reshape(len(databases), self.n, -1).sum(axis=1)


class Estimator:
    """m(theta) and S(theta), with innovations and noise held fixed."""

    def __init__(self, simulator: Simulator, simulations: int, rng: np.random.Generator) -> None:
        self.simulator = simulator
        self.u = simulator.innovations(simulations, rng)
        self.seeds = rng.integers(2**63, size=simulations)
        self.noise: Floats | None = None

    def releases(self, v: Floats) -> Floats:
        """Return s_r(theta(v)), (R, d)."""
        simulator = self.simulator
        databases = simulator.databases(simulator.theta(v), self.u)
        if self.noise is not None:
            return simulator.totals(databases) + self.noise
        generators = map(np.random.default_rng, self.seeds)
        pairs = zip(databases, generators, strict=True)
        made = np.stack([simulator.privatize(x, rng).values for x, rng in pairs])
        if simulator.additive:  # noise that does not look at the records
            self.noise = made - simulator.totals(databases)
        return made

    def distance(self, v: Floats, seen: Floats) -> float:
        """Return (s - m)' S^-1 (s - m) at v, or infinity if a simulated release is not finite."""
        made = self.releases(v)
        if not np.isfinite(made).all():
            return np.inf
        off = seen - made.mean(axis=0)
        return float(off @ np.linalg.solve(_covariance(made), off))

    def find(self, seen: Floats, start: Floats | None) -> Floats:
        """Return the v that minimises the distance, (size,)."""
        v = self._begin(seen) if start is None else start
        now = self.distance(v, seen)
        for _ in range(STEPS):
            made = self.releases(v)
            slopes = np.stack(
                [
                    (self.releases(v + e) - self.releases(v - e)).mean(axis=0) / (2.0 * WIDTH)
                    for e in WIDTH * np.eye(len(v))
                ],
                axis=1,
            )
            weighted = np.linalg.solve(_covariance(made), slopes)
            information = slopes.T @ weighted
            information[np.diag_indices(len(v))] += 1e-9 * (1.0 + np.trace(information))
            step = np.linalg.solve(information, weighted.T @ (seen - made.mean(axis=0)))
            if not np.isfinite(step).all():
                break
            size = float(np.sqrt(step @ information @ step))
            for part in (1.0, 0.5, 0.25, 0.125, 0.0625):
                there = self.distance(v + part * step, seen)
                if there < now:
                    v, now = v + part * step, there
                    break
            else:
                break
            if size < CLOSE:
                break
        return v

    def _begin(self, seen: Floats) -> Floats:
        """Return the best of `STARTS` draws from the prior."""
        rng, simulator = np.random.default_rng(int(self.seeds[0])), self.simulator
        drawn = [simulator.model.sample_prior(rng) for _ in range(STARTS)]
        vectors = map(simulator.coordinates.to_vector, drawn)
        return min(vectors, key=lambda v: self.distance(v, seen))


def _covariance(releases: Floats) -> Floats:
    """Return S, with a slightly enlarged diagonal so that it is not singular."""
    covariance = np.atleast_2d(np.cov(releases, rowvar=False))
    diagonal = np.diag_indices(len(covariance))
    covariance[diagonal] = covariance[diagonal] * (1.0 + 1e-8) + 1e-12
    return covariance
