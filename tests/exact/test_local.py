"""Local mechanisms: the density of each record's value, against enumeration and closed forms.

False alarms: 1e-6 for each Geweke and SBC run (12 of them) and each comparison of draws with a
density (7), 1e-5 for each closed form (5, see `exact.known`): below 1e-4 for the file.

Geweke's test and SBC run in `make validate`; in `make test` the record updates are enumerated, and
two whole posteriors are compared with their closed forms.
"""

import json
import math

import numpy as np
import pytest
from examples.moves.full_conditional import FullConditional
from scipy import special, stats

import noiseaware as na
from exact.calibrated import check_geweke, check_sbc
from exact.enumeration import Problem, check_algorithm1, check_blocks, check_sweep
from exact.known import BetaMixture, Gauss, assert_draws_agree, sampled
from later import all_but, only
from mutants.planting import Edit, planted, same
from noiseaware.mechanisms import (
    LocalGaussian,
    LocalGeometric,
    LocalLaplace,
    RandomizedResponse,
    local,
    local_tables,
    terms,
)
from noiseaware.sampler import target as target_module
from noiseaware.sampler.moves import records as record_moves
from noiseaware.sampler.target import Target

FALSE_ALARM = 1e-6

# ------------------------------------------------------------------ enumeration

LEVELS, SHARES = np.arange(3), (0.2, 0.5, 0.3)
BITS, P = np.array([1, 0]), 0.3


def categorical(mechanism, values, log_h):
    return Problem(
        na.models.Categorical(3),
        na.Release(values, mechanism, len(values)),
        {"probabilities": np.array(SHARES)},
        LEVELS,
        SHARES,
        lambda i, x: (log_h(values[i], int(x)),),
        lambda total: total[0],
    )


def response(truth=0.6, values=(2, 0, 2)):
    """k = 3: the true level, or one of the two others."""

    def log_h(s, x):
        return math.log(truth if s == x else (1 - truth) / 2)

    return categorical(RandomizedResponse(3, truth=truth), list(values), log_h)


def rare_truth():
    """The true level is the rarest answer."""
    return response(truth=0.1, values=(1, 1, 0))


def geometric():
    query = na.queries.Sum(0, 2, integer_valued=True)
    return categorical(LocalGeometric(query, scale=0.8), [4, 1, -1], lambda s, x: -abs(s - x) / 0.8)


def bernoulli(mechanism, values, log_h):
    theta = {"probability": np.array(P)}
    return Problem(
        na.models.Bernoulli(),
        na.Release(values, mechanism, len(values)),
        theta,
        BITS,
        (P, 1 - P),
        lambda i, x: (log_h(values[i], float(x)),),
        lambda total: total[0],
    )


def laplace():
    values = [0.4, 1.7, -0.3, 0.9]
    mechanism = LocalLaplace(na.queries.Sum(0, 1), scale=0.7)
    return bernoulli(mechanism, values, lambda s, x: -abs(s - x) / 0.7)


def gaussian():
    values = [0.4, 1.7, -0.3, 0.9]
    mechanism = LocalGaussian(na.queries.Sum(0, 1), scale=0.6)
    return bernoulli(mechanism, values, lambda s, x: -((s - x) ** 2) / (2 * 0.6**2))


PROBLEMS = (response, rare_truth, geometric, laplace, gaussian)
ONE_OF_EACH = only((response, laplace), PROBLEMS)
"""In sweeps and blocks: values that are levels, and values that are noisy."""


@pytest.mark.parametrize("problem", PROBLEMS)
def test_record_updates_leave_the_posterior_invariant(problem):
    check_algorithm1(problem())


@pytest.mark.parametrize("problem", ONE_OF_EACH)
def test_the_sweep_is_the_product_of_the_record_updates(problem):
    check_sweep(problem())


