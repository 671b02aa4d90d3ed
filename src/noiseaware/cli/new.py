"""`noiseaware new`: write a release file and a model file from the answers to a few questions."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from noiseaware.basics.arguments import as_labels
from noiseaware.basics.files import write_whole
from noiseaware.basics.text_files import printable
from noiseaware.cli.errors import BadInput, fail, reading

Answer = TypeVar("Answer")


class Published(NamedTuple):
    """What was published, according to the answers."""

    query: dict[str, Any]  # as a release file has it
    model: dict[str, Any]  # the keys of a model file: values, or pairs of a value and a comment
    assumes: str  # what the model takes the records to be, in a sentence
    n_records: int | None = None  # None if it is to be asked for
    times: int = 1  # what makes a published number a total: n, of a mean
    name: str | None = None  # of the published number, if it is not what the query calls it
    wanted: str | None = None  # what to ask for, if it is not the names of the numbers


def new(
    folder: Annotated[
        Path, typer.Argument(help="Where to write release.json and model.toml; created if needed.")
    ] = Path(),
) -> None:
    """Ask what was published, and write a release file and a model file for it.

    It asks for the kind of release, its bounds, the number of records, the noise and the numbers,
    and repeats a question after an impossible answer. For several columns, run it once for each.

    **Example**

    - `noiseaware new smoking`
    """
    from noiseaware.agreement.fit import check_fit
    from noiseaware.documents.model_file import read_model_file
    from noiseaware.release import Release

    release_file, model_file = folder / "release.json", folder / "model.toml"
    for path in (release_file, model_file):
        if path.exists():
            raise BadInput(f"{path} already exists; choose another folder")
    published = choose("What was published?", KINDS)()
    n, size = published.n_records, None
    if n is None:
        n = ask("How many records are there (? if not published)", number_or_unknown)
    if n is None:
        size = ask("What is the largest number there can be", whole)
    mechanism, values = _ask_noise(published)
    folder.mkdir(parents=True, exist_ok=True)
    with reading():
        release = Release(values, mechanism, n)
        release.to_json(release_file)
        text = _toml(published, size)
        write_whole(model_file, lambda part: part.write_text(text, encoding="utf-8"))
        read = read_model_file(model_file)
        check_fit(read.model, release, read.size)
    print(
        f"\nWritten: {release_file} and {model_file}. The model is {published.model['type']}: "
        f"{published.assumes}. Its priors are wide; adjust them to what you know. Then run:\n\n"
        f"  noiseaware fit {release_file} --model {model_file} --out {folder / 'posterior.nc'} "
        f"--report {folder / 'report.html'}"
    )


# ------------------------------------------------------------------ asking


def ask(question: str, read: Callable[[str], Answer]) -> Answer:
    """Ask until `read` accepts the answer, and show its error otherwise."""
    while True:
        print(f"{question}: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            print()
            fail("the input ended before all questions were answered; nothing was written")
        try:
            return read(line.strip())
        except (ValueError, TypeError) as error:
            print(f"  {printable(str(error))}")


def choose(question: str, choices: dict[str, Any], made: Callable[[Any], Any] | None = None) -> Any:
    """Ask for a choice by its number; return the choice, passed through `made` if given."""
    words, one = f"from 1 to {len(choices)}", list(choices.values())

    def read(text: str) -> Any:
        if text not in map(str, range(1, len(one) + 1)):
            raise ValueError(f"a number {words}; got {text!r}")
        chosen = one[int(text) - 1]
        return chosen if made is None else made(chosen)

    print(question, *(f"  {k}  {choice}" for k, choice in enumerate(choices, 1)), sep="\n")
    return ask(f"A number {words}", read)


def whole(text: str) -> int:
    """Read a positive integer."""
    text = text.replace(",", "").replace("_", "")
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"an integer of at least 1, such as 250; got {text!r}")
    return int(text)


def number_or_unknown(text: str) -> int | None:
    """Read a positive integer, or None for a question mark."""
    return None if text == "?" else whole(text)


def yes(text: str) -> bool:
    """Read yes or no."""
    if text.lower() not in ("y", "yes", "n", "no"):
        raise ValueError(f"y or n; got {text!r}")
    return text.lower().startswith("y")


def split(text: str) -> list[str]:
    """Split at spaces and commas; a comma that groups digits, as in 52,310, is dropped."""
    parts = (p.replace(",", "") if _GROUPED.fullmatch(p) else p for p in text.split())
    return " ".join(parts).replace(",", " ").split()


_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?,?")


def numbers(text: str, open_ends: bool = False) -> list[float]:
    """Read numbers separated by commas or spaces; with `open_ends` the ends may be infinite."""
    try:
        found = [float(part) for part in split(text)]
    except ValueError:
        found = []
    inside = found[1:-1] if open_ends else found
    if not found or not all(map(math.isfinite, inside)):
        raise ValueError(f"numbers with spaces between them, such as 37.2 40.5; got {text!r}")
    return found


def edges_of_bins(text: str) -> list[float]:
    """Read at least three increasing numbers; the ends may be infinite."""
    found = numbers(text, open_ends=True)
    finite = sum(map(math.isfinite, found))
    if len(found) < 3 or finite < 2 or not all(a < b for a, b in pairwise(found)):
        raise ValueError(f"at least 3 numbers, each larger than the last; got {text}")
    return found


def two(text: str) -> list[float]:
    """Read a lower and an upper bound."""
    found = numbers(text)
    if len(found) != 2 or not found[0] < found[1]:
        raise ValueError(f"two numbers on one line, the lower first, such as 0 100; got {text}")
    return found


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [part.strip() for part in text.split(",")]


# ------------------------------------------------------------------ what can be published


def _count() -> Published:
    return Published(
        {"type": "Count", "value": 1},
        {"type": "Bernoulli", "a": (1.0, "the prior of the share is Beta(a, b)"), "b": 1.0},
        "every record has it with the same probability, independently of the others",
        wanted="count (a number of records, not a share or a percentage)",
    )


def _levels() -> Published:
    n, labels = ask("How many kinds are there, or their names with commas", _number_or_names)
    labels = labels or _ask_labels(n)
    prior = (1.0, "the prior of the shares is Dirichlet(1, ..., 1)")
    return Published(
        {"type": "Histogram", "n_levels": n, **labels},
        {"type": "Categorical", "n_levels": n, "concentration": prior, **labels},
        "every record is of each kind with the same probabilities, independently of the others",
    )


def _number_or_names(text: str) -> tuple[int, dict[str, list[str]]]:
    found = names(text)
    if len(found) > 1 and any(map(str.isalpha, text)):
        return len(found), {"labels": list(as_labels("names", found, len(found)))}
    return whole(text), {}


def _groups() -> Published:
    sizes = ask("How many people are in each group, such as 120 80 95", _sizes)
    labels = _ask_labels(len(sizes))
    return Published(
        {"type": "ByGroup", "query": _count().query, "n_groups": len(sizes), **labels},
        {"type": "StratifiedProportions", "sizes": (sizes, "people in each group"), **labels},
        "each group has a share of its own, and all shares come from one distribution",
        sum(sizes),
    )


def _ask_labels(count: int) -> dict[str, list[str]]:
    """Ask for names; return the argument `labels` of a query or a model, or nothing."""

    def read(text: str) -> dict[str, list[str]]:
        return {"labels": list(as_labels("names", names(text), count))} if text else {}

    return ask("Their names with commas between them, or Enter for none", read)


def _sizes(text: str) -> list[int]:
    found = [whole(part) for part in split(text)]
    if len(found) < 2:
        raise ValueError(f"a number for each of at least two groups; got {text!r}")
    return found


def _bins() -> Published:
    edges = ask("The edges of the bins, such as 0 18 40 65 inf", edges_of_bins)
    finite = [edge for edge in edges if math.isfinite(edge)]
    query = {"type": "Histogram", "edges": edges}
    return Published(query, _normal(finite[0], finite[-1]), BELL)


def _sum() -> Published:
    lower, upper = ask(BOUNDS, two)
    query = {"type": "Sum", "lower": lower, "upper": upper}
    whole_query = query | {"integer_valued": True}
    if lower >= 0.0 and ask(EVENTS, yes):
        assumes = "the counts vary like random events, with a variance equal to their mean"
        return Published(whole_query, {"type": "Poisson", **_gamma("rate", upper)}, assumes)
    if lower >= 0.0 and ask("Was discrete noise added to a sum of whole numbers (y or n)", yes):
        model = {
            "type": "NegativeBinomial",
            **_gamma("mean", upper),
            "dispersion_shape": (1.0, "the variance is m + d m^2; the prior of d is exponential"),
            "dispersion_rate": 1.0,
        }
        assumes = "the numbers are whole, and vary more than counts of random events"
        return Published(whole_query, model, f"{assumes}; {_before(lower, upper)}")
    return Published(query, _normal(lower, upper), f"{BELL}; {_before(lower, upper)}")


EVENTS = (
    "Does each number count events, like visits or children (y), or measure something, like age "
    "or income (n)"
)
BELL = "the numbers are normally distributed (a bell curve)"
BOUNDS = "The bounds to which each number was clamped, such as 0 100"


def _before(lower: float, upper: float) -> str:
    clamping = f"clamping to [{lower:g}, {upper:g}]"
    return f"the mean is that of the values before {clamping}, which may lie outside"


def _gamma(name: str, upper: float) -> dict[str, Any]:
    """Return a Gamma prior whose mean is half the upper bound."""
    comment = f"the prior of the {name} is Gamma(shape, rate), with mean shape / rate"
    return {f"{name}_shape": (1.0, comment), f"{name}_rate": 2.0 / upper}


def _mean() -> Published:
    lower, upper = ask(BOUNDS, two)
    n = ask("How many records is the mean of", whole)
    query = {"type": "Sum", "lower": lower, "upper": upper}
    assumes = f"{BELL}; {_before(lower, upper)}"
    return Published(query, _normal(lower, upper), assumes, n, n, "mean")


def _regression() -> Published:
    n = ask("How many features, not counting the response", whole)
    lower, upper = ask("The bounds that were scaled to -1 and 1, such as -5 5", two)
    spread = (upper - lower) / 4.0
    variance = (2.0 * spread**2, "with mean scale / (3 - 1)")
    return Published(
        {"type": "RegressionMoments", "n_features": n, "lower": lower, "upper": upper},
        {
            "type": "LinearRegression",
            "n_features": n,
            "coefficient_sd": (2.0, "the prior of each coefficient is N(0, 2^2)"),
            "noise_variance_scale": variance,
            "feature_mean_sd": (max(abs(lower), abs(upper)), "the prior of each mean of a feature"),
        },
        "the response is linear in the features with normal noise, and the features are normal",
    )


def _normal(lower: float, upper: float) -> dict[str, Any]:
    """Return a normal model whose priors are as wide as the bounds."""
    spread = (upper - lower) / 4.0
    return {
        "type": "Normal",
        "mean_mean": ((lower + upper) / 2.0, "the prior of the mean: the middle of the bounds,"),
        "mean_sd": (2.0 * spread, "with half their distance for a standard deviation"),
        "variance_shape": (3.0, "the prior of the variance is InverseGamma(shape, scale),"),
        "variance_scale": (2.0 * spread**2, "with mean scale / (shape - 1)"),
    }


KINDS = {
    "a count: how many records have something": _count,
    "counts of several kinds, where each record is of one kind": _levels,
    "a count in each of several groups of known size": _groups,
    "counts in the bins of a number: a histogram": _bins,
    "the sum of a number over all records": _sum,
    "the mean of a number": _mean,
    "the sums of a linear regression, of numbers scaled to between -1 and 1": _regression,
}
"""What can be published, in words, and the function that asks about it."""

NOISES = {
    "Laplace": "Laplace",
    "Gaussian": "Gaussian",
    "discrete Laplace (geometric)": "DiscreteLaplace",
    "discrete Gaussian": "DiscreteGaussian",
}


# ------------------------------------------------------------------ the noise, and the numbers


def _ask_noise(published: Published) -> tuple[Any, list[float]]:
    from noiseaware.mechanisms import from_dict

    def mechanism(kind: str) -> tuple[str, Any]:
        return kind, from_dict({"type": kind, "scale": 1.0, "query": published.query})

    kind, made = choose("Which noise was added?", NOISES, mechanism)
    spread = GAUSSIAN if "Gaussian" in kind else LAPLACE

    def scaled(text: str) -> Any:
        name, value = _named(text, spread)
        if name == "scale":
            return type(made)(made.query, scale=value * published.times)
        type(made)(made.query, **{name: value})  # ValueError before the next question
        neighbours = _ask_neighbours(made.query, spread.norm)
        return type(made)(made.query, **{name: value}, neighbours=neighbours)

    noise = ask(f"Its scale {spread.letter}, or its promise, such as {spread.promise}", scaled)
    return noise, _ask_values(published, noise)


class Spread(NamedTuple):
    """How the scale of the noise may be stated."""

    letter: str
    promise: str
    norm: int
    names: dict[str, str]  # what a number may be called, and the argument that it is


LAPLACE = Spread(
    "b", "epsilon=0.5", 1,
    {"": "scale", "scale": "scale", "b": "scale", "epsilon": "epsilon", "eps": "epsilon"},
)  # fmt: skip
GAUSSIAN = Spread(
    "sigma (the standard deviation)", "rho=0.1", 2,
    {"": "scale", "scale": "scale", "sigma": "scale", "sd": "scale", "rho": "rho"},
)  # fmt: skip
_NAMED = re.compile(r"([^\W\d]*)\s*=?\s*(.*)")


def _named(text: str, spread: Spread) -> tuple[str, float]:
    """Return the mechanism's argument and its value for an answer such as epsilon=0.5."""
    found = _NAMED.fullmatch(text)
    name, value = found.groups() if found else ("?", "")
    if spread is GAUSSIAN and name.lower() in ("epsilon", "eps", "delta"):
        raise ValueError(
            "epsilon and delta do not say which formula made the scale: ask the publisher for the "
            "standard deviation and enter it here"
        )
    if name.lower() not in spread.names:
        raise ValueError(f"a scale such as 4, or a promise such as {spread.promise}; got {text!r}")
    given = numbers(value)
    if len(given) != 1:
        raise ValueError(f"one number, the scale of the noise; got {text!r}")
    return spread.names[name.lower()], given[0]


