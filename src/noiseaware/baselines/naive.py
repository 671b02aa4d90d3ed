"""The naive analysis, which treats the noisy numbers as exact.

**In closed form**, if T(x) is a sufficient statistic of the model: the posterior given T is then
known. The released T plus noise may be impossible (a count below 0, a matrix of moments that is not
positive definite), so it is first moved to a possible value. The query's `reading` turns these
numbers into a statement about the records, from which the model's `closed_form` gives the
posterior; neither class knows the other. The pairs that match are:

| model                | query                 | numbers moved        | posterior                 |
|----------------------|-----------------------|----------------------|---------------------------|
| `Bernoulli`          | `Count` of 0 or 1     | c into [0, n]        | Beta(a + c, b + n - c)    |
| `Bernoulli`          | `Sum` over [0, 1]     | c into [0, n]        | the same                  |
| `Bernoulli`          | `Histogram`, 2 levels | to at least 0        | Beta(a + c_1, b + c_0)    |
| `Categorical`        | `Histogram`, J levels | to at least 0        | Dirichlet(a_j + c_j)      |
| `NaiveBayes`         | `ClassFeatureCounts`  | to at least 0        | Dirichlet, each           |
| `Normal`, v known    | `Sum`                 | into n[lower, upper] | N(w (m_0/s_0^2 + S/v), w) |
| `Poisson`            | `Sum`                 | and to at least 0    | Gamma(a + S, b + n)       |
| `Exponential`        | `Sum`                 | and to at least 0    | Gamma(a + n, b + S)       |
| `TwoProportions`     | `ByGroup` of a count  | c_g into [0, n_g]    | Beta, each                |
| `LinearRegression`   | `RegressionMoments`   | made possible        | the model's own kernel    |
| `MultivariateNormal` | `Moments`             | the same             | the model's own kernel    |

The last two posteriors depend on the records only through their moments, so any records with the
same moments have the same posterior. `records_with` builds such records, and the model's own kernel
runs on them, whichever parameters are known.

The bootstrap's estimate is the maximum likelihood estimate at the same numbers.

**Otherwise by sampling with almost no noise.** The published noise is replaced by noise that is
small compared with sd_j, the standard deviation of T_j over databases of the model. Gaussian noise
of standard deviation sd_j / 10 adds (1/10)^2 = 1% to the variance of T_j around its expectation, so
intervals are too wide by about half a per cent. (With no noise at all the chain could not move.)
Published noise that is already smaller is kept: there the naive and noise-aware analyses agree.

sd_j depends on theta; the median over draws from a short noise-aware run is used, with
sd_j = sqrt(n) times the standard deviation of t_j(x_i) over simulated records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from noiseaware.baselines.non_private import non_private
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import (
    ClosedForm,
    Floats,
    Model,
    Reading,
    Theta,
    draw_records,
    mechanism_abilities,
    model_abilities,
    query_abilities,
)
from noiseaware.mechanisms.terms import (
    GAUSSIAN,
    LAPLACE,
    SeparableDensity,
    additive_terms,
    log_density,
)
from noiseaware.release import Release
from noiseaware.results.posterior import with_derived
from noiseaware.sampling import sample

if TYPE_CHECKING:
    from xarray import DataTree

SHARE = 0.1
"""Standard deviation of the remaining noise, in units of sd_j."""

SIMULATED = 20
"""Draws of theta at which sd_j is computed, with 50 to 1,000 records each."""


class Found(NamedTuple):
    """What a release says about the records if taken as exact, and the resulting posterior."""

    reading: Reading
    form: ClosedForm


def find(model: Model, release: Release) -> Found | None:
    """Return the closed form of the model's posterior, or None; withheld values count as 0."""
    read, answer = query_abilities(release.query).reading, model_abilities(model).closed_form
    if read is None or answer is None:
        return None
    n = release.known_n
    reading = read(np.where(np.isnan(release.values), 0.0, release.values), n)
    form = None if reading is None else answer(reading, n)
    return None if reading is None or form is None else Found(reading, form)


def draw(model: Model, found: Found, n: int, draws: int, rng: np.random.Generator) -> Theta:
    """Draw from the posterior in closed form."""
    if found.form.draw is not None:
        return found.form.draw(draws, rng)
    mean, scatter = found.reading.values
    records = records_with(mean, scatter, n)
    return non_private(model, records, draws=draws, random_seed=int(rng.integers(2**63)))


def records_with(mean: Floats, scatter: Floats, n: int) -> Floats:
    """Return n records with this mean and scatter matrix, (n, q).

    The columns cos(pi (i + 1/2) j / n), j = 1, ..., n - 1, of the discrete cosine transform sum to
    zero and are orthogonal. So q of them, scaled, give records with any scatter matrix of rank
    below n.
    """
    eigenvalues, vectors = np.linalg.eigh(scatter)
    size = min(len(mean), n - 1)
    waves = np.cos(np.pi / n * np.outer(np.arange(n) + 0.5, np.arange(1, size + 1)))
    largest = np.argsort(eigenvalues)[::-1][:size]
    roots = np.sqrt(np.maximum(eigenvalues[largest], 0.0) * 2.0 / n)
    return mean + (waves * roots) @ vectors[:, largest].T