@pytest.mark.parametrize("problem", ONE_OF_EACH)
def test_blocks_leave_the_posterior_invariant(problem):
    check_blocks(problem(), 2)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_compiled_loops_serve_it(problem):
    target = Target(problem().model, problem().release)
    assert target.terms is not None
    assert target.d == 1
    assert target.terms.family.tolist() == [terms.LINEAR]
    x = problem().values[[0] * target.n]
    total = target.total(x)
    assert target.log_g(total) == total[0]
    assert target.release.mechanism.log_density(target.values, total) == total[0]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_kernels_are_their_python(problem):
    problem = problem()
    mechanism, values = problem.release.mechanism, problem.release.values
    index = np.array([2, 0, 1])
    x = problem.values[[0, 1, 1]]
    compiled = mechanism.statistic(x, index, values)
    with planted(same(local, "noise_scores"), same(local_tables, "response_scores")):
        np.testing.assert_array_equal(mechanism.statistic(x, index, values), compiled)
    expected = [problem.t(i, value) for i, value in zip(index, x, strict=True)]
    np.testing.assert_allclose(compiled, expected, rtol=1e-13)


# ------------------------------------------------------------------ closed forms


def algorithm1():
    return na.moves.algorithm1()


def default():
    return None


def full_conditional():
    return (na.moves.ParameterUpdate(), FullConditional())


@pytest.mark.parametrize("moves", only([default], [algorithm1, default, full_conditional]))
def test_bernoulli_by_randomized_response_is_a_beta_mixture(moves):
    """Sum over j, l: of the m released ones j are true, of the n - m zeros l are false."""
    n, m, truth, a, b = 12, 9, 0.8, 2.0, 1.5
    j, k = (grid.ravel() for grid in np.mgrid[: m + 1, : n - m + 1])
    right = j + (n - m - k)
    log_weights = (
        np.log(special.comb(m, j) * special.comb(n - m, k))
        + right * math.log(truth)
        + (n - right) * math.log(1 - truth)
        + special.betaln(a + j + k, b + n - j - k)
    )
    exact = BetaMixture(np.exp(log_weights - log_weights.max()), a + j + k, b + n - j - k)
    release = na.Release([1] * m + [0] * (n - m), RandomizedResponse(2, truth=truth), n)
    tree = sampled(na.models.Bernoulli(a, b), release, moves(), stream=31)
    assert_draws_agree({"probability": exact}, lambda name: tree["posterior"][name].values)


@pytest.mark.parametrize("moves", only([algorithm1], [algorithm1, default]))
def test_normal_with_local_gaussian_noise_is_normal(moves):
    """Bounds too wide to matter: s_i ~ N(mean, variance + scale^2)."""
    values = np.array([3.1, 0.2, 1.4, 4.4, -0.5, 2.2])
    variance, scale, prior_mean, prior_sd = 1.2, 1.5, 1.0, 2.0
    model = na.models.Normal(variance=variance, mean_mean=prior_mean, mean_sd=prior_sd)
    mechanism = LocalGaussian(na.queries.Sum(-200, 200), scale=scale)
    each = 1 / (variance + scale**2)
    precision = prior_sd**-2 + len(values) * each
    exact = Gauss((prior_mean * prior_sd**-2 + values.sum() * each) / precision, 1 / precision)
    tree = sampled(model, na.Release(values, mechanism, len(values)), moves(), stream=32)
    assert_draws_agree({"mean": exact}, lambda name: tree["posterior"][name].values)


# ------------------------------------------------------------------ Geweke and SBC

