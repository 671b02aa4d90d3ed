"""Results: an `xarray.DataTree` in ArviZ's schema, and its netCDF file.

Groups: `posterior` (the parameters), `sample_stats` (what the moves report, and how often each
record's proposal was accepted), `observed_data` (the release), `constant_data` (the number of
records and what the mechanism promises), `latent_records` (imputed databases, if kept). The
attributes of the root say how it was made.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xarray import DataTree

    from noiseaware.sampler.chain import Schedule
    from noiseaware.sampler.state import ChainState, Draws
    from noiseaware.sampler.target import Target

__all__ = ["collect", "load", "save", "summary"]

FORMAT = "noiseaware-posterior"
VERSION = 1


def collect(
    target: Target,
    moves: Sequence[Any],
    schedule: Schedule,
    states: Sequence[ChainState],
    draws: Sequence[Draws],
    *,
    random_seed: int,
    seconds: float,
) -> DataTree:
    """Put the draws of all chains together; see the module's description for the groups."""
    from arviz_base import from_dict

    model, release = target.model, target.release
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": {
            p.name: np.stack([chain.theta[p.name] for chain in draws]) for p in model.parameters
        },
        "sample_stats": {
            name: np.stack([chain.reports[name] for chain in draws]) for name in draws[0].reports
        },
        "observed_data": {"release": release.values},
        "constant_data": {"n_records": np.asarray(release.n_records)},
    }
    dims: dict[str, list[str]] = {"release": ["released"]}
    coords: dict[str, Any] = {"released": list(release.names)}
    for parameter in model.parameters:
        dims[parameter.name] = list(parameter.dims)
        coords.update(parameter.coords or {})
    kept = min(len(chain.databases) for chain in draws)
    if kept:
        databases = np.stack([np.stack(chain.databases[:kept]) for chain in draws])
        groups["latent_records"] = {"records": databases}
        dims["records"] = ["record", "column"][: databases.ndim - 2]
    # No check of the conventions: it warns wherever there are more chains than (kept) draws.
    tree = from_dict(groups, dims=dims, coords=coords, attrs={"/": {}}, check_conventions=False)
    if kept:
        # The number of the draw that a database belongs to: theta and x of one draw go together.
        labels: dict[str, Any] = {"draw": list(schedule.keep[:kept])}
        names = getattr(model, "column_names", None)
        if names is not None and databases.ndim == 4:
            labels["column"] = list(names)
        tree["latent_records"] = tree["latent_records"].to_dataset().assign_coords(labels)
    if "acceptance_rate" in groups["sample_stats"]:
        tree["sample_stats"] = (
            tree["sample_stats"]
            .to_dataset()
            .assign(record_acceptance=(("chain", "record"), _record_acceptance(states)))
        )
    tree.attrs = _attributes(target, moves, schedule, draws, random_seed, seconds)
    return tree


def _record_acceptance(states: Sequence[ChainState]) -> np.ndarray:
    """Return the mean acceptance of each record, (chain, n)."""
    return np.stack([state.acceptance / max(1, state.sweeps) for state in states])


def _attributes(
    target: Target,
    moves: Sequence[Any],
    schedule: Schedule,
    draws: Sequence[Draws],
    random_seed: int,
    seconds: float,
) -> dict[str, Any]:
    import numba

    import noiseaware

    guarantee = getattr(target.release.mechanism, "guarantee", None)
    epsilon = getattr(guarantee, "change_epsilon", None)
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "inference_library": "noiseaware",
        "inference_library_version": noiseaware.__version__,
        "versions": json.dumps(
            {
                "python": platform.python_version(),
                "numpy": np.__version__,
                "numba": numba.__version__,
            }
        ),
        "model": repr(target.model),
        "model_json": _as_json(target.model),
        "release_json": _as_json(target.release),
        "guarantee": str(guarantee) if guarantee is not None else "",
        "change_epsilon": float("nan") if epsilon is None else float(epsilon),
        "moves": ", ".join(map(repr, moves)),
        "warmup": schedule.warmup,
        "draws": schedule.draws,
        "random_seed": str(random_seed),
        "sampling_time": seconds,
        "complete": int(len(draws[0]) == schedule.draws),
    }


def _as_json(thing: Any) -> str:
    """Return JSON of what the object says of itself, or "" for a class that cannot be written."""
    try:
        return json.dumps(thing.to_dict())
    except (AttributeError, ValueError, TypeError):
        return ""


def summary(posterior: DataTree, **options: Any) -> Any:
    """Return a table of the parameters: mean, sd, interval, ESS, R-hat.

    Parameters
    ----------
    posterior : DataTree
        What `sample` returned.
    **options
        Passed on to `arviz_stats.summary`, for example `ci_prob=0.9` or `var_names=[...]`.

    Returns
    -------
    pandas.DataFrame
    """
    from arviz_stats import summary as table

    return table(posterior, **options)


def save(posterior: DataTree, path: str | Path) -> None:
    """Write a posterior to a netCDF file."""
    posterior.to_netcdf(Path(path), engine="h5netcdf")


def load(path: str | Path) -> DataTree:
    """Read a posterior that `save` wrote; all of it, so that the file is closed again.

    Raises
    ------
    ValueError
        If the file is not netCDF, or was not written by noiseaware.
    """
    from xarray import open_datatree

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with open_datatree(path, engine="h5netcdf") as stored:
            tree = stored.load()
    except Exception as error:
        raise ValueError(f"{path} is not a netCDF file that can be read: {error}") from None
    if tree.attrs.get("format") != FORMAT or "posterior" not in tree.children:
        raise ValueError(f"{path} is a netCDF file, but not a posterior saved by noiseaware")
    return tree
