"""Verdicts on a posterior, in plain words.

Do the chains agree (R-hat)? Are there enough effective draws (ESS)? Did short runs from the prior
find a mode that the chains missed? Could the prior have made this release? Is every acceptance
probability as high as the privacy guarantee implies? The last question is Proposition 3.1 of the
paper: under pure epsilon-DP, a proposal of a record from the model is accepted with probability at
least exp(-epsilon). This is a theorem about the stated query, clamping, scale and epsilon, so a
single probability below the bound proves that they did not make the release.

Without pure privacy there is no such theorem. The available bounds hold on average over the
releases that the model and its prior would make (`docs/acceptance.md`); they are shown beside the
observed values, and never fail a posterior.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.mechanisms.acceptance import MISS
from noiseaware.results.posterior import need_posterior

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

__all__ = ["Checks", "Verdict", "check"]

MOST_RHAT = 1.01
LEAST_ESS = 400.0
LABELS = 0.2
"""If chains differ only in their labels, sorting these leaves at most this share of the excess of
R-hat over 1; other differences hardly shrink."""
SURPRISE = 1e-6
"""Probability of the noise below which a release does not fit: also the false-alarm rate."""
RECORD_SURPRISE = 1e-5
"""The same for a release with values of single records, where the probability is exact."""

NOT_CHECKED = "not checked: "
"""How the message begins when a check could not be made."""

ROUNDING = 1e-9
"""Relative slack in the comparison with exp(-epsilon), for floating-point sums only."""


@dataclass(frozen=True)
class Verdict:
    """One check: its subject, whether it passed, and an explanation."""

    name: str
    passed: bool
    message: str

    @property
    def checked(self) -> bool:
        """Whether the check could be made at all."""
        return not self.message.startswith(NOT_CHECKED)


@dataclass(frozen=True)
class Checks:
    """All verdicts on one posterior; true if they all passed."""

    verdicts: tuple[Verdict, ...]

    def __bool__(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    def __str__(self) -> str:
        return "\n".join(
            f"{('ok  ' if v.checked else '--  ') if v.passed else 'FAIL'}  {v.name}: {v.message}"
            for v in self.verdicts
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the verdicts as a table, for a notebook."""
        rows = ""
        for verdict in self.verdicts:
            mark = "✓ passed" if verdict.passed else "<b>✗ failed</b>"
            mark = mark if verdict.checked else "not checked"
            texts = (mark, escape(verdict.name), escape(verdict.message))
            cells = (f"<td style='text-align:left'>{text}</td>" for text in texts)
            rows += f"<tr>{''.join(cells)}</tr>"
        return f"<table><tbody>{rows}</tbody></table>"

    def show(self) -> None:
        """Print the failures and the checks that were not made, or one line if all passed."""
        from rich.console import Console

        console = Console(stderr=True, highlight=False)
        if self:
            made = [v.name for v in self.verdicts if v.checked]
            console.print("[green]checks passed[/]: " + ", ".join(made))
        for verdict in self.verdicts:
            if not verdict.checked:
                console.print(f"{verdict.name}: {verdict.message}")
            elif not verdict.passed:
                console.print(f"[red]check failed[/] ({verdict.name}): {verdict.message}")


def check(posterior: DataTree) -> Checks:
    """Check a posterior.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.

    Returns
    -------
    Checks
        Printable; falsy if any check failed.
    """
    need_posterior(posterior)
    found = ((name, look(posterior)) for name, look in CHECKS.items())
    return Checks(tuple(Verdict(name, *said) for name, said in found if said is not None))


Said = tuple[bool, str]
"""Whether a check passed, and its message."""


def _complete(posterior: DataTree) -> Said | None:
    if posterior.attrs.get("complete", 1):
        return None
    return False, (
        f"the run was stopped after {posterior['posterior'].sizes['draw']} of "
        f"{posterior.attrs.get('draws')} draws; the draws are valid, but fewer than you asked for"
    )


