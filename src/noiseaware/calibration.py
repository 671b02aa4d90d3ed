"""Is the sampler exact? Two checks that anybody can run on a model of their own.

Both use only that data simulated from the prior make the true parameter a draw from its own
posterior. Neither needs the posterior to be known.

`sbc` (simulation-based calibration; Talts et al. 2018) draws theta from the prior, a database and
a release from it, samples the posterior with `sample`, and takes the rank of the true theta among
the draws. If the sampler is right and mixes, the ranks are uniform.

`geweke` (Geweke 2004, "Getting it right") does not need mixing. Draw (theta, x, s_dp) from the
joint distribution, then alternate: one iteration of the sampler given s_dp, a new s_dp from the
mechanism given x. Each half leaves the joint distribution alone if it is right, so that after any
number of rounds (theta, x, s_dp) is again one draw of it. Many independent short runs of this are
compared with fresh draws of the joint distribution by two-sample Kolmogorov-Smirnov tests. The
runs are independent, so the tests' false-alarm rates are what they say they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from noiseaware.sampler import chain
from noiseaware.sampler.contract import check_fit
from noiseaware.sampler.default import default_moves
from noiseaware.sampler.run import sample
from noiseaware.sampler.target import Target

__all__ = ["Calibration", "geweke", "sbc"]


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
        One for each name.
    false_alarm
        The probability with which an exact sampler fails the whole check.
    values
        The ranks (replicates, names), or the compared values of the runs.
    """

    check: str
    names: tuple[str, ...]
    p_values: np.ndarray
    false_alarm: float
    values: np.ndarray

    @property
    def threshold(self) -> float:
        """The p-value below which a name fails: the false-alarm rate shared among the names."""
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
    model: Any,
    mechanism: Any,
    *,
    n_records: int,
    replicates: int = 100,
    ranks: int = 19,
    draws: int = 400,
    warmup: int = 400,
    moves: Sequence[Any] | None = None,
    random_seed: int | None = None,
    cores: int = 1,
    false_alarm: float = 1e-3,
) -> Calibration:
    """Check a sampler by simulation-based calibration.

    Parameters
    ----------
    model, mechanism, n_records
        What makes the records, what makes the release, and how many records there are.
    replicates : int
        Simulated releases.
    ranks : int
        Draws that are kept of each chain, evenly spaced; the ranks go from 0 to this number.
    draws, warmup, moves
        As in `sample`; one chain a replicate. `draws` should be several autocorrelation times
        for each kept draw.
    random_seed, cores
        Same seed, same ranks, for any number of cores.
    false_alarm : float
        The probability with which an exact sampler fails.

    Returns
    -------
    Calibration
        True in a condition if every parameter passed.
    """
    seeds = np.random.SeedSequence(random_seed).spawn(replicates)
    settings = {"draws": draws, "warmup": warmup, "moves": moves}
    run = delayed(_sbc_replicate)
    values = np.stack(
        Parallel(n_jobs=cores)(run(model, mechanism, n_records, ranks, settings, s) for s in seeds)
    )
    p_values = np.array([_uniform_p_value(column, ranks + 1) for column in values.T])
    return Calibration("sbc", _names(model), p_values, false_alarm, values)


def _sbc_replicate(model, mechanism, n_records, ranks, settings, seed) -> np.ndarray:
    """Return the rank of each true parameter among the kept draws, ties broken at random."""
    rng = np.random.default_rng(seed)
    theta, records = _draw_database(model, n_records, rng)
    release = mechanism.privatize(records, rng)
    tree = sample(
        model,
        release,
        chains=1,
        cores=1,
        progressbar=False,
        random_seed=int(rng.integers(2**63)),
        **settings,
    )
    keep = np.linspace(0, settings["draws"] - 1, ranks).round().astype(int)
    result = []
    for parameter in model.parameters:
        drawn = tree["posterior"][parameter.name].values[0, keep].reshape(ranks, -1)
        true = np.reshape(theta[parameter.name], -1)
        ties = rng.integers(0, (drawn == true).sum(axis=0) + 1)
        result.append((drawn < true).sum(axis=0) + ties)
    return np.concatenate(result)


