"""`kernels.BlackJax` and NumPyro models against answers that do not come from them.

* the coordinates in JAX against those in NumPy, and their Jacobians against the determinant of the
  matrix of derivatives;
* exact draws of p(theta | x) go through the kernel and are compared with p(theta | x) again
  (Kolmogorov-Smirnov), as in `test_kernels.py`;
* the densities of a NumPyro regression against those of `models.LinearRegression`, and the
  posterior of a release by either;
* Geweke's test of a NumPyro model with the whole sampler.

A test looks at m p-values and fails if one is below 1e-6 / m. Each check is shown to catch bugs
planted in the source, next to the same check without them.
"""

import copy
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import noiseaware as na

REASON = "the extra `jax` is not installed"
jax = pytest.importorskip("jax", reason=REASON)
pytest.importorskip("blackjax", reason=REASON)
numpyro = pytest.importorskip("numpyro", reason=REASON)

import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402

from exact import jax_cases as cases  # noqa: E402
from exact.test_kernels import CASES, Rate, fixed, in_parts, learned, p_values_of, tuned  # noqa: E402
from mutants.planting import Edit, planted  # noqa: E402
from noiseaware.kernels import hamiltonian  # noqa: E402
from noiseaware.kernels.hamiltonian import Hamiltonian, JaxCoordinates  # noqa: E402
from noiseaware.maths.coordinates import Coordinates  # noqa: E402
from noiseaware.sampler.target import Target  # noqa: E402

FALSE_ALARM = 1e-6
PAGE = Path(__file__).parents[2] / "docs" / "jax.md"


# ------------------------------------------------------------------ coordinates


PARAMETERS = (
    na.Parameter("a", (2, 2)),
    na.Parameter("b", (3,), "positive"),
    na.Parameter("c", (), "unit"),
    na.Parameter("d", (2, 3), "simplex"),
    na.Parameter("e", (3, 3), "covariance"),
    na.Parameter("f", (2, 2), "table"),
)


def test_the_coordinates_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    ours, reference = JaxCoordinates(PARAMETERS), Coordinates(PARAMETERS)
    assert ours.size == reference.size == 4 + 3 + 1 + 4 + 6 + 3
    with jax.enable_x64(True):
        for scale in (0.3, 1.0, 5.0):
            v = scale * rng.standard_normal(ours.size)
            theta, log_jacobian = ours.from_vector(jnp.asarray(v))
            expected, expected_jacobian = reference.from_vector(v)
            assert float(log_jacobian) == pytest.approx(expected_jacobian, rel=1e-12)
            for name, value in expected.items():
                np.testing.assert_allclose(theta[name], value, rtol=1e-12, atol=1e-300)
        theta = {name: np.asarray(value) for name, value in theta.items()}
        np.testing.assert_allclose(ours.to_vector(theta), v, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda p: p.support)
def test_the_jacobian_is_the_determinant_of_the_derivatives(parameter, seed):
    coordinates = JaxCoordinates((parameter,))
    v = np.random.default_rng(seed).standard_normal(coordinates.size)

    def free_entries(v):
        value = coordinates.from_vector(v)[0][parameter.name]
        if parameter.support == "simplex":
            return value[..., :-1].reshape(-1)
        if parameter.support == "table":
            return value.reshape(-1)[:-1]
        return value[np.tril_indices(3)] if parameter.support == "covariance" else value.reshape(-1)

    with jax.enable_x64(True):
        _, log_determinant = np.linalg.slogdet(np.asarray(jax.jacobian(free_entries)(v)))
        _, log_jacobian = coordinates.from_vector(jnp.asarray(v))
    assert float(log_jacobian) == pytest.approx(log_determinant, rel=1e-10, abs=1e-10)


# ------------------------------------------------------------------ the kernels are exact


@pytest.mark.parametrize(
    ("algorithm", "case"),
    [
        ("nuts", "rate"),
        *(
            pytest.param(algorithm, case, marks=pytest.mark.full)
            for algorithm in ("nuts", "hmc")
            for case in CASES
            if (algorithm, case) != ("nuts", "rate")
        ),
    ],
)
def test_the_kernel_leaves_the_posterior_invariant(algorithm, case, seed):
    rng = np.random.default_rng([seed, list(CASES).index(case), 1])
    kernel = cases.by_blackjax(case, algorithm=algorithm, steps=2, leapfrog_steps=5)
    p_values = p_values_of(kernel, case, rng)
    assert p_values.min() > FALSE_ALARM / len(p_values)


