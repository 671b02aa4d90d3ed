"""What is checked of a query and of a mechanism."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware import contract
from noiseaware.release import Release
from noiseaware.sampler import fit
from noiseaware.sampler.target import Target
from noiseaware.validation.compare import Setting, largest_difference
from noiseaware.validation.models import _accepts, draw_records, draw_theta, numbers

STEPS = 10
"""Times that a part of the database is proposed anew before the outcome is compared."""

MOST_COORDINATES = 12
"""Coordinates of the total, and of the release, that are compared."""

PAIRED = 600
"""Records of which every pair is tried as neighbours."""


def _name(thing: Any) -> str:
    return type(thing).__name__


def attributes(mechanism: Any) -> str:
    """Check that a mechanism has what the sampler and a simulation need."""
    if isinstance(mechanism, type):
        raise TypeError(f"mechanism must be an object, such as {mechanism.__name__}(...)")
    for attribute in ("query", "log_density", "privatize"):
        if not hasattr(mechanism, attribute):
            why = " (without it nothing can be simulated)" if attribute == "privatize" else ""
            raise TypeError(f"mechanism must have `{attribute}`; {_name(mechanism)} has none{why}")
    for attribute in ("names", "statistic"):
        if not hasattr(mechanism.query, attribute):
            raise TypeError(
                f"the query of {_name(mechanism)} must have `{attribute}`; "
                f"{_name(mechanism.query)} has none"
            )
    names = len(mechanism.query.names)
    return f"{_name(mechanism)} of a {_name(mechanism.query)} with {names} name(s)"


def _release(model: Any, mechanism: Any, n: int, rng: np.random.Generator):
    """Draw theta, records and a release, and check the release."""
    theta = draw_theta(model, rng)
    records = draw_records(model, theta, n, rng)
    where = f"{_name(mechanism)}.privatize"
    with fit.left_alone(where, records=records):
        release = mechanism.privatize(records, rng)
    if not isinstance(release, Release):
        raise TypeError(f"{where} must return a noiseaware.Release; got {_name(release)}")
    if release.n_records != n or release.mechanism is not mechanism:
        raise ValueError(
            f"{where} must return a Release by this mechanism with n_records = {n}; got one by "
            f"{release.mechanism!r} with n_records = {release.n_records}"
        )
    return theta, records, release


def statistic(model: Any, mechanism: Any, setting: Setting) -> str:
    """Check that a record's statistic depends on that record only."""
    rng = setting.rng(10)
    n = max(setting.n, 2)
    for _ in range(max(3, setting.draws // 10)):
        _, records, release = _release(model, mechanism, n, rng)
        fit.check_density(release, records)
        where = fit.statistic_name(release)
        rows = fit.check_statistic(release, records)
        integers = not hasattr(mechanism, "statistic") and getattr(
            mechanism.query, "integer_valued", False
        )
        if integers and (rows != np.rint(rows)).any():
            wrong = rows[rows != np.rint(rows)][0]
            raise ValueError(
                f"{where} must return whole numbers, because {_name(mechanism.query)}."
                f"integer_valued is True; got {wrong}"
            )
        index = rng.permutation(n)[: max(1, n // 2)]
        part = _statistic_of(release, records, index)
        same = np.isclose(part, rows[index], rtol=1e-9, atol=1e-12).all(axis=1)
        if not same.all():
            i = int(np.argmin(same))
            raise ValueError(
                f"{where} must give a record the same row whatever the other records are, because "
                f"the total must be a sum over records; record {records[index[i]]} got "
                f"{rows[index[i]]} among {n} records and {part[i]} among {len(index)}"
            )
    return f"(n, {rows.shape[1]}), each row from its own record only"


def _statistic_of(release: Release, records: np.ndarray, index: np.ndarray) -> np.ndarray:
    part = np.ascontiguousarray(records[index])
    if hasattr(release.mechanism, "statistic"):
        made = release.mechanism.statistic(part, index, release.values)
    else:
        made = release.query.statistic(part)
    return np.asarray(made, dtype=np.float64).reshape(len(index), -1)


def sensitivity(model: Any, mechanism: Any, setting: Setting) -> str:
    """Look for two records that move the total further than the sensitivity allows."""
    query = mechanism.query
    if hasattr(mechanism, "statistic") or not hasattr(query, "sensitivity"):
        return "not stated for sums over records, so there is nothing to check"
    neighbours = getattr(query, "neighbours", getattr(mechanism, "neighbours", "change"))
    records, slots = _many_records(model, query, setting)
    rows = np.asarray(query.statistic(records), dtype=np.float64)
    seen = []
    for norm in (1, 2):
        try:
            stated = float(query.sensitivity(norm, neighbours))
        except ValueError:
            continue  # not given for this norm
        if not (math.isfinite(stated) and stated > 0):
            raise ValueError(
                f"{_name(query)}.sensitivity({norm}, {neighbours!r}) must return a positive "
                f"number; got {stated}"
            )
        if neighbours == "change":
            distance, i, j = _furthest(rows, slots, norm)
            who = f"changing the record {records[i]} to {records[j]}"
        else:
            sizes = np.linalg.norm(rows, ord=norm, axis=1)
            i = int(np.argmax(sizes))
            distance, who = float(sizes[i]), f"adding the record {records[i]}"
        if distance > stated * (1 + 1e-9):
            raise ValueError(
                f"{_name(query)}.sensitivity({norm}, {neighbours!r}) is {stated:g}, but {who} "
                f"moves the total by {distance:g}: the release protects less than it says. Clamp "
                "the statistic, or state what is true"
            )
        seen.append(f"l{norm} {distance:.4g} of {stated:.4g}")
    if not seen:
        return "not stated for the l1 or the l2 norm, so there is nothing to check"
    return f"not broken by any of {len(records)} records (largest found: {', '.join(seen)})"


def _many_records(model: Any, query: Any, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Return records of many theta, and the slot in the database that each can be in.

    There is one slot where records are alike; where what a record can be depends on its number
    (a group that is public, say), a record can change only to another with that number. Far-out
    records are added where the model says that they can be.
    """
    rng = setting.rng(11)
    each = -(-PAIRED // setting.draws)
    parts = [draw_records(model, draw_theta(model, rng), each, rng) for _ in range(setting.draws)]
    records = np.concatenate(parts)
    if getattr(model, "uses_index", False):
        return records, np.tile(numbers(model, each), setting.draws)
    if records.dtype.kind == "f" and hasattr(model, "check_records"):
        for factor in (10.0, -10.0, 1000.0, -1000.0):
            far = factor * records[:100]
            if _accepts(model, far) and (
                not hasattr(query, "check_records") or _accepts(query, far)
            ):
                records = np.concatenate([records, far])
    return records, np.zeros(len(records), dtype=np.int64)


def _furthest(rows: np.ndarray, slots: np.ndarray, norm: int) -> tuple[float, int, int]:
    """Return the largest distance between two rows of one slot, and which two."""
    best = (0.0, 0, 0)
    for i in range(len(rows)):
        distances = np.linalg.norm(rows - rows[i], ord=norm, axis=1) * (slots == slots[i])
        j = int(np.argmax(distances))
        if distances[j] > best[0]:
            best = (float(distances[j]), i, j)
    return best


def privatize(model: Any, mechanism: Any, setting: Setting) -> str:
    """Check that simulated releases can be made and read."""
    rng = setting.rng(12)
    for _ in range(max(3, setting.draws // 10)):
        _, records, release = _release(model, mechanism, setting.n, rng)
        fit.check_density(release, records)
    one, other = (
        mechanism.privatize(records, np.random.default_rng(setting.seed)) for _ in range(2)
    )
    if not np.array_equal(one.values, other.values, equal_nan=True):
        raise ValueError(
            f"{_name(mechanism)}.privatize must take all its random numbers from rng; two "
            "generators of the same seed gave different releases"
        )
    return f"makes releases of {len(release.values)} value(s)"


def log_density(model: Any, mechanism: Any, setting: Setting) -> str:
    """Check that log_density is the density of what privatize makes.

    Records and release are drawn together, then part of the records is proposed anew and accepted
    by the ratio of log_density, as in Algorithm 1; that leaves the pair as it was drawn.
    """
    rng = setting.rng(13)
    replicates = setting.replicates
    values = []
    for moved in (False, True):
        rows = []
        for _ in range(replicates):
            theta, records, release = _release(model, mechanism, setting.n, rng)
            target = Target(model, release)
            total = target.total(records)
            if moved:
                total = _moved(target, theta, records, total, rng)
            rows.append(_quantities(target, total))
        values.append(np.stack(rows))
    count = min(target.d, MOST_COORDINATES)
    names = [f"T{j}" for j in range(count)]
    if values[0].shape[1] > count + 1:
        names += [f"s{j} - T{j}" for j in range(count)]
        names += [f"|s{j} - T{j}|" for j in range(count)]
    drawn, moved_on = values
    found = largest_difference([*names, "log g"], drawn, moved_on, setting.level)
    where = f"{_name(mechanism)}.log_density"
    if found:
        raise ValueError(
            f"{where}(values, total) must be the log density of what {_name(mechanism)}.privatize "
            f"releases, up to a constant without the total; records accepted by it, given a "
            f"release, are not as they were drawn: {found}"
        )
    return f"is the density of what privatize makes, over {replicates} releases"


def _moved(
    target: Target,
    theta: dict[str, Any],
    records: np.ndarray,
    total: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    n = len(records)
    now = target.log_g(total)
    for _ in range(STEPS):
        size = int(rng.integers(1, n + 1)) if rng.random() < 0.5 else 1
        index = rng.permutation(n)[:size]
        candidates = records.copy()
        candidates[index] = contract.draw_records(target.model, theta, index, rng)
        proposed = target.total(candidates)
        new = target.log_g(proposed)
        if -rng.standard_exponential() < new - now:
            records, total, now = candidates, proposed, new
    return total


def _quantities(target: Target, total: np.ndarray) -> np.ndarray:
    """Return T, the residuals where they make sense, and log g."""
    count = min(target.d, MOST_COORDINATES)
    parts = [total[:count]]
    if target.values.shape == total.shape and np.isfinite(target.values).all():
        residual = (target.values - total)[:count]
        parts += [residual, np.abs(residual)]
    return np.concatenate([*parts, [target.log_g(total)]])
