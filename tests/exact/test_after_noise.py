"""Clamped, thresholded, rounded and truncated releases, and several as one: exactness.

Three ways: the log density against sums and integrals in plain Python; pi P = pi on tiny
databases; Geweke's test with Algorithm 1 and with the default moves. `privatize` is compared with
the log density by chi-square on 100,000 draws. Statistical tests have a false-alarm rate of 1e-6
each (there are about 60: 6e-5 for a seed that is not the fixed one), and planted bugs show what
the checks catch. `make test` has Geweke's test of every step with the default moves and of one with
Algorithm 1, whose record updates are enumerated for every step and noise; `make validate` has the
others, and SBC.
"""

import itertools
import json
import math
import pickle

import numpy as np
import pytest
from scipy import integrate, stats

import noiseaware as na
from exact import after_noise as plain
from exact.calibrated import check_geweke, check_sbc
from exact.enumeration import check_algorithm1, check_sweep
from later import all_but, only
from mutants.planting import Edit, planted, same
from noiseaware import contract
from noiseaware.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    Rounded,
    Several,
    Thresholded,
    Truncated,
    after_noise,
    forced,
    from_dict,
    intervals,
    several,
    terms,
)
from noiseaware.mechanisms.after_noise import Step
from noiseaware.mechanisms.several import composed
from noiseaware.sampler.moves import records

FALSE_ALARM = 1e-6
DRAWS = 100_000
COUNT = na.queries.Count()
LEVELS = na.queries.Histogram(n_levels=3)

each_step = pytest.mark.parametrize("step", plain.EVERY_STEP)
each_noise = pytest.mark.parametrize("noise", plain.NOISES)


# ------------------------------------------------------------------ log density


def check_density(step, noise):
    """The log density is that of the plain side, up to a constant that is free of T."""
    mechanism = plain.make(step, noise, COUNT)
    totals = np.arange(-9.0, 13.0) + (0.0 if noise in plain.DISCRETE else 0.37)
    for value in plain.values_of(step, noise):
        ours = np.array([mechanism.log_density([value], [total]) for total in totals])
        theirs = np.log([plain.probability(step, noise, value, total) for total in totals])
        np.testing.assert_allclose(ours - ours[9], theirs - theirs[9], rtol=1e-9, atol=1e-9)


@each_step
@each_noise
def test_log_density_is_the_sum_over_what_gives_the_value(step, noise):
    check_density(step, noise)


@each_step
@each_noise
def test_compiled_code_is_its_own_reference(step, noise):
    mechanism = plain.make(step, noise, LEVELS)
    family, parameters = mechanism.terms(plain.values_of(step, noise))
    for total in ([0.0, 1.0, 2.0], [5.0, -3.0, 40.0]):
        by_python = [
            terms.formula.py_func(code, *row, t)
            for code, row, t in zip(family, parameters, total, strict=True)
        ]
        ours = mechanism.log_density(plain.values_of(step, noise), total)
        assert ours == pytest.approx(math.fsum(by_python), rel=1e-13)


BETWEEN = {
    "laplace": (
        intervals.log_laplace_between,
        lambda z: z - math.log(2.0) if z <= 0 else math.log1p(-0.5 * math.exp(-z)),
    ),
    "gaussian": (intervals.log_gaussian_between, stats.norm.logcdf),
}


