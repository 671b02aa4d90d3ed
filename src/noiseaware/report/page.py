"""The content of the page: from a posterior to the variables of the template `page.html`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from noiseaware import cell_plots, plots
from noiseaware.basics.described import query_words
from noiseaware.basics.files import write_whole
from noiseaware.basics.text_files import for_a_page
from noiseaware.contract import Model, mechanism_abilities, model_abilities
from noiseaware.documents import stored
from noiseaware.mechanisms.ready import mechanism_words
from noiseaware.release import Release
from noiseaware.report.numbers import ENDS, PROBABILITY, Number, number, percent, share_of_draws
from noiseaware.report.parts import DATABASES, Parts, variance_parts
from noiseaware.report.pictures import draw
from noiseaware.report.rows import Row, all_picture, answer, comparison, picture
from noiseaware.report.words import promise
from noiseaware.results import checks
from noiseaware.results.databases import column_names, imputed
from noiseaware.results.estimates import estimates
from noiseaware.results.scalars import Scalar, in_units, pick_scalars, shown_scalars
from noiseaware.results.units import Units

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["write_report"]

PICTURED = 12  # parameters of interest that get pictures of their own
ROWS = 200  # rows of a folded table; the file has the rest

LITTLE = 0.75
"""The release says little about a parameter if the prior gave its 90% posterior interval more than
this probability."""

LEVELS = 12
"""An integer column of imputed records with at most this many values is shown value by value."""


def write_report(
    posterior: DataTree,
    path: str | Path,
    *,
    title: str | None = None,
    question: str | None = None,
    command: str | None = None,
    var_names: Sequence[str] | str | None = None,
    model: Model | None = None,
    release: Release | None = None,
    units: Mapping[str, str] | None = None,
    scales: Mapping[str, float] | None = None,
) -> Path:
    """Write a posterior as one HTML page for readers who do not know MCMC.

    Its sections: the answer, in one sentence per parameter; the posterior compared with the prior
    and the naive analysis, which treats the noisy numbers as exact; the sources of uncertainty;
    what the release promises; the checks; the chains; the imputed databases; how it was made. See
    `docs/report.md`.

    Parameters
    ----------
    posterior : DataTree
        The result of `sample` or `load`. With imputed databases (`sample(..., keep_records=25)`)
        the report shows how much of the uncertainty is due to the privacy noise.
    path : str or Path
        Where to write the page.
    title, question : str, optional
        The heading, and the question asked of the data.
    command : str, optional
        The command that made the posterior, to show on the page.
    var_names : str or sequence of str, optional
        The parameters of interest, shown first; None takes those that the model lists first. The
        others are in tables that unfold.
    model, release : optional
        Needed if they use classes of your own, which the posterior cannot hold.
    units, scales : mapping, optional
        The units of parameters or of their entries, such as ``{"coefficients[x1]": "years"}``, and
        the divisors of the numbers shown; see `in_units`.

    Returns
    -------
    Path
        The file.
    """
    posterior = in_units(posterior, units, scales)
    said, unit = stored.wishes_of(posterior), Units.of(posterior).unit
    main = pick_scalars(posterior, said.parameters if var_names is None else var_names)
    about = _list_of([scalar.variable for scalar in main])
    text = _fill(
        title=title or said.title or "What a private release says",
        question=question or said.question or f"What does the release say about {about}?",
        command=command or said.command,
        probability=f"{PROBABILITY:.0%}",
        answers=[answer(scalar) for scalar in main],
        unit=unit,
        **_against_naive(posterior, main, model, release),
        **_sources(posterior, main, model),
        **_release(posterior, release),
        **_verdicts(posterior),
        traces=[_trace(posterior, scalar) for scalar in main[:PICTURED]],
        acceptance=_acceptance(posterior),
        imputed=_imputed(posterior),
        cells=_cells(posterior),
        made=_made(posterior),
        code=_code(posterior),
        model_json=_pretty(posterior.attrs.get("model_json", "")),
        release_json=_pretty(posterior.attrs.get("release_json", "")),
    )
    path = Path(path)
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))
    return path


def _fill(**names: Any) -> str:
    import jinja2

    here = files("noiseaware.report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string((here / "page.html").read_text(encoding="utf-8"))
    css = Markup((here / "page.css").read_text(encoding="utf-8"))
    return for_a_page(template.render(css=css, **names))


def _list_of(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _against_naive(
    posterior: DataTree, main: list[Scalar], model: Model | None, release: Release | None
) -> dict[str, Any]:
    """Return the rows of the tables, with the naive analysis or the reason why there is none."""
    naive: dict[str, np.ndarray] | None = None
    try:
        note = stored.naive_note(posterior, model, release)
        naive = stored.naive_draws(posterior, model, release)
    except (ValueError, TypeError, NotImplementedError) as error:
        note = str(error)
    rows = [Row.of(scalar, naive) for scalar in main]
    everything = [Row.of(scalar, naive) for scalar in shown_scalars(posterior)]
    more = len(everything) > len(main)
    return {
        "has_naive": naive is not None,
        "naive_words": note,
        "rows": rows,
        "pictures": [picture(row) for row in rows[:PICTURED]],
        "comparison": comparison(rows[:PICTURED]) if naive is not None else [],
        "all_rows": everything[:ROWS] if more else [],
        "all_picture": all_picture(everything) if more else None,
        "hidden": max(0, len(everything) - ROWS),
    }


def _sources(posterior: DataTree, main: list[Scalar], model: Model | None) -> dict[str, Any]:
    """Return the parts of the variance, or the reason why they are not known."""
    before = {scalar.label: _prior_words(scalar) for scalar in main}
    try:
        can = model_abilities(stored.model_of(posterior, model)).update_parameters is not None
        found = variance_parts(posterior, model) if can else {}
        missing = "" if can else "it is not computed for this model"
    except (ValueError, TypeError) as error:
        missing = str(error)
    if missing:
        return {"sources": [], "sources_missing": missing, "prior_words": before}
    kept = posterior["latent_records"].sizes
    return {
        "sources": [_source(scalar, found[scalar.label], before[scalar.label]) for scalar in main],
        "sources_missing": "",
        "prior_words": before,
        "databases": min(DATABASES, kept["chain"] * kept["draw"]),
    }


def _prior_words(scalar: Scalar) -> dict[str, Any] | None:
    if scalar.prior is None or len(scalar.prior) == 0:
        return None
    low, high = np.quantile(scalar.draws, ENDS)
    share = float(((scalar.prior >= low) & (scalar.prior <= high)).mean())
    shown = share_of_draws(share, len(scalar.prior))
    words = Number(f"prior probability {scalar.label}", share, shown)
    return {"share": words, "little": share > LITTLE}


def _source(scalar: Scalar, parts: Parts, prior: dict[str, Any] | None) -> dict[str, Any]:
    share, label = parts.share, scalar.label
    variances = (parts.sampling, parts.total, parts.prior)
    exact, private, before = (math.sqrt(variance) / scalar.scale for variance in variances)
    return {
        "label": label,
        "sampling": Number(f"sampling share {label}", 1 - share, percent(1 - share)),
        "noise": Number(f"noise share {label}", share, percent(share)),
        "noise_width": round(100 * share, 1),
        "exact_sd": Number(f"exact sd {label}", exact, number(exact, exact)),
        "private_sd": Number(f"private sd {label}", private, number(private, private)),
        "prior_sd": number(before, before) if math.isfinite(before) else "",
        "prior": prior,
        "slow": parts.slow,
    }


def _release(posterior: DataTree, release: Release | None) -> dict[str, Any]:
    observed = posterior["observed_data"].to_dataset()["release"]
    values = []
    for name, value in zip(observed["released"].values, observed.values.tolist(), strict=True):
        shown = "withheld" if math.isnan(value) else f"{value:.6g}".replace("-", "−")
        values.append((str(name), Number(f"released {name}", float(value), shown)))
    guarantee = posterior.attrs.get("guarantee", "")  # in words
    try:
        made = stored.release_of(posterior, release)
        asked, how = query_words(made.query), mechanism_words(made.mechanism)
        meaning = promise(mechanism_abilities(made.mechanism).guarantee)
    except ValueError as error:
        asked, how, meaning = [f"Not known: {error}."], [], []
    return {
        "n_records": stored.number_of_records(posterior),
        "kind": stored.kind_of_records(posterior),
        "released": values[:ROWS],
        "released_hidden": max(0, len(values) - ROWS),
        "asked": asked,
        "how": how,
        "guarantee": "" if guarantee.startswith("no promise") else guarantee,
        "meaning": meaning,
    }


STATES = {"passed": ("✓", "Passed"), "failed": ("✗", "Failed"), "note": ("i", "For information")}
"""A symbol and a word for the state of a check."""

ACCEPTANCE = (
    "The sampler proposes new values for single records and accepts or rejects them. A privacy "
    "promise limits how much one record can matter, and so how low the acceptance rate can be."
)

MEANINGS = {
    "chains agree (R-hat)": (
        "Several chains explore the answer independently, from different starts. R-hat "
        "compares the variation between chains with that within them: at 1 they agree."
    ),
    "effective draws (ESS)": (
        "Successive draws of a chain resemble one another. The effective sample size (ESS) says "
        "how many independent draws they are worth: for the centre of the answer (bulk) and for "
        "the ends of its intervals (tail)."
    ),
    "no other mode": (
        "Short runs from other starting points look for answers that the chains have missed."
    ),
    "the prior fits the release": (
        "Releases simulated from the prior should look like this one. If they do not, the prior is "
        "in the wrong units or too narrow."
    ),
    "the release fits the model": (
        "If no database under the model could plausibly have given these numbers with the stated "
        "noise, the model or the description of the release is wrong."
    ),
    "acceptance against exp(-epsilon)": ACCEPTANCE,
    "acceptance (for information)": ACCEPTANCE,
}
"""What each check means, by its name."""


def _verdicts(posterior: DataTree) -> dict[str, Any]:
    found, rows = checks.check(posterior), []
    for verdict in found.verdicts:
        state = "passed" if verdict.passed else "failed"
        if "for information" in verdict.name or not verdict.checked:
            state = "note"
        rows.append((verdict, state, *STATES[state], MEANINGS.get(verdict.name, "")))
    return {"verdicts": rows, "passed": bool(found)}


def _trace(posterior: DataTree, scalar: Scalar) -> list[Markup]:
    label, (chains, length) = scalar.label, scalar.draws.shape
    trace = f"Trace of {label}: {length} draws of each of {chains} chains, in order."
    rank = f"Ranks of the draws of {label}: a row of bars for each of {chains} chains."
    return [
        draw(1.6, trace, lambda ax: plots.plot_trace(posterior, label, axes=ax)),
        draw(1.6, rank, lambda ax: plots.plot_rank(posterior, label, axes=ax)),
    ]


def _acceptance(posterior: DataTree) -> dict[str, Any] | None:
    stats = posterior["sample_stats"]
    if "acceptance_rate" not in stats:
        return None
    rate = float(stats["acceptance_rate"].mean())
    epsilon = float(posterior.attrs.get("change_epsilon", math.nan))
    words = f"Share of accepted proposals over the draws, {rate:.1%} on average"
    lowest = bound = None
    if "lowest_log_acceptance" in stats:
        value = math.exp(float(stats["lowest_log_acceptance"].min()))
        lowest = Number("lowest acceptance", value, f"{value:.3g}")
        words += f"; the lowest probability was {lowest.text}"
    if not math.isnan(epsilon):
        bound = Number("acceptance bound", math.exp(-epsilon), f"{math.exp(-epsilon):.3g}")
        words += f", the bound is {bound.text}"
    return {
        "rate": Number("acceptance rate", rate, percent(rate)),
        "lowest": lowest,
        "bound": bound,
        "picture": draw(2.1, f"{words}.", lambda ax: plots.plot_acceptance(posterior, ax=ax)),
    }


TOP = 10  # cells of a ranking


def _cells(posterior: DataTree) -> dict[str, Any] | None:
    """Return pictures of the cells' estimates; None if the records are not cells."""
    if "record_estimates" not in posterior.children:
        return None
    ranked = "latent_records" in posterior.children
    n = posterior["record_estimates"].sizes["record"]
    top = min(TOP, n)
    table = estimates(posterior, ci_prob=PROBABILITY, top=top if ranked else None)
    share = float(table["noise_share"].median())
    words = f"The {n} cells by their estimates, with intervals and the released numbers."
    pictures = [draw(2.6, words, lambda ax: cell_plots.draw_shrinkage(ax, table, PROBABILITY))]
    words = (
        "How much of the variance of each cell the parameters do not explain; the median is "
        f"{share:.0%}."
    )
    pictures.append(draw(2.0, words, lambda ax: cell_plots.draw_noise_shares(ax, table)))
    if ranked:
        words = f"The probability of being among the {top} largest, for the likeliest cells."
        bars = min(int((table["top"] >= cell_plots.LEAST).sum()), cell_plots.BARS)
        height = 0.8 + 0.14 * bars
        pictures.append(draw(height, words, lambda ax: cell_plots.draw_top(ax, table, top)))
    return {
        "count": n,
        "pictures": pictures,
        "share": Number("noise share of cells", share, percent(share)),
        "ranked": ranked,
    }


