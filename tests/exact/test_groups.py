"""Models of groups against answers that do not come from them.

* Kernels: the joint test of `test_conditionals`, with records of every group; a closed form; the
  density of log tau against numerical integration. Planted bugs are caught, one of each kind in
  `make test`; in `make validate` all of them, and the same copy of the source without a bug passes.
* Coordinates: round trips, and the Jacobian by numerical derivatives.
* The sampler: the posterior of two proportions, and of their difference, by summation.
* Releases of one group each: the joint density and the composed guarantee.

Tests that look at m p-values fail if one is below 1e-6 / m.
"""

import math
import os

import numpy as np
import pytest
from scipy import integrate, stats

import noiseaware as na
from exact.test_conditionals import assert_agrees, assert_caught, ks
from later import first_of_each, only
from mutate_models import mutated_models
from noiseaware import models
from noiseaware.models import group_means

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220605"))

CASES = {
    "two proportions": ("TwoProportions", {"sizes": [1, 2], "a": 0.6, "b": 1.4}),
    "two means": ("TwoMeans", {"sizes": [1, 2], "mean_sd": 3.0, "variance_shape": 1.5}),
    "equal variances": ("TwoMeans", {"sizes": [1, 2], "equal_variances": True}),
    "proportions": (
        "StratifiedProportions",
        {"sizes": [1, 3, 2], "location_mean": 0.5, "spread_scale": 1.5},
    ),
    "means": (
        "StratifiedMeans",
        {"sizes": [1, 3, 2], "location_mean": 0.5, "location_sd": 2.0, "spread_scale": 1.0},
    ),
}


def make(case, package=models):
    kind, arguments = CASES[case]
    return getattr(package, kind)(**arguments)


# ------------------------------------------------------------------ kernels


def prior_scores(model, theta):
    """Columns that are uniform on (0, 1) if the rows of theta are draws from the prior."""
    scores = []
    for name in {"variance", "variances"} & set(theta):
        scores.append(stats.gamma.sf(model.variance_scale / theta[name], model.variance_shape))
    kind = type(model).__name__
    if kind == "TwoProportions":
        scores.append(stats.beta.cdf(theta["proportions"], model.a, model.b))
    elif kind == "TwoMeans":
        scores.append(stats.norm.cdf(theta["means"], model.mean_mean, model.mean_sd))
    else:
        levels = theta.get("means")
        if levels is None:
            levels = np.log(theta["proportions"]) - np.log1p(-theta["proportions"])
        location, spread = theta["location"], theta["spread"]
        scores.append(stats.norm.cdf(location, model.location_mean, model.location_sd))
        scores.append(stats.halfnorm.cdf(spread, scale=model.spread_scale))
        z = (levels - location[:, None]) / spread[:, None]
        scores += [stats.norm.cdf(z), stats.chi2.cdf((z**2).sum(axis=1), z.shape[1])]
        scores.append(stats.norm.cdf(z.sum(axis=1) / math.sqrt(z.shape[1])))
    return np.concatenate([np.reshape(score, (len(score), -1)) for score in scores], axis=1)


def joint_p_values(model, rng, replicates, scans=1):
    """theta ~ prior, x ~ f, theta' by scans given x: theta' ~ prior, and u' are innovations."""
    thetas, innovations = [], []
    for _ in range(replicates):
        theta = model.sample_prior(rng)
        records = model.sample_records(theta, model.n_records, rng)
        for _ in range(scans):
            theta = model.update_parameters(theta, records, rng)
        thetas.append(theta)
        innovations.append(model.recover_innovations(theta, records, rng)[:, 0])
    u = np.array(innovations)
    if model.innovations.kind == "uniform":
        u = stats.norm.ppf(np.clip(u, 1e-16, None))
    scores = prior_scores(model, {k: np.array([t[k] for t in thetas]) for k in thetas[0]})
    p_values = [ks(column, stats.uniform.cdf) for column in scores.T]
    p_values += [ks(column, stats.norm.cdf) for column in u.T]
    start = 0
    for size in model.sizes:
        group = u[:, start : start + size]
        p_values.append(ks(group.sum(axis=1) / math.sqrt(size), stats.norm.cdf))
        p_values.append(ks((group**2).sum(axis=1), stats.chi2(size).cdf))
        start += size
    p_values.append(ks((u**2).sum(axis=1), stats.chi2(model.n_records).cdf))
    return p_values