@pytest.mark.full
@pytest.mark.parametrize("case", ["rate", "die"])
def test_the_kernel_of_numpyro_leaves_the_posterior_invariant(case, seed):
    rng = np.random.default_rng([seed, 2])
    model = na.interop.numpyro.model({"rate": cases.rate, "die": cases.die}[case])
    p_values = p_values_of(model.kernel, case, rng, model=model)
    assert p_values.min() > FALSE_ALARM / len(p_values)


NO_JACOBIAN = Edit(
    hamiltonian, "log_density_of_vector", "jnp.asarray(value) + log_jacobian", "jnp.asarray(value)"
)
ONE_KEY = Edit(
    Hamiltonian,
    "step",
    "key = rng.integers(0, 2**32, size=2, dtype=np.uint32)",
    "key = np.array([1, 2], dtype=np.uint32)",
)
BUGS = {
    "no Jacobian in NUTS": ("nuts", "rate", NO_JACOBIAN),
    "no Jacobian in HMC": ("hmc", "die", NO_JACOBIAN),
    "the same key in every iteration": ("nuts", "rate", ONE_KEY),
    "the same length and key": ("hmc", "rate", ONE_KEY),
    "the records of another iteration": (
        "nuts",
        "rate",
        Edit(
            hamiltonian,
            "compiled_step",
            "return log_density(v, records)",
            "return log_density(v, 2.0 * records)",
        ),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("bug", list(BUGS))
def test_planted_bugs_are_caught(bug, seed):
    algorithm, case, edit = BUGS[bug]
    rng = np.random.default_rng([seed, list(BUGS).index(bug), 3])
    with planted(edit):
        kernel = cases.by_blackjax(case, algorithm=algorithm, leapfrog_steps=5)
        p_values = p_values_of(kernel, case, rng)
    assert p_values.min() < FALSE_ALARM / len(p_values)


class Decades:
    """log10 of the rate, with its Jacobian or, wrongly, without."""

    size = 1

    def __init__(self, right):
        self.right = right

    def to_vector(self, theta):
        return np.log10(np.atleast_1d(theta["rate"]))

    def from_vector(self, v):
        log_jacobian = v[0] * np.log(10.0) + np.log(np.log(10.0)) if self.right else 0.0
        return {"rate": 10.0 ** v[0]}, log_jacobian


@pytest.mark.full
@pytest.mark.parametrize("right", [True, False])
def test_coordinates_of_ones_own(right, seed):
    kernel = cases.by_blackjax("rate", coordinates=Decades(right))
    p_values = p_values_of(kernel, "rate", np.random.default_rng([seed, 4]))
    assert (p_values.min() > FALSE_ALARM) == right


def keys_of_the_steps(steps):
    """Return the keys that the steps of one iteration get."""
    seen = []

    def transition(density):
        def move(key, v, step_size, inverse_mass, length):
            jax.debug.callback(
                lambda data: seen.append(tuple(data.tolist())), jax.random.key_data(key)
            )
            return v, 1.0, False

        return move

    run = hamiltonian.compiled_step(
        lambda v, records: -(v**2).sum(), JaxCoordinates((na.Parameter("m"),)), transition, steps
    )
    with jax.enable_x64(True):
        run(
            np.array([1, 2], dtype=np.uint32), np.zeros(1), 0.1, np.eye(1), np.ones(steps, int), 0.0
        )
        jax.effects_barrier()
    return seen


def test_no_two_steps_of_an_iteration_share_a_key():
    assert len(set(keys_of_the_steps(5))) == 5
    with planted(Edit(hamiltonian, "compiled_step", "keys[k]", "keys[0]")):
        assert len(set(keys_of_the_steps(5))) == 1


# ------------------------------------------------------------------ tuning, seeds, compilation


RELEASE = na.Release(
    [9.0], na.mechanisms.Laplace(na.queries.Sum(0.0, 5.0), epsilon=1.0), n_records=10
)


def changes_after_warmup(rng):
    kernel = cases.by_blackjax("rate")
    target, state = fixed(Rate(), np.array([0.3, 0.9, 2.0]), rng)
    tuning = tuned(kernel, target, state)
    before = copy.deepcopy(learned(tuning))
    for _ in range(5):
        kernel.step(target, state, tuning)
    return learned(tuning) != before


def test_nothing_is_learned_after_warmup(seed):
    assert not changes_after_warmup(np.random.default_rng(seed))
    with planted(Edit(Hamiltonian, "freeze", "warming=False", "warming=True")):
        assert changes_after_warmup(np.random.default_rng(seed))


@pytest.mark.full
def test_the_mass_is_the_precision_of_the_posterior(seed):
    """With many records, v = log rate has the precision n given x."""
    rng = np.random.default_rng(seed)
    records = rng.exponential(0.5, 2000)
    kernel = cases.by_blackjax("rate")
    target, state = fixed(Rate(), records, rng)
    state.theta = {"rate": np.array(2.0)}
    tuning = tuned(kernel, target, state, 512)
    # The mean of 256 squared standard normals is within 0.45 of 1 but for a chance of 1e-6.
    assert abs(1.0 / float(tuning["inverse_mass"][0, 0]) / 2000 - 1.0) < 0.5
    assert 0.5 < tuning["step_size"] < 4.0
    assert set(tuning) == {"step_size", "inverse_mass", "warming"}


def test_a_chain_may_be_cut_anywhere_and_is_compiled_once(seed):
    calls = []

    def log_likelihood(theta, records):
        calls.append(records.shape)
        return cases.LOG_LIKELIHOODS["rate"](theta, records)

    kernel = na.kernels.BlackJax(log_prior=cases.LOG_PRIORS["rate"], log_likelihood=log_likelihood)
    target = Target(Rate(), RELEASE)
    whole = in_parts(target, kernel, [50], seed)
    traced = len(calls)
    assert traced < 20  # NUTS asks for the density in a few places, each traced once
    assert np.array_equal(whole, in_parts(target, kernel, [7, 23, 1, 19], seed))
    assert len(calls) == traced
    assert len(np.unique(whole)) > 10
    assert not jax.config.jax_enable_x64


def test_mistakes_get_a_clear_message():
    def sampled(kernel, model=None):
        target = Target(model or Rate(), RELEASE)
        na.moves.ParameterUpdate(kernel).check(target)

    with pytest.raises(ValueError, match="algorithm must be 'nuts' or 'hmc'; got 'gibbs'"):
        na.kernels.BlackJax(algorithm="gibbs")
    with pytest.raises(ValueError, match="go together"):
        na.kernels.BlackJax(log_prior=cases.LOG_PRIORS["rate"])
    with pytest.raises(ValueError, match="got all three"):
        cases.by_blackjax("rate", log_density=lambda theta, records: 0.0)
    with pytest.raises(TypeError, match="log_density must be a function; got 3"):
        na.kernels.BlackJax(3)
    with pytest.raises(ValueError, match=r"target_acceptance must be between 0 and 1; got 1\.5"):
        na.kernels.BlackJax(target_acceptance=1.5)
    with pytest.raises(TypeError, match="SimpleNamespace has no to_vector"):
        na.kernels.BlackJax(coordinates=SimpleNamespace(size=1))
    with pytest.raises(TypeError, match=r"must be written with jax\.numpy"):
        sampled(na.kernels.BlackJax())  # Rate.log_prior has a float(...)
    with pytest.raises(ValueError, match=r"must be one number; got shape \(3,\)"):
        sampled(na.kernels.BlackJax(cases.LOG_LIKELIHOODS["rate"]))
    with pytest.raises(ValueError, match=r"shape \(3,\); got \(\)"):
        sampled(
            na.kernels.BlackJax(
                log_prior=cases.LOG_PRIORS["rate"], log_likelihood=lambda theta, x: x.sum()
            )
        )
    with pytest.raises(ValueError, match=r"use noiseaware.kernels.BlackJax"):
        sampled(na.interop.numpyro.NUTS())


# ------------------------------------------------------------------ NumPyro models


@pytest.fixture(scope="module")
def bridged():
    return na.interop.numpyro.model(
        cases.regression,
        dims={"coefficients": ["coefficient"]},
        coords={"coefficient": ["intercept", "x1"]},
    )


@pytest.mark.full
def test_the_densities_are_those_of_the_built_in_regression(bridged, seed):
    built_in = na.models.LinearRegression(1)
    assert [(p.name, p.shape, p.support) for p in bridged.parameters] == [
        (p.name, p.shape, p.support) for p in built_in.parameters
    ]
    assert bridged.column_names == ["x1", "y"]
    rng = np.random.default_rng(seed)
    for n in (1, 7, 7):
        theta = built_in.sample_prior(rng)
        records = built_in.sample_records(theta, n, rng)
        assert bridged.log_prior(theta) == pytest.approx(built_in.log_prior(theta), rel=1e-10)
        np.testing.assert_allclose(
            bridged.log_likelihood(theta, records),
            built_in.log_likelihood(theta, records),
            rtol=1e-9,
        )


@pytest.mark.full
def test_its_draws_follow_its_densities(bridged, seed):
    """Records against the normal, a parameter against its prior; four p-values."""
    rng = np.random.default_rng(seed)
    theta = {
        "coefficients": np.array([0.5, -2.0]),
        "noise_variance": np.array(4.0),
        "feature_mean": np.array([3.0]),
        "feature_covariance": np.array([[0.25]]),
    }
    records = bridged.sample_records(theta, 3000, rng)
    assert records.shape == (3000, 2)
    prior = [bridged.sample_prior(rng) for _ in range(500)]
    p_values = [
        stats.kstest((records[:, 0] - 3.0) / 0.5, "norm").pvalue,
        stats.kstest((records[:, 1] - 0.5 + 2.0 * records[:, 0]) / 2.0, "norm").pvalue,
        stats.kstest([t["noise_variance"] for t in prior], stats.invgamma(3, scale=4).cdf).pvalue,
        stats.kstest([t["coefficients"][1] / 2 for t in prior], "norm").pvalue,
    ]
    assert min(p_values) > FALSE_ALARM / len(p_values)


@pytest.mark.full
def test_same_seed_same_draws():
    model = na.interop.numpyro.model(cases.rate)
    few = {"draws": 15, "warmup": 20, "chains": 2, "progressbar": False}
    one, same, other = (
        na.sample(model, RELEASE, random_seed=s, **few)["posterior"]["rate"].to_numpy()
        for s in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert len(np.unique(np.concatenate([one, other]))) > 40  # of 60, and a step may stay


@pytest.mark.full
def test_any_number_of_workers_gives_the_same_draws():
    model = na.interop.numpyro.model(cases.rate)
    few = {"draws": 15, "warmup": 20, "chains": 2, "progressbar": False, "random_seed": 1}
    one, two = (
        na.sample(model, RELEASE, cores=cores, **few)["posterior"]["rate"].to_numpy()
        for cores in (1, 2)
    )
    assert np.array_equal(one, two)


def two_columns(n, count=None, pair=None):
    total = numpyro.sample("total", dist.Gamma(2.0, 1.0))
    share = numpyro.sample("share", dist.Uniform(0.0, 1.0))
    numpyro.deterministic("other", 1.0 - share)
    with numpyro.plate("records", n):
        numpyro.sample("count", dist.Poisson(total), obs=count)
        numpyro.sample("pair", dist.Bernoulli(share).expand([2]).to_event(1), obs=pair)


@pytest.mark.full
def test_columns_and_types_of_the_records(seed):
    model = na.interop.numpyro.model(two_columns)
    assert [(p.name, p.support) for p in model.parameters] == [
        ("total", "positive"),
        ("share", "unit"),
    ]
    assert model.column_names == ["count", "pair1", "pair2"]
    rng = np.random.default_rng(seed)
    theta = {"total": np.array(3.0), "share": np.array(0.25)}
    records = model.sample_records(theta, 6, rng)
    assert records.shape == (6, 3)
    assert records.dtype == np.int64
    expected = stats.poisson(3.0).logpmf(records[:, 0])
    expected += stats.bernoulli(0.25).logpmf(records[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(model.log_likelihood(theta, records), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="cannot be written to a file"):
        model.to_dict()
    assert repr(model) == "NumPyroModel(two_columns)"


def per_record(n, x=None):
    with numpyro.plate("records", n):
        level = numpyro.sample("level", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(level, 1.0), obs=x)


def chained(n, x=None):
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    x_before = jnp.zeros(n) if x is None else jnp.concatenate([jnp.zeros(1), x[:-1]])
    with numpyro.plate("records", n):
        numpyro.sample("x", dist.Normal(m + x_before, 1.0), obs=x)


def wrong(prior=None, extra=None, observed=None):
    """Return a NumPyro model with one thing that is not accepted."""

    def model(n, x=None):
        m = numpyro.sample("m", prior or dist.Normal(0.0, 1.0))
        if extra is not None:
            extra(m)
        if observed is not None:
            return observed(n, x, m)
        with numpyro.plate("records", n):
            return numpyro.sample("x", dist.Normal(m, 1.0), obs=x)

    return model


def masked(n, x, m):
    with numpyro.plate("records", n), numpyro.handlers.mask(mask=False):
        numpyro.sample("x", dist.Normal(m, 1.0), obs=x)


def scaled(n, x, m):
    with numpyro.plate("records", n), numpyro.handlers.scale(scale=2.0):
        numpyro.sample("x", dist.Normal(m, 1.0), obs=x)


def changed(n, x, m):
    with numpyro.plate("records", n):
        numpyro.sample("x", dist.Normal(m, 1.0), obs=None if x is None else 2 * x)


def depends_on_n(n, x, m):
    with numpyro.plate("records", n):
        numpyro.sample("x", dist.Normal(m, n), obs=x)


WRONG = {
    "n with a default": (lambda n=3, x=None: None, "got the arguments"),
    "no observed site": (lambda n: None, "got the arguments"),
    "data without a default": (lambda n, x: None, "got the arguments"),
    "no such site": (lambda n, z=None: cases.rate(n), "argument 'z'"),
    "a latent variable a record": (per_record, "there for each record"),
    "records that depend on others": (chained, "independent and alike"),
    "a scale that depends on n": (wrong(observed=depends_on_n), "independent and alike"),
    "a support that is not ours": (wrong(dist.Uniform(2.0, 3.0)), "has the support"),
    "a discrete parameter": (wrong(dist.Poisson(3.0)), "discrete parameter"),
    "a factor": (wrong(extra=lambda m: numpyro.factor("f", -m)), "observed \\(or a factor\\)"),
    "public data": (
        wrong(extra=lambda m: numpyro.sample("z", dist.Normal(m, 1.0), obs=1.0)),
        "'z' is observed",
    ),
    "a param": (wrong(extra=lambda m: numpyro.param("p", 1.0)), "'p' is a param"),
    "one observation only": (
        wrong(observed=lambda n, x, m: numpyro.sample("x", dist.Normal(m, 1.0), obs=x)),
        "one per record",
    ),
    "a mask": (wrong(observed=masked), "masked"),
    "a scale": (wrong(observed=scaled), "scaled"),
    "observed otherwise": (wrong(observed=changed), "without a change"),
    "never observed": (
        wrong(observed=lambda n, x, m: numpyro.sample("x", dist.Normal(m, 1.0).expand([n]))),
        "is not the obs of the site",
    ),
}


@pytest.mark.parametrize("mistake", list(WRONG))
def test_what_is_not_accepted_is_a_clear_error(mistake):
    function, words = WRONG[mistake]
    with pytest.raises((ValueError, TypeError), match=words):
        na.interop.numpyro.model(function)


def test_other_arguments_are_checked():
    with pytest.raises(TypeError, match="must be a function of the number of records"):
        na.interop.numpyro.model(3)
    with pytest.raises(TypeError, match="kernel must be an object"):
        na.interop.numpyro.model(cases.rate, kernel="nuts")
    with pytest.raises(ValueError, match=r"dims must be of parameters \(\['rate'\]\)"):
        na.interop.numpyro.model(cases.rate, dims={"slope": ["x"]})


@pytest.mark.full
def test_geweke(seed):
    mechanism = na.mechanisms.Laplace(na.queries.Sum(0.0, 4.0), epsilon=2.0)
    options = {
        "n_records": 4,
        "replicates": 600,
        "rounds": 5,
        "random_seed": seed,
        "false_alarm": FALSE_ALARM,
    }
    result = na.geweke(na.interop.numpyro.model(cases.rate), mechanism, **options)
    assert result, str(result)
    with planted(NO_JACOBIAN):
        assert not na.geweke(na.interop.numpyro.model(cases.rate), mechanism, **options)


def moments(model, release, seed, draws, moves=None):
    """Return mean, standard deviation and the Monte Carlo errors of both, one row per parameter."""
    posterior = na.sample(
        model, release, moves=moves, draws=draws, warmup=1000, random_seed=seed, progressbar=False
    )
    table = na.summary(posterior, round_to="none", kind="all")
    return table[["mean", "sd", "mcse_mean", "mcse_sd"]].to_numpy(dtype=float)


@pytest.mark.full
def test_the_posterior_is_that_of_the_built_in_regression(bridged, seed):
    """Means and standard deviations of five parameters within 4 Monte Carlo errors.

    Ten such numbers fail with a chance below 1e-3. They are then drawn again with another seed, so
    that a false alarm has a chance below 1e-6.
    """
    built_in = na.models.LinearRegression(1)
    rng = np.random.default_rng(seed)
    theta = {
        "coefficients": np.array([-0.5, 1.0]),
        "noise_variance": np.array(1.0),
        "feature_mean": np.array([0.5]),
        "feature_covariance": np.eye(1),
    }
    mechanism = na.mechanisms.Laplace(na.queries.RegressionMoments(1, -5, 5), epsilon=10.0)
    release = mechanism.privatize(built_in.sample_records(theta, 30, rng), rng)
    for attempt in range(2):
        ours = moments(bridged, release, seed + attempt, 3000, na.moves.algorithm1())
        theirs = moments(built_in, release, seed + 10 + attempt, 3000)
        error = np.hypot(ours[:, 2:], theirs[:, 2:])
        z = (ours[:, :2] - theirs[:, :2]) / error
        if np.abs(z).max() < 4:
            break
    assert np.abs(z).max() < 4, z
    assert (error[:, 0] < 0.1 * theirs[:, 1]).all()


INCOME = np.array([-1.2, -0.4, 0.0, 0.3, 0.9, 1.5])
PEOPLE = np.array([1.0, 3.0, 2.0, 1.0, 2.0, 1.0])


def cells(n, people=None, income=None, count=None):
    beta = numpyro.sample("beta", dist.Normal(jnp.array([1.5, 0.0]), jnp.array([0.7, 0.5])))
    with numpyro.plate("cells", n):
        rate = people * jnp.exp(beta[0] + beta[1] * income)
        numpyro.sample("count", dist.Poisson(rate), obs=count)


def check_known():
    """The posterior of cells with known covariates, against the counts summed out."""
    noise = na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=2.0)
    release = na.Release([3.0, 11.0, 12.0, 4.0, 16.0, 9.0], noise, 6)
    model = na.interop.numpyro.model(cells, known={"people": PEOPLE, "income": INCOME})
    assert model.n_records == 6
    assert model.column_names == ["count"]
    grid = [np.linspace(-1.0, 4.0, 101), np.linspace(-2.5, 2.5, 101)]
    x = np.arange(120)
    log_p = -0.5 * ((grid[0][:, None] - 1.5) / 0.7) ** 2 - 0.5 * (grid[1] / 0.5) ** 2
    for s, people, income in zip(release.values, PEOPLE, INCOME, strict=True):
        rate = people * np.exp(grid[0][:, None] + grid[1] * income)
        f = stats.poisson.pmf(x, rate[..., None])
        total = (f * np.exp(-0.5 * ((s - x) / 2.0) ** 2)).sum(axis=-1)
        log_p = log_p + np.log(total + 1e-300)
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    tree = na.sample(
        model, release, draws=1000, warmup=300, chains=2, cores=1, random_seed=3, progressbar=False
    )
    draws = tree["posterior"]["beta"].values
    for k in (0, 1):
        mass = weights.sum(axis=1 - k)
        mean = mass @ grid[k]
        sd = np.sqrt(mass @ (grid[k] - mean) ** 2)
        # 2,000 draws are worth at least 150: 5 standard errors.
        assert abs(draws[..., k].mean() - mean) < 5.0 * sd / np.sqrt(150)


def test_known_covariates():
    model = na.interop.numpyro.model(cells, known={"people": PEOPLE, "income": INCOME})
    theta = {"beta": np.array([1.0, 0.5])}
    rate = PEOPLE * np.exp(1.0 + 0.5 * INCOME)
    records = np.array([1, 2, 3, 4, 5, 6])
    expected = stats.poisson.logpmf(records, rate)
    np.testing.assert_allclose(model.log_likelihood(theta, records), expected, rtol=1e-12)
    rng = np.random.default_rng(1)
    drawn = [model.sample_records(theta, 2, rng, index=[4, 1]) for _ in range(300)]
    error = np.sqrt(rate[[4, 1]] / 300)
    assert (np.abs(np.mean(drawn, axis=0) - rate[[4, 1]]) < 5.0 * error).all()
    with pytest.raises(ValueError, match=r"known must name arguments .* got 'age'"):
        na.interop.numpyro.model(cells, known={"age": PEOPLE})
    with pytest.raises(ValueError, match="columns of one length"):
        na.interop.numpyro.model(cells, known={"people": PEOPLE, "income": INCOME[:3]})


@pytest.mark.full
def test_the_posterior_with_known_covariates():
    check_known()


@pytest.mark.full
def test_known_covariates_of_the_wrong_record_are_caught():
    owner = na.interop.numpyro.NumPyroModel
    bug = Edit(owner, "_rows", "np.arange(n) %", "(np.arange(n) + 2) %")
    with planted(bug), pytest.raises(AssertionError):
        check_known()


@pytest.mark.full
def test_the_blocks_of_the_page_run(capsys):
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 3
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
