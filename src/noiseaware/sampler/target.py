"""What is sampled: p(theta, x | s_dp) for one model and one release.

The joint posterior of the paper's equation (4) is

    p(theta, x | s_dp)  proportional to  p(theta) prod_i f(x_i | theta) g(s_dp, T(x)),
    T(x) = sum_i t_i(x_i, s_dp)                                   (record additivity).

`Target` joins the model (prior, f) and the release (g, t_i) and answers what the moves ask: the
statistics of some records, their total, log g. It also finds out, once, what the model can do,
and turns what a user's own class returns into arrays or a clear error.

Two shapes of statistic. *Dense*: t is (n, d). *Cells*: a record adds 1 to k of the d cells and
is held as an (n, k) array of cell numbers, so that a proposal touches only the cells that change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from noiseaware.contract import model_abilities
from noiseaware.mechanisms.joint import log_joint
from noiseaware.mechanisms.terms import log_g
from noiseaware.parameters import Innovations
from noiseaware.sampler import arrays
from noiseaware.sampler.contract import check_theta
from noiseaware.sampler.coordinates import Coordinates
from noiseaware.sampler.naming import is_own
from noiseaware.sampler.state import ChainState

CHUNK = 4096
"""Records that are proposed and summarised together: large enough to drown the cost of a call,
small enough to stay in cache."""


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

    Parameters
    ----------
    model
        What made the records.
    release
        What is known of them.

    Attributes
    ----------
    n, d
        The number of records, and of coordinates of the total T.
    terms
        The mechanism's coordinatewise log density, or None if g is joint.
    joint
        The compiled form of a joint g, or None if there is none.
    uses_cells
        Whether statistics are held as cell numbers.
    can_update
        There is a kernel for p(theta | x): the model's own, or a ready one from its log_prior and
        log_likelihood.
    can_transport
        The model builds its records from innovations u, x_i = F(u_i; theta), and u is known
        whenever theta moves: it can be recovered from x, or nothing else moves theta.
    uses_index
        Records are not alike: what record i can be depends on i, and the model's `sample_records`
        and `build_records` are told which records they make.
    coordinates
        theta as one real vector without constraints, for the moves that need it: the model's own,
        if it has some that suit it better than those of its parameters' supports.
    holds_innovations
        u cannot be recovered from x, so the chain carries it (a model that is only a simulator).
    """

    def __init__(self, model: Any, release: Any) -> None:
        mechanism = release.mechanism
        self.model = model
        self.release = release
        self.n: int = release.n_records
        self.values: np.ndarray = release.values
        self.terms = mechanism.terms(release.values) if hasattr(mechanism, "terms") else None
        has_joint = self.terms is None and hasattr(mechanism, "joint")
        self.joint = mechanism.joint(release.values) if has_joint else None
        self._own_statistic = hasattr(mechanism, "statistic")
        self.uses_cells = (
            self.terms is not None and hasattr(release.query, "cells") and not self._own_statistic
        )
        self._query_total = None if self._own_statistic else getattr(release.query, "total", None)
        builds = hasattr(model, "build_records")
        recovers = hasattr(model, "recover_innovations")
        has_density = hasattr(model, "log_prior") and hasattr(model, "log_likelihood")
        self.can_update = hasattr(model, "update_parameters") or (
            has_density and (recovers or not builds)
        )
        self.can_transport = builds and (recovers or not self.can_update)
        self.holds_innovations = builds and not recovers and not self.can_update
        self.innovations: Innovations | None = model.innovations if builds else None
        self.uses_index = bool(getattr(model, "uses_index", False))
        self._index = np.arange(self.n) if self.uses_index else None
        own = getattr(model, "coordinates", None)
        self.coordinates = Coordinates(tuple(model.parameters)) if own is None else own
        self._shapes = [(p.name, tuple(p.shape)) for p in model.parameters]
        # What the package itself makes goes to compiled loops as it is; the rest is looked at.
        owner = mechanism if self._own_statistic else release.query
        self._trusted = not is_own(owner)
        self._record: tuple[np.dtype, tuple[int, ...]] | None = None
        self.d = self._find_d()

    def _find_d(self) -> int:
        if self.terms is not None:
            return len(self.terms.family)
        rng = np.random.default_rng(0)
        theta = self.model.sample_prior(rng)
        records, _ = self.propose(theta, 1, rng)
        return self.statistic(records, 0).shape[1]

    # What the model makes.

    def draw_innovations(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Draw u for m records, (m, width)."""
        assert self.innovations is not None
        shape = (m, self.innovations.width)
        if self.innovations.kind == "normal":
            return rng.standard_normal(shape)
        return rng.random(shape)

    def propose(
        self, theta: dict[str, Any], m: int, rng: np.random.Generator, start: int = 0
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Draw records start, ..., start + m - 1 from f(. | theta), with their u if it counts."""
        if self.holds_innovations:
            innovations = self.draw_innovations(m, rng)
            return self.build(theta, innovations, start), innovations
        if not hasattr(self.model, "sample_records"):
            return self.build(theta, self.draw_innovations(m, rng), start), None
        if self._index is None:
            made = self.model.sample_records(theta, m, rng)
        else:
            made = self.model.sample_records(theta, m, rng, index=self._index[start : start + m])
        return self._as_records("sample_records", made, m), None

    def build(self, theta: dict[str, Any], innovations: np.ndarray, start: int = 0) -> np.ndarray:
        """Return F(u; theta) for records start, start + 1, ..., as the compiled loops need them."""
        if self._index is None:
            made = self.model.build_records(theta, innovations)
        else:
            index = self._index[start : start + len(innovations)]
            made = self.model.build_records(theta, innovations, index=index)
        records = self._as_records("build_records", made, len(innovations))
        # Records are changed in place later on; the innovations must not change with them.
        if records.base is not None and np.may_share_memory(records, innovations):
            return records.copy()
        return records

    def _as_records(self, method: str, made: Any, m: int) -> np.ndarray:
        """Return what a method made as an array that all compiled loops can take."""
        if (
            self._record is not None
            and type(made) is np.ndarray
            and made.dtype == self._record[0]
            and made.shape == (m, *self._record[1])
            and made.flags.carray
        ):
            return made
        where = f"{type(self.model).__name__}.{method}"
        if not isinstance(made, np.ndarray) or made.dtype.kind not in "fiub":
            kind = f"dtype {made.dtype}" if isinstance(made, np.ndarray) else type(made).__name__
            raise TypeError(f"{where} must return a NumPy array of real numbers; got {kind}")
        if made.ndim == 0 or len(made) != m:
            raise ValueError(
                f"{where} must return {m} records along the first axis when asked for {m}; "
                f"got shape {made.shape}"
            )
        records = arrays.usual_array(made)
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

    def as_theta(self, where: Callable[[], str], theta: Any) -> dict[str, Any]:
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
        return check_theta(where(), theta, tuple(self.model.parameters))

    def sample_prior(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw theta from the prior."""
        return self.as_theta(
            lambda: f"{type(self.model).__name__}.sample_prior", self.model.sample_prior(rng)
        )

    def recover(self, state: ChainState) -> np.ndarray:
        """Return u with F(u; theta) = x: the state's own, or drawn from p(u | x, theta)."""
        if state.innovations is not None:
            return state.innovations
        assert self.innovations is not None
        return arrays.as_innovations(
            f"{type(self.model).__name__}.recover_innovations",
            self.model.recover_innovations(state.theta, state.records, state.rng),
            len(state.records),
            self.innovations.width,
        )

    def formula(self) -> Any:
        """Return the model's formula for the total of this query, or None if there is none."""
        formula = model_abilities(self.model).formula
        if self.terms is None or self._own_statistic or formula is None:
            return None
        return formula(self.release.query, self.n)

    # What the release says of them.

    def statistic(self, records: np.ndarray, start: int) -> np.ndarray:
        """t_i(x_i, s_dp) of records start, start + 1, ...: (m, d), or cell numbers (m, k)."""
        if self._own_statistic:
            index = np.arange(start, start + len(records))
            made = self.release.mechanism.statistic(records, index, self.values)
            owner, d = self.release.mechanism, getattr(self, "d", None)
        elif self.uses_cells:
            made = self.release.query.cells(records)
            if self._trusted:
                return made
            where = f"{type(self.release.query).__name__}.cells"
            return arrays.as_cells(where, made, len(records), self.d)
        else:
            made = self.release.query.statistic(records)
            owner, d = self.release.query, len(self.release.query.names)
        if self._trusted:
            return made
        return arrays.as_statistic(f"{type(owner).__name__}.statistic", made, len(records), d)

    def total(self, records: np.ndarray) -> np.ndarray:
        """T(x), (d,), summed afresh so that no rounding error builds up over a chain."""
        if self._query_total is not None:
            total = self._query_total(records)
            if self._trusted:
                return total
            return arrays.as_total(f"{type(self.release.query).__name__}.total", total, self.d)
        total = self.sum(self.statistic(records[:CHUNK], 0))
        for start in range(CHUNK, len(records), CHUNK):
            total += self.sum(self.statistic(records[start : start + CHUNK], start))
        return total

    def sum(self, statistic: np.ndarray) -> np.ndarray:
        """Add up statistics that `statistic` gave, (d,)."""
        total = np.zeros(self.d)
        (add_cells if self.uses_cells else add_rows)(statistic, total)
        return total

    def log_g(self, total: np.ndarray) -> float:
        """Log g(s_dp, T), up to a constant."""
        if self.terms is not None:
            family, parameters = self.terms
            return log_g(family, parameters, total)
        if self.joint is not None:
            code, parameters = self.joint
            return log_joint(code, parameters, total)
        value = self.release.mechanism.log_density(self.values, total)
        try:
            return float(value)
        except (TypeError, ValueError):
            name = type(self.release.mechanism).__name__
            raise TypeError(f"{name}.log_density must return one number; got {value!r}") from None