def _uniform_p_value(ranks: np.ndarray, size: int) -> float:
    """Compare ranks with the uniform distribution on 0, ..., size - 1: chi-square and K-S, halved.

    Chi-square on bins of equal probability sees any shape; Kolmogorov-Smirnov on ranks spread
    uniformly within their cell sees a shift. The smaller of the two, times two, is returned.
    """
    from scipy.stats import chisquare, kstest

    bins = max(
        b for b in range(2, size + 1) if size % b == 0 and len(ranks) / b >= min(8, len(ranks) / 2)
    )
    counts = np.bincount(ranks * bins // size, minlength=bins)
    jitter = np.random.default_rng(len(ranks)).random(len(ranks))
    by_shift = kstest((ranks + jitter) / size, "uniform").pvalue
    return float(min(1.0, 2 * min(chisquare(counts).pvalue, by_shift)))


def geweke(
    model: Any,
    mechanism: Any,
    *,
    n_records: int,
    replicates: int = 1000,
    rounds: int = 10,
    moves: Sequence[Any] | None = None,
    random_seed: int | None = None,
    cores: int = 1,
    false_alarm: float = 1e-3,
) -> Calibration:
    """Check a sampler by Geweke's joint distribution test.

    Parameters
    ----------
    model, mechanism, n_records
        What makes the records, what makes the release, and how many records there are.
    replicates : int
        Independent runs, and as many fresh draws of the joint distribution to compare with.
    rounds : int
        Iterations of the sampler in each run, each followed by a new release. More rounds make a
        small error add up.
    moves, random_seed, cores
        As in `sample`. The moves do not tune themselves here.
    false_alarm : float
        The probability with which an exact sampler fails.

    Returns
    -------
    Calibration
        For the parameters, the coordinates of the total T(x), and log g(s_dp, T(x)). True in a
        condition if all of them passed.
    """
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(random_seed)
    theta, records = _draw_database(model, n_records, rng)
    release = mechanism.privatize(records, rng)
    check_fit(model, release)
    target = Target(model, release)
    moves = default_moves(target) if moves is None else tuple(moves)
    for move in moves:
        move.check(target)
    batches = min(replicates, 8 * cores)
    sizes = np.diff(np.linspace(0, replicates, batches + 1).round().astype(int))
    run = delayed(_geweke_runs)
    parts = Parallel(n_jobs=cores)(
        run(model, mechanism, n_records, int(size), rounds, moves, seed)
        for size, seed in zip(sizes, np.random.SeedSequence(random_seed).spawn(batches))
    )
    fresh = np.concatenate([part[0] for part in parts])
    ended = np.concatenate([part[1] for part in parts])
    p_values = np.array([ks_2samp(a, b).pvalue for a, b in zip(fresh.T, ended.T)])
    totals = tuple(f"T{j}" for j in range(target.d))
    return Calibration("geweke", (*_names(model), *totals, "log g"), p_values, false_alarm, ended)


def _geweke_runs(model, mechanism, n_records, runs, rounds, moves, seed):
    rng = np.random.default_rng(seed)
    fresh, ended = [], []
    for _ in range(runs):
        theta, records = _draw_database(model, n_records, rng)
        fresh.append(_quantities(Target(model, mechanism.privatize(records, rng)), theta, records))
        theta, records = _draw_database(model, n_records, rng)
        target = Target(model, mechanism.privatize(records, rng))
        state = chain.start(target, moves, rng)
        state.theta, state.records = theta, records
        if target.holds_innovations:
            state.innovations = target.draw_innovations(n_records, rng)
            state.records = model.build_records(theta, state.innovations)
            target = Target(model, mechanism.privatize(state.records, rng))
        for _ in range(rounds):
            for move, tuning in zip(moves, state.tunings, strict=True):
                move.step(target, state, tuning)
            target = Target(model, mechanism.privatize(state.records, rng))
        ended.append(_quantities(target, state.theta, state.records))
    return np.stack(fresh), np.stack(ended)


def _quantities(target: Target, theta: dict[str, Any], records: np.ndarray) -> np.ndarray:
    """Return the parameters, T and log g as one vector; jittered where discrete values tie."""
    total = target.total(records)
    values = [np.reshape(theta[p.name], -1) for p in target.model.parameters]
    return np.concatenate([*values, total, [target.log_g(total)]])


def _draw_database(model, n_records, rng) -> tuple[dict[str, Any], np.ndarray]:
    theta = model.sample_prior(rng)
    if hasattr(model, "sample_records"):
        return theta, np.ascontiguousarray(model.sample_records(theta, n_records, rng))
    shape = (n_records, model.innovations.width)
    normal = model.innovations.kind == "normal"
    innovations = rng.standard_normal(shape) if normal else rng.random(shape)
    return theta, np.ascontiguousarray(model.build_records(theta, innovations))


def _names(model: Any) -> tuple[str, ...]:
    names: list[str] = []
    for parameter in model.parameters:
        shape = tuple(parameter.shape)
        names += [
            parameter.name + (f"[{','.join(map(str, index))}]" if shape else "")
            for index in np.ndindex(shape)
        ]
    return tuple(names)
