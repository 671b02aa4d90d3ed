"""What a promise without pure privacy says of the acceptance (docs/acceptance.md), by simulation.

False alarms: a share of N draws with probability p is held to p plus 5.5 of its standard errors,
and a mean to 5.5 of its own. By chance each of these few dozen fails with probability below 1e-7.
"""

import functools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import noiseaware as na
from behaviour.test_checks import verdicts
from later import only
from noiseaware.mechanisms import Guarantee
from noiseaware.mechanisms.acceptance import MISS, likely_acceptance, mean_acceptance
from noiseaware.sampler.moves.records import RecordSweep
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

N = 200_000
MISSES = (0.3, 0.05, 0.01, 1e-3)
Z = 5.5


def share_limit(p, n):
    return p + Z * math.sqrt(p * (1 - p) / n) + Z**2 / n


def losses(mechanism, now, new, rng, n=N):
    """Z = log g(s, T) - log g(s, T*) for s released at T: n draws."""
    noise = mechanism._noise(n, rng)
    values = now + noise
    scale = mechanism.scale
    return ((values - new) ** 2 - (values - now) ** 2) / (2 * scale**2)


# ------------------------------------------------------------------ the true database


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("mu", [0.2, 1.0, 2.5])
def test_gaussian_noise_at_the_largest_distance(mu, miss, seed):
    """The bound holds, and the exact quantile of Gaussian noise is above it."""
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(0, 1), mu=mu)
    loss = losses(mechanism, 0.0, 1.0, np.random.default_rng([seed, int(10 * mu)]))
    level = likely_acceptance(mechanism.guarantee, miss)
    exact = mu**2 / 2 - mu * special.ndtri(miss)
    assert -math.log(level) > exact
    # Loose, but not by much: the level is above what the next tenth of the misses would allow.
    assert -math.log(level) < mu**2 / 2 - mu * special.ndtri(miss / 10)
    assert (np.exp(-loss) < level).mean() <= share_limit(miss, N)
    # The simulation itself is the exact law, so that it is not the bound that is lucky.
    found = (loss > exact).mean()
    assert abs(found - miss) <= Z * math.sqrt(miss * (1 - miss) / N)


@pytest.mark.parametrize("mu", [0.2, 1.0, 2.5])
def test_the_mean_is_one_less_the_total_variation(mu, seed):
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(0, 1), mu=mu)
    bound = mean_acceptance(mechanism.guarantee)
    assert bound == pytest.approx(2 * stats.norm.cdf(-mu / 2), rel=1e-12)
    accept = np.minimum(1.0, np.exp(-losses(mechanism, 0, 1, np.random.default_rng(seed))))
    assert abs(accept.mean() - bound) < Z * accept.std() / math.sqrt(N)  # attained
    nearer = np.minimum(1.0, np.exp(-losses(mechanism, 0, 0.4, np.random.default_rng(seed))))
    assert nearer.mean() > bound


@functools.cache
def discrete_gaussian_masses(scale):
    support = np.arange(-400, 401)
    weights = np.exp(-(support**2) / (2 * scale**2))
    return support, weights / weights.sum()


@pytest.mark.parametrize("rho", [0.02, 0.5, 3.0])
def test_zcdp_by_summation(rho):
    """Discrete Gaussian noise is rho-zCDP; its tails and its mean are sums."""
    mechanism = na.mechanisms.DiscreteGaussian(na.queries.Count(), rho=rho)
    noise, masses = discrete_gaussian_masses(mechanism.scale)
    accept = np.exp(np.minimum(0.0, (noise**2 - (noise - 1.0) ** 2) / (2 * mechanism.scale**2)))
    for miss in (*MISSES, 1e-6, 1e-9):
        level = likely_acceptance(mechanism.guarantee, miss)
        assert masses[accept < level].sum() <= miss
    assert masses @ accept >= mean_acceptance(mechanism.guarantee)