def _agreement(posterior: DataTree) -> Said:
    from arviz_stats import rhat

    sizes = posterior["posterior"].sizes
    if sizes["chain"] < 2:
        return False, "one chain cannot be compared with itself; run at least two"
    if sizes["draw"] < 4:
        return False, "there are fewer than 4 draws; R-hat needs more"
    for parameter, array in posterior["posterior"].data_vars.items():
        problem = _broken(array.transpose("chain", "draw", ...).values)
        if problem:
            return False, f"{parameter} {problem}"
    draws = posterior["posterior"].to_dataset()
    with np.errstate(divide="ignore", invalid="ignore"):  # a parameter that is constant
        found = rhat(draws)
        worst, where = _largest(found)
        if worst <= MOST_RHAT:
            return True, f"largest {worst:.3f}, for {where}; must be below {MOST_RHAT}"
        axis, ordered = _labels(draws, found)
    if ordered - 1.0 <= LABELS * (worst - 1.0):
        longer = "" if ordered <= MOST_RHAT else "; and run longer (draws, warmup)"
        return False, (
            f"{worst:.3f} for {where} is above {MOST_RHAT} because the chains number {axis} 0, "
            f"{axis} 1, ... differently: with every draw put in the same order it is "
            f"{ordered:.3f}. These are labels, which the release does not tell apart. Use "
            "quantities that do not depend on them, or a prior that distinguishes one "
            f"{axis} from another{longer}"
        )
    return False, (
        f"{worst:.3f} for {where} is above {MOST_RHAT}: the chains have not yet found the same "
        "distribution. Run longer (draws, warmup), and do not use these intervals"
    )


def _labels(draws: Dataset, found: Dataset) -> tuple[str, float]:
    """Return the axis whose labels chains disagree about most, and R-hat without them.

    If a release does not distinguish classes, reordering the classes gives the same posterior, and
    a chain that never changes their order is right up to relabelling. So R-hat is recomputed with
    every draw sorted by one quantity: for each parameter with that axis, the one with the highest
    R-hat.
    """
    from arviz_stats import rhat

    best = ("", math.inf)
    plain = draws.drop_vars([*draws.coords])
    axes = [str(d) for d in draws.dims if d not in ("chain", "draw") and draws.sizes[d] > 1]
    for axis in axes:
        for name in [name for name, array in plain.data_vars.items() if axis in array.dims]:
            worst = found[name].fillna(1.0).max(axis)
            key = plain[name].isel(worst.argmax(...) if worst.dims else {})
            ordered = plain.isel({axis: key.argsort(key.get_axis_num(axis))})
            best = min(best, (axis, _largest(rhat(ordered))[0]), key=lambda pair: pair[1])
    return best


def _broken(values: np.ndarray) -> str:
    """Return why draws (chain, draw, ...) of a parameter are unusable, or ""."""
    if not np.isfinite(values).all():
        return "has draws that are not finite numbers: the sampler broke down"
    still = (values == values[:, :1]).all(axis=1)
    # A parameter with one value everywhere is constant by construction. A nearly known count may
    # stay constant in one chain and move in others: R-hat can compare these.
    constant = (values == values[:1, :1]).all(axis=(0, 1))
    whole = (values == np.rint(values)).all(axis=(0, 1))
    stuck = still.all(axis=0) | (still.any(axis=0) & ~whole)
    if (stuck & ~constant).any():
        return "did not move at all in at least one chain: its draws cannot be used"
    return ""


def _effective_draws(posterior: DataTree) -> Said:
    from arviz_stats import ess

    if posterior["posterior"].sizes["draw"] < 4:
        return False, "there are fewer than 4 draws; ESS needs more"
    draws, seen = posterior["posterior"].to_dataset(), []
    for kind in ("bulk", "tail"):
        least, where = _largest(-ess(draws, method=kind))
        seen.append((-least, f"smallest {kind} ESS {-least:,.0f}, for {where}"))
    words = "; ".join(said for _, said in seen)
    if min(seen)[0] >= LEAST_ESS:
        return True, words
    return False, (
        f"{words}; reliable means and interval ends need at least {LEAST_ESS:.0f}. Run longer "
        "(draws)"
    )