SETTINGS = {
    "response": (na.models.Categorical(3), RandomizedResponse(3, epsilon=1.5)),
    "laplace": (na.models.Normal(mean_sd=2.0), LocalLaplace(na.queries.Sum(-3, 3), epsilon=3.0)),
    "gaussian": (na.models.Normal(mean_sd=2.0), LocalGaussian(na.queries.Sum(-3, 3), mu=2.0)),
    "geometric": (
        na.models.Bernoulli(2.0, 1.5),
        LocalGeometric(na.queries.Count(), epsilon=1.5),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("sampler", ["algorithm1", "default"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_geweke(setting, sampler, seed):
    check_geweke(*SETTINGS[setting], seed, sampler, rounds=6)


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
def test_sbc(setting, seed):
    check_sbc(*SETTINGS[setting], seed)


# ------------------------------------------------------------------ the noise

N = 100_000


def draw(mechanism, record, stream):
    """100,000 values that are released for one and the same record."""
    from exact.known import SEED

    rng = np.random.default_rng([SEED, 33, stream])
    return mechanism.privatize(np.full(N, record), rng).values


def densities(mechanism, record, values):
    """exp log h(s | x) of the package, up to a constant, at each of the values."""
    m = len(values)
    records = np.full(m, record)
    return np.exp(mechanism.statistic(records, np.arange(m), np.asarray(values, float))[:, 0])


def check_masses(mechanism, record, support, stream):
    """Chi-square, the ends of the support pooled with all that lies beyond."""
    values = draw(mechanism, record, stream)
    masses = densities(mechanism, record, support)
    beyond = densities(mechanism, record, np.arange(support[0] - 400.0, support[0]))
    above = densities(mechanism, record, np.arange(support[-1] + 1.0, support[-1] + 401))
    if isinstance(mechanism, LocalGeometric):
        masses[0] += beyond.sum()
        masses[-1] += above.sum()
    counts = [(values == s).sum() for s in support]
    counts[0] += (values < support[0]).sum()
    counts[-1] += (values > support[-1]).sum()
    expected = N * masses / masses.sum()
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("truth", "record"), [(0.5, 0), (0.05, 3), (0.9, 2)])
def test_responses_have_the_stated_probabilities(truth, record):
    mechanism = RandomizedResponse(4, truth=truth)
    masses = densities(mechanism, record, np.arange(4.0))
    assert masses.sum() == pytest.approx(1.0, abs=1e-14)
    assert masses[record] == pytest.approx(truth, rel=1e-14)
    check_masses(mechanism, record, np.arange(4.0), stream=1)


@pytest.mark.parametrize("record", [0, 7])
def test_geometric_values_have_the_stated_masses(record):
    query = na.queries.Sum(0, 5, integer_valued=True)
    check_masses(LocalGeometric(query, scale=1.7), record, np.arange(-3.0, 10.0), stream=2)


def check_continuous(mechanism, record, stream):
    """K-S against the integral of the package's density, the record clamped to [-2, 2]."""
    grid = np.linspace(-60.0, 60.0, 240_001)
    density = densities(mechanism, record, grid)
    steps = np.append(0.0, 0.5 * (density[1:] + density[:-1])).cumsum()
    values = draw(mechanism, record, stream)
    found = stats.kstest(values, lambda s: np.interp(s, grid, steps / steps[-1])).pvalue
    assert found > FALSE_ALARM


@pytest.mark.parametrize("kind", [LocalLaplace, LocalGaussian])
def test_noisy_records_have_the_stated_density(kind):
    check_continuous(kind(na.queries.Sum(-2, 2), scale=1.3), 5.0, stream=3)


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(4, epsilon=0.7),
        RandomizedResponse(3, truth=0.05),
        RandomizedResponse(2, truth=0.5),
        LocalLaplace(na.queries.Sum(-1, 3), epsilon=0.7),
        LocalGeometric(na.queries.Sum(0, 3, integer_valued=True), epsilon=0.7),
    ],
    ids=repr,
)
def test_epsilon_is_the_largest_log_ratio(mechanism):
    k = getattr(mechanism, "n_levels", 0)
    values = np.arange(k, dtype=float) if k else np.arange(-30.0, 31.0)
    x = np.arange(k) if k else np.arange(-1, 4)
    if isinstance(mechanism, LocalLaplace):
        x = x.astype(float)
    logs = np.log([densities(mechanism, record, values) for record in x])
    largest = (logs.max(axis=0) - logs.min(axis=0)).max()
    assert largest == pytest.approx(mechanism.guarantee.epsilon, rel=1e-12, abs=1e-14)


def test_gaussian_guarantee_is_that_of_one_record():
    mechanism = LocalGaussian(na.queries.Sum(-1, 3), scale=2.0)
    assert mechanism.guarantee.mu == pytest.approx(2.0)
    by_mu = LocalGaussian(na.queries.Sum(-1, 3), mu=0.5)
    assert by_mu.scale == pytest.approx(8.0)


# ------------------------------------------------------------------ files and bad input


@pytest.mark.parametrize(
    ("mechanism", "records"),
    [
        (RandomizedResponse(3, epsilon=1.0), np.array([0, 1, 2])),
        (RandomizedResponse(3, truth=0.25), np.array([0, 1, 2])),
        (LocalLaplace(na.queries.Sum(-1, 3), epsilon=0.7), np.array([0.5])),
        (LocalGaussian(na.queries.Sum(-1, 3), epsilon=0.7, delta=1e-5), np.array([0.5, 9.0])),
        (LocalGeometric(na.queries.Count(), scale=2.0), np.array([1, 0, 0])),
    ],
    ids=repr,
)
def test_a_file_gives_the_release_back(mechanism, records, tmp_path):
    release = mechanism.privatize(records, np.random.default_rng(1))
    release.to_json(tmp_path / "release.json")
    again = na.Release.from_json(tmp_path / "release.json")
    np.testing.assert_array_equal(again.values, release.values)
    assert repr(again.mechanism) == repr(mechanism)
    assert again.mechanism.guarantee == mechanism.guarantee
    assert again.names == tuple(f"record {i}" for i in range(len(records)))
    assert isinstance(json.loads((tmp_path / "release.json").read_text())["values"], list)


def read(**changes):
    return na.mechanisms.from_dict({**RandomizedResponse(3, truth=0.5).to_dict(), **changes})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomizedResponse(1, epsilon=1.0), "n_levels must be"),
        (lambda: RandomizedResponse(3), "give exactly one of epsilon and truth"),
        (lambda: RandomizedResponse(3, epsilon=1.0, truth=0.5), "exactly one of"),
        (lambda: RandomizedResponse(3, epsilon=-1.0), "epsilon must be a positive number; got -1"),
        (lambda: RandomizedResponse(3, epsilon=80.0), "epsilon must be small enough"),
        (lambda: RandomizedResponse(3, truth=1.0), "truth must be strictly between 0 and 1"),
        (
            lambda: na.Release([0, 3, 1], RandomizedResponse(3, epsilon=1.0), 3),
            "values must be from 0 to 2, one of the 3 levels; got 3 for record 1",
        ),
        (
            lambda: na.Release([0, -1], RandomizedResponse(3, epsilon=1.0), 2),
            "got -1 for record 1",
        ),
        (
            lambda: na.Release([0, 0.5], RandomizedResponse(3, epsilon=1.0), 2),
            "values must be integers under RandomizedResponse; got 0.5 for record 1",
        ),
        (
            lambda: na.Release([0, 1], RandomizedResponse(3, epsilon=1.0), 3),
            "values must be one for each of the n_records = 3 records",
        ),
        (
            lambda: na.Release([[0.0]], LocalLaplace(na.queries.Sum(0, 1), scale=1.0), 1),
            "one number for each record",
        ),
        (
            lambda: na.Release([0.1, np.inf], LocalLaplace(na.queries.Sum(0, 1), scale=1.0), 2),
            "values must be finite, or NaN .*; got inf for record 1",
        ),
        (
            lambda: LocalLaplace(na.queries.Histogram(n_levels=3), scale=1.0),
            "query must have one coordinate for LocalLaplace",
        ),
        (
            lambda: LocalGeometric(na.queries.Sum(0, 1), scale=1.0),
            "query must be integer-valued for LocalGeometric",
        ),
        (lambda: read(truth=1.5), "truth must be strictly between"),
        (lambda: read(neighbours="add-remove"), "neighbours must be 'change'"),
        (lambda: read(scale=2.0), "may have .* got 'scale'"),
        (
            lambda: na.mechanisms.from_dict({"type": "RandomizedResponse", "n_levels": 3}),
            "give exactly one of epsilon and truth; got none",
        ),
        (lambda: read(guarantee={"kind": "pure", "epsilon": 0.1}), "guarantee states"),
        (
            lambda: RandomizedResponse(3, epsilon=1.0).privatize([0, 5], np.random.default_rng(1)),
            "records must be from 0 to 2; got 5 in record 1",
        ),
        (
            lambda: na.sample(
                na.models.Categorical(4), na.Release([0, 1], RandomizedResponse(3, epsilon=1.0), 2)
            ),
            "the query has 3 levels, the model 4",
        ),
    ],
)
def test_bad_input_is_a_clear_error(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_values_of_records_are_a_list_in_a_file():
    content = na.Release([0, 1], RandomizedResponse(3, epsilon=1.0), 2).to_dict()
    content["values"] = {"record 0": 0, "record 1": 1}
    with pytest.raises(ValueError, match='"values" must be a list under RandomizedResponse'):
        na.Release.from_dict(content)


def test_values_must_be_numbers():
    with pytest.raises(TypeError, match="values must be numbers"):
        na.Release(["0", "1"], RandomizedResponse(3, epsilon=1.0), 2)


# ------------------------------------------------------------------ planted bugs


def enumeration_of(problem):
    return lambda: check_algorithm1(problem())


def geweke_of(setting):
    return lambda: check_geweke(*SETTINGS[setting], 1, "algorithm1", rounds=6)


def masses_of_responses():
    check_masses(RandomizedResponse(4, truth=0.5), 1, np.arange(4.0), stream=1)


def density_of_laplace_noise():
    check_continuous(LocalLaplace(na.queries.Sum(-2, 2), scale=1.3), 5.0, stream=3)


EXCHANGED = Edit(
    local_tables, "response_scores", "[records[i], level]", "[(records[i] + 1) % 3, level]"
)
BUGS = {
    "every record compared with the first value": (
        enumeration_of(laplace),
        Edit(local.LocalNoise, "statistic", "values[index], index",
             "values[0 * index], index"),
    ),
    "values looked up by place in the chunk": (
        enumeration_of(response),
        Edit(local_tables, "response_scores", "values[index[i]]", "values[i]"),
    ),
    "the scale for its inverse": (
        enumeration_of(gaussian),
        Edit(local.LocalNoise, "_rows", "self._each(self", "1.0 / self._each(self"),
    ),
    "truth and lie exchanged": (
        enumeration_of(response),
        EXCHANGED,
    ),
    "all other levels as likely as one of them": (
        enumeration_of(response),
        Edit(RandomizedResponse, "__init__", "- math.log(others)", "- 0.0"),
    ),
    "the sign of the total": (
        enumeration_of(geometric),
        Edit(terms, "plain_formula", "return total * p1", "return -total * p1"),
        *(same(terms, name) for name in ("formula", "add_terms")),
        *(same(target_module, name) for name in ("log_g", "log_density")),
        *(same(record_moves, name) for name in ("log_density", "add_terms", "accept_dense")),
    ),
    "a lie may be the truth": (
        masses_of_responses,
        Edit(RandomizedResponse, "_draw", "self.matrix[", "(0.5 * self.matrix + 0.125)["),
    ),
    "one draw of noise for all records": (
        density_of_laplace_noise,
        Edit(local.LocalNoise, "_draw", "self.scale, len(records), rng)", "self.scale, 1, rng)"),
    ),
    "noise on the record before it is clamped": (
        density_of_laplace_noise,
        Edit(local.LocalNoise, "_draw",
             "self.query.statistic(records)[:, 0] + noise",
             "self.query.statistic(records + noise)[:, 0]"),
    ),
    "truth and lie exchanged, seen by Geweke": (
        geweke_of("response"),
        EXCHANGED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", all_but(["truth and lie exchanged, seen by Geweke"], BUGS))
def test_the_bug_is_caught(bug):
    check, *edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_plain_python_without_the_bug_passes(bug):
    check, *edits = BUGS[bug]
    with planted(*(same(edit.owner, edit.function) for edit in edits)):
        check()
