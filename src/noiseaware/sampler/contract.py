"""Checks before any sampling: the model, the query and the release must fit one another.

One small database is drawn from the model and sent through every method that the sampler will
call. What comes back is checked, and an error names the method, what it returned and what would
be right. The conditions of the paper's ergodicity theorem that can be seen from here are seen to:
A1, the prior can be drawn from and has positive density there; A3, the mechanism gives the
release a positive density.

What a class of a user's own does wrong only now and then is caught where it happens, by `Target`
and, for an exception, by `named`. Whether what it does is *right* is the question of
`noiseaware.validate`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from noiseaware.parameters import Innovations, Parameter
from noiseaware.release import Release
from noiseaware.sampler.arrays import (
    as_cells,
    as_innovations,
    as_statistic,
    as_total,
    short,
    usual_array,
)
from noiseaware.sampler.naming import named

_TRY = 7
"""Records in the small database: a number that no built-in shape has by accident."""

_MORE, _MANY = 10, 200
"""Databases, and records in each, that are shown to the query."""


def check_fit(model: Any, release: Any) -> None:
    """Raise ValueError or TypeError if this model cannot be sampled with this release."""
    if not isinstance(release, Release):
        raise TypeError(f"release must be a noiseaware.Release; got {type(release).__name__}")
    check_methods(model)
    rng = np.random.default_rng(0)
    check_index(model)
    _check_n_records(model, release)
    with named(model, release.mechanism, release.query):
        theta = check_theta(
            f"{_name(model)}.sample_prior", model.sample_prior(rng), model.parameters
        )
        check_log_prior(model, theta)
        check_derived(model, theta)
        index = _spread(release, _TRY)
        records = check_records(model, theta, index, rng)
        _check_query(model, release, records, rng)
        check_density(model, release, records)
        check_kernel(model, theta, records, rng)
        check_log_likelihood(model, theta, records)
        check_recovery(model, theta, records, index, rng)


def _name(model: Any) -> str:
    return type(model).__name__


@contextmanager
def left_alone(method: str, **given: Any) -> Iterator[None]:
    """Raise if the method that is called inside changes the arrays that it was given.

    A keyword is the name that the message has for an array, or for a theta.
    """
    before = {name: _copy(value) for name, value in given.items()}
    yield
    for name, value in given.items():
        if not _equal(value, before[name]):
            raise ValueError(f"{method} must not change the {name} it is given")


def _copy(value: Any) -> Any:
    return {k: np.array(v) for k, v in value.items()} if isinstance(value, dict) else value.copy()


def _equal(value: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return value.keys() == before.keys() and all(
            map(np.array_equal, value.values(), before.values())
        )
    return np.array_equal(value, before)


def check_methods(model: Any) -> None:
    """Raise TypeError or ValueError if the model lacks what every sampler needs."""
    name = _name(model)
    if isinstance(model, type):
        raise TypeError(
            f"model must be an object, such as {model.__name__}(...); got the class {model!r}"
        )
    for attribute in ("parameters", "sample_prior"):
        if not hasattr(model, attribute):
            raise TypeError(f"model must have `{attribute}`; {name} has none")
    if not callable(model.sample_prior):
        raise TypeError(f"{name}.sample_prior must be a method; got {model.sample_prior!r}")
    if not (
        isinstance(model.parameters, tuple | list)
        and model.parameters
        and all(isinstance(p, Parameter) for p in model.parameters)
    ):
        raise TypeError(
            f"{name}.parameters must be a tuple of noiseaware.Parameter; got {model.parameters!r}"
        )
    _check_labels(name, (*model.parameters, *getattr(model, "derived", ())))
    if not hasattr(model, "sample_records") and not hasattr(model, "build_records"):
        raise TypeError(
            f"model must have sample_records(theta, n, rng) or build_records(theta, innovations); "
            f"{name} has neither"
        )
    if hasattr(model, "build_records"):
        for attribute in ("innovations", "log_prior"):
            if not hasattr(model, attribute):
                raise TypeError(f"{name} has build_records, so it needs `{attribute}` too")
        if not isinstance(model.innovations, Innovations):
            raise TypeError(
                f"{name}.innovations must be noiseaware.Innovations(kind, width); "
                f"got {model.innovations!r}"
            )
    elif not hasattr(model, "update_parameters"):
        missing = [m for m in ("log_prior", "log_likelihood") if not hasattr(model, m)]
        if missing:
            raise TypeError(
                f"model must have update_parameters(theta, records, rng), or log_prior(theta) and "
                f"log_likelihood(theta, records) for a ready kernel, or build_records(theta, "
                f"innovations) to be sampled without one; {name} has no update_parameters, "
                f"{' and no '.join([*missing, 'build_records'])}"
            )


def check_index(model: Any) -> None:
    """Raise unless a model that asks for the records' numbers has room for them."""
    if not getattr(model, "uses_index", False):
        return
    for method in ("sample_records", "build_records"):
        if not hasattr(model, method):
            continue
        arguments = inspect.signature(getattr(model, method)).parameters
        if "index" not in arguments:
            raise TypeError(
                f"{_name(model)} has uses_index, so {method} must take an argument index, the "
                f"numbers of the records to make; it takes {', '.join(arguments)}"
            )


