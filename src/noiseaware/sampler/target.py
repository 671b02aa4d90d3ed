"""The target p(theta, x | s_dp) for one model and one release.

The joint posterior of the paper's equation (4) is

    p(theta, x | s_dp)  proportional to  p(theta) prod_i f(x_i | theta) g(s_dp, T(x)),
    T(x) = sum_i t_i(x_i, s_dp)                                   (record additivity).

`Target` joins the model (prior, f) and the release (g, t_i) and answers what the moves ask: the
statistics of some records, their total, log g. It resolves once what the model, the query and the
mechanism can do, and turns what a user's class returns into arrays or a clear error.

**Where n is unknown** it has a prior p(n), and the target is p(theta) p(n) prod_i f(x_i | theta)
g(s_dp, T(x)), with i up to n. The database of a chain has as many records as its n.

Statistics have three shapes. *Dense*: t is (n, d). *Cells*: a record adds 1 to k of the d cells and
is held as an (n, k) array of cell numbers, so a proposal touches only the cells that change.
*Placed*: a record adds w numbers from one coordinate on, as for one of many groups, and is held as
(n, 1 + w), with that coordinate first.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from noiseaware.agreement import arrays
from noiseaware.agreement.blame import blame, is_user_defined
from noiseaware.agreement.listed import column_laws, listed_laws
from noiseaware.basics.linear_algebra import add_placed
from noiseaware.contract import (
    KernelAbilities,
    Model,
    Size,
    Theta,
    kernel_abilities,
    mechanism_abilities,
    model_abilities,
    query_abilities,
)
from noiseaware.counts.lattice import ExactRows
from noiseaware.maths.coordinates import Coordinates, check_theta
from noiseaware.mechanisms.joint import log_joint
from noiseaware.mechanisms.terms import BETWEEN, GAUSSIAN, TRUNCATED, SeparableDensity, log_g
from noiseaware.parameters import Work
from noiseaware.release import Release
from noiseaware.sampler import pieces
from noiseaware.sampler.pieces import in_pieces
from noiseaware.sampler.size import SizedCoordinates, with_size, without_size
from noiseaware.sampler.state import ChainState
from noiseaware.sizes import check_number

CHUNK = 4096
"""Records proposed and summarised together: enough to make the cost of a call negligible, few
enough to stay in cache."""

SEEN, PAIRS = 100, 8
"""Records inspected to find which of their entries are whole numbers, and pairs of draws from the
prior to find what changes these."""

NO_TERMS = SeparableDensity(np.zeros(0, np.int64), np.zeros((0, 4)))
"""Replaces the formulas of the coordinates, where there are none."""


class Smooth(NamedTuple):
    """Coordinates of theta, and entries of u, that change no whole number in a record.

    A whole number, such as a yes or no or the group of a record, jumps, and the total with it.
    """

    theta: np.ndarray
    u: np.ndarray


class Density(NamedTuple):
    """log g(s_dp, T), a sum over the coordinates, for compiled code."""

    terms: SeparableDensity
    """The formulas of the coordinates (`noiseaware.mechanisms.terms`)."""
    code: int = 0
    numbers: np.ndarray = np.zeros(0)
    """Of a joint formula (`noiseaware.mechanisms.joint`), for a `JointlyDense`."""
    power: float = 1.0
    """b, where g^b is sampled (`evidence`); the code that scores proposals multiplies by it."""


class JointlyDense(Density):
    """A `Density` by a joint formula; its terms are not read.

    It is a separate class, like `ExtendedDensity`, so that loops are compiled without what they do
    not need.
    """

    __slots__ = ()


def joint_code(density):
    """Return the code of a joint formula, or None for a sum: the two are of different types."""
    return density.code if isinstance(density, JointlyDense) else None


@overload(joint_code)
def _compiled_joint_code(density):
    if issubclass(density.instance_class, JointlyDense):
        return lambda density: density.code
    return lambda density: None


def log_jointly(code, numbers, total):
    """Return log g(s_dp, T) by a joint formula, for a code that is not None."""
    return log_joint(code, numbers, total)


@overload(log_jointly)
def _compiled_log_jointly(code, numbers, total):
    if isinstance(code, types.NoneType):
        return lambda code, numbers, total: np.nan
    return lambda code, numbers, total: log_joint(code, numbers, total)


@njit(cache=True, nogil=True)
def log_density(density, total):
    """Return log g(s_dp, T), up to a constant, without the power."""
    code = joint_code(density)
    if code is None:
        return log_g(density.terms, total)
    return log_jointly(code, density.numbers, total)


def most_likely_total(terms: SeparableDensity) -> np.ndarray:
    """Return a total at which log g is highest, (d,): the release, or the end of an interval.

    A release may be an interval that is open below, above, or both.
    """
    low, high = terms.parameters[:, 0], terms.parameters[:, 2]
    high = np.where((terms.family >= BETWEEN) & (terms.family < TRUNCATED), high, low)
    return np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))


@njit(cache=True, nogil=True)
def add_rows(statistic, total):
    """Add every row of `statistic` (m, d) to `total` (d,), in place."""
    for i in range(statistic.shape[0]):
        for j in range(statistic.shape[1]):
            total[j] += statistic[i, j]


@njit(cache=True, nogil=True)
def add_cells(cells, total):
    """Add 1 to `total` (d,) for each cell number in `cells` (m, k); -1 adds nothing."""
    for i in range(cells.shape[0]):
        for a in range(cells.shape[1]):
            if cells[i, a] >= 0:
                total[cells[i, a]] += 1.0


class Target:
    """The joint posterior of one model and one release.

    Its state holds the records themselves; that of `counts.CountTarget`, the number of each. `size`
    is the prior for the number of records, if the release does not give it.

    Attributes
    ----------
    abilities, query_abilities, mechanism_abilities
        What the model, the query and the mechanism can do.
    n, d
        The number of records, and of coordinates of the total T. An unknown n is a typical one, for
        planning work; the database in a chain's state has its own.
    terms, density
        The mechanism's coordinatewise log density, None if g is joint; and log g for compiled code,
        None if it is only known as a Python function.
    uses_cells, uses_places
        Whether statistics are held as cell numbers, or as rows, each with its first coordinate.
    kernel, summed_kernel
        The model's own kernels for p(theta | x), and for p(theta | s_dp) with the records summed
        out, or None.
    listed, column_laws
        What is seen of each record as a table, `agreement.listed.ListedLaws`, where records have
        few values and are released one by one; what is seen of each column, where the model draws
        columns given that; or None.
    coordinates, moved
        theta as one unconstrained real vector, by the model's own coordinates or those of its
        parameters' supports; and the same with an unknown n as one more coordinate, for transport.
    levels
        The coordinates that `moves.GroupMove` moves, where groups have their own noisy numbers, or
        None.
    has_exact
        Whether some numbers of the release are exact, which most databases do not match.
    """

    on_counts = False
    integrated = False
    threads = 1
    """The number of threads for a pass over many records."""
    summed_kernel: Any = None
    listed: Any = None
    column_laws: Any = None

    def __init__(self, model: Model, release: Release, size: Size | None = None) -> None:
        self.model = model
        self.release = release
        self.abilities = able = model_abilities(model)
        self.query_abilities = query_abilities(release.query)
        self.mechanism_abilities = mechanism = mechanism_abilities(release.mechanism)
        self.size = size
        unsized = able.random_size and release.n_records is None
        if unsized and not self.on_counts:
            raise ValueError(
                f"n_records must be given: without it {able.name} needs noise that is added to "
                "totals, one number at a time, and the default moves or moves about counts; got "
                f"{mechanism.name}"
            )
        self.n = 1 if unsized else check_number(release.n_records, size)
        self.values: np.ndarray = release.values
        self.terms = None if mechanism.terms is None else mechanism.terms(self.values)
        self.has_exact = mechanism.exact_parts is not None
        if self.has_exact and not self.on_counts:
            self._check_exact()
        self.density: Density | None = None
        self.power = 1.0
        if self.terms is not None:
            self.density = Density(self.terms)
        elif mechanism.joint is not None:
            code, numbers = mechanism.joint(self.values)
            self.density = JointlyDense(NO_TERMS, code, numbers)
        self._own_statistic = mechanism.statistic
        shared = mechanism.statistic is None  # by all records: the query's own
        self._cells = self.query_abilities.cells if shared and self.terms is not None else None
        self.uses_cells = self._cells is not None
        listed = self.uses_cells or self.on_counts or not shared or self.terms is None
        self._placed = None if listed else self.query_abilities.placed
        self.uses_places = self._placed is not None
        self._query_total = self.query_abilities.total if shared else None
        self.kernel = self._find_kernel()
        self.summed_kernel = self._find_summed_kernel()
        self.listed = listed_laws(model, release)
        self.column_laws = column_laws(model, release)
        own = able.coordinates
        self.coordinates: Any = Coordinates(able.parameters) if own is None else own
        self.moved = self.coordinates if size is None else SizedCoordinates(self.coordinates)
        self._shapes = [(p.name, p.shape) for p in able.parameters]
        # Arrays made by the package go straight to compiled loops; others are checked.
        self._trusted = not is_user_defined(release.query if shared else release.mechanism)
        self._record: tuple[np.dtype, tuple[int, ...]] | None = None
        self._small: np.dtype | None = None
        self.d = 0
        self.d = self._find_d()
        self.levels = self._find_levels()

    def _check_exact(self) -> None:
        """Raise ValueError if records cannot be exchanged with the exact numbers held."""
        able = self.abilities
        counted = self.terms is not None and self.mechanism_abilities.statistic is None
        listed = able.record_values is not None and able.log_likelihood is not None
        if counted or not listed or able.uses_index or self.size is not None:
            raise ValueError(
                "exact numbers (Exact) need a chain of counts: a model that lists its "
                "record_values, and the default moves or moves about counts; or, beside a joint or "
                "a local mechanism, such a model of a known number of records that are alike; "
                f"{able.name} is sampled record by record here"
            )

    @functools.cached_property
    def exact_rows(self) -> ExactRows:
        """The totals that the records must have, where `has_exact`."""
        exact_parts, values = self.mechanism_abilities.exact_parts, self.abilities.record_values
        assert exact_parts is not None
        return ExactRows(np.ascontiguousarray(values), exact_parts(self.values), self.n)

    def hold_small(self) -> None:
        """Hold many records in the smallest integer type, where moves do no arithmetic with them.

        The package's own classes accept any type.
        """
        parts = (self.model, self.release.query, self.release.mechanism)
        levels = self.abilities.record_levels
        if self.on_counts or self.listed is not None or levels is None:
            return
        if self.n > pieces.PIECE and not any(map(is_user_defined, parts)):
            self._small = np.min_scalar_type(levels - 1)
            self._record = None

    def tempered(self, power: float) -> Target:
        """Return the target with g^power in place of g.

        Its `density` is scored with the power, exactly. Its `terms`, from which moves only learn
        how large to step, have correspondingly wider noise: exact for Laplace noise, and with the
        square root of the power for Gaussian noise.
        """
        other = copy.copy(self)
        other.power = power
        if self.density is not None:
            other.density = self.density._replace(power=power)
        if self.terms is not None:
            parameters = self.terms.parameters.copy()
            normal = self.terms.family == GAUSSIAN
            parameters[:, 1] *= np.where(normal, math.sqrt(power), power)
            other.terms = self.terms._replace(parameters=parameters)
        # A move that sums records out would use g itself.
        other.column_laws = other.summed_kernel = None
        other.listed = None if self.listed is None else self.listed.tempered(power)
        other.mechanism_abilities = replace(self.mechanism_abilities, record_laws=None)
        return other

    def shown(self, theta: Theta, records: np.ndarray) -> Theta:
        """Return what the posterior shows of a state: theta, and for some models the counts."""
        return theta

    def given(self, theta: Theta) -> Target:
        """Return the target p(x | theta, s_dp), for moves that hold theta."""
        return self

    def log_values(self, theta: Theta) -> np.ndarray:
        """Return log f of each possible record, for a state of counts."""
        raise NotImplementedError(f"the state of {self.abilities.name} holds records")

    def _find_kernel(self) -> KernelAbilities | None:
        if self.abilities.update_parameters is not None:
            return KernelAbilities(self.abilities.update_parameters)
        own = kernel_abilities(self.abilities.kernel)
        return None if own.step is None else own

    def _find_summed_kernel(self) -> Any:
        """Return the model's kernel with the records summed out, if both sides support it."""
        make, laws_of = self.abilities.summed_kernel, self.mechanism_abilities.record_laws
        laws = None if make is None or laws_of is None else laws_of(self.values)
        return None if make is None or laws is None else make(laws, self.n)

    def _find_d(self) -> int:
        if self.terms is not None:
            return len(self.terms.family)
        rng = np.random.default_rng(0)
        theta = self.model.sample_prior(rng)
        records, _ = self.propose(theta, 1, rng)
        return self.statistic(records, 0).shape[1]

    def _find_levels(self) -> slice | None:
        """Return the levels of groups that are moved one by one, if both sides support it."""
        found = self.abilities.group_levels
        if found is None or not self.uses_places or self.size is not None:
            return None
        return found if self.query_abilities.n_groups == found.stop - found.start else None

    # What the model makes.

    def propose(
        self, theta: Theta, m: int, rng: np.random.Generator, start: int = 0
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Draw records start, ..., start + m - 1 from f(. | theta), with their u if it is kept."""
        if m > pieces.PIECE:
            return self._propose_pieces(theta, m, rng, start)
        draw, innovations = self.abilities.sample_records, self.abilities.innovations
        if draw is None or self.abilities.holds_innovations:
            assert innovations is not None  # `check_fit` saw to it
            u = innovations.draw(m, rng)
            records = self.build(theta, u, start)
            return records, u if self.abilities.holds_innovations else None
        made = draw(theta, m, rng, **self._numbers(start, m))
        return self._as_records("sample_records", made, m), None

    def _propose_pieces(
        self, theta: Theta, m: int, rng: np.random.Generator, start: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if self._record is None:
            self.propose(theta, 1, np.random.default_rng(0), start)
            assert self._record is not None
        dtype, entries = self._record
        held, innovations = None, self.abilities.innovations
        if self.abilities.holds_innovations:
            assert innovations is not None
            held = np.empty((m, innovations.width))

        def make(begin: int, end: int, own: np.random.Generator) -> np.ndarray:
            records, u = self.propose(theta, end - begin, own, start + begin)
            if held is not None:
                held[begin:end] = u
            return records

        return self._filled(np.empty((m, *entries), dtype), make, rng), held

    def _numbers(self, start: int, m: int) -> dict[str, np.ndarray]:
        """Return the arguments that tell a maker of records which ones it makes."""
        return {"index": np.arange(start, start + m)} if self.abilities.uses_index else {}

    def build(self, theta: Theta, innovations: np.ndarray, start: int = 0) -> np.ndarray:
        """Return F(u; theta) for records start, start + 1, ..., as the compiled loops need them."""
        build = self.abilities.build_records
        assert build is not None
        m = len(innovations)
        made = build(theta, innovations, **self._numbers(start, m))
        records = self._as_records("build_records", made, m)
        # Records are later changed in place, and the innovations must not change with them.
        if records.base is not None and np.may_share_memory(records, innovations):
            return records.copy()
        return records

    def _as_records(self, method: str, made: Any, m: int) -> np.ndarray:
        """Return what a method made as an array that all compiled loops accept."""
        if (
            self._record is not None
            and type(made) is np.ndarray
            and made.dtype == self._record[0]
            and made.shape == (m, *self._record[1])
            and made.flags.carray
        ):
            return made
        where = f"{self.abilities.name}.{method}"
        records = arrays.usual_array(arrays.as_records(where, made, m))
        if self._small is not None:
            records = records.astype(self._small)
        if self._record is None:
            self._record = (records.dtype, records.shape[1:])
        dtype, entries = self._record
        if records.shape[1:] != entries:
            raise ValueError(
                f"{where} must return records of the same shape each time; got shape "
                f"{made.shape}, where a record had shape {entries} before"
            )
        if not np.can_cast(records.dtype, dtype):
            raise TypeError(
                f"{where} must return records of the same dtype each time; got {made.dtype}, and "
                f"{dtype} before"
            )
        return records.astype(dtype, copy=False)

    def as_theta(self, where: Callable[[], str], theta: Any) -> Theta:
        """Return theta if it has the declared names and shapes; raise, naming `where()`, if not."""
        try:
            for name, shape in self._shapes:
                value = theta[name]
                if (value.shape if type(value) is np.ndarray else np.shape(value)) != shape:
                    break
            else:
                if len(theta) == len(self._shapes):
                    return theta
        except (TypeError, KeyError, IndexError, ValueError):
            pass
        return check_theta(where(), theta, self.abilities.parameters)

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        made = self.model.sample_prior(rng)
        return self.as_theta(lambda: f"{self.abilities.name}.sample_prior", made)

    def draw_n(self, rng: np.random.Generator) -> int:
        """Return the number of records, or draw it from its prior."""
        return self.n if self.size is None else self.size.sample(rng)

    def held_bytes(self, n: int) -> int:
        """Return the least number of bytes of a chain's state with n records."""
        rng = np.random.default_rng(0)
        state = ChainState({}, *self.propose(self.sample_prior(rng), 1, rng), rng)
        held = (state.records, state.innovations, state.acceptance)
        return n * sum(0 if array is None else array.nbytes for array in held)

    def number(self, records: np.ndarray) -> int:
        """Return how many records these are."""
        return len(records)

    def sample_moved(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior, and n too where it is unknown."""
        theta = self.sample_prior(rng)
        return theta if self.size is None else with_size(theta, self.size.sample(rng), rng)

    def log_prior_moved(self, theta: Theta) -> float:
        """Return the log prior density of theta, with that of n where it is unknown."""
        if self.size is None:
            return self.log_prior(theta)
        own, n = without_size(theta)
        if not self.size.lower <= n <= self.size.upper:
            return -math.inf
        return self.log_prior(own) + self.size.log_pmf(n)

    def recover(self, state: ChainState) -> np.ndarray:
        """Return u with F(u; theta) = x: the state's own, or drawn from p(u | x, theta)."""
        n = len(state.records)
        if state.innovations is not None or n <= pieces.PIECE or self.abilities.uses_index:
            return self.recover_some(state, 0, n, state.rng)
        assert self.abilities.innovations is not None
        u = np.empty((n, self.abilities.innovations.width))
        return self._filled(u, functools.partial(self.recover_some, state), state.rng)

    def recover_some(
        self, state: ChainState, begin: int, end: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return u of the records from `begin` to `end`; of all, if they depend on their index."""
        if state.innovations is not None:
            return state.innovations[begin:end]
        recover, innovations = self.abilities.recover_innovations, self.abilities.innovations
        assert recover is not None
        assert innovations is not None
        return arrays.as_innovations(
            f"{self.abilities.name}.recover_innovations",
            recover(state.theta, state.records[begin:end], rng),
            end - begin,
            innovations.width,
        )

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), up to a constant, for a model that has it."""
        assert self.abilities.log_prior is not None  # seen to by the moves that ask
        return self.abilities.log_prior(theta)

    @property
    def work(self) -> Work:
        """The cost of the methods of a model that builds its records."""
        assert self.abilities.innovations is not None
        return self.abilities.innovations.work

    def formula(self) -> Any:
        """Return the model's formula for the total of this query, if there is one."""
        make = self.abilities.formula
        if make is None or self.terms is None or self._own_statistic is not None:
            return None
        return make(self.release.query, self.n)

    @functools.cached_property
    def smooth(self) -> Smooth:
        """The coordinates and entries that change no whole number in built records.

        This is tested by giving each coordinate of theta, or entry of u, the value of another draw.
        """
        assert self.abilities.innovations is not None
        maps, rng = self.coordinates, np.random.default_rng(0)
        u, u_new = (self.abilities.innovations.draw(min(self.n, SEEN), rng) for _ in range(2))
        smooth = Smooth(np.ones(maps.size, dtype=bool), np.ones(u.shape[1], dtype=bool))

        def columns(v: np.ndarray, u: np.ndarray) -> np.ndarray:
            return self.build(maps.from_vector(v)[0], u).reshape(len(u), -1).T

        with np.errstate(all="ignore"), blame(self.model):
            for _ in range(PAIRS):
                v, v_new = (maps.to_vector(self.sample_prior(rng)) for _ in range(2))
                here = columns(v, u)
                whole = np.array([np.array_equal(column, np.rint(column)) for column in here])
                if here.dtype.kind != "f":
                    return Smooth(~smooth.theta, ~smooth.u)
                if not whole.any():
                    continue
                for k in np.flatnonzero(smooth.theta):
                    there = columns(np.where(np.arange(maps.size) == k, v_new, v), u)
                    smooth.theta[k] = np.array_equal(here[whole], there[whole])
                for k in np.flatnonzero(smooth.u):
                    there = columns(v, np.where(np.arange(len(smooth.u)) == k, u_new, u))
                    smooth.u[k] = np.array_equal(here[whole], there[whole])
        return smooth

    def simulate(self, rng: np.random.Generator) -> np.ndarray:
        """Draw records from the prior, in the form in which a state holds them."""
        return self.propose(self.sample_prior(rng), self.draw_n(rng), rng)[0]

    def expand(self, records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the records of a state as a list, in random order if it has none."""
        return records

    def hold(self, records: np.ndarray) -> np.ndarray:
        """Return a list of records as a state holds them."""
        return records

    def database(self, state: ChainState) -> np.ndarray:
        """Return the confidential records of a state as a list."""
        return state.records.astype(state.records.dtype if self._small is None else np.int64)

    # What the release says about them.

    def statistic(self, records: np.ndarray, start: int) -> np.ndarray:
        """t_i(x_i, s_dp) of records start, start + 1, ..., (m, d), or in another of the shapes."""
        query, m = self.release.query, len(records)
        if self._own_statistic is not None:
            made = self._own_statistic(records, np.arange(start, start + m), self.values)
            name, d = self.mechanism_abilities.name, self.d or None
        elif (compact := self._cells or self._placed) is not None:
            rows = compact(records)
            if self._trusted:
                return rows
            method = "cells" if self.uses_cells else "placed"
            check = arrays.as_cells if self.uses_cells else arrays.as_placed
            return check(f"{self.query_abilities.name}.{method}", rows, m, self.d)
        else:
            made = query.statistic(records)
            name, d = self.query_abilities.name, len(query.names)
        return made if self._trusted else arrays.as_statistic(f"{name}.statistic", made, m, d)

    def total(self, records: np.ndarray, start: int = 0) -> np.ndarray:
        """T(x), (d,), summed afresh so that no rounding error builds up over a chain.

        The records are numbered from `start`.
        """
        if len(records) > pieces.PIECE:
            return self._sum_pieces(len(records), lambda a, b: self.total(records[a:b], start + a))
        if self._query_total is not None:
            total = self._query_total(records)
            if self._trusted:
                return total
            return arrays.as_total(f"{self.query_abilities.name}.total", total, self.d)
        total = self.sum(self.statistic(records[:CHUNK], start))
        for at in range(CHUNK, len(records), CHUNK):
            total += self.sum(self.statistic(records[at : at + CHUNK], start + at))
        return total

    def _filled(
        self, out: np.ndarray, make: Callable[..., Any], rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Return `out`, each of its pieces filled with make(begin, end), or (begin, end, rng)."""

        def fill(begin: int, end: int, *own: Any) -> None:
            out[begin:end] = make(begin, end, *own)

        for _ in in_pieces(len(out), fill, rng, threads=self.threads):
            pass
        return out

    def _sum_pieces(self, n: int, total: Callable[[int, int], np.ndarray]) -> np.ndarray:
        result = np.zeros(self.d)
        for part in in_pieces(n, total, threads=self.threads):
            result += part
        return result

    def rebuild(self, theta: Theta, u: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return F(u; theta), or None if larger than a piece, and its total T, (d,)."""
        if len(u) <= pieces.PIECE:
            records = self.build(theta, u)
            return records, self.total(records)
        return None, self._sum_pieces(
            len(u), lambda a, b: self.total(self.build(theta, u[a:b], a), a)
        )

    def build_all(self, theta: Theta, u: np.ndarray, records: np.ndarray) -> np.ndarray:
        """Return F(u; theta), reusing a large `records` of the same length."""
        if len(u) <= pieces.PIECE:
            return self.build(theta, u)
        if len(u) != len(records):
            records = np.empty((len(u), *records.shape[1:]), records.dtype)
        return self._filled(records, lambda a, b: self.build(theta, u[a:b], a))

    def put(
        self, state: ChainState, theta: Theta, u: np.ndarray, records: np.ndarray | None = None
    ) -> None:
        """Move a chain to theta and F(u; theta), which is `records` if it is already built."""
        state.theta = theta
        if records is None:
            records = self.build_all(theta, u, state.records)
        state.set_records(records, None if state.innovations is None else u)

    def total_at(self, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """T(F(u; theta(v))), (d,)."""
        return self.rebuild(self.coordinates.from_vector(v)[0], u)[1]

    def sum(self, statistic: np.ndarray) -> np.ndarray:
        """Add up the output of `statistic`, (d,)."""
        total = np.zeros(self.d)
        add = add_cells if self.uses_cells else add_placed if self.uses_places else add_rows
        add(statistic, total)
        return total

    def log_g(self, total: np.ndarray) -> float:
        """Log g(s_dp, T), up to a constant, times the power."""
        density = self.density
        if type(density) is Density:  # the usual one, of which its terms are all that is read
            return self.power * log_g(density.terms, total)
        if density is not None:
            return self.power * log_density(density, total)
        value = self.release.mechanism.log_density(self.values, total)
        try:
            return self.power * float(value)
        except (TypeError, ValueError):
            name = self.mechanism_abilities.name
            raise TypeError(f"{name}.log_density must return one number; got {value!r}") from None
