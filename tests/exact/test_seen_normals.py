"""Normal records seen through noise: integrals by quadrature, draws against their densities.

And elliptical slice sampling: exact draws go through it. False alarms: 1e-6 for each comparison of
draws with a distribution, of which there are 28.
"""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import noiseaware as na
from exact.known import SEED
from later import all_but
from mutants.planting import Edit, planted
from noiseaware.maths import seen_normals as module
from noiseaware.maths.seen_normals import SeenNormals
from noiseaware.mechanisms import LocalExact, LocalGaussian, LocalLaplace
from noiseaware.models import errors_in_variables
from noiseaware.models.errors_in_variables import ErrorsInVariables
from noiseaware.sampler.moves import conditional

NUMBER = na.queries.Value(integer_valued=False)
MANY = 40_000
RNG = np.random.default_rng(SEED)
S, SCALES = np.array([1.2, -0.8, 2.5, 0.3, -1.9]), np.array([0.6, 1.4, 0.9, 2.0, 0.01])


def laplace(x, s, scale):
    return np.exp(-np.abs(x - s) / scale) / (2.0 * scale)


def withheld(x, scale, law):
    return law.cdf((0.0 - x) / scale)


LAWS = {
    "laplace": (LocalLaplace(NUMBER, scale=SCALES), S, laplace),
    "gaussian": (LocalGaussian(NUMBER, scale=SCALES), S, stats.norm.pdf),
    "withheld": (
        LocalGaussian(NUMBER, scale=SCALES, threshold=0.0),
        np.full(5, np.nan),
        lambda x, s, scale: withheld(x, scale, stats.norm),
    ),
    "nothing": (LocalLaplace(NUMBER, scale=SCALES), np.full(5, np.nan), lambda x, s, scale: 1.0),
}


def assert_uniform(p):
    """Fail if numbers are not uniform on (0, 1), with a false alarm of 1e-6."""
    assert stats.kstest(p, "uniform").pvalue > 1e-6


def fixed(mean, covariance, n):
    """A law that does not depend on theta."""
    return lambda theta: (np.tile(np.asarray(mean, dtype=float), (n, 1)), np.array(covariance))


# ------------------------------------------------------------------ integrals


def check_integral(law):
    """A record alone, in each of two laws: int N(x; m, v) h(s | x) dx, by quadrature."""
    mechanism, seen, h = LAWS[law]
    laws = [mechanism.record_laws(seen)]
    found, exact = [], []
    for mean, variance in ((0.4, 1.7), (-1.0, 0.2)):
        made = SeenNormals(fixed([mean], [[variance]], 5), np.zeros((5, 1)), laws, RNG)
        found.append(made.log_p({}))
        sd, total = math.sqrt(variance), 0.0
        for s, scale in zip(seen, SCALES, strict=True):
            near = 0.0 if np.isnan(s) else s
            points = sorted([mean, near, near - 5 * scale, near + 5 * scale])
            value = integrate.quad(
                lambda x, m, sd, s, b: stats.norm.pdf(x, m, sd) * h(x, s, b),
                -12.0, 12.0, (mean, sd, s, scale), points=points, limit=400, epsabs=0.0,
                epsrel=1e-11,
            )[0]  # fmt: skip
            total += math.log(value)
        exact.append(total)
    assert found[0] - found[1] == pytest.approx(exact[0] - exact[1], abs=1e-8)


@pytest.mark.parametrize("law", LAWS)
def test_an_entry_is_integrated_out(law):
    check_integral(law)


def test_laplace_noise_far_below_the_spread_keeps_its_digits():
    """The density of the sum is then the normal one: both differ by about (b / sd)^2."""
    laws = [LocalLaplace(NUMBER, scale=1e-9).record_laws(S)]
    found = [
        SeenNormals(fixed([mean], [[1.3]], 5), np.zeros((5, 1)), laws, RNG).log_p({})
        for mean in (0.3, 2.0)
    ]
    exact = [stats.norm.logpdf(S, mean, math.sqrt(1.3)).sum() for mean in (0.3, 2.0)]
    assert found[0] - found[1] == pytest.approx(exact[0] - exact[1], abs=1e-10)