@pytest.mark.parametrize("case", CASES)
def test_update_leaves_the_joint_distribution_invariant(case):
    rng = np.random.default_rng([SEED, 1, list(CASES).index(case)])
    assert_agrees(joint_p_values(make(case), rng, 4000))


@pytest.mark.parametrize("case", ["proportions", "means"])
def test_several_scans_leave_the_joint_distribution_invariant(case):
    rng = np.random.default_rng([SEED, 2])
    assert_agrees(joint_p_values(make(case), rng, 2000, scans=8))


MEANS, PROPORTIONS, SLICES = "group_means.py", "group_proportions.py", "slice_sampling.py"
WEIGHT = "            weight = {}\n            total += weight"
POINT = "        if log_density(point, *rest) > height{}:\n            return point"
BUGS = {  # case, file, what is there, what is planted
    "groups swapped": (
        "two proportions",
        PROPORTIONS,
        "self._draw(self.a + ones,",
        "self._draw(self.a + ones[::-1],",
    ),
    "means without their variances": (
        "two means",
        MEANS,
        "sizes[g] / variances[g]\n",
        "sizes[g]\n",
    ),
    "n left out of the shape": (
        "two means",
        MEANS,
        "self.variance_shape + 0.5 * sizes",
        "self.variance_shape",
    ),
    "one group's squares": (
        "equal variances",
        MEANS,
        "sizes = squares.sum(),",
        "sizes = squares[0],",
    ),
    "a collapsed weight without the noise": (
        "means",
        MEANS,
        WEIGHT.format("1.0 / (squared + variance / sizes[k])"),
        WEIGHT.format("1.0 / squared"),
    ),
    "no determinant": ("means", MEANS, "0.5 * (log_weights - math.log(total)", "0.5 * (0.0"),
    "no Jacobian of log tau": (
        "means",
        MEANS,
        "result = x - 0.5 * hyper[2]",
        "result = -0.5 * hyper[2]",
    ),
    "means around the old location": ("means", MEANS, "(location / squared +", "(mean / squared +"),
    "squares around nothing": (
        "means",
        MEANS,
        "(n_groups)\n    _sum_squares(records, means, squares)",
        "(n_groups)\n    _sum_squares(records, np.zeros(n_groups), squares)",
    ),
    "no prior of the levels": (
        "proportions",
        PROPORTIONS,
        "(x) - 0.5 * z * z",
        "(x) - 0.1 * z * z",
    ),
    "levels without the sizes": (
        "proportions",
        PROPORTIONS,
        "return data[0][g] * x - data[1][g] *",
        "return data[0][g] * x - data[1][0] *",
    ),
    "tau without its power": ("proportions", PROPORTIONS, "result -= x + 0.5 *", "result -= 0.5 *"),
    "location with the wrong precision": (
        "proportions",
        PROPORTIONS,
        "precision = hyper[1] + n_groups / spread**2",
        "precision = hyper[1] + 1.0 / spread**2",
    ),
    "levels not moved with the location": (
        "proportions",
        PROPORTIONS,
        "levels[g] = location + spread * deviations[g]",
        "levels[g] += 0.0",
    ),
    "a slice that forgets its height": (
        "proportions",
        SLICES,
        POINT.format(""),
        POINT.format(" - 1.0"),
    ),
}


@pytest.mark.parametrize("bug", first_of_each(lambda bug: BUGS[bug][0], BUGS))
def test_a_bug_in_a_scan_is_caught(bug):
    case, file, old, new = BUGS[bug]
    rng = np.random.default_rng([SEED, 3])
    with mutated_models(file, old, new) as mutant:
        assert_caught(joint_p_values(make(case, mutant), rng, 1500, scans=2))


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_the_copy_without_a_bug_passes(case):
    rng = np.random.default_rng([SEED, 3])
    with mutated_models() as control:
        assert_agrees(joint_p_values(make(case, control), rng, 400, scans=2))


