"""Several attributes of a record, each with its own local mechanism, on the default sampler.

References add up every database. False alarms: 1e-5 for each comparison of draws (`exact.known`, 4
of them), 1e-6 for each Geweke and SBC run and each comparison of frequencies.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import noiseaware as na
from exact.calibrated import check_geweke, check_sbc
from exact.known import SEED, BetaMixture, GammaMixture, assert_draws_agree, sampled
from later import only
from mutants.planting import Edit, planted
from noiseaware.agreement import listed
from noiseaware.mechanisms import (
    Attributes,
    LocalExact,
    LocalGeometric,
    LocalLaplace,
    RandomizedResponse,
)
from noiseaware.sampler.moves import finite
from noiseaware.sampler.target import Target

HALF = RandomizedResponse(2, truth=0.75)
MATRIX = [[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]]
CELLS = list(itertools.product(range(2), range(2)))


def answer(s, x):
    return 0.75 if s == x else 0.25


def odd(s, x):
    return MATRIX[x][s]


def same(s, x):
    return float(s == x)


def geometric(s, x):
    return math.exp(-abs(s - x) / 1.3)


CASES = {
    "two answers": (
        [2, 2],
        [HALF, HALF],
        [answer, answer],
        [[1, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 1]],
    ),
    "any matrix, and as it is": (
        [3, 2],
        [RandomizedResponse(matrix=MATRIX), LocalExact()],
        [odd, same],
        [[2, 1], [0, 0], [1, 1], [2, 0], [0, 1]],
    ),
    "noise of two scales": (
        [2, 3],
        [LocalExact(), LocalGeometric(na.queries.Value(), scale=1.3)],
        [same, geometric],
        [[0, 3], [1, -1], [1, 1], [0, 2]],
    ),
}


def tables_of(case):
    """Return all tables of counts that can have led to the release, the weight that it gives each,
    prod_i h(s_i | x_i) added up over the databases with these counts, and h."""
    levels, _, laws, values = CASES[case]
    cells = list(itertools.product(*map(range, levels)))
    h = np.array(
        [[math.prod(f(s, x) for f, s, x in zip(laws, row, cell, strict=True)) for cell in cells]
         for row in values]
    )  # fmt: skip
    seen: dict[tuple[int, ...], float] = {(0,) * len(cells): 1.0}
    for row in h:
        grown: dict[tuple[int, ...], float] = {}
        for counts, weight in seen.items():
            for c in np.flatnonzero(row):
                more = (*counts[:c], counts[c] + 1, *counts[c + 1 :])
                grown[more] = grown.get(more, 0.0) + weight * row[c]
        seen = grown
    return np.array(list(seen)), np.array(list(seen.values())), h


def posterior_of(case):
    """Return the model, the release, and the exact beta mixture of each cell's probability.

    Given all records the table is Dirichlet(a + counts), and a database has the weight
    prod_c Gamma(a + n_c) prod_i h(s_i | x_i).
    """
    levels, mechanisms, _, values = CASES[case]
    model = na.models.ContingencyTable(levels, concentration=0.8)
    release = na.Release(values, Attributes(mechanisms), len(values))
    counts, seen, h = tables_of(case)
    weights = np.exp(special.gammaln(0.8 + counts).sum(axis=1)) * seen
    cells, n = counts.shape[1], len(values)
    exact = {
        k: BetaMixture(weights, 0.8 + counts[:, k], 0.8 * (cells - 1) + n - counts[:, k])
        for k in range(cells)
    }
    return model, release, exact, h


def check_posterior(case, stream):
    model, release, exact, _ = posterior_of(case)
    tree = sampled(model, release, None, stream=stream)
    draws = tree["posterior"]["cell_probabilities"].values
    flat = draws.reshape(*draws.shape[:2], -1)
    assert_draws_agree(exact, lambda k: flat[..., k])


@pytest.mark.parametrize("case", only(["two answers"], CASES))
def test_the_posterior_is_a_mixture_of_dirichlets(case):
    check_posterior(case, 71)


def check_poisson_means(stream):
    """The means of a table of Poisson counts, n of them, each released by itself.

    Given all records a mean is Gamma(a + n_c, b + 1); a database has the weight
    prod_c Gamma(a + n_c) prod_i h(s_i | x_i).
    """
    levels, mechanisms, _, values = CASES["two answers"]
    model = na.models.PoissonTable(levels, shape=0.8, rate=0.5)
    counts, seen, _ = tables_of("two answers")
    weights = np.exp(special.gammaln(0.8 + counts).sum(axis=1)) * seen
    exact = {k: GammaMixture(weights, 0.8 + counts[:, k], 1.5) for k in range(counts.shape[1])}
    release = na.Release(values, Attributes(mechanisms), len(values))
    draws = sampled(model, release, None, stream=stream)["posterior"]["means"].values
    flat = draws.reshape(*draws.shape[:2], -1)
    assert_draws_agree(exact, lambda k: flat[..., k])


def test_poisson_means_of_a_known_number_of_records_are_a_mixture_of_gammas():
    check_poisson_means(75)


def check_records(case):
    """log p(s | theta) to 1e-12, and 20,000 draws of all records given theta."""
    model, release, _, h = posterior_of(case)
    rng = np.random.default_rng(SEED)
    theta = model.sample_prior(rng)
    p = theta["cell_probabilities"].ravel()
    laws = Target(model, release).listed
    log_f = model.log_likelihood(theta, laws.values)
    lacks = release.mechanism.log_normaliser(release.values)
    found = laws.log_seen(log_f).sum() + lacks
    scale = LocalGeometric(na.queries.Value(), scale=1.3).law.log_constant(1.3)
    constant = sum(len(h) * scale for f in CASES[case][2] if f is geometric)
    np.testing.assert_allclose(found, np.log(h @ p).sum() + constant, rtol=1e-12)
    many = 20_000
    drawn = np.array([laws.draw(log_f, rng) for _ in range(many)])
    places = (drawn[:, :, None, :] == model.record_values).all(axis=-1)
    counts = places.sum(axis=0)
    chance = h * p / (h @ p)[:, None]
    assert (counts[chance == 0.0] == 0).all()
    for i in range(len(h)):
        some = chance[i] > 0.0
        if some.sum() > 1:
            expected = many * chance[i][some]
            statistic = ((counts[i][some] - expected) ** 2 / expected).sum()
            assert stats.chi2.sf(statistic, some.sum() - 1) > 1e-6


@pytest.mark.parametrize("case", CASES)
def test_every_record_has_its_conditional(case):
    check_records(case)


# ------------------------------------------------------------------ Geweke and SBC

SETTINGS = {
    "table": (
        na.models.ContingencyTable([2, 3]),
        Attributes([LocalExact(), RandomizedResponse(matrix=MATRIX)]),
    ),
    "naive-bayes": (
        na.models.NaiveBayes(2, [2, 3]),
        Attributes(
            [HALF, LocalExact(), LocalLaplace(na.queries.Value(), scale=0.8, threshold=0.0)],
            columns=[0, 1, 2],
        ),
    ),
    "one column twice": (
        na.models.ContingencyTable([2, 2]),
        Attributes([HALF, RandomizedResponse(2, truth=0.9)], columns=[1, 1]),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
def test_geweke(setting, seed):
    check_geweke(*SETTINGS[setting], seed, rounds=4)


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
def test_sbc(setting, seed):
    check_sbc(*SETTINGS[setting], seed, warmup=100)


# ------------------------------------------------------------------ files, frames, bad input


def test_files_and_frames(tmp_path):
    import pandas as pd

    mechanism = Attributes([HALF, LocalExact()], labels=["smokes", "sex"])
    frame = pd.DataFrame({"sex": [1, 0, 1], "smokes": [0, 0, 1], "age": [30, 40, 50]})
    release = na.Release(frame, mechanism, 3)
    assert release.values.tolist() == [0, 1, 0, 0, 1, 1]
    assert release.names[3] == "record 1: sex"
    release.to_json(tmp_path / "release.json")
    again = na.Release.from_json(tmp_path / "release.json")
    np.testing.assert_array_equal(again.values, release.values)
    assert again.names == release.names
    assert again.to_dict() == release.to_dict()
    assert again.to_dict()["values"] == [[0, 1], [0, 0], [1, 1]]
    simulated = mechanism.privatize(frame[["smokes", "sex"]], np.random.default_rng(1))
    assert (simulated.values[1::2] == frame["sex"]).all()


def fitted(model, release, **given):
    return lambda: na.sample(model, release, draws=5, warmup=5, progressbar=False, **given)


TABLE = na.models.ContingencyTable([2, 2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Attributes([]), "at least one mechanism"),
        (lambda: Attributes(HALF), "a list of mechanisms"),
        (lambda: Attributes([na.mechanisms.Laplace.example()]), "must be local"),
        (lambda: Attributes([Attributes([HALF, HALF])]), "must be local"),
        (lambda: Attributes([HALF], columns=[0, 1]), "columns must be 1"),
        (lambda: na.Release([[0, 1, 1]], Attributes([HALF, HALF]), 1), "must have 2 columns"),
        (lambda: na.Release([[0, 1]], Attributes([HALF, HALF]), 2), "must be 2 for each of"),
        (
            lambda: na.Release([[0, 1], [0, 2]], Attributes([HALF, HALF]), 2),
            "attribute '2': values must be from 0 to 1, .*; got 2 for record 1",
        ),
        (
            fitted(TABLE, na.Release([[0, 0], [1, 5]], Attributes([HALF, LocalExact()]), 2)),
            "those of record 1 are not",
        ),
        (
            fitted(
                TABLE,
                na.Release([[0, 0]], Attributes([HALF, LocalExact()]), 1),
                moves=na.moves.algorithm1(),
            ),
            "laws with zeros: use the default moves",
        ),
        (
            fitted(
                na.models.Poisson(), na.Release([0, 3] * 8, na.mechanisms.RandomRounding(3), 16)
            ),
            "RandomRounding has laws with zeros, which need a model that sums its records out",
        ),
        (
            fitted(na.models.Bernoulli(), na.Release([[0, 0]], Attributes([HALF, HALF]), 1)),
            "at least 2 columns",
        ),
        (
            fitted(
                na.models.Bernoulli(),
                na.Release([3.0], na.mechanisms.Laplace.example(), 5),
                moves=[finite.FiniteMove()],
            ),
            "FiniteMove needs a model that lists",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ planted bugs

QUICK_BUGS = ["the values of one attribute for another", "records drawn without the release"]
BUGS = {
    "all attributes read from the first column": (
        lambda: check_records("two answers"),
        (Edit(Attributes, "_columns", "records[:, column]", "records[:, 0]"),),
    ),
    "the values of one attribute for another": (
        lambda: check_records("two answers"),
        (Edit(Attributes, "_parts", "values.reshape(-1, len(self.mechanisms))",
              "values.reshape(len(self.mechanisms), -1).T"),),
    ),
    "records summed out without the model": (
        lambda: check_posterior("two answers", 72),
        (Edit(listed.ListedLaws, "log_seen", "self.joint(log_f)", "self.joint(0.0 * log_f)"),),
    ),
    "records drawn without the release": (
        lambda: check_records("two answers"),
        (Edit(listed.ListedLaws, "draw", "self.joint(log_f)", "self.joint(log_f) - self.log_h"),),
    ),
    "all records seen as the first pattern": (
        lambda: check_posterior("two answers", 73),
        (Edit(listed.ListedLaws, "log_seen", "[self.pattern]", "[0 * self.pattern]"),),
    ),
    "the release counted twice": (
        lambda: check_posterior("two answers", 74),
        (Edit(listed.ListedLaws, "log_seen", "(possible + summed)", "(2.0 * possible + summed)"),),
    ),
    "Poisson means taken for probabilities": (
        lambda: check_poisson_means(76),
        (Edit(finite, "_summed", "able.random_size", "False"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", only(QUICK_BUGS, BUGS))
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()
