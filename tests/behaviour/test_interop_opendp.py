"""Real OpenDP measurements: released, read back, compared with a release written by hand."""

import json
import math

import numpy as np
import pytest

import noiseaware as na
from behaviour.docs_blocks import run_blocks
from mutants.planting import Edit, planted

dp = pytest.importorskip("opendp.prelude", reason="the extra `opendp` is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read(*arguments, **options):
    return na.interop.opendp.release(*arguments, **options)


@pytest.fixture(autouse=True)
def _contrib():
    dp.enable_features("contrib")


def space(kind=int, size=None, **domain):
    if kind is float:
        domain.setdefault("nan", False)
    return dp.vector_domain(dp.atom_domain(T=kind, **domain), size=size), dp.symmetric_distance()


def sized_sum(noise):
    return space(float, size=60) >> dp.t.then_clamp((0.0, 5.0)) >> dp.t.then_sum() >> noise


def histogram(noise=None, **arguments):
    counts = dp.t.then_count_by_categories(categories=["a", "b"], **arguments)
    return space(str) >> counts >> (noise or dp.m.then_laplace(2.0))


def same(read_release, written):
    """The two releases say the same, up to the last bit."""
    assert read_release.to_dict() == written.to_dict()


def test_a_count_of_integers_is_discrete_and_its_scale_is_read():
    query = na.queries.Count(value=1)
    measurement = space() >> dp.t.then_count(TO="i64") >> dp.m.then_laplace(3.0)
    value = measurement([1] * 20)
    for form in (measurement, dp.serialize(measurement)):
        release = read(form, value, n_records=50, query=query)
        mechanism = na.mechanisms.DiscreteLaplace(query, scale=3.0, neighbours="add-remove")
        same(release, na.Release([value], mechanism, 50))
    assert release.mechanism.guarantee.epsilon == pytest.approx(measurement.map(1))


def test_an_unsigned_count_is_clamped_at_zero():
    query = na.queries.Count(value=1)
    measurement = space() >> dp.t.then_count(TO="u32") >> dp.m.then_gaussian(3.0)
    values = [measurement([1]) for _ in range(200)]
    assert min(values) == 0
    release = read(measurement, 0, n_records=50, query=query)
    noise = na.mechanisms.DiscreteGaussian(query, scale=3.0, neighbours="add-remove")
    same(release, na.Release([0.0], na.mechanisms.Clamped(noise, lower=0.0), 50))
    # The atom at 0 holds all that would have been negative.
    k = np.arange(-60, 61)
    mass = np.exp(-(k**2) / 18.0)
    mass /= mass.sum()
    of_zero = [mass[k <= -total].sum() for total in (0, 4)]
    densities = [release.mechanism.log_density([0.0], [total]) for total in (0.0, 4.0)]
    assert densities[1] - densities[0] == pytest.approx(math.log(of_zero[1] / of_zero[0]))


def test_a_count_of_one_value_by_is_equal():
    measurement = (
        space()
        >> dp.t.then_is_equal(1)
        >> dp.t.then_cast_default(TOA=int)
        >> dp.t.then_clamp((0, 1))
        >> dp.t.then_sum()
        >> dp.m.then_laplace(2.0)
    )
    release = read(measurement, 7, n_records=50)
    mechanism = na.mechanisms.DiscreteLaplace(
        na.queries.Count(value=1), scale=2.0, neighbours="add-remove"
    )
    same(release, na.Release([7.0], mechanism, 50))
    assert release.mechanism.guarantee.epsilon == pytest.approx(measurement.map(1))


def test_a_sum_of_floats_of_known_size():
    measurement = sized_sum(dp.m.then_laplace(2.5))
    value = measurement([1.0, 2.0] * 30)
    release = read(dp.serialize(measurement), value)
    mechanism = na.mechanisms.Laplace(na.queries.Sum(0.0, 5.0), scale=2.5)
    same(release, na.Release([value], mechanism, 60))
    # Known size: the neighbours differ in one record, a symmetric distance of 2.
    assert release.mechanism.guarantee.epsilon == pytest.approx(measurement.map(2))


def test_a_sum_of_integers_with_bounds_in_the_domain():
    measurement = space(int, bounds=(0, 5)) >> dp.t.then_sum() >> dp.m.then_laplace(2.0)
    release = read(measurement, 30, n_records=10)
    query = na.queries.Sum(0, 5, integer_valued=True)
    mechanism = na.mechanisms.DiscreteLaplace(query, scale=2.0, neighbours="add-remove")
    same(release, na.Release([30.0], mechanism, 10))
    assert release.mechanism.guarantee.epsilon == pytest.approx(measurement.map(1))


def test_a_mean_is_read_as_the_sum():
    clamp = space(float, size=60) >> dp.t.then_clamp((0.0, 5.0))
    measurement = clamp >> dp.t.then_mean() >> dp.m.then_gaussian(0.25)
    value = measurement([1.0, 2.0] * 30)
    release = read(measurement, value)
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(0.0, 5.0), scale=60 * 0.25)
    same(release, na.Release([60 * value], mechanism, 60))
    assert release.mechanism.guarantee.rho == pytest.approx(measurement.map(2))


