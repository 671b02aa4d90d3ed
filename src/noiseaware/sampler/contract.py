"""Checks before any sampling: the model, the query and the release must fit one another.

One small database is drawn from the model and sent through every method that the sampler will
call. What comes back is checked, and an error names the method, what it returned and what would
be right. The conditions of the paper's ergodicity theorem that can be seen from here are seen to:
A1, the prior can be drawn from and has positive density there; A3, the mechanism gives the
release a positive density.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from noiseaware.parameters import Innovations, Parameter
from noiseaware.release import Release

_TRY = 7
"""Records in the small database: a number that no built-in shape has by accident."""

_MORE, _MANY = 10, 200
"""Databases, and records in each, that are shown to the query."""


def check_fit(model: Any, release: Any) -> None:
    """Raise ValueError or TypeError if this model cannot be sampled with this release."""
    if not isinstance(release, Release):
        raise TypeError(f"release must be a noiseaware.Release; got {type(release).__name__}")
    rng = np.random.default_rng(0)
    name = _name(model)
    _check_methods(model)
    _check_n_records(model, release)
    _check_index(model)
    theta = check_theta(f"{name}.sample_prior", model.sample_prior(rng), model.parameters)
    _check_log_prior(model, theta)
    _check_derived(model, theta)
    records = _check_records(model, theta, _spread(release, _TRY), rng)
    _check_query(model, release, records, rng)
    with _left_alone(_statistic_name(release), records):
        _check_density(model, release, records)
    if hasattr(model, "update_parameters"):
        with _left_alone(f"{name}.update_parameters", records):
            made = model.update_parameters(theta, records, rng)
        check_theta(f"{name}.update_parameters", made, model.parameters)
    if hasattr(model, "log_likelihood"):
        with _left_alone(f"{name}.log_likelihood", records):
            _check_log_likelihood(model, theta, records)
    if hasattr(model, "recover_innovations"):
        with _left_alone(f"{name}.recover_innovations", records):
            _check_recovery(model, theta, records, _spread(release, _TRY), rng)


def _name(model: Any) -> str:
    return type(model).__name__


@contextmanager
def _left_alone(method: str, array: np.ndarray, what: str = "records") -> Iterator[None]:
    """Raise if the method that is called inside changes the array that it was given."""
    before = array.copy()
    yield
    if not np.array_equal(array, before):
        raise ValueError(f"{method} must not change the {what} it is given")


def _check_methods(model: Any) -> None:
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


def _check_index(model: Any) -> None:
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


def _check_derived(model: Any, theta: dict[str, Any]) -> None:
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
    if support == "covariance" and not (
        np.allclose(value, value.swapaxes(-1, -2)) and (np.linalg.eigvalsh(value) > 0).all()
    ):
        return "symmetric and positive definite"
    return ""


def _check_log_prior(model: Any, theta: dict[str, Any]) -> None:
    if not hasattr(model, "log_prior"):
        return
    value = np.asarray(model.log_prior(theta), dtype=np.float64)
    if value.shape != () or not np.isfinite(value):
        raise ValueError(
            f"{_name(model)}.log_prior must return one finite number at a draw of sample_prior; "
            f"got {value!r}"
        )


def _check_n_records(model: Any, release: Release) -> None:
    n = getattr(model, "n_records", None)
    if n is not None and n != release.n_records:
        raise ValueError(
            f"the model {model!r} is of {n} records, and the release of {release.n_records}"
        )


def _spread(release: Release, m: int) -> np.ndarray:
    """Return m indices from the first record to the last, for a model that asks for them."""
    return np.arange(m) * release.n_records // m


def _check_records(
    model: Any, theta: dict[str, Any], index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    name = _name(model)
    made: dict[str, np.ndarray] = {}
    if hasattr(model, "build_records"):
        shape = (_TRY, model.innovations.width)
        normal = model.innovations.kind == "normal"
        innovations = rng.standard_normal(shape) if normal else rng.random(shape)
        with _left_alone(f"{name}.build_records", innovations, "innovations"):
            made["build_records"] = model.build_records(theta, innovations, **_told(model, index))
    if hasattr(model, "sample_records"):
        made["sample_records"] = model.sample_records(theta, _TRY, rng, **_told(model, index))
    for method, records in made.items():
        if not isinstance(records, np.ndarray):
            raise TypeError(
                f"{name}.{method} must return a NumPy array; got {type(records).__name__}"
            )
        if records.dtype.kind not in "fiub":
            raise TypeError(
                f"{name}.{method} must return an array of real numbers; got dtype {records.dtype}"
            )
        if records.ndim == 0 or len(records) != _TRY:
            raise ValueError(
                f"{name}.{method} must return {_TRY} records along the first axis when asked for "
                f"{_TRY}; got shape {records.shape}"
            )
        if not np.isfinite(records).all():
            raise ValueError(f"{name}.{method} returned records that are not finite")
    records = next(reversed(made.values()))
    for method, other in made.items():
        if other.shape != records.shape or other.dtype != records.dtype:
            raise ValueError(
                f"{name}.{method} and {name}.sample_records must return the same shape and dtype; "
                f"got {other.shape} {other.dtype} and {records.shape} {records.dtype}"
            )
    return np.ascontiguousarray(records)


def _told(model: Any, index: np.ndarray) -> dict[str, np.ndarray]:
    """Return what a method that makes records is told of them beside theta: often nothing."""
    return {"index": index} if getattr(model, "uses_index", False) else {}


def draw_records(
    model: Any, theta: dict[str, Any], index: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the records with these numbers from f(. | theta), as the model makes them."""
    m = len(index)
    if hasattr(model, "sample_records"):
        return model.sample_records(theta, m, rng, **_told(model, index))
    shape = (m, model.innovations.width)
    normal = model.innovations.kind == "normal"
    innovations = rng.standard_normal(shape) if normal else rng.random(shape)
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


