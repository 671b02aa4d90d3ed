"""Checks of a model, method by method."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from noiseaware.agreement import fit
from noiseaware.agreement.arrays import as_innovations, usual_array
from noiseaware.contract import poisson_means
from noiseaware.maths.coordinates import Coordinates, check_theta
from noiseaware.validation import compare
from noiseaware.validation.case import Case, refuses
from noiseaware.validation.compare import Difference, Joint, columns, directions, largest_difference

STEPS = 12
"""Steps of a random walk, and calls of a kernel, before the outcome is compared."""

PILOT = 300
"""Draws that determine how theta is compared; they are not compared themselves."""

FEW = 4
"""Records in a database for comparing log_likelihood with the prior."""


def attributes(case: Case) -> str:
    """Check that the model has the methods that every sampler needs."""
    fit.check_methods(case.model)
    fit.check_index(case.model)
    methods = [name for name, value in vars(case.able).items() if callable(value)]
    found = ["sample_prior", *(name for name in methods if name != "model")]
    names = ", ".join(parameter.name for parameter in case.able.parameters)
    return f"{case.able.name} has the parameters {names} and the methods {', '.join(found)}"


def sample_prior(case: Case) -> str:
    """Check draws of the prior."""
    rng = case.rng(0)
    where = f"{case.able.name}.sample_prior"
    draws = [case.draw_theta(rng) for _ in range(case.draws)]
    case.check_repeats(where, case.model.sample_prior)
    if all(np.array_equal(draw[name], draws[0][name]) for draw in draws for name in draw):
        raise ValueError(
            f"{where} must draw from the prior; it returned {draws[0]!r} {case.draws} times"
        )
    return f"{case.draws} draws have the declared names, shapes and supports"


def log_prior(case: Case) -> str:
    """Check that log_prior is the density of sample_prior: a walk on it leaves that invariant."""
    rng, coordinates = case.rng(1), case.coordinates
    where = f"{case.able.name}.log_prior"
    for _ in range(case.draws):
        fit.check_log_prior(case.model, case.draw_theta(rng))

    def vectors() -> np.ndarray:
        return np.stack(
            [coordinates.to_vector(case.model.sample_prior(rng)) for _ in range(case.replicates)]
        )

    density = functools.partial(_density_of_theta, case)
    fresh, started, pilot = vectors(), vectors(), vectors()
    factor = compare.shape_of(pilot)
    ended = np.stack([compare.metropolis(density, v, factor, STEPS, rng) for v in started])
    values = [np.array([density(v) for v in part]) for part in (fresh, ended)]
    for v, value in zip(fresh, values[0], strict=True):
        theta, log_jacobian = coordinates.from_vector(v)
        if math.isfinite(log_jacobian) and not math.isfinite(value):
            raise ValueError(
                f"{where} must be finite wherever sample_prior draws; got {value} at {theta}"
            )
    values = [np.where(np.isfinite(part), part, 0.0) for part in values]  # off V: no density
    found = largest_difference(
        [*compare.folded_names(_coordinate_names(case)), "log_prior"],
        np.column_stack([compare.folded(fresh, pilot), values[0]]),
        np.column_stack([compare.folded(ended, pilot), values[1]]),
        case.level,
    )
    if found:
        raise ValueError(
            f"{where} and {case.able.name}.sample_prior must be of the same distribution; a walk "
            f"on log_prior that starts at draws of sample_prior leaves it: {found}"
        )
    return "finite at all draws of sample_prior, and the density of what it draws"


def _density_of_theta(case: Case, v: np.ndarray, x: np.ndarray | None = None) -> float:
    """Return the log prior density in the coordinates v; with records, the joint density."""
    prior: Any = case.able.log_prior
    likelihood: Any = case.able.log_likelihood
    theta, log_jacobian = case.coordinates.from_vector(v)
    value = 0.0
    if x is not None:
        try:
            value = float(np.sum(likelihood(theta, x)))
            value -= poisson_means(case.model, theta).sum() if case.able.random_size else 0.0
        except (ArithmeticError, ValueError):  # so far out that theta rounds to an edge
            return -math.inf
    value += float(prior(theta)) + log_jacobian
    return value if value < math.inf else -math.inf  # also where it is NaN


def _coordinate_names(case: Case) -> list[str]:
    """Name each free coordinate of theta, in the scale in which the sampler moves it."""
    if case.able.coordinates is not None:
        return [f"coordinate {j}" for j in range(case.coordinates.size)]
    words = {"positive": "log ", "unit": "logit ", "simplex": "log ratio of "}
    return [
        f"{words.get(p.support, '')}{p.name}" + (f"[{j}]" if p.shape else "")
        for p in case.able.parameters
        for j in range(Coordinates((p,)).size)
    ]


def records(case: Case) -> str:
    """Check records at many draws of theta: shape, dtype, and that no `check_records` objects."""
    rng, able, query = case.rng(2), case.able, case.query
    first = fit.check_records(case.model, case.draw_theta(rng), case.numbers(7), rng)
    for k in range(case.draws):
        theta = case.draw_theta(rng)
        for method in fit.makers(case.model):
            made = case.make_records(method, theta, 1 if k == 0 else case.n, rng)
            if made.shape[1:] != first.shape[1:] or usual_array(made).dtype != first.dtype:
                raise ValueError(
                    f"{able.name}.{method} must return records of the same shape and dtype each "
                    f"time; got {made.shape} {made.dtype}, and {first.shape} {first.dtype} before"
                )
            for judge in (able, query):
                words = refuses(judge.check_records, made)
                if words is not None:
                    raise ValueError(
                        f"{judge.name}.check_records refuses records that {able.name}.{method} "
                        f"made at theta = {theta}: {words}"
                    )
    if able.sample_records is not None:
        draw = functools.partial(case.draw_records, theta, 5)
        case.check_repeats(f"{able.name}.sample_records", draw)
    shape = ("n", *map(str, first.shape[1:]))
    return f"{first.dtype} of shape ({', '.join(shape)}{',' * (len(shape) == 1)}), finite"


def same_records(case: Case) -> str:
    """Check that sample_records and build_records draw from the same distribution."""
    rng, name = case.rng(3), case.able.name
    for _ in range(case.thetas):
        theta = case.draw_theta(rng)
        pilot, sampled, built = (
            case.make_records(method, theta, case.records, rng)
            for method in ("sample_records", "sample_records", "build_records")
        )
        found = _compare_records(case, pilot, sampled, built, rng)
        if found:
            raise ValueError(
                f"{name}.sample_records(theta, n, rng) and {name}.build_records(theta, u) must "
                f"draw from the same distribution; at theta = {theta} {found} with build_records"
            )
    return f"draws from the same distribution as build_records at {case.thetas} theta"


def _compare_records(
    case: Case, pilot: np.ndarray, a: np.ndarray, b: np.ndarray, rng: np.random.Generator
) -> Difference | None:
    """Compare records in each column and in random directions; `pilot` is a further sample."""
    pilot, a, b = columns(pilot), columns(a), columns(b)
    width = a.shape[1]
    names = compare.column_names(case.able.column_names, width)
    sides = directions(width, rng)
    mixed = ["a mixture of the columns"] * (sides.shape[1] - width)
    middle, spread = compare.scale_of(pilot)
    around = ((pilot - middle) / spread) @ sides
    one, other = (compare.folded(((x - middle) / spread) @ sides, around) for x in (a, b))
    all_names = compare.folded_names([*names, *mixed])
    found = largest_difference(all_names, one, other, case.level / case.thetas)
    if found is None or found.name not in names:
        return found
    j = names.index(found.name)  # back from the standardised columns to what the user knows
    return Difference(found.name, found.p_value, float(a[:, j].mean()), float(b[:, j].mean()))


def recovery(case: Case) -> str:
    """Check that u rebuilds the records and is distributed as declared."""
    from scipy.special import ndtr, ndtri

    rng, able = case.rng(4), case.able
    where = f"{able.name}.recover_innovations"
    assert able.recover_innovations is not None
    assert able.innovations is not None
    kind, width = able.innovations.kind, able.innovations.width
    tests = case.thetas * (width + (compare.PROJECTIONS if width > 1 else 0))
    for _ in range(case.thetas):
        theta = case.draw_theta(rng)
        made = case.draw_records(theta, case.records, rng)
        fit.check_recovery(case.model, theta, made, case.numbers(len(made)), rng)
        u = as_innovations(where, able.recover_innovations(theta, made, rng), len(made), width)
        if kind == "uniform" and not ((u >= 0) & (u < 1)).all():
            wrong = u[(u < 0) | (u >= 1)][0]
            raise ValueError(f"{where} must return uniform innovations in [0, 1); got {wrong}")
        normal = u if kind == "normal" else ndtri(np.clip(u, 1e-300, 1 - 1e-16))
        projected = normal @ directions(width, rng)
        for j in range(projected.shape[1]):
            p_value = compare.one_sample(ndtr(projected[:, j]))
            if p_value < case.level / tests:
                what = f"entry {j}" if j < width else "a mixture of the entries"
                column = u[:, j] if j < width else projected[:, j]
                raise ValueError(
                    f"{where} must return innovations that are independent and {kind} if the "
                    f"records come from the model at theta; at theta = {theta} {what} of u has "
                    f"mean {column.mean():.3g} and standard deviation {column.std():.3g} (by "
                    f"chance with probability below {p_value:.1g})"
                )
    return f"gives back the records, from {kind} innovations, at {case.thetas} theta"


def log_likelihood(case: Case) -> str:
    """Check that log_likelihood is the density of the records, in x and in theta."""
    rng, able = case.rng(5), case.able
    where = f"{able.name}.log_likelihood"
    assert able.log_likelihood is not None
    for _ in range(case.draws):
        theta, made = case.draw_database(rng)
        fit.check_log_likelihood(case.model, theta, made)
        value = np.asarray(able.log_likelihood(theta, made), dtype=np.float64)
        if not np.isfinite(value).all():
            i = int(np.argmin(np.isfinite(value)))
            raise ValueError(
                f"{where} must be finite at records that the model made; got {value[i]} for the "
                f"record {made[i]} at theta = {theta}"
            )
    # What a record's index fixes has no density, so a walk must not change it.
    alike = not able.uses_index
    in_x = _density_in_records(case, rng) if alike else None
    if in_x:
        raise ValueError(
            f"{where} must be the log density of the records that the model makes; with theta "
            f"held, a walk on it that starts at such records leaves them: {in_x}. (It must be -inf "
            "at records that cannot be, unless check_records refuses them)"
        )
    if able.log_prior is None or not case.passed("log_prior"):
        held = "finite, and the density of the records that the model makes, with theta held"
        return held if alike else "finite at the records that the model makes"
    in_theta = _density_in_theta(case, rng)
    if in_theta:
        raise ValueError(
            f"{where} must be the log density of the records as theta changes, with every factor "
            f"that theta is in; with log_prior and this log_likelihood, theta given x is not what "
            f"it should be: {in_theta}"
        )
    seen = "in x and in theta" if alike else "in theta"
    return f"finite, and the density of the records that the model makes, {seen}"


def _density_in_records(case: Case, rng: np.random.Generator) -> Difference | None:
    """Walk on the records with theta held; compare with fresh records."""
    for _ in range(case.thetas):
        theta = case.draw_theta(rng)
        fresh, now, seen = (case.draw_records(theta, case.records, rng) for _ in range(3))
        density = _density_of_records(case, theta, now)
        for _ in range(STEPS):
            proposed = _nudged(case, now, seen, rng)
            new = _density_of_records(case, theta, proposed)
            accept = -rng.standard_exponential(len(now)) < new - density
            now = np.where(accept.reshape((-1,) + (1,) * (now.ndim - 1)), proposed, now)
            density = np.where(accept, new, density)
        found = _compare_records(case, seen, fresh, now, rng)
        if found:
            return found
    return None


def _nudged(case: Case, now: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Propose other records, symmetrically.

    Real numbers get a step of random size. Integers are replaced by any possible record if the
    model lists these, and otherwise by a value that was seen, one column at a time. A value not
    among those seen stays, to keep the proposal symmetric.
    """
    if now.dtype.kind == "f":
        spread = compare.scale_of(columns(seen))[1].reshape(now.shape[1:])
        size = np.exp(rng.standard_normal((len(now),) + (1,) * (now.ndim - 1)))
        return (now + size * spread * rng.standard_normal(now.shape)).astype(now.dtype)
    if case.able.record_values is not None and not case.able.uses_index:
        possible = np.asarray(case.able.record_values)
        return possible[rng.integers(len(possible), size=len(now))].astype(now.dtype)
    proposed = now.copy()
    flat = proposed.reshape(len(now), -1)
    column = rng.integers(flat.shape[1], size=len(now))
    for j in range(flat.shape[1]):
        values = np.unique(seen.reshape(len(seen), -1)[:, j])
        rows = np.flatnonzero((column == j) & np.isin(flat[:, j], values))
        flat[rows, j] = values[rng.integers(len(values), size=len(rows))]
    return proposed