@pytest.mark.parametrize("noise", BETWEEN)
@pytest.mark.parametrize("ends", [(-1.0, 2.0), (3.0, 3.5), (-math.inf, -6.0), (9.0, math.inf)])
def test_intervals_far_in_the_tails(noise, ends):
    """Against log survival functions, where the probability itself is no number any more."""
    ours, log_cdf = BETWEEN[noise]
    for total in (-1e4, -70.0, -20.0, 0.3, 20.0, 70.0, 1e4):
        low, high = (ends[0] - total) / 2.0, (ends[1] - total) / 2.0
        if low > 0:
            low, high = -high, -low
        log_low, log_high = log_cdf(low), log_cdf(high)
        expected = log_high + math.log(-math.expm1(log_low - log_high))
        assert ours(*ends, 0.5, total) == pytest.approx(expected, rel=1e-10)
    assert ours(-math.inf, math.inf, 0.5, 3.0) == 0.0


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("ends", [(-1, 2), (40, 45), (-math.inf, -6), (9, math.inf)])
def test_discrete_sums(ends, scale):
    k = np.arange(max(ends[0], -4000), min(ends[1], 4000) + 1)
    for total in (-20.0, 0.0, 1.0, 60.0):
        for ours, log_mass in (
            (intervals.log_discrete_laplace_between, -np.abs(k - total) / scale),
            (intervals.log_discrete_gaussian_between, -((k - total) ** 2) / (2 * scale**2)),
        ):
            expected = np.logaddexp.reduce(log_mass)
            found = ours(float(ends[0]), float(ends[1]), 1.0 / scale, total)
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("ends", [(-1.0, 2.0), (-math.inf, 0.0), (0.0, math.inf)])
@pytest.mark.parametrize("total", [-math.inf, math.inf, math.nan])
def test_no_total_is_infinitely_far(ends, total):
    """A total that is not a finite number has no density; summing from it would never end."""
    assert intervals.log_discrete_gaussian_between(*ends, 0.5, total) == -math.inf


# ------------------------------------------------------------------ enumeration


@each_step
@each_noise
def test_enumeration_of_cells(step, noise):
    check_algorithm1(plain.cells(step, noise))


@each_step
@each_noise
def test_enumeration_of_dense_statistics(step, noise):
    check_algorithm1(plain.dense(step, noise))


@pytest.mark.parametrize("step", ["thresholded", "truncated"])
def test_every_run_of_the_sweep(step):
    check_sweep(plain.dense(step, "gaussian"))


@pytest.mark.parametrize("problem", [plain.several_cells, plain.several_dense])
def test_enumeration_of_several(problem):
    check_algorithm1(problem())


def test_several_with_cells_are_cells_and_with_one_dense_part_dense():
    assert plain.several_cells().release.query.cells is not None
    assert plain.several_dense().release.query.cells is None
    moments = na.queries.RegressionMoments(1, -1.0, 1.0)
    both = Several([Laplace(moments, epsilon=1.0), Gaussian(moments, rho=1.0)])
    sample = np.random.default_rng(1).normal(size=(9, 2))
    np.testing.assert_allclose(both.query.total(sample), both.query.statistic(sample).sum(axis=0))


# ------------------------------------------------------------------ Geweke


NORMAL = na.models.Normal(mean_sd=2.0)
TRI = na.models.Categorical(3)
SUM = na.queries.Sum(-3.0, 3.0)
GEWEKE = {
    "clamped sum": (NORMAL, Clamped(Laplace(SUM, scale=3.0), -4.0, 9.0), 8),
    "thresholded sum": (NORMAL, Thresholded(Gaussian(SUM, scale=3.0), 2.0), 8),
    "rounded sum": (NORMAL, Rounded(Laplace(SUM, scale=1.0), 5.0), 8),
    "truncated sum": (NORMAL, Truncated(Gaussian(SUM, scale=4.0), -6.0, 6.0), 8),
    "clamped counts": (TRI, Clamped(DiscreteGaussian(LEVELS, scale=1.5), lower=0), 10),
    "thresholded counts": (TRI, Thresholded(DiscreteLaplace(LEVELS, scale=1.0), 3), 10),
    "rounded counts": (TRI, Rounded(DiscreteGaussian(LEVELS, scale=1.0), 4), 10),
    "truncated counts": (TRI, Truncated(DiscreteLaplace(LEVELS, scale=2.0), 1, 6), 10),
    "several counts": (
        TRI,
        Several([Thresholded(Laplace(LEVELS, scale=2.0), 3), DiscreteGaussian(LEVELS, scale=2.0)]),
        10,
    ),
    "several sums": (
        NORMAL,
        Several([Clamped(Gaussian(SUM, scale=4.0), lower=0.0), Laplace(SUM, scale=3.0)]),
        8,
    ),
}


