"""What is checked of a model, method by method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.coordinates import Coordinates, check_theta
from noiseaware.sampler import fit
from noiseaware.sampler.arrays import as_innovations, usual_array
from noiseaware.sampler.fit import left_alone, make_records, makers
from noiseaware.validation import compare
from noiseaware.validation.compare import Joint, Setting, columns, directions, largest_difference

__all__ = ["makers"]

STEPS = 12
"""Steps of a walk, and times that a kernel is called, before the outcome is compared."""

PILOT = 300
"""Draws from which it is learned how to look at theta; they are not compared."""

FEW = 4
"""Records in a database with which log_likelihood is compared with the prior."""

METHODS = (
    "sample_prior",
    "log_prior",
    "sample_records",
    "build_records",
    "recover_innovations",
    "log_likelihood",
    "update_parameters",
    "check_records",
)


def _name(model: Any) -> str:
    return type(model).__name__


def attributes(model: Any) -> str:
    """Check that the methods are there that every sampler needs."""
    fit.check_methods(model)
    fit.check_index(model)
    found = [method for method in METHODS if callable(getattr(model, method, None))]
    names = ", ".join(parameter.name for parameter in model.parameters)
    return f"{_name(model)} has the parameters {names} and the methods {', '.join(found)}"


def draw_theta(model: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Draw theta and check it."""
    return check_theta(f"{_name(model)}.sample_prior", model.sample_prior(rng), model.parameters)


