"""`kernels.RandomWalk` and `kernels.Slice` against answers that do not come from them.

* detailed balance of the random walk: with scripted random numbers it walks on a lattice of v,
  where each acceptance probability is found from what the step does, and pi_i P_ij = pi_j P_ji and
  pi P = pi hold to 1e-9 for a pi written down here, Jacobian and all;
* exact draws of p(theta | x) (gamma, beta, Dirichlet, and a density with two modes, by quadrature)
  go through the kernel and are compared with p(theta | x) again (Kolmogorov-Smirnov). The draws are
  independent of one another, so the p-values are what they say;
* Geweke's test with the whole sampler;
* a chain that is cut and resumed is the same chain, and nothing learns after warm-up.

A test looks at m p-values and fails if one is below 1e-6 / m. Every check is shown to catch bugs
planted in the source, next to the same check without them.
"""

import copy
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from behaviour.examples import small_release
from exact.calibrated import check_geweke
from later import all_but
from mutants.planting import Edit, planted
from noiseaware.contract import model_abilities
from noiseaware.kernels import random_walk
from noiseaware.kernels import slice as slice_module
from noiseaware.kernels.random_walk import RandomWalk
from noiseaware.kernels.slice import Slice
from noiseaware.maths.coordinates import Coordinates
from noiseaware.sampler import chain
from noiseaware.sampler.target import Target

FALSE_ALARM = 1e-6


class Rate:
    """Exponential waiting times, gamma(2, 1) prior: p(rate | x) is gamma(2 + n, 1 + sum x)."""

    parameters = (na.Parameter("rate", support="positive"),)

    def sample_prior(self, rng):
        return {"rate": rng.gamma(2.0)}

    def log_prior(self, theta):
        return float(np.log(theta["rate"]) - theta["rate"])

    def sample_records(self, theta, n, rng):
        return rng.exponential(1.0 / theta["rate"], n)

    def log_likelihood(self, theta, records):
        return np.log(theta["rate"]) - theta["rate"] * records


class Die:
    """Three faces, a Dirichlet(0.8, 1, 2) prior."""

    parameters = (na.Parameter("faces", (3,), "simplex", ("face",)),)
    prior = np.array([0.8, 1.0, 2.0])

    def sample_prior(self, rng):
        return {"faces": rng.dirichlet(self.prior)}

    def log_prior(self, theta):
        return float(((self.prior - 1) * np.log(theta["faces"])).sum())

    def sample_records(self, theta, n, rng):
        return rng.choice(3, n, p=theta["faces"])

    def log_likelihood(self, theta, records):
        return np.log(theta["faces"])[records]


class Proportion:
    """A coin with a flat prior, in [0, 1]: its kernels come from the package."""

    parameters = (na.Parameter("probability", support="unit"),)

    def sample_prior(self, rng):
        return {"probability": rng.random()}

    def log_prior(self, theta):
        return 0.0

    def sample_records(self, theta, n, rng):
        return (rng.random(n) < theta["probability"]).astype(np.int64)

    def log_likelihood(self, theta, records):
        return np.where(records == 1, np.log(theta["probability"]), np.log1p(-theta["probability"]))


class WithInnovations(Proportion):
    """The same coin, which can be transported too."""

    innovations = na.Innovations("uniform", 1)

    def build_records(self, theta, innovations):
        return (innovations[:, 0] < theta["probability"]).astype(np.int64)

    def recover_innovations(self, theta, records, rng):
        p = float(theta["probability"])
        u = rng.random(len(records))
        return np.where(records == 1, p * u, p + (1 - p) * u)[:, None]


class TwoModes:
    """x_i ~ N(m^2, 1) with m ~ N(0.3, 2^2): the sign of m is hardly known."""

    parameters = (na.Parameter("m"),)

    def sample_prior(self, rng):
        return {"m": rng.normal(0.3, 2.0)}

    def log_prior(self, theta):
        return -0.5 * float((theta["m"] - 0.3) / 2.0) ** 2

    def log_likelihood(self, theta, records):
        return -0.5 * (records - theta["m"] ** 2) ** 2


def fixed(model, records, rng):
    """Return a target and a state with these records, for the kernels alone."""
    target = SimpleNamespace(
        model=model,
        abilities=model_abilities(model),
        coordinates=Coordinates(model.parameters),
    )
    state = SimpleNamespace(theta=model.sample_prior(rng), records=records, rng=rng)
    return target, state