def _ask_values(published: Published, mechanism: Any) -> list[float]:
    called = (published.name,) if published.name else tuple(mechanism.query.names)

    def values(text: str) -> list[float]:
        found = [value * published.times for value in numbers(text)]
        if len(found) != len(called):
            raise ValueError(f"{len(called)} needed ({', '.join(called)}); got {len(found)}")
        return mechanism.check_values(found).tolist()

    listed = ", ".join(called)
    if len(called) == 1:
        return ask(f"The published {published.wanted or f'number ({listed})'}", values)
    return ask(f"The {len(called)} published numbers ({listed}), with spaces between them", values)


def _ask_neighbours(query: Any, norm: int) -> str:
    """Return the neighbour relation, asking only if the scale depends on it."""
    kinds = ("change", "add-remove")
    if len({query.sensitivity(norm, kind) for kind in kinds}) == 1:
        return kinds[0]
    words = ("changing one record", "adding or removing one")
    return choose("The promise protects against", dict(zip(words, kinds, strict=True)))


def _toml(published: Published, size: int | None) -> str:
    lines = [f"# {published.assumes[0].upper()}{published.assumes[1:]}."]
    for key, entry in published.model.items():
        value, comment = entry if isinstance(entry, tuple) else (entry, "")
        lines.append(f"{key} = {json.dumps(value)}" + (f"  # {comment}" if comment else ""))
    if size is not None:
        lines += ["", "[size]  # the prior of the number of records", 'type = "Uniform"']
        lines += ["lower = 1", f"upper = {size}"]
    question = 'question = "What do the published numbers say?"'
    return "\n".join([*lines, "", "[report]", question, ""])
