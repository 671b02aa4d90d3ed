"""Where the uncertainty comes from: sampling or the privacy noise.

Let x be the confidential database. By the law of total variance,

    Var(theta | s_dp) = E[Var(theta | x, s_dp) | s_dp] + Var(E[theta | x, s_dp] | s_dp),

and p(theta | x, s_dp) = p(theta | x), because the release depends on theta only through x. The
first term, W, is the *sampling* part: the variance that would remain for an analyst of the
confidential records (n of them, not the whole population), averaged over the databases that the
release leaves possible. The second, V - W, is the part of the *privacy noise* (and of clamping and
summarising, which also hide records): it exists because the database is not known.

W is estimated from the kept databases. A kept pair (theta_0, x) is a draw from p(theta, x | s_dp),
so theta_0 is a draw from p(theta | x). The model's kernel `update_parameters` leaves p(theta | x)
invariant, so every theta_m of the chain that it runs from theta_0 at this x has that distribution.
For two of them,

    E[(theta_l - theta_m)^2 / 2 | x] = Var(theta | x) (1 - rho),

with rho their correlation given x. So W is estimated by half the mean squared difference between
steps half a chain apart, over the kept databases. This is exact for kernels that draw theta
independently, and nearly so (rho near 0) for those that mix within half a chain. Steps a quarter of
a chain apart should give nearly the same value; if they clearly do not (`slow`), W is
underestimated and the noise's share overestimated.

V is the variance of all draws, and much better known than a variance over the few kept databases.
So the noise's part is computed as V - W, not estimated on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noiseaware.contract import Model, ModelAbilities, model_abilities
from noiseaware.documents.stored import model_of
from noiseaware.results.databases import database
from noiseaware.results.posterior import need_posterior, with_derived
from noiseaware.results.scalars import all_scalars

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["DATABASES", "Parts", "variance_parts"]

STEPS = 100  # steps of the kernel at each database
DATABASES = 100  # databases that are used, at most

SLOW, CLEARLY = 0.9, 4.0
"""The kernel mixes slowly if a quarter of a chain gives less than the share SLOW of W, and the
difference exceeds CLEARLY standard errors."""


@dataclass(frozen=True)
class Parts:
    """Where the variance of one scalar comes from."""

    total: float  # Var(theta | s_dp)
    sampling: float  # E[Var(theta | x)]: what exact records would leave
    noise: float  # Var(E[theta | x]): what the privacy noise adds
    prior: float  # of the prior's draws; NaN if the posterior holds none
    slow: bool  # the model's kernel mixes too slowly for the two parts to be trusted

    @property
    def share(self) -> float:
        """The noise's share of the variance, between 0 and 1."""
        return self.noise / self.total if self.total > 0 else 0.0


def variance_parts(
    posterior: DataTree, model: Model | None = None, *, random_seed: int = 0
) -> dict[str, Parts]:
    """Split the posterior variance of each scalar into sampling and privacy noise.

    Parameters
    ----------
    posterior : DataTree
        With databases: `sample(..., keep_records=25)`.
    model : optional
        The model, needed if it is a class of your own, which the posterior cannot hold.
    random_seed : int
        Seed of the kernel's steps.

    Returns
    -------
    dict
        `Parts` by the labels of the summary.

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
    able = model_abilities(model_of(posterior, model))
    if able.update_parameters is None:
        raise ValueError(
            f"{able.name} has no update_parameters: without a kernel for p(theta | x) there is no "
            "analysis of a known database to compare with"
        )
    far, near = _mean_squares(posterior, able, np.random.default_rng(random_seed))
    parts = {}
    for scalar in all_scalars(posterior):
        total = float(scalar.draws.var())
        apart, closer = np.asarray(scalar.of(far)), np.asarray(scalar.of(near))
        sampling = min(float(apart.mean()), total)
        parts[scalar.label] = Parts(
            total=total,
            sampling=sampling,
            noise=total - sampling,
            prior=np.nan if scalar.prior is None else float(scalar.prior.var()),
            slow=_slow(apart, closer),
        )
    return parts


def _mean_squares(
    posterior: DataTree, able: ModelAbilities, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return half the mean squared differences of steps half and a quarter of a chain apart.

    For each parameter, (databases, *shape).
    """
    assert able.update_parameters is not None
    draws = posterior["posterior"].to_dataset().transpose("chain", "draw", ...)
    kept = posterior["latent_records"]["records"].transpose("chain", "draw", "record", ...)
    labels = kept["draw"].values
    pairs = [(c, k) for k in range(kept.sizes["draw"]) for c in range(kept.sizes["chain"])]
    chosen = np.unique(np.linspace(0, len(pairs) - 1, min(DATABASES, len(pairs))).astype(int))
    gaps = (STEPS // 2, STEPS // 4)
    found: list[dict[str, list[np.ndarray]]] = [{str(n): [] for n in draws.data_vars} for _ in gaps]
    for chain, k in (pairs[i] for i in chosen):
        records = database(kept, chain, k)
        at = draws.isel(chain=chain).sel(draw=labels[k])
        theta = {p.name: np.array(at[p.name].values, dtype=np.float64) for p in able.parameters}
        path = {name: np.empty((STEPS + 1, *value.shape)) for name, value in theta.items()}
        for step in range(STEPS + 1):
            for name, value in theta.items():
                path[name][step] = value
            if step < STEPS:
                theta = able.update_parameters(theta, records, rng)
        path = with_derived(able.model, path)
        for gap, squares in zip(gaps, found, strict=True):
            for name, values in path.items():
                squares[name].append(0.5 * np.mean((values[gap:] - values[:-gap]) ** 2, axis=0))
    far, near = ({n: np.array(v) for n, v in squares.items()} for squares in found)
    return far, near


def _slow(far: np.ndarray, near: np.ndarray) -> bool:
    """Whether steps further apart differ clearly more; both arguments (databases,)."""
    error = np.std(far - near) / np.sqrt(len(far))
    less = near.mean() < SLOW * far.mean()
    return bool(less and far.mean() - near.mean() > CLEARLY * error)
