"""What a study found: a tidy table, all replicates as a DataTree, any replicate run again."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.studies.methods import LABELS, PER_METHOD, PER_PARAMETER
from noiseaware.studies.replicate import Plan, Replicate, run_replicate

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import DataTree


class Study:
    """The outcome of `noiseaware.study`.

    Attributes
    ----------
    plan
        What was studied.
    replicates
        Replicates of each setting.
    """

    def __init__(self, plan: Plan, replicates: int, rows: Mapping[Any, Mapping[str, Any]]) -> None:
        self.plan = plan
        self.replicates = replicates
        shape = (len(plan.epsilons), len(plan.n_records), replicates)
        methods, scalars = len(plan.methods), len(plan.labels)
        self._true = np.empty((*shape, scalars))
        self._numbers = {
            **{field: np.empty((*shape, methods, scalars)) for field in PER_PARAMETER},
            **{field: np.empty((*shape, methods)) for field in PER_METHOD},
        }
        for key, row in rows.items():
            self._true[key] = row["true"]
            for field, values in self._numbers.items():
                values[key] = row[field]

    def __getitem__(self, field: str) -> np.ndarray:
        """Return one kind of number of all replicates, (epsilon, n, replicate, method[, scalar]).

        `field` is "true" (without the axis of methods), "mean", "sd", "lower", "upper", "ess", or
        of a whole run "acceptance", "lowest_sweep", "lowest_probability", "seconds".
        """
        return self._true if field == "true" else self._numbers[field]

    @property
    def covered(self) -> np.ndarray:
        """Whether the intervals hold the truth, (epsilon, n, replicate, method, scalar)."""
        true = self._true[..., None, :]
        return (self["lower"] <= true) & (true <= self["upper"])

    @functools.cached_property
    def table(self) -> DataFrame:
        """A row for each epsilon, number of records, method and scalar.

        Columns: `coverage` of the intervals with its binomial standard error (by the rule of
        Agresti and Coull, so that it is not 0 where all or none cover); `bias` of the posterior
        mean with its standard error; mean `width` of the intervals; `rmse` of the posterior mean;
        `ess` (mean) and `lowest_ess` of the chains; `acceptance` (mean over the record proposals),
        `lowest_sweep` (the lowest share accepted in a sweep) and `lowest_probability` (the lowest
        probability to accept), NaN for comparators; `seconds` of processor time (mean).
        """
        from pandas import DataFrame

        plan = self.plan
        error = self["mean"] - self._true[..., None, :]
        known: np.ndarray = np.all(np.isfinite(self._true), axis=2)
        covered = self.covered
        rows = []
        for i, j in np.ndindex(len(plan.epsilons), len(plan.n_records)):
            for m, method in enumerate(plan.methods):
                for k, label in enumerate(plan.labels):
                    here = (i, j, slice(None), m, k)
                    run = (i, j, slice(None), m)
                    hits = float(covered[here].sum())
                    rows.append(
                        {
                            "epsilon": plan.epsilons[i],
                            "n_records": plan.n_records[j],
                            "method": method,
                            "label": LABELS.get(method, f"noise-aware, {method}"),
                            "parameter": label,
                            "true": self._true[i, j, :, k].mean(),
                            "replicates": self.replicates,
                            "coverage": hits / self.replicates if known[i, j, k] else np.nan,
                            "coverage_error": binomial_error(hits, self.replicates)
                            if known[i, j, k]
                            else np.nan,
                            "bias": error[here].mean(),
                            "bias_error": mean_error(error[here]),
                            "width": (self["upper"][here] - self["lower"][here]).mean(),
                            "rmse": np.sqrt((error[here] ** 2).mean()),
                            "ess": self["ess"][here].mean(),
                            "lowest_ess": self["ess"][here].min(),
                            "acceptance": self["acceptance"][run].mean(),
                            "lowest_sweep": self["lowest_sweep"][run].min(),
                            "lowest_probability": self["lowest_probability"][run].min(),
                            "seconds": self["seconds"][run].mean(),
                        }
                    )
        return DataFrame(rows)

    @functools.cached_property
    def tree(self) -> DataTree:
        """All replicates, as an `xarray.DataTree` that can be written to netCDF.

        Groups `replicates` (the numbers of every replicate) and `summary` (the table).
        """
        from xarray import Dataset, DataTree

        plan = self.plan
        setting = ["epsilon", "n_records", "replicate"]
        variables: dict[str, Any] = {"true": ([*setting, "parameter"], self._true)}
        for field in PER_PARAMETER:
            variables[field] = ([*setting, "method", "parameter"], self._numbers[field])
        for field in PER_METHOD:
            variables[field] = ([*setting, "method"], self._numbers[field])
        coords: dict[str, Any] = {
            "epsilon": list(plan.epsilons),
            "n_records": list(plan.n_records),
            "replicate": np.arange(self.replicates),
            "method": list(plan.methods),
            "parameter": list(plan.labels),
        }
        keys = ["epsilon", "n_records", "method", "parameter"]
        shape = tuple(len(coords[key]) for key in keys)
        columns = [c for c in self.table.columns if c not in (*keys, "label", "replicates")]
        table = {c: (keys, self.table[c].to_numpy().reshape(shape)) for c in columns}
        tree = DataTree.from_dict(
            {
                "replicates": Dataset(variables, coords),
                "summary": Dataset(table, {key: coords[key] for key in keys}),
            }
        )
        tree.attrs = {
            "format": "noiseaware-study",
            "model": repr(plan.model),
            "interval": plan.interval,
            "random_seed": str(plan.entropy),
        }
        return tree

    def rerun(
        self, replicate: int = 0, *, epsilon: float | None = None, n_records: int | None = None
    ) -> Replicate:
        """Run one replicate again, alone: it gives the same numbers, with the data behind them.

        Parameters
        ----------
        replicate
            Its number, from 0.
        epsilon, n_records
            The setting; None for the first one.

        Returns
        -------
        Replicate
            The true parameters, the records, the release, and the numbers of each method.
        """
        if not 0 <= replicate < self.replicates:
            raise ValueError(
                f"replicate must be from 0 to {self.replicates - 1}; got {replicate!r}"
            )
        i = _place("epsilon", epsilon, self.plan.epsilons)
        j = _place("n_records", n_records, self.plan.n_records)
        return run_replicate(self.plan, (i, j, int(replicate)))

    def __repr__(self) -> str:
        columns = (
            "epsilon n_records method parameter coverage coverage_error bias width rmse ess "
            "acceptance"
        )
        shown = self.table[columns.split()]
        settings = len(self.plan.epsilons) * len(self.plan.n_records)
        return (
            f"Study of {settings} settings, {self.replicates} replicates each, intervals of "
            f"{self.plan.interval:.0%}\n{shown.round(3).to_string(index=False)}"
        )


def mean_error(values: np.ndarray) -> float:
    """Return the standard error of a mean; NaN if there is one value, which says nothing of it."""
    if len(values) < 2:
        return float("nan")
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def binomial_error(hits: float, trials: int) -> float:
    """Return the standard error of hits / trials, not 0 where all or none hit.

    With two hits and two misses added, as Agresti and Coull (1998) do.
    """
    share = (hits + 2.0) / (trials + 4.0)
    return float(np.sqrt(share * (1.0 - share) / (trials + 4.0)))


def _place(name: str, value: Any, known: tuple[Any, ...]) -> int:
    if value is None:
        return 0
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(str, known))}; got {value!r}")
    return known.index(value)