def test_a_histogram_over_categories():
    values = histogram()(["a", "a", "z"])
    release = read(histogram(), values, n_records=3)
    query = na.queries.Histogram(n_levels=3)
    mechanism = na.mechanisms.DiscreteLaplace(query, scale=2.0, neighbours="add-remove")
    same(release, na.Release(values, mechanism, 3))
    gaussian = histogram(dp.m.then_gaussian(2.0), MO="L2Distance<f64>")
    release = read(gaussian, [1, 2, 3], n_records=6)
    assert isinstance(release.mechanism, na.mechanisms.DiscreteGaussian)
    assert release.mechanism.guarantee.rho == pytest.approx(gaussian.map(1))


def test_records_in_no_category_are_not_counted():
    release = read(histogram(null_category=False), [4, 5], n_records=12)
    total = release.query.statistic(np.array([0, 0, 1, 2, 2])).sum(axis=0)
    assert total.tolist() == [2.0, 1.0]


def test_a_histogram_of_bins_agrees_with_opendp_on_the_edges():
    records = [0.0, 1.0, 1.5, 2.0, 3.0, 4.0]
    bins = space(float) >> dp.t.then_find_bin(edges=[1.0, 2.0, 3.0])
    for null in (False, True):
        counts = bins >> dp.t.then_count_by_categories([0, 1, 2, 3], null_category=null)
        exact = counts(records)
        release = read(counts >> dp.m.then_laplace(2.0), exact, n_records=6)
        total = release.query.statistic(np.array(records)).sum(axis=0)
        assert total.tolist() == exact[:4]
        assert release.values.tolist() == exact[:4]


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("kind", ["i32", "u32", "f64"])
def test_the_noise_of_opendp_has_the_density_that_is_read(family, kind):
    """Chi-square of OpenDP's own draws against the density of the mechanism that was read."""
    scipy_stats = pytest.importorskip("scipy.stats")
    scale, n, draws = 2.0, 3, 4000
    measurement = space() >> dp.t.then_count(TO=kind) >> getattr(dp.m, f"then_{family}")(scale)
    released = np.array([measurement([1] * n) for _ in range(draws)], dtype=float)
    mechanism = read(measurement, 1, n_records=n, query=na.queries.Count(1)).mechanism
    grid = np.arange(-12.0, 18.0) if kind == "i32" else np.arange(0.0, 18.0)
    if kind == "f64":
        law = scipy_stats.laplace if family == "laplace" else scipy_stats.norm
        assert scipy_stats.kstest(released, law(loc=n, scale=scale).cdf).pvalue > 1e-5
        # The same law by the mechanism: ratios of its density.
        for value in (-1.0, 2.5, 8.0):
            ratio = mechanism.log_density([value], [float(n)]) - mechanism.log_density([3.0], [3.0])
            expected = law(loc=n, scale=scale).logpdf([value, 3.0])
            assert ratio == pytest.approx(expected[0] - expected[1])
        return
    # log_density leaves out a constant that may depend on the value but not on T; the sum over
    # values is 1 at every T, so compare at the atom through a reference without the clamp.
    noise = getattr(mechanism, "mechanism", mechanism)
    far = np.arange(-80.0, 81.0)
    mass = np.exp([noise.log_density([value], [float(n)]) for value in far])
    mass /= mass.sum()
    if kind == "u32":
        expected = np.append(mass[far <= 0].sum(), [mass[far == v][0] for v in grid[1:]])
    else:
        expected = np.array([mass[far == v][0] for v in grid])
    counts = np.array([np.sum(released == v) for v in grid])
    counts, expected = np.append(counts, draws - counts.sum()), np.append(expected, 0.0)
    expected[-1] = 1.0 - expected.sum()
    keep = draws * expected > 5
    counts = np.append(counts[keep], counts[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    assert scipy_stats.chisquare(counts, draws * expected).pvalue > 1e-5


@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_the_posterior_is_the_one_written_by_hand(kind):
    """Released, read back, inferred: the same draws as by a hand-written release, and the truth."""
    query = na.queries.Count(value=1)
    n, scale = 12, 1.5
    measurement = space() >> dp.t.then_count(TO=kind) >> dp.m.then_laplace(scale)
    value = measurement([1] * 2)
    release = read(measurement, value, n_records=n, query=query)
    noise = na.mechanisms.DiscreteLaplace(query, scale=scale, neighbours="add-remove")
    if kind == "u32":
        noise = na.mechanisms.Clamped(noise, lower=0.0)
    by_hand = na.Release([value], noise, n)
    options = {"draws": 2500, "warmup": 500, "chains": 2, "cores": 1, "random_seed": 1}
    drawn = [
        na.sample(na.models.Bernoulli(), r, progressbar=False, **options)["posterior"]
        for r in (release, by_hand)
    ]
    assert (drawn[0]["probability"] == drawn[1]["probability"]).all()
    # Exact: under the uniform prior T is uniform on 0..n, and p | T is Beta(1 + T, 1 + n - T).
    total = np.arange(n + 1.0)
    k = np.arange(-60, n + 61)
    mass = np.exp(-np.abs(k[:, None] - total) / scale)
    weight = mass[k <= 0].sum(axis=0) if kind == "u32" and value == 0 else mass[k == value][0]
    exact = ((1 + total) / (n + 2)) @ weight / weight.sum()
    assert float(drawn[0]["probability"].mean()) == pytest.approx(exact, abs=0.03)


def bad_cases():
    count = space() >> dp.t.then_count(TO="i32")
    laplace = dp.m.then_laplace(2.0)
    query = na.queries.Count(1)
    old = dp.serialize(count >> laplace).replace('"0.16.0"', '"0.13.0"')
    big = space(int, bounds=(0, 10**9)) >> dp.t.then_sum() >> laplace
    coarse = space(float, size=60, bounds=(0.0, 5.0)) >> dp.t.then_mean()
    noise_alone = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 2.0)
    quantile = space(int) >> dp.m.then_private_quantile(
        dp.max_divergence(), candidates=[1, 2], alpha=0.5, scale=1.0
    )
    clamped = space(float, size=60) >> dp.t.then_clamp((0.0, 5.0))
    scores = space(int) >> dp.t.then_quantile_score_candidates([1, 2], 0.5)
    chosen = scores >> dp.m.then_noisy_max(dp.max_divergence(), 1.0, negate=True)
    answered = dp.m.make_randomized_response_bool(0.75)
    return {
        "make_variance .squares about the mean": (
            (clamped >> dp.t.then_variance() >> laplace, 2.0),
            {},
        ),
        "number of different values is no sum": (
            (space(int) >> dp.t.then_count_distinct() >> laplace, 3, 9),
            {},
        ),
        "one candidate is chosen": ((chosen, 1, 9), {}),
        "mechanisms.RandomizedResponse": ((answered, True, 1), {}),
        "counts the records it is given": ((count >> laplace, 3, 9), {}),
        "query is needed": ((noise_alone, 3, 9), {}),
        "n_records must be the size": ((sized_sum(laplace), 3.0, 61), {}),
        "must not be given": ((sized_sum(laplace), 3.0), {"query": query}),
        "OpenDP 0.13.0": ((old, 3, 9), {"query": query}),
        "not the text": (("{nothing", 3, 9), {}),
        "more than the type i32": ((big, 3, 9), {}),
        "end of the type": ((count >> laplace, 2**31 - 1, 9), {"query": query}),
        "grid of width": ((coarse >> dp.m.then_laplace(2.0, k=0), 3.0), {}),
        "make_private_quantile": ((quantile, 1, 9), {"query": query}),
        "3 numbers": ((histogram(), [1, 2], 9), {}),
        "lists of 2": (
            (dp.c.make_composition([count >> laplace, count >> laplace]), [1, 2, 3], 9),
            {"query": [query, query]},
        ),
    }


def test_what_cannot_be_read_is_a_clear_error():
    for words, (arguments, options) in bad_cases().items():
        with pytest.raises(ValueError, match=words) as error:
            read(*arguments, **options)
        if words in ("make_private_quantile", "grid of width"):
            assert "by hand" in str(error.value)
    with pytest.raises(TypeError, match="measurement must be an OpenDP measurement"):
        read(3.0, 1.0)


def test_a_composition_is_one_joint_release():
    count = space() >> dp.t.then_count(TO="i32") >> dp.m.then_laplace(2.0)
    clamped = space() >> dp.t.then_clamp((0, 5)) >> dp.t.then_sum()
    total = clamped >> dp.m.then_gaussian(7.0)
    composed = dp.c.make_composition([dp.c.make_pureDP_to_zCDP(count), total])
    noise = {"neighbours": "add-remove"}
    everybody = na.mechanisms.DiscreteLaplace(na.queries.Count(value=None), scale=2.0, **noise)
    amount = na.queries.Sum(0, 5, integer_valued=True)
    parts = [everybody, na.mechanisms.DiscreteGaussian(amount, scale=7.0, **noise)]
    expected = na.Release([12, 30], na.mechanisms.Several(parts), None)
    for form in (composed, dp.serialize(composed)):
        same(read(form, [12, 30]), expected)
    ones = na.mechanisms.DiscreteLaplace(na.queries.Count(1), scale=2.0, **noise)
    known = na.Release([12, 30], na.mechanisms.Several([ones, parts[1]]), 20)
    same(read(composed, [12, 30], 20, [na.queries.Count(1), None]), known)


def test_without_a_size_the_number_of_records_is_unknown():
    count = space() >> dp.t.then_count(TO="i32") >> dp.m.then_laplace(2.0)
    everybody = na.mechanisms.DiscreteLaplace(
        na.queries.Count(value=None), scale=2.0, neighbours="add-remove"
    )
    same(read(count, 12), na.Release([12], everybody, None))
    assert read(count, 12, query=na.queries.Count(1)).n_records is None


def test_a_query_of_a_context():
    context = dp.Context.compositor(
        data=[1.0, 2.0] * 30,
        privacy_unit=dp.unit_of(contributions=2),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False), size=60),
    )
    question = context.query().clamp((0.0, 5.0)).sum().laplace()
    with pytest.raises(TypeError, match=r"got .*Query: give query.resolve\(\)"):
        read(question, 3.0)
    measurement = question.resolve()
    for form in (measurement, dp.serialize(measurement)):
        release = read(form, question.release() if form is measurement else 3.0)
        assert release.n_records == 60
        assert release.query == na.queries.Sum(0.0, 5.0)
        assert release.mechanism.scale == pytest.approx(question.param())
        assert release.mechanism.guarantee.epsilon == pytest.approx(1.0)


