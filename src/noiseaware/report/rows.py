"""The answer, and each parameter's posterior, naive analysis and prior side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from noiseaware import plots
from noiseaware.report.numbers import PROBABILITY, Number, Spread, factor, share_of_draws
from noiseaware.report.pictures import draw, forest
from noiseaware.results.scalars import Scalar

__all__ = ["Row", "all_picture", "answer", "comparison", "picture"]

FOREST = 40  # rows of the picture of all intervals
ABOUT_EQUAL = 1.15  # intervals whose widths differ by less than this factor are called equally wide


@dataclass(frozen=True)
class Row:
    """One scalar: its draws, the naive draws, and the spreads of posterior, naive and prior."""

    label: str
    scalar: Scalar
    naive_draws: np.ndarray | None
    posterior: Spread | None
    naive: Spread | None
    prior: Spread | None

    @classmethod
    def of(cls, scalar: Scalar, naive: dict[str, np.ndarray] | None) -> Row:
        """Return the row of a scalar, with its draws from the naive analysis."""
        naive_draws = None if naive is None else scalar.of(naive)
        drawn = {"posterior": scalar.draws.ravel(), "naive": naive_draws, "prior": scalar.prior}
        spreads = {name: Spread.of(name, scalar.label, values) for name, values in drawn.items()}
        return cls(scalar.label, scalar, naive_draws, **spreads)


def answer(scalar: Scalar) -> dict[str, Any]:
    """Return the answer about one scalar."""
    draws = scalar.draws.ravel()
    # The prior, not the posterior, decides whether the sign of the parameter is a question.
    possible = draws if scalar.prior is None else scalar.prior
    signed = bool((possible < 0).any() and (possible > 0).any())
    above = float((draws > 0).mean())
    share = Number(f"above zero {scalar.label}", above, share_of_draws(above, len(draws)))
    return {
        "label": scalar.label,
        "unit": f" {scalar.unit}" if scalar.unit else "",
        "spread": Spread.of("answer", scalar.label, draws),
        "above": share if signed else None,
    }


def picture(row: Row) -> Markup:
    """Draw the three densities of a row, one above the other."""
    spreads = {"posterior": row.posterior, "naive": row.naive, "prior": row.prior}
    described = [f"{name}: {spread}" for name, spread in spreads.items() if spread is not None]
    shown = plots.ridges_of(row.scalar, row.naive_draws)
    return draw(
        0.75 + 0.5 * len(shown),
        f"Densities of {row.label}, one above the other. {'; '.join(described)} "
        f"(median, {PROBABILITY:.0%} interval).",
        lambda ax: plots.draw_ridges(ax, row.scalar, shown, PROBABILITY),
    )


def all_picture(rows: list[Row]) -> Markup:
    """Draw the intervals of all rows, below one another."""
    shown = rows[:FOREST]
    return draw(
        0.5 + 0.2 * len(shown),
        f"Medians and {PROBABILITY:.0%} intervals of {len(shown)} parameters; the table has the "
        "numbers.",
        forest([(row.label, row.scalar.draws.ravel(), row.naive_draws) for row in shown]),
    )


def comparison(rows: list[Row]) -> list[dict[str, str]]:
    """Return one sentence per parameter on the naive analysis."""
    compared = [(row, row.posterior) for row in rows if row.posterior is not None]
    return [{"label": row.label, "text": _compared(row, ours)} for row, ours in compared]


def _compared(row: Row, ours: Spread) -> str:
    naive, draws = row.naive, row.scalar.draws
    if naive is None:
        return "the naive analysis has no answer: no database could have given the noisy numbers."
    inside = ((draws > naive.low.value) & (draws < naive.high.value)).mean()
    return (
        f"the naive analysis says {naive}; {_widths(ours.width, naive.width)}. It claims "
        f"{PROBABILITY:.0%} for this interval; the probability that the value is in it is "
        f"{share_of_draws(float(inside), draws.size)}."
    )


def _widths(ours: float, naive: float) -> str:
    """Compare the width of the naive interval with the width it should have."""
    ratio = ours / naive if naive > 0 else math.inf
    if ratio == 0:  # one draw, or one value in all of them
        return "there are too few draws to compare the intervals"
    if math.isinf(ratio):
        return "it has no uncertainty at all"
    if ratio > ABOUT_EQUAL:
        return f"its interval is too narrow by a factor of {factor(ratio)}"
    if ratio < 1 / ABOUT_EQUAL:
        return f"its interval is {factor(1 / ratio)} times as wide as it should be"
    return "its interval is about as wide as it should be"