def check_derived(model: Any, theta: dict[str, Any]) -> None:
    """Raise unless the quantities that a model declares as derived come out of two draws."""
    declared = tuple(getattr(model, "derived", ()))
    if not declared:
        return
    where = f"{_name(model)}.derive"
    if not hasattr(model, "derive"):
        raise TypeError(f"{_name(model)} has `derived`, so it needs derive(theta) too")
    twice = {name: np.stack([np.asarray(value, float)] * 2) for name, value in theta.items()}
    made = model.derive(twice)
    if not isinstance(made, dict) or set(made) != {p.name for p in declared}:
        got = list(made) if isinstance(made, dict) else type(made).__name__
        raise ValueError(f"{where} must return a dict of {[p.name for p in declared]}; got {got}")
    for parameter in declared:
        shape = (2, *parameter.shape)
        if np.shape(made[parameter.name]) != shape:
            raise ValueError(
                f"{where} must return {parameter.name} with shape {shape} for two draws of theta "
                f"along the first axis; got {np.shape(made[parameter.name])}"
            )


def _check_labels(model: str, parameters: tuple[Parameter, ...]) -> None:
    """Two parameters may share a name of an axis only if they share its labels."""
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


def check_theta(where: str, theta: Any, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """Return theta as arrays if it holds the declared parameters, in their supports."""
    if not isinstance(theta, dict):
        raise TypeError(f"{where} must return a dict of parameters; got {type(theta).__name__}")
    names = [p.name for p in parameters]
    if set(theta) != set(names):
        raise ValueError(f"{where} must return the parameters {names}; got {list(theta)}")
    for parameter in parameters:
        try:
            value = np.asarray(theta[parameter.name], dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{where} must return numbers for {parameter.name}; got {theta[parameter.name]!r}"
            ) from None
        if value.shape != tuple(parameter.shape):
            raise ValueError(
                f"{where} must return {parameter.name} with shape {tuple(parameter.shape)}; "
                f"got {value.shape}"
            )
        if not np.isfinite(value).all():
            raise ValueError(f"{where} returned a value of {parameter.name} that is not finite")
        problem = _outside(parameter.support, value)
        if problem:
            raise ValueError(f"{where}: {parameter.name} must be {problem}; got {value}")
    return theta


def _outside(support: str, value: np.ndarray) -> str:
    if support == "positive" and not (value > 0).all():
        return "positive"
    if support == "unit" and not ((value >= 0) & (value <= 1)).all():
        return "between 0 and 1"
    if support == "simplex" and not (
        (value >= 0).all() and np.allclose(value.sum(axis=-1), 1.0, atol=1e-8)
    ):
        return "at least 0 and sum to 1 along the last axis"
    if support == "table" and not ((value >= 0).all() and abs(value.sum() - 1.0) < 1e-8):
        return "at least 0 and sum to 1 over all entries"
    if support == "covariance" and not (
        np.allclose(value, value.swapaxes(-1, -2)) and (np.linalg.eigvalsh(value) > 0).all()
    ):
        return "symmetric and positive definite"
    return ""


def _number(where: str, value: Any, wanted: str) -> float:
    """Return one finite number, or raise."""
    try:
        number = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where} must return {wanted}; got {short(value)}") from None
    if number.shape != () or not np.isfinite(number):
        raise ValueError(f"{where} must return {wanted}; got {short(value)}")
    return float(number)


def check_log_prior(model: Any, theta: dict[str, Any]) -> None:
    """Raise if the prior density is not a finite number at a draw of the prior."""
    if not hasattr(model, "log_prior"):
        return
    where = f"{_name(model)}.log_prior"
    with left_alone(where, theta=theta):
        value = model.log_prior(theta)
    _number(where, value, "one finite number at a draw of sample_prior")


