"""The curator's question before a release, which epsilon and which query are good enough.

A plan is a TOML file. It names a model of the records, one or more queries that could be released,
a mechanism, and the width that the analyst's interval should have:

    [plan]
    parameter = "mean"              # whose interval; of a vector: "coefficients[x1]"
    width = 4.0                     # the wanted width
    interval = 0.9
    epsilons = [0.1, 0.3, 1.0, 3.0]
    n_records = [200, 1000]
    replicates = 40

    [model]
    type = "Normal"
    variance = 100.0

    [true_parameters]               # optional; without it they are drawn from the prior
    mean = 75.0

    [mechanism]
    type = "Laplace"                # DiscreteLaplace; or Gaussian, DiscreteGaussian with a delta

    [queries."sum, 0 to 200"]       # one table for each query that could be released
    type = "Sum"
    lower = 0
    upper = 200

`plan` simulates releases for every query, epsilon and number of records (`noiseaware.study`), next
to the analysis without privacy and to the naive one that takes the noisy numbers as exact.
"""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware import mechanisms, models, queries
from noiseaware.arguments import whole_number
from noiseaware.baselines import naive_note
from noiseaware.studies.methods import COMPARATORS
from noiseaware.studies.progress import bar
from noiseaware.studies.replicate import Plan as StudyPlan
from noiseaware.studies.replicate import simulate
from noiseaware.studies.run import make_plan, run_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["PlanResult", "PlanSpec", "plan", "read_plan"]

_BY_EPSILON = ("Laplace", "DiscreteLaplace")
_BY_EPSILON_AND_DELTA = ("Gaussian", "DiscreteGaussian")
COLOURS = ("#2b6ca3", "#c7662b", "#3d8f4f", "#8a5aa8", "#b03a5b", "#6b6b2b")


@dataclass(frozen=True)
class PlanSpec:
    """What a plan file says.

    Attributes
    ----------
    model
        What makes the records.
    queries
        What could be released, by name.
    mechanism
        `type`, and `delta` and `neighbours` where they are needed.
    parameter, width
        The scalar of interest, and how wide its interval may be (None: no wish).
    epsilons, n_records
        What is tried.
    true_parameters
        What makes the records, or None for draws from the prior.
    interval, replicates, comparators, random_seed
        As in `noiseaware.study`.
    """

    model: Any
    queries: Mapping[str, Any]
    mechanism: Mapping[str, Any]
    parameter: str
    epsilons: tuple[float, ...]
    n_records: tuple[int, ...]
    width: float | None = None
    true_parameters: Mapping[str, Any] | None = None
    interval: float = 0.9
    replicates: int = 40
    comparators: tuple[str, ...] = ("naive", "non-private")
    random_seed: int = 1

    def mechanism_for(self, query: Any, epsilon: float) -> Any:
        """Return the mechanism that would release this query with this epsilon."""
        arguments = {key: value for key, value in self.mechanism.items() if key != "type"}
        return getattr(mechanisms, self.mechanism["type"])(query, epsilon=epsilon, **arguments)


_PLAN_KEYS = (
    "parameter",
    "width",
    "interval",
    "epsilons",
    "n_records",
    "replicates",
    "comparators",
    "random_seed",
)
_TABLES = ("plan", "model", "true_parameters", "mechanism", "queries")


