"""The tables of a run as pandas frames, for CSV files and the page."""

from __future__ import annotations

from typing import Any

import numpy as np
from pandas import DataFrame

from noiseaware.studies import Study, binomial_error
from noiseaware_paper import imputed, published, run_time
from noiseaware_paper.settings import Experiment, Size

METHODS = {"algorithm1": "Algorithm 1", "default": "default sampler"}


def coverage_table(experiment: Experiment, study: Study) -> DataFrame:
    """Return published and measured coverage side by side, a row for each epsilon and entry.

    `z_published` is Algorithm 1 here minus the printed number, in standard errors of the
    difference; `z_default` is the default sampler minus Algorithm 1.
    """
    printed = np.ravel(experiment.published)
    table = DataFrame(
        {
            "epsilon": np.repeat(study.plan.epsilons, len(experiment.symbols)),
            "parameter": np.tile(experiment.symbols, len(study.plan.epsilons)),
            "true": study["true"][:, 0].mean(axis=1).ravel(),
            "published": printed,
            "published_error": binomial_error(printed * published.REPLICATES, published.REPLICATES),
        }
    )
    for method in METHODS:
        ours = study.table[study.table["method"] == method]
        table[method] = ours["coverage"].to_numpy()
        table[f"{method}_error"] = ours["coverage_error"].to_numpy()
        table[f"{method}_ess"] = ours["ess"].to_numpy()
    pairs = {"z_published": ("algorithm1", "published"), "z_default": ("default", "algorithm1")}
    for name, (one, other) in pairs.items():
        errors = np.hypot(table[f"{one}_error"], table[f"{other}_error"])
        table[name] = (table[one] - table[other]) / errors
    return table


def shown_coverage(table: DataFrame) -> DataFrame:
    """Return the coverage table for readers: coverages with their errors, and the ESS."""
    shown = {
        "epsilon": table["epsilon"].map("{:g}".format),
        "parameter": table["parameter"],
        "published": table["published"].map("{:.2f}".format),
    }
    for method, words in METHODS.items():
        pairs = zip(table[method], table[f"{method}_error"], strict=True)
        shown[words] = [f"{value:.2f} ± {error:.2f}" for value, error in pairs]
        shown[f"ESS, {words}"] = table[f"{method}_ess"].map("{:.0f}".format)
    return DataFrame({**shown, "z from published": table["z_published"]})


def replicates_table(experiment: Experiment, study: Study) -> DataFrame:
    """Return a row for each chain and entry, with all numbers behind the figures."""
    chains = study.tree["replicates"].to_dataset().isel(n_records=0).drop_vars("n_records")
    chains = chains.drop_vars("true").assign_coords(parameter=list(experiment.symbols))
    order = ["epsilon", "replicate", "method", "parameter"]
    return chains.to_dataframe(dim_order=order).reset_index()


def acceptance_table(study: Study) -> DataFrame:
    """Return average and lowest acceptance for each epsilon and sampler, with the bound."""
    table = study.table.drop_duplicates(["epsilon", "method"], ignore_index=True)
    return DataFrame(
        {
            "epsilon": table["epsilon"],
            "sampler": table["method"].map(METHODS),
            "average": table["acceptance"],
            "lowest share in a sweep": table["lowest_sweep"],
            "lowest probability": table["lowest_probability"],
            "exp(-epsilon)": np.exp(-table["epsilon"]),
        }
    )


def limits_table(rows: dict[Any, Any]) -> DataFrame:
    """Return the distances from the two limits, averaged over releases at each epsilon."""
    frame = DataFrame(list(rows.values()))
    columns = {
        "from_prior": "distance from the prior",
        "from_data": "distance from the clamped-data posterior",
        "ess": "smallest ESS",
    }
    return frame.groupby("epsilon")[list(columns)].mean().rename(columns=columns).reset_index()


def run_time_table(size: Size, rows: dict[Any, Any]) -> DataFrame:
    """Return the time per iteration for each number of records and sampler."""
    names = list(size.samplers)
    return DataFrame(
        {
            "n": row["n"],
            "sampler": METHODS[names[key[1]]],
            "seconds": row["seconds"],
            "microseconds a record": 1e6 * row["seconds"] / row["n"],
        }
        for key, row in rows.items()
    )


def slopes(table: DataFrame) -> dict[str, float]:
    """Return each sampler's exponent of n in the time per iteration."""
    return {
        str(name): run_time.slope(part["n"].to_numpy(), part["seconds"].to_numpy())
        for name, part in table.groupby("sampler")
    }


def imputed_table(experiment: Experiment, size: Size, rows: dict[Any, Any]) -> DataFrame:
    """Return the p-value of uniform ranks for each statistic."""
    ranks = np.array([row["ranks"] for row in rows.values()])
    return DataFrame(
        {
            "statistic": imputed.STATISTICS[experiment.name],
            "releases": len(ranks),
            "p-value of uniform ranks": imputed.p_values(ranks, size.databases),
        }
    )
