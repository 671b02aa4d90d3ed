"""The numbers of the mechanisms: densities, noise and guarantees, against independent ones.

Every statistical test here has a false-alarm rate of 1e-6, a fixed seed (change it with the
environment variable NOISEAWARE_TEST_SEED) and planted bugs that it is shown to catch.
"""

import functools
import itertools
import math
import os

import numpy as np
import pytest
from scipy import integrate, stats

from noiseaware import mechanisms, queries
from noiseaware.mechanisms.additive import discrete_laplace
from noiseaware.mechanisms.guarantee import gaussian_delta, zcdp_delta
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE, SeparableDensity, formula, log_g

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220601"))
FALSE_ALARM = 1e-6
DRAWS = 100_000

Laplace = mechanisms.Laplace
Gaussian = mechanisms.Gaussian
DiscreteLaplace = mechanisms.DiscreteLaplace
DiscreteGaussian = mechanisms.DiscreteGaussian


class Totals:
    """A query that releases the sum of its (n, d) records, with the sensitivities it is told."""

    integer_valued = True

    def __init__(self, d=1, l1=1.0, l2=1.0):
        self.names = tuple(f"total {j}" for j in range(d))
        self.sensitivities = {1: l1, 2: l2}

    def statistic(self, records):
        return np.asarray(records, dtype=float)

    def sensitivity(self, norm=1, neighbours="change"):
        return self.sensitivities[norm]

    def check_records(self, records):
        pass


WIDE = Totals(DRAWS)


class Cells(Totals):
    """Counts of the cells 0, 1, 2: to change a record moves two counts, to add one moves one."""

    def __init__(self):
        super().__init__(3)

    def statistic(self, records):
        return np.eye(3)[np.asarray(records, dtype=int)]

    def sensitivity(self, norm=1, neighbours="change"):
        return (2.0 if neighbours == "change" else 1.0) ** (1.0 / norm)


# ------------------------------------------------------------------ log density and kernels


def log_reference(mechanism, values, total):
    """The normalised log density, by scipy where it has the law and by summation where not."""
    error = values - total
    scale = mechanism.scale
    if isinstance(mechanism, Laplace):
        return stats.laplace.logpdf(error, scale=scale).sum()
    if isinstance(mechanism, Gaussian):
        return stats.norm.logpdf(error, scale=scale).sum()
    if isinstance(mechanism, DiscreteLaplace):
        return stats.dlaplace.logpmf(error, 1.0 / scale).sum()
    integers = np.arange(-1000, 1001)
    normaliser = np.exp(-(integers**2) / (2 * scale**2)).sum()
    return (-(error**2) / (2 * scale**2) - math.log(normaliser)).sum()


@pytest.mark.parametrize("scale", [0.3, 1.0, 17.5])
@pytest.mark.parametrize("kind", [Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian])
def test_log_density_is_the_kernel_and_the_reference(kind, scale):
    rng = np.random.default_rng([SEED, 1])
    mechanism = kind(Totals(6), scale=scale)
    values = rng.integers(-20, 20, 6).astype(float)
    totals = rng.integers(-20, 20, (5, 6)).astype(float)
    if not kind.discrete:
        values, totals = values + 0.123, totals + rng.random((5, 6))
    terms = mechanism.terms(values)
    ours = np.array([mechanism.log_density(values, total) for total in totals])
    reference = np.array([log_reference(mechanism, values, total) for total in totals])
    # Equal up to a constant that is free of T: differences between totals are equal.
    np.testing.assert_allclose(ours - ours[0], reference - reference[0], rtol=1e-11, atol=1e-11)
    for total, expected in zip(totals, ours, strict=True):
        assert log_g(terms, total) == expected
        assert log_g.py_func(terms, total) == pytest.approx(expected, rel=1e-14)
        by_term = sum(
            formula.py_func(family, *row, t) for family, row, t in zip(*terms, total, strict=True)
        )
        assert by_term == pytest.approx(expected, rel=1e-14)


def test_families_can_be_mixed():
    terms = SeparableDensity(
        np.array([LAPLACE, GAUSSIAN]), np.array([[3.0, 0.5, 9.0, 9.0], [1.0, 2.0, 9.0, 9.0]])
    )
    assert log_g(terms, np.array([5.0, 2.0])) == -1.0 - 2.0