def tuned(kernel, target, state, iterations=60):
    """Return the kernel's tuning after a short warm-up."""
    tuning = kernel.start(target, state)
    for _ in range(iterations):
        kernel.step(target, state, tuning)
        kernel.learn(target, state, tuning)
    kernel.freeze(target, state, tuning)
    return tuning


CASES = {"rate": Rate, "die": Die, "proportion": Proportion, "two modes": TwoModes}


def known(case, n_draws, rng):
    """Return records, exact draws of p(theta | x), and the CDFs that they have."""
    if case == "rate":
        exact = stats.gamma(5.0, scale=1.0 / 4.2)
        draws = [{"rate": np.array(x)} for x in exact.rvs(n_draws, random_state=rng)]
        return np.array([0.3, 0.9, 2.0]), draws, [lambda theta: exact.cdf(theta["rate"])]
    if case == "die":
        shapes = Die.prior + np.array([1, 0, 2])
        draws = [{"faces": x} for x in rng.dirichlet(shapes, n_draws)]
        marginals = [stats.beta(a, shapes.sum() - a) for a in shapes]
        cdfs = [
            lambda theta, j=j, b=b: b.cdf(theta["faces"][:, j]) for j, b in enumerate(marginals)
        ]
        return np.array([2, 0, 2]), draws, cdfs
    if case == "proportion":
        exact = stats.beta(3.0, 2.0)
        draws = [{"probability": np.array(x)} for x in exact.rvs(n_draws, random_state=rng)]
        return np.array([1, 1, 0]), draws, [lambda theta: exact.cdf(theta["probability"])]
    records = np.array([2.5, 1.0])
    grid = np.linspace(-6.0, 6.0, 40001)
    log_p = -0.5 * ((grid - 0.3) / 2.0) ** 2
    log_p -= 0.5 * ((records[:, None] - grid**2) ** 2).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    cdf = np.append(0.0, np.cumsum(0.5 * (p[1:] + p[:-1])))
    cdf /= cdf[-1]
    draws = [{"m": np.array(x)} for x in np.interp(rng.random(n_draws), cdf, grid)]
    return records, draws, [lambda theta: np.interp(theta["m"], grid, cdf)]


def p_values_of(kernel, case, rng, n_draws=4000, model=None):
    """Exact draws of p(theta | x), through the kernel, against p(theta | x)."""
    records, draws, cdfs = known(case, n_draws, rng)
    target, state = fixed(CASES[case]() if model is None else model, records, rng)
    with np.errstate(all="ignore"):
        tuning = tuned(kernel, target, state)
        out = []
        for theta in draws:
            state.theta = theta
            kernel.step(target, state, tuning)
            out.append(state.theta)
    joined = {name: np.stack([theta[name] for theta in out]) for name in out[0]}
    return np.array([stats.kstest(cdf(joined), "uniform", method="asymp").pvalue for cdf in cdfs])


KERNELS = (RandomWalk(steps=3), Slice())


# The walk and the slice sampler share the density: in `make test` two cases of the walk.
@pytest.mark.parametrize(
    ("kernel", "case"),
    all_but([(KERNELS[0], "die"), (KERNELS[0], "rate")], itertools.product(KERNELS, CASES)),
    ids=str,
)
def test_the_kernel_leaves_the_posterior_invariant(kernel, case, seed):
    rng = np.random.default_rng([seed, list(CASES).index(case), 1])
    p_values = p_values_of(kernel, case, rng)
    assert p_values.min() > FALSE_ALARM / len(p_values)