def _density_of_records(case: Case, theta: dict[str, Any], x: np.ndarray) -> np.ndarray:
    """Return log f of each record; -inf if the model refuses the record or fails on it."""
    check, density = case.able.check_records, case.able.log_likelihood
    assert density is not None
    result = np.full(len(x), -np.inf)
    rows = np.arange(len(x))
    if refuses(check, x) is not None:
        rows = np.array([i for i in rows if refuses(check, x[i : i + 1]) is None], dtype=np.int64)
    if len(rows):
        try:
            result[rows] = density(theta, x[rows])
        except Exception:  # records that cannot be, and no check_records that says so
            for i in rows.tolist():
                with suppress(Exception):
                    result[i] = density(theta, x[i : i + 1])[0]
    return np.where(np.isnan(result), -np.inf, result)


def _joint_experiment(
    case: Case, n: int, move: Callable[..., dict[str, Any]], rng: np.random.Generator
) -> Difference | None:
    def draw(count: int, move: Any = None) -> tuple[np.ndarray, list[np.ndarray]]:
        vectors, databases = [], []
        for _ in range(count):
            theta, x = case.draw_database(rng, n)
            vectors.append(case.coordinates.to_vector(theta if move is None else move(theta, x)))
            databases.append(x)
        return np.stack(vectors), databases

    quantities = Joint(_coordinate_names(case), *draw(PILOT))
    fresh, ended = draw(case.replicates), draw(case.replicates, move)
    return largest_difference(quantities.names, quantities(*fresh), quantities(*ended), case.level)


