"""Releases made by OpenDP (0.16 or newer).

OpenDP describes a measurement as a tree of constructor calls (`opendp.prelude.serialize`): each
node has the constructor's name, `__function__`, and its arguments, `__kwargs__`. A measurement that
adds noise is `make_chain_mt(measurement1=noise, transformation0=what was asked)`. This module reads
from the tree, without recomputing anything:

- the noise: `make_laplace`, `make_gaussian`, `make_noise`, with its scale;
- the query: `make_count`, `make_sum`, `make_mean`, `make_count_by_categories`, and the steps
  before it: `make_clamp`, `make_is_equal`, `make_cast_default`, `make_find_bin`;
- the bounds, from `make_clamp` or the domain, and the size of the data, if known;
- the type of the output. Noise on integers is discrete Laplace or Gaussian; for an unsigned integer
  a negative answer is released as 0.

Facts about OpenDP that matter for the likelihood:

- integer types are bounded. A value at such a bound (other than 0 of an unsigned type) was cut off,
  and is an error here;
- floating-point noise lives on a grid of width 2^k. With the default k the noise is effectively
  continuous; a coarse k also rounds the answer before the noise, and is an error here;
- a mean is the sum divided by the known size n. It is read as a release of the sum: n times the
  value, with n times the scale;
- `symmetric_distance` counts added and removed records. If the size is known, neighbours differ by
  one changed record (a distance of 2), so the relation is `"change"`; otherwise `"add-remove"`.

`serialize` of OpenDP 0.16 fails on `make_count_by_categories` ("does not handle L1Distance"), so
pass a histogram's measurement itself, not its text.

Reference
---------
The OpenDP library: https://docs.opendp.org
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware import mechanisms, queries
from noiseaware.basics.arguments import whole_number
from noiseaware.interop.opendp_frames import frame
from noiseaware.interop.reading import cannot_read
from noiseaware.release import Release

__all__ = ["frame", "release"]

OLDEST = (0, 16)
# The integer types of OpenDP, with their smallest and largest numbers.
BITS = (8, 16, 32, 64, 128)
INTEGERS = {
    **{f"i{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in BITS},
    **{f"u{bits}": (0, 2**bits - 1) for bits in BITS},
    "usize": (0, 2**64 - 1),
}
FLOATS = ("f32", "f64")
MEASURES = {"max_divergence": "laplace", "zero_concentrated_divergence": "gaussian"}
# Wrappers that change the privacy accounting but not the numbers.
ACCOUNTING = (
    "make_zCDP_to_approxDP",
    "make_pureDP_to_zCDP",
    "make_fix_delta",
    "make_approximate",
    "make_fixed_approxDP_to_approxDP",
)
# Why other constructors are not read, where known.
REASONS = {
    "make_variance": "squares about the mean of the records, which are no sum over records",
    "make_count_distinct": "the number of different values is no sum over records",
    "make_quantile_score_candidates": "one candidate is chosen with noise; it is not a noisy sum",
    "make_count_by": "its keys are those of the records; name them, by make_count_by_categories",
    "make_resize": "rows were left out or made up until there were so many",
    "make_impute_constant": "missing values were replaced, and the records have none",
    **dict.fromkeys(
        ("make_randomized_response", "make_randomized_response_bool"),
        "a single record was answered; for the answers of all of them, "
        "noiseaware.mechanisms.RandomizedResponse",
    ),
}
# A grid this much finer than the scale of the noise counts as continuous.
FINE = 1e-9


class Call(NamedTuple):
    """A constructor call in the tree."""

    function: str
    arguments: dict[str, Any]


class Data(NamedTuple):
    """What is known about the data at one place in a chain of transformations."""

    kind: str  # the type of a record, such as "i32"
    size: int | None
    bounds: tuple[float, float] | None
    equal_to: Any = None  # the value of make_is_equal, in a chain that counts one value
    counts_value: bool = False
    edges: tuple[float, ...] | None = None  # of make_find_bin


class Asked(NamedTuple):
    """The query, the type of its answer, and how released values become its totals."""

    query: Any
    kind: str
    factor: float = 1.0  # the total is this much times the answer
    extra: int = 0  # so many values at the end do not depend on the records


def release(
    measurement: Any, values: ArrayLike, n_records: int | None = None, query: Any = None
) -> Release:
    """Read an OpenDP measurement and the values that it released.

    Parameters
    ----------
    measurement
        An OpenDP measurement, or its JSON text from `opendp.prelude.serialize`.
    values
        What the measurement returned: a number or a list of numbers. For a composition, a list of
        what its measurements returned.
    n_records
        The number of confidential records. It must agree with the size in the measurement, if there
        is one; if neither is known, the release is of an unknown number of records.
    query
        What was asked of the n records, such as `noiseaware.queries.Count(value=1)`. Needed for
        `make_count` of a known number of records; for `make_is_equal` with a value that is not a
        number; and for noise without a transformation (the guarantee is then stated for
        `"change"`). An error otherwise, because the measurement says what was asked. For a
        composition, a list, with None where not needed.

    Returns
    -------
    Release
        In a histogram over categories, category j is the level j; a record in none of them has the
        level after the last.

    Raises
    ------
    ValueError
        If the measurement cannot be read; the message says how to write the release by hand.
    """
    parts = _parts(_root(measurement))
    if len(parts) == 1:
        return _read(parts[0], values, n_records, query)
    answers: list[Any] = list(values) if isinstance(values, list | tuple) else [values]
    asked = [None] * len(parts) if query is None else list(query)
    if not len(answers) == len(asked) == len(parts):
        raise ValueError(
            f"values and query must be lists of {len(parts)}, one entry for each measurement of "
            "the composition"
        )
    read = [
        _read(part, answer, n_records, one)
        for part, answer, one in zip(parts, answers, asked, strict=True)
    ]
    return mechanisms.Several([one.mechanism for one in read]).release(read)


def _parts(node: Any) -> list[Any]:
    """Return the measurements of a composition, or else the one measurement."""
    call = _noisy(node)
    composed = call.function in ("make_composition", "make_basic_composition")
    return list(call.arguments["measurements"]) if composed else [node]


def _read(node: Any, values: ArrayLike, n_records: int | None, query: Any) -> Release:
    steps, noise = _chain(node)
    if steps:
        data, neighbours = _input(steps[0])
        for step in steps[:-1]:
            data = _after(step, data)
    elif "input_domain" in noise.arguments:
        data, neighbours = _domain(noise.arguments["input_domain"]), "change"
    else:
        raise _not_read("the measurement is", noise)
    n = _size(data.size, n_records)
    asked = _asked(steps[-1], data, n, query) if steps else _given(query, data.kind)
    totals = _totals(values, asked)
    mechanism = _mechanism(noise, asked, neighbours)
    _check_ends(totals, asked)
    return Release(totals, mechanism, n)


def _root(measurement: Any) -> Any:
    """Return the tree: the parsed text, or the measurement itself."""
    if not isinstance(measurement, str | bytes):
        if not hasattr(measurement, "__opendp_dict__"):
            advice = ": give query.resolve()" if hasattr(measurement, "resolve") else ""
            raise TypeError(
                "measurement must be an OpenDP measurement (0.16 or newer) or the text that "
                f"opendp.prelude.serialize made of it; got {type(measurement).__name__}{advice}"
            )
        return measurement
    try:
        tree = json.loads(measurement)
    except ValueError as error:
        raise ValueError(f"measurement is not the text of an OpenDP measurement: {error}") from None
    version = tree.get("__version__") if isinstance(tree, dict) else None
    if not isinstance(version, str):
        raise ValueError("measurement is not the text of an OpenDP measurement: no __version__")
    numbers = version.split(".")
    if not all(part.isdigit() for part in numbers[:2]) or tuple(map(int, numbers[:2])) < OLDEST:
        raise cannot_read(f"measurement was written by OpenDP {version}; 0.16 or newer is read")
    return tree


def _call(node: Any) -> Call:
    """Return the constructor call at a node of the tree."""
    entries = node if isinstance(node, dict) else getattr(node, "__opendp_dict__", None)
    if not isinstance(entries, dict) or "__function__" not in entries:
        raise cannot_read(f"the measurement has a part that is no constructor call: {node!r:.80}")
    return Call(entries["__function__"], dict(entries.get("__kwargs__", {})))


def _noisy(node: Any) -> Call:
    """Return the call of a measurement, without its accounting wrappers."""
    call = _call(node)
    while call.function in ACCOUNTING:
        call = _call(call.arguments["measurement"])
    return call


def _chain(node: Any) -> tuple[list[Call], Call]:
    """Return the transformations in order, and the noise."""
    call = _noisy(node)
    if call.function == "make_chain_mt":
        noise = _call(call.arguments["measurement1"])
        return _transformations(call.arguments["transformation0"]), noise
    if call.function == "make_chain_pm":
        raise cannot_read("the measurement changes its answer after the noise (make_chain_pm)")
    if "composition" in call.function:
        raise cannot_read(
            f"the measurement is a {call.function}, whose questions are not in it; read the "
            "measurements that it was asked one by one, and join them with "
            "noiseaware.mechanisms.Several"
        )
    return [], call


def _transformations(node: Any) -> list[Call]:
    call = _call(node)
    if call.function != "make_chain_tt":
        return [call]
    return [c for k in (0, 1) for c in _transformations(call.arguments[f"transformation{k}"])]


def _input(step: Call) -> tuple[Data, Any]:
    """Return what the first transformation says about the data, and the neighbour relation."""
    metric = _input_of(step.arguments["input_metric"], "metric").function
    data = _domain(step.arguments["input_domain"])
    if metric in ("symmetric_distance", "insert_delete_distance"):
        return data, "add-remove" if data.size is None else "change"
    if metric in ("change_one_distance", "hamming_distance"):
        return data, "change"
    raise cannot_read(f"the distance between databases is {metric}")


def _input_of(node: Any, what: str) -> Call:
    """Return a domain or a metric; a query of OpenDP's Context refers to its compositor's."""
    call = _call(node)
    while call.function == f"measurement_input_{what}":
        whole = _call(call.arguments["this"])
        if f"input_{what}" not in whole.arguments:
            break
        call = _call(whole.arguments[f"input_{what}"])
    return call


def _domain(node: Any) -> Data:
    domain = _input_of(node, "domain")
    size = None
    if domain.function == "vector_domain":
        size = domain.arguments.get("size")
        domain = _call(domain.arguments["atom_domain"])
    if domain.function != "atom_domain":
        raise cannot_read(f"the data is a {domain.function}, not a list of numbers or categories")
    given, kind = domain.arguments.get("bounds"), domain.arguments.get("T")
    bounds = None if given is None else _pair(given)
    if kind is None and bounds is not None:
        kind = "i32" if all(isinstance(bound, int) for bound in bounds) else "f64"
    return Data(str(kind), size, bounds)


def _not_read(what: str, call: Call, where: str = "") -> ValueError:
    """Return the error for a constructor that is not read, with the reason if known."""
    reason = REASONS.get(call.function)
    why = f" ({reason})" if reason else ""
    return cannot_read(f"{what} {call.function}{where}{why}", by_hand=reason is None)


def _pair(bounds: Any) -> tuple[float, float]:
    lower, upper = bounds["__tuple__"] if isinstance(bounds, dict) else bounds
    return lower, upper


def _after(step: Call, data: Data) -> Data:
    """Return what is known about the data after a transformation before the last."""
    function, arguments = step.function, step.arguments
    if function == "make_clamp":
        bounds = _pair(arguments["bounds"])
        if data.bounds is not None:  # clamped twice: the second bounds act on the first
            lower, upper = np.clip(data.bounds, *bounds).tolist()
            bounds = (type(bounds[0])(lower), type(bounds[1])(upper))
        return data._replace(bounds=bounds)
    if function == "make_is_equal":
        counted = {"equal_to": arguments["value"], "counts_value": True}
        return data._replace(kind="bool", bounds=None, **counted)
    if function in ("make_cast_default", "make_cast_inherent") and data.kind == "bool":
        return data._replace(kind=str(arguments["TOA"]), bounds=(0, 1))
    if function == "make_find_bin":
        edges = tuple(float(edge) for edge in arguments["edges"])
        return data._replace(kind="usize", bounds=None, edges=edges)
    if function == "make_identity":
        return data
    raise _not_read("the data goes through", step, " before the query")


def _size(known: int | None, n_records: int | None) -> int | None:
    if n_records is None:
        return None if known is None else whole_number("n_records", known)
    n = whole_number("n_records", n_records)
    if known is not None and n != known:
        raise ValueError(f"n_records must be the size that the measurement knows, {known}; got {n}")
    return n


def _asked(step: Call, data: Data, n: int | None, query: Any) -> Asked:
    """Return the query of the last transformation."""
    function, kind, bounds = step.function, data.kind, data.bounds
    if function == "make_count":
        kind = str(step.arguments["TO"])
        if n is None and query is None:
            return Asked(queries.Count(value=None), kind)
        asked = _given(query, kind, "make_count counts the records it is given")
        _check_overflow(kind, n)
        return asked
    if function in ("make_sum", "make_mean") and bounds is None:
        raise cannot_read(f"{function} has no bounds: neither make_clamp nor the domain has")
    if function == "make_sum" and bounds is not None:
        _check_overflow(kind, n, max(abs(bound) for bound in bounds))
        if data.counts_value and bounds == (0, 1):
            return _counted_value(data, query)
        _not_given(query, step)
        return Asked(queries.Sum(*bounds, integer_valued=kind in INTEGERS), kind)
    if function == "make_mean" and bounds is not None and data.size is not None and n is not None:
        _not_given(query, step)
        return Asked(queries.Sum(*bounds), kind, factor=float(n))
    if function == "make_count_by_categories":
        _not_given(query, step)
        kind = str(step.arguments["TOA"])
        _check_overflow(kind, n)
        return _histogram(step, data, kind)
    raise _not_read("the query is", step)


def _counted_value(data: Data, query: Any) -> Asked:
    value, said = data.equal_to, f"the records equal to {data.equal_to!r} are counted"
    if not isinstance(value, int | float):
        return _given(query, data.kind, said)
    if query is not None:
        raise ValueError(f"query must not be given: {said}")
    return Asked(queries.Count(value=value), data.kind)


def _histogram(step: Call, data: Data, kind: str) -> Asked:
    categories = list(step.arguments["categories"])
    null = bool(step.arguments.get("null_category", True))
    if data.edges is not None:
        if categories != list(range(len(data.edges) + 1)):
            raise cannot_read(
                f"the categories after make_find_bin are {categories}, not all of its bins"
            )
        # Every number is in a bin, so the null category is pure noise.
        query = queries.Histogram(edges=[-np.inf, *data.edges, np.inf])
        return Asked(query, kind, extra=int(null))
    if null:
        return Asked(queries.Histogram(n_levels=len(categories) + 1), kind)
    # A record in none of the categories is not counted: level len(categories) is in no bin.
    edges = np.arange(len(categories) + 1) - 0.5
    return Asked(queries.Histogram(edges=edges.tolist()), kind)


def _given(query: Any, kind: str, why: str = "the measurement is noise alone") -> Asked:
    if query is None:
        raise ValueError(
            f"query is needed: {why}, so say what that is among the n_records records, such as "
            "query=noiseaware.queries.Count(value=1)"
        )
    return Asked(query, kind)


def _not_given(query: Any, step: Call) -> None:
    if query is not None:
        raise ValueError(f"query must not be given: the measurement has {step.function}")


def _check_overflow(kind: str, n: int | None, most: float = 1) -> None:
    """Refuse an answer that n records can push to the end of its type, if n is known."""
    if kind in INTEGERS and n is not None and n * most > INTEGERS[kind][1]:
        raise cannot_read(
            f"the answer can be {n * most}, more than the type {kind} holds, and is cut off"
        )


def _totals(values: ArrayLike, asked: Asked) -> NDArray[np.float64]:
    """Return the released values as totals of the query."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"values must be numbers; got {values!r}") from None
    expected = len(asked.query.names) + asked.extra
    if array.shape != (expected,):
        raise ValueError(
            f"values must be the {expected} numbers of the measurement; got shape {array.shape}"
        )
    return asked.factor * array[: expected - asked.extra]


