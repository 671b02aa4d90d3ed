"""The result of a study: a table, all replicates as a DataTree, and reruns of a replicate."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.basics.numerals import numeral
from noiseaware.studies.replicate import (
    LABELS,
    PER_METHOD,
    PER_PARAMETER,
    Plan,
    Replicate,
    run_replicate,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import DataTree


AXES: dict[str, tuple[str, ...]] = {
    "true": ("parameter",),
    **dict.fromkeys(PER_PARAMETER, ("method", "parameter")),
    **dict.fromkeys(PER_METHOD, ("method",)),
}
"""The axes of each number of a replicate."""


class Study:
    """The outcome of `noiseaware.study`.

    Attributes
    ----------
    plan
        The settings of the study.
    replicates
        The number of replicates of each setting.
    """

    def __init__(self, plan: Plan, replicates: int, rows: Mapping[Any, Mapping[str, Any]]) -> None:
        self.plan, self.replicates = plan, replicates
        shape = (len(plan.epsilons), len(plan.n_records), replicates)
        sizes = {"method": len(plan.methods), "parameter": len(plan.labels)}
        self._numbers = {
            field: np.empty((*shape, *(sizes[axis] for axis in axes)))
            for field, axes in AXES.items()
        }
        for key, row in rows.items():
            for field, values in self._numbers.items():
                values[key] = row[field]

    def __getitem__(self, field: str) -> np.ndarray:
        """Return a field for all replicates, (epsilon, n, replicate, method[, scalar]).

        `field` is "true" (without the method axis), "mean", "sd", "lower", "upper", "ess", or, for
        the whole run, "acceptance", "lowest_sweep", "lowest_probability", "seconds".
        """
        return self._numbers[field]

    @property
    def covered(self) -> np.ndarray:
        """Whether the intervals cover the truth, (epsilon, n, replicate, method, scalar)."""
        true = self["true"][..., None, :]
        return (self["lower"] <= true) & (true <= self["upper"])

    @functools.cached_property
    def table(self) -> DataFrame:
        """A row for each epsilon, number of records, method and scalar.

        Columns: `coverage` of the intervals with its binomial standard error (by the rule of
        Agresti and Coull, so that it is not 0 if all or none cover); `bias` of the posterior mean
        with its standard error; mean `width` of the intervals; `rmse` of the posterior mean; `ess`
        (mean) and `lowest_ess` of the chains; `acceptance` (mean over the record proposals),
        `lowest_sweep` (the lowest acceptance rate of a sweep) and `lowest_probability` (the lowest
        acceptance probability), NaN for baselines; mean `seconds` of processor time.
        """
        from pandas import DataFrame, MultiIndex

        values = list(self._settings.values())
        frame = DataFrame(
            {name: column.ravel() for name, column in self._summary.items()},
            MultiIndex.from_product(values, names=list(self._settings)),
        ).reset_index()
        labels = [LABELS.get(method, f"noise-aware, {method}") for method in frame["method"]]
        frame.insert(3, "label", labels)
        frame.insert(6, "replicates", self.replicates)
        return frame

    @property
    def _settings(self) -> dict[str, list[Any]]:
        """The columns that identify a row of the table, with their values."""
        first: dict[str, list[Any]] = {
            "epsilon": list(self.plan.epsilons),
            "n_records": list(self.plan.n_records),
        }
        return {**first, "method": list(self.plan.methods), "parameter": list(self.plan.labels)}

    @functools.cached_property
    def _summary(self) -> dict[str, np.ndarray]:
        """The columns of the table, each (epsilon, n, method, scalar)."""
        true = self["true"][..., None, :]
        known = np.isfinite(true).all(axis=2)
        error = self["mean"] - true
        hits = self.covered.sum(axis=2)
        found = {
            "true": true.mean(axis=2),
            "coverage": np.where(known, hits / self.replicates, np.nan),
            "coverage_error": np.where(known, binomial_error(hits, self.replicates), np.nan),
            "bias": error.mean(axis=2),
            "bias_error": mean_error(error, axis=2),
            "width": (self["upper"] - self["lower"]).mean(axis=2),
            "rmse": np.sqrt((error**2).mean(axis=2)),
            "ess": self["ess"].mean(axis=2),
            "lowest_ess": self["ess"].min(axis=2),
        }
        for name in PER_METHOD:  # one number for all scalars
            of = np.min if name.startswith("lowest") else np.mean
            found[name] = of(self[name], axis=2)[..., None]
        return dict(zip(found, np.broadcast_arrays(*found.values()), strict=True))

    @functools.cached_property
    def tree(self) -> DataTree:
        """All replicates, as an `xarray.DataTree` that can be written to netCDF.

        Its groups are `replicates` (the numbers of every replicate) and `summary` (the table).
        """
        from xarray import Dataset, DataTree

        setting = ("epsilon", "n_records", "replicate")
        variables = {name: ((*setting, *AXES[name]), x) for name, x in self._numbers.items()}
        table = {name: (tuple(self._settings), x) for name, x in self._summary.items()}
        coords = {**self._settings, "replicate": np.arange(self.replicates)}
        groups = {
            "replicates": Dataset(variables, coords),
            "summary": Dataset(table, self._settings),
        }
        tree = DataTree.from_dict(groups)
        tree.attrs = {
            "format": "noiseaware-study",
            "model": repr(self.plan.model),
            "interval": self.plan.interval,
            "random_seed": str(self.plan.entropy),
        }
        return tree

    def rerun(
        self, replicate: int = 0, *, epsilon: float | None = None, n_records: int | None = None
    ) -> Replicate:
        """Rerun one replicate: the same numbers, with the data behind them.

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
        last = self.replicates - 1
        if not 0 <= replicate <= last:
            raise ValueError(f"replicate must be from 0 to {last}; got {replicate!r}")
        i = _place("epsilon", epsilon, self.plan.epsilons)
        j = _place("n_records", n_records, self.plan.n_records)
        return run_replicate(self.plan, (i, j, int(replicate)))

    def __repr__(self) -> str:
        columns = ["coverage", "coverage_error", "bias", "width", "rmse", "ess", "acceptance"]
        shown = self.table[[*self._settings, *columns]]
        settings = len(self.plan.epsilons) * len(self.plan.n_records)
        return (
            f"Study of {settings} settings, {self.replicates} replicates each, intervals of "
            f"{self.plan.interval:.0%}\n{table_text(shown)}"
        )