class LittleNoise:
    """Gaussian noise with standard deviations (d,); used only for sampling."""

    def __init__(self, query: Any, scales: Floats) -> None:
        self.query, self.scales = query, scales

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return the log density, coordinate by coordinate."""
        return additive_terms(GAUSSIAN, np.asarray(values), self.scales)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(values, T)."""
        return log_density(self.terms(values), total)


def draw_with_small_noise(
    model: Model, release: Release, values: Floats, draws: int, random_seed: int | None
) -> Theta:
    """Draw from the posterior given T = `values`, up to negligible noise."""
    seeds = np.random.SeedSequence(random_seed).spawn(3)
    pilot_seed, seed = (int(s.generate_state(1, np.uint64)[0]) for s in seeds[:2])
    quiet: dict[str, Any] = {"progressbar": False, "cores": 1}
    pilot = sample(model, release, draws=200, warmup=500, chains=1, random_seed=pilot_seed, **quiet)
    deviations = _deviations(model, release, pilot, np.random.default_rng(seeds[2]))
    # Standard deviations of the published noise; a few per cent off if it is discrete.
    terms: Any = mechanism_abilities(release.mechanism).terms  # those of plain additive noise
    density = terms(release.values)
    published = np.where(density.family == LAPLACE, np.sqrt(2.0), 1.0) / density.parameters[:, 1]
    scales = np.minimum(SHARE * deviations, published)
    exact = Release(values, LittleNoise(release.query, scales), release.known_n)
    result = sample(model, exact, draws=-(-draws // 4), chains=4, random_seed=seed, **quiet)
    drawn = result["posterior"].to_dataset()
    return {
        p.name: drawn[p.name].values.reshape(-1, *p.shape)[:draws].astype(np.float64)
        for p in model.parameters
    }


def _deviations(
    model: Model, release: Release, pilot: DataTree, rng: np.random.Generator
) -> Floats:
    """Return sd_j, (d,)."""
    n = release.known_n
    m = min(max(n, 50), 1000)
    drawn = pilot["posterior"].to_dataset()
    found = []
    for i in np.linspace(0, drawn.sizes["draw"] - 1, SIMULATED).astype(int):
        theta = {p.name: drawn[p.name].values[0, i] for p in model.parameters}
        index = np.arange(m) * n // m
        t = release.query.statistic(draw_records(model, theta, index, rng))
        spread = np.sqrt(n) * t.std(axis=0)
        size = np.abs(t).max(axis=0)
        one_record = np.where(size > 0.0, size, 1.0)  # for a T_j that does not vary at all
        found.append(np.where(spread > 1e-9 * size, spread, one_record))
    return np.median(found, axis=0)


def naive(
    model: Model, release: Release, *, draws: int = 1000, random_seed: int | None = None
) -> dict[str, Floats]:
    """Draw from the naive posterior, which treats the noisy numbers as exact.

    For comparison only: it ignores the privacy noise, so its intervals are too narrow. It has a
    closed form if the released numbers are sufficient statistics of the model; otherwise the
    noise-aware sampler runs with negligible noise. `naive_note` says which.

    Parameters
    ----------
    model
        The model of the records.
    release : Release
        The private numbers.
    draws : int
        The number of draws.
    random_seed : int, optional
        Seed of the draws.

    Returns
    -------
    dict
        Draws of each parameter and derived quantity, (draws, *shape).

    Raises
    ------
    ValueError
        If there is no naive analysis, for example because the released numbers are not noisy
        totals; `naive_note` is then the message.

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
    """Return one sentence on how `naive` gets its draws, or why it cannot."""
    return _way(model, release)[0]


def _way(model: Model, release: Release) -> tuple[str, Found | None, bool]:
    """Return the note, the closed form if there is one, and whether draws are possible."""
    mechanism, found, can = mechanism_abilities(release.mechanism), None, False
    summed = model_abilities(model).summed_kernel is not None and mechanism.record_laws is not None
    none = f"There is no naive analysis of a release by {mechanism.name}"
    if mechanism.per_record and summed:
        note = "The naive analysis is not computed for tables of cells; compare the column "
        note += "'released' with the estimates."
    elif mechanism.per_record:
        note = f"{none}: it is computed for noisy totals, and here every record has a value of "
        note += "its own."
    elif not mechanism.noisy_totals:
        note = f"{none}: its values are not totals with noise added, so nobody would take them as "
        note += "exact."
    elif release.n_records is None:
        note = "There is no naive analysis of this release: it does not say how many records there "
        note += "are, and noisy totals alone do not either."
    elif (found := find(model, release)) is not None:
        withheld = ", with 0 for withheld values" if np.isnan(release.values).any() else ""
        note, can = f"The noisy numbers taken as exact, {found.reading.words}{withheld}.", True
    elif mechanism.with_scale is not None:
        can, note = True, "The noisy numbers taken as exact, by sampling with the privacy noise "
        note += f"replaced by noise of at most {SHARE:.0%} of the totals' spread between databases."
    else:
        note = f"There is no naive analysis of {type(model).__name__} with "
        note += f"{type(release.query).__name__} released by {mechanism.name}: it has no closed "
        note += "form, and only plain additive noise can be made small."
    return note, found, can


def _possible(release: Release) -> Floats:
    """Return the values, moved to possible totals of n records if the query defines them."""
    values = np.where(np.isnan(release.values), 0.0, release.values)
    possible = query_abilities(release.query).possible
    return values if possible is None else possible(values, release.known_n)
