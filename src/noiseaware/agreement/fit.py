"""Checks before sampling that the model, the query and the release fit together.

One small database is drawn from the model and passed through every method that the sampler will
call. If a result is wrong, the error names the method, what it returned and what would be right.
Two conditions of the paper's ergodicity theorem are checked as far as possible: A1, the prior can
be drawn from and has positive density at the draw; A3, the mechanism gives the release positive
density.

Occasional mistakes of a user's class are caught where they happen, by `Target` and, for exceptions,
by `blame`. Whether its results are *right* is the question of `noiseaware.validate`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from noiseaware.agreement import arrays
from noiseaware.agreement.arrays import as_number, as_statistic, short, usual_array
from noiseaware.agreement.blame import blame
from noiseaware.agreement.listed import can_list, column_laws
from noiseaware.basics.described import query_words
from noiseaware.contract import (
    Model,
    Theta,
    draw_records,
    mechanism_abilities,
    missing,
    model_abilities,
    query_abilities,
)
from noiseaware.maths.coordinates import check_theta
from noiseaware.mechanisms import SeparableDensity
from noiseaware.mechanisms.terms import EXACT, GAUSSIAN, LAPLACE
from noiseaware.parameters import NUMBER, Innovations, Parameter
from noiseaware.release import Release
from noiseaware.sizes import check_number, check_size

_TRY = 7  # records in the small database: a number that no built-in shape has by accident
_FINE = 0.01  # how far apart floats may be at a released number, in scales of the noise
_FAR = 50.0  # how far from all possible numbers a released one may be, likewise
_MORE, _MANY = 10, 200  # databases, and records in each, that are shown to the query


def check_fit(model: Any, release: Any, size: Any = None) -> None:
    """Raise ValueError or TypeError if this model cannot be sampled with this release.

    `size` is the prior for the number of records, if the release does not give it.
    """
    if not isinstance(release, Release):
        got = type(release).__name__
        if isinstance(release, list | tuple):
            got += (
                ": join releases of the same records with mechanisms.Several([...]).release([...])"
            )
        raise TypeError(f"release must be a noiseaware.Release; got {got}")
    check_methods(model)
    check_index(model)
    able = model_abilities(model)
    if able.n_records not in (None, release.n_records):
        raise ValueError(
            f"the model {model!r} is of {able.n_records} records, and the release of "
            f"{release.size_words}"
        )
    if release.n_records is None and able.uses_index:
        raise ValueError(
            f"the records of {able.name} are not alike, so the release must say how many there "
            "are; got n_records=None"
        )
    size = None if size is None else check_size(size)
    if size is not None and able.random_size:
        raise ValueError(f"size must not be given: {able.name} is about the number of records")
    unsized = able.random_size and release.n_records is None
    n = _MANY if unsized else check_number(release.n_records, size)
    rng = np.random.default_rng(0)
    with blame(model, release.mechanism, release.query):
        theta = check_theta(f"{able.name}.sample_prior", model.sample_prior(rng), able.parameters)
        check_derived(model, theta if size is None else {**theta, NUMBER: np.asarray(float(n))})
        index = _spread(n, _TRY)
        records = check_records(model, theta, index, rng)
        _check_query(model, release, records, n, rng)
        check_resolution(release)
        check_possible(release)
        laws = mechanism_abilities(release.mechanism).record_laws
        summed = able.count_law is not None and laws is not None
        exact = can_list(model, release.mechanism) or column_laws(model, release) is not None
        if not (summed or exact):  # laws that may have zeros
            check_density(release, records)
        if not type(model).__module__.startswith("noiseaware.models."):
            _check_densities(model, theta, records, n, rng)


def _check_densities(
    model: Model, theta: Theta, records: np.ndarray, n: int, rng: np.random.Generator
) -> None:
    """Try the methods that a chain will use; for ready-made models, the tests do that."""
    check_log_prior(model, theta)
    check_kernel(model, theta, records, rng)
    check_log_likelihood(model, theta, records)
    # The method is not told which records these are: all of them, from the first on.
    first = np.arange(_TRY) % n
    check_recovery(model, theta, check_records(model, theta, first, rng), first, rng)


def check_resolution(release: Release) -> None:
    """Raise ValueError if floats near the released numbers are too coarse.

    A total near v is rounded to the floats there. If their spacing is not small against the noise,
    log g is wrong by as much. Counts are exact up to 2^53.
    """
    mechanism = mechanism_abilities(release.mechanism)
    if mechanism.terms is None:
        return
    terms = mechanism.terms(release.values)
    shared = mechanism.statistic is None
    _check_terms(mechanism.name, terms, len(release.query.names) if shared else len(terms.family))
    noisy = terms.parameters[terms.family < EXACT]
    values, inverse = np.where(np.isfinite(noisy[:, 0]), noisy[:, 0], 0.0), noisy[:, 1]
    apart = np.spacing(np.abs(values))
    if query_abilities(release.query).integer_valued:
        wrong = (np.abs(values) > 2.0**53) | ~np.isfinite(inverse)
        limit = "at most 2^53, and the scale a number whose inverse is one"
    else:
        wrong = ~(apart * inverse <= _FINE)
        limit = f"so small that floats there are at most {_FINE} scales of the noise apart"
    if wrong.any():
        j = int(np.argmax(wrong))
        scale = 0.0 if np.isinf(inverse[j]) else 1.0 / inverse[j]
        raise ValueError(
            f"values must be {limit}; got {values[j]:.17g}, where floats are {apart[j]:.2g} apart, "
            f"with noise of scale {scale:.2g}"
        )


def check_possible(release: Release) -> None:
    """Raise ValueError for a number that n records cannot give, far beyond the noise.

    It was scaled differently, or answers another question.
    """
    mechanism, query = mechanism_abilities(release.mechanism), query_abilities(release.query)
    if None in (mechanism.terms, query.possible, release.n_records) or mechanism.statistic:
        return
    assert mechanism.terms is not None
    assert query.possible is not None
    terms = mechanism.terms(release.values)
    values, inverse = terms.parameters[:, 0], terms.parameters[:, 1]
    plain = np.isin(terms.family, (LAPLACE, GAUSSIAN))
    nearest = query.possible(np.where(plain, values, 0.0), release.known_n)
    away = np.where(plain, np.abs(values - nearest) * inverse, 0.0)
    if (away > _FAR).any():
        j = int(np.argmax(away))
        side = "most" if values[j] > nearest[j] else "least"
        raise ValueError(
            f"values must be what {release.size_words} can give, up to the noise: "
            f"{release.names[j]!r} is at {side} {nearest[j]:g}; got {values[j]:g}, {away[j]:.0f} "
            f"scales of the noise away. Asked were: {query_words(release.query)[0]}"
        )


@contextmanager
def left_alone(method: str, **given: Any) -> Iterator[None]:
    """Raise if the method called inside changes the arrays that it was given.

    Keywords are the names for the message; their values are arrays or a theta.
    """

    def parts(value: Any) -> dict[Any, Any]:
        return value if isinstance(value, dict) else {"": value}

    before = {name: {k: np.array(v) for k, v in parts(given[name]).items()} for name in given}
    yield
    for name, value in given.items():
        now, then = parts(value), before[name]
        if now.keys() != then.keys() or not all(np.array_equal(now[k], then[k]) for k in then):
            raise ValueError(f"{method} must not change the {name} it is given")


def called(able: Any, method: str, *more: Any, **given: Any) -> Any:
    """Return a method's result for these arrays, which it must leave unchanged."""
    with left_alone(f"{able.name}.{method}", **given):
        return getattr(able, method)(*given.values(), *more)