def slice_p_values(package, rng, n_draws, width):
    """Exact draws of a logit, by the inverse of its CDF on a grid, through one slice step."""
    slices, log_level = package.slice_sampling, package.group_proportions._log_level
    grid = np.linspace(-6, 6, 20001)
    rest = 0, 0.5, 1.2, (np.array([3.0]), np.array([10.0]), np.ones(3))
    log_density = np.array([log_level(x, *rest) for x in grid])
    cdf = integrate.cumulative_trapezoid(np.exp(log_density), grid, initial=0)
    cdf /= cdf[-1]
    before = np.interp(rng.random(n_draws), cdf, grid)
    uniforms = rng.random((n_draws, slices.POOL))
    after = np.array(
        [
            slices.slice_step(log_level, x, rest, width, slices.of_array, u)
            for x, u in zip(before, uniforms, strict=True)
        ]
    )
    # Balance: (before, after) and (after, before) have one distribution.
    return [
        ks(after, lambda x: np.interp(x, grid, cdf)),
        stats.binomtest(int((after > before).sum()), n_draws).pvalue,
        stats.wilcoxon(after - before).pvalue,
    ]


WIDTHS = [0.1, 1.0, 8.0]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_slice_step_is_in_balance(width):
    assert_agrees(slice_p_values(models, np.random.default_rng([SEED, 6]), 20000, width))


SLICE_BUGS = [
    ("low = x - width * uniform(source, 1)", "low = x - 0.3 * width * uniform(source, 1)", 1.0),
    ("left = int(MOST_STEPS * uniform(source, 2))", "left = 9", 0.1),
    ("        if point < x:", "        if point > x:", 8.0),
    ("+ math.log1p(-uniform(source, 0))", "+ 2.0 * math.log1p(-uniform(source, 0))", 1.0),
]


@pytest.mark.parametrize(("old", "new", "width"), only(SLICE_BUGS[:1], SLICE_BUGS))
def test_a_bug_in_a_slice_step_is_caught(old, new, width):
    rng = np.random.default_rng([SEED, 6])
    with mutated_models(SLICES, old, new) as mutant:
        assert_caught(slice_p_values(mutant, rng, 6000, width))


def test_two_proportions_are_drawn_from_their_posterior():
    model = models.TwoProportions([3, 4], 2.0, 0.7)
    records = np.array([[0, 1], [0, 0], [0, 0], [1, 1], [1, 1], [1, 0], [1, 1]])
    rng = np.random.default_rng([SEED, 4])
    draws = np.array(
        [model.update_parameters({}, records, rng)["proportions"] for _ in range(10000)]
    )
    p_values = [ks(draws[:, 0], stats.beta(3.0, 2.7).cdf), ks(draws[:, 1], stats.beta(5, 1.7).cdf)]
    assert_agrees(p_values)


def test_density_of_the_spread_is_the_integral_over_everything_else():
    """With mu integrated numerically, and each group's mean analytically, by SciPy's normals."""
    totals, sizes = np.array([1.5, -2.0, 4.0, 0.0]), np.array([1.0, 3.0, 2.0, 0.0])
    hyper, variance = np.array([0.5, 2.0**-2, 1.5**-2]), 0.8
    seen = sizes > 0

    def expected(tau):
        sd = np.sqrt(tau**2 + variance / sizes[seen])

        def density(mu):
            return stats.norm.pdf(mu, 0.5, 2.0) * np.prod(
                stats.norm.pdf(totals[seen] / sizes[seen], mu, sd)
            )

        mass = integrate.quad(density, -20, 20, epsabs=0, epsrel=1e-11, points=[0.5])[0]
        return math.log(mass * tau * stats.halfnorm.pdf(tau, scale=1.5))

    def ours(tau):
        return group_means._log_spread(math.log(tau), variance, (totals, sizes, hyper))

    differences = [ours(tau) - expected(tau) for tau in (0.02, 0.3, 1.0, 2.5)]
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-8)


