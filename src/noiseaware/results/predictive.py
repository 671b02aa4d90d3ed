"""Predictions from the posterior and the prior: new records and new releases.

For each posterior draw theta, a new database of n records from f(. | theta) goes through the
mechanism that made the release. If the model is right, the release looks like one of the results.
With theta from the prior, they show what was expected before the release was seen.

A noisy total is a single observation: given theta its numbers are dependent, because they describe
the same records, and p(s_dp | theta) is an integral over all databases. So there is no pointwise
log likelihood to store and no leave-one-out cross-validation; docs/beyond.md says what to use
instead. The exception is a release with a value for every record, whose possible values can be
summed over,

    p(s_dp | theta) = prod_i p(s_i | theta),    p(s_i | theta) = sum_x f(x | theta) h(s_i | x):

then `log_likelihood` is log p(s_i | theta), from the sums of `cells` and of `agreement.listed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware import sizes
from noiseaware.agreement.listed import listed_laws
from noiseaware.basics.arguments import check_memory, seed_number, whole_number
from noiseaware.basics.frames import columns_of
from noiseaware.contract import (
    Floats,
    Model,
    Size,
    Theta,
    draw_records,
    mechanism_abilities,
    model_abilities,
)
from noiseaware.maths.cells import sum_out
from noiseaware.release import Release
from noiseaware.results.posterior import need_posterior

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

__all__ = ["posterior_predictive", "predict"]


def posterior_predictive(
    posterior: DataTree,
    model: Model,
    *,
    release: Release | None = None,
    size: Size | None = None,
    draws: int = 250,
    records: int = 0,
    random_seed: int | None = None,
) -> DataTree:
    """Simulate new releases and new records from draws of the posterior and of the prior.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.
    model
        The model that was sampled; a posterior holds no code.
    release : Release, optional
        The release, if its mechanism is your own, which a posterior cannot hold.
    size : optional
        The prior for the number of records, if it is a function of your own.
    draws : int
        How many draws of each chain to use, evenly spaced.
    records : int
        How many new records to keep for each of these draws.
    random_seed : int, optional
        Same seed, same simulations.

    Returns
    -------
    xarray.DataTree
        The posterior with two more groups in ArviZ's schema, `posterior_predictive` and
        `prior_predictive`. They hold `release`, to compare with the `release` of `observed_data`,
        and `records` if some are kept. If the model has a log prior, also `log_prior` for every
        draw, including that of an unknown n. If every record has its own value and its distribution
        is a sum, also `log_likelihood` for every draw and value.

    Examples
    --------
    >>> import noiseaware as na
    >>> model = na.models.Bernoulli()
    >>> release = na.Release([9.0], na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0), 12)
    >>> posterior = na.sample(model, release, draws=100, random_seed=1, progressbar=False)
    >>> both = na.posterior_predictive(posterior, model, draws=50, records=3, random_seed=1)
    >>> both["posterior_predictive"]["release"].shape, both["prior_predictive"]["records"].shape
    ((4, 50, 1), (1, 50, 3))
    """
    need_posterior(posterior)
    release = _read_release(posterior) if release is None else release
    records, rng = (
        whole_number("records", records, 0),
        np.random.default_rng(seed_number(random_seed)),
    )
    simulator = Simulator(model, release, records, rng)
    check_parameters(posterior, model)
    draws, tree, drawn = whole_number("draws", draws), posterior.copy(), posterior["posterior"]
    for group in ("posterior", "prior"):
        if group in tree.children:
            made = simulator.simulate(posterior[group].to_dataset(), draws)
            tree[f"{group}_predictive"] = made
    log_prior = model_abilities(model).log_prior
    if release.n_records is None and size is None:
        stored = posterior.attrs.get("size_json", "")
        size = sizes.from_dict(json.loads(stored)) if stored else None
        log_prior = None if size is None else log_prior
    if log_prior is not None:
        tree["log_prior"] = simulator.score(drawn.to_dataset(), log_prior, size)
    seen = pointwise(model, release)
    if seen is not None:
        tree["log_likelihood"] = simulator.explain(drawn.to_dataset(), seen)
    return tree


def pointwise(model: Model, release: Release) -> Callable[[Theta], Floats] | None:
    """Return theta -> log p(s_i | theta), (n,); None if this is not a sum over one record."""
    able, mechanism = model_abilities(model), mechanism_abilities(release.mechanism)
    if mechanism.per_record != 1 or release.n_records is None:
        return None
    n = release.n_records
    constants = np.zeros(n)
    if mechanism.record_constants is not None:
        constants = mechanism.record_constants(release.values)
    laws = None if mechanism.record_laws is None else mechanism.record_laws(release.values)
    count_law, log_f = able.count_law, able.log_likelihood
    if count_law is not None and laws is not None:

        def log_seen(theta: Theta) -> Floats:
            code, rate, size = count_law(theta, n)
            return sum_out(code, rate, size, laws).log_p + constants

        return log_seen
    listed = listed_laws(model, release)
    if listed is None or log_f is None:
        return None
    return lambda theta: listed.log_seen(log_f(theta, listed.values)) + constants


def predict(
    posterior: DataTree, model: Model, features: Any, *, random_seed: int | None = None
) -> DataTree:
    """Predict the response of a regression for given features.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.
    model
        The regression that was sampled.
    features : array_like, shape (m, p), or a frame
        A row for each prediction. A frame's columns are matched by name if it has the model's
        names, otherwise by order.
    random_seed : int, optional
        Same seed, same draws of the response.

    Returns
    -------
    xarray.DataTree
        The posterior with two more groups in ArviZ's schema. `predictions` has, for every draw of
        theta, `expected`, the expected response, and `response`, a simulated one;
        `predictions_constant_data` has the features.

    Examples
    --------
    >>> import noiseaware as na
    >>> model = na.models.LogisticRegression(1)
    >>> mechanism = na.mechanisms.Laplace(na.queries.Moments(2, [-3, 0], [3, 1]), epsilon=5.0)
    >>> release = na.Release([10.0, 20.0, 12.0, 10.0, 40.3], mechanism, 40)
    >>> posterior = na.sample(model, release, draws=50, random_seed=1, progressbar=False)
    >>> made = na.predict(posterior, model, [[-1.0], [0.0], [1.0]], random_seed=1)
    >>> made["predictions"]["expected"].dims
    ('chain', 'draw', 'prediction')
    """
    from xarray import Dataset

    need_posterior(posterior)
    able = model_abilities(model)
    respond = able.predict_response
    if respond is None:
        raise ValueError(f"predict needs a regression, with predict_response; got {able.name}")
    names = list(able.column_names or ())[:-1]
    rows = _features(features, names)
    rng = np.random.default_rng(seed_number(random_seed))
    drawn = posterior["posterior"].to_dataset()
    check_parameters(posterior, model)
    with np.errstate(all="ignore"):
        made = [respond(theta, rows, rng) for theta in thetas(drawn, model)]
    tree, labels = posterior.copy(), {"prediction": np.arange(len(rows))}
    both = zip(("expected", "response"), zip(*made, strict=True), strict=True)
    content = {name: (("prediction",), values) for name, values in both}
    tree["predictions"] = by_draw(drawn, content, labels)
    held = {"features": (("prediction", "feature"), rows)}
    tree["predictions_constant_data"] = Dataset(held, coords={**labels, "feature": names})
    return tree


def _features(given: Any, names: list[str]) -> np.ndarray:
    if isinstance(given, np.ndarray | list | tuple):
        rows = np.asarray(given, dtype=np.float64)
    else:
        columns = columns_of("features", given, "x{}")
        if set(names) <= set(columns):
            columns = {name: columns[name] for name in names}
        rows = np.column_stack([np.asarray(x, dtype=np.float64) for x in columns.values()])
    if rows.ndim != 2 or rows.shape[1] != len(names) or not np.isfinite(rows).all():
        raise ValueError(
            f"features must be rows of {len(names)} finite numbers ({', '.join(names)}); got an "
            f"array of shape {rows.shape}"
        )
    return rows


def _read_release(posterior: DataTree) -> Release:
    stored = posterior.attrs.get("release_json", "")
    if not stored:
        raise ValueError(
            "release must be given: the posterior does not hold it, because its mechanism or query "
            "cannot be written to a file"
        )
    return Release.from_dict(json.loads(stored))


class Simulator:
    """Simulates databases and releases for draws of theta."""

    def __init__(
        self, model: Model, release: Release, records: int, rng: np.random.Generator
    ) -> None:
        self.model, self.release, self.records, self.rng = model, release, records, rng
        self.privatize = mechanism_abilities(release.mechanism).privatize

    def simulate(self, drawn: Dataset, draws: int) -> Dataset:
        """Return simulated releases and records for evenly spaced draws of theta."""
        picked = np.linspace(0, drawn.sizes["draw"], min(draws, drawn.sizes["draw"]) + 1)
        used = drawn.isel(draw=picked[1:].round().astype(int) - 1)
        releases, databases = [], []
        with np.errstate(all="ignore"):
            for theta, n in self._thetas(used):
                records = draw_records(self.model, theta, np.arange(max(n, self.records)), self.rng)
                databases.append(records[: self.records])
                if self.privatize is not None:
                    releases.append(self.privatize(records[:n], self.rng).values)
        content: dict[str, Any] = {}
        if releases:
            content["release"] = (("released",), releases)
        if self.records:
            content["records"] = (("record", "column"), databases)
        return by_draw(used, content, {"released": list(self.release.names)} if releases else {})

    def score(
        self, drawn: Dataset, log_prior: Callable[[Any], float], size: Size | None
    ) -> Dataset:
        """Return the log prior density of every draw, including that of n if `size` is given."""
        values = [
            float(log_prior(theta)) + (0.0 if size is None else size.log_pmf(n))
            for theta, n in self._thetas(drawn)
        ]
        return by_draw(drawn, {"prior": ((), values)}, {})

    def explain(self, drawn: Dataset, seen: Callable[[Theta], Floats]) -> Dataset:
        """Return log p(s_i | theta) for every draw and value."""
        count = drawn.sizes["chain"] * drawn.sizes["draw"] * len(self.release.values)
        check_memory("the log likelihood of every draw and value", 8 * count)
        values = [seen(theta) for theta, _ in self._thetas(drawn)]
        names = {"released": list(self.release.names)}
        return by_draw(drawn, {"release": (("released",), values)}, names)

    def _thetas(self, drawn: Dataset) -> list[tuple[Theta, int]]:
        """Return theta and the number of records for each draw, chain after chain."""
        chains, draws = drawn.sizes["chain"], drawn.sizes["draw"]
        numbers = np.full((chains, draws), self.release.n_records or 0)
        if self.release.n_records is None:
            numbers = drawn["n_records"].transpose("chain", "draw").values.astype(int)
        return list(zip(thetas(drawn, self.model), numbers.ravel().tolist(), strict=True))


def by_draw(drawn: Dataset, content: dict[str, Any], labels: dict[str, Any]) -> Dataset:
    """Return quantities made from draws, chain after chain: (further axes, one array each)."""
    from xarray import Dataset

    own = {name: drawn[name].values for name in ("chain", "draw")}
    made = {}
    for name, (axes, values) in content.items():
        shape = (*map(len, own.values()), *np.shape(values)[1:])
        made[name] = ((*own, *axes)[: len(shape)], np.reshape(values, shape))
    return Dataset(made, coords={**own, **labels})


def check_parameters(posterior: DataTree, model: Model) -> None:
    """Raise ValueError unless the posterior has the parameters of the model."""
    missing = [p.name for p in model.parameters if p.name not in posterior["posterior"]]
    if missing:
        raise ValueError(
            f"model must be the one that was sampled; the posterior has no {missing[0]!r}, a "
            f"parameter of {type(model).__name__}"
        )


def thetas(drawn: Dataset, model: Model) -> list[Theta]:
    """Return theta for each draw, chain after chain."""
    arrays = {
        p.name: drawn[p.name].transpose("chain", "draw", ...).values.astype(np.float64)
        for p in model.parameters
    }
    return [
        {name: array[c, d] for name, array in arrays.items()}
        for c in range(drawn.sizes["chain"])
        for d in range(drawn.sizes["draw"])
    ]