@pytest.mark.parametrize(
    ("name", "moves"),
    only(
        [("thresholded sum", "algorithm1")],
        itertools.product(GEWEKE, ["default", "algorithm1"]),
    ),
)
def test_geweke(name, moves, seed):
    model, mechanism, n_records = GEWEKE[name]
    check_geweke(model, mechanism, seed, moves, n_records=n_records, replicates=250)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["clamped counts", "thresholded sum", "rounded sum", "truncated counts", "several sums"]
)
def test_sbc(name, seed):
    model, mechanism, n_records = GEWEKE[name]
    check_sbc(model, mechanism, seed, n_records=n_records)


class Unnormalised(Truncated):
    """A planted bug: the normaliser left out."""

    def terms(self, values):
        return self.mechanism.terms(values)


class Uncensored(Thresholded):
    """A planted bug: a withheld value says nothing."""

    def terms(self, values):
        family, parameters = super().terms(values)
        parameters[np.isnan(values), 2] = np.inf
        return terms.ExtendedDensity(family, parameters)


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        (TRI, Unnormalised(DiscreteLaplace(LEVELS, scale=2.0), 1, 6)),
        (na.models.Bernoulli(), Uncensored(DiscreteLaplace(COUNT, scale=0.5), 5)),
    ],
    ids=["truncated", "thresholded"],
)
def test_geweke_sees_what_is_left_out(model, mechanism, seed):
    result = na.geweke(
        model,
        mechanism,
        n_records=10,
        replicates=800,
        rounds=8,
        moves=na.moves.algorithm1(),
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
    assert not result, str(result)


# ------------------------------------------------------------------ privatize


class Wide:
    """A query with as many coordinates as there are draws, all with the same total."""

    names = tuple(f"draw {j}" for j in range(DRAWS))
    integer_valued = True

    def statistic(self, records):
        return np.repeat(np.asarray(records, dtype=float)[:, None], DRAWS, axis=1)

    def sensitivity(self, norm=1, neighbours="change"):
        return 1.0

    def check_records(self, records):
        pass


WIDE = Wide()


def expected_shares(step, noise, total, edges):
    """P(v withheld), P(v in a bin) or P(v) from log_density, with the noise's own constant."""
    mechanism = plain.make(step, noise, COUNT)
    if noise in plain.DISCRETE:
        shares = {}
        for v in [plain.WITHHELD, *map(float, range(-60, 61))]:
            try:
                shares[str(v)] = math.exp(mechanism.log_density([v], [total]))
            except ValueError:
                continue  # cannot be published
        whole = math.fsum(shares.values())
        return {v: share / whole for v, share in shares.items()}
    inverse = 1.0 / mechanism.scale
    constant = 0.5 * inverse if noise == "laplace" else inverse / math.sqrt(2.0 * math.pi)
    shares = {}
    for v in [plain.WITHHELD, *map(float, range(-60, 61))]:
        try:
            family, _ = mechanism.terms([v])
        except ValueError:
            continue
        if terms.BETWEEN <= family[0] < terms.TRUNCATED:
            shares[str(v)] = math.exp(mechanism.log_density([v], [total]))
    if step in ("clamped", "thresholded", "truncated"):
        for low, high in itertools.pairwise(edges):
            middle = 0.5 * (low + high)
            try:
                mechanism.check_values([middle])
            except ValueError:
                continue

            def curve(v):
                return constant * math.exp(mechanism.log_density([v], [total]))

            shares[f"{low} to {high}"] = integrate.quad(curve, low, high, epsrel=1e-9)[0]
    return shares


def shares_of(values, expected, edges):
    counts = dict.fromkeys(expected, 0)
    for v in values:
        name = str(float(v))
        if name not in counts:
            place = min(max(int(np.searchsorted(edges, v)) - 1, 0), len(edges) - 2)
            name = f"{edges[place]} to {edges[place + 1]}"
        counts[name] += 1
    return counts


def p_value(step, noise, total, seed):
    """Chi-square of 100,000 simulated values against the log density."""
    mechanism = plain.make(step, noise, WIDE)
    made = mechanism.privatize(np.array([total]), np.random.default_rng([seed, 7])).values
    # Whole and half numbers: the ends of the ranges are among them.
    edges = [-40.0, *np.arange(-4.0, 9.0, 0.5).tolist(), 40.0]
    if step in ("clamped", "truncated"):
        ends = (0.0, 4.0) if step == "clamped" else plain.TRUNCATED
        edges = [e for e in edges if ends[0] <= e <= ends[1]]
    elif step == "thresholded":
        edges = [e for e in edges if e >= 1.0]
    expected = expected_shares(step, noise, total, edges)
    assert math.fsum(expected.values()) == pytest.approx(1.0, abs=1e-6)
    counts = shares_of(made, expected, edges)
    wanted = np.array([DRAWS * share for share in expected.values()])
    seen = np.array([counts[name] for name in expected])
    rare = wanted < 10
    if rare.any():
        wanted = np.append(wanted[~rare], wanted[rare].sum())
        seen = np.append(seen[~rare], seen[rare].sum())
    used = wanted > 1
    return stats.chi2.sf((((seen - wanted) ** 2)[used] / wanted[used]).sum(), used.sum() - 1)


def check_privatize(step, noise, seed):
    assert p_value(step, noise, 2.0, seed) > FALSE_ALARM


# Every step with two noises, and every noise, in `make test`.
PAIRS = list(itertools.product(plain.NOISES, plain.EVERY_STEP))
TWO_OF_EACH = [
    (noise, step)
    for noise, step in PAIRS
    if (list(plain.NOISES).index(noise) + list(plain.EVERY_STEP).index(step)) % 2 == 0
]


@pytest.mark.parametrize(("noise", "step"), only(TWO_OF_EACH, PAIRS))
def test_privatize_agrees_with_the_log_density(step, noise, seed):
    check_privatize(step, noise, seed)


@each_noise
def test_truncated_far_from_the_total(noise):
    """By inversion, so a total far outside of the range is no endless loop."""
    mechanism = plain.make("truncated", noise, LEVELS)
    made = mechanism.privatize(np.full(2000, 2), np.random.default_rng(3)).values
    assert (made >= -1.0).all()
    assert (made <= 4.0).all()
    assert made[2] > 1.0
    if "gaussian" in noise:
        assert made[2] > 3.9


# ------------------------------------------------------------------ guarantees


def check_pure_bound(step):
    """No log ratio between neighbours exceeds the promised epsilon."""
    for noise in ("laplace", "discrete laplace"):
        mechanism = plain.make(step, noise, COUNT)
        ratios = [
            abs(mechanism.log_density([v], [t]) - mechanism.log_density([v], [t + 1.0]))
            for v in plain.values_of(step, noise)
            for t in np.arange(-8.0, 12.0)
        ]
        assert max(ratios) <= mechanism.guarantee.pure_epsilon * (1 + 1e-12)
        # Tight for post-processing; truncation comes close to twice the epsilon of the noise.
        assert max(ratios) > (0.55 if step == "truncated" else 0.999) * (
            mechanism.guarantee.pure_epsilon
        )


@each_step
def test_pure_guarantees(step):
    check_pure_bound(step)


def test_the_guarantee_after_a_step():
    laplace, gaussian = Laplace(COUNT, epsilon=0.5), Gaussian(COUNT, mu=0.5)
    assert Clamped(laplace, lower=0).guarantee is laplace.guarantee
    assert Rounded(Thresholded(gaussian, 3), 5).guarantee is gaussian.guarantee
    assert Truncated(laplace, 0, 9).guarantee == Guarantee("pure", epsilon=1.0)
    assert Truncated(gaussian, 0, 9).guarantee.kind == "unknown"
    assert "depends on the confidential total" in str(Truncated(gaussian, 0, 9).guarantee)


PURE, PURE2 = Guarantee("pure", epsilon=0.5), Guarantee("pure", epsilon=0.25)
GDP, ZCDP = Guarantee("GDP", mu=0.3, rho=0.045), Guarantee("zCDP", rho=0.02)
APPROXIMATE = Guarantee("approximate", epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([PURE, PURE2], Guarantee("pure", epsilon=0.75)),
        ([GDP, Guarantee("GDP", mu=0.4)], Guarantee("GDP", mu=0.5, rho=0.125)),
        ([ZCDP, ZCDP], Guarantee("zCDP", rho=0.04)),
        ([GDP, ZCDP], Guarantee("zCDP", rho=0.065)),
        ([PURE, ZCDP], Guarantee("zCDP", rho=0.145)),
        ([APPROXIMATE, PURE], Guarantee("approximate", epsilon=1.5, delta=1e-6)),
        ([PURE], PURE),
        (
            [Guarantee("pure", epsilon=0.5, neighbours="add-remove"), PURE2],
            Guarantee("pure", epsilon=1.25),
        ),
        (
            [Guarantee("zCDP", rho=0.01, neighbours="add-remove"), ZCDP],
            Guarantee("zCDP", rho=0.06),
        ),
        (
            [Guarantee("GDP", mu=0.15, neighbours="add-remove"), Guarantee("GDP", mu=0.4)],
            Guarantee("GDP", mu=0.5, rho=0.125),
        ),
        (
            [Guarantee("pure", epsilon=1.0, neighbours="add-remove")] * 2,
            Guarantee("pure", epsilon=2.0, neighbours="add-remove"),
        ),
    ],
)
def test_composition(parts, expected):
    made = composed(parts)
    assert (made.kind, made.neighbours) == (expected.kind, expected.neighbours)
    for name in ("epsilon", "delta", "rho", "mu"):
        assert getattr(made, name) == pytest.approx(getattr(expected, name))