def _imputed(posterior: DataTree) -> dict[str, Any] | None:
    """Return a summary of each column of the imputed databases: shares, or four statistics."""
    if "latent_records" not in posterior.children:
        return None
    values = imputed(posterior, as_frame=None)
    count, n = values.shape[:2]
    levels: list[tuple[str, ...]] = []
    rows: list[tuple[str, ...]] = []
    columns = np.moveaxis(values.reshape(count, n, -1), 2, 0)
    for name, column in zip(column_names(posterior)[:ROWS], columns, strict=False):
        found = np.unique(column)
        if np.issubdtype(column.dtype, np.integer) and len(found) <= LEVELS:
            for level in found:
                share = (column == level).mean(axis=1)
                levels.append((name, str(level), _ranges(share, 100)))
        else:
            looks = (np.mean, np.std, np.min, np.max)
            rows.append((name, *(_ranges(look(column, axis=1)) for look in looks)))
    return {"count": count, "n": n, "levels": levels, "rows": rows}


def _ranges(values: np.ndarray, factor: float = 1.0) -> str:
    """Return the median over databases, with the interval unless it is a single number."""
    low, middle, high = np.quantile(factor * values.astype(np.float64), [ENDS[0], 0.5, ENDS[1]])
    spread = (high - low) / 3.3
    unit = "%" if factor == 100 else ""
    if spread <= 1e-12 * abs(middle) + 1e-300:
        return f"{number(middle)}{unit}"
    a, b, c = (number(v, spread) for v in (low, middle, high))
    return f"{b}{unit} ({a} to {c})"