def _mechanism(noise: Call, asked: Asked, neighbours: Any) -> Any:
    """Return the noise, with the scale stated in the measurement."""
    arguments = noise.arguments
    family = noise.function.removeprefix("make_")
    if family == "noise":
        measure = arguments["output_measure"]
        name = measure if isinstance(measure, str) else _call(measure).function
        family = MEASURES.get(name, name)
    if family not in ("laplace", "gaussian"):
        raise cannot_read(f"the noise is {noise.function}")
    whole = asked.kind in INTEGERS
    if not whole and asked.kind not in FLOATS:
        raise cannot_read(f"the answer has the type {asked.kind}")
    scale, k = float(arguments["scale"]), arguments.get("k")
    if k is not None and (k > 0 if whole else 2.0**k > FINE * scale):
        raise cannot_read(f"the noise is on a grid of width 2^{k}, to which the answer is rounded")
    kind = getattr(mechanisms, ("Discrete" if whole else "") + family.capitalize())
    mechanism = kind(asked.query, scale=asked.factor * scale, neighbours=neighbours)
    if whole and INTEGERS[asked.kind][0] == 0:
        return mechanisms.Clamped(mechanism, lower=0.0)
    return mechanism


def _check_ends(totals: NDArray[np.float64], asked: Asked) -> None:
    if asked.kind not in INTEGERS:
        return
    lower, upper = INTEGERS[asked.kind]
    for value in totals:
        if value >= upper or (lower < 0 and value <= lower):
            raise cannot_read(
                f"a value is {value:.0f}, the end of the type {asked.kind}: it was cut off there"
            )