def test_a_composition_that_is_not_known_says_so():
    for parts in ([APPROXIMATE, ZCDP], [PURE, Guarantee("unknown", reason="no bound")]):
        made = composed(parts)
        assert made.kind == "unknown"
        assert str(parts[0]) in made.reason


def test_pure_epsilons_add_up_to_the_largest_log_ratio():
    both = Several([Laplace(COUNT, epsilon=0.5), Clamped(Laplace(COUNT, scale=4.0), lower=0)])
    ratios = [
        abs(both.log_density(values, [t, t]) - both.log_density(values, [t + 1.0, t + 1.0]))
        for values in ([9.0, 9.0], [-9.0, 0.0], [3.0, 3.0])
        for t in range(8)
    ]
    assert max(ratios) == pytest.approx(0.75)
    assert both.guarantee.pure_epsilon == 0.75


def test_the_acceptance_bound_holds_in_a_run():
    mechanism = Truncated(DiscreteLaplace(LEVELS, scale=1.0), 1, 6)
    posterior = na.sample(
        TRI,
        na.Release([1, 6, 2], mechanism, 10),
        draws=200,
        warmup=50,
        chains=2,
        cores=1,
        random_seed=1,
        progressbar=False,
        moves=na.moves.algorithm1(),
    )
    lowest = float(posterior["sample_stats"]["lowest_log_acceptance"].min())
    assert -mechanism.guarantee.change_epsilon <= lowest < 0


