"""The curator's question before a release: which epsilon and which query are good enough.

A plan is a TOML file. It names a model of the records, one or more candidate queries, a mechanism,
and the width that the analyst's interval should have:

    [plan]
    parameter = "mean"              # whose interval; of a vector: "coefficients[x1]"
    width = 4.0                     # the wanted width
    unit = "years"                  # optional, for the words and the picture
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

`plan` simulates releases for every query, epsilon and number of records (`noiseaware.study`),
together with the analysis without privacy and the naive one, which takes noisy numbers as exact.
"""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware import mechanisms, models, queries
from noiseaware.baselines import naive_note
from noiseaware.basics.arguments import whole_number
from noiseaware.basics.files import write_table, write_whole
from noiseaware.basics.numerals import numeral, tick_texts
from noiseaware.basics.text_files import printable
from noiseaware.contract import Mechanism, Model, Query, model_abilities
from noiseaware.documents.model_file import read_toml
from noiseaware.registry import nearest
from noiseaware.studies.replicate import Plan as StudyPlan
from noiseaware.studies.replicate import read_baselines, simulate
from noiseaware.studies.run import make_plan, run_plan
from noiseaware.studies.tasks import bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["PlanResult", "PlanSpec", "plan", "prepare", "read_plan"]

_NEEDS: dict[str, set[str]] = {
    "Laplace": set(),
    "DiscreteLaplace": set(),
    "Gaussian": {"delta"},
    "DiscreteGaussian": {"delta"},
}
"""The noise types that a plan can name, and their arguments besides epsilon."""

COLOURS = ("#2b6ca3", "#c7662b", "#3d8f4f", "#8a5aa8", "#b03a5b", "#6b6b2b")
OURS = "noise-aware"
"""The name of the default sampler in a plan."""
DRAWN = {
    OURS: ("o-", OURS),
    "naive": ("x--", "naive (noisy numbers taken as exact)"),
    "non-private": ("k:", "non-private"),
    "bootstrap": ("s-.", "parametric bootstrap"),
    "debiased-bootstrap": ("d-.", "debiased bootstrap"),
}
"""The style of each method, and its name in the legend."""


@dataclass(frozen=True)
class PlanSpec:
    """The content of a plan file.

    Attributes
    ----------
    model
        What generates the records.
    queries
        The candidate queries, by name.
    mechanism
        `type`, and `delta` and `neighbours` if needed.
    parameter, width, unit
        The scalar of interest, the largest acceptable width of its interval (None: any), its unit.
    epsilons, n_records
        The values to try.
    true_parameters
        The parameters that generate the records, or None for draws from the prior.
    interval, replicates, baselines, random_seed
        As in `noiseaware.study`.
    """

    model: Model
    queries: Mapping[str, Query]
    mechanism: Mapping[str, Any]
    parameter: str
    epsilons: tuple[float, ...]
    n_records: tuple[int, ...]
    width: float | None = None
    unit: str = ""
    true_parameters: Mapping[str, Any] | None = None
    interval: float = 0.9
    replicates: int = 40
    baselines: tuple[str, ...] = ("naive", "non-private")
    random_seed: int = 1

    def mechanism_for(self, query: Query, epsilon: float) -> Mechanism:
        """Return the mechanism that would release this query with this epsilon."""
        arguments = {key: value for key, value in self.mechanism.items() if key != "type"}
        return getattr(mechanisms, self.mechanism["type"])(query, epsilon=epsilon, **arguments)


# ------------------------------------------------------------------ the file


def read_plan(path: str | Path) -> PlanSpec:
    """Read a plan from a TOML file.

    Raises
    ------
    ValueError
        In one line: the file, the key, what is wrong with it and what would be right.
    """
    return read_toml(path, _spec)


