"""Tiny finite databases: the posterior by enumeration, and the matrices of the record updates.

A `Problem` has a model and a release, as the package sees them, and next to them the same thing
in plain Python: all values that a record can have, their probabilities, the statistic of a record
and the log density of the mechanism. The posterior pi is enumerated from the plain side only; the
transition matrices P are built from the package's own accept functions and moves. If both are
right, pi P = pi.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from noiseaware.sampler.moves import BlockSweep
from noiseaware.sampler.moves import records as record_moves
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

TOLERANCE = 1e-12


class Scripted:
    """A random generator that answers what it was told to: a list of answers for each method."""

    def __init__(self, **answers: list[Any]) -> None:
        self._answers = {method: deque(values) for method, values in answers.items()}

    def _next(self, method: str, size: Any) -> Any:
        value = np.array(self._answers[method].popleft(), dtype=np.float64)
        return float(value) if size is None else value.reshape(size)

    def random(self, size=None):
        return self._next("random", size)

    def standard_exponential(self, size=None):
        return self._next("standard_exponential", size)

    @property
    def spent(self) -> bool:
        """Whether every answer was asked for."""
        return not any(self._answers.values())


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model, a release and theta, with the same in plain Python.

    Attributes
    ----------
    values
        All S values of a record, (S, ...).
    f
        Their probabilities given theta, (S,).
    t
        `t(i, record)`, the statistic of record i: a tuple of d numbers.
    log_g
        `log_g(T)`, the mechanism's log density at a total of d numbers.
    """

    model: Any
    release: Any
    theta: dict[str, np.ndarray]
    values: np.ndarray
    f: tuple[float, ...]
    t: Callable[[int, Any], tuple[float, ...]]
    log_g: Callable[[list[float]], float]

    @property
    def n(self) -> int:
        return self.release.n_records

    @functools.cached_property
    def databases(self) -> list[tuple[int, ...]]:
        """All databases, each a tuple of positions in `values`."""
        return list(itertools.product(range(len(self.values)), repeat=self.n))

    @functools.cached_property
    def number(self) -> dict[tuple[int, ...], int]:
        """The position of each database in `databases`."""
        return {database: a for a, database in enumerate(self.databases)}

    def changed(self, database: tuple[int, ...], i: int, value: int) -> tuple[int, ...]:
        """The database with another value for record i."""
        return (*database[:i], value, *database[i + 1 :])

    def total(self, database: tuple[int, ...]) -> list[float]:
        rows = [self.t(i, self.values[value]) for i, value in enumerate(database)]
        return [math.fsum(column) for column in zip(*rows, strict=True)]

    @functools.cached_property
    def posterior(self) -> np.ndarray:
        """p(x | theta, s_dp) of every database, by enumeration."""
        logs = np.array(
            [
                math.fsum(math.log(self.f[value]) for value in database)
                + self.log_g(self.total(database))
                for database in self.databases
            ]
        )
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def state(self, database: tuple[int, ...], rng: Any = None) -> ChainState:
        records = np.ascontiguousarray(self.values[list(database)])
        return ChainState(self.theta, records, None, rng)

    def uniform_for(self, value: int) -> float:
        """A uniform number whose inverse CDF is this value, for records of one entry."""
        return sum(self.f[:value]) + 0.5 * self.f[value]


# ------------------------------------------------------------------ Algorithm 1


def log_acceptance(target: Target, problem: Problem, database, i: int, value: int) -> float:
    """min(0, log ratio), as the accept function returns it, with its decisions and totals seen.

    With one proposal the returned smallest log ratio is that of the proposal. The decision must
    change there, and the total must follow it.
    """
    records = np.ascontiguousarray(problem.values[list(database)])
    candidate = np.ascontiguousarray(problem.values[[value]])

    def run(log_uniform):
        total = target.total(records)
        accepted = np.empty(1, dtype=np.bool_)
        offer = record_moves.Offer(
            target.statistic(records[i : i + 1], i),
            target.statistic(candidate, i),
            np.zeros(0),
            np.array([log_uniform]),
            1,
            accepted,
        )
        lowest = record_moves.accept(target, total, offer)
        return lowest, bool(accepted[0]), total

    lowest, accepted, total = run(-np.inf)
    assert accepted
    np.testing.assert_allclose(
        total, problem.total(problem.changed(database, i, value)), rtol=0, atol=1e-12
    )
    if lowest < 0:
        assert run(lowest - 1e-9)[1], "a uniform number below the ratio must accept"
        _, accepted, total = run(lowest + 1e-9)
        assert not accepted, "a uniform number above the ratio must reject"
        np.testing.assert_allclose(total, problem.total(database), rtol=0, atol=1e-12)
    return lowest