def read_plan(path: str | Path) -> PlanSpec:
    """Read a plan from a TOML file.

    Raises
    ------
    ValueError
        In one line: the file, the key, what is wrong with it and what would be right.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    try:
        return _spec(content)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _spec(content: dict[str, Any]) -> PlanSpec:
    from noiseaware.model_file import nearest

    for key in content:
        if key not in _TABLES:
            raise ValueError(f"unknown table [{key}]{nearest(key, _TABLES)}")
    for key in ("plan", "model", "queries"):
        if not isinstance(content.get(key), dict):
            raise ValueError(f"the table [{key}] is missing")
    settings = content["plan"]
    for key in settings:
        if key not in _PLAN_KEYS:
            raise ValueError(f"unknown key {key!r} in [plan]{nearest(key, _PLAN_KEYS)}")
    for key in ("parameter", "epsilons", "n_records"):
        if key not in settings:
            raise ValueError(f"{key} is missing in [plan]")
    model = models.from_dict(content["model"])
    asked = {name: _query(name, entries) for name, entries in content["queries"].items()}
    if not asked:
        raise ValueError("[queries] must hold at least one query, such as [queries.sum]")
    true = content.get("true_parameters")
    if true is not None and not isinstance(true, dict):
        raise ValueError(f"true_parameters must be a table, [true_parameters]; got {true!r}")
    if true is not None:
        true = {name: _numbers(name, value) for name, value in true.items()}
    others = ("interval", "replicates", "random_seed", "comparators")
    given: dict[str, Any] = {key: settings[key] for key in others if key in settings}
    if "comparators" in given:
        given["comparators"] = tuple(_list("comparators", given["comparators"]))
    spec = PlanSpec(
        model=model,
        queries=asked,
        mechanism=_mechanism(content.get("mechanism", {"type": "Laplace"})),
        parameter=_text("parameter", settings["parameter"]),
        epsilons=tuple(_positive("epsilons", e) for e in _list("epsilons", settings["epsilons"])),
        n_records=tuple(_list("n_records", settings["n_records"])),
        width=None if "width" not in settings else _positive("width", settings["width"]),
        true_parameters=true,
        **given,
    )
    for name in spec.comparators:
        if name not in COMPARATORS:
            raise ValueError(f"comparators must be out of {', '.join(COMPARATORS)}; got {name!r}")
    return spec


def _query(name: str, entries: Any) -> Any:
    try:
        return queries.from_dict(entries)
    except (ValueError, TypeError) as error:
        raise ValueError(f"[queries.{name}]: {error}") from None


def _mechanism(entries: Any) -> dict[str, Any]:
    known = (*_BY_EPSILON, *_BY_EPSILON_AND_DELTA)
    kind = entries.get("type") if isinstance(entries, dict) else None
    if kind not in known:
        raise ValueError(f"type in [mechanism] must be one of {', '.join(known)}; got {kind!r}")
    allowed = {"type", "neighbours"} | ({"delta"} if kind in _BY_EPSILON_AND_DELTA else set())
    for key in entries:
        if key not in allowed:
            raise ValueError(
                f"[mechanism] may hold {', '.join(sorted(allowed))} for {kind}; got {key!r}"
            )
    if kind in _BY_EPSILON_AND_DELTA and "delta" not in entries:
        raise ValueError(f"delta is missing in [mechanism]: {kind} noise needs one")
    assert set(entries) - {"type"} <= set(inspect.signature(getattr(mechanisms, kind)).parameters)
    return dict(entries)


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} in [true_parameters] must be a number, or a list of numbers; got {value!r}"
        ) from None


def _list(name: str, value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError(f"{name} must not be empty")
    return values


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} must be positive; got {value!r}")
    return float(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text; got {value!r}")
    return value


@dataclass(frozen=True)
class PlanResult:
    """What a plan found.

    Attributes
    ----------
    spec
        What was asked.
    table
        A row for each query, number of records, epsilon and method: width of the interval,
        coverage with its binomial error, RMSE, ESS.
    notes
        How the naive analysis was made for each query, or why it is not there; empty if it was
        not asked for.
    """

    spec: PlanSpec
    table: DataFrame
    notes: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def answers(self) -> list[str]:
        """The answer for each number of records, in words."""
        spec = self.spec
        if spec.width is None:
            return ["No width was asked for: see the table."]
        ours = self.table[self.table["method"] == "default"]
        found = []
        for n in spec.n_records:
            words = f"With {n:,} records: "
            here = ours[(ours["n_records"] == n) & (ours["width"] <= spec.width)]
            if len(here):
                best = here.sort_values(["epsilon", "width"]).iloc[0]
                words += (
                    f"epsilon = {best['epsilon']:g} with {best['query']!r} is the smallest tried "
                    f"that gives {spec.interval:.0%} intervals of a mean width of at most "
                    f"{spec.width:g} (it gives {best['width']:.3g}, coverage "
                    f"{best['coverage']:.2f} ± {best['coverage_error']:.2f})."
                )
            else:
                best = ours[ours["n_records"] == n].sort_values("width").iloc[0]
                words += (
                    f"no epsilon and query that was tried gives a mean width of {spec.width:g}; "
                    f"the closest is epsilon = {best['epsilon']:g} with {best['query']!r}, "
                    f"{best['width']:.3g}."
                )
            private = self.table[
                (self.table["method"] == "non-private") & (self.table["n_records"] == n)
            ]
            if len(private):
                words += f" Without privacy it would be {private['width'].mean():.3g}."
            found.append(words)
        return found

    def figure(self) -> Figure:
        """Draw width and coverage against epsilon, a column for each number of records."""
        from matplotlib.figure import Figure

        spec = self.spec
        columns = len(spec.n_records)
        figure = Figure(figsize=(4.2 * columns + 0.8, 6.4), layout="constrained")
        axes = figure.subplots(2, columns, squeeze=False, sharex=True, sharey="row")
        styles = {"default": "o-", "naive": "x--", "non-private": "k:", "bootstrap": "s-."}
        words = {
            "default": "noise-aware",
            "naive": "naive (noisy numbers taken as exact)",
            "non-private": "non-private",
            "bootstrap": "parametric bootstrap",
        }
        for j, n in enumerate(spec.n_records):
            for q, query in enumerate(spec.queries):
                for method in ("default", *spec.comparators):
                    part = self.table[
                        (self.table["n_records"] == n)
                        & (self.table["query"] == query)
                        & (self.table["method"] == method)
                    ].sort_values("epsilon")
                    if method == "non-private" and q:
                        continue  # it does not depend on the query
                    colour = {} if method == "non-private" else {"color": COLOURS[q % len(COLOURS)]}
                    label = words[method] + ("" if method == "non-private" else f", {query}")
                    axes[0, j].plot(
                        part["epsilon"], part["width"], styles[method], label=label, **colour
                    )
                    axes[1, j].errorbar(
                        part["epsilon"],
                        part["coverage"],
                        part["coverage_error"],
                        fmt=styles[method],
                        capsize=2,
                        **colour,
                    )
            axes[0, j].set_title(f"{n:,} records")
            axes[1, j].set_xlabel("epsilon")
            axes[1, j].axhline(spec.interval, color="black", linewidth=0.8)
            axes[1, j].set_ylim(-0.02, 1.05)
            if spec.width is not None:
                axes[0, j].axhline(spec.width, color="black", linewidth=0.8)
        axes[0, 0].set_xscale("log")
        axes[0, 0].set_yscale("log")
        axes[0, 0].set_ylabel(f"mean width of {spec.interval:.0%} intervals, {spec.parameter}")
        axes[1, 0].set_ylabel("coverage")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure

    def write(self, out: str | Path) -> list[Path]:
        """Write plan.csv, plan.png and plan.svg into a directory; return their paths."""
        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        self.table.to_csv(out / "plan.csv", index=False)
        figure = self.figure()
        figure.savefig(out / "plan.png", dpi=110)
        figure.savefig(out / "plan.svg", metadata={"Date": None})
        return [out / name for name in ("plan.csv", "plan.png", "plan.svg")]


def plan(
    spec: PlanSpec | str | Path,
    *,
    cores: int | None = None,
    progressbar: bool = True,
    checkpoint: str | Path | None = None,
) -> PlanResult:
    """Simulate releases for every query, epsilon and number of records of a plan.

    Parameters
    ----------
    spec : PlanSpec or path
        A plan, or the TOML file that holds it.
    cores, progressbar, checkpoint
        As in `noiseaware.study`.

    Returns
    -------
    PlanResult
        With `table`, `answers`, `figure()` and `write(directory)`.
    """
    if not isinstance(spec, PlanSpec):
        spec = read_plan(spec)
    whole_number("replicates", spec.replicates)
    plans, notes = {}, {}
    for name, query in spec.queries.items():
        plans[name], note = _study_plan(spec, query)
        if note:
            notes[name] = note
    from pandas import concat

    frames = []
    total = len(plans) * spec.replicates * len(spec.epsilons) * len(spec.n_records)
    with bar("simulated releases", total, progressbar) as on_done:
        for number, (name, study_plan) in enumerate(plans.items()):
            folder = None if checkpoint is None else Path(checkpoint) / f"query-{number}"
            study = run_plan(
                study_plan, spec.replicates, cores=cores, on_done=on_done, checkpoint=folder
            )
            table = study.table
            table = table[table["parameter"] == spec.parameter]
            table.insert(0, "query", name)
            frames.append(table)
    return PlanResult(spec, concat(frames, ignore_index=True), notes)


def _study_plan(spec: PlanSpec, query: Any) -> tuple[StudyPlan, str]:
    """Return the study of one query, with a note about its naive analysis."""
    base = spec.parameter.split("[")[0]

    def make(comparators: tuple[str, ...]) -> StudyPlan:
        return make_plan(
            spec.model,
            functools.partial(spec.mechanism_for, query),
            epsilons=spec.epsilons,
            n_records=spec.n_records,
            true_parameters=spec.true_parameters,
            records=None,
            interval=spec.interval,
            samplers=("default",),
            comparators=comparators,
            parameters=[base],
            random_seed=spec.random_seed,
        )

    study_plan = make(spec.comparators)
    if spec.parameter not in study_plan.labels:
        raise ValueError(
            f"parameter must be one of {', '.join(study_plan.labels)}; got {spec.parameter!r}"
        )
    if "naive" not in spec.comparators:
        return study_plan, ""
    note = naive_note(spec.model, simulate(study_plan, (0, 0, 0))[2])
    if note.startswith("There is no"):
        study_plan = make(tuple(c for c in spec.comparators if c != "naive"))
    return study_plan, note