NO_JACOBIAN = "value = float(log_prior(theta)) + log_jacobian"
BUGS = {
    "no Jacobian in the walk": (
        RandomWalk(steps=3),
        "rate",
        Edit(random_walk, "log_density", NO_JACOBIAN, "value = float(log_prior(theta))"),
    ),
    "no Jacobian in the slice": (
        Slice(),
        "die",
        Edit(slice_module, "log_density", NO_JACOBIAN, "value = float(log_prior(theta))"),
    ),
    "no prior": (
        Slice(),
        "rate",
        Edit(slice_module, "log_density", "float(log_prior(theta)) + ", ""),
    ),
    "accepts too often": (
        RandomWalk(steps=3),
        "rate",
        Edit(RandomWalk, "step", "if log_uniform[k] < ratio", "if log_uniform[k] < 2 * ratio"),
    ),
    "keeps the old log density": (
        RandomWalk(steps=20),
        "rate",
        Edit(RandomWalk, "step", "v, now = proposed, new", "v = proposed"),
    ),
    "a walk that drifts": (
        RandomWalk(steps=3),
        "rate",
        Edit(RandomWalk, "step", "proposed[index] += moves[k]", "proposed[index] += moves[k] + .1"),
    ),
    "the level is too low": (
        Slice(),
        "rate",
        Edit(slice_module, "_update", "rng.standard_exponential()", "1.0"),
    ),
    "the interval begins where the point is": (
        Slice(),
        "rate",
        Edit(slice_module, "_update", "left = -WIDTH * rng.random()", "left = 0.0"),
    ),
    "steps out to one side only": (
        Slice(),
        "rate",
        Edit(slice_module, "_update", "while to_right > 0", "while to_right > MOST_STEPS"),
    ),
}
SMALL_STEPS = {
    "the interval begins where the point is": {"WIDTH": 1.0, "MOST_STEPS": 1},
    "steps out to one side only": {"WIDTH": 0.5},
}
"""Settings in which a bug shows; the kernel without the bug is tested with such ones too."""


LATER = (
    *("no Jacobian in the slice", "keeps the old log density", "a walk that drifts"),
    "steps out to one side only",
)
"""In `make validate`; those like them are in `make test`."""


@pytest.mark.parametrize("bug", all_but(LATER, BUGS))
def test_planted_bugs_are_caught(bug, seed, monkeypatch):
    kernel, case, edit = BUGS[bug]
    for name, value in SMALL_STEPS.get(bug, {}).items():
        monkeypatch.setattr(slice_module, name, value)
    rng = np.random.default_rng([seed, list(BUGS).index(bug), 2])
    with planted(edit):
        p_values = p_values_of(kernel, case, rng, 5000)
    assert p_values.min() < FALSE_ALARM / len(p_values)


@pytest.mark.parametrize("width", [0.1, 0.5, 20.0])
def test_any_width_and_any_number_of_steps_outwards_will_do(width, seed, monkeypatch):
    """A width of 0.1 and 5 steps never cover the slice, and the shares of the sides matter."""
    monkeypatch.setattr(slice_module, "WIDTH", width)
    monkeypatch.setattr(slice_module, "MOST_STEPS", 5)
    rng = np.random.default_rng([seed, 3, int(10 * width)])
    p_values = p_values_of(Slice(steps=2), "rate", rng, 3000)
    assert p_values.min() > FALSE_ALARM


def share_that_stays(case, rng):
    """How often does a slice update leave theta where it is? Shrinkage never does."""
    model, records = {
        "rate": (Rate(), np.array([0.3, 0.9, 2.0])),
        "two modes": (TwoModes(), np.array([2.5, 1.0])),
    }[case]
    target, state = fixed(model, records, rng)
    kernel = Slice()
    tuning = tuned(kernel, target, state)
    stays = 0
    for _ in range(500):
        before = state.theta
        kernel.step(target, state, tuning)
        stays += all(np.array_equal(before[name], state.theta[name]) for name in before)
    return stays / 500


SHRINKAGE_BUGS = ("if t > 0.0:", "if t < 0.5 * (left + right):", "if t < left + 1.0:")


@pytest.mark.parametrize("case", ["rate", "two modes"])
@pytest.mark.parametrize("wrong", ["", *SHRINKAGE_BUGS])
def test_shrinkage_keeps_the_point_it_starts_from_inside(case, wrong, seed):
    """An interval that has lost that point shrinks to nothing, and theta does not move."""
    rng = np.random.default_rng([seed, 4])
    with planted(Edit(slice_module, "_update", "if t < 0.0:", wrong or "if t < 0.0:")):
        assert bool(share_that_stays(case, rng)) == bool(wrong)


# ------------------------------------------------------------------ pi P = pi


class Script:
    """Random numbers that are said beforehand, for one step in one dimension."""

    def __init__(self, normal, exponential):
        self.normal, self.exponential = normal, exponential

    def standard_normal(self, shape):
        return np.full(shape, self.normal)

    def standard_exponential(self, size):
        return np.full(size, self.exponential)


def acceptance(target, records, tuning, v, side):
    """Return where a walk from v goes and with what probability, from what the step does."""
    kernel = RandomWalk(steps=1)

    def goes(exponential):
        theta = target.coordinates.from_vector(np.array([v]))[0]
        state = SimpleNamespace(theta=theta, records=records, rng=Script(side, exponential))
        kernel.step(target, state, tuning)
        return abs(float(target.coordinates.to_vector(state.theta)[0]) - v) > 0.1

    # It goes if -E < log ratio: for every E above -log ratio, which has probability exp(log ratio).
    if goes(1e-13):
        return 1.0
    low, high = 0.0, 800.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if goes(middle) else (middle, high)
    return math.exp(-high)