def _made(posterior: DataTree) -> list[tuple[str, str]]:
    attrs = posterior.attrs
    sizes = posterior["posterior"].sizes
    versions = json.loads(attrs.get("versions", "{}"))
    rows = [
        ("Made at", attrs.get("created_at", "")),
        ("Software", f"noiseaware {attrs.get('inference_library_version', '')}"),
        ("With", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("Model and prior", attrs.get("model", "")),
        ("Chains", str(sizes["chain"])),
        (
            "Draws of each chain",
            f"{sizes['draw']}, after {attrs.get('warmup', '?')} warm-up iterations",
        ),
        ("Databases kept from each chain", str(_kept(posterior))),
        ("Random seed", attrs.get("random_seed", "")),
        ("Moves of the sampler", attrs.get("moves", "")),
        ("Time taken", f"{float(attrs.get('sampling_time', math.nan)):.1f} seconds"),
    ]
    return [(name, value) for name, value in rows if value]


def _code(posterior: DataTree) -> str:
    attrs, sizes = posterior.attrs, posterior["posterior"].sizes
    model = attrs.get("model", "")
    model = f"na.models.{model}" if attrs.get("model_json") else f"...  # {model}"
    draws, warmup = attrs.get("draws", sizes["draw"]), attrs.get("warmup", 1000)
    return f"""import noiseaware as na

release = na.Release.from_json("release.json")
model = {model}
posterior = na.sample(
    model, release,
    draws={draws}, warmup={warmup}, chains={sizes["chain"]},
    random_seed={attrs.get("random_seed", 0)}, keep_records={_kept(posterior)},
)
na.write_report(posterior, "report.html")"""


def _kept(posterior: DataTree) -> int:
    kept = "latent_records" in posterior.children
    return posterior["latent_records"].sizes["draw"] if kept else 0


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=1) if text else ""