def test_an_unknown_family_is_not_silent():
    assert math.isnan(formula(99, 0.0, 1.0, 0.0, 0.0, 0.0))
    extended = SeparableDensity(np.array([10]), np.array([[0.0, 1.0, 0.0, 5.0]]))
    assert math.isnan(log_g(extended, np.zeros(1)))  # a code for which the class is wrong


# ------------------------------------------------------------------ privatize agrees with g


def simulated_noise(kind, scale, stream):
    """DRAWS draws of the noise, by one release of a query with DRAWS coordinates."""
    mechanism = kind(WIDE, scale=scale)
    release = mechanism.privatize(np.full((2, DRAWS), 4.0), np.random.default_rng([SEED, stream]))
    return release.values - 8.0


@functools.cache
def density(kind, scale):
    """Where the noise can be, and its density there up to a factor, from log_density.

    As a function of T with the released value held still, so that a factor that depends on the
    released value, which log_density may leave out, does not matter.
    """
    mechanism = kind(Totals(), scale=scale)
    if kind.discrete:
        reach = math.ceil(40.0 * scale)
        noise = np.arange(-reach, reach + 1)
    else:
        noise = np.linspace(-40.0, 40.0, 4001) * scale
    return noise, np.exp([mechanism.log_density([0.0], [-error]) for error in noise])