def lattice(rng):
    """Return P of the walk on a lattice of v, and the pi that it should leave invariant."""
    model, records = Rate(), np.array([0.3, 0.9, 2.0])
    target, state = fixed(model, records, rng)
    tuning = tuned(RandomWalk(), target, state, 0)
    tuning["factors"], tuning["log_scales"] = [np.array([[0.25]])], [0.0]
    v = -3.0 + 0.25 * np.arange(25)
    transition = np.zeros((len(v), len(v)))
    for i in range(len(v)):
        for side in (-1.0, 1.0):
            j = i + int(side)
            if 0 <= j < len(v):  # the walk on a part of the lattice: what would leave it stays
                transition[i, j] = 0.5 * acceptance(target, records, tuning, float(v[i]), side)
    transition += np.diag(1.0 - transition.sum(axis=1))
    # gamma(5, 4.2) in rate, times d rate / d v = rate.
    log_pi = 5.0 * v - 4.2 * np.exp(v)
    pi = np.exp(log_pi - log_pi.max())
    return transition, pi / pi.sum()


def test_the_walk_is_reversible_on_a_lattice(seed):
    transition, pi = lattice(np.random.default_rng(seed))
    flow = pi[:, None] * transition
    np.testing.assert_allclose(flow, flow.T, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(pi @ transition, pi, rtol=1e-9)


def test_without_the_jacobian_it_is_not(seed):
    edit = Edit(random_walk, "log_density", NO_JACOBIAN, "value = float(log_prior(theta))")
    with planted(edit):
        transition, pi = lattice(np.random.default_rng(seed))
    assert np.abs(pi @ transition - pi).max() > 1e-3


# ------------------------------------------------------------------ learning and its end


def learned(value):
    """Return a tuning as something that can be compared."""
    if isinstance(value, dict):
        return {key: learned(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [learned(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def changes_after_warmup(kernel, rng):
    target, state = fixed(Rate(), np.array([0.3, 0.9, 2.0]), rng)
    tuning = tuned(kernel, target, state)
    before = copy.deepcopy(learned(tuning))
    for _ in range(20):
        kernel.step(target, state, tuning)
    return learned(tuning) != before


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_nothing_is_learned_after_warmup(kernel, seed):
    assert not changes_after_warmup(kernel, np.random.default_rng(seed))


def test_learning_after_warmup_is_noticed(seed):
    with planted(Edit(RandomWalk, "step", 'if tuning["warming"]:', "if True:")):
        assert changes_after_warmup(RandomWalk(), np.random.default_rng(seed))


@pytest.mark.parametrize("kernel", [RandomWalk(), Slice()], ids=repr)
def test_the_shape_is_that_of_the_posterior(kernel, seed):
    """With many records, the learned covariance is that of p(v | x) within a few percent."""
    rng = np.random.default_rng(seed)
    records = rng.exponential(0.5, 2000)
    target, state = fixed(Rate(), records, rng)
    tuning = tuned(kernel, target, state, 64)
    factor = tuning["factors"][0] if "factors" in tuning else tuning["directions"]
    assert abs(float(factor[0, 0]) * math.sqrt(2000) - 1.0) < 0.1


def in_parts(target, kernel, lengths, seed):
    """The rates of a chain of 50 iterations, 30 of them warm-up, run in parts of these lengths."""
    moves = (na.moves.ParameterUpdate(kernel), na.moves.RecordSweep())
    schedule = chain.Schedule(30, 20)
    state = chain.start(target, moves, np.random.default_rng(seed))
    parts = []
    for length in lengths:
        state, draws = chain.advance(target, moves, schedule, state, length)
        parts.append(draws)
    return chain.Draws.join(parts).theta["rate"]


@pytest.mark.parametrize("kernel", [RandomWalk(), Slice(steps=2)], ids=repr)
def test_a_chain_may_be_cut_anywhere(kernel, seed):
    query = na.queries.Sum(0.0, 5.0)
    release = na.Release([9.0], na.mechanisms.Laplace(query, epsilon=1.0), n_records=10)
    target = Target(Rate(), release)
    whole = in_parts(target, kernel, [50], seed)
    assert np.array_equal(whole, in_parts(target, kernel, [7, 23, 1, 19], seed))
    assert len(np.unique(whole)) > 10


def test_chains_share_the_kernel_and_nothing_else(seed):
    release = small_release(n_records=12, value=8.0, epsilon=1.0)
    moves = (na.moves.ParameterUpdate(RandomWalk()), na.moves.RecordSweep())
    few = {"draws": 30, "warmup": 40, "random_seed": seed, "progressbar": False, "moves": moves}
    one = na.sample(Proportion(), release, chains=1, **few)
    two = na.sample(Proportion(), release, chains=2, **few)
    name = "probability"
    assert np.array_equal(one["posterior"][name][0], two["posterior"][name][0])
    assert (two["sample_stats"]["kernel_acceptance"] > 0).any()


# ------------------------------------------------------------------ out of the box


def exact_mean(n, epsilon, value):
    """E(p | s_dp) for a coin with a flat prior: a mixture of Beta(1 + k, 1 + n - k)."""
    k = np.arange(n + 1)
    weights = np.exp(-epsilon * np.abs(value - k))  # each k has prior probability 1 / (n + 1)
    return float(weights @ ((1 + k) / (2 + n)) / weights.sum())


@pytest.mark.parametrize(
    "model", [Proportion(), pytest.param(WithInnovations(), marks=pytest.mark.full)], ids=type
)
def test_a_prior_and_a_likelihood_are_enough(model, seed):
    release = small_release(n_records=6, value=5.0, epsilon=1.5)
    posterior = na.sample(
        model, release, draws=500, warmup=300, random_seed=seed, progressbar=False
    )
    row = na.summary(posterior, round_to="none").loc["probability"]
    # Two-sided 1e-6 is 4.9 standard errors; the draws' own estimate of the error is a little rough.
    assert abs(row["mean"] - exact_mean(6, 1.5, 5.0)) < 6 * row["mcse_mean"]
    target = Target(model, release)
    assert target.abilities.can_update
    assert target.abilities.can_transport == isinstance(model, WithInnovations)
    assert not target.abilities.holds_innovations


def test_algorithm_1_takes_the_ready_kernel_too(seed):
    posterior = na.sample(
        WithInnovations(), small_release(), moves=na.moves.algorithm1(), draws=20, warmup=20,
        random_seed=seed, progressbar=False,
    )  # fmt: skip
    assert len(np.unique(posterior["posterior"]["probability"])) == 80


@pytest.mark.full
@pytest.mark.parametrize("kernel", [RandomWalk(steps=2), Slice()], ids=repr)
def test_geweke(kernel, seed):
    mechanism = na.mechanisms.Laplace(na.queries.Sum(0.0, 4.0), epsilon=2.0)
    moves = (na.moves.ParameterUpdate(kernel), na.moves.RecordSweep())
    check_geweke(Rate(), mechanism, seed, n_records=6, rounds=6, moves=moves)


# ------------------------------------------------------------------ what is refused


def test_wrong_kernels_are_named():
    with pytest.raises(TypeError, match=r"kernel must be a function .* or an object with"):
        na.moves.ParameterUpdate(3)
    with pytest.raises(TypeError, match=r"kernel must be an object, such as Slice\(\)"):
        na.moves.ParameterUpdate(Slice)
    with pytest.raises(ValueError, match="steps must be a positive integer; got 0"):
        RandomWalk(steps=0)
    with pytest.raises(ValueError, match=r"steps must be a positive integer; got 1\.5"):
        Slice(steps=1.5)


def test_a_model_without_a_likelihood_is_told_what_is_missing():
    class NoLikelihood(Proportion):
        log_likelihood = property()

    class OnlyPrior:
        parameters = Proportion.parameters
        sample_prior = Proportion.sample_prior
        sample_records = Proportion.sample_records
        log_prior = Proportion.log_prior

    release = small_release()
    with pytest.raises(
        TypeError, match="has none of update_parameters, log_likelihood, build_records"
    ):
        na.sample(OnlyPrior(), release)
    with pytest.raises(TypeError, match="for a ready kernel"):
        na.sample(NoLikelihood(), release)

    class Conjugate(OnlyPrior):
        def update_parameters(self, theta, records, rng):
            return theta

    moves = (na.moves.ParameterUpdate(Slice()), na.moves.RecordSweep())
    with pytest.raises(ValueError, match=r"Slice needs a model with log_likelihood\(theta, rec"):
        na.sample(Conjugate(), release, moves=moves)