def draw_records(model: Any, theta: dict[str, Any], n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n records as the sampler would."""
    return usual_array(make_records(model, makers(model)[-1], theta, numbers(model, n), rng))


def numbers(model: Any, n: int) -> np.ndarray:
    """Return the numbers of n records; a model of so many records has them again and again."""
    return np.arange(n) % (getattr(model, "n_records", None) or max(n, 1))


def coordinates_of(model: Any) -> Any:
    """Return the coordinates in which the sampler moves theta."""
    own = getattr(model, "coordinates", None)
    return Coordinates(tuple(model.parameters)) if own is None else own


def _repeats(where: str, one: Any, other: Any) -> None:
    """Raise if two calls with generators of the same seed gave different results."""
    pairs = [(one[k], other[k]) for k in one] if isinstance(one, dict) else [(one, other)]
    if not all(np.array_equal(a, b) for a, b in pairs):
        raise ValueError(
            f"{where} must take all its random numbers from rng; two generators of the same seed "
            f"gave {one!r} and {other!r}"
        )


def sample_prior(model: Any, setting: Setting) -> str:
    """Check draws of the prior."""
    rng = setting.rng(0)
    draws = [draw_theta(model, rng) for _ in range(setting.draws)]
    one, other = (model.sample_prior(np.random.default_rng(setting.seed)) for _ in range(2))
    _repeats(f"{_name(model)}.sample_prior", one, other)
    if all(np.array_equal(draw[name], draws[0][name]) for draw in draws for name in draw):
        raise ValueError(
            f"{_name(model)}.sample_prior must draw from the prior; it returned {draws[0]!r} "
            f"{setting.draws} times"
        )
    return f"{setting.draws} draws have the declared names, shapes and supports"


def log_prior(model: Any, setting: Setting) -> str:
    """Check that log_prior is the density of sample_prior, by a walk that must leave it alone."""
    rng = setting.rng(1)
    where = f"{_name(model)}.log_prior"
    for _ in range(setting.draws):
        fit.check_log_prior(model, draw_theta(model, rng))
    coordinates = coordinates_of(model)

    def vectors() -> np.ndarray:
        return np.stack(
            [coordinates.to_vector(model.sample_prior(rng)) for _ in range(setting.replicates)]
        )

    def density(v: np.ndarray) -> float:
        theta, log_jacobian = coordinates.from_vector(v)
        return _no_nan(float(model.log_prior(theta)) + log_jacobian)

    fresh, started, pilot = vectors(), vectors(), vectors()
    factor = compare.shape_of(pilot)
    ended = np.stack([compare.metropolis(density, v, factor, STEPS, rng) for v in started])
    values = [np.array([density(v) for v in part]) for part in (fresh, ended)]
    for v, value in zip(fresh, values[0], strict=True):
        if not math.isfinite(value):
            raise ValueError(
                f"{where} must be finite wherever sample_prior draws; got {value} at "
                f"{coordinates.from_vector(v)[0]}"
            )
    found = largest_difference(
        [*compare.folded_names(_coordinate_names(model)), "log_prior"],
        np.column_stack([compare.folded(fresh, pilot), values[0]]),
        np.column_stack([compare.folded(ended, pilot), values[1]]),
        setting.level,
    )
    if found:
        raise ValueError(
            f"{where} and {_name(model)}.sample_prior must be of the same distribution; a walk on "
            f"log_prior that starts at draws of sample_prior leaves it: {found}"
        )
    return "finite at all draws of sample_prior, and the density of what it draws"


def _no_nan(value: float) -> float:
    return value if value == value and value < math.inf else -math.inf


def _coordinate_names(model: Any) -> list[str]:
    """Name each free coordinate of theta: in the scale in which the sampler moves."""
    own = getattr(model, "coordinates", None)
    if own is not None:
        return [f"coordinate {j}" for j in range(own.size)]
    words = {"positive": "log ", "unit": "logit ", "simplex": "log ratio of ", "covariance": ""}
    names = []
    for parameter in model.parameters:
        size = Coordinates((parameter,)).size
        word = words.get(parameter.support, "")
        names += [
            f"{word}{parameter.name}" + (f"[{j}]" if parameter.shape else "") for j in range(size)
        ]
    return names


def records(model: Any, query: Any, setting: Setting) -> str:
    """Check records at many draws of theta: shape, dtype, and that nobody refuses them."""
    rng = setting.rng(2)
    name = _name(model)
    first = fit.check_records(model, draw_theta(model, rng), numbers(model, 7), rng)
    for k in range(setting.draws):
        theta = draw_theta(model, rng)
        for method in makers(model):
            index = numbers(model, 1 if k == 0 else setting.n)
            made = make_records(model, method, theta, index, rng)
            if made.shape[1:] != first.shape[1:] or usual_array(made).dtype != first.dtype:
                raise ValueError(
                    f"{name}.{method} must return records of the same shape and dtype each time; "
                    f"got {made.shape} {made.dtype}, and {first.shape} {first.dtype} before"
                )
            _not_refused(f"{name}.check_records", model, made, f"{name}.{method}", theta)
            _not_refused(
                f"{type(query).__name__}.check_records", query, made, f"{name}.{method}", theta
            )
    if hasattr(model, "sample_records"):
        one, other = (
            draw_records(model, theta, 5, np.random.default_rng(setting.seed)) for _ in range(2)
        )
        _repeats(f"{name}.sample_records", one, other)
    shape = ("n", *map(str, first.shape[1:]))
    return f"{first.dtype} of shape ({', '.join(shape)}{',' * (len(shape) == 1)}), finite"


def _not_refused(judge: str, thing: Any, made: np.ndarray, maker: str, theta: Any) -> None:
    if not hasattr(thing, "check_records"):
        return
    try:
        thing.check_records(made)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{judge} refuses records that {maker} made at theta = {theta}: {error}"
        ) from None


def same_records(model: Any, setting: Setting) -> str:
    """Check that sample_records and build_records draw from the same distribution."""
    rng = setting.rng(3)
    name = _name(model)
    for _ in range(setting.thetas):
        theta = draw_theta(model, rng)
        pilot, sampled, built = (
            make_records(model, method, theta, numbers(model, setting.records), rng)
            for method in ("sample_records", "sample_records", "build_records")
        )
        found = _compare_records(model, pilot, sampled, built, setting, rng)
        if found:
            raise ValueError(
                f"{name}.sample_records(theta, n, rng) and {name}.build_records(theta, u) must "
                f"draw from the same distribution; at theta = {theta} {found} with build_records"
            )
    return f"draws from the same distribution as build_records at {setting.thetas} theta"


def _compare_records(
    model: Any,
    pilot: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    setting: Setting,
    rng: np.random.Generator,
) -> compare.Difference | None:
    """Compare records in each column and in random directions; `pilot` are further ones."""
    pilot, a, b = columns(pilot), columns(a), columns(b)
    width = a.shape[1]
    names = compare.column_names(model, width)
    sides = directions(width, rng)
    mixed = ["a mixture of the columns"] * (sides.shape[1] - width)
    middle, spread = compare.scale_of(pilot)
    around = ((pilot - middle) / spread) @ sides
    one, other = (compare.folded(((x - middle) / spread) @ sides, around) for x in (a, b))
    all_names = compare.folded_names([*names, *mixed])
    found = largest_difference(all_names, one, other, setting.level / setting.thetas)
    if found is None or found.name not in names:
        return found
    j = names.index(found.name)  # back from the standardised columns to what the user knows
    return compare.Difference(
        found.name, found.p_value, float(a[:, j].mean()), float(b[:, j].mean())
    )


def recover_innovations(model: Any, setting: Setting) -> str:
    """Check that u gives the records back, and is distributed as declared."""
    from scipy.special import ndtr, ndtri

    rng = setting.rng(4)
    where = f"{_name(model)}.recover_innovations"
    kind, width = model.innovations.kind, model.innovations.width
    tests = setting.thetas * (width + (compare.PROJECTIONS if width > 1 else 0))
    for _ in range(setting.thetas):
        theta = draw_theta(model, rng)
        made = draw_records(model, theta, setting.records, rng)
        fit.check_recovery(model, theta, made, numbers(model, len(made)), rng)
        u = as_innovations(where, model.recover_innovations(theta, made, rng), len(made), width)
        if kind == "uniform" and not ((u >= 0) & (u < 1)).all():
            wrong = u[(u < 0) | (u >= 1)][0]
            raise ValueError(f"{where} must return uniform innovations in [0, 1); got {wrong}")
        normal = u if kind == "normal" else ndtri(np.clip(u, 1e-300, 1 - 1e-16))
        projected = normal @ directions(width, rng)
        for j in range(projected.shape[1]):
            p_value = compare.one_sample(ndtr(projected[:, j]))
            if p_value < setting.level / tests:
                what = f"entry {j}" if j < width else "a mixture of the entries"
                column = u[:, j] if j < width else projected[:, j]
                raise ValueError(
                    f"{where} must return innovations that are independent and {kind} if the "
                    f"records come from the model at theta; at theta = {theta} {what} of u has "
                    f"mean {column.mean():.3g} and standard deviation {column.std():.3g} (by "
                    f"chance with probability below {p_value:.1g})"
                )
    return f"gives back the records, from {kind} innovations, at {setting.thetas} theta"


def log_likelihood(model: Any, prior_is_right: bool, setting: Setting) -> str:
    """Check that log_likelihood is the density of the records, in x and in theta."""
    rng = setting.rng(5)
    where = f"{_name(model)}.log_likelihood"
    for _ in range(setting.draws):
        theta = draw_theta(model, rng)
        made = draw_records(model, theta, setting.n, rng)
        fit.check_log_likelihood(model, theta, made)
        value = np.asarray(model.log_likelihood(theta, made), dtype=np.float64)
        if not np.isfinite(value).all():
            i = int(np.argmin(np.isfinite(value)))
            raise ValueError(
                f"{where} must be finite at records that the model made; got {value[i]} for the "
                f"record {made[i]} at theta = {theta}"
            )
    # What is fixed by a record's number has no density, so a walk must not change it.
    alike = not getattr(model, "uses_index", False)
    in_x = _density_in_records(model, setting, rng) if alike else None
    if in_x:
        raise ValueError(
            f"{where} must be the log density of the records that the model makes; with theta "
            f"held, a walk on it that starts at such records leaves them: {in_x}. (It must be -inf "
            "at records that cannot be, unless check_records refuses them)"
        )
    if not (prior_is_right and hasattr(model, "log_prior")):
        held = "finite, and the density of the records that the model makes, with theta held"
        return held if alike else "finite at the records that the model makes"
    in_theta = _density_in_theta(model, setting, rng)
    if in_theta:
        raise ValueError(
            f"{where} must be the log density of the records as theta changes, with every factor "
            f"that theta is in; with log_prior and this log_likelihood, theta given x is not what "
            f"it should be: {in_theta}"
        )
    where = "in x and in theta" if alike else "in theta"
    return f"finite, and the density of the records that the model makes, {where}"


def _density_in_records(
    model: Any, setting: Setting, rng: np.random.Generator
) -> compare.Difference | None:
    """Walk on the records with theta held; compare with fresh records."""
    for _ in range(setting.thetas):
        theta = draw_theta(model, rng)
        fresh, now = (draw_records(model, theta, setting.records, rng) for _ in range(2))
        seen = draw_records(model, theta, setting.records, rng)
        density = _density_of_records(model, theta, now)
        for _ in range(STEPS):
            proposed = _nudged(model, now, seen, rng)
            new = _density_of_records(model, theta, proposed)
            accept = -rng.standard_exponential(len(now)) < new - density
            now = np.where(accept.reshape((-1,) + (1,) * (now.ndim - 1)), proposed, now)
            density = np.where(accept, new, density)
        found = _compare_records(model, seen, fresh, now, setting, rng)
        if found:
            return found
    return None


def _nudged(model: Any, now: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Propose other records, symmetrically.

    Numbers get a step of a random size. Integers are swapped for any possible record, if the model
    lists them, and otherwise for one that was seen: with one column, any other value; with
    several, one column at a time. A record that is not among those seen stays as it is, or the
    proposal would not be symmetric.
    """
    if now.dtype.kind == "f":
        spread = compare.scale_of(columns(seen))[1].reshape(now.shape[1:])
        size = np.exp(rng.standard_normal((len(now),) + (1,) * (now.ndim - 1)))
        return (now + size * spread * rng.standard_normal(now.shape)).astype(now.dtype)
    possible = getattr(model, "record_values", None)
    if possible is not None:
        possible = np.asarray(possible)
        return possible[rng.integers(len(possible), size=len(now))].astype(now.dtype)
    proposed = now.copy()
    flat = proposed.reshape(len(now), -1)
    column = rng.integers(flat.shape[1], size=len(now))
    for j in range(flat.shape[1]):
        values = np.unique(seen.reshape(len(seen), -1)[:, j])
        rows = np.flatnonzero((column == j) & np.isin(flat[:, j], values))
        flat[rows, j] = values[rng.integers(len(values), size=len(rows))]
    return proposed


def _density_of_records(model: Any, theta: dict[str, Any], x: np.ndarray) -> np.ndarray:
    """Return log f of each record; -inf where the model refuses the record."""
    allowed = np.ones(len(x), dtype=bool)
    if hasattr(model, "check_records") and not _accepts(model, x):
        for i in range(len(x)):
            allowed[i] = _accepts(model, x[i : i + 1])
    result = np.full(len(x), -np.inf)
    inside = x[allowed]
    if len(inside):
        try:
            result[allowed] = model.log_likelihood(theta, inside)
        except Exception:  # records that cannot be, and no check_records that says so
            for i in np.flatnonzero(allowed).tolist():
                try:
                    result[i] = model.log_likelihood(theta, x[i : i + 1])[0]
                except Exception:
                    continue
    return np.where(np.isnan(result), -np.inf, result)


def _accepts(model: Any, x: np.ndarray) -> bool:
    try:
        model.check_records(x)
    except (ValueError, TypeError):
        return False
    return True


def _database(model: Any, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    theta = model.sample_prior(rng)
    return theta, draw_records(model, theta, n, rng)


def _joint_experiment(model: Any, n: int, move: Any, setting: Setting, rng: np.random.Generator):
    """Draw (theta, x), move theta given x, and compare (theta, x) with fresh draws of it."""
    coordinates = coordinates_of(model)

    def draw(count: int, move: Any = None) -> tuple[np.ndarray, list[np.ndarray]]:
        vectors, databases = [], []
        for _ in range(count):
            theta, x = _database(model, n, rng)
            vectors.append(coordinates.to_vector(theta if move is None else move(theta, x)))
            databases.append(x)
        return np.stack(vectors), databases

    quantities = Joint(_coordinate_names(model), *draw(PILOT))
    fresh, ended = draw(setting.replicates), draw(setting.replicates, move)
    return largest_difference(
        quantities.names, quantities(*fresh), quantities(*ended), setting.level
    )


def _density_in_theta(
    model: Any, setting: Setting, rng: np.random.Generator
) -> compare.Difference | None:
    """Walk on theta given x by log_prior + log_likelihood."""
    coordinates = coordinates_of(model)
    factor = compare.shape_of(
        np.stack([coordinates.to_vector(draw_theta(model, rng)) for _ in range(200)])
    )

    def move(theta: dict[str, Any], x: np.ndarray) -> dict[str, Any]:
        def density(v: np.ndarray) -> float:
            at, log_jacobian = coordinates.from_vector(v)
            try:
                likelihood = float(np.sum(model.log_likelihood(at, x)))
            except (ArithmeticError, ValueError):  # so far out that theta rounds to an edge
                return -math.inf
            return _no_nan(float(model.log_prior(at)) + log_jacobian + likelihood)

        v = compare.metropolis(density, coordinates.to_vector(theta), factor, STEPS, rng)
        return coordinates.from_vector(v)[0]

    return _joint_experiment(model, min(FEW, setting.n), move, setting, rng)


def update_parameters(model: Any, setting: Setting) -> str:
    """Check that the model's kernel leaves p(theta | x) alone."""
    where = f"{_name(model)}.update_parameters"
    kernel(model, model.update_parameters, where, setting)
    return f"leaves p(theta | x) alone, over {STEPS} calls in {setting.replicates} databases"


def kernel(model: Any, function: Any, where: str, setting: Setting) -> None:
    """Raise if kernel(theta, records, rng) does not leave p(theta | x) alone."""
    rng = setting.rng(6)
    for _ in range(setting.draws // 5):
        theta, x = _database(model, setting.n, rng)
        with left_alone(where, records=x, theta=theta):
            made = function(theta, x, rng)
        check_theta(where, made, model.parameters)
        if any(np.shares_memory(made[k], x) for k in made if isinstance(made[k], np.ndarray)):
            raise ValueError(f"{where} must return arrays of its own, not views of the records")
    one, other = (function(theta, x, np.random.default_rng(setting.seed)) for _ in range(2))
    _repeats(where, one, other)

    def move(theta: dict[str, Any], x: np.ndarray) -> dict[str, Any]:
        for _ in range(STEPS // 3):
            theta = check_theta(where, function(theta, x, rng), model.parameters)
        return theta

    found = _joint_experiment(model, setting.n, move, setting, rng)
    if found:
        raise ValueError(
            f"{where} must leave p(theta | x) alone; started from theta and records that the model "
            f"drew together, it ends elsewhere: {found}"
        )
