"""What agrees with the paper and what does not, in sentences generated from the numbers.

A cell of a coverage table *agrees* if published and measured coverage differ by less than `FAR`
standard errors of the difference (3 to 7 percentage points with 100 replicates each). By chance,
one of 15 or 25 cells exceeds 3 in about one run out of 25 or 15.
"""

from __future__ import annotations

import numpy as np
from pandas import DataFrame

from noiseaware.studies import Study
from noiseaware_paper import published
from noiseaware_paper.settings import Experiment, Size

FAR = 3.0
FEW = 20  # replicates below which the words say that a coverage is only a hint


def coverage_words(experiment: Experiment, table: DataFrame, size: Size) -> list[str]:
    """Compare Algorithm 1 with the published coverage, and the default sampler with both."""
    replicates = size.replicates
    far = table[table["z_published"].abs() >= FAR]
    cells = len(table)
    words = [
        f"Algorithm 1 with the published protocol agrees with {cells - len(far)} of the {cells} "
        f"printed numbers (less than {FAR:g} standard errors apart, {replicates} replicates here "
        f"and {published.REPLICATES} in the paper)."
    ]
    if len(far):
        listed = "; ".join(
            f"{row['parameter']} at epsilon {row['epsilon']:g}: printed {row['published']:.2f}, "
            f"here {row['algorithm1']:.2f}"
            for _, row in far.iterrows()
        )
        words += [f"It does not agree at {listed}.", WHY[experiment.name]]
    words.append(_mixing_words(table, size.samplers["default"].draws, enough=replicates >= FEW))
    if replicates < FEW:
        hint = f"With {replicates} replicates a coverage is only a hint; the full run has"
        words.append(f"{hint} {published.REPLICATES}.")
    return words


WHY = {
    "naive_bayes": (
        "The paper draws the feature probabilities from the prior and does not print them, so the "
        "truth here is not quite its truth; where a chain does not mix, its starting point matters "
        "too."
    ),
    "regression": (
        "Where chains do not mix, the coverage depends on where they start and on small details of "
        "the sampler; the paper does not say how its chains are started (here: from the prior)."
    ),
}
"""Possible reasons for disagreement."""


def _mixing_words(table: DataFrame, draws: int, enough: bool) -> str:
    """Return words on how much of the under-coverage is Monte Carlo error."""
    ess = table[["algorithm1_ess", "default_ess"]].median()
    low = table[table["algorithm1"] < published.INTERVAL - 2 * table["algorithm1_error"]]
    better = low[low["z_default"] > 2.0]
    words = (
        f"The median effective sample size of a chain is {ess['algorithm1_ess']:.0f} for Algorithm "
        f"1 (of {published.ITERATIONS - published.BURN_IN:,} kept draws) and "
        f"{ess['default_ess']:.0f} for the default sampler (of {draws:,}). "
    )
    if not enough:
        return words.strip()
    if not len(low):
        return words + "No coverage of Algorithm 1 is clearly below the nominal level."
    error = "Monte Carlo error of chains that did not mix"
    exact = "what the exact posterior does at this truth"
    if 2 * len(better) > len(low):
        so = f"So most of the under-coverage is {error}, not the prior and not the clamping."
    elif len(better):
        so = f"There the under-coverage is {error}; in the others it is {exact}."
    else:
        so = f"So the under-coverage is {exact}: intervals centred by the prior, not chains that "
        so += "did not mix."
    return (
        f"{words}Algorithm 1 covers clearly less than {published.INTERVAL:.0%} in {len(low)} of "
        f"{len(table)} cells; in {len(better)} of them the default sampler, which has the same "
        f"posterior and mixes, covers clearly more. {so}"
    )


def one_line(symbol: str, table: DataFrame) -> str:
    """Return the coverage of one entry at each epsilon: published, Algorithm 1, default."""
    part = table[table["parameter"] == symbol].sort_values("epsilon")

    def numbers(column: str) -> str:
        return " ".join(f"{value:.2f}".lstrip("0") for value in part[column])

    return (
        f"{symbol} over epsilon {' '.join(f'{e:g}' for e in part['epsilon'])}: published "
        f"{numbers('published')}, Algorithm 1 here {numbers('algorithm1')}, default sampler "
        f"{numbers('default')}."
    )


def means_words(study: Study) -> str:
    """Return words on how much the two samplers' posterior means differ on the same release."""
    first, second = (study.plan.methods.index(m) for m in ("algorithm1", "default"))
    difference = study["mean"][..., first, :] - study["mean"][..., second, :]
    ratio = np.abs(difference / study["sd"][..., second, :]).mean(axis=(1, 2, 3))
    pairs = zip(ratio, study.plan.epsilons, strict=True)
    listed = ", ".join(f"{value:.2f} at epsilon {epsilon:g}" for value, epsilon in pairs)
    return (
        "On the same release, the two samplers' posterior means differ on average by "
        f"{listed}, in posterior standard deviations: that is Monte Carlo error, nearly all of it "
        "Algorithm 1's."
    )


def acceptance_words(study: Study) -> str:
    """Compare the lowest acceptance probability with exp(-epsilon)."""
    bound = np.exp(-np.array(study.plan.epsilons))
    lowest = np.nanmin(study["lowest_probability"], axis=(1, 2, 3))
    if (lowest >= bound - 1e-9).all():
        return (
            "No proposal of a record in any chain had an acceptance probability below "
            "exp(-epsilon), as Proposition 3.1 says, and the average is far above."
        )
    return "Some acceptance probability was below exp(-epsilon), which cannot be: this is a fault."


def limit_words(title: str, table: DataFrame) -> str:
    """Return words on how close the posterior is to the limits at both ends of epsilon."""
    first, last = table.iloc[0], table.iloc[-1]
    poor = table[table["smallest ESS"] < 100]
    words = (
        f"{title}: at epsilon {first['epsilon']:g} the posterior is "
        f"{first['distance from the prior']:.3f} from the prior (1 is farthest), at epsilon "
        f"{last['epsilon']:g} it is {last['distance from the clamped-data posterior']:.3f} from "
        "the clamped-data posterior."
    )
    if len(poor):
        listed = ", ".join(f"{epsilon:g}" for epsilon in poor["epsilon"])
        words += (
            f" At epsilon {listed} the chains mixed slowly (ESS below 100), so these distances "
            "hold some Monte Carlo error."
        )
    return words


def slope_words(title: str, slopes: dict[str, float]) -> str:
    """Return words on how the time per iteration grows with the number of records."""
    listed = " and ".join(f"n^{value:.2f} ({name})" for name, value in slopes.items())
    return f"{title}: the time of an iteration grows like {listed}; n^1 is linear."


def imputed_words(title: str, table: DataFrame) -> str:
    """Return words on whether the true database's ranks are uniform."""
    lowest = float(table["p-value of uniform ranks"].min())
    fine = "as they must be" if lowest > 1e-3 else "which is too small: this is a fault"
    return (
        f"{title}: ranks of the true database among the imputed ones are uniform with p-values "
        f"of at least {lowest:.2g}, {fine}."
    )
