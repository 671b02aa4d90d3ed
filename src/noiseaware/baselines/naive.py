"""The naive analysis: the noisy numbers taken as exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseaware.baselines.closed_forms import Found, draw, find
from noiseaware.baselines.small_noise import SHARE, draw_with_small_noise
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Model, mechanism_abilities, query_abilities
from noiseaware.release import Release
from noiseaware.results.posterior import with_derived


def naive(
    model: Model, release: Release, *, draws: int = 1000, random_seed: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Draw from the posterior of somebody who takes the noisy numbers as exact.

    For comparison only: it ignores the privacy noise, so its intervals are too narrow. Where the
    released numbers are sufficient statistics of the model it is known in closed form; otherwise
    the noise-aware sampler runs with noise too small to matter. `naive_note` says which.

    Parameters
    ----------
    model
        What made the records.
    release : Release
        The private numbers.
    draws : int
        How many draws.
    random_seed : int, optional
        Same seed, same draws.

    Returns
    -------
    dict
        For each parameter, and what the model derives from them, its draws, (draws, *shape).

    Raises
    ------
    ValueError
        If the released numbers are not totals with noise, so that there is nothing to take as
        exact; `naive_note` is then the message.

    Examples
    --------
    >>> import noiseaware as na
    >>> from noiseaware.baselines import naive, naive_note
    >>> mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    >>> release = na.Release([-2.3], mechanism, n_records=50)
    >>> naive_note(na.models.Bernoulli(), release)
    'The noisy numbers taken as exact, after moving impossible counts to possible ones.'
    >>> naive(na.models.Bernoulli(), release, draws=200, random_seed=1)["probability"].shape
    (200,)
    """
    draws = whole_number("draws", draws)
    note, found, can = _way(model, release)
    if not can:
        raise ValueError(note)
    if found is not None:
        rng = np.random.default_rng(random_seed)
        drawn = draw(model, found, release.known_n, draws, rng)
    else:
        drawn = draw_with_small_noise(model, release, _possible(release), draws, random_seed)
    return with_derived(model, drawn)


def naive_note(model: Model, release: Release) -> str:
    """Return one sentence that says how `naive` gets its draws, or why it cannot."""
    return _way(model, release)[0]


def _way(model: Model, release: Release) -> tuple[str, Found | None, bool]:
    """Return the note, the closed form if there is one, and whether there is any way at all."""
    mechanism = mechanism_abilities(release.mechanism)
    if not mechanism.noisy_totals:
        note = (
            f"There is no naive analysis of a release by {mechanism.name}: its values are not "
            "totals with noise added, so nobody would take them as exact."
        )
        return note, None, False
    if release.n_records is None:
        note = (
            "There is no naive analysis of this release: it does not say how many records there "
            "are, and noisy totals alone do not either."
        )
        return note, None, False
    found = find(model, release)
    if found is not None:
        withheld = ", with 0 for withheld values" if np.isnan(release.values).any() else ""
        note = f"The noisy numbers taken as exact, {found.reading.words}{withheld}."
        return note, found, True
    if mechanism.with_scale is not None:
        note = (
            "The noisy numbers taken as exact, by sampling with the privacy noise replaced by one "
            f"of at most {SHARE:.0%} of what the totals vary by between databases."
        )
        return note, None, True
    note = (
        f"There is no naive analysis of {type(model).__name__} with {type(release.query).__name__} "
        f"released by {mechanism.name}: it has no closed form, and only plain additive noise can "
        "be made small."
    )
    return note, None, False


def _possible(release: Release) -> NDArray[np.float64]:
    """Return the values, moved to totals that n records can give if the query says which."""
    values = np.where(np.isnan(release.values), 0.0, release.values)
    possible = query_abilities(release.query).possible
    return values if possible is None else possible(values, release.known_n)