def _statistic_name(release: Release) -> str:
    owner = release.mechanism if hasattr(release.mechanism, "statistic") else release.query
    return f"{_name(owner)}.statistic"


def _check_density(model: Any, release: Release, records: np.ndarray) -> None:
    mechanism = release.mechanism
    source = _statistic_name(release)
    if hasattr(mechanism, "statistic"):
        d = None  # whatever its log_density takes
        t = mechanism.statistic(records, np.arange(_TRY) % release.n_records, release.values)
    else:
        d = len(release.query.names)
        t = release.query.statistic(records)
    if not isinstance(t, np.ndarray) or t.dtype.kind not in "fiub":
        raise TypeError(f"{source} must return a NumPy array of numbers; got {t!r}")
    if t.ndim != 2 or len(t) != _TRY or t.shape[1] != (d or t.shape[1]):
        raise ValueError(
            f"{source} must return shape ({_TRY}, {d or 'd'}) for {_TRY} records; got {t.shape}"
        )
    if not np.isfinite(t).all():
        raise ValueError(f"{source} returned a value that is not finite")
    value = np.asarray(mechanism.log_density(release.values, t.sum(axis=0)), dtype=np.float64)
    if value.shape != () or not np.isfinite(value):
        raise ValueError(
            f"{type(mechanism).__name__}.log_density must return one finite number (the mechanism "
            f"must give the release a positive density whatever the records); got {value!r}"
        )


def _check_log_likelihood(model: Any, theta: dict[str, Any], records: np.ndarray) -> None:
    value = np.asarray(model.log_likelihood(theta, records), dtype=np.float64)
    if value.shape != (_TRY,) or np.isnan(value).any():
        raise ValueError(
            f"{_name(model)}.log_likelihood must return one number for each of the {_TRY} records, "
            f"shape ({_TRY},), and no NaN; got {value!r}"
        )


def _check_recovery(
    model: Any,
    theta: dict[str, Any],
    records: np.ndarray,
    index: np.ndarray,
    rng: np.random.Generator,
) -> None:
    if not hasattr(model, "build_records"):
        raise TypeError(f"{_name(model)} has recover_innovations, so it needs build_records too")
    innovations = np.asarray(model.recover_innovations(theta, records, rng))
    shape = (_TRY, model.innovations.width)
    if innovations.shape != shape:
        raise ValueError(
            f"{_name(model)}.recover_innovations must return shape {shape} for {_TRY} records; "
            f"got {innovations.shape}"
        )
    rebuilt = model.build_records(theta, innovations, **_told(model, index))
    if not np.allclose(rebuilt, records, rtol=1e-6, atol=1e-8):
        raise ValueError(
            f"{_name(model)}.build_records(theta, recover_innovations(theta, records, rng)) must "
            "give back the records it started from; it does not"
        )
