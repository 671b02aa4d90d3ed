"""What the page says: from a posterior to the names that `page.html` fills in."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from noiseaware import checks, plots
from noiseaware.posterior import need_posterior
from noiseaware.report import parts as parts_module
from noiseaware.report.pictures import draw, forest
from noiseaware.report.words import (
    mechanism_words,
    number,
    percent,
    promise,
    query_words,
    share_of_draws,
    times,
)
from noiseaware.scalars import Scalar, all_scalars, pick_scalars

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["make_page"]

PROBABILITY = 0.9
ENDS = (0.05, 0.95)

PICTURED = 12
"""Parameters of interest that get pictures of their own."""

ROWS = 200
"""Rows of a folded table; the file has the rest."""

FOREST = 40
"""Rows of the picture of all intervals."""

LITTLE = 0.75
"""The release says little about a parameter if the prior gave the interval of the answer, which
has probability 0.9 now, this much before."""

LEVELS = 12
"""An integer column of imputed records with at most so many values is shown value by value."""


@dataclass(frozen=True)
class Number:
    """A number in the page: what is shown, and the value in full for a program that reads it."""

    what: str
    value: float
    text: str

    def __html__(self) -> str:
        return (
            f'<data class="number" data-what="{escape(self.what)}" value="{self.value!r}">'
            f"{escape(self.text)}</data>"
        )


@dataclass(frozen=True)
class Spread:
    """Median and interval of some draws of an entry."""

    low: Number
    middle: Number
    high: Number

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high.value - self.low.value


def make_page(
    posterior: DataTree,
    *,
    title: str | None = None,
    question: str | None = None,
    command: str | None = None,
    var_names: Sequence[str] | str | None = None,
    model: Any = None,
    release: Any = None,
) -> str:
    """Return the page; see `noiseaware.report.write_report`."""
    import jinja2

    need_posterior(posterior)
    if var_names is None:
        var_names = json.loads(posterior.attrs.get("report_parameters", "null"))
    main = pick_scalars(posterior, var_names)
    everything = all_scalars(posterior)
    naive, naive_words = _naive(posterior, model, release)
    verdicts = _verdicts(posterior)
    here = files("noiseaware.report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    question = question or posterior.attrs.get("report_question")
    asked = question or (f"What does the release say about {_list_of([e.variable for e in main])}?")
    return environment.from_string((here / "page.html").read_text(encoding="utf-8")).render(
        css=Markup((here / "page.css").read_text(encoding="utf-8")),
        title=title or posterior.attrs.get("report_title") or "What a private release says",
        question=asked,
        probability=f"{PROBABILITY:.0%}",
        answers=[_answer(entry) for entry in main],
        passed=all(v["passed"] for v in verdicts),
        verdicts=verdicts,
        naive_words=naive_words,
        has_naive=naive is not None,
        pictures=[_against_naive(entry, naive) for entry in main[:PICTURED]],
        comparison=_comparison(main, naive),
        rows=[_row(entry, naive) for entry in main],
        all_rows=[_row(entry, naive) for entry in everything[:ROWS]] if _more(main, everything)
        else [],
        hidden=max(0, len(everything) - ROWS),
        all_picture=_all_picture(everything, naive) if _more(main, everything) else None,
        **_sources(posterior, main, everything, model),
        **_release(posterior, release),
        traces=[_trace(posterior, entry) for entry in main[:PICTURED]],
        acceptance=_acceptance(posterior),
        imputed=_imputed(posterior),
        made=_made(posterior),
        command=command or posterior.attrs.get("command"),
        code=_code(posterior),
        model_json=_pretty(posterior.attrs.get("model_json", "")),
        release_json=_pretty(posterior.attrs.get("release_json", "")),
    )  # fmt: skip


def _more(main: list[Scalar], everything: list[Scalar]) -> bool:
    return len(everything) > len(main)


# The answer, and the three analyses beside one another.


def _spread(what: str, label: str, values: np.ndarray) -> Spread | None:
    finite = values[np.isfinite(values)]
    if len(finite) < max(1, len(values) // 2):
        return None
    low, middle, high = (float(v) for v in np.quantile(finite, [ENDS[0], 0.5, ENDS[1]]))
    digits = (high - low) / 3.3  # about a standard deviation, and sound under heavy tails
    made = [
        Number(f"{what} {place} {label}", value, number(value, digits))
        for place, value in (("low", low), ("middle", middle), ("high", high))
    ]
    return Spread(*made)


def _answer(entry: Scalar) -> dict[str, Any]:
    draws = entry.draws.ravel()
    # Whether zero is a question at all is a matter of what could have been, not of what came out.
    possible = draws if entry.prior is None else entry.prior
    signed = bool((possible < 0).any() and (possible > 0).any())
    above = float((draws > 0).mean())
    return {
        "label": entry.label,
        "spread": _spread("answer", entry.label, draws),
        "above": Number(f"above zero {entry.label}", above, share_of_draws(above, len(draws)))
        if signed
        else None,
    }


def _naive(
    posterior: DataTree, model: Any, release: Any
) -> tuple[dict[str, np.ndarray] | None, str]:
    """Return the naive draws and how they were made, or None and why there are none."""
    try:
        drawn = parts_module.naive_draws(posterior, model, release)
        return drawn, parts_module.naive_note(posterior, model, release)
    except (ValueError, TypeError, NotImplementedError) as error:
        return None, str(error)


def _row(entry: Scalar, naive: dict[str, np.ndarray] | None) -> dict[str, Any]:
    other = None if naive is None else entry.of(naive)
    return {
        "label": entry.label,
        "posterior": _spread("posterior", entry.label, entry.draws.ravel()),
        "naive": None if other is None else _spread("naive", entry.label, other),
        "prior": None if entry.prior is None else _spread("prior", entry.label, entry.prior),
    }


def _against_naive(entry: Scalar, naive: dict[str, np.ndarray] | None) -> Markup:
    row = _row(entry, naive)
    described = [
        f"{name}: {spread.middle.text}, from {spread.low.text} to {spread.high.text}"
        for name in ("posterior", "naive", "prior")
        if (spread := row[name]) is not None
    ]
    other = None if naive is None else entry.of(naive)
    shown = plots._rows(entry, other)
    return draw(
        0.75 + 0.5 * len(shown),
        f"Densities of {entry.label}, one above the other. {'; '.join(described)} "
        f"(median, {PROBABILITY:.0%} interval).",
        lambda ax: plots._ridges(ax, entry, shown, PROBABILITY),
    )


def _comparison(main: list[Scalar], naive: dict[str, np.ndarray] | None) -> list[dict[str, str]]:
    """Return one sentence a parameter on what the naive analysis would have said."""
    if naive is None:
        return []
    sentences = []
    for entry in main[:PICTURED]:
        row = _row(entry, naive)
        ours, other = row["posterior"], row["naive"]
        if ours is None:
            continue
        if other is None:
            words = "the naive analysis has no answer: the noisy numbers are not of any database."
            sentences.append({"label": entry.label, "text": words})
            continue
        ratio = ours.width / other.width if other.width > 0 else math.inf
        if ratio == 0:  # one draw, or one value in all of them
            size = "the draws here are too few to compare its interval with"
        elif ratio > 1.15:
            size = (
                f"its interval is {times(ratio)} too narrow" if math.isfinite(ratio)
                else "it has no uncertainty at all"
            )  # fmt: skip
        elif ratio < 1 / 1.15:
            size = f"its interval is {times(1 / ratio)} as wide as it should be"
        else:
            size = "its interval is about as wide as it should be"
        inside = ((entry.draws > other.low.value) & (entry.draws < other.high.value)).mean()
        really = share_of_draws(float(inside), entry.draws.size)
        words = (
            f"the naive analysis says {other.middle.text}, from {other.low.text} to "
            f"{other.high.text}; {size}. It claims {PROBABILITY:.0%} for this interval; the "
            f"probability that the value is in it is {really}."
        )
        sentences.append({"label": entry.label, "text": words})
    return sentences


def _all_picture(entries: list[Scalar], naive: dict[str, np.ndarray] | None) -> Markup:
    shown = entries[:FOREST]
    others = [None if naive is None else entry.of(naive) for entry in shown]
    return draw(
        0.5 + 0.2 * len(shown),
        f"Medians and {PROBABILITY:.0%} intervals of {len(shown)} parameters; the table has the "
        "numbers.",
        forest(shown, others, ENDS),
    )


# Where the uncertainty comes from.


def _sources(
    posterior: DataTree, main: list[Scalar], everything: list[Scalar], model: Any
) -> dict[str, Any]:
    """Return the parts of the variance, or why they are not known."""
    before = {e.label: _prior_words(e) for e in everything}
    try:
        found = parts_module.variance_parts(posterior, model)
    except (ValueError, TypeError) as error:
        return {"sources": [], "sources_missing": str(error), "prior_words": before}
    return {
        "sources": [_source(entry, found[entry.label], before[entry.label]) for entry in main],
        "sources_missing": "",
        "prior_words": before,
        "databases": min(
            parts_module.DATABASES,
            posterior["latent_records"].sizes["chain"] * posterior["latent_records"].sizes["draw"],
        ),
    }


def _prior_words(entry: Scalar) -> dict[str, Any] | None:
    """Return the probability that the prior gave to the interval of the answer."""
    if entry.prior is None or len(entry.prior) == 0:
        return None
    low, high = np.quantile(entry.draws, ENDS)
    share = float(((entry.prior >= low) & (entry.prior <= high)).mean())
    return {
        "share": Number(
            f"prior probability {entry.label}", share, share_of_draws(share, len(entry.prior))
        ),
        "little": share > LITTLE,
    }


def _source(
    entry: Scalar, parts: parts_module.Parts, prior: dict[str, Any] | None
) -> dict[str, Any]:
    share = parts.share
    exact, private = math.sqrt(parts.sampling), math.sqrt(parts.total)
    return {
        "label": entry.label,
        "sampling": Number(f"sampling share {entry.label}", 1 - share, percent(1 - share)),
        "noise": Number(f"noise share {entry.label}", share, percent(share)),
        "noise_width": round(100 * share, 1),
        "exact_sd": Number(f"exact sd {entry.label}", exact, number(exact, exact)),
        "private_sd": Number(f"private sd {entry.label}", private, number(private, private)),
        "prior_sd": number(math.sqrt(parts.prior), math.sqrt(parts.prior))
        if math.isfinite(parts.prior)
        else "",
        "prior": prior,
        "slow": parts.slow,
    }


# The release.


def _release(posterior: DataTree, release: Any) -> dict[str, Any]:
    observed = posterior["observed_data"].to_dataset()["release"]
    values = [
        (str(name), Number(f"released {name}", float(value), _released(float(value))))
        for name, value in zip(observed["released"].values, observed.values, strict=True)
    ]
    n = int(posterior["constant_data"]["n_records"])
    try:
        made = parts_module.release_of(posterior, release)
        asked = query_words(made.query)
        how = mechanism_words(made.mechanism)
        meaning = promise(getattr(made.mechanism, "guarantee", None))
    except ValueError as error:
        asked, how, meaning = [f"Not known: {error}."], [], []
    return {
        "n_records": n,
        "released": values[:ROWS],
        "released_hidden": max(0, len(values) - ROWS),
        "asked": asked,
        "how": how,
        "guarantee": posterior.attrs.get("guarantee", ""),
        "meaning": meaning,
    }


def _released(value: float) -> str:
    return "withheld" if math.isnan(value) else f"{value:.6g}".replace("-", "−")


# The checks and the chains.


def _verdicts(posterior: DataTree) -> list[dict[str, Any]]:
    found = []
    for verdict in checks.check(posterior).verdicts:
        note = "for information" in verdict.name
        state = "note" if note else ("passed" if verdict.passed else "failed")
        found.append(
            {
                "name": verdict.name,
                "passed": verdict.passed,
                "state": state,
                "symbol": {"passed": "✓", "failed": "✗", "note": "i"}[state],
                "word": {"passed": "Passed", "failed": "Failed", "note": "To know"}[state],
                "message": verdict.message[:1].upper() + verdict.message[1:],
                "meaning": _meaning(verdict.name),
            }
        )
    return found


def _meaning(name: str) -> str:
    if "R-hat" in name:
        return (
            "Several chains explore the answer independently, from different starts. R-hat "
            "compares the differences between them with those inside each: at 1 they agree."
        )
    if "ESS" in name:
        return (
            "Draws of a chain resemble the ones before. The effective sample size (ESS) says how "
            "many independent draws they are worth: for the middle of the answer (bulk) and for "
            "the ends of its intervals (tail)."
        )
    if "fits" in name:
        return (
            "If no database of the model could have led to these numbers with the stated noise, "
            "the model or the statement about the release is wrong."
        )
    if "acceptance" in name:
        return (
            "The sampler proposes new content for single records and accepts or rejects it. A "
            "privacy promise limits how much one record can matter, and so how rarely a proposal "
            "is accepted."
        )
    return ""


def _trace(posterior: DataTree, entry: Scalar) -> dict[str, Any]:
    chains, length = entry.draws.shape
    return {
        "label": entry.label,
        "trace": draw(
            1.6,
            f"Trace of {entry.label}: {length} draws of {chains} chains in their order.",
            lambda ax: plots.plot_trace(posterior, entry.label, axes=ax),
        ),
        "rank": draw(
            1.6,
            f"Ranks of the draws of {entry.label}: a row of bars for each of {chains} chains.",
            lambda ax: plots.plot_rank(posterior, entry.label, axes=ax),
        ),
    }


def _acceptance(posterior: DataTree) -> dict[str, Any] | None:
    stats = posterior["sample_stats"]
    if "acceptance_rate" not in stats:
        return None
    rate = float(stats["acceptance_rate"].mean())
    epsilon = float(posterior.attrs.get("change_epsilon", math.nan))
    lowest = None
    if "lowest_log_acceptance" in stats:
        value = math.exp(float(stats["lowest_log_acceptance"].min()))
        lowest = Number("lowest acceptance", value, f"{value:.3g}")
    bound = None
    if not math.isnan(epsilon):
        bound = Number("acceptance bound", math.exp(-epsilon), f"{math.exp(-epsilon):.3g}")
    words = f"Share of accepted proposals over the draws, {rate:.1%} on average"
    words += "" if lowest is None else f"; the lowest probability was {lowest.text}"
    words += "" if bound is None else f", the bound is {bound.text}"
    return {
        "rate": Number("acceptance rate", rate, percent(rate)),
        "lowest": lowest,
        "bound": bound,
        "picture": draw(2.1, f"{words}.", lambda ax: plots.plot_acceptance(posterior, ax=ax)),
    }


# The imputed databases.


def _imputed(posterior: DataTree) -> dict[str, Any] | None:
    if "latent_records" not in posterior.children:
        return None
    kept = posterior["latent_records"]["records"].transpose("chain", "draw", "record", ...)
    values = kept.values.reshape(-1, *kept.shape[2:])
    count, n = values.shape[:2]
    values = values.reshape(count, n, -1)
    if "column" in kept.coords:
        names = [str(name) for name in kept["column"].values]
    else:
        names = [f"column {i + 1}" for i in range(values.shape[2])]
        names = ["value"] if len(names) == 1 else names
    levels, rows = [], []
    for place, name in enumerate(names[:ROWS]):
        column = values[:, :, place]
        found = np.unique(column)
        if np.issubdtype(column.dtype, np.integer) and len(found) <= LEVELS:
            for level in found:
                share = (column == level).mean(axis=1)
                levels.append({"name": name, "level": str(level), "share": _ranges(share, 100)})
        else:
            rows.append(
                {
                    "name": name,
                    "mean": _ranges(column.mean(axis=1)),
                    "sd": _ranges(column.std(axis=1)),
                    "least": _ranges(column.min(axis=1)),
                    "largest": _ranges(column.max(axis=1)),
                }
            )
    return {"count": count, "n": n, "levels": levels, "rows": rows}


def _ranges(values: np.ndarray, factor: float = 1.0) -> str:
    """Return the median over databases, and the interval if it is not one number."""
    low, middle, high = np.quantile(factor * values.astype(np.float64), [ENDS[0], 0.5, ENDS[1]])
    spread = (high - low) / 3.3
    unit = "%" if factor == 100 else ""
    if spread <= 1e-12 * abs(middle) + 1e-300:
        return f"{number(middle)}{unit}"
    a, b, c = (number(v, spread) for v in (low, middle, high))
    return f"{b}{unit} ({a} to {c})"


# How it was made.


def _made(posterior: DataTree) -> list[tuple[str, str]]:
    attrs = posterior.attrs
    sizes = posterior["posterior"].sizes
    versions = json.loads(attrs.get("versions", "{}"))
    kept = (
        posterior["latent_records"].sizes["draw"] if "latent_records" in posterior.children else 0
    )
    rows = [
        ("Made at", attrs.get("created_at", "")),
        ("Software", f"noiseaware {attrs.get('inference_library_version', '')}"),
        ("With", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("Model and prior", attrs.get("model", "")),
        ("Chains", str(sizes["chain"])),
        ("Draws of each chain", f"{sizes['draw']}, after {attrs.get('warmup', '?')} of warm-up"),
        ("Databases kept of each chain", str(kept)),
        ("Random seed", attrs.get("random_seed", "")),
        ("Moves of the sampler", attrs.get("moves", "")),
        ("Time taken", f"{float(attrs.get('sampling_time', math.nan)):.1f} seconds"),
    ]
    return [(name, value) for name, value in rows if value]


def _code(posterior: DataTree) -> str:
    """Return Python that makes the posterior again."""
    attrs, sizes = posterior.attrs, posterior["posterior"].sizes
    model = attrs.get("model", "")
    model = f"na.models.{model}" if attrs.get("model_json") else f"...  # {model}"
    kept = (
        posterior["latent_records"].sizes["draw"] if "latent_records" in posterior.children else 0
    )
    return "\n".join(
        [
            "import noiseaware as na",
            "",
            'release = na.Release.from_json("release.json")',
            f"model = {model}",
            "posterior = na.sample(",
            "    model, release,",
            f"    draws={attrs.get('draws', sizes['draw'])}, warmup={attrs.get('warmup', 1000)}, "
            f"chains={sizes['chain']},",
            f"    random_seed={attrs.get('random_seed', 0)}, keep_records={kept},",
            ")",
            'na.write_report(posterior, "report.html")',
        ]
    )


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=1) if text else ""


def _list_of(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
