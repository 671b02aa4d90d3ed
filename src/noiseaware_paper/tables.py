"""The tables of a run, as pandas frames; each goes into a CSV file and onto the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.studies import Study, binomial_error
from noiseaware_paper import imputed, published, run_time
from noiseaware_paper.settings import Experiment, Size

if TYPE_CHECKING:
    from pandas import DataFrame

METHODS = {"algorithm1": "Algorithm 1", "default": "default sampler"}


def coverage_table(experiment: Experiment, study: Study) -> DataFrame:
    """Return published and measured coverage side by side, a row for each epsilon and entry.

    `z_published` is the difference of Algorithm 1 here from the printed number, in standard errors
    of both; `z_default` that of the default sampler from Algorithm 1.
    """
    from pandas import DataFrame

    table = study.table.set_index(["epsilon", "method", "parameter"])
    rows = []
    for i, epsilon in enumerate(published.EPSILONS):
        for k, label in enumerate(study.plan.labels):
            ours = {m: table.loc[(epsilon, m, label)] for m in METHODS}
            printed = experiment.published[i][k]
            printed_error = binomial_error(printed * published.REPLICATES, published.REPLICATES)
            first, second = ours["algorithm1"], ours["default"]
            rows.append(
                {
                    "epsilon": epsilon,
                    "parameter": experiment.symbols[k],
                    "true": first["true"],
                    "published": printed,
                    "published_error": printed_error,
                    "algorithm1": first["coverage"],
                    "algorithm1_error": first["coverage_error"],
                    "algorithm1_ess": first["ess"],
                    "default": second["coverage"],
                    "default_error": second["coverage_error"],
                    "default_ess": second["ess"],
                    "z_published": (first["coverage"] - printed)
                    / np.hypot(first["coverage_error"], printed_error),
                    "z_default": (second["coverage"] - first["coverage"])
                    / np.hypot(first["coverage_error"], second["coverage_error"]),
                }
            )
    return DataFrame(rows)


def shown_coverage(table: DataFrame) -> DataFrame:
    """Return the coverage table as people read it: numbers with their errors, and the ESS."""
    from pandas import DataFrame

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
    """Return a row for each chain and entry: every number behind the figures."""
    from pandas import DataFrame

    run = ("acceptance", "lowest_sweep", "lowest_probability", "seconds")
    rows = []
    for i, r, m, k in np.ndindex(study["mean"][:, 0].shape):
        chain = (i, 0, r, m)
        rows.append(
            {
                "epsilon": study.plan.epsilons[i],
                "replicate": r,
                "method": study.plan.methods[m],
                "parameter": experiment.symbols[k],
                **{f: study[f][*chain, k] for f in ("mean", "sd", "lower", "upper", "ess")},
                **{f: study[f][chain] for f in run},
            }
        )
    return DataFrame(rows)


def acceptance_table(study: Study) -> DataFrame:
    """Return average and lowest acceptance for each epsilon and sampler, with the bound."""
    from pandas import DataFrame

    rows = []
    for i, epsilon in enumerate(study.plan.epsilons):
        for method in METHODS:
            m = study.plan.methods.index(method)
            rows.append(
                {
                    "epsilon": epsilon,
                    "sampler": METHODS[method],
                    "average": study["acceptance"][i, 0, :, m].mean(),
                    "lowest share in a sweep": study["lowest_sweep"][i, 0, :, m].min(),
                    "lowest probability": study["lowest_probability"][i, 0, :, m].min(),
                    "exp(-epsilon)": np.exp(-epsilon),
                }
            )
    return DataFrame(rows)


def limits_table(rows: dict[Any, Any]) -> DataFrame:
    """Return the distances from the two limits, averaged over the releases of each epsilon."""
    from pandas import DataFrame

    frame = DataFrame(list(rows.values()))
    columns = {
        "from_prior": "distance from the prior",
        "from_data": "distance from the clamped-data posterior",
        "ess": "smallest ESS",
    }
    return frame.groupby("epsilon")[list(columns)].mean().rename(columns=columns).reset_index()


def run_time_table(size: Size, rows: dict[Any, Any]) -> DataFrame:
    """Return the microseconds of an iteration for each number of records and sampler."""
    from pandas import DataFrame

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
    """Return for each sampler the exponent of n in the time of an iteration."""
    return {
        str(name): run_time.slope(part["n"].to_numpy(), part["seconds"].to_numpy())
        for name, part in table.groupby("sampler")
    }


def imputed_table(experiment: Experiment, size: Size, rows: dict[Any, Any]) -> DataFrame:
    """Return the p-value of uniform ranks for each statistic."""
    from pandas import DataFrame

    ranks = np.array([row["ranks"] for row in rows.values()])
    return DataFrame(
        {
            "statistic": imputed.STATISTICS[experiment.name],
            "releases": len(ranks),
            "p-value of uniform ranks": imputed.p_values(ranks, size.databases),
        }
    )
