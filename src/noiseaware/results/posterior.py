"""Results: an `xarray.DataTree` in ArviZ's schema, and its netCDF file.

Groups: `posterior` (the parameters), `sample_stats` (the reports of the moves, and each record's
acceptance rate), `observed_data` (the release), `constant_data` (the number of records and the
guarantee), `prior` (prior draws for comparison), `latent_records` (imputed databases, if kept),
`record_estimates` (estimates of each record, if the records were summed out). The attributes of the
root say how it was made.
"""

from __future__ import annotations

import functools
import gc
import io
import json
import platform
import sys
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware._version import __version__
from noiseaware.basics.files import write_whole
from noiseaware.basics.numerals import INTERVAL, numeral
from noiseaware.basics.text_files import kind_of
from noiseaware.contract import Model, model_abilities, move_abilities
from noiseaware.mechanisms.acceptance import MISS, likely_acceptance, mean_acceptance
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE
from noiseaware.results.units import Units
from noiseaware.running.checkpoint import as_json
from noiseaware.running.run import PRIOR, Run, all_abilities
from noiseaware.sampler.record_sums import PROBABILITIES, together
from noiseaware.sampler.size import NAME
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target
from noiseaware.scrutiny.conflict import Conflict
from noiseaware.scrutiny.scouts import Scouts
from noiseaware.scrutiny.surprise import Surprise

if TYPE_CHECKING:
    from xarray import DataTree


__all__ = ["collect", "load", "save", "summary"]

FORMAT = "noiseaware-posterior"
NEEDED = ("sample_stats", "observed_data", "constant_data")
"""Groups that the checks and the report need, besides `posterior`."""
CHECKSUM = "checksum"
"""The attribute of a file that holds its checksum."""
VERSION = 1

PRIOR_DRAWS = 1000
PRIOR_NUMBERS = 2_000_000
"""Prior draws that are kept, and the largest number of values in them: models with many parameters
keep fewer draws."""


def collect(run: Run, **looks: Scouts | Conflict | Surprise | None) -> DataTree:
    """Collect the draws of all chains; see the module's description for the groups.

    `looks` are the results of further looks at the run; they become attributes of the root by name.
    """
    from arviz_base import from_dict
    from xarray import Dataset

    target, states, draws = run.target, run.states, run.draws
    release = target.release
    theta = {name: np.stack([chain.theta[name] for chain in draws]) for name in draws[0].theta}
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": with_derived(target.model, theta),
        "sample_stats": {
            name: np.stack([chain.reports[name] for chain in draws]) for name in draws[0].reports
        },
        "observed_data": {"release": release.values},
        # An unknown n is in the posterior.
        "constant_data": {
            "n_records": np.asarray(np.nan if release.n_records is None else release.n_records)
        },
        "prior": _prior(run),
    }
    dims: dict[str, list[str]] = {"release": ["released"]}
    coords: dict[str, Any] = {"released": list(release.names)}
    able = target.abilities
    for parameter in able.shown:
        dims[parameter.name] = list(parameter.dims)
        coords.update(parameter.coords or {})
    kept = min(len(chain.databases) for chain in draws)
    if kept:
        databases = _stacked([chain.databases[:kept] for chain in draws])
        groups["latent_records"] = {"records": databases}
        dims["records"] = ["record", "column"][: databases.ndim - 2]
    # No check of the conventions: it warns whenever there are more chains than (kept) draws.
    tree = from_dict(groups, dims=dims, coords=coords, attrs={"/": {}}, check_conventions=False)
    if kept:
        # The number of the draw that each database belongs to: theta and x go together.
        labels: dict[str, Any] = {"draw": list(run.schedule.keep[:kept])}
        if able.column_names is not None and databases.ndim == 4:
            labels["column"] = list(able.column_names)
        tree["latent_records"] = tree["latent_records"].to_dataset().assign_coords(labels)
        tree["latent_records"]["records"].attrs["dtype"] = str(draws[0].databases[0].dtype)
    sums = [_record_sums(run.moves, state) for state in states]
    if all(one is not None for one in sums):
        variables = {
            name: (("record", "probability")[: values.ndim], values)
            for name, values in together(sums).items()
        }
        tree["record_estimates"] = Dataset(variables, {"probability": list(PROBABILITIES)})
    if states[0].sweeps and target.size is None:  # records were gone through one by one
        each = np.stack([state.acceptance / max(1, state.sweeps) for state in states])
        stats = tree["sample_stats"].to_dataset()
        tree["sample_stats"] = stats.assign(record_acceptance=(("chain", "record"), each))
    tree.attrs = {**_attributes(run), **_residuals(target, states)}
    for name, found in looks.items():
        if found is not None:
            tree.attrs[name] = json.dumps(asdict(found))
    return tree