def table_text(table: DataFrame) -> str:
    """Return a table as text: three digits, thousands separators, "-" for NaN."""
    forms = {"n_records": "{:,}", "epsilon": "{:g}", "ess": "{:,.0f}"}
    forms |= dict.fromkeys(("coverage", "coverage_error", "acceptance"), "{:.3f}")

    def text(name: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        if np.isnan(value):
            return "-"
        return forms[name].format(value) if name in forms else numeral(value)

    shown = {name: [text(name, value) for value in table[name]] for name in table}
    return type(table)(shown).to_string(index=False)


def mean_error(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return the standard error of the mean along an axis; NaN if there is only one value."""
    count = values.shape[axis]
    if count < 2:
        return np.full(np.delete(values.shape, axis), np.nan)
    return values.std(axis=axis, ddof=1) / np.sqrt(count)


def binomial_error(hits: Any, trials: int) -> Any:
    """Return the standard error of hits / trials, which is not 0 if all or none hit.

    Adds two hits and two misses, as in Agresti and Coull (1998).
    """
    share = (np.asarray(hits) + 2.0) / (trials + 4.0)
    return np.sqrt(share * (1.0 - share) / (trials + 4.0))


def _place(name: str, value: Any, known: tuple[Any, ...]) -> int:
    if value is None:
        return 0
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(str, known))}; got {value!r}")
    return known.index(value)