def _spec(content: dict[str, Any]) -> PlanSpec:
    tables = ("plan", "model", "true_parameters", "mechanism", "queries")
    for key in content:
        if key not in tables:
            raise ValueError(f"unknown table [{key}]{nearest(key, tables)}")
    for key in ("plan", "model", "queries"):
        if not isinstance(content.get(key), dict):
            raise ValueError(f"the table [{key}] is missing")
    if not content["queries"]:
        raise ValueError("[queries] must hold at least one query, such as [queries.sum]")
    model, asked = models.from_dict(content["model"]), {}
    for name, entries in content["queries"].items():
        with _about(name):
            asked[name] = queries.from_dict(entries)
    return PlanSpec(
        model=model,
        queries=asked,
        mechanism=_mechanism(content.get("mechanism", {"type": "Laplace"})),
        true_parameters=_true_parameters(content.get("true_parameters")),
        **_settings(content["plan"]),
    )


def _settings(entries: dict[str, Any]) -> dict[str, Any]:
    readers = {
        "parameter": _text,
        "width": _positive,
        "unit": _text,
        "epsilons": lambda name, value: tuple(_positive(name, e) for e in _list(name, value)),
        "n_records": lambda name, value: tuple(_list(name, value)),
        "baselines": lambda name, value: read_baselines(_list(name, value)),
    }
    known = (*readers, "interval", "replicates", "random_seed")  # the study checks the last three
    old = {"comparators": "baselines"}  # in plans of 0.1.0
    entries = {old.get(key, key): value for key, value in entries.items()}
    for key in entries:
        if key not in known:
            raise ValueError(f"unknown key {key!r} in [plan]{nearest(key, known)}")
    for key in ("parameter", "epsilons", "n_records"):
        if key not in entries:
            raise ValueError(f"{key} is missing in [plan]")
    return {
        key: readers[key](key, value) if key in readers else value for key, value in entries.items()
    }


@contextmanager
def _about(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"[queries.{name}]: {error}") from None


def _mechanism(entries: Any) -> dict[str, Any]:
    kind = entries.get("type") if isinstance(entries, dict) else None
    if kind not in _NEEDS:
        raise ValueError(f"type in [mechanism] must be one of {', '.join(_NEEDS)}; got {kind!r}")
    allowed = {"type", "neighbours"} | _NEEDS[kind]
    for key in entries:
        if key not in allowed:
            wanted = f"{', '.join(sorted(allowed))} for {kind}"
            raise ValueError(f"[mechanism] may hold {wanted}; got {key!r}")
    for key in _NEEDS[kind]:
        if key not in entries:
            raise ValueError(f"{key} is missing in [mechanism]: {kind} noise needs one")
    return dict(entries)


def _true_parameters(entries: Any) -> dict[str, np.ndarray] | None:
    if entries is None:
        return None
    if not isinstance(entries, dict):
        raise ValueError(f"true_parameters must be a table, [true_parameters]; got {entries!r}")
    found = {}
    for name, value in entries.items():
        try:
            found[name] = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} in [true_parameters] must be a number, or a list of numbers; got {value!r}"
            ) from None
    return found


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


# ------------------------------------------------------------------ the result


