"""What a report needs besides the draws: the model, the release, the naive draws, the parts.

Where the uncertainty comes from
--------------------------------
By the law of total variance, with x the confidential database given the release,

    Var(theta | s_dp) = E[Var(theta | x, s_dp) | s_dp] + Var(E[theta | x, s_dp] | s_dp),

and p(theta | x, s_dp) = p(theta | x), because the release depends on theta through x only. The
first term, W, is the variance that an analyst of the confidential records would be left with, on
average over the databases that the release leaves possible: the part of *sampling*, of having n
records and not the whole world. The second, V - W, is there because the database is not known: the
part of the *privacy noise* (and of clamping and summarising, which hide records as well).

W is estimated from the kept databases. A kept pair (theta_0, x) is a draw from p(theta, x | s_dp),
so theta_0 is a draw from p(theta | x), and a chain theta_0, theta_1, ... made by the model's kernel
`update_parameters` at this x has every theta_m distributed as p(theta | x). For two of them,

    E[(theta_l - theta_m)^2 / 2 | x] = Var(theta | x) (1 - rho),

with rho their correlation given x. So W is half the mean squared difference between steps half a
chain apart, over the kept databases: exact for kernels that draw theta independently, and with a
rho that is near zero for those that mix within half a chain. A quarter of a chain apart must give
nearly the same; where it clearly does not (`slow`), W is too small and the noise's share too large.

V is the variance of all draws, known much better than a variance over the few kept databases; so
the part of the noise is V - W, and not estimated by itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.posterior import need_posterior, with_derived
from noiseaware.scalars import all_scalars

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["Parts", "model_of", "naive_draws", "naive_note", "release_of", "variance_parts"]

STEPS = 100
"""Steps of the kernel at each database."""

DATABASES = 100
"""Databases that are used, at most."""

SLOW, CLEARLY = 0.9, 4.0
"""The kernel mixes slowly where a quarter of a chain gives less than this share of W, and the
difference is more than so many standard errors."""


@dataclass(frozen=True)
class Parts:
    """Where the variance of one entry comes from.

    Attributes
    ----------
    total
        Var(theta | s_dp).
    sampling
        E[Var(theta | x)]: what exact records would leave.
    noise
        Var(E[theta | x]): what the privacy noise adds.
    prior
        Variance of the prior's draws; NaN if the posterior holds none.
    slow
        Whether the model's kernel mixes too slowly for the two parts to be trusted.
    """

    total: float
    sampling: float
    noise: float
    prior: float
    slow: bool

    @property
    def share(self) -> float:
        """The part of the noise in the variance, between 0 and 1."""
        return self.noise / self.total if self.total > 0 else 0.0


def variance_parts(
    posterior: DataTree, model: Any = None, *, random_seed: int = 0
) -> dict[str, Parts]:
    """Split the posterior variance of every entry into sampling and privacy noise.

    Parameters
    ----------
    posterior : DataTree
        With databases: `sample(..., keep_records=25)`.
    model : optional
        The model, if it is a class of your own, which the posterior cannot hold.
    random_seed : int
        Seed of the kernel's steps.

    Returns
    -------
    dict
        From the labels of the summary to `Parts`.

    Raises
    ------
    ValueError
        If no databases were kept, or the model is not known or has no `update_parameters`.
    """
    need_posterior(posterior)
    if "latent_records" not in posterior.children:
        raise ValueError(
            "no imputed databases were kept: sample(..., keep_records=25) keeps 25 from each chain"
        )
    model = model_of(posterior, model)
    if not hasattr(model, "update_parameters"):
        raise ValueError(
            f"{type(model).__name__} has no update_parameters: without a kernel for p(theta | x) "
            "there is no analysis of a known database to compare with"
        )
    far, near = _mean_squares(posterior, model, np.random.default_rng(random_seed))
    parts = {}
    for entry in all_scalars(posterior):
        total = float(entry.draws.var())
        apart, closer = entry.of(far), entry.of(near)
        assert apart is not None
        assert closer is not None
        sampling = min(float(apart.mean()), total)
        parts[entry.label] = Parts(
            total=total,
            sampling=sampling,
            noise=total - sampling,
            prior=np.nan if entry.prior is None else float(entry.prior.var()),
            slow=_slow(apart, closer),
        )
    return parts


def _mean_squares(
    posterior: DataTree, model: Any, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return half the mean squared differences, half a chain and a quarter of a chain apart.

    For each parameter (databases, *shape).
    """
    draws = posterior["posterior"].to_dataset().transpose("chain", "draw", ...)
    kept = posterior["latent_records"]["records"].transpose("chain", "draw", "record", ...)
    labels = kept["draw"].values
    pairs = [(c, k) for k in range(kept.sizes["draw"]) for c in range(kept.sizes["chain"])]
    chosen = np.unique(np.linspace(0, len(pairs) - 1, min(DATABASES, len(pairs))).astype(int))
    gaps = (STEPS // 2, STEPS // 4)
    found: list[dict[str, list[np.ndarray]]] = [{str(n): [] for n in draws.data_vars} for _ in gaps]
    for chain, k in (pairs[i] for i in chosen):
        records = np.ascontiguousarray(kept.values[chain, k])
        at = draws.isel(chain=chain).sel(draw=labels[k])
        theta = {p.name: np.array(at[p.name].values, dtype=np.float64) for p in model.parameters}
        path = {name: np.empty((STEPS + 1, *value.shape)) for name, value in theta.items()}
        for step in range(STEPS + 1):
            for name, value in theta.items():
                path[name][step] = value
            if step < STEPS:
                theta = model.update_parameters(theta, records, rng)
        path = with_derived(model, path)
        for gap, squares in zip(gaps, found, strict=True):
            for name, values in path.items():
                squares[name].append(0.5 * np.mean((values[gap:] - values[:-gap]) ** 2, axis=0))
    far, near = ({n: np.array(v) for n, v in squares.items()} for squares in found)
    return far, near


def _slow(far: np.ndarray, near: np.ndarray) -> bool:
    """Whether steps further apart differ clearly more, over the databases, (databases,)."""
    if not near.mean() < SLOW * far.mean():
        return False
    error = np.std(far - near) / np.sqrt(len(far))
    return bool(far.mean() - near.mean() > CLEARLY * error)


def model_of(posterior: DataTree, model: Any = None) -> Any:
    """Return the model given, or the one that the posterior says it is of."""
    from noiseaware import models

    if model is not None:
        return model
    described = posterior.attrs.get("model_json", "")
    if not described:
        raise ValueError(
            f"the model, {posterior.attrs.get('model', 'unknown')}, is a class of your own, which "
            "a posterior cannot hold: pass it as model="
        )
    return models.from_dict(json.loads(described))


def release_of(posterior: DataTree, release: Any = None) -> Any:
    """Return the release given, or the one that the posterior holds."""
    from noiseaware.release import Release

    if release is not None:
        return release
    described = posterior.attrs.get("release_json", "")
    if not described:
        raise ValueError(
            "the release is by a query or a mechanism of your own, which a posterior cannot hold: "
            "pass it as release="
        )
    return Release.from_dict(json.loads(described))


def naive_draws(
    posterior: DataTree, model: Any = None, release: Any = None, *, draws: int = 1000
) -> dict[str, np.ndarray]:
    """Return draws of the analysis that takes the released numbers as exact; same seed, same draws.

    Raises
    ------
    ValueError
        If the model or the release is not known, or there is no naive analysis of the pair.
    """
    from noiseaware.baselines import naive

    need_posterior(posterior)
    seed = int(posterior.attrs.get("random_seed", "0")) % 2**32
    model = model_of(posterior, model)
    drawn = naive(model, release_of(posterior, release), draws=draws, random_seed=seed)
    return with_derived(model, drawn)


def naive_note(posterior: DataTree, model: Any = None, release: Any = None) -> str:
    """Return one sentence that says how the naive draws were made."""
    from noiseaware import baselines

    return baselines.naive_note(model_of(posterior, model), release_of(posterior, release))
