"""Is the sampler exact? Two checks for any model, including your own.

Both rest on one fact: if data are simulated from the prior, the true parameter is a draw from its
own posterior. Neither requires the posterior to be known.

`sbc` (simulation-based calibration; Talts et al. 2018) draws theta from the prior, then a database
and a release, runs a chain as `sample` does, and ranks the true theta among the draws. If the
sampler is right and mixes, the ranks are uniform.

`geweke` (Geweke 2004, "Getting it right") does not need mixing. Draw (theta, x, s_dp) from the
joint distribution, then alternate: one iteration of the sampler given s_dp, a new s_dp from the
mechanism given x, and so on, ending with the sampler. If both halves are right, each leaves the
joint distribution invariant, so after any number of rounds (theta, x, s_dp) is still a draw from
it. Two-sample Kolmogorov-Smirnov tests compare many short runs with fresh draws of the joint
distribution. The runs are independent, so the tests' false-alarm rates hold.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed

from noiseaware.agreement.fit import check_fit
from noiseaware.basics.arguments import whole_number
from noiseaware.basics.interrupts import held_back
from noiseaware.contract import (
    Mechanism,
    Model,
    Move,
    Size,
    draw_poisson_records,
    draw_records,
    mechanism_abilities,
    model_abilities,
)
from noiseaware.release import Release
from noiseaware.running.run import prepare
from noiseaware.sampler import chain
from noiseaware.sampler.default import make_target
from noiseaware.sampler.size import NAME
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["Calibration", "geweke", "sbc"]

PILOT = 100
"""Warm-up iterations of the chains that learn tunings for `geweke`."""

BATCHES = 16
"""How many parts the runs of `geweke` are split into for the workers; fixed, so that the outcome
does not depend on the number of cores."""


@dataclass(frozen=True)
class Calibration:
    """The outcome of a calibration check.

    Attributes
    ----------
    check
        "sbc" or "geweke".
    names
        What was compared.
    p_values
        One per name.
    false_alarm
        The probability that an exact sampler fails the whole check.
    values
        The ranks, (replicates, names), or the compared values of the runs.
    levels
        The number of possible ranks; 0 if the values are not ranks.
    """

    check: str
    names: tuple[str, ...]
    p_values: np.ndarray
    false_alarm: float
    values: np.ndarray
    levels: int = 0

    def to_datatree(self) -> DataTree:
        """Return the ranks scaled to (0, 1), for ``arviz_plots.plot_ecdf_pit``.

        Returns
        -------
        xarray.DataTree
            With the group `prior_sbc`: one value per name and replicate, uniform if the sampler is
            exact.
        """
        from arviz_base import from_dict

        if not self.levels:
            raise ValueError(f"only the outcome of sbc has ranks; this is that of {self.check}")
        columns = zip(self.names, self.values.T, strict=True)
        return from_dict({"prior_sbc": {k: spread(v, self.levels)[None] for k, v in columns}})

    @property
    def threshold(self) -> float:
        """The p-value below which a name fails: `false_alarm` divided among the names."""
        return self.false_alarm / len(self.names)

    @property
    def passed(self) -> bool:
        """Whether every name passed."""
        return bool((self.p_values >= self.threshold).all())

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        worst = int(np.argmin(self.p_values))
        word = "passed" if self.passed else "FAILED"
        return (
            f"{self.check} {word}: smallest p-value {self.p_values[worst]:.2g} "
            f"({self.names[worst]}) of {len(self.names)}, from {len(self.values)} replicates; "
            f"fails below {self.threshold:.2g}, by chance with probability {self.false_alarm:g}"
        )

    __repr__ = __str__


def sbc(
    model: Model,
    mechanism: Mechanism,
    *,
    n_records: int | None = None,
    size: Size | None = None,
    replicates: int = 100,
    ranks: int = 19,
    draws: int = 400,
    warmup: int = 400,
    moves: Sequence[Move] | None = None,
    random_seed: int | None = None,
    cores: int = 1,
    false_alarm: float = 1e-3,
) -> Calibration:
    """Check a sampler by simulation-based calibration.

    Parameters
    ----------
    model, mechanism, n_records
        What generates the records, what makes the release, and the number of records; None for a
        model that also generates this number, such as `PoissonTable`.
    size : optional
        Instead of `n_records`: a prior for that number, which the sampler is then not told.
    replicates : int
        The number of simulated releases.
    ranks : int
        Draws kept from each chain, evenly spaced; ranks go from 0 to this number.
    draws, warmup, moves
        As in `sample`, with one chain per replicate. `draws` should be several autocorrelation
        times per kept draw; otherwise even an exact sampler's ranks are not uniform.
    random_seed, cores
        Same seed, same ranks, for any number of cores.
    false_alarm : float
        The probability that an exact sampler fails.

    Returns
    -------
    Calibration
        Truthy if every parameter passed.
    """
    replicates, ranks = whole_number("replicates", replicates), whole_number("ranks", ranks)
    schedule = chain.Schedule(whole_number("warmup", warmup, 0), whole_number("draws", draws, 1))
    if ranks > schedule.draws:
        raise ValueError(f"ranks must be at most draws ({draws}); got {ranks}")
    simulation = _prepare(model, mechanism, n_records, size, moves, false_alarm)
    run, seeds = delayed(_sbc_replicate), np.random.SeedSequence(random_seed).spawn(replicates)
    tasks = (run(simulation, ranks, schedule, seed) for seed in seeds)
    values = np.stack(Parallel(n_jobs=cores)(tasks))
    p_values = np.array([uniform_p_value(column, ranks + 1) for column in values.T])
    return Calibration("sbc", _names(model, size), p_values, false_alarm, values, ranks + 1)


@dataclass(frozen=True)
class Simulation:
    """What all replicates share."""

    model: Model
    n_records: int | None
    size: Size | None
    privatize: Callable[..., Release]
    moves: tuple[Move, ...] = ()

    def database(self, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
        """Draw theta and records."""
        theta = self.model.sample_prior(rng)
        able = model_abilities(self.model)
        if able.random_size and self.n_records is None:
            return theta, draw_poisson_records(self.model, theta, rng)
        n = self.n_records if self.size is None else self.size.sample(rng)
        records = draw_records(self.model, theta, np.arange(n or 0), rng)
        return theta, np.ascontiguousarray(records)

    def draw(self, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray, Target]:
        """Draw theta, records and a release; return the posterior given that release too."""
        theta, records = self.database(rng)
        return theta, records, self.target(records, rng)

    def target(self, records: np.ndarray, rng: np.random.Generator) -> Target:
        """Draw a release of records, and return the posterior given it."""
        return make_target(self.model, self.release(records, rng), self.moves or None, self.size)

    def release(self, records: np.ndarray, rng: np.random.Generator) -> Release:
        """Draw a release of records; it gives their number only if the sampler may know it."""
        made = self.privatize(records, rng)
        return made if self.n_records is not None else Release(made.values, made.mechanism, None)


def _prepare(
    model: Any, mechanism: Any, n_records: int | None, size: Any, moves: Any, level: float
) -> Simulation:
    open_size = model_abilities(model).random_size and n_records is None and size is None
    if not open_size and (n_records is None) == (size is None):
        raise ValueError(
            f"give one of n_records and size; got n_records={n_records!r} and size={size!r}"
        )
    if size is None and not open_size:
        whole_number("n_records", n_records, 1)
    if not 0 < level < 1:
        raise ValueError(f"false_alarm must be between 0 and 1; got {level!r}")
    privatize = mechanism_abilities(mechanism).privatize
    if privatize is None:
        raise TypeError(f"mechanism must have `privatize`; {type(mechanism).__name__} has none")
    simulation, rng = Simulation(model, n_records, size, privatize), np.random.default_rng(0)
    release = simulation.release(simulation.database(rng)[1], rng)
    check_fit(model, release, size)
    return replace(simulation, moves=prepare(model, release, moves, size)[1])


def _sbc_replicate(
    simulation: Simulation, ranks: int, schedule: chain.Schedule, seed: np.random.SeedSequence
) -> np.ndarray:
    """Return the rank of each true parameter among the kept draws, breaking ties at random."""
    rng = np.random.default_rng(seed)
    theta, records, target = simulation.draw(rng)
    state = chain.start(target, simulation.moves, rng)
    _, draws = chain.run_through(target, simulation.moves, schedule, state)
    keep = np.linspace(0, schedule.draws - 1, ranks).round().astype(int)
    result = []
    names = [parameter.name for parameter in simulation.model.parameters]
    if simulation.size is not None:
        theta, names = {**theta, NAME: len(records)}, [*names, NAME]
    for name in names:
        drawn = draws.theta[name][keep].reshape(ranks, -1)
        true = np.reshape(theta[name], -1)
        ties = rng.integers(0, (drawn == true).sum(axis=0) + 1)
        result.append((drawn < true).sum(axis=0) + ties)
    return np.concatenate(result)


def spread(ranks: np.ndarray, size: int) -> np.ndarray:
    """Return u = (rank + jitter) / size, uniform on (0, 1) if the ranks 0, ..., size - 1 are."""
    return (ranks + np.random.default_rng(len(ranks)).random(len(ranks))) / size


def uniform_p_value(ranks: np.ndarray, size: int) -> float:
    """Compare ranks with the uniform distribution on 0, ..., size - 1.

    A Kolmogorov-Smirnov test of u (see `spread`) detects a shift, and one of |2 u - 1| draws that
    are too wide or too narrow. Both p-values are exact in any sample size; twice the smaller one
    is returned.
    """
    from scipy.stats import kstest

    u = spread(ranks, size)
    by_shift = kstest(u, "uniform").pvalue
    by_width = kstest(np.abs(2 * u - 1), "uniform").pvalue
    return float(min(1.0, 2 * min(by_shift, by_width)))


def geweke(
    model: Model,
    mechanism: Mechanism,
    *,
    n_records: int | None = None,
    size: Size | None = None,
    replicates: int = 1000,
    rounds: int = 10,
    moves: Sequence[Move] | None = None,
    random_seed: int | None = None,
    cores: int = 1,
    false_alarm: float = 1e-3,
) -> Calibration:
    """Check a sampler by Geweke's joint distribution test.

    Parameters
    ----------
    model, mechanism, n_records
        What generates the records, what makes the release, and the number of records.
    size : optional
        Instead of `n_records`: a prior for that number, which the sampler is then not told.
    replicates : int
        Independent runs, and as many fresh draws of the joint distribution to compare with.
    rounds : int
        Iterations of the sampler in each run, with a new release before each. More rounds let a
        small error accumulate.
    moves, random_seed, cores
        As in `sample`; same seed, same outcome, for any number of cores. The moves do not tune
        themselves during a run: half of the runs use untuned moves, half the tuning that a short
        warm-up on another release learned.
    false_alarm : float
        The probability that an exact sampler fails.

    Returns
    -------
    Calibration
        For the parameters, the coordinates of the total T(x), log g(s_dp, T(x)) and, if the model
        has `log_likelihood`, log f(x | theta). Truthy if all of them passed.
    """
    from scipy.stats import ks_2samp

    replicates, rounds = whole_number("replicates", replicates), whole_number("rounds", rounds)
    simulation = _prepare(model, mechanism, n_records, size, moves, false_alarm)
    sizes = np.diff(np.linspace(0, replicates, min(replicates, BATCHES) + 1).round().astype(int))
    seeds = np.random.SeedSequence(random_seed).spawn(len(sizes))
    run = delayed(_geweke_runs)
    parts = Parallel(n_jobs=cores)(
        run(simulation, int(size), rounds, seed, tuned=batch % 2 == 1)
        for batch, (size, seed) in enumerate(zip(sizes, seeds, strict=True))
    )
    fresh, ended = (np.concatenate(part) for part in zip(*parts, strict=True))
    # With ties (counts, say), the p-value is too large rather than too small.
    with warnings.catch_warnings():
        # The exact p-value of two nearly equal samples can round to above 1.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation", RuntimeWarning)
        p_values = np.array([ks_2samp(a, b).pvalue for a, b in zip(fresh.T, ended.T, strict=True)])
    names = _names(model, size)
    likelihood = ("log f",) if model_abilities(model).log_likelihood is not None else ()
    totals = tuple(f"T{j}" for j in range(ended.shape[1] - len(names) - 1 - len(likelihood)))
    names = (*names, *totals, "log g", *likelihood)
    return Calibration("geweke", names, p_values, false_alarm, ended)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _geweke_runs(
    simulation: Simulation, runs: int, rounds: int, seed: np.random.SeedSequence, tuned: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantities for fresh draws and for the ends of runs, (runs, names) each."""
    rng = np.random.default_rng(seed)
    tunings = _tunings(simulation, rng, tuned)
    fresh: list[np.ndarray] = []
    ended: list[np.ndarray] = []
    for _ in range(runs):
        theta, records, target = simulation.draw(rng)
        fresh.append(_quantities(target, theta, target.hold(records)))
        theta, records, target = simulation.draw(rng)
        held = target.hold(records)
        state = ChainState(theta, held, None, rng, tunings=copy.deepcopy(tunings))
        able = target.abilities
        if able.holds_innovations and able.innovations is not None:
            state.innovations = able.innovations.draw(len(records), rng)
            state.records = target.build(theta, state.innovations)
            target = simulation.target(state.records, rng)
        with held_back():
            for done in range(rounds):
                # End with the sampler's half, so that its x given s_dp is what is compared.
                if done:
                    target = simulation.target(target.database(state), rng)
                # Let complete iterations and brief draws (`Transport.brief`) take turns.
                state.iteration = (len(ended) + done) % 3 - 1
                for move, tuning in zip(simulation.moves, state.tunings, strict=True):
                    move.step(target, state, tuning)
        ended.append(_quantities(target, state.theta, state.records))
    return np.stack(fresh), np.stack(ended)


def _tunings(simulation: Simulation, rng: np.random.Generator, tuned: bool) -> list[dict[str, Any]]:
    """Return the moves' tunings, learned from a release that no run sees."""
    _, _, target = simulation.draw(rng)
    state = chain.start(target, simulation.moves, rng)
    if tuned:
        schedule = chain.Schedule(PILOT, 1)
        state, _ = chain.advance(target, simulation.moves, schedule, state, PILOT)
    return state.tunings


def _quantities(target: Target, theta: dict[str, Any], records: np.ndarray) -> np.ndarray:
    total = target.total(records)
    densities = [target.log_g(total)]
    likelihood = target.abilities.log_likelihood
    if likelihood is not None:
        densities.append(float(np.sum(likelihood(theta, records))))
    values = [np.reshape(theta[p.name], -1) for p in target.model.parameters]
    number = [] if target.size is None else [target.number(records)]
    return np.concatenate([*values, number, total, densities])


def _names(model: Model, size: Size | None) -> tuple[str, ...]:
    names = tuple(label for parameter in model.parameters for label in parameter.labels)
    return names if size is None else (*names, NAME)