# ------------------------------------------------------------------ the model


def check_methods(model: Any) -> None:
    """Raise TypeError or ValueError if the model lacks what every sampler needs."""
    if isinstance(model, type):
        raise TypeError(
            f"model must be an object, such as {model.__name__}(...); got the class {model!r}"
        )
    able = model_abilities(model)
    name = able.name
    for attribute in missing(model, Model):
        raise TypeError(f"model must have `{attribute}`; {name} has none")
    if not callable(model.sample_prior):
        raise TypeError(f"{name}.sample_prior must be a method; got {model.sample_prior!r}")
    parameters = model.parameters
    listed = isinstance(parameters, tuple | list) and len(parameters) > 0
    if not listed or not all(isinstance(p, Parameter) for p in parameters):
        right = f"{name}.parameters must be a tuple of noiseaware.Parameter"
        raise TypeError(f"{right}; got {parameters!r}")
    _check_labels(name, able.shown)
    if able.sample_records is None and able.build_records is None:
        raise TypeError(
            f"model must have sample_records(theta, n, rng) or build_records(theta, innovations); "
            f"{name} has neither"
        )
    if able.build_records is not None:
        for attribute, found in (("innovations", able.innovations), ("log_prior", able.log_prior)):
            if found is None:
                raise TypeError(f"{name} has build_records, so it needs `{attribute}` too")
        if not isinstance(able.innovations, Innovations):
            raise TypeError(
                f"{name}.innovations must be noiseaware.Innovations(kind, width); "
                f"got {able.innovations!r}"
            )
    elif able.update_parameters is None and not able.has_density:
        wanted = ("update_parameters", "log_prior", "log_likelihood", "build_records")
        lacks = [method for method in wanted if getattr(able, method) is None]
        raise TypeError(
            f"model must have update_parameters(theta, records, rng), or log_prior(theta) and "
            f"log_likelihood(theta, records) for a ready kernel, or build_records(theta, "
            f"innovations) to be sampled without one; {name} has none of {', '.join(lacks)}"
        )