def _modes(posterior: DataTree) -> Said | None:
    found = json.loads(posterior.attrs.get("scouts", "{}"))
    runs = found.get("runs", 0)
    if runs == 0:
        return None
    if not found["elsewhere"]:
        return True, f"{runs} short runs from the prior found no region that the chains had missed"
    return False, (
        f"{found['elsewhere']} of {runs} short runs from the prior stayed in a region that the "
        f"chains have missed, which fits the release about as well: {found['where']}. These draws "
        "may leave out a mode of the posterior. Run many chains (chains=16) and compare them"
    )


def _fit(posterior: DataTree) -> Said | None:
    if "surprise" in posterior.attrs:
        return _fit_of_records(posterior, json.loads(posterior.attrs["surprise"]))
    if "release_p_value" not in posterior.attrs:
        return None
    p_value = float(posterior.attrs["release_p_value"])
    if p_value >= SURPRISE:
        return True, (
            "the stated noise explains the difference between the release and the imputed databases"
        )
    return False, (
        "the difference between the release and the imputed databases is too large for the stated "
        f"noise (probability {p_value:.1g}): no database of this model and this number of records "
        "comes close. The model, the prior, the query, n_records or the scale does not match the "
        "release"
    )


def _fit_of_records(posterior: DataTree, found: dict[str, Any]) -> Said:
    """Say the same for a release with values of single records (`scrutiny.surprise`)."""
    if found["why"]:
        return True, f"{NOT_CHECKED}{found['why']}"
    p_value, place = found["p_value"], found["place"]
    if p_value >= RECORD_SURPRISE:
        return True, "the released numbers vary as much as the model and the stated noise predict"
    chance = f"probability {p_value:.1g}" if p_value > 1e-99 else "probability below 1e-99"
    if found["kind"] == "less":
        return False, (
            "the released numbers vary less than the model and the stated noise predict "
            f"({chance}): the noise is smaller than stated, or the numbers were changed in a way "
            "that the release does not mention, such as rounding (step) or clamping (clamp)"
        )
    released = posterior["observed_data"].to_dataset()["release"]
    value, name = float(released.values[place]), str(released["released"].values[place])
    seen = "withheld" if math.isnan(value) else f"released as {value:.6g}"
    words, mean = f"{name!r} was {seen}", math.nan
    if "record_estimates" in posterior.children:
        mean = float(posterior["record_estimates"].to_dataset()["mean"].values[place])
        words += f" and is estimated as {mean:.4g}"
    expected, sd = found["expected"]
    away = abs(value - mean) / found["sd"]
    if math.isfinite(expected):
        words += f", where the model expects {expected:.4g} with a standard deviation of {sd:.2g}"
    elif math.isfinite(away):
        words += f", {away:.2g} standard deviations of the noise away"
    return False, f"{words} ({chance} for the whole release): {found['advice']}"


def _prior(posterior: DataTree) -> Said | None:
    """Say whether the prior and the release contradict one another (`scrutiny.conflict`)."""
    if "conflict" not in posterior.attrs:
        return None
    found = list(filter(None, json.loads(posterior.attrs["conflict"]).values()))
    if not found:
        return True, "the release is plausible under the prior, and the posterior lies within it"
    stated = json.loads(posterior.attrs.get("model_json", "") or "{}")
    numbers = [f"{key} = {value}" for key, value in stated.items() if isinstance(value, float)]
    which = f" ({stated['type']} now has {', '.join(numbers)})" if numbers else ""
    return False, (
        f"{'; '.join(found)}. The prior does not describe such records, so do not use the "
        f"posterior: give a prior in the units of the records{which}, or check the query's bounds "
        "or n_records"
    )