# ------------------------------------------------------------------ coordinates


@pytest.mark.parametrize("case", ["proportions", "means"])
def test_coordinates_go_both_ways_with_their_jacobian(case):
    model = make(case)
    coordinates = model.coordinates
    rng = np.random.default_rng([SEED, 5])
    for _ in range(5):
        theta = model.sample_prior(rng)
        v = coordinates.to_vector(theta)
        again, log_jacobian = coordinates.from_vector(v)
        assert list(again) == [p.name for p in model.parameters]
        for parameter in model.parameters:
            assert again[parameter.name].shape == parameter.shape
            np.testing.assert_allclose(again[parameter.name], theta[parameter.name], rtol=1e-9)

        def flat(vector):
            return np.concatenate(
                [np.ravel(value) for value in coordinates.from_vector(vector)[0].values()]
            )

        step = 1e-5
        columns = [
            (flat(v + step * unit) - flat(v - step * unit)) / (2 * step) for unit in np.eye(len(v))
        ]
        numerical = np.linalg.slogdet(np.array(columns))[1]
        assert log_jacobian == pytest.approx(numerical, abs=1e-5)


@pytest.mark.parametrize("groups", [2, 8, 12, 30])
@pytest.mark.parametrize("kind", [models.StratifiedMeans, models.StratifiedProportions])
def test_blocks_hold_every_coordinate_once(kind, groups):
    coordinates = kind([2] * groups).coordinates
    blocks = coordinates.blocks(12)
    assert sorted(np.concatenate(blocks)) == list(range(coordinates.size))
    assert max(map(len, blocks)) <= 12


def test_a_proportion_that_rounds_to_one_is_refused():
    coordinates = make("proportions").coordinates
    theta, log_jacobian = coordinates.from_vector(np.array([40.0, 0.0, 0.0, 0.0, 0.0]))
    assert log_jacobian == -math.inf
    assert (theta["proportions"] < 1).all()


# ------------------------------------------------------------------ groups and records


def test_records_are_in_the_group_of_their_index():
    model = models.TwoProportions([2, 3])
    theta = {"proportions": [0.5, 0.5]}
    rng = np.random.default_rng(1)
    assert model.sample_records(theta, 5, rng)[:, 0].tolist() == [0, 0, 1, 1, 1]
    assert model.sample_records(theta, 3, rng, index=[4, 0, 2])[:, 0].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="n must be at most the model's 5 records; got 6"):
        model.sample_records(theta, 6, rng)
    with pytest.raises(ValueError, match=r"index must have shape \(2,\), one per record"):
        model.sample_records(theta, 2, rng, index=[1])
    with pytest.raises(ValueError, match="index must be from 0 to 4; got 3 to 5"):
        model.sample_records(theta, 2, rng, index=[3, 5])


@pytest.mark.parametrize("case", ["two means", "means"])
def test_wrong_groups_of_normal_records_are_refused(case):
    model = make(case)
    theta = model.sample_prior(np.random.default_rng(1))
    for wrong in (-1.0, 3.0, 0.5):
        records = np.array([[0.0, 1.0], [wrong, 1.0]])
        for call in (
            lambda records=records: model.log_likelihood(theta, records),
            lambda records=records: model.recover_innovations(theta, records),
            lambda records=records: model.update_parameters(
                theta, records, np.random.default_rng(1)
            ),
            lambda records=records: model.check_records(records),
        ):
            with pytest.raises(ValueError, match=f"as the group; got {wrong} in record 1"):
                call()


# ------------------------------------------------------------------ scaling