@pytest.mark.parametrize("distance", [0.3, 1.0, 2.0])
def test_gdp_of_another_shape(distance):
    """Only whether N(m, 1) is above a threshold is released: mu-GDP still, with two losses."""
    guarantee = Guarantee("GDP", mu=distance)
    for low in np.linspace(-4, 2, 61):
        p, q = stats.norm.cdf([-low, distance - low])  # P(above) under the two laws
        for a, b in ((p, q), (1 - p, 1 - q), (q, p), (1 - q, 1 - p)):
            ratio = b / a  # met with probability a
            if a >= 1e-12 and ratio < 1:
                for miss in (0.999 * a, 0.5 * a):
                    if miss > 0:
                        assert likely_acceptance(guarantee, miss) <= ratio


def test_gdp_is_attained_by_some_mechanism():
    """Release only whether N(m, 1) is in the tail of mass a: its ratio is the level itself."""
    mu, a = 0.8, 0.02
    q = stats.norm.cdf(special.ndtri(a) - mu)
    assert likely_acceptance(Guarantee("GDP", mu=mu), a) == pytest.approx(q / a, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-4), (2.0, 0.01)])
def test_approximate_privacy(epsilon, delta):
    """The worst mechanism: with probability delta it tells all, else randomized response."""
    guarantee = Guarantee("approximate", epsilon=epsilon, delta=delta)
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    outcomes = {  # ratio: probability under the true database
        0.0: delta,
        math.exp(-epsilon): truth,
        math.exp(epsilon): 1 - delta - truth,
    }
    for miss in (1.5 * delta, 0.1, 0.6):
        level = likely_acceptance(guarantee, miss)
        assert sum(p for ratio, p in outcomes.items() if ratio < level) <= miss
    assert likely_acceptance(guarantee, delta / 2) is None
    mean = sum(p * min(1.0, ratio) for ratio, p in outcomes.items())
    assert mean == pytest.approx(mean_acceptance(guarantee), rel=1e-12)


def test_pure_privacy_keeps_its_theorem():
    guarantee = Guarantee("pure", epsilon=0.7)
    assert likely_acceptance(guarantee, 1e-9) == pytest.approx(math.exp(-0.7))
    # Randomized response attains the mean.
    truth = 1 / (1 + math.exp(-0.7))
    mean = truth * math.exp(-0.7) + (1 - truth)
    assert mean_acceptance(guarantee) == pytest.approx(mean, rel=1e-12)


def test_laplace_noise_is_within_its_mean():
    """Laplace noise, by quadrature: 1 - TV = exp(-epsilon / 2), above the bound."""
    epsilon = 0.9

    def accept(s):
        return 0.5 * math.exp(-abs(s)) * min(1.0, math.exp(abs(s) - abs(s - epsilon)))

    mean = sum(integrate.quad(accept, *ends)[0] for ends in ((-40, 0), (0, epsilon), (epsilon, 40)))
    assert mean == pytest.approx(math.exp(-epsilon / 2), rel=1e-8)
    assert mean > mean_acceptance(Guarantee("pure", epsilon=epsilon)) > math.exp(-epsilon)


def test_under_add_remove_a_change_is_two_steps(seed):
    query = na.queries.Sum(-1, 1)
    for kind, arguments in (("Gaussian", {"mu": 0.6}), ("Gaussian", {"rho": 0.2})):
        mechanism = getattr(na.mechanisms, kind)(query, neighbours="add-remove", **arguments)
        loss = losses(mechanism, 1.0, -1.0, np.random.default_rng(seed))
        for miss in MISSES:
            level = likely_acceptance(mechanism.guarantee, miss)
            assert (np.exp(-loss) < level).mean() <= share_limit(miss, N)
        accept = np.minimum(1.0, np.exp(-loss)).mean()
        assert accept == pytest.approx(mean_acceptance(mechanism.guarantee), abs=0.01)
    weaker = Guarantee("approximate", epsilon=0.5, delta=1e-6, neighbours="add-remove")
    stated = Guarantee("approximate", epsilon=1.0, delta=(1 + math.exp(0.5)) * 1e-6)
    assert likely_acceptance(weaker, 0.1) == pytest.approx(likely_acceptance(stated, 0.1))


def test_an_unknown_promise_says_nothing():
    guarantee = Guarantee("unknown", reason="no sensitivity")
    assert likely_acceptance(guarantee, 0.1) is None
    assert mean_acceptance(guarantee) is None