def test_noise_by_its_measure():
    total = space(int, bounds=(0, 5)) >> dp.t.then_sum()
    for measure, written in (
        (dp.max_divergence(), na.mechanisms.DiscreteLaplace),
        (dp.zero_concentrated_divergence(), na.mechanisms.DiscreteGaussian),
    ):
        measurement = total >> dp.m.then_noise(measure, 2.0)
        for form in (measurement, dp.serialize(measurement)):
            assert type(read(form, 30, n_records=10).mechanism) is written


def test_noise_alone_with_the_users_query():
    noise = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 2.0)
    query = na.queries.Count(1)
    release = read(json.loads(json.dumps(dp.serialize(noise))), 3, n_records=9, query=query)
    same(release, na.Release([3.0], na.mechanisms.DiscreteLaplace(query, scale=2.0), 9))


def test_a_change_of_the_accounting_changes_nothing():
    counted = space() >> dp.t.then_count(TO="i32") >> dp.m.then_gaussian(2.0)
    arguments = {"n_records": 9, "query": na.queries.Count(1)}
    same(read(dp.c.make_zCDP_to_approxDP(counted), 3, **arguments), read(counted, 3, **arguments))


BUGS = {
    "an unsigned count is not clamped": (
        "_mechanism",
        "return mechanisms.Clamped(mechanism, lower=0.0)",
        "return mechanism",
        test_an_unsigned_count_is_clamped_at_zero,
    ),
    "integers have continuous noise": (
        "_mechanism",
        '"Discrete" if whole else ""',
        '""',
        test_a_count_of_integers_is_discrete_and_its_scale_is_read,
    ),
    "the scale of a mean is not the sum's": (
        "_mechanism",
        "scale=asked.factor * scale",
        "scale=scale",
        test_a_mean_is_read_as_the_sum,
    ),
    "a known size is forgotten in the neighbours": (
        "_input",
        '"add-remove" if data.size is None else "change"',
        '"add-remove"',
        test_a_sum_of_floats_of_known_size,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    *edit, check = BUGS[bug]
    with planted(Edit(na.interop.opendp, *edit)), pytest.raises(AssertionError):
        check()


def test_the_blocks_of_the_docs_run():
    run_blocks("opendp")
