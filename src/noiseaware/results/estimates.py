"""Posterior estimates of each record: a better number, with an interval, for every cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.results.posterior import need_posterior
from noiseaware.sampler.record_sums import PROBABILITIES

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["estimates"]


def estimates(
    posterior: DataTree, frame: Any = None, *, ci_prob: float = 0.9, top: int | None = None
) -> Any:
    """Return an estimate of the true number of each record.

    Means and standard deviations are accumulated along the chains from each record's exact
    conditional distribution, quantiles from a histogram of its draws
    (`noiseaware.sampler.record_sums` states the errors). An interval runs from the smallest to the
    largest whole number of its two quantiles.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned, of a model whose records are cells (`CountRegression`).
    frame : DataFrame of pandas or polars, optional
        The table of cells that the release was made from. It is returned, in its own order and
        library, with the columns `estimate_mean`, `estimate_sd`, ... added.
    ci_prob : float
        The probability of the interval: 0.5, 0.8, 0.9, 0.95, 0.98 or 0.99.
    top : int, optional
        Adds the column `top`, the probability that the record is among the `top` largest, from the
        imputed databases: `sample(..., keep_records=...)`.

    Returns
    -------
    pandas.DataFrame
        A row for each record: name, released, mean, sd, lower, upper, and noise_share, the share of
        the variance that would remain if theta were known.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.LocalGaussian(na.queries.Value(), scale=2.0)
    >>> release = na.Release([3.1, 8.4, 5.0], mechanism, n_records=3)
    >>> posterior = na.sample(
    ...     na.models.CountRegression(), release, draws=50, chains=2, random_seed=1,
    ...     progressbar=False,
    ... )
    >>> list(na.estimates(posterior).columns)
    ['name', 'released', 'mean', 'sd', 'lower', 'upper', 'noise_share']
    """
    import pandas

    need_posterior(posterior)
    if "record_estimates" not in posterior.children:
        raise ValueError(
            "the posterior has no estimates of records: they are made where records are cells, for "
            "example with models.CountRegression and a local mechanism of queries.Value()"
        )
    found = posterior["record_estimates"].to_dataset()
    tail = round(0.5 * (1.0 - ci_prob), 6)
    if tail not in PROBABILITIES or tail >= 0.5:
        known = [f"{1.0 - 2.0 * p:g}" for p in PROBABILITIES if p < 0.5]
        raise ValueError(f"ci_prob must be one of {', '.join(known)}; got {ci_prob}")
    quantiles = found["quantile"].values
    released = posterior["observed_data"].to_dataset()["release"]
    table = {
        "name": released["released"].values.astype(str),
        "released": released.values,
        "mean": found["mean"].values,
        "sd": found["sd"].values,
        "lower": quantiles[:, PROBABILITIES.index(tail)],
        "upper": quantiles[:, len(PROBABILITIES) - 1 - PROBABILITIES.index(tail)],
        "noise_share": found["noise_share"].values,
    }
    if top is not None:
        table["top"] = _among_the_largest(posterior, top)
    return pandas.DataFrame(table) if frame is None else _added(frame, table)


def _added(frame: Any, table: dict[str, Any]) -> Any:
    new = {f"estimate_{k}": v for k, v in table.items() if k not in ("name", "released")}
    n = len(table["mean"])
    if len(frame) != n:
        raise ValueError(f"frame must have {n} rows, one for each record; it has {len(frame)}")
    taken = [name for name in new if name in list(frame.columns)]
    if taken:
        raise ValueError(f"frame has a column {taken[0]!r} already; rename it first")
    if type(frame).__module__.startswith("polars"):
        return frame.hstack(type(frame)(new))
    return frame.assign(**new)


def _among_the_largest(posterior: DataTree, top: int) -> np.ndarray:
    """Return the share of the imputed databases in which each record is among the `top` largest.

    Records tied at the boundary share the remaining places.
    """
    if "latent_records" not in posterior.children:
        raise ValueError("top needs imputed databases; sample with keep_records=200 or so")
    values = posterior["latent_records"]["records"].transpose("chain", "draw", "record").values
    n = values.shape[2]
    if not 1 <= top <= n:
        raise ValueError(f"top must be from 1 to {n}; got {top}")
    flat = values.reshape(-1, n)
    border = np.partition(flat, n - top, axis=1)[:, n - top, np.newaxis]
    above, level = flat > border, flat == border
    left = top - above.sum(axis=1, keepdims=True)
    return (above + level * left / level.sum(axis=1, keepdims=True)).mean(axis=0)