@pytest.mark.parametrize("miss", [0.0, 1.0, -1])
def test_miss_is_a_probability(miss):
    with pytest.raises(ValueError, match="miss must be strictly between 0 and 1"):
        likely_acceptance(Guarantee("GDP", mu=1.0), miss)


# ------------------------------------------------------------------ imputed databases


def imputed(mechanism, model, n, replicates, sweeps, seed):
    """The ratio of g that each proposal met, after some sweeps of Algorithm 1 on a fresh release.

    Every replicate draws theta, a database and a release from the joint distribution, so that the
    chain starts in its stationary law, and looks at the last sweep, record by record.
    """
    rng = np.random.default_rng([seed, 77])
    move = RecordSweep()
    seen = []
    for _ in range(replicates):
        theta = model.sample_prior(rng)
        state = ChainState(theta, model.sample_records(theta, n, rng), None, rng)
        state.acceptance = np.zeros(n, dtype=np.int64)
        target = Target(model, mechanism.privatize(state.records, rng))
        for _ in range(sweeps):
            state.theta = model.update_parameters(state.theta, state.records, rng)
            seen.append(move.step(target, state, {}))
        del seen[-sweeps:-1]
    return np.array(seen)


@pytest.mark.parametrize(
    ("mechanism", "model"),
    [
        (na.mechanisms.Gaussian(na.queries.Sum(-1, 1), mu=1.5), na.models.Normal(mean_sd=2.0)),
        (na.mechanisms.DiscreteGaussian(na.queries.Count(), rho=1.0), na.models.Bernoulli()),
    ],
    ids=["gaussian", "discrete-gaussian"],
)
@pytest.mark.parametrize("replicates", only([500], [500, 1500]))
def test_imputed_databases_on_average_over_releases(mechanism, model, replicates, seed):
    """The lowest of a sweep is below the level for miss / n at most in a share `miss` of them."""
    n = 5
    rates, lowest = imputed(mechanism, model, n, replicates, sweeps=4, seed=seed).T
    for miss in (0.3, 0.05, 0.01):
        level = likely_acceptance(mechanism.guarantee, miss / n)
        assert (np.exp(lowest) < level).mean() <= share_limit(miss, replicates)
    limit = mean_acceptance(mechanism.guarantee)
    assert rates.mean() > limit - Z * rates.std() / math.sqrt(replicates)


def test_one_release_may_be_below(seed):
    """Not a theorem about each release: one that the model does not expect is far below."""
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(-1, 1), mu=1.0)
    model = na.models.Normal(mean=0.0, mean_sd=1.0, variance_shape=3.0, variance_scale=2.0)
    release = na.Release([60.0], mechanism, n_records=20)
    posterior = na.sample(
        model, release, draws=100, warmup=100, chains=2, random_seed=seed, progressbar=False,
        moves=na.moves.algorithm1(),
    )  # fmt: skip
    level = likely_acceptance(mechanism.guarantee, MISS / 20)
    assert float(posterior["sample_stats"]["lowest_log_acceptance"].min()) < math.log(level)
    verdict = verdicts(posterior)["acceptance"]
    assert verdict.passed
    assert "worse than that: the release is far from" in verdict.message


def test_the_residual_bounds_each_ratio(seed):
    """Given the residual r of any database, the log ratio is at least -(mu r + mu^2 / 2)."""
    rng = np.random.default_rng(seed)
    query = na.queries.RegressionMoments(1, -1, 1)
    mechanism = na.mechanisms.Gaussian(query, mu=0.7)
    for _ in range(2000):
        values = rng.normal(scale=10.0, size=5)
        records = rng.uniform(-1.5, 1.5, size=(4, 2))
        changed = records.copy()
        changed[0] = rng.uniform(-1.5, 1.5, size=2)
        now, new = (query.statistic(x).sum(axis=0) for x in (records, changed))
        r = np.linalg.norm(values - now) / mechanism.scale
        log_ratio = mechanism.log_density(values, new) - mechanism.log_density(values, now)
        assert log_ratio >= -(0.7 * r + 0.7**2 / 2) - 1e-9


# ------------------------------------------------------------------ the verdict