def acceptances(problem: Problem) -> np.ndarray:
    """log min(1, r) for each database, record and proposed value, (M, n, S)."""
    target = Target(problem.model, problem.release)
    return np.array(
        [
            [
                [log_acceptance(target, problem, x, i, y) for y in range(len(problem.values))]
                for i in range(problem.n)
            ]
            for x in problem.databases
        ]
    )


def record_matrix(problem: Problem, log_accept: np.ndarray, i: int) -> np.ndarray:
    """The transition matrix of the update of record i, (M, M)."""
    matrix = np.zeros((len(problem.databases),) * 2)
    for a, database in enumerate(problem.databases):
        for value, probability in enumerate(problem.f):
            accept = math.exp(log_accept[a, i, value])
            b = problem.number[problem.changed(database, i, value)]
            matrix[a, b] += probability * accept
            matrix[a, a] += probability * (1 - accept)
    return matrix


def check_algorithm1(problem: Problem) -> None:
    """pi P = pi for each record and for the sweep, with P from the package's accept function."""
    log_accept = acceptances(problem)
    pi = problem.posterior
    through_all = pi
    for i in range(problem.n):
        matrix = record_matrix(problem, log_accept, i)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
        flow = pi[:, None] * matrix
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=TOLERANCE)
        through_all = through_all @ matrix
    np.testing.assert_allclose(through_all, pi, rtol=0, atol=TOLERANCE)


def check_every_run(
    problem: Problem,
    blocks: list[range],
    propose: Callable[[range, Any, Any], float],
    accept: Callable[[range, Any, Any], float],
    run: Callable[[Any, Any, list[float]], tuple[ChainState, tuple[float, ...]]],
) -> np.ndarray:
    """Drive a sweep through every proposal and every decision; return the matrix of the sweep.

    The records and the counts of each run must be those that the updates of the single blocks
    say, one after another. The probabilities of the runs add up to the matrix.

    Parameters
    ----------
    blocks
        The records that are decided together, in the order of the sweep.
    propose, accept
        The probability to propose the database b from a in a block, and to accept it.
    run
        `run(start, path, exponentials)`: the sweep from `start`; `path` has the database that each
        block starts from and the one that it proposes.
    """
    matrix = np.zeros((len(problem.databases),) * 2)
    for start, proposed in itertools.product(problem.databases, repeat=2):
        for decisions in itertools.product((True, False), repeat=len(blocks)):
            now, weight = start, 1.0
            path, exponentials, counts = [], [], []
            for block, yes in zip(blocks, decisions, strict=True):
                wanted = (*now[: block.start], *proposed[block.start : block.stop])
                wanted += now[block.stop :]
                probability = accept(block, now, wanted)
                if probability > 1 - TOLERANCE:  # 1 but for rounding: it cannot be rejected
                    probability = 1.0
                weight *= propose(block, now, wanted) * (probability if yes else 1 - probability)
                # A number on the right side of the threshold: a little beyond, or half way.
                log_accept = math.log(probability)
                exponentials.append(-log_accept + 1e-6 if yes else -0.5 * log_accept)
                path.append((now, wanted))
                counts += [int(yes)] * len(block)
                now = wanted if yes else now
            if weight <= 0.0:
                continue
            state, reports = run(start, path, exponentials)
            np.testing.assert_array_equal(state.records, problem.values[list(now)])
            np.testing.assert_array_equal(state.acceptance, counts)
            assert reports[0] == pytest.approx(np.mean(counts), abs=1e-12)
            matrix[problem.number[start], problem.number[now]] += weight
    return matrix