# ------------------------------------------------------------------ protocol and bad input

ALL = {
    "clamped": (lambda: Clamped(DiscreteLaplace(LEVELS, epsilon=1.0), 0, 40), [0, 40, 3]),
    "one end": (lambda: Clamped(Laplace(LEVELS, epsilon=1.0), lower=0), [0, 40, 3]),
    "own ends": (lambda: Clamped(Laplace(LEVELS, epsilon=1.0), [0, 1, -np.inf], 9), [0, 1, -3]),
    "thresholded": (lambda: Thresholded(Gaussian(LEVELS, mu=1.0), 5), [6, np.nan, 7.5]),
    "rounded": (lambda: Rounded(DiscreteGaussian(LEVELS, rho=1.0), 10), [0, -10, 30]),
    "tenths": (lambda: Rounded(Laplace(LEVELS, scale=1.0), 0.1), [0.3, 0.1 * 7, 1e5 + 0.1]),
    "three": (
        lambda: Clamped(Thresholded(Rounded(Laplace(LEVELS, scale=2.0), 5), 3), upper=20),
        [5, np.nan, 20],
    ),
    "truncated": (lambda: Truncated(Laplace(LEVELS, scale=2.0), -1, 20), [5, 0.3, 20]),
    "several": (
        lambda: Several([Laplace(COUNT, scale=2.0), Thresholded(Laplace(COUNT, scale=1.0), 3)]),
        [5, np.nan],
    ),
}