@dataclass(frozen=True)
class PlanResult:
    """The result of a plan.

    Attributes
    ----------
    spec
        The plan.
    table
        A row for each query, number of records, epsilon and method: width of the interval,
        coverage with its binomial error, RMSE, ESS.
    notes
        How the naive analysis was made for each query, or why it is missing; empty if it was not
        requested.
    """

    spec: PlanSpec
    table: DataFrame
    notes: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def answers(self) -> list[str]:
        """The answer for each number of records, in words."""
        if self.spec.width is None:
            return ["No width was asked for: see the table."]
        words = [self._answer(n, self.spec.width) for n in self.spec.n_records]
        prior = _prior_width(self.spec)
        if self.spec.width > prior:
            words.append(
                f"The wanted width, {self.spec.width:,g}, is more than that of the prior alone, "
                f"{numeral(prior)}: is it in other units, such as percent for a share?"
            )
        return words

    def _part(self, method: str, n_records: int) -> DataFrame:
        table = self.table
        return table[(table["method"] == method) & (table["n_records"] == n_records)]

    def _answer(self, n: int, width: float) -> str:
        unit = f" {self.spec.unit}" if self.spec.unit else ""

        def said(number: float) -> str:
            return numeral(number) + unit

        wanted = f"{width:,g}{unit}"
        ours = self._part(OURS, n)
        enough = ours[ours["width"] <= width]
        if len(enough):
            best = enough.sort_values(["epsilon", "width"]).iloc[0]
            words = (
                f"epsilon = {best['epsilon']:g} with {best['query']!r} is the smallest tried "
                f"that gives {self.spec.interval:.0%} intervals of a mean width of at most "
                f"{wanted} (it gives {said(best['width'])}, coverage "
                f"{best['coverage']:.2f} ± {best['coverage_error']:.2f})."
            )
            if best["epsilon"] == min(self.spec.epsilons):
                words += " Smaller ones were not tried."
        else:
            best = ours.sort_values("width").iloc[0]
            words = (
                f"no epsilon and query that was tried gives a mean width of {wanted}; "
                f"the closest is epsilon = {best['epsilon']:g} with {best['query']!r}, "
                f"{said(best['width'])}."
            )
        open_data = self._part("non-private", n)
        if len(open_data):
            words += f" Without privacy it would be {said(open_data['width'].mean())}."
        return f"With {n:,} records: {words}"

    def figure(self) -> Figure:
        """Draw width and coverage against epsilon, a column for each number of records."""
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False}):  # a name from a file is no formula
            return self._figure()

    def _figure(self) -> Figure:
        from matplotlib.figure import Figure

        spec = self.spec
        columns = len(spec.n_records)
        figure = Figure(figsize=(max(7.0, 4.2 * columns + 0.8), 7.0), layout="constrained")
        axes = figure.subplots(2, columns, squeeze=False, sharex=True, sharey="row")
        for n, (top, bottom) in zip(spec.n_records, axes.T, strict=True):
            self._draw(n, top, bottom)
            top.set_title(f"{n:,} records")
            bottom.set_xlabel("epsilon")
            bottom.axhline(spec.interval, color="black", linewidth=0.8)
            bottom.set_ylim(-0.02, 1.05)
            if spec.width is not None:
                label = "width wanted; coverage promised"
                top.axhline(spec.width, color="black", linewidth=0.8, label=label)
        self._scales(axes[0, 0])
        unit = f", {spec.unit}" if spec.unit else ""
        title = printable(f"Width and coverage of the intervals of “{spec.parameter}”{unit}")
        figure.suptitle(textwrap.fill(title, 13 * columns + 47))
        axes[0, 0].set_ylabel(f"mean width of {spec.interval:.0%} intervals")
        axes[1, 0].set_ylabel("coverage")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        labels = [textwrap.fill(printable(label), 72) for label in labels]
        columns = 1 if columns == 1 else 2
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)
        figure.set_figheight(5.8 + 0.24 * math.ceil(len(labels) / columns))
        return figure

    def _scales(self, ax: Any) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

        plain = FuncFormatter(lambda value, position: tick_texts([value])[0])
        epsilons = sorted(self.spec.epsilons)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(FixedLocator(epsilons[:: math.ceil(len(epsilons) / 8)]))
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(plain)
            axis.set_minor_formatter(NullFormatter())

    def _draw(self, n: int, top: Any, bottom: Any) -> None:
        for q, query in enumerate(self.spec.queries):
            for method in (OURS, *self.spec.baselines):
                style, label = DRAWN[method]
                colour: dict[str, str] = {}
                if method != "non-private":
                    colour, label = {"color": COLOURS[q % len(COLOURS)]}, f"{label}: {query}"
                elif q:
                    continue  # it does not depend on the query
                part = self._part(method, n)
                part = part[part["query"] == query].sort_values("epsilon")
                x = part["epsilon"]
                top.plot(x, part["width"], style, label=label, **colour)
                bottom.errorbar(
                    x, part["coverage"], part["coverage_error"], fmt=style, capsize=2, **colour
                )

    def write(self, out: str | Path) -> list[Path]:
        """Write plan.csv, plan.png and plan.svg into a directory; return their paths."""
        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        table, png, svg = (out / f"plan.{ending}" for ending in ("csv", "png", "svg"))
        write_table(table, self.table)
        figure = self.figure()
        write_whole(png, lambda part: figure.savefig(part, dpi=110))
        write_whole(svg, lambda part: figure.savefig(part, metadata={"Date": None}))
        return [table, png, svg]