def _stacked(databases: list[list[np.ndarray]]) -> np.ndarray:
    """Return the databases of all chains, (chain, draw, record, ...).

    If the number of records is unknown, shorter databases are padded with NaN.
    """
    longest = max(len(one) for chain in databases for one in chain)

    def filled(one: np.ndarray) -> np.ndarray:
        missing = np.full((longest - len(one), *one.shape[1:]), np.nan)
        return np.concatenate([one, missing]) if len(missing) else one

    return np.stack([np.stack([filled(one) for one in chain]) for chain in databases])


def _record_sums(moves: Sequence[Any], state: ChainState) -> Any:
    able = zip(map(move_abilities, moves), state.tunings, strict=True)
    return next((one.record_sums(tuning) for one, tuning in able if one.record_sums), None)


def with_derived(model: Model, theta: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return draws of the parameters, (..., *shape), and the quantities derived from them."""
    able = model_abilities(model)
    if able.derive is None or not able.derived:
        return theta
    derived = able.derive(theta)
    return {**theta, **{p.name: np.asarray(derived[p.name]) for p in able.derived}}


def _prior(run: Run) -> dict[str, np.ndarray]:
    model, size, rng = run.target.model, run.target.size, run.stream(PRIOR)
    numbers = sum(parameter.size for parameter in model.parameters)
    count = max(100, min(PRIOR_DRAWS, PRIOR_NUMBERS // numbers))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        drawn = [model.sample_prior(rng) for _ in range(count)]
    theta = {
        p.name: np.stack([np.asarray(one[p.name], dtype=np.float64) for one in drawn])[None]
        for p in model.parameters
    }
    sizes = {} if size is None else {NAME: np.array([[size.sample(rng) for _ in range(count)]])}
    return with_derived(model, {**theta, **sizes})


def _attributes(run: Run) -> dict[str, Any]:
    import numba
    import scipy
    import xarray

    target = run.target
    guarantee = target.mechanism_abilities.guarantee
    epsilon = target.mechanism_abilities.change_epsilon
    plain = type(target.model).__repr__ is object.__repr__
    versions = {module.__name__: module.__version__ for module in (np, numba, scipy, xarray)}
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "inference_library": "noiseaware",
        "inference_library_version": __version__,
        "versions": json.dumps({"python": platform.python_version(), **versions}),
        # The model's repr, or its class name if the repr is only an address.
        "model": f"{type(target.model).__name__}()" if plain else repr(target.model),
        "model_json": as_json(target.model),
        "derived": json.dumps([p.name for p in target.abilities.derived]),
        "release_json": as_json(target.release),
        "size_json": "" if target.size is None else as_json(target.size),
        "guarantee": str(guarantee) if guarantee is not None else "",
        "change_epsilon": float("nan") if epsilon is None else float(epsilon),
        **_acceptance_levels(guarantee, target.release.n_records or target.n),
        "moves": ", ".join(map(repr, run.moves)),
        "blocks": int(any(able.blocks for able in all_abilities(run.moves))),
        "warmup": run.schedule.warmup,
        "draws": run.schedule.draws,
        "random_seed": str(run.random_seed),
        "sampling_time": run.seconds,
        "complete": int(run.complete),
    }


def _residuals(target: Target, states: Sequence[ChainState]) -> dict[str, float]:
    """Return how far the release is from the imputed databases, for additive noise; else empty.

    `release_p_value`: the probability that the stated noise alone is as large as the difference
    between the release and the total of a chain's last database; the largest over the chains. With
    z = (s_dp - T) / scale, the sum of |z_j| is Gamma(d) under Laplace noise, and that of z_j^2 is
    chi-square(d) under Gaussian noise. `rounding`: the error in a log ratio due to the rounding of
    floating-point sums.
    """
    from scipy.special import gammaincc

    terms = target.terms
    if terms is None or not (np.all(terms.family == LAPLACE) or np.all(terms.family == GAUSSIAN)):
        return {}
    values, inverse = terms.parameters[:, 0], terms.parameters[:, 1]
    totals = np.stack([target.total(state.records) for state in states])
    z = np.abs(values - totals) * inverse
    if terms.family[0] == LAPLACE:
        p_values = gammaincc(target.d, z.sum(axis=1))
    else:
        p_values = gammaincc(0.5 * target.d, 0.5 * (z**2).sum(axis=1))
    sizes = ((np.abs(values) + np.abs(totals)) * inverse).sum(axis=1)
    return {
        "release_p_value": float(p_values.max()),
        "rounding": float(16 * np.finfo(float).eps * sizes.max()),
    }


def _acceptance_levels(guarantee: Any, n: int) -> dict[str, float]:
    """Return the acceptance to expect without pure privacy; empty if no bound is known.

    `mean_acceptance` bounds the mean over proposals of one record. The lowest in a sweep through n
    records is below `sweep_acceptance` with probability at most `MISS`.
    """
    if not isinstance(guarantee, Guarantee) or guarantee.change_epsilon is not None:
        return {}
    mean, sweep = mean_acceptance(guarantee), likely_acceptance(guarantee, MISS / n)
    if mean is None or sweep is None:
        return {}
    return {"mean_acceptance": mean, "sweep_acceptance": sweep}


def need_posterior(thing: Any) -> None:
    """Raise TypeError unless this is a posterior."""
    from xarray import Dataset, DataTree

    if not isinstance(thing, DataTree) or "posterior" not in thing.children:
        group = isinstance(thing, DataTree | Dataset)
        part = " (give the whole tree, not one group)" if group else ""
        raise TypeError(
            "posterior must be a posterior, as sample or load returns it; "
            f"got {type(thing).__name__}{part}"
        )


def summary(posterior: DataTree, **options: Any) -> Any:
    """Return a table of the parameters: mean, sd, 90% interval (equal tails), ESS, R-hat.

    Parameters
    ----------
    posterior : DataTree
        What `sample` returned.
    **options
        Passed on to `arviz_stats.summary`, for example `ci_prob=0.5` or `var_names=[...]`;
        `round_to=...` gives its own rounding and all its columns.

    Returns
    -------
    pandas.DataFrame
        A row for each parameter, to three digits of its standard deviation. It prints all columns,
        however narrow the screen, and each parameter in its unit if known (`in_units`); the values
        in the table are those of the draws.
    """
    from arviz_stats import summary as table

    need_posterior(posterior)
    options = {"ci_prob": INTERVAL, "ci_kind": "eti"} | options
    with np.errstate(divide="ignore", invalid="ignore"):  # a count that exact numbers fix
        frame = table(posterior, **{"round_to": "none"} | options)
    if "round_to" in options:
        return frame
    frame = frame.drop(columns=["mcse_mean", "mcse_sd"], errors="ignore").astype(object)
    for name in frame.columns:
        for row in frame.index:
            value = float(frame.loc[row, name])
            spread = float(frame.loc[row, "sd"]) if "sd" in frame.columns else abs(value)
            frame.loc[row, name] = _rounded(name, value, spread)
    made, known = _summary_type()(frame.infer_objects()), Units.of(posterior)
    made.attrs["shown"] = {row: [known.named(row), known.scale(row)] for row in frame.index}
    return made


@functools.cache
def _summary_type() -> Any:
    """Return a DataFrame class that prints all columns; frames derived from it are ordinary."""
    from pandas import DataFrame

    class Summary(DataFrame):
        def _texts(self) -> DataFrame:
            texts = DataFrame(self).astype(object)
            shown = {row: self.attrs.get("shown", {}).get(row, [row, 1.0]) for row in self.index}
            spread = self["sd"] if "sd" in self else dict.fromkeys(self.index)
            for name in self.columns:
                for row, (_, scale) in shown.items():
                    texts.loc[row, name] = _text(name, self.loc[row, name], spread[row], scale)
            return texts.rename(index={row: named for row, (named, _) in shown.items()})

        def __repr__(self) -> str:
            return self._texts().to_string()

        def _repr_html_(self) -> str:
            return self._texts().to_html()

        def __reduce__(self) -> Any:
            return DataFrame, (DataFrame(self),)

    return Summary


def _text(name: str, value: Any, spread: float | None, scale: float) -> str:
    if name.startswith("ess"):
        return f"{value:,}"
    if name == "r_hat":
        return f"{value:.3f}"
    return numeral(value / scale, None if spread is None else spread / scale, 3)


def _rounded(name: str, value: float, spread: float) -> float:
    """Round a number of a column, usually to three digits of its standard deviation."""
    if name == "r_hat":
        return round(value, 3)
    if not np.isfinite(value):
        return value
    if name.startswith("ess"):
        return round(value)
    known = spread > 0 and np.isfinite(spread)
    return round(value, 2 - int(np.floor(np.log10(spread)))) if known else value


def save(posterior: DataTree, path: str | Path) -> None:
    """Write a posterior to a netCDF file."""
    need_posterior(posterior)
    stamped = posterior.copy(deep=False)
    stamped.attrs[CHECKSUM] = _checksum(stamped)
    image = _image(stamped)
    write_whole(path, lambda part: part.write_bytes(image))


def _image(tree: DataTree) -> memoryview:
    """Return a netCDF file built in memory: HDF5 crashes if the disk fills up during a write."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    made = io.BytesIO()
    with h5netcdf.File(made, "w") as file:
        for group in tree.subtree:
            # Labels that a group inherits are not stored with it.
            store = H5NetCDFStore(file, group=group.path, mode="a")
            group.to_dataset(inherit=False).dump_to_store(store)
    return made.getbuffer()


def _checksum(tree: DataTree) -> str:
    """Return a checksum of all numbers, labels and texts; saving and loading preserve it."""
    found = 0
    for group in tree.subtree:
        texts = {name: text for name, text in group.attrs.items() if isinstance(text, str)}
        texts.pop(CHECKSUM, None)
        found = zlib.crc32(json.dumps([group.path, texts], sort_keys=True).encode(), found)
        # Labels that a group inherits are not stored with it.
        stored = group.to_dataset(inherit=False)
        for name in sorted(map(str, stored.variables)):
            values = stored[name].values
            if values.dtype.kind not in "biuf":
                values = np.array(json.dumps(values.tolist(), default=str))
            found = zlib.crc32(f"{group.path}/{name} {values.shape}".encode(), found)
            found = zlib.crc32(np.ascontiguousarray(values).tobytes(), found)
    return f"{found:08x}"


def load(path: str | Path) -> DataTree:
    """Read a posterior that `save` wrote, completely, and close the file.

    Raises
    ------
    ValueError
        If the file is not netCDF, was not written by noiseaware, or is damaged.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a directory, not a posterior saved by noiseaware")
    tree = _read_tree(path)
    if isinstance(tree, str):
        why = kind_of(path) or f": {tree}"
        raise ValueError(f"{path} is not a netCDF file that can be read{why}")
    if tree.attrs.get("format") != FORMAT or "posterior" not in tree.children:
        raise ValueError(f"{path} is a netCDF file, but not a posterior saved by noiseaware")
    for group in NEEDED:
        if group not in tree.children:
            raise ValueError(f"{path} is not whole: it lacks the group {group}")
    # Files of older versions have no checksum; what is made from a posterior should have none.
    if tree.attrs.pop(CHECKSUM, None) not in (None, _checksum(tree)):
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    for name, values in tree["posterior"].data_vars.items():
        if not (values.dtype.kind in "biuf" and np.isfinite(values.values).all()):
            raise ValueError(f"{path} is damaged: {name} has values that are no finite numbers")
    if "latent_records" in tree.children:
        groups = (tree.children[name].to_dataset() for name in ("latent_records", "posterior"))
        kept, draws = (group["draw"].values for group in groups)
        if not np.isin(kept, draws).all():
            raise ValueError(f"{path} is damaged: it has imputed records of draws that it has not")
    return tree


def _read_tree(path: Path) -> DataTree | str:
    """Return the contents of a netCDF file, or the error message if it cannot be read.

    A file that h5netcdf failed to open raises again on garbage collection, where nobody can catch
    it; so that is made to happen here.
    """
    import warnings

    from xarray import open_datatree

    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what other programs put into their files
            try:
                with open_datatree(path, engine="h5netcdf") as stored:
                    return stored.load()
            except Exception as error:
                words = str(error)
        gc.collect()
        return words
    finally:
        sys.unraisablehook = hook