def scaling_error(package):
    """How far the log ratio is from p, f and a numerical Jacobian, at some points."""
    model = package.StratifiedMeans([1, 3, 2, 2], location_mean=0.5, variance_shape=2.5)
    rng = np.random.default_rng([SEED, 7])
    worst = 0.0
    for amount in (-0.7, 0.4, 1.1):
        theta = model.sample_prior(rng)
        # The last group has no records here: it has no mean either.
        groups = np.array([0, 1, 1, 1, 2, 2])
        records = model.sample_records(theta, 6, rng)
        assert np.array_equal(records[:, 0], groups)

        def image(point, theta=theta, amount=amount, groups=groups):
            here = {**theta, "means": point[6:-1], "variance": point[-1]}
            new, moved, log_ratio = model.scale_records(
                here, np.column_stack([groups, point[:6]]), amount
            )
            return np.concatenate([moved[:, 1], new["means"], [new["variance"]]]), log_ratio

        point = np.concatenate([records[:, 1], theta["means"], [theta["variance"]]])
        moved, log_ratio = image(point)
        step = 1e-6
        jacobian = [
            (image(point + step * unit)[0] - image(point - step * unit)[0]) / (2 * step)
            for unit in np.eye(len(point))
        ]

        def log_joint(point, theta=theta, groups=groups):
            here = {**theta, "means": point[6:-1], "variance": point[-1]}
            x = np.column_stack([groups, point[:6]])
            return model.log_prior(here) + model.log_likelihood(here, x).sum()

        expected = log_joint(moved) - log_joint(point) + np.linalg.slogdet(jacobian)[1]
        worst = max(worst, abs(log_ratio - expected))
        back, again = image(moved, amount=-amount)
        worst = max(worst, abs(again + log_ratio), np.abs(back - point).max())
    return worst


def test_the_ratio_of_a_scaling_is_that_of_the_densities_and_the_jacobian():
    assert scaling_error(models) < 1e-6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("log_ratio + amount + new_fit - fit", "log_ratio + new_fit - fit"),
        ("log_ratio + amount + new_fit - fit", "log_ratio + amount"),
        ("new_sds / sds * (means - centres)", "(means - centres)"),
        ("new_centres + new_sds", "centres + new_sds"),
        ("math.exp(0.5 * amount), scaled", "math.exp(amount), scaled"),
        (" - log_inverse_gamma(before, *prior)\n", "\n"),
    ],
)
def test_a_bug_in_the_scaling_is_caught(old, new):
    with mutated_models(MEANS, old, new) as mutant:
        assert scaling_error(mutant) > 1e-3


def test_scaling_keeps_the_groups_and_their_sums():
    model = make("means")
    rng = np.random.default_rng([SEED, 8])
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 6, rng)
    before = records.copy()
    new, moved, _ = model.scale_records(theta, records, 0.8)
    assert np.array_equal(records, before)
    assert np.array_equal(moved[:, 0], records[:, 0])
    for g in range(3):
        mine = records[:, 0] == g
        assert moved[mine, 1].sum() == pytest.approx(records[mine, 1].sum())
    assert new["variance"] == pytest.approx(theta["variance"] * math.exp(0.8))
    assert list(new) == list(theta)


@pytest.mark.full
def test_scaling_passes_geweke():
    """Records that hit the clamp, so that g has a part in it."""
    moves = (na.moves.ParameterUpdate(), na.moves.ScaleMove(steps=2), na.moves.RecordSweep())
    query = na.queries.ByGroup(na.queries.Sum(-1.0, 1.0), 2)
    result = na.geweke(
        models.StratifiedMeans([2, 3], location_sd=1.0, spread_scale=1.0),
        na.mechanisms.Laplace(query, epsilon=4.0),
        n_records=5,
        replicates=400,
        rounds=6,
        moves=moves,
        random_seed=SEED,
        false_alarm=1e-6,
    )
    assert result, str(result)


# ------------------------------------------------------------------ the sampler


def exact_proportions(model, release, scale, grid):
    """p(p_g | s_dp) of both groups on a grid, by summing over the counts of ones."""
    densities = []
    for g, size in enumerate(model.sizes):
        ones = np.arange(size + 1)
        weights = stats.betabinom.pmf(ones, size, model.a, model.b)
        weights = weights * np.exp(-np.abs(release.values[g] - ones) / scale[g])
        betas = stats.beta.pdf(grid[:, None], model.a + ones, model.b + size - ones)
        density = betas @ weights
        densities.append(density / density.sum())
    return densities


