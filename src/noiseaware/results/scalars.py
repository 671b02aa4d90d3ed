"""The scalar parameters of a posterior, with labels, for plots and the report.

A parameter with a shape is split into entries: `coefficients` becomes `coefficients[intercept]`,
`coefficients[x1]`, as in the table of `noiseaware.summary`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.results.posterior import need_posterior
from noiseaware.results.units import KEYS, Units, check_units

if TYPE_CHECKING:
    from xarray import DataTree

MAIN = 6
"""The number of scalars shown by default, unless the first parameter alone has more."""

MOST = 12
"""The most scalars of the first parameter shown by default."""


@dataclass(frozen=True)
class Scalar:
    """One scalar quantity of the posterior."""

    label: str  # as in the table of `noiseaware.summary`
    variable: str  # the parameter
    place: int  # which of its numbers this is, counted row by row
    draws: np.ndarray  # (chain, draw)
    prior: np.ndarray | None  # draws from the prior, (m,), if the posterior holds some
    unit: str = ""  # in which they are, if that is known
    scale: float = 1.0  # what draws and prior were divided by, to be shown in that unit

    def of(self, values: Mapping[str, Any]) -> np.ndarray | None:
        """Return this scalar as shown, from a dict of arrays (draws, *shape); or None."""
        if self.variable not in values:
            return None
        array = np.asarray(values[self.variable], dtype=np.float64)
        return array.reshape(len(array), -1)[:, self.place] / self.scale


def all_scalars(posterior: DataTree) -> list[Scalar]:
    """Return every scalar of every parameter, in the order of the summary."""
    need_posterior(posterior)
    priors = posterior["prior"].to_dataset() if "prior" in posterior.children else {}
    found = []
    for name, array in posterior["posterior"].to_dataset().data_vars.items():
        draws = array.transpose("chain", "draw", ...)
        prior = priors[name].transpose("chain", "draw", ...).values if name in priors else None
        labels = [[str(label) for label in draws[d].values] for d in draws.dims[2:]]
        for place, index in enumerate(np.ndindex(draws.shape[2:])):
            inside = ", ".join(names[i] for names, i in zip(labels, index, strict=True))
            label = f"{name}[{inside}]" if inside else str(name)
            before = None if prior is None else prior[(..., *index)].ravel()
            found.append(Scalar(label, str(name), place, draws.values[(..., *index)], before))
    return found


def shown_scalars(posterior: DataTree) -> list[Scalar]:
    """Return every scalar as shown: in its unit, divided by its scale."""
    scalars = all_scalars(posterior)
    shown, units = [], Units.of(posterior)
    for one in scalars:
        scale, unit = units.scale(one.label), units.unit(one.label)
        prior = None if one.prior is None else one.prior / scale
        shown.append(replace(one, draws=one.draws / scale, prior=prior, unit=unit, scale=scale))
    return shown


def in_units(
    posterior: DataTree,
    units: Mapping[str, str] | None = None,
    scales: Mapping[str, float] | None = None,
) -> DataTree:
    """Return the posterior with units for display; its draws are unchanged.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.
    units : mapping, optional
        The unit of parameters or of their entries, ``{"mean": "thousand dollars"}``, shown beside
        numbers in tables, plots and the report.
    scales : mapping, optional
        Divisors for the numbers shown, ``{"mean": 1000}``.

    Returns
    -------
    DataTree
        With the same draws; units of other parameters are kept.

    Examples
    --------
    >>> import noiseaware as na
    >>> release = na.Release([37.2], na.mechanisms.Laplace(na.queries.Count(), epsilon=0.5), 100)
    >>> model, quick = na.models.Bernoulli(), {"draws": 100, "chains": 2, "progressbar": False}
    >>> posterior = na.sample(model, release, random_seed=1, **quick)
    >>> shown = na.in_units(posterior, {"probability": "%"}, {"probability": 0.01})
    >>> print(str(na.summary(shown)).splitlines()[1].split()[:2])
    ['probability', '(%)']
    """
    names = [name for scalar in all_scalars(posterior) for name in (scalar.variable, scalar.label)]
    given = (units or {}, scales or {})
    check_units(*given, names)
    made = posterior.copy(deep=False)
    for key, had, now in zip(KEYS.values(), Units.of(posterior), given, strict=True):
        made.attrs[key] = json.dumps({**had, **now})
    return made


def main_scalars(posterior: DataTree) -> list[Scalar]:
    """Return the scalars to show first: those of the parameters that the model names first.

    These are whole parameters in the order of the model, up to `MAIN` scalars; if the first one has
    more, it alone, up to `MOST`. Derived quantities (a difference of groups) come first. A scalar
    is left out if it repeats another (a covariance is symmetric) or has only one value.
    """
    groups: dict[str, list[Scalar]] = {}
    for scalar in _distinct(shown_scalars(posterior)):
        groups.setdefault(scalar.variable, []).append(scalar)
    derived = json.loads(posterior.attrs.get("derived", "[]"))
    chosen: list[Scalar] = []
    for name in sorted(groups, key=lambda name: name not in derived):
        if chosen and len(chosen) + len(groups[name]) > MAIN:
            break
        chosen += groups[name][:MOST]
    return chosen


def pick_scalars(posterior: DataTree, var_names: Sequence[str] | str | None) -> list[Scalar]:
    """Return the requested scalars, by parameter or by label; None: the main ones."""
    if var_names is None:
        return main_scalars(posterior)
    scalars = shown_scalars(posterior)
    chosen: list[Scalar] = []
    for name in [var_names] if isinstance(var_names, str) else var_names:
        found = [scalar for scalar in scalars if name in (scalar.variable, scalar.label)]
        if not found:
            variables = list(dict.fromkeys(scalar.variable for scalar in scalars))
            raise ValueError(
                f"var_names must hold parameters of the posterior ({', '.join(variables)}) or "
                f"labels of its summary; got {name!r}"
            )
        chosen += found
    return chosen


def _distinct(scalars: list[Scalar]) -> list[Scalar]:
    kept: list[Scalar] = []
    for scalar in scalars:
        repeated = any(
            other.variable == scalar.variable and np.array_equal(other.draws, scalar.draws)
            for other in kept
        )
        if not repeated and np.ptp(scalar.draws) > 0:
            kept.append(scalar)
    return kept or scalars