def _prior_width(spec: PlanSpec) -> float:
    """Return the width of the interval under the prior; NaN for a derived quantity."""
    rng = np.random.default_rng(0)
    for parameter in spec.model.parameters:
        if spec.parameter in parameter.labels:
            place = parameter.labels.index(spec.parameter)
            thetas = [spec.model.sample_prior(rng) for _ in range(1000)]
            drawn = [np.ravel(theta[parameter.name])[place] for theta in thetas]
            tails = (0.5 - spec.interval / 2.0, 0.5 + spec.interval / 2.0)
            return float(np.ptp(np.quantile(drawn, tails)))
    return math.nan


# ------------------------------------------------------------------ the simulation


@dataclass(frozen=True)
class Prepared:
    """A checked plan: the study of each query, and notes on the naive analyses."""

    spec: PlanSpec
    studies: dict[str, StudyPlan]
    notes: dict[str, str]


def prepare(spec: PlanSpec | str | Path) -> Prepared:
    """Check a plan by releasing every query once.

    Raises
    ------
    ValueError
        If the plan file cannot be read, or a query does not fit the model.
    """
    if not isinstance(spec, PlanSpec):
        spec = read_plan(spec)
    whole_number("replicates", spec.replicates)
    _check_names(spec)
    prepared = Prepared(spec, {}, {})
    for name, query in spec.queries.items():
        with _about(name):
            _add_study(prepared, name, query)
    return prepared


def plan(
    spec: Prepared | PlanSpec | str | Path,
    *,
    cores: int | None = None,
    progressbar: bool = True,
    checkpoint: str | Path | None = None,
) -> PlanResult:
    """Simulate releases for every query, epsilon and number of records of a plan.

    Parameters
    ----------
    spec : PlanSpec or path
        A plan, its TOML file, or the result of `prepare`.
    cores, progressbar, checkpoint
        As in `noiseaware.study`.

    Returns
    -------
    PlanResult
        With `table`, `answers`, `figure()` and `write(directory)`.
    """
    from pandas import concat

    prepared = spec if isinstance(spec, Prepared) else prepare(spec)
    asked = prepared.spec
    frames = []
    total = len(asked.queries) * asked.replicates * len(asked.epsilons) * len(asked.n_records)
    with bar("simulated releases", total, progressbar) as advance:
        for number, (name, study) in enumerate(prepared.studies.items()):
            folder = None if checkpoint is None else Path(checkpoint) / f"query-{number}"
            table = run_plan(study, asked.replicates, cores, advance, folder).table
            table = table[table["parameter"] == asked.parameter]
            table = table.assign(method=table["method"].replace("default", OURS))
            table.insert(0, "query", name)
            frames.append(table)
    return PlanResult(asked, concat(frames, ignore_index=True), prepared.notes)


def _check_names(spec: PlanSpec) -> None:
    shown = model_abilities(spec.model).shown
    labels = [label for parameter in shown for label in parameter.labels]
    if spec.parameter not in labels:
        raise ValueError(f"parameter must be one of {', '.join(labels)}; got {spec.parameter!r}")
    names = [parameter.name for parameter in spec.model.parameters]
    given = names if spec.true_parameters is None else list(spec.true_parameters)
    if set(given) != set(names):
        raise ValueError(
            f"[true_parameters] must hold {', '.join(names)}; got {', '.join(given) or 'nothing'}"
        )


def _add_study(prepared: Prepared, name: str, query: Query) -> None:
    """Add the study of one query, and a note on its naive analysis, which may be missing."""
    spec = prepared.spec
    study = make_plan(
        spec.model,
        functools.partial(spec.mechanism_for, query),
        epsilons=spec.epsilons,
        n_records=spec.n_records,
        true_parameters=spec.true_parameters,
        interval=spec.interval,
        baselines=spec.baselines,
        parameters=[spec.parameter.split("[")[0]],
        random_seed=spec.random_seed,
    )
    if "naive" in spec.baselines:
        note = prepared.notes[name] = naive_note(spec.model, simulate(study, (0, 0, 0))[2])
        if note.startswith("There is no"):
            study = replace(study, baselines=tuple(b for b in study.baselines if b != "naive"))
    prepared.studies[name] = study