def check_numbers():
    """Three entries, exact, with noise and not seen, against the normal distribution."""
    C = np.array([[2.0, 0.7, -0.4], [0.7, 1.1, 0.3], [-0.4, 0.3, 0.9]])
    noise = np.array([[0.0, 0.8, math.inf], [0.3, 0.0, 2.0], [math.inf] * 3])
    away = np.array([[0.5, -1.0, 9.0], [1.5, 0.2, -0.6], [1.0, 1.0, 1.0]])
    mean, variance = np.empty((3, 3)), np.empty((3, 3))
    found = module.given_numbers(C, noise, away, mean, variance)
    exact = 0.0
    for i in range(3):
        seen = np.isfinite(noise[i])
        M = C[np.ix_(seen, seen)] + np.diag(noise[i, seen])
        gain = C[:, seen] @ np.linalg.inv(M)
        exact -= 0.5 * (away[i, seen] @ np.linalg.solve(M, away[i, seen]) + np.linalg.slogdet(M)[1])
        np.testing.assert_allclose(mean[i], gain @ away[i, seen], atol=1e-12)
        np.testing.assert_allclose(variance[i], np.diag(C - gain @ C[seen]), atol=1e-12)
    assert found == pytest.approx(exact, abs=1e-12)


def test_the_normal_part():
    check_numbers()


# ------------------------------------------------------------------ draws


def check_entries(law):
    """Independent entries against their density."""
    mechanism, seen, h = LAWS[law]
    one = mechanism.record_laws(seen)
    laws = one._replace(
        family=np.repeat(one.family[1:2], MANY), parameters=np.tile(one.parameters[1], (MANY, 1))
    )
    rng = np.random.default_rng(SEED)
    made = SeenNormals(fixed([1.1], [[0.81]], MANY), np.zeros((MANY, 1)), [laws], rng)
    drawn = made.draw({}, rng)[:, 0]
    x = np.linspace(-7.0, 8.0, 150_001)
    cdf = np.cumsum(stats.norm.pdf(x, 1.1, 0.9) * h(x, seen[1], SCALES[1]))
    assert_uniform(np.interp(drawn, x, cdf / cdf[-1]))


@pytest.mark.parametrize("law", LAWS)
def test_entries_have_their_density(law):
    check_entries(law)


def check_variances():
    """A density proportional to d^(-1/2) exp(-e^2 / (2 d) - b^2 d / 2); for e = 0 a gamma one."""
    rng = np.random.default_rng(SEED)
    for e, b in ((0.7, 1.3), (-3.0, 0.5), (1e-3, 2.0)):
        drawn = module.draw_variance(np.full(MANY, b), np.full(MANY, e), rng)
        t = np.linspace(-30.0, 6.0, 360_001)  # log d
        cdf = np.cumsum(np.exp(0.5 * t - 0.5 * e * e * np.exp(-t) - 0.5 * b * b * np.exp(t)))
        assert_uniform(np.interp(np.log(drawn), t, cdf / cdf[-1]))
    drawn = module.draw_variance(np.full(MANY, 1.3), np.zeros(MANY), rng)
    assert_uniform(stats.gamma(0.5, scale=2.0 / 1.3**2).cdf(drawn))


def test_variances_of_laplace_noise():
    check_variances()


def check_intervals():
    rng = np.random.default_rng(SEED)
    ways = (module.draw_between, stats.norm), (module.draw_laplace_between, stats.laplace)
    for draw, law in ways:
        for low, high in ((-0.5, 1.5), (2.0, math.inf), (-math.inf, 0.4)):
            drawn = draw(np.full(MANY, low), np.full(MANY, high), rng)
            assert_uniform((law.cdf(drawn) - law.cdf(low)) / (law.cdf(high) - law.cdf(low)))
    far = module.draw_between(np.full(3, 50.0), np.full(3, 51.0), rng)
    assert ((far > 50.0) & (far < 50.3)).all()
    far = module.draw_laplace_between(np.full(3, -900.0), np.full(3, -800.0), rng)
    assert ((far > -840.0) & (far < -800.0)).all()


def test_noise_inside_an_interval():
    check_intervals()