def ks_p_value(draws, grid, density):
    """Kolmogorov-Smirnov against the integral of the density."""
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    return stats.kstest(draws, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue


def chi_square_p_value(draws, integers, density):
    """Chi-square against the density at the integers; the two tails are pooled."""
    reach = integers[-1]
    if np.any(draws != np.rint(draws)) or np.abs(draws).max() > reach:
        return 0.0
    expected = density / density.sum() * len(draws)
    observed = np.bincount((draws + reach).astype(int), minlength=len(integers))
    # The outermost cells on each side have to be expected 10 times together.
    enough = reach - int(np.flatnonzero(np.cumsum(expected) >= 10.0)[0])
    cells = np.clip(integers, -enough, enough) + enough
    observed, expected = (np.bincount(cells, weights=counts) for counts in (observed, expected))
    return stats.chisquare(observed, expected).pvalue


def agreement(kind, scale, draws):
    """The p-value of draws from `kind`, or from a mutant of it, against its log_density."""
    test = chi_square_p_value if kind.discrete else ks_p_value
    return test(draws, *density(kind, scale))


CASES = [
    (Laplace, 1.0),
    (Laplace, 250.0),
    (Gaussian, 1.0),
    (Gaussian, 0.01),
    (DiscreteLaplace, 0.4),
    (DiscreteLaplace, 1.0),
    (DiscreteLaplace, 12.5),
    (DiscreteGaussian, 0.4),
    (DiscreteGaussian, 1.0),
    (DiscreteGaussian, 2.7),
    (DiscreteGaussian, 15.0),
]
NAMES = [f"{kind.__name__}-{scale}" for kind, scale in CASES]


@pytest.mark.parametrize(("kind", "scale"), CASES, ids=NAMES)
def test_privatize_agrees_with_log_density(kind, scale):
    draws = simulated_noise(kind, scale, stream=2)
    assert agreement(kind, scale, draws) > FALSE_ALARM


def correlation_p_value(draws):
    """Whether neighbouring coordinates are correlated: r sqrt(n) is N(0, 1) if they are not."""
    first, second = draws[::2], draws[1::2]
    return 2.0 * stats.norm.sf(abs(np.corrcoef(first, second)[0, 1]) * math.sqrt(len(first)))


@pytest.mark.parametrize(("kind", "scale"), CASES, ids=NAMES)
def test_coordinates_get_noise_of_their_own(kind, scale):
    assert correlation_p_value(simulated_noise(kind, scale, stream=3)) > FALSE_ALARM


EACH = {0.4: 0.1, 1.0: 0.5, 12.5: 0.4}
"""Scales, and the share of the coordinates that has each."""


@pytest.mark.parametrize("kind", [Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian])
def test_each_coordinate_has_noise_of_its_own_scale(kind):
    rng = np.random.default_rng([SEED, 4])
    scales = rng.permutation(np.repeat(list(EACH), [int(DRAWS * p) for p in EACH.values()]))
    mechanism = kind(WIDE, scale=scales)
    draws = mechanism.privatize(np.zeros((1, DRAWS)), rng).values
    for scale in EACH:
        assert agreement(kind, scale, draws[scales == scale]) > FALSE_ALARM / len(EACH)
    reference = sum(
        log_reference(kind(Totals((scales == scale).sum()), scale=scale), draws[scales == scale], 0)
        for scale in EACH
    )
    ours = mechanism.log_density(draws, np.zeros(DRAWS)) + mechanism.log_normaliser(draws)
    assert ours == pytest.approx(reference, rel=1e-11)


def test_a_scale_for_each_number_has_the_guarantee_of_the_weighted_query():
    table = np.array([[1.0, 0.0, 2.0], [1.0, 3.0, 0.0]])
    query, scales = queries.Linear(table), np.array([2.0, 5.0])
    differences = (table[:, :, None] - table[:, None, :]) / scales[:, None, None]
    epsilon = np.abs(differences).sum(axis=0).max()
    mu = math.sqrt((differences**2).sum(axis=0).max())
    assert Laplace(query, scale=scales).guarantee.epsilon == pytest.approx(epsilon, rel=1e-14)
    assert Gaussian(query, scale=scales).guarantee.mu == pytest.approx(mu, rel=1e-14)
    rho = DiscreteGaussian(query, scale=scales).guarantee.rho
    assert rho == pytest.approx(mu**2 / 2, rel=1e-14)
    # A query that does not know: its sensitivity over the smallest scale.
    assert Laplace(Totals(2, l1=3.0), scale=scales).guarantee.epsilon == pytest.approx(1.5)


def mutant(kind, noise):
    """The mechanism with another way of drawing its noise: a planted bug."""
    return type("Mutant", (kind,), {"_noise": lambda self, size, rng: noise(self, size, rng)})


def zero_counted_twice(self, size, rng):
    """A size and a sign, drawn apart: +0 and -0 are the same number."""
    size_of_noise = rng.geometric(-math.expm1(-1.0 / self.scale), size) - 1.0
    return size_of_noise * rng.choice([-1.0, 1.0], size)


def rejection_off_centre(self, size, rng):
    """The rejection step of the discrete Gaussian without its shift by scale^2 / t."""
    proposals = discrete_laplace(math.floor(self.scale) + 1.0, 8 * size, rng)
    keep = rng.random(8 * size) < np.exp(-(proposals**2) / (2 * self.scale**2))
    return proposals[keep][:size]


MUTANTS = {
    **{
        f"{kind.__name__}: scale {100 * factor - 100:+.0f}%": (
            kind,
            lambda self, size, rng, kind=kind, factor=factor: kind(
                self.query, scale=factor * self.scale
            )._noise(size, rng),
        )
        for kind in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)
        for factor in (0.9, 1.1)
    },
    "Laplace: Gaussian of the same variance": (
        Laplace,
        lambda self, size, rng: rng.normal(scale=math.sqrt(2) * self.scale, size=size),
    ),
    "Laplace: only positive": (
        Laplace,
        lambda self, size, rng: rng.exponential(self.scale, size),
    ),
    "Gaussian: scale taken for the variance": (
        Gaussian,
        lambda self, size, rng: rng.normal(scale=math.sqrt(self.scale), size=size),
    ),
    "Gaussian: a bias of 3% of the scale": (
        Gaussian,
        lambda self, size, rng: rng.normal(0.03 * self.scale, self.scale, size),
    ),
    "DiscreteLaplace: rounded Laplace": (
        DiscreteLaplace,
        lambda self, size, rng: np.rint(rng.laplace(scale=self.scale, size=size)),
    ),
    "DiscreteLaplace: zero counted twice": (DiscreteLaplace, zero_counted_twice),
    "DiscreteLaplace: not integers": (
        DiscreteLaplace,
        lambda self, size, rng: rng.laplace(scale=self.scale, size=size),
    ),
    "DiscreteGaussian: rounded Gaussian": (
        DiscreteGaussian,
        lambda self, size, rng: np.rint(rng.normal(scale=self.scale, size=size)),
    ),
    "DiscreteGaussian: rejection off centre": (DiscreteGaussian, rejection_off_centre),
}