def run(mechanism, moves, seed):
    model = na.models.Normal(mean_sd=2.0)
    rng = np.random.default_rng(seed)
    records = model.sample_records(model.sample_prior(rng), 30, rng)
    return na.sample(
        model, mechanism.privatize(records, rng), draws=200, warmup=100, chains=2,
        random_seed=1, progressbar=False, moves=moves,
    )  # fmt: skip


@pytest.mark.parametrize(
    "mechanism",
    [
        na.mechanisms.Gaussian(na.queries.Sum(-1, 1), mu=0.5),
        na.mechanisms.Gaussian(na.queries.Sum(-1, 1), epsilon=1.0, delta=1e-5),
        na.mechanisms.DiscreteGaussian(na.queries.Histogram(edges=[-1, 0, 1]), rho=0.5),
    ],
    ids=["GDP", "approximate", "zCDP"],
)
def test_the_verdict_informs_and_never_fails(mechanism, tmp_path):
    posterior = run(mechanism, na.moves.algorithm1(), 3)
    verdict = verdicts(posterior)["acceptance"]
    assert verdict.passed
    assert "no floor exp(-epsilon)" in verdict.message
    level = likely_acceptance(mechanism.guarantee, MISS / 30)
    assert posterior.attrs["sweep_acceptance"] == level
    assert posterior.attrs["mean_acceptance"] == mean_acceptance(mechanism.guarantee)
    assert f"below {level:.2g}" in verdict.message
    assert "worse than that" not in verdict.message
    na.save(posterior, tmp_path / "posterior.nc")
    assert verdicts(na.load(tmp_path / "posterior.nc"))["acceptance"] == verdict


def test_blocks_are_not_compared():
    posterior = run(na.mechanisms.Gaussian(na.queries.Sum(-1, 1), mu=0.5), None, 3)
    message = verdicts(posterior)["acceptance"].message
    assert "blocks of records, which are accepted less often" in message
    assert "worse than that" not in message


def test_a_promise_that_says_nothing_is_no_error():
    """The level is 0 in double precision."""
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(-1, 1), mu=60.0)
    assert likely_acceptance(mechanism.guarantee, MISS / 30) == 0.0
    assert verdicts(run(mechanism, na.moves.algorithm1(), 3))["acceptance"].passed


def test_pure_privacy_has_its_own_verdict_only():
    posterior = run(na.mechanisms.Laplace(na.queries.Sum(-1, 1), epsilon=0.5), None, 3)
    assert "acceptance" not in verdicts(posterior)
    assert verdicts(posterior)["acceptance against exp(-epsilon)"].passed


def test_a_posterior_of_an_unknown_promise_has_none():
    query = na.Query(lambda x: np.clip(x, -1, 1), ["sum"], sensitivity={1: 2.0})
    posterior = run(na.mechanisms.Gaussian(query, scale=2.0), na.moves.algorithm1(), 3)
    assert "acceptance" not in verdicts(posterior)


# ------------------------------------------------------------------ planted bugs


def test_wrong_bounds_are_caught(seed):
    """The checks above are sharp enough to see a bound that is slightly too high."""
    mu, miss = 1.0, 0.01
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(0, 1), mu=mu)
    loss = losses(mechanism, 0.0, 1.0, np.random.default_rng(seed))

    def holds(c):
        return (loss > c).mean() <= share_limit(miss, N)

    z = -special.ndtri(miss)
    assert holds(mu**2 / 2 + z * mu)
    assert not holds(z * mu)  # the mean of the loss forgotten
    assert not holds(mu**2 / 2)  # its spread forgotten
    assert not holds(0.25 * mu**2 + z * mu)  # rho for mu^2
    assert not holds(-math.log(likely_acceptance(Guarantee("GDP", mu=0.8), miss)))
    # One step for two under add-remove.
    assert not holds(-math.log(likely_acceptance(Guarantee("GDP", mu=mu / 2), miss)))
    noise, masses = discrete_gaussian_masses(1.0)
    steps = ((noise - 1.0) ** 2 - noise**2) / 2
    rho = 0.5
    for a in (0.05, 1e-3):
        good, bad = rho + 2 * math.sqrt(-rho * math.log(a)), rho + math.sqrt(-rho * math.log(a))
        assert masses[steps >= good].sum() <= a < masses[steps >= bad].sum()