def check_both():
    """Two entries under Gaussian noise: given both numbers they are normal, and correlated."""
    C, D, m = np.array([[2.0, 0.9], [0.9, 1.1]]), np.diag([1.5**2, 0.7**2]), np.array([0.3, -1.0])
    y = np.array([2.0, 0.5])
    laws = [
        LocalGaussian(NUMBER, scale=math.sqrt(d)).record_laws(np.full(MANY, s))
        for d, s in zip(np.diag(D), y, strict=True)
    ]
    rng = np.random.default_rng(SEED)
    made = SeenNormals(fixed(m, C, MANY), np.zeros((MANY, 2)), laws, rng)
    gain = C @ np.linalg.inv(C + D)
    root = np.linalg.cholesky(C - gain @ C)
    z = np.linalg.solve(root, (made.draw({}, rng) - m - gain @ (y - m)).T)
    for one in (*z, (z[0] + z[1]) / math.sqrt(2.0)):
        assert_uniform(stats.norm.cdf(one))


def test_two_noisy_entries_are_drawn_together():
    check_both()


def check_rounds():
    """Records and their release from the model: what is imputed and drawn in turn leaves both so.

    Each entry, where its number was published and where an interval of it was, and each product of
    two. Those before and those after are not independent, which makes false alarms rarer.
    """
    rng, root = np.random.default_rng(SEED), np.array([[1.2, 0, 0], [0.8, 0.9, 0], [-0.5, 0.4, 1]])
    m = np.array([0.3, 0.8, -0.5])
    first = m + rng.standard_normal((MANY, 3)) @ root.T
    mechanisms = (
        LocalLaplace(NUMBER, scale=0.7, clamp=(-1.0, 2.0)),
        LocalGaussian(NUMBER, scale=1.2, threshold=0.5),
        LocalLaplace(NUMBER, scale=1.0),
    )
    released = [made.privatize(x, rng).values for made, x in zip(mechanisms, first.T, strict=True)]
    laws = [made.record_laws(s) for made, s in zip(mechanisms, released, strict=True)]
    records = first
    for _ in range(5):
        records = SeenNormals(fixed(m, root @ root.T, MANY), records, laws, rng).draw({}, rng)
    for j, law in enumerate(laws):
        kinds = law.family + 10 * (law.parameters[:, 2] == np.inf)
        for kind in np.unique(kinds):
            pair = first[kinds == kind, j], records[kinds == kind, j]
            assert stats.ks_2samp(*pair).pvalue > 1e-6
        pair = (x[:, j] * x[:, j - 1] for x in (first, records))
        assert stats.ks_2samp(*pair).pvalue > 1e-6


def test_rounds_of_imputing_and_drawing():
    check_rounds()


def test_a_number_as_it_is_stays():
    rng = np.random.default_rng(SEED)
    laws = [
        LAWS["laplace"][0].record_laws(S),
        LocalExact(integer_valued=False).record_laws(S),
        None,
    ]
    law = fixed([0.0, 0.0, 0.0], np.eye(3) + 0.3, 5)
    drawn = SeenNormals(law, np.zeros((5, 3)), laws, rng).draw({}, rng)
    assert (drawn[:, 1] == S).all()
    assert np.isfinite(drawn).all()


# ------------------------------------------------------------------ theta


def check_elliptical():
    """Gamma(3) and a normal around it: exact draws stay so, around a mean that is off."""
    rng = np.random.default_rng(SEED)

    def log_density(v):  # of the logarithm of the first
        return 3.0 * v[0] - math.exp(v[0]) - 0.5 * (v[1] - v[0]) ** 2

    first = np.log(rng.standard_gamma(3.0, 20_000))
    draws = np.column_stack([first, first + rng.standard_normal(len(first))])
    mean, factor = np.array([0.0, 1.0]), np.array([[0.4, 0.0], [0.5, 0.8]])
    ended = np.array(
        [conditional.elliptical_draw(log_density, v, mean, factor, rng) for v in draws]
    )
    assert_uniform(stats.gamma(3.0).cdf(np.exp(ended[:, 0])))
    assert_uniform(stats.norm.cdf(ended[:, 1] - ended[:, 0]))
    assert (ended != draws).mean() > 0.99


def test_elliptical_slices_leave_the_density_invariant():
    check_elliptical()


