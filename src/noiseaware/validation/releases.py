"""Checks of a query and of a mechanism."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.agreement import fit
from noiseaware.contract import Mechanism, Query, draw_records, missing
from noiseaware.sampler.target import Target
from noiseaware.validation.case import Case, refuses
from noiseaware.validation.compare import largest_difference

STEPS = 10
"""How often a part of the database is proposed anew before the outcome is compared."""

MOST_COORDINATES = 12
"""Coordinates of the total, and of the release, that are compared."""

PAIRED = 600
"""The number of records of which every pair is tried as neighbours."""


def attributes(case: Case) -> str:
    """Check that a mechanism has what the sampler and simulations need."""
    mechanism, name = case.mechanism, case.noise.name
    if isinstance(mechanism, type):
        raise TypeError(f"mechanism must be an object, such as {mechanism.__name__}(...)")
    for attribute in missing(mechanism, Mechanism):
        raise TypeError(f"mechanism must have `{attribute}`; {name} has none")
    if case.noise.privatize is None:
        why = "without it nothing can be simulated"
        raise TypeError(f"mechanism must have `privatize`; {name} has none ({why})")
    for attribute in missing(mechanism.query, Query):
        raise TypeError(f"the query of {name} must have `{attribute}`; {case.query.name} has none")
    return f"{name} of a {case.query.name} with {len(mechanism.query.names)} name(s)"


def statistic(case: Case) -> str:
    """Check that a record's statistic depends on that record only."""
    rng, n = case.rng(10), max(case.n, 2)
    integers = case.noise.statistic is None and case.query.integer_valued
    for _ in range(max(3, case.draws // 10)):
        _, records, release = case.draw_release(n, rng)
        fit.check_density(release, records)
        where = fit.statistic_name(release)
        rows = fit.check_statistic(release, records)
        if integers and (rows != np.rint(rows)).any():
            why = f"because {case.query.name}.integer_valued is True"
            wrong = rows[rows != np.rint(rows)][0]
            raise ValueError(f"{where} must return whole numbers, {why}; got {wrong}")
        index = rng.permutation(n)[: max(1, n // 2)]
        some, own = np.ascontiguousarray(records[index]), case.noise.statistic
        made = release.query.statistic(some) if own is None else own(some, index, release.values)
        part = np.asarray(made, dtype=np.float64).reshape(len(index), -1)
        same = np.isclose(part, rows[index], rtol=1e-9, atol=1e-12).all(axis=1)
        if not same.all():
            i = int(np.argmin(same))
            raise ValueError(
                f"{where} must give a record the same row whatever the other records are, because "
                f"the total must be a sum over records; record {records[index[i]]} got "
                f"{rows[index[i]]} among {n} records and {part[i]} among {len(index)}"
            )
    return f"(n, {rows.shape[1]}), each row from its own record only"


def sensitivity(case: Case) -> str:
    """Look for two records that move the total further than the sensitivity allows."""
    sensitivity = case.query.sensitivity
    if case.noise.statistic is not None or sensitivity is None:
        return "not stated for sums over records, so there is nothing to check"
    neighbours = case.query.neighbours or case.noise.neighbours
    records, slots = _many_records(case)
    rows = np.asarray(case.mechanism.query.statistic(records), dtype=np.float64)
    seen = []
    for norm in (1, 2):
        try:
            stated = float(sensitivity(norm, neighbours))
        except ValueError:
            continue  # not given for this norm
        if not (math.isfinite(stated) and stated > 0):
            raise ValueError(
                f"{case.query.name}.sensitivity({norm}, {neighbours!r}) must return a positive "
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
                f"{case.query.name}.sensitivity({norm}, {neighbours!r}) is {stated:g}, but {who} "
                f"moves the total by {distance:g}: the release protects less than it claims. "
                "Clamp the statistic, or state the true sensitivity"
            )
        seen.append(f"l{norm} {distance:.4g} of {stated:.4g}")
    if not seen:
        return "not stated for the l1 or the l2 norm, so there is nothing to check"
    return f"not broken by any of {len(records)} records (largest found: {', '.join(seen)})"


def _many_records(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return records from many theta, and the slot in the database that each can occupy.

    If records are alike there is one slot. If a record's possible values depend on its index (a
    public group, say), it can only change to another record with that index. Extreme records are
    added if the model accepts them.
    """
    rng, judges = case.rng(11), (case.able.check_records, case.query.check_records)
    each = -(-PAIRED // case.draws)
    parts = [case.draw_records(case.draw_theta(rng), each, rng) for _ in range(case.draws)]
    records = np.concatenate(parts)
    if case.able.uses_index:
        return records, np.tile(case.numbers(each), case.draws)
    if records.dtype.kind == "f" and case.able.check_records is not None:
        for factor in (10.0, -10.0, 1000.0, -1000.0):
            far = factor * records[:100]
            if all(refuses(judge, far) is None for judge in judges):
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


def privatize(case: Case) -> str:
    """Check that simulated releases can be made and read."""
    rng, make = case.rng(12), case.noise.privatize
    assert make is not None
    for _ in range(max(3, case.draws // 10)):
        _, records, release = case.draw_release(case.n, rng)
        fit.check_density(release, records)
    case.check_repeats(f"{case.noise.name}.privatize", lambda rng: make(records, rng).values)
    return f"makes releases of {len(release.values)} value(s)"


def log_density(case: Case) -> str:
    """Check that log_density is the density of what privatize makes.

    Records and release are drawn together; then part of the records is proposed anew and accepted
    by the ratio of log_density, as in Algorithm 1. That leaves their joint distribution invariant.
    """
    rng, name = case.rng(13), case.noise.name

    def draw(moved: bool) -> dict[str, float]:
        theta, records, release = case.draw_release(case.n, rng)
        target = Target(case.model, release)
        return _quantities(target, _moved(target, theta, records, STEPS * moved, rng))

    both = [[draw(moved) for _ in range(case.replicates)] for moved in (False, True)]
    drawn, ended = (np.array([list(one.values()) for one in part]) for part in both)
    found = largest_difference(list(both[0][0]), drawn, ended, case.level)
    if found:
        raise ValueError(
            f"{name}.log_density(values, total) must be the log density of what {name}.privatize "
            f"releases, up to a constant without the total; records accepted by it, given a "
            f"release, are not as they were drawn: {found}"
        )
    return f"is the density of what privatize makes, over {case.replicates} releases"


def _moved(
    target: Target, theta: Any, records: np.ndarray, steps: int, rng: np.random.Generator
) -> np.ndarray:
    n, total = len(records), target.total(records)
    now = target.log_g(total)
    for _ in range(steps):
        size = int(rng.integers(1, n + 1)) if rng.random() < 0.5 else 1
        index = rng.permutation(n)[:size]
        candidates = records.copy()
        candidates[index] = draw_records(target.model, theta, index, rng)
        proposed = target.total(candidates)
        new = target.log_g(proposed)
        if -rng.standard_exponential() < new - now:
            records, total, now = candidates, proposed, new
    return total


def _quantities(target: Target, total: np.ndarray) -> dict[str, float]:
    """Return T, the residuals if they make sense, and log g, by name."""
    found = {f"T{j}": t for j, t in enumerate(total[:MOST_COORDINATES])}
    if target.values.shape == total.shape and np.isfinite(target.values).all():
        residual = (target.values - total)[:MOST_COORDINATES]
        found |= {f"s{j} - T{j}": r for j, r in enumerate(residual)}
        found |= {f"|s{j} - T{j}|": abs(r) for j, r in enumerate(residual)}
    return {**found, "log g": target.log_g(total)}