def check_made(where: str, records: Any, n: int) -> np.ndarray:
    """Return what a method made if it is an array of n records of finite numbers."""
    if not isinstance(records, np.ndarray):
        raise TypeError(f"{where} must return a NumPy array; got {type(records).__name__}")
    if records.dtype.kind not in "fiub":
        raise TypeError(f"{where} must return an array of real numbers; got dtype {records.dtype}")
    if records.ndim == 0 or len(records) != n:
        raise ValueError(
            f"{where} must return {n} records along the first axis when asked for "
            f"{n}; got shape {records.shape}"
        )
    if records.size == 0:
        raise ValueError(f"{where} must return records with entries; got shape {records.shape}")
    if not np.isfinite(records).all():
        raise ValueError(f"{where} returned records that are not finite")
    return records


def _check_n_records(model: Any, release: Release) -> None:
    n = getattr(model, "n_records", None)
    if n is not None and n != release.n_records:
        raise ValueError(
            f"the model {model!r} is of {n} records, and the release of {release.n_records}"
        )


def _spread(release: Release, m: int) -> np.ndarray:
    """Return m indices from the first record to the last, for a model that asks for them."""
    return np.arange(m) * release.n_records // m


def make_records(
    model: Any, method: str, theta: dict[str, Any], index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Make the records with these numbers by build_records or sample_records, and check them."""
    where, n = f"{_name(model)}.{method}", len(index)
    if method == "sample_records":
        with left_alone(where, theta=theta):
            made = model.sample_records(theta, n, rng, **_told(model, index))
        return check_made(where, made, n)
    innovations = draw_innovations(model.innovations, n, rng)
    with left_alone(where, innovations=innovations, theta=theta):
        made = model.build_records(theta, innovations, **_told(model, index))
    return check_made(where, made, n)


def draw_innovations(innovations: Innovations, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw u for n records, (n, width)."""
    shape = (n, innovations.width)
    return rng.standard_normal(shape) if innovations.kind == "normal" else rng.random(shape)


def makers(model: Any) -> list[str]:
    """Return the names of the methods by which the model makes records."""
    return [name for name in ("build_records", "sample_records") if hasattr(model, name)]


def check_records(
    model: Any, theta: dict[str, Any], index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a small database if the methods that make records agree on what a record is."""
    name = _name(model)
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


def _told(model: Any, index: np.ndarray) -> dict[str, np.ndarray]:
    """Return what a method that makes records is told of them beside theta: often nothing."""
    return {"index": index} if getattr(model, "uses_index", False) else {}


def draw_records(
    model: Any, theta: dict[str, Any], index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the records with these numbers from f(. | theta), as the model makes them."""
    if hasattr(model, "sample_records"):
        return model.sample_records(theta, len(index), rng, **_told(model, index))
    innovations = draw_innovations(model.innovations, len(index), rng)
    return model.build_records(theta, innovations, **_told(model, index))


def _check_query(
    model: Any, release: Release, records: np.ndarray, rng: np.random.Generator
) -> None:
    query = release.query
    if not hasattr(query, "check_records"):
        return
    try:
        query.check_records(records)
        # A level that the query does not have may be rare: look at many records, of several theta.
        for _ in range(_MORE):
            theta = model.sample_prior(rng)
            query.check_records(draw_records(model, theta, _spread(release, _MANY), rng))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"the model {model!r} does not fit the query {query!r} of the release: {error}"
        ) from None


def statistic_name(release: Release) -> str:
    """Return what to call the method that gives the statistic."""
    owner = release.mechanism if hasattr(release.mechanism, "statistic") else release.query
    return f"{_name(owner)}.statistic"


def check_statistic(release: Release, records: np.ndarray) -> np.ndarray:
    """Return t_i(x_i, s_dp) of a few records, (m, d), if it is what the sampler can use."""
    source = statistic_name(release)
    m = len(records)
    with left_alone(source, records=records):
        if hasattr(release.mechanism, "statistic"):
            d = None  # whatever its log_density takes
            index = np.arange(m) % release.n_records
            t = release.mechanism.statistic(records, index, release.values)
        else:
            d = len(release.query.names)
            t = release.query.statistic(records)
    return as_statistic(source, t, m, d, finite=True)


def check_density(model: Any, release: Release, records: np.ndarray) -> None:
    """Raise if the statistic, or the mechanism's log density, is not what the sampler can use."""
    mechanism, query = release.mechanism, release.query
    t = check_statistic(release, records)
    total = t.sum(axis=0)
    if not hasattr(mechanism, "statistic"):
        name, d = _name(query), len(query.names)
        if hasattr(query, "cells"):
            with left_alone(f"{name}.cells", records=records):
                cells = as_cells(f"{name}.cells", query.cells(records), len(records), d)
            counted = np.zeros((len(records), d))
            for k in range(cells.shape[1]):
                inside = cells[:, k] >= 0
                counted[inside, cells[inside, k]] += 1
            if not np.array_equal(counted, t):
                raise ValueError(
                    f"{name}.cells and {name}.statistic must say the same: a record adds 1 to each "
                    "of its cells, and nothing elsewhere"
                )
        if hasattr(query, "total"):
            with left_alone(f"{name}.total", records=records):
                said = as_total(f"{name}.total", query.total(records), d)
            if not np.allclose(said, total, rtol=1e-8, atol=1e-8):
                raise ValueError(
                    f"{name}.total must be the sum of {name}.statistic over the records; got "
                    f"{short(said)}, and the sum is {short(total)}"
                )
    if hasattr(mechanism, "terms"):
        _check_terms(_name(mechanism), mechanism.terms(release.values), len(total))
    value = mechanism.log_density(release.values, total)
    _number(
        f"{_name(mechanism)}.log_density",
        value,
        "one finite number (the mechanism must give the release a positive density whatever the "
        "records)",
    )


def _check_terms(name: str, terms: Any, d: int) -> None:
    """Terms are read by compiled loops, which do not look at what they are given."""
    try:
        family, parameters = terms
        # int32 is the sign of the longer formulas; see `mechanisms.terms.longer_term`.
        fits = (
            family.shape == (d,)
            and family.dtype in (np.int64, np.int32)
            and (parameters.shape, parameters.dtype) == ((d, 4), np.float64)
        )
    except (TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise TypeError(
            f"{name}.terms must return noiseaware.mechanisms.terms.Terms, with family int64 "
            f"({d},) and parameters float64 ({d}, 4); got {short(terms)}"
        )


def check_kernel(
    model: Any, theta: dict[str, Any], records: np.ndarray, rng: np.random.Generator
) -> None:
    """Raise if the model's kernel returns no theta, or changes what it is given."""
    if not hasattr(model, "update_parameters"):
        return
    where = f"{_name(model)}.update_parameters"
    with left_alone(where, records=records, theta=theta):
        made = model.update_parameters(theta, records, rng)
    check_theta(where, made, model.parameters)


def check_log_likelihood(model: Any, theta: dict[str, Any], records: np.ndarray) -> None:
    """Raise if log f is not one number a record."""
    if not hasattr(model, "log_likelihood"):
        return
    where = f"{_name(model)}.log_likelihood"
    with left_alone(where, records=records, theta=theta):
        made = model.log_likelihood(theta, records)
    wanted = (
        f"{where} must return one number for each of the {len(records)} records, "
        f"shape ({len(records)},), and no NaN; got {short(made)}"
    )
    try:
        value = np.asarray(made, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(wanted) from None
    if value.shape != (len(records),) or np.isnan(value).any():
        raise ValueError(wanted)


def check_recovery(
    model: Any,
    theta: dict[str, Any],
    records: np.ndarray,
    index: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Raise if the innovations of some records do not give these records back."""
    if not hasattr(model, "recover_innovations"):
        return
    name = _name(model)
    if not hasattr(model, "build_records"):
        raise TypeError(f"{name} has recover_innovations, so it needs build_records too")
    where = f"{name}.recover_innovations"
    with left_alone(where, records=records, theta=theta):
        innovations = model.recover_innovations(theta, records, rng)
    innovations = as_innovations(where, innovations, len(records), model.innovations.width)
    rebuilt = usual_array(model.build_records(theta, innovations, **_told(model, index)))
    if records.dtype.kind == "f":
        same = np.isclose(rebuilt, records, rtol=1e-6, atol=1e-8)
    else:
        same = rebuilt == records
    if not same.all():
        i = int(np.argwhere(~same)[0][0])
        raise ValueError(
            f"{name}.build_records(theta, recover_innovations(theta, records, rng)) must "
            f"give back the records it started from; record {records[i]} became {rebuilt[i]}"
        )
