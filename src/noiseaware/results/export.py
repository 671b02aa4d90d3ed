"""The draws for other programs: a table (pandas, polars, CSV, Parquet), and posteriordb's files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noiseaware.basics.files import write_table, write_whole
from noiseaware.basics.frames import LIBRARIES, make_frame
from noiseaware.results.checks import check
from noiseaware.results.scalars import all_scalars

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["to_frame", "to_posteriordb", "write_draws"]


def to_frame(posterior: DataTree, *, as_frame: Literal["pandas", "polars"] = "pandas") -> Any:
    """Return the draws as a table: one row per draw, one column per scalar.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.
    as_frame : {"pandas", "polars"}
        The library of the table.

    Returns
    -------
    DataFrame
        The columns chain and draw, then one for each scalar, labelled as in the summary.

    Examples
    --------
    >>> import noiseaware as na
    >>> release = na.Release([5.0], na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0), 8)
    >>> few = {"draws": 20, "chains": 2, "random_seed": 1, "progressbar": False}
    >>> list(na.to_frame(na.sample(na.models.Bernoulli(), release, **few)).columns)
    ['chain', 'draw', 'probability']
    """
    if as_frame not in LIBRARIES:
        raise ValueError(f'as_frame must be "pandas" or "polars"; got {as_frame!r}')
    scalars = all_scalars(posterior)
    chains, draws = scalars[0].draws.shape
    content = {
        "chain": np.repeat(np.arange(chains), draws),
        "draw": np.tile(np.arange(draws), chains),
        **{scalar.label: scalar.draws.ravel() for scalar in scalars},
    }
    needs = f'{as_frame}: pip install "noiseaware[frames]", or leave it out'
    return make_frame(content, as_frame, needs)


def write_draws(posterior: DataTree, path: str | Path) -> None:
    """Write the table of `to_frame`: Parquet if the path ends in .parquet, otherwise CSV.

    Parquet needs pyarrow, the extra `parquet`. A CSV file has all digits.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"path must end in .csv or .parquet; got {path}")
    frame = to_frame(posterior)
    if path.suffix == ".csv":
        write_table(path, frame)
        return
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(
            'Parquet is written by pyarrow: pip install "noiseaware[parquet]", or write .csv'
        ) from None
    write_whole(path, lambda part: frame.to_parquet(part, index=False))


# ------------------------------------------------------------------ posteriordb


def to_posteriordb(posterior: DataTree, folder: str | Path, name: str) -> Path:
    """Write a problem and its draws as files of a posterior database.

    The layout is that of posteriordb (https://github.com/stan-dev/posteriordb): the release is the
    data, noiseaware's description of the model is the model code, and the draws are the reference.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned, for a model and a release that a file can hold.
    folder : path
        The database folder; created if needed. Other posteriors in it are left alone.
    name : str
        The name of the posterior: letters, digits, - and _.

    Returns
    -------
    Path
        The file that describes the posterior, `posteriors/NAME.json`.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ValueError(f"name must be letters, digits, - and _; got {name!r}")
    scalars = all_scalars(posterior)
    attributes = posterior.attrs
    held = {key: attributes.get(f"{key}_json", "") for key in ("model", "release")}
    for key, text in held.items():
        if not text:
            why = "is a class of your own, which no file can hold"
            raise ValueError(f"the posterior's {key} {why}")
    folder, drawn = Path(folder), posterior["posterior"].to_dataset().data_vars
    written = {"name": name, "added_date": attributes["created_at"][:10], "added_by": "noiseaware"}
    code = {"noiseaware": {"model_code": f"models/noiseaware/{name}.json"}}
    about = {
        "posteriors": {
            "model_name": name,
            "data_name": name,
            "reference_posterior_name": name,
            "dimensions": {str(key): int(np.prod(x.shape[2:])) for key, x in drawn.items()},
            "keywords": ["differential privacy"],
        },
        "models/info": {"title": attributes["model"], "model_implementations": code},
        "data/info": {"title": attributes["guarantee"], "data_file": f"data/data/{name}.json"},
        "reference_posteriors/draws/info": _how_drawn(posterior),
    }
    _write(folder / "models/noiseaware" / f"{name}.json", json.loads(held["model"]))
    _write(folder / "data/data" / f"{name}.json.zip", json.loads(held["release"]))
    chains = [
        {scalar.label: scalar.draws[chain].tolist() for scalar in scalars}
        for chain in range(len(scalars[0].draws))
    ]
    _write(folder / "reference_posteriors/draws/draws" / f"{name}.json.zip", chains)
    for place, content in about.items():
        ending = "json" if place == "posteriors" else "info.json"
        _write(folder / place / f"{name}.{ending}", {**written, **content})
    return folder / "posteriors" / f"{name}.json"


def _how_drawn(posterior: DataTree) -> dict[str, Any]:
    attributes = posterior.attrs
    verdicts = check(posterior).verdicts
    return {
        "inference": {
            "method": "sampling",
            "method_arguments": {
                "moves": attributes["moves"],
                "chains": int(posterior["posterior"].sizes["chain"]),
                "warmup": int(attributes["warmup"]),
                "draws": int(attributes["draws"]),
                "random_seed": attributes["random_seed"],
            },
        },
        "diagnostics": {verdict.name: verdict.message for verdict in verdicts},
        "checks_made": {verdict.name: bool(verdict.passed) for verdict in verdicts},
        "versions": {
            "noiseaware": attributes["inference_library_version"],
            **json.loads(attributes["versions"]),
        },
    }


def _write(path: Path, content: Any) -> None:
    """Write JSON atomically; in a zip file if the path ends in .zip."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=None if path.suffix == ".zip" else 2)

    def write(part: Path) -> None:
        if path.suffix != ".zip":
            part.write_text(text + "\n", encoding="utf-8")
            return
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(path.stem, text)

    write_whole(path, write)
