"""Whether a model and the stated noise could have made a release with values of single records.

A table of cells is such a release. A model with too little variation (Poisson counts for areas that
differ by more than their features explain; a forgotten exposure) pulls every cell towards what it
expects, however far that is from the released value, and no chain reveals it.

**The quantities.** The last state (theta, x) of a chain is a draw of p(theta, x | s_dp). With s_dp
averaged out it is a draw of p(theta) f(x | theta) h(s | x): given theta the counts x_i are
independent draws of their distributions f_i, and given x so are the values s_i of theirs. Let y be
any of these numbers, Y a new draw from the same distribution, and V uniform. Then

    u = P(Y < y) + V P(Y = y)

is uniform (V handles whole numbers, and values that were rounded or withheld), all of the u are
independent, and so are the m numbers p_j = 2 min(u_j, 1 - u_j). Counts are included if the model
gives their distributions (`count_law`), values if the mechanism does (`record_tails`). Values that
were never asked for, and those that the records determine, are uninformative and left out.

**One p-value.** There are three questions. Is one of the p_j too small (m times the smallest)? Is
the sum of -log p_j, which is Gamma(m), too large, as when all cells are a little too far out? Is it
too small, as when the noise is less than stated? The p-value is three times the smallest answer.
For c chains it is that of the k-th smallest, k = c / 2 rounded up, times c / k, which is valid for
any dependence between the chains (Rueger 1978). So if prior, model and mechanism made the release,
the p-value is below q with probability at most q.

References
----------
Dunn, P. K. and Smyth, G. K. (1996). Randomized quantile residuals. JCGS 5(3).
Johnson, V. E. (2007). Bayesian model assessment using pivotal quantities. Bayesian Analysis 2(4).
Rueger, B. (1978). Das maximale Signifikanzniveau des Tests "Lehne H0 ab, wenn k unter n gegebenen
    Tests zur Ablehnung fuehren". Metrika 25.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, gammainc, gammaincc

from noiseaware.contract import Floats
from noiseaware.maths.cells import BINOMIAL, POISSON, log_masses, mean_and_variance
from noiseaware.running.run import SURPRISE, Run
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


@dataclass(frozen=True)
class Surprise:
    """The probability of a release at least as surprising as this one, or why there is none.

    `expected` is the mean and standard deviation of a record under the model, if that record is the
    most extreme quantity; NaN if that is a released value, given its record.
    """

    p_value: float = math.nan
    why: str = ""
    kind: str = "more"  # the numbers vary "more" or "less" than they should
    place: int = 0  # the number of the value that is furthest out
    sd: float = math.nan  # about that of its noise; NaN if it is not known
    expected: tuple[float, float] = (math.nan, math.nan)
    advice: str = ""  # what the model says of a release that varies more


class Tails(NamedTuple):
    """log P(Y < y), log P(Y = y) and log P(Y > y), (m,) each."""

    below: Floats
    at: Floats
    above: Floats


def look(run: Run) -> Surprise | None:
    """Examine the last state of each chain; None if no value is about a single record."""
    able = run.target.mechanism_abilities
    if not able.per_record:
        why = f"there is no test for {able.name}, some of whose values are about single records"
        return None if able.n_values is None else Surprise(why=why)
    if able.record_tails is None:
        return Surprise(why=f"{able.name} does not say how likely its values are (record_tails)")
    rng = run.stream(SURPRISE)
    try:
        with np.errstate(all="ignore"):
            found = [_look(run.target, state, rng) for state in run.states]
    except Exception as error:  # of a class of the user's; the draws are worth more
        return Surprise(why=f"it ended with an error, without harm to the draws: {error}")
    found.sort(key=lambda one: one.p_value)  # NaN in all chains, or in none
    middle = (len(found) + 1) // 2
    chosen = found[middle - 1]
    return replace(chosen, p_value=min(1.0, chosen.p_value * len(found) / middle))


def _look(target: Target, state: ChainState, rng: np.random.Generator) -> Surprise:
    able, values = target.mechanism_abilities, target.values
    assert able.record_tails is not None
    records = target.database(state)
    seen = Tails(*able.record_tails(records, values))
    certain = seen.at == 0.0
    places, logs = [np.flatnonzero(~certain)], [log_p(seen, ~certain, rng)]
    law = None
    if target.abilities.count_law is not None and able.per_record == 1:
        code, rate, size = law = target.abilities.count_law(state.theta, len(records))
        asked = ~(certain & np.isnan(values))
        places.append(np.flatnonzero(asked))
        tails = count_tails(code, rate, size, records.astype(np.float64))
        logs.append(log_p(tails, asked, rng))
    every = np.concatenate(logs)
    if len(every) == 0:
        return Surprise(why="its values follow from the records with certainty, or there are none")
    p_value, kind = together(every)
    worst = int(np.argmin(every))
    place, expected = int(np.concatenate(places)[worst]), (math.nan, math.nan)
    if law is not None and worst >= len(logs[0]):
        mean, variance = mean_and_variance(law[0], law[1][place], law[2][place])
        expected = float(mean), math.sqrt(variance)
    sd = math.nan if able.noise_sds is None else float(able.noise_sds(len(values))[place])
    return Surprise(p_value, "", kind, place, sd, expected, target.abilities.misfit)


def log_p(tails: Tails, used: Any, rng: np.random.Generator) -> Floats:
    """Return log p_j for the quantities in use."""
    below, at, above = (logs[used] for logs in tails)
    v = rng.random(len(at))
    low, high = np.logaddexp(below, at + np.log(v)), np.logaddexp(above, at + np.log1p(-v))
    return np.minimum(np.minimum(low, high) + math.log(2.0), 0.0)


def together(logs: Floats) -> tuple[float, str]:
    """Return the combined p-value of all log p_j, and whether it is for "more" or "less"."""
    m, total = len(logs), float(-logs.sum())
    more = min(m * math.exp(logs.min()), float(gammaincc(m, total)))
    less = float(gammainc(m, total))
    return 3.0 * min(more, less), "more" if more <= less else "less"


def count_tails(code: int, rate: Floats, size: Floats, x: Floats) -> Tails:
    """Return the tails of counts, with `code`, `rate` and `size` as in `maths.cells.log_mass`.

    With the incomplete gamma functions P and Q = 1 - P and the incomplete beta function I, a
    Poisson count has P(X <= x) = Q(x + 1, m), a negative binomial one of size r I_q(r, x + 1), q =
    r / (r + m), and a binomial one of N trials I_q(N - x, x + 1), q = 1 - p.
    """
    at = np.empty(len(x))
    log_masses(code, rate, size, x, at)
    if code == POISSON:
        below, above = gammaincc(np.maximum(x, 1.0), rate), gammainc(x + 1.0, rate)
    elif code == BINOMIAL:
        p, q = rate / (1.0 + rate), 1.0 / (1.0 + rate)
        below = betainc(size - x + 1.0, np.maximum(x, 1.0), q)
        above = np.where(x < size, betainc(x + 1.0, np.maximum(size - x, 1.0), p), 0.0)
    else:
        below = betainc(size, np.maximum(x, 1.0), size / (size + rate))
        above = betainc(x + 1.0, size, rate / (size + rate))
    with np.errstate(divide="ignore"):
        return Tails(np.log(np.where(x > 0.0, below, 0.0)), at, np.log(above))