def check_sweep(problem: Problem) -> None:
    """`RecordSweep.step`, driven through every proposal and every decision, is P_1 P_2 ... P_n."""
    move = record_moves.RecordSweep()
    target = Target(problem.model, problem.release)
    log_accept = acceptances(problem)

    def log_accept_of(block, now, wanted):
        return log_accept[problem.number[now], block.start, wanted[block.start]]

    def run(start, path, exponentials):
        proposed = [wanted[i] for i, (_, wanted) in enumerate(path)]
        rng = Scripted(
            random=[[problem.uniform_for(value) for value in proposed]],
            standard_exponential=[exponentials],
        )
        state = problem.state(start, rng)
        reports = move.step(target, state, {})
        assert rng.spent
        met = (log_accept_of(range(i, i + 1), *pair) for i, pair in enumerate(path))
        assert reports[1] == pytest.approx(min(0.0, *met), abs=1e-12)
        return state, reports

    by_step = check_every_run(
        problem,
        [range(i, i + 1) for i in range(problem.n)],
        lambda block, now, wanted: problem.f[wanted[block.start]],
        lambda *where: math.exp(log_accept_of(*where)),
        run,
    )
    product = np.eye(len(problem.databases))
    for i in range(problem.n):
        product = product @ record_matrix(problem, log_accept, i)
    np.testing.assert_allclose(by_step, product, rtol=0, atol=TOLERANCE)


# ------------------------------------------------------------------ Algorithm 2


class TableProposal:
    """q(x_i* | x) from a table of probabilities; which table may depend on the other records.

    Parameters
    ----------
    tables
        (m, S, S): in each table, row a is the distribution of x_i* when x_i is the value a. The
        table that is used is the number of other records that are not the first value, modulo m.
    values
        The values of a record, (S,).
    """

    def __init__(self, tables: np.ndarray, values: np.ndarray) -> None:
        self.tables, self.values = np.asarray(tables), values

    def table(self, database: tuple[int, ...], i: int) -> np.ndarray:
        if len(self.tables) == 1:
            return self.tables[0]
        others = sum(value != 0 for j, value in enumerate(database) if j != i)
        return self.tables[others % len(self.tables)]

    def uniform_for(self, database: tuple[int, ...], i: int, value: int) -> float:
        """A uniform number that makes the proposal for record i this value."""
        row = self.table(database, i)[database[i]]
        return sum(row[:value]) + 0.5 * row[value]

    def __call__(self, records, index, theta, release, rng):
        positions = tuple(int(np.flatnonzero(self.values == record)[0]) for record in records)
        chosen, log_ratio = [], []
        for i in index:
            table, now = self.table(positions, i), positions[i]
            u = rng.random()
            new = int(np.searchsorted(np.cumsum(table[now])[:-1], u, side="right"))
            chosen.append(self.values[new])
            log_ratio.append(math.log(table[new, now]) - math.log(table[now, new]))
        return np.array(chosen), np.array(log_ratio)


class OnlyRecord:
    """Ask a proposal for one record only; the others propose what they are, which does nothing."""

    def __init__(self, proposal: TableProposal, i: int) -> None:
        self.proposal, self.i = proposal, i

    def __call__(self, records, index, theta, release, rng):
        candidates, log_ratio = records[index].copy(), np.zeros(len(index))
        if self.i in index:
            made, ratio = self.proposal(records, np.array([self.i]), theta, release, rng)
            candidates[index == self.i], log_ratio[index == self.i] = made, ratio
        return candidates, log_ratio


def threshold(accepts: Callable[[float], bool]) -> float:
    """The acceptance probability of a decision that is made with a standard exponential number.

    `accepts(e)` is the decision at log uniform number -e. It is false below -log(probability) and
    true above, which is found by bisection.
    """
    if accepts(1e-300):
        return 1.0
    low, high = 0.0, 64.0
    assert accepts(high)
    while high - low > 1e-15 * max(high, 1.0):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if accepts(middle) else (middle, high)
    return math.exp(-high)


def algorithm2_acceptances(problem: Problem, proposal: TableProposal, sequential: bool):
    """The acceptance probability of each record's update in `RecordSweep.step`, (M, n, S)."""
    target = Target(problem.model, problem.release)
    result = np.zeros((len(problem.databases), problem.n, len(problem.values)))
    for i in range(problem.n):
        move = record_moves.RecordSweep(OnlyRecord(proposal, i), sequential=sequential)
        move.check(target)

        def accepts(database, value, exponential, i=i, move=move):
            exponentials = np.ones(problem.n)
            exponentials[i] = exponential
            rng = Scripted(
                random=[proposal.uniform_for(database, i, value)],
                standard_exponential=list(exponentials) if sequential else [exponentials],
            )
            state = problem.state(database, rng)
            move.step(target, state, {})
            assert rng.spent
            accepted = bool(state.acceptance[i])
            after = problem.changed(database, i, value) if accepted else database
            np.testing.assert_array_equal(state.records, problem.values[list(after)])
            return accepted

        for a, database in enumerate(problem.databases):
            for value in range(len(problem.values)):
                result[a, i, value] = threshold(functools.partial(accepts, database, value))
    return result