KNOWN = [{}, {"noise_variance": 0.5}, {"feature_covariance": np.array([[1.3, 0.2], [0.2, 0.8]])}]


def check_jacobians():
    """Theta from its coordinates and back, and the Jacobian by differences."""
    rng = np.random.default_rng(SEED)
    for known in [*KNOWN, KNOWN[1] | KNOWN[2]]:
        model = ErrorsInVariables(2, {"z": [0.3, -1.0, 0.8]}, **known)
        maps, theta = model.coordinates, model.sample_prior(rng)
        v = maps.to_vector(theta)
        again, log_jacobian = maps.from_vector(v)
        assert set(again) == set(theta)
        for name, value in theta.items():
            np.testing.assert_allclose(again[name], value, rtol=1e-7, atol=1e-10)

        def natural(v, model=model):
            made = model.coordinates.from_vector(v)[0]
            parts = [np.asarray(made[p.name]) for p in model.parameters]
            return np.concatenate(
                [x[np.tril_indices(2)] if p.support == "covariance" else x.reshape(-1)
                 for p, x in zip(model.parameters, parts, strict=True)]
            )  # fmt: skip

        J = [(natural(v + e) - natural(v - e)) / 2e-6 for e in 1e-6 * np.eye(len(v))]
        assert log_jacobian == pytest.approx(np.linalg.slogdet(np.array(J))[1], abs=1e-5)


def test_coordinates_and_their_jacobian():
    check_jacobians()


# ------------------------------------------------------------------ planted bugs

BUGS = {
    "Laplace noise without the normal density": (
        lambda: check_integral("laplace"),
        Edit(module, "log_column", " - 0.5 * e * e", ""),
    ),
    "an interval without the spread of the record": (
        lambda: check_integral("withheld"),
        Edit(module, "log_column", "v += column.variance[i]", "v = column.variance[i]"),
    ),
    "numbers without their determinant": (
        check_numbers,
        Edit(module, "given_numbers", "math.log(root[a, a]) + ", ""),
    ),
    "one side of s only": (
        lambda: check_entries("laplace"),
        Edit(module, "draw_column", "above - below + 2.0 * shift * e", "above - below"),
    ),
    "the noisy number of an interval without the noise": (
        lambda: check_entries("withheld"),
        Edit(module, "draw_column", "np.sqrt((variance + d)[apart])", "np.sqrt(variance[apart])"),
    ),
    "the larger root always": (
        check_variances,
        Edit(module, "draw_variance", "* (first + A) < first", "* first < first"),
    ),
    "either side of 0 as likely": (
        check_intervals,
        Edit(module, "draw_laplace_between", "u[0] * share.sum(axis=0) >= share[0]", "u[0] > 0.5"),
    ),
    "a withheld number taken as the threshold": (
        check_rounds,
        Edit(module, "read_column", "Column(low, high,",
             "Column(np.where(np.isfinite(high), high, low), high,"),
    ),
    "variances that do not know the noise": (
        check_rounds,
        Edit(module, "impute", "(y - x)[mixed]", "y[mixed]"),
    ),
    "numbers of intervals that do not know the record": (
        check_rounds,
        Edit(module, "impute", "at + unit * draw(*ends, rng)", "unit * draw(*ends, rng)"),
    ),
    "simulated numbers without noise": (
        check_both,
        Edit(SeenNormals, "draw", "* normals[1]", "* 0.0"),
    ),
    "the learned distribution left in the density": (
        check_elliptical,
        Edit(conditional, "elliptical_draw", "@ z) - log_t", "@ z)"),
    ),
    "the scale not given where it is": (
        check_elliptical,
        Edit(conditional, "elliptical_draw", "(DOF + float(z @ z)) / rng", "DOF / rng"),
    ),
    "coordinates without their Jacobian": (
        check_jacobians,
        Edit(errors_in_variables.StraightCoordinates, "from_vector",
             "float(np.linalg.slogdet(sigma)[1])", "0.0"),
    ),
}  # fmt: skip

SLOW = ["the learned distribution left in the density", "the scale not given where it is"]


@pytest.mark.parametrize("bug", all_but(SLOW, BUGS))
def test_the_bug_is_caught(bug):
    check, edit = BUGS[bug]
    with planted(edit), pytest.raises(AssertionError):
        check()