@pytest.mark.parametrize("apart", [False, True], ids=["one release", "one release per group"])
def test_posterior_of_two_proportions(apart):
    """Means and second moments, of the proportions and of their difference, to 5 MC errors.

    Five numbers at 5 standard errors: an exact sampler fails with probability below 5e-6 / 2 if
    the errors are normal; the seeds are fixed.
    """
    from arviz_stats import ess

    model = models.TwoProportions([12, 7], 1.5, 1.0)
    count = na.queries.Count()
    if apart:
        mechanism = na.mechanisms.Several(
            [
                na.mechanisms.Laplace(na.queries.InGroup(count, g), epsilon=e)
                for g, e in ((0, 0.5), (1, 2.0))
            ]
        )
        scale = [2.0, 0.5]
    else:
        mechanism = na.mechanisms.Laplace(na.queries.ByGroup(count, 2), epsilon=1.0)
        scale = [1.0, 1.0]
    release = na.Release([9.3, 1.8], mechanism, n_records=19)
    posterior = na.sample(
        model, release, draws=400, warmup=400, random_seed=SEED, progressbar=False
    )
    grid = (np.arange(4000) + 0.5) / 4000
    first, second = exact_proportions(model, release, scale, grid)
    expected = {
        "first": (first @ grid, first @ grid**2),
        "second": (second @ grid, second @ grid**2),
        "difference": (
            second @ grid - first @ grid,
            second @ grid**2 + first @ grid**2 - 2 * (first @ grid) * (second @ grid),
        ),
    }
    drawn = posterior["posterior"]
    values = {
        "first": drawn["proportions"].values[..., 0],
        "second": drawn["proportions"].values[..., 1],
        "difference": drawn["difference"].values,
    }
    for name, moments in expected.items():
        for power, right in enumerate(moments, start=1):
            x = values[name] ** power
            error = x.std() / math.sqrt(float(ess(x, method="mean")))
            assert abs(x.mean() - right) < 5 * error, (name, power)


def test_releases_of_one_group_each_are_composed_in_parallel(tmp_path):
    inner = na.queries.Sum(0, 2)
    laplace = [
        na.mechanisms.Laplace(na.queries.InGroup(inner, g), epsilon=e)
        for g, e in ((0, 0.5), (1, 2.0))
    ]
    both = na.mechanisms.Several(laplace, labels=["a", "b"])
    assert both.guarantee.pure_epsilon == 2.0
    # A second question to group 0 adds up with the first; a question to all adds up with both.
    more = na.mechanisms.Laplace(na.queries.InGroup(inner, 0), epsilon=1.75)
    assert na.mechanisms.Several([*laplace, more]).guarantee.pure_epsilon == 2.25
    everyone = na.mechanisms.Laplace(na.queries.ByGroup(inner, 2), epsilon=0.25)
    assert na.mechanisms.Several([*laplace, everyone]).guarantee.pure_epsilon == 2.25
    # Two questions to one group are not parallel.
    assert na.mechanisms.Several([laplace[0], more]).guarantee.pure_epsilon == 2.25
    gauss = [
        na.mechanisms.Gaussian(na.queries.InGroup(inner, g), mu=mu) for g, mu in ((0, 0.5), (1, 1))
    ]
    assert na.mechanisms.Several(gauss).guarantee.mu == pytest.approx(1.0)
    mixed = na.mechanisms.Several([laplace[0], gauss[1]]).guarantee
    assert mixed.rho == pytest.approx(max(0.5 * 0.5**2, 0.5 * 1.0**2))
    records = np.array([[0, 1.5], [1, 0.5], [1, 5.0]])
    release = both.privatize(records, np.random.default_rng(1))
    release.to_json(tmp_path / "release.json")
    again = na.Release.from_json(tmp_path / "release.json")
    assert again.names == ("a: sum", "b: sum")
    assert again.mechanism.guarantee == both.guarantee
    total = both.query.statistic(records).sum(axis=0)
    np.testing.assert_allclose(total, [1.5, 2.5])
    expected = -abs(release.values[0] - 1.5) * 0.25 - abs(release.values[1] - 2.5)
    assert both.log_density(release.values, total) == pytest.approx(expected)