def _check_labels(model: str, parameters: Sequence[Parameter]) -> None:
    """Raise ValueError unless parameters that share the name of an axis share its labels."""
    names = [p.name for p in parameters]
    if len(set(names)) < len(names):
        raise ValueError(f"{model}.parameters must have different names; got {names}")
    seen: dict[str, tuple[str, Any]] = {}
    for parameter in parameters:
        for axis, dim in enumerate(parameter.dims):
            labels = list((parameter.coords or {}).get(dim, range(parameter.shape[axis])))
            other, others = seen.setdefault(dim, (parameter.name, labels))
            if labels != others:
                raise ValueError(
                    f"{model}.parameters: {other} and {parameter.name} both have the dimension "
                    f"{dim!r}, so it must have the same labels in both; got {others} and {labels}"
                )


def makers(model: Model) -> list[str]:
    """Return the names of the model's methods that make records."""
    able = model_abilities(model)
    return [name for name in ("build_records", "sample_records") if getattr(able, name) is not None]


def check_index(model: Model) -> None:
    """Raise unless methods of a model with `uses_index` take that argument."""
    able = model_abilities(model)
    for method in makers(model) if able.uses_index else ():
        arguments = inspect.signature(getattr(able, method)).parameters
        if "index" not in arguments:
            raise TypeError(
                f"{able.name} has uses_index, so {method} must take an argument index, the "
                f"numbers of the records to make; it takes {', '.join(arguments)}"
            )


def check_derived(model: Model, theta: Theta) -> None:
    """Raise unless `derive` returns all derived quantities for two draws of theta."""
    able = model_abilities(model)
    if not able.derived:
        return
    if able.derive is None:
        raise TypeError(f"{able.name} has `derived`, so it needs derive(theta) too")
    where, names = f"{able.name}.derive", [p.name for p in able.derived]
    twice = {name: np.stack([np.asarray(value, float)] * 2) for name, value in theta.items()}
    made = able.derive(twice)
    if not isinstance(made, dict) or set(made) != set(names):
        got = list(made) if isinstance(made, dict) else type(made).__name__
        raise ValueError(f"{where} must return a dict of {names}; got {got}")
    for parameter in able.derived:
        shape = (2, *parameter.shape)
        if np.shape(made[parameter.name]) != shape:
            raise ValueError(
                f"{where} must return {parameter.name} with shape {shape} for two draws of theta "
                f"along the first axis; got {np.shape(made[parameter.name])}"
            )


def check_log_prior(model: Model, theta: Theta) -> None:
    """Raise if the prior density is not a finite number at a draw of the prior."""
    able = model_abilities(model)
    if able.log_prior is None:
        return
    value = called(able, "log_prior", theta=theta)
    as_number(f"{able.name}.log_prior", value, "one finite number at a draw of sample_prior")