def _density_in_theta(case: Case, rng: np.random.Generator) -> Difference | None:
    coordinates = case.coordinates
    pilot = [coordinates.to_vector(case.draw_theta(rng)) for _ in range(200)]
    factor = compare.shape_of(np.stack(pilot))

    def move(theta: dict[str, Any], x: np.ndarray) -> dict[str, Any]:
        density = functools.partial(_density_of_theta, case, x=x)
        v = compare.metropolis(density, coordinates.to_vector(theta), factor, STEPS, rng)
        return coordinates.from_vector(v)[0]

    return _joint_experiment(case, min(FEW, case.n), move, rng)


def update_parameters(case: Case) -> str:
    """Check that the model's kernel leaves p(theta | x) invariant."""
    kernel(case, case.able.update_parameters, f"{case.able.name}.update_parameters")
    return f"leaves p(theta | x) invariant, over {STEPS} calls in {case.replicates} databases"


def kernel(case: Case, function: Any, where: str) -> None:
    """Raise if kernel(theta, records, rng) does not leave p(theta | x) invariant."""
    rng, parameters = case.rng(6), case.able.parameters
    for _ in range(case.draws // 5):
        theta, x = case.draw_database(rng)
        with fit.left_alone(where, records=x, theta=theta):
            made = function(theta, x, rng)
        check_theta(where, made, parameters)
        if any(np.shares_memory(made[k], x) for k in made if isinstance(made[k], np.ndarray)):
            raise ValueError(f"{where} must return arrays of its own, not views of the records")
    case.check_repeats(where, functools.partial(function, theta, x))

    def move(theta: dict[str, Any], x: np.ndarray) -> dict[str, Any]:
        for _ in range(STEPS // 3):
            theta = check_theta(where, function(theta, x, rng), parameters)
        return theta

    found = _joint_experiment(case, case.n, move, rng)
    if found:
        raise ValueError(
            f"{where} must leave p(theta | x) invariant; started from theta and records that the "
            f"model drew together, it ends elsewhere: {found}"
        )