class Passthrough:
    """Stands for Release, which would refuse some of the mutants' values outright."""

    def __init__(self, values, mechanism, n_records):
        self.values = values


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_in_the_noise_is_caught(name, monkeypatch):
    kind, noise = MUTANTS[name]
    monkeypatch.setattr("noiseaware.mechanisms.ready.Release", Passthrough)
    scale = 2.0 if "variance" in name else 1.3
    draws = simulated_noise(mutant(kind, noise), scale, stream=4)
    assert agreement(kind, scale, draws) < FALSE_ALARM


@pytest.mark.parametrize("kind", [Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian])
def test_a_draw_shared_by_two_coordinates_is_caught(kind):
    shared = mutant(kind, lambda self, n, rng: np.repeat(kind._noise(self, n // 2, rng), 2))
    assert correlation_p_value(simulated_noise(shared, 1.3, stream=5)) < FALSE_ALARM


# ------------------------------------------------------------------ pure guarantees


def neighbouring_totals(neighbours):
    """The totals of every pair of neighbouring databases of up to three records in three cells."""
    cells = Cells()

    def total(database):
        return cells.statistic(np.array(database, dtype=int)).sum(axis=0)

    for database in itertools.product(range(3), repeat=2):
        if neighbours == "change":
            for new in range(3):
                yield total(database), total((*database[:-1], new))
        else:
            yield total(database), total(database[:-1])


@pytest.mark.parametrize("neighbours", ["change", "add-remove"])
@pytest.mark.parametrize("setting", [{"epsilon": 0.7}, {"scale": 3.3}], ids=["epsilon", "scale"])
@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
def test_pure_epsilon_is_the_largest_log_ratio(kind, setting, neighbours):
    mechanism = kind(Cells(), neighbours=neighbours, **setting)
    outputs = list(itertools.product([-2.0, 0.0, 1.0, 2.0, 5.0], repeat=3))
    largest = max(
        abs(mechanism.log_density(values, one) - mechanism.log_density(values, other))
        for one, other in neighbouring_totals(neighbours)
        for values in outputs
    )
    assert largest == pytest.approx(mechanism.guarantee.pure_epsilon, rel=1e-12)


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
def test_change_epsilon_bounds_a_changed_record_under_add_remove(kind):
    mechanism = kind(Cells(), epsilon=0.7, neighbours="add-remove")
    largest = max(
        abs(mechanism.log_density(values, one) - mechanism.log_density(values, other))
        for one, other in neighbouring_totals("change")
        for values in itertools.product([-2.0, 0.0, 1.0, 2.0, 5.0], repeat=3)
    )
    assert largest == pytest.approx(mechanism.guarantee.change_epsilon, rel=1e-12)
    assert largest == pytest.approx(2 * 0.7, rel=1e-12)


# ------------------------------------------------------------------ (epsilon, delta), rho and mu


def hockey_stick(epsilon, mu):
    """The integral of max(0, p - e^epsilon q) for p = N(mu, 1) and q = N(0, 1).

    p > e^epsilon q above x_0 = epsilon/mu + mu/2, and e^epsilon q / p = exp(-mu (x - x_0)). The
    density at x_0, or the mode if that is above, is taken out so that quad sees numbers near 1.
    """
    start = epsilon / mu - mu / 2.0
    peak = max(start, 0.0)

    def integrand(s):
        return math.exp(0.5 * peak**2 - 0.5 * (start + s) ** 2) * -math.expm1(-mu * s)

    edges = [0.0, *(max(-start, 0.0) + np.array([0.05, 0.5, 2.0, 5.0, 40.0]))]
    area = sum(
        integrate.quad(integrand, low, high, epsabs=0.0, epsrel=1e-11, limit=200)[0]
        for low, high in itertools.pairwise(edges)
    )
    return area * math.exp(-0.5 * peak**2) / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize("delta", [1e-290, 1e-50, 1e-12, 1e-6, 0.01, 0.9])
@pytest.mark.parametrize("epsilon", [1e-8, 0.01, 0.1, 1.0, 10.0, 1000.0])
def test_gaussian_calibration_is_the_hockey_stick_divergence(epsilon, delta):
    mechanism = Gaussian(Totals(l2=3.0), epsilon=epsilon, delta=delta)
    mu = 3.0 / mechanism.scale
    assert hockey_stick(epsilon, mu) == pytest.approx(delta, rel=1e-9)
    assert mechanism.guarantee.delta_at(epsilon) == pytest.approx(delta, rel=1e-11)
    # On the safe side, and no further than rounding.
    assert gaussian_delta(epsilon, mechanism.guarantee.mu) <= delta
    assert mechanism.guarantee.kind == "approximate"
    assert mechanism.guarantee.rho == pytest.approx(mu**2 / 2)


@pytest.mark.parametrize("mu", [1e-9, 0.03, 0.4999999, 0.5, 0.5000001, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 2.0])
def test_delta_of_gaussian_noise_at_any_epsilon(epsilon, mu):
    # Below about 1e-300 the reference itself loses digits.
    expected = hockey_stick(epsilon, mu) if epsilon / mu < 35 else 0.0
    assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-9, abs=1e-260)


def test_analytic_calibration_needs_less_noise_than_the_classical_formula():
    classical = math.sqrt(2.0 * math.log(1.25 / 1e-6)) / 0.5
    assert Gaussian(Totals(), epsilon=0.5, delta=1e-6).scale < 0.95 * classical


def test_rho_and_mu_set_the_scale():
    query = Totals(l1=100.0, l2=3.0)
    for kind in (Gaussian, DiscreteGaussian):
        mechanism = kind(query, rho=0.125)
        assert mechanism.scale == pytest.approx(6.0, rel=1e-15)
        assert mechanism.guarantee.kind == "zCDP"
        assert mechanism.guarantee.rho == 0.125
    mechanism = Gaussian(query, mu=0.5)
    assert mechanism.scale == pytest.approx(6.0, rel=1e-15)
    assert mechanism.guarantee.kind == "GDP"
    assert (mechanism.guarantee.mu, mechanism.guarantee.rho) == (0.5, 0.125)


def test_a_bare_scale_gets_the_guarantee_that_it_gives():
    query = Totals(l1=4.0, l2=3.0)
    assert Laplace(query, scale=8.0).guarantee == mechanisms.Guarantee("pure", epsilon=0.5)
    assert DiscreteLaplace(query, scale=8.0).guarantee.pure_epsilon == 0.5
    gaussian = Gaussian(query, scale=6.0).guarantee
    assert gaussian == mechanisms.Guarantee("GDP", mu=0.5, rho=0.125)
    assert gaussian.pure_epsilon is None
    discrete = DiscreteGaussian(query, scale=6.0).guarantee
    assert discrete == mechanisms.Guarantee("zCDP", rho=0.125)
    assert discrete.mu is None


@pytest.mark.parametrize("order", [1.5, 2.0, 10.0])
@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
def test_rho_bounds_the_renyi_divergence(kind, order):
    """D_alpha(p || q) <= alpha rho for totals that are the sensitivity apart; equal if continuous.

    From log_density on a fine lattice: sums for discrete noise, Riemann sums for continuous.
    """
    mechanism = kind(Totals(l2=2.0), rho=0.4)
    step = 1.0 if kind.discrete else 0.02
    values = np.arange(-20.0, 45.0, step)

    def log_p(total):
        unnormalised = np.array([mechanism.log_density([0.0], [total - v]) for v in values])
        return unnormalised - np.logaddexp.reduce(unnormalised)

    divergence = np.logaddexp.reduce(order * log_p(2.0) + (1.0 - order) * log_p(0.0)) / (
        order - 1.0
    )
    assert divergence <= order * 0.4 * (1.0 + 1e-9)
    assert divergence == pytest.approx(order * 0.4, rel=1e-6 if kind is Gaussian else 0.1)


# ------------------------------------------------------------------ zCDP to (epsilon, delta)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 3.0])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_zcdp_delta_is_the_best_order(epsilon, rho):
    alpha = 1.0 + np.logspace(-8, 6, 200_001)
    log_delta = (
        (alpha - 1.0) * (alpha * rho - epsilon)
        + alpha * np.log1p(-1.0 / alpha)
        - np.log(alpha - 1.0)
    )
    expected = min(1.0, math.exp(log_delta.min()))
    assert zcdp_delta(epsilon, rho) == pytest.approx(expected, rel=1e-4, abs=1e-300)


def test_zcdp_delta_at_the_ends():
    assert zcdp_delta(1.0, 0.0) == 0.0
    assert zcdp_delta(1.0, 1e6) == 1.0
    assert zcdp_delta(1e6, 1e-12) == 0.0
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(1.0, 1e9) == 1.0


def true_discrete_delta(epsilon, scale):
    """The delta of discrete Gaussian noise when two coordinates move by 1 each, by summation.

    A coordinate's log ratio log p(e) - log p(e + 1) is (e + 1/2) / scale^2, and the two add.
    """
    reach = math.ceil(12.0 * scale)
    integers = np.arange(-reach, reach + 1)
    p = np.exp(-(integers**2) / (2.0 * scale**2))
    both = np.convolve(p, p) / p.sum() ** 2
    log_ratio = (np.arange(len(both)) - 2.0 * reach + 1.0) / scale**2
    return (both * np.maximum(0.0, -np.expm1(np.minimum(epsilon - log_ratio, 0.0)))).sum()


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_discrete_gaussian_calibration_keeps_its_promise(epsilon, delta):
    mechanism = DiscreteGaussian(Totals(2, l2=math.sqrt(2.0)), epsilon=epsilon, delta=delta)
    assert mechanism.guarantee.delta_at(epsilon) == pytest.approx(delta, rel=1e-9)
    assert true_discrete_delta(epsilon, mechanism.scale) <= delta
    # A planted bug: a sensitivity that misses one of the two coordinates breaks the promise.
    assert true_discrete_delta(epsilon, mechanism.scale / math.sqrt(2.0)) > delta


def test_calibration_beyond_floating_point_is_an_error():
    with pytest.raises(ValueError, match=r"no scale follows from the guarantee.*give scale"):
        DiscreteGaussian(Totals(), epsilon=1e-200, delta=1e-250)
    with pytest.raises(ValueError, match="no scale follows from the guarantee"):
        Laplace(Totals(), epsilon=5e-324)


# ------------------------------------------------------------------ Guarantee.delta_at


def test_delta_of_a_pure_guarantee_is_that_of_randomized_response():
    """Randomized response is the worst mechanism with its epsilon, so the bound is attained."""
    guarantee = mechanisms.Guarantee("pure", epsilon=2.0)
    truth = math.exp(2.0) / (1.0 + math.exp(2.0))
    for epsilon in (0.0, 0.5, 1.9):
        expected = truth - math.exp(epsilon) * (1.0 - truth)
        assert guarantee.delta_at(epsilon) == pytest.approx(expected, rel=1e-12)
    assert guarantee.delta_at(2.0) == guarantee.delta_at(800.0) == 0.0
    assert mechanisms.Guarantee("pure", epsilon=2000.0).delta_at(1.0) == 1.0


def test_delta_of_an_approximate_guarantee_alone():
    guarantee = mechanisms.Guarantee("approximate", epsilon=1.0, delta=0.1)
    assert guarantee.delta_at(1.0) == guarantee.delta_at(3.0) == 0.1
    # With probability 0.1 all is told; otherwise randomized response with epsilon 1.
    truth = math.exp(1.0) / (1.0 + math.exp(1.0))
    assert guarantee.delta_at(0.0) == pytest.approx(0.1 + 0.9 * (2.0 * truth - 1.0))


def test_delta_at_is_exact_for_mu_and_a_bound_for_rho():
    exact = mechanisms.Guarantee("GDP", mu=0.8, rho=0.32)
    bound = mechanisms.Guarantee("zCDP", rho=0.32)
    for epsilon in (0.1, 1.0, 3.0):
        assert exact.delta_at(epsilon) == pytest.approx(hockey_stick(epsilon, 0.8), rel=1e-9)
        assert exact.delta_at(epsilon) < bound.delta_at(epsilon)