def make_records(
    model: Model, method: str, theta: Theta, index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Make the records with these indices by build_records or sample_records, and check them."""
    able = model_abilities(model)
    where, n = f"{able.name}.{method}", len(index)
    if method == "sample_records":
        assert able.sample_records is not None
        with left_alone(where, theta=theta):
            made = able.sample_records(theta, n, rng, **able.index(index))
    else:
        assert able.build_records is not None
        assert able.innovations is not None
        innovations = able.innovations.draw(n, rng)
        with left_alone(where, innovations=innovations, theta=theta):
            made = able.build_records(theta, innovations, **able.index(index))
    records = arrays.as_records(where, made, n)
    if records.size == 0:
        raise ValueError(f"{where} must return records with entries; got shape {records.shape}")
    if not np.isfinite(records).all():
        raise ValueError(f"{where} returned records that are not finite")
    return records


def check_records(
    model: Model, theta: Theta, index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a small database, if the methods that make records agree on what a record is."""
    name = type(model).__name__
    made: dict[str, np.ndarray] = {}
    for method in makers(model):
        made[method] = make_records(model, method, theta, index, rng)
        again = make_records(model, method, theta, index, rng)
        if np.may_share_memory(made[method], again):
            raise ValueError(
                f"{name}.{method} must return a new array each time; it returned the same one twice"
            )
    records = next(reversed(made.values()))
    for method, other in made.items():
        if other.shape != records.shape or other.dtype != records.dtype:
            raise ValueError(
                f"{name}.{method} and {name}.sample_records must return the same shape and dtype; "
                f"got {other.shape} {other.dtype} and {records.shape} {records.dtype}"
            )
    return usual_array(records)


def check_kernel(model: Model, theta: Theta, records: np.ndarray, rng: np.random.Generator) -> None:
    """Raise if the model's kernel returns no theta, or changes its arguments."""
    able = model_abilities(model)
    if able.update_parameters is None:
        return
    made = called(able, "update_parameters", rng, theta=theta, records=records)
    check_theta(f"{able.name}.update_parameters", made, able.parameters)


def check_log_likelihood(model: Model, theta: Theta, records: np.ndarray) -> None:
    """Raise if log f is not one number per record."""
    able = model_abilities(model)
    if able.log_likelihood is None:
        return
    made, n = called(able, "log_likelihood", theta=theta, records=records), len(records)
    wanted = (
        f"{able.name}.log_likelihood must return one number for each of the {n} records, "
        f"shape ({n},), and no NaN; got {short(made)}"
    )
    try:
        value = np.asarray(made, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(wanted) from None
    if value.shape != (n,) or np.isnan(value).any():
        raise ValueError(wanted)


def check_recovery(
    model: Model, theta: Theta, records: np.ndarray, index: np.ndarray, rng: np.random.Generator
) -> None:
    """Raise if the innovations recovered from records do not rebuild these records."""
    able = model_abilities(model)
    if able.recover_innovations is None:
        return
    if able.build_records is None or able.innovations is None:
        raise TypeError(f"{able.name} has recover_innovations, so it needs build_records too")
    where = f"{able.name}.recover_innovations"
    made = called(able, "recover_innovations", rng, theta=theta, records=records)
    innovations = arrays.as_innovations(where, made, len(records), able.innovations.width)
    rebuilt = usual_array(able.build_records(theta, innovations, **able.index(index)))
    if records.dtype.kind == "f":
        same = np.isclose(rebuilt, records, rtol=1e-6, atol=1e-8)
    else:
        same = rebuilt == records
    if not same.all():
        i = int(np.argwhere(~same)[0][0])
        raise ValueError(
            f"{able.name}.build_records(theta, recover_innovations(theta, records, rng)) must "
            f"give back the records it started from; record {records[i]} became {rebuilt[i]}"
        )


# ------------------------------------------------------------------ the release


def _spread(n: int, m: int) -> np.ndarray:
    """Return m indices spread over n records, for a model with `uses_index`."""
    return np.arange(m) * n // m


def _check_query(
    model: Model, release: Release, records: np.ndarray, n: int, rng: np.random.Generator
) -> None:
    query, values = release.query, model_abilities(model).record_values
    refuse, n_cells = query_abilities(query).check_records, query_abilities(query).n_cells
    if values is not None and n_cells not in (None, len(values)):
        raise ValueError(
            f"the query has {n_cells} levels, the model {len(values)}; got {query!r} and {model!r}"
        )
    if refuse is None:
        return
    try:
        if n_cells is not None and values is not None:
            refuse(np.asarray(values))
        refuse(records)
        # A level that the query lacks may be rare: look at many records, at several theta.
        for _ in range(_MORE):
            theta = model.sample_prior(rng)
            refuse(draw_records(model, theta, _spread(n, _MANY), rng))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"the model {model!r} does not fit the query {query!r} of the release: {error}"
        ) from None
    _check_point(model, query, n, rng)


def _check_point(model: Model, query: Any, n: int, rng: np.random.Generator) -> None:
    """Raise ValueError if the query counts one value that the model's records never take."""
    point = query_abilities(query).point
    if point is None:
        return
    for _ in range(_MORE):
        records = np.asarray(draw_records(model, model.sample_prior(rng), _spread(n, _MANY), rng))
        if records.dtype.kind != "f" or ((records == np.rint(records)) | (records == point)).any():
            return
    raise ValueError(
        f"a count of the value {point:g} needs a model with whole-number records; those of "
        f"{type(model).__name__} are other numbers, of which none is ever {point:g}"
    )


def statistic_name(release: Release) -> str:
    """Return the name of the method that gives the statistic."""
    own = mechanism_abilities(release.mechanism).statistic is not None
    return f"{type(release.mechanism if own else release.query).__name__}.statistic"


def check_statistic(release: Release, records: np.ndarray) -> np.ndarray:
    """Return t_i(x_i, s_dp) of a few records, (m, d), checked for use by the sampler."""
    source, m = statistic_name(release), len(records)
    mechanism = mechanism_abilities(release.mechanism)
    own = mechanism.statistic
    with left_alone(source, records=records):
        if own is not None:
            d = None  # whatever its log_density takes
            t = own(records, np.arange(m) % (release.n_records or m), release.values)
        else:
            d = len(release.query.names)
            t = release.query.statistic(records)
    made = as_statistic(source, t, m, d)
    if mechanism.per_record and np.isneginf(made).any():
        raise ValueError(
            f"{mechanism.name} has laws with zeros, which need a model that sums its records out: "
            "one of few values, whose records are alike, or CountRegression for counts"
        )
    return as_statistic(source, made, m, d, finite=True)


def check_density(release: Release, records: np.ndarray) -> None:
    """Raise if the sampler cannot use the statistic or the mechanism's log density."""
    mechanism = mechanism_abilities(release.mechanism)
    t = check_statistic(release, records)
    total = t.sum(axis=0)
    if mechanism.statistic is None:
        _check_other_shapes(release, records, t)
    if mechanism.terms is not None:
        terms = mechanism.terms(release.values)
        _check_terms(mechanism.name, terms, len(total))
        total = np.where(terms.family == EXACT, terms.parameters[:, 0], total)
    elif mechanism.exact_parts is not None:
        return  # most records have density 0
    as_number(
        f"{mechanism.name}.log_density",
        release.mechanism.log_density(release.values, total),
        "one finite number (the mechanism must give the release a positive density whatever the "
        "records)",
    )


def _check_other_shapes(release: Release, records: np.ndarray, t: np.ndarray) -> None:
    query = query_abilities(release.query)
    name, (m, d) = query.name, t.shape

    def compare(method: str, said: np.ndarray, how: str) -> None:
        if not np.array_equal(said, t):
            raise ValueError(
                f"{name}.{method} and {name}.statistic must say the same: a record adds {how}, and "
                "nothing elsewhere"
            )

    if query.cells is not None:
        cells = arrays.as_cells(f"{name}.cells", called(query, "cells", records=records), m, d)
        counted = np.zeros((m, d))
        for column in cells.T:
            inside = column >= 0
            counted[inside, column[inside]] += 1
        compare("cells", counted, "1 to each of its cells")
    if query.placed is not None:
        rows = arrays.as_placed(f"{name}.placed", called(query, "placed", records=records), m, d)
        spread, w = np.zeros((m, d)), rows.shape[1] - 1
        columns = rows[:, :1].astype(np.int64) + np.arange(w)
        np.put_along_axis(spread, columns, rows[:, 1:], axis=1)
        compare("placed", spread, "its numbers from one coordinate on")
    if query.total is not None:
        said = arrays.as_total(f"{name}.total", called(query, "total", records=records), d)
        total = t.sum(axis=0)
        if not np.allclose(said, total, rtol=1e-8, atol=1e-8):
            raise ValueError(
                f"{name}.total must be the sum of {name}.statistic over the records; got "
                f"{short(said)}, and the sum is {short(total)}"
            )


def _check_terms(name: str, terms: Any, d: int) -> None:
    """Raise unless terms have the form that compiled loops read unchecked."""
    try:
        family, parameters = terms
        fits = (
            isinstance(terms, SeparableDensity)
            and (family.shape, family.dtype) == ((d,), np.int64)
            and (parameters.shape, parameters.dtype) == ((d, 4), np.float64)
        )
    except (TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise TypeError(
            f"{name}.terms must return noiseaware.mechanisms.SeparableDensity, with family int64 "
            f"({d},) and parameters float64 ({d}, 4); got {short(terms)}"
        )