@pytest.mark.parametrize("name", ALL)
def test_files_and_pickles(name, tmp_path):
    make, values = ALL[name]
    release = na.Release(values, make(), 12)
    assert not contract.missing(release.mechanism, contract.Mechanism)
    path = tmp_path / "release.json"
    release.to_json(path)
    text = path.read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    back = na.Release.from_json(path)
    np.testing.assert_array_equal(back.values, release.values)
    assert back.names == release.names
    assert back.mechanism.to_dict() == release.mechanism.to_dict()
    assert str(back.mechanism.guarantee) == str(release.mechanism.guarantee)
    total = np.arange(len(values)) + 1.0
    expected = release.mechanism.log_density(values, total)
    assert back.mechanism.log_density(back.values, total) == expected
    copied = pickle.loads(pickle.dumps(release.mechanism))
    assert copied.log_density(values, total) == expected
    json.dumps(release.to_dict(), allow_nan=False)
    assert type(release.mechanism).__name__ in repr(release)


NOISY, WHOLE = Laplace(COUNT, scale=1.0), DiscreteLaplace(COUNT, scale=1.0)
BAD = [
    (
        lambda: na.Release([np.nan], NOISY, 5),
        r"values must be finite; got nan for 'count of 1' \(a withheld value needs Thresholded\)",
    ),
    (lambda: na.Release([np.nan], Clamped(NOISY, 0), 5), "a withheld value needs Thresholded"),
    (
        lambda: na.Release([3.0], Thresholded(NOISY, 3), 5),
        r"values must be above the threshold 3 or withheld \(NaN\); got 3 for 'count of 1'",
    ),
    (
        lambda: na.Release([-1], Clamped(NOISY, lower=0), 5),
        r"values must be between 0 and inf \(clamped\); got -1 for 'count of 1'",
    ),
    (
        lambda: na.Release([11], Truncated(NOISY, 0, 10), 5),
        r"values must be between 0 and 10 \(truncated\); got 11",
    ),
    (
        lambda: na.Release([7], Rounded(NOISY, 5), 5),
        r"values must be multiples of 5 \(rounded\); got 7",
    ),
    (
        lambda: na.Release([2.5], Clamped(WHOLE, 0), 5),
        r"values must be between 0 and inf \(clamped\), and inside integers; got 2.5",
    ),
    (lambda: na.Release([np.inf], Thresholded(NOISY, 3), 5), "values must be finite; got inf"),
    (lambda: Clamped(NOISY, 5, 0), "lower must be at most upper; got 5 and 0"),
    (lambda: Clamped(NOISY, np.nan), "lower must not be NaN"),
    (lambda: Clamped(NOISY, "0"), "lower must be a number, or one for each value; got '0'"),
    (lambda: Clamped(NOISY, [0, 1]), r"lower must be one number or 1; got shape \(2,\)"),
    (lambda: Truncated(NOISY, 3, 3), "lower must be below upper; got 3 and 3"),
    (lambda: Truncated(WHOLE, 0.2, 0.8), "must have an integer between them"),
    (lambda: Thresholded(NOISY, np.inf), "threshold must be finite; got inf"),
    (lambda: Thresholded(Thresholded(NOISY, 1), 2), "must not be thresholded twice"),
    (lambda: Rounded(NOISY, 0), "step must be a positive number"),
    (lambda: Rounded(WHOLE, 2.5), "step must be an integer under discrete noise; got 2.5"),
    (
        lambda: Clamped(COUNT, 0),
        "mechanism must be Laplace, Gaussian, DiscreteLaplace or DiscreteGaussian for Clamped",
    ),
    (
        lambda: Clamped(Truncated(NOISY, 0, 9), 0),
        "or one of them clamped, thresholded or rounded; got Truncated",
    ),
    (
        lambda: Truncated(Clamped(NOISY, 0), 0, 9),
        "mechanism must be additive noise for Truncated.*got Clamped",
    ),
    (lambda: Several(NOISY), "mechanisms must be a list of mechanisms; got Laplace"),
    (lambda: Several([]), "at least one mechanism; got none"),
    (lambda: Several([COUNT]), "mechanisms only; got Count"),
    (
        lambda: Several([NOISY] * 2, ["a", "a"]),
        r"labels must be 2 different texts; got \['a', 'a'\]",
    ),
    (lambda: Several([NOISY], "a"), "labels must be a list of texts; got 'a'"),
    (
        lambda: na.Release([1.0], Several([NOISY] * 2), 5),
        "values must be 2 numbers, those of all 2 parts one after another; got 1",
    ),
    (
        lambda: na.Release([1.0, np.nan], Several([NOISY] * 2), 5),
        "part '2': values must be finite; got nan",
    ),
    (
        lambda: Several([NOISY] * 2).release([na.Release([1.0], NOISY, n) for n in (5, 6)]),
        "releases must be about the same records, so of the same n_records; got 5, 6",
    ),
    (
        lambda: from_dict(Clamped(NOISY, 0).to_dict() | {"colour": 1}),
        "Clamped may have type, mechanism, lower, upper; got 'colour'",
    ),
    (
        lambda: from_dict({"type": "Thresholded", "mechanism": NOISY.to_dict()}),
        "Thresholded must have threshold, mechanism; 'threshold' is missing",
    ),
    (lambda: from_dict({"type": "Clamped"}), "'mechanism' is missing"),
    (
        lambda: from_dict({"type": "Several", "mechanisms": NOISY.to_dict()}),
        "Several must have 'mechanisms', a list of mechanisms",
    ),
    (
        lambda: from_dict({"type": "Several"}),
        "Several must have mechanisms; 'mechanisms' is missing",
    ),
]