def check_algorithm2(problem: Problem, proposal: TableProposal, sequential: bool) -> None:
    """pi P = pi for each record and for the sweep, with P from `RecordSweep.step`."""
    pi = problem.posterior
    accept = algorithm2_acceptances(problem, proposal, sequential)
    product = np.eye(len(pi))
    for i in range(problem.n):
        matrix = np.zeros((len(pi),) * 2)
        for a, database in enumerate(problem.databases):
            for value, probability in enumerate(proposal.table(database, i)[database[i]]):
                b = problem.number[problem.changed(database, i, value)]
                matrix[a, b] += probability * accept[a, i, value]
                matrix[a, a] += probability * (1 - accept[a, i, value])
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
        product = product @ matrix
    np.testing.assert_allclose(pi @ product, pi, rtol=0, atol=TOLERANCE)

    move = record_moves.RecordSweep(proposal, sequential=sequential)
    target = Target(problem.model, problem.release)

    def run(start, path, exponentials):
        # All at once, the proposals see the records as they were when the sweep began.
        seen = [now if sequential else start for now, _ in path]
        uniforms = [
            proposal.uniform_for(seen[i], i, wanted[i]) for i, (_, wanted) in enumerate(path)
        ]
        rng = Scripted(
            random=uniforms, standard_exponential=exponentials if sequential else [exponentials]
        )
        state = problem.state(start, rng)
        reports = move.step(target, state, {})
        assert rng.spent
        return state, reports

    by_step = check_every_run(
        problem,
        [range(i, i + 1) for i in range(problem.n)],
        lambda block, now, wanted: proposal.table(now, block.start)[
            now[block.start], wanted[block.start]
        ],
        lambda block, now, wanted: accept[problem.number[now], block.start, wanted[block.start]],
        run,
    )
    np.testing.assert_allclose(by_step, product, rtol=0, atol=TOLERANCE)


# ------------------------------------------------------------------ blocks


def check_blocks(problem: Problem, size: int) -> None:
    """pi P = pi for each block and for the sweep, with P from `BlockSweep.step`."""
    move = BlockSweep(size)
    target = Target(problem.model, problem.release)
    move.check(target)
    tuning = move.start(target, problem.state(problem.databases[0]))
    blocks = [range(a, min(a + size, problem.n)) for a in range(0, problem.n, size)]

    def run(start, wanted, exponentials):
        rng = Scripted(
            random=[[problem.uniform_for(value) for value in wanted]],
            standard_exponential=[exponentials[0] if len(blocks) == 1 else exponentials],
        )
        state = problem.state(start, rng)
        reports = move.step(target, state, tuning)
        assert rng.spent
        return state, reports

    @functools.cache
    def accept(block, now, wanted):
        """By bisection; the other blocks propose what they are, which changes nothing."""

        def accepts(exponential):
            exponentials = [1.0] * len(blocks)
            exponentials[block.start // size] = exponential
            state, _ = run(now, wanted, exponentials)
            return bool(state.acceptance[block.start])

        return threshold(accepts)

    def propose(block, now, wanted):
        return math.prod(problem.f[wanted[i]] for i in block)

    def run_path(start, path, exponentials):
        proposed = tuple(
            value
            for block, (_, wanted) in zip(blocks, path, strict=True)
            for value in wanted[block.start : block.stop]
        )
        return run(start, proposed, exponentials)

    pi = problem.posterior
    product = np.eye(len(pi))
    for block in blocks:
        matrix = np.zeros((len(pi),) * 2)
        for a, now in enumerate(problem.databases):
            for values in itertools.product(range(len(problem.values)), repeat=len(block)):
                wanted = (*now[: block.start], *values, *now[block.stop :])
                probability = propose(block, now, wanted)
                accepted = accept(block, now, wanted)
                matrix[a, problem.number[wanted]] += probability * accepted
                matrix[a, a] += probability * (1 - accepted)
        np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
        product = product @ matrix
    by_step = check_every_run(problem, blocks, propose, accept, run_path)
    np.testing.assert_allclose(by_step, product, rtol=0, atol=TOLERANCE)