def _acceptance(posterior: DataTree) -> Said | None:
    epsilon = float(posterior.attrs.get("change_epsilon", math.nan))
    if math.isnan(epsilon) or "lowest_log_acceptance" not in posterior["sample_stats"]:
        return None
    lowest = float(posterior["sample_stats"]["lowest_log_acceptance"].min())
    slack = ROUNDING * (1 + epsilon) + float(posterior.attrs.get("rounding", 0.0))
    if lowest >= -epsilon - slack:
        least = f"{math.exp(lowest):.4g}"
        words = "less likely" if least == "1" else f"less than {least} times as likely"
        return True, (
            f"changing one record never made the release {words}; epsilon = {epsilon:.4g} for a "
            f"changed record allows a factor of {math.exp(-epsilon):.4g}"
        )
    return False, (
        f"changing one record made the release {math.exp(lowest):.4g} times as likely, which is "
        f"below exp(-epsilon) = {math.exp(-epsilon):.4g} and cannot happen: the stated query, "
        "clamping, sensitivity, scale and epsilon contradict one another, so they are not what "
        "made the release. Check what the curator published and, if the query is your own, its "
        "sensitivity"
    )


def _usual_acceptance(posterior: DataTree) -> Said | None:
    """Show the acceptance beside the bounds that hold without pure privacy; never fails."""
    stats = posterior["sample_stats"]
    seen = all(name in stats for name in ("acceptance_rate", "lowest_log_acceptance"))
    if "mean_acceptance" not in posterior.attrs or not seen:
        return None
    mean = float(posterior.attrs["mean_acceptance"])
    level = float(posterior.attrs["sweep_acceptance"])
    rate = float(stats["acceptance_rate"].mean())
    floor = math.log(level) if level > 0.0 else -math.inf  # exp of a large loss is 0
    below = float((stats["lowest_log_acceptance"] < floor).mean())
    words = (
        f"{rate:.1%} of the proposals were accepted, and {below:.2%} of the draws had one with "
        f"probability below {level:.2g}. Without pure privacy there is no floor exp(-epsilon); "
        f"on average over the releases that this model and prior would make, at least {mean:.1%} "
        f"of proposals of one record are accepted, and at most {MISS:.2%} of the sweeps have one "
        f"below {level:.2g}"
    )
    # Files from before version 0.2 do not record this; then nothing is claimed.
    if posterior.attrs.get("blocks", True):
        words += "; this sampler may propose blocks of records, which are accepted less often"
    # With a few sweeps per draw and some luck, only ten times the expected number counts.
    elif rate < mean or below > 10 * MISS:
        words += (
            ". Here acceptance is worse than that: the release is far from what the model expects, "
            "or the stated query, clamping, sensitivity or scale is not what made it"
        )
    return True, words


CHECKS: dict[str, Callable[[DataTree], Said | None]] = {
    "complete": _complete,
    "chains agree (R-hat)": _agreement,
    "effective draws (ESS)": _effective_draws,
    "no other mode": _modes,
    "the prior fits the release": _prior,
    "the release fits the model": _fit,
    "acceptance against exp(-epsilon)": _acceptance,
    "acceptance (for information)": _usual_acceptance,
}
"""All checks, in the order of their verdicts; they return None if there is nothing to check."""


def _largest(values: Dataset) -> tuple[float, str]:
    """Return the largest value over all parameters, and the label of its entry."""
    worst, where = -math.inf, ""
    for name, array in values.data_vars.items():
        # A parameter that is constant by construction has no R-hat.
        flat = np.where(np.isfinite(array), array, -math.inf)
        index = np.unravel_index(int(np.argmax(flat)), flat.shape)
        if flat[index] > worst:
            labels = [str(array[d].values[i]) for d, i in zip(array.dims, index, strict=True)]
            worst = float(flat[index])
            where = f"{name}[{', '.join(labels)}]" if labels else str(name)
    return worst, where