@pytest.mark.parametrize(("act", "message"), BAD)
def test_bad_input(act, message):
    with pytest.raises((ValueError, TypeError), match=message):
        act()


def test_total_of_the_right_shape():
    for mechanism in (Clamped(NOISY, 0), Several([NOISY])):
        with pytest.raises(ValueError, match=r"total must have shape \(1,\); got \(2,\)"):
            mechanism.log_density([1.0], [1.0, 2.0])


# ------------------------------------------------------------------ planted bugs

# Compiled callers have their callees built in, so these run as plain Python.
IN_PYTHON = (
    same(terms, "formula"),
    same(records, "term"),
    same(records, "shift"),
    same(records, "accept_cells"),
)
MUTANTS = {
    "clamped: the lower atom taken for a density": (
        lambda: check_algorithm1(plain.cells("clamped", "gaussian")),
        Edit(after_noise, "clamped_from", "np.where(low <= lower, -np.inf, low)", "low"),
    ),
    "clamped: the upper atom forgotten": (
        lambda: check_density("clamped", "discrete gaussian"),
        Edit(after_noise, "clamped_from", "np.where(high >= upper, np.inf, high)", "high"),
    ),
    "thresholded: withheld cells say nothing": (
        lambda: check_algorithm1(plain.cells("thresholded", "laplace")),
        Edit(after_noise, "thresholded_from", "threshold, high)", "np.inf, high)"),
    ),
    "thresholded: withheld taken for exactly the threshold": (
        lambda: check_algorithm1(plain.cells("thresholded", "discrete laplace")),
        Edit(after_noise, "thresholded_from", "-np.inf, above", "threshold, above"),
    ),
    "rounded: taken for what was measured": (
        lambda: check_algorithm1(plain.cells("rounded", "gaussian")),
        Edit(after_noise, "rounded_from", "(first - 0.5) * step, (last + 0.5)", "low, last"),
    ),
    "rounded: ties always down": (
        lambda: check_density("rounded", "discrete laplace"),
        Edit(after_noise, "rounded_from", "np.where(_odd(last), ", "np.where(True, "),
    ),
    "steps applied in the wrong order": (
        lambda: check_density("rounded, thresholded, clamped", "laplace"),
        Edit(Step, "_interval", "_pull(low, high, withheld)",
             "_pull(low, high, withheld) if self.can_withhold else (low, high)"),
    ),
    "truncated: the normaliser left out": (
        lambda: check_algorithm1(plain.cells("truncated", "gaussian")),
        Edit(terms, "after_noise_term", " - log_between(noise, p2, p3, p1, total)", ""),
        *IN_PYTHON,
    ),
    "truncated: clamped instead": (
        lambda: check_privatize("truncated", "laplace", 1),
        Edit(Truncated, "_draw",
             "np.array([draw_between(kind, *one) for one in zip(*each, strict=True)])",
             "np.clip(total + self.noise.draw(self.scale, len(total), rng), *self._ends())"),
    ),
    "truncated: the promise of the noise itself": (
        lambda: check_pure_bound("truncated"),
        Edit(forced, "_truncated_guarantee", "2.0 * inner", "1.0 * inner"),
    ),
    "privatize: withheld at a lower threshold": (
        lambda: check_privatize("thresholded", "laplace", 1),
        Edit(Thresholded, "_apply", "values > self.threshold, values,",
             "values + 0.05 > self.threshold, np.maximum(values, 1.001),"),
    ),
    "discrete noise integrated instead of summed": (
        lambda: check_density("clamped", "discrete laplace"),
        Edit(after_noise, "interval_terms", " + 2 * noise.discrete", ""),
    ),
    "several: the cells of the second part counted in the first": (
        lambda: check_algorithm1(plain.several_cells()),
        Edit(na.queries.StackedQuery, "_cells", "cells + start", "cells"),
    ),
    "several: only the first release used": (
        lambda: check_algorithm1(plain.several_dense()),
        Edit(several, "joined", "[part.parameters for part in parts]",
             "[part.parameters * [1, k == 0, 1, 1] for k, part in enumerate(parts)]"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    all_but(
        ["truncated: clamped instead", "privatize: withheld at a lower threshold"],
        MUTANTS,
    ),
)
def test_a_planted_bug_is_caught(name):
    check, *edits = MUTANTS[name]
    with planted(*edits), pytest.raises(AssertionError):
        check()


@pytest.mark.full
@pytest.mark.parametrize("name", MUTANTS)
def test_plain_python_without_the_bug_passes(name):
    check, *edits = MUTANTS[name]
    with planted(*(same(edit.owner, edit.function) for edit in edits)):
        check()
