"""Every move through one contract: what it reports, refuses, learns, and leaves valid."""

import copy
import functools
import pickle

import numpy as np
import pytest
from examples.moves import crank_nicolson, full_conditional, soma
from examples.moves.crank_nicolson import CrankNicolson
from examples.moves.full_conditional import FullConditional
from examples.moves.soma import Soma

import noiseaware as na
from behaviour.examples import Coin, Simulator, WeightedNoise
from later import only
from noiseaware.basics.adapt import StepSize
from noiseaware.basics.files import read_arrays, write_arrays
from noiseaware.kernels.density import Precision
from noiseaware.maths.coordinates import check_theta
from noiseaware.mechanisms import DiscreteLaplace, Gaussian, Laplace
from noiseaware.running.plain import pack, pack_state, unpack_state
from noiseaware.sampler import chain
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.default import make_target
from noiseaware.sampler.moves.formula import RegressionJump
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.learned import LearnedJump
from noiseaware.sampler.moves.proposals import Jump, Walk
from noiseaware.sampler.moves.tuning import Gains
from noiseaware.sampler.state import Draws
from noiseaware.sampler.target import Target

# ------------------------------------------------------------------ targets


class NormalSimulator:
    """Only a prior and x = F(u; theta), on normal innovations."""

    parameters = (na.Parameter("mean"),)
    innovations = na.Innovations("normal", 1)

    def sample_prior(self, rng):
        return {"mean": rng.standard_normal()}

    def log_prior(self, theta):
        return -0.5 * float(theta["mean"]) ** 2

    def build_records(self, theta, innovations):
        return theta["mean"] + innovations[:, 0]


def kernel_only():
    """Return a model with sample_records and update_parameters, and no innovations."""
    kept = ("parameters", "sample_prior", "sample_records", "update_parameters", "log_likelihood")
    return type("KernelOnly", (), {name: vars(Coin)[name] for name in kept})()


class Squares:
    """The sum of the squares of records (n,), cut off at 9."""

    names = ("squares",)

    def check_records(self, records):
        assert records.ndim == 1

    def statistic(self, records):
        return np.minimum(records[:, np.newaxis] ** 2, 9.0)

    def sensitivity(self, norm, neighbours="change"):
        return 9.0


MOMENTS = na.queries.RegressionMoments(1, -3.0, 3.0)
TARGETS = {
    "dense": (na.models.LinearRegression(1), Laplace(MOMENTS, epsilon=1.0)),
    "known": (
        na.models.LinearRegression(
            1, noise_variance=1.0, feature_mean=[0.0], feature_covariance=[[1.0]]
        ),
        Gaussian(MOMENTS, mu=1.0),
    ),
    "cells": (
        na.models.NaiveBayes(2, [2, 3]),
        DiscreteLaplace(na.queries.ClassFeatureCounts(2, [2, 3]), epsilon=1.0),
    ),
    "count": (na.models.Bernoulli(), Laplace(na.queries.Count(), epsilon=1.0)),
    "bins": (na.models.Normal(), Laplace(na.queries.Histogram(edges=[-1.0, 0.0, 1.0]), 1.0)),
    "categories": (na.models.Categorical(3), Laplace(na.queries.Histogram(n_levels=3), 1.0)),
    "table": (
        na.models.ContingencyTable([2, 2, 2]),
        DiscreteLaplace(na.queries.Margins([2, 2, 2], [[0], [1, 2]]), epsilon=1.0),
    ),
    "own": (Coin(), Laplace(na.queries.Count(), epsilon=1.0)),
    "strata": (
        na.models.StratifiedMeans([4, 5]),
        Laplace(na.queries.ByGroup(na.queries.Sum(-2.0, 2.0), 2), epsilon=1.0),
    ),
    "squares": (na.models.Normal(), Laplace(Squares(), scale=2.0)),
    "joint": (na.models.Bernoulli(), WeightedNoise(na.queries.Count(), 2.0)),
    "kernel": (kernel_only(), Laplace(na.queries.Count(), epsilon=1.0)),
    "simulator": (Simulator(), Laplace(na.queries.Count(), epsilon=1.0)),
    "normal simulator": (NormalSimulator(), Laplace(na.queries.Sum(-2.0, 2.0), epsilon=1.0)),
}
SIMULATORS = {"simulator", "normal simulator"}
N = 9


def make(name, move=None):
    return make_target(TARGETS[name][0], released(name), (move,) if move else ())


@functools.cache
def released(name):
    model, mechanism = TARGETS[name]
    rng = np.random.default_rng(6)
    theta = model.sample_prior(rng)
    if hasattr(model, "sample_records"):
        records = model.sample_records(theta, N, rng)
    else:
        shape = (N, model.innovations.width)
        normal = model.innovations.kind == "normal"
        records = model.build_records(
            theta, rng.standard_normal(shape) if normal else rng.random(shape)
        )
    return mechanism.privatize(records, rng)


# ------------------------------------------------------------------ moves


def from_the_model(records, index, theta, release, rng):
    """A proposal of the user's: a coin that is thrown again, fairly."""
    return rng.integers(0, 2, len(index)), np.zeros(len(index))


EVERYWHERE = set(TARGETS)
TERMS = EVERYWHERE - {"joint"}
MOVES = {
    "ParameterUpdate": (na.moves.ParameterUpdate(), EVERYWHERE - SIMULATORS),
    "ParameterUpdate(Slice)": (
        na.moves.ParameterUpdate(na.kernels.Slice()),
        {"count", "own", "dense"},
    ),
    "RecordSweep": (na.moves.RecordSweep(), EVERYWHERE),
    "RecordSweep(proposal)": (
        na.moves.RecordSweep(from_the_model),
        {"count", "own", "joint", "kernel"},
    ),
    "RecordSweep(sequential)": (
        na.moves.RecordSweep(from_the_model, sequential=True),
        {"count", "own", "joint", "kernel"},
    ),
    "Transport": (na.moves.Transport(), EVERYWHERE - {"kernel"}),
    "Transport(steps=1)": (na.moves.Transport(steps=1), EVERYWHERE - {"kernel"}),
    "BlockSweep": (na.moves.BlockSweep(), EVERYWHERE),
    "BlockSweep(size=1)": (na.moves.BlockSweep(size=1), EVERYWHERE),
    "BlockSweep(size=4)": (na.moves.BlockSweep(size=4), EVERYWHERE),
    "BlockSweep(size=N)": (na.moves.BlockSweep(size=N), EVERYWHERE),
    "FullConditional": (
        FullConditional(),
        {"cells", "count", "categories", "table"},
    ),
    "Soma": (Soma(), TERMS - {"strata"}),
    "Soma(slots=4)": (Soma(offers=3, slots=4), TERMS - {"strata"}),
    "ScaleMove": (na.moves.ScaleMove(), {"strata"}),
    "GroupMove": (na.moves.GroupMove(), {"strata"}),
    "Transport(hold_levels=True)": (na.moves.Transport(hold_levels=True), {"strata"}),
    "CountMove": (na.moves.CountMove(), {"cells", "count", "categories", "table"}),
    "CountTransport": (na.moves.CountTransport(), {"count", "categories", "table"}),
    "MirrorMove": (na.moves.MirrorMove(), {"squares"}),
    "LevelMove": (
        na.moves.LevelMove(),
        {"dense", "known", "squares", "strata", "normal simulator"},
    ),
    # For n unknown, exact numbers and cells as records; see exact.test_size, test_exchange and
    # test_count_regression.
    "SizeMove": (na.moves.SizeMove(), set()),
    "ExchangeMove": (na.moves.ExchangeMove(), set()),
    "CellMove": (na.moves.CellMove(), set()),
    "FiniteMove": (na.moves.FiniteMove(), set()),
    "ConditionalMove": (na.moves.ConditionalMove(), set()),
    "CrankNicolson": (
        CrankNicolson(steps=2),
        {"dense", "known", "bins", "squares", "strata", "normal simulator"},
    ),
    "Interweave": (
        na.moves.Interweave(
            na.moves.ParameterUpdate(), na.moves.Transport(), na.moves.BlockSweep()
        ),
        EVERYWHERE - SIMULATORS - {"kernel"},
    ),
    "Interweave(cycles=2)": (
        na.moves.Interweave(na.moves.Transport(steps=2), na.moves.RecordSweep(), cycles=2),
        EVERYWHERE - {"kernel"},
    ),
}
PAIRS = [(name, target) for name, (_, targets) in MOVES.items() for target in sorted(targets)]
# A move with other options goes with one target of each form in `make test`.
FORMS = {"dense", "cells", "strata", "joint", "simulator"}
QUICK = [
    (name, target)
    for name, target in PAIRS
    if "(" not in name or target in FORMS or not FORMS & MOVES[name][1]
]
# Where a proposal of the user's makes no sense for the records, nothing has to refuse it.
REFUSED = [
    (name, target)
    for name, (_, targets) in MOVES.items()
    for target in sorted(EVERYWHERE - targets)
    if not name.startswith(("RecordSweep", "ParameterUpdate(")) or target in SIMULATORS
]
each_pair = pytest.mark.parametrize(("name", "where"), only(QUICK, PAIRS))


def begin(name, where, seed=3):
    """Return the move, the target, a state at its start and the move's tuning."""
    made = MOVES[name][0]
    target = make(where, made)
    state = chain.start(target, [made], np.random.default_rng(seed))
    return made, target, state, state.tunings[0]


def test_every_public_move_is_here():
    public = {name for name in na.moves.__all__ if isinstance(getattr(na.moves, name), type)}
    assert public <= {type(made).__name__ for made, _ in MOVES.values()}
    assert [type(made).__name__ for made in na.moves.algorithm1()] == [
        "ParameterUpdate",
        "RecordSweep",
    ]


@pytest.mark.parametrize("name", MOVES)
def test_a_move_has_what_the_chain_asks_for(name):
    made = MOVES[name][0]
    for attribute in ("reports", "check", "start", "step", "learn"):
        assert hasattr(made, attribute), attribute
    assert isinstance(made.reports, tuple)
    assert all(isinstance(report, str) and report.isidentifier() for report in made.reports)
    assert type(made).__name__ in repr(made)
    assert repr(pickle.loads(pickle.dumps(made))) == repr(made)


@pytest.mark.parametrize(("name", "where"), REFUSED)
def test_a_target_that_does_not_fit_is_refused(name, where):
    target, made = make(where), MOVES[name][0]
    with pytest.raises(ValueError) as caught:
        made.check(make(where, made))
    message = str(caught.value)
    mechanism = type(target.release.mechanism).__name__
    assert type(target.model).__name__ in message or mechanism in message or "joint" in message


def assert_valid(target, state):
    check_theta("the move", state.theta, target.model.parameters)
    first = make_like(target)
    assert state.records.shape == first.shape
    assert state.records.dtype == first.dtype
    records = target.database(state)
    assert len(records) == N
    target.release.query.check_records(records)
    if hasattr(target.model, "check_records"):
        target.model.check_records(records)
    assert np.isfinite(target.log_g(target.total(state.records)))
    if target.abilities.holds_innovations:
        rebuilt = target.model.build_records(state.theta, state.innovations)
        np.testing.assert_array_equal(rebuilt, state.records)
    else:
        assert state.innovations is None


def make_like(target):
    rng = np.random.default_rng(0)
    return target.propose(target.model.sample_prior(rng), N, rng)[0]


@each_pair
def test_steps_leave_a_valid_state_and_report_numbers(name, where):
    made, target, state, tuning = begin(name, where)
    assert made.check(target) is None
    values = target.values.copy()
    for warming in (True, False):
        for _ in range(20):
            reported = made.step(target, state, tuning)
            assert isinstance(reported, tuple)
            assert len(reported) == len(made.reports)
            for report, value in zip(made.reports, reported, strict=True):
                assert np.ndim(value) == 0, report
                value = float(value)
                if report.startswith("lowest"):
                    assert value <= 0.0, report
                else:
                    assert 0.0 <= value <= 1.0 or np.isnan(value), report
            if warming:
                made.learn(target, state, tuning)
            assert_valid(target, state)
        if warming and hasattr(made, "freeze"):
            made.freeze(target, state, tuning)
    np.testing.assert_array_equal(target.values, values)


@each_pair
def test_a_step_is_a_function_of_the_state(name, where):
    """Which can travel to a worker."""
    made, target, state, tuning = begin(name, where)
    assert isinstance(tuning, dict)
    assert same(pickle.loads(pickle.dumps(tuning)), tuning)
    others = copy.deepcopy((state, tuning))
    for _ in range(5):
        one = made.step(target, state, tuning)
        made.learn(target, state, tuning)
        other = made.step(target, *others)
        made.learn(target, *others)
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(state.records, others[0].records)
    for parameter in target.model.parameters:
        np.testing.assert_array_equal(state.theta[parameter.name], others[0].theta[parameter.name])
    assert state.rng.bit_generator.state == others[0].rng.bit_generator.state


def same(one, other):
    """Whether two tunings are the same, arrays and objects included.

    What an object calls its `scratch` is worked out anew in every step: no part of its tuning.
    """
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if hasattr(one, "__dict__"):
        scratch = getattr(type(one), "scratch", ())
        kept = [{k: v for k, v in vars(x).items() if k not in scratch} for x in (one, other)]
        return type(one) is type(other) and same(*kept)
    return one == other


def frozen_part(tuning):
    """What a tuning says without the mere notes of the last step."""
    return {
        name: [frozen_part(own) for own in value] if name == "moves" else value
        for name, value in tuning.items()
        if not name.startswith("last_")
    }


SCHEDULE = Schedule(warmup=70, draws=30)


def drawn(target, move):
    """Return the draws of a chain; what was learned in warm-up must stay as it is."""
    state = chain.start(target, [move], np.random.default_rng(3))
    state, _ = chain.advance(target, [move], SCHEDULE, state, SCHEDULE.warmup)
    learned = copy.deepcopy(frozen_part(state.tunings[0]))
    state, draws = chain.advance(target, [move], SCHEDULE, state, SCHEDULE.draws)
    assert same(learned, frozen_part(state.tunings[0]))
    return draws


def drawn_in_parts(target, move, folder):
    """Return the draws of a chain that is written and read on its way."""
    state, parts = chain.start(target, [move], np.random.default_rng(3)), []
    for iterations in (40, 33, 27):
        state, draws = chain.advance(target, [move], SCHEDULE, state, iterations)
        parts.append(draws)
        arrays = {}
        packed = pack_state(state, arrays)
        write_arrays(folder / "state.npz", arrays, packed)
        arrays, packed = read_arrays(folder / "state.npz")
        fresh = chain.start(target, [move], np.random.default_rng(3))
        state = unpack_state(packed, arrays, fresh)
    return Draws.join(parts)


@each_pair
def test_a_chain_that_was_written_and_read_goes_on_as_it_would_have(name, where, tmp_path):
    made = MOVES[name][0]
    target = make(where, made)
    whole, resumed = drawn(target, made), drawn_in_parts(target, made, tmp_path)
    assert len(whole) == len(resumed) == SCHEDULE.draws
    for one, other in ((whole.theta, resumed.theta), (whole.reports, resumed.reports)):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


LEARNED = [
    (StepSize, "size", "ScaleMove/strata"),
    *((Precision, name, "ParameterUpdate(Slice)/count") for name in Precision.learned),
    (Geometry, "history", "Transport/count"),
    (Geometry, "covariance_given_u", "Transport/count"),
    (Gains, "inside", "Transport/dense"),
    *((Walk, name, "Transport/count") for name in Walk.learned),
    *((Jump, name, "Transport/count") for name in Jump.learned),
    (RegressionJump, "mean", "Transport(steps=1)/dense"),
    (RegressionJump, "steps", "Transport(steps=1)/dense"),
    (LearnedJump, "fit", "Transport(steps=1)/count"),
]


@pytest.mark.parametrize(("kind", "attribute", "place"), LEARNED)
def test_what_is_learned_and_not_written_is_seen(kind, attribute, place, tmp_path, monkeypatch):
    """The test above fails if one attribute is left out of what a checkpoint writes."""
    less = tuple(name for name in kind.learned if name != attribute)
    monkeypatch.setattr(kind, "learned", less)
    name, where = place.split("/")
    made = MOVES[name][0]
    target = make(where, made)
    whole, resumed = drawn(target, made), drawn_in_parts(target, made, tmp_path)
    assert any(not np.array_equal(whole.theta[key], resumed.theta[key]) for key in whole.theta)


def test_what_cannot_be_written_is_refused_by_name():
    with pytest.raises(TypeError, match=r"checkpoint cannot hold x\[0\]\['f'\], function"):
        pack([{"f": lambda: 0}], {}, "x")


@pytest.mark.parametrize("name", ["RecordSweep", "BlockSweep", "BlockSweep(size=4)"])
def test_acceptance_is_counted_for_each_record(name):
    made, target, state, tuning = begin(name, "cells")
    before = state.acceptance.copy()
    share, _ = made.step(target, state, tuning)
    counted = state.acceptance - before
    assert set(counted) <= {0, 1}
    assert counted.sum() == round(share * N)


@pytest.mark.parametrize(
    ("make_move", "message"),
    [
        (lambda: na.moves.BlockSweep(size=0), "size must be a positive integer; got 0"),
        (lambda: na.moves.BlockSweep(size=1.5), "size must be a positive integer; got 1.5"),
        (lambda: na.moves.Transport(steps=0), "steps must be a positive integer; got 0"),
        (lambda: na.moves.Transport(steps=1.5), "steps must be a positive integer; got 1.5"),
        (
            lambda: na.moves.Interweave(na.moves.RecordSweep(), cycles=0),
            "cycles must be a positive integer; got 0",
        ),
        (lambda: na.moves.Interweave(), "needs at least one move; got none"),
    ],
)
def test_bad_arguments(make_move, message):
    with pytest.raises(ValueError, match=message):
        make_move()


@pytest.mark.parametrize(("old", "new"), [("Stretch", "ScaleMove"), ("TableSteps", "CountMove")])
def test_the_old_names_still_work(old, new):
    with pytest.warns(DeprecationWarning, match=f"noiseaware.moves.{old} is now .*{new}"):
        assert getattr(na.moves, old) is getattr(na.moves, new)


def test_the_old_name_of_a_models_method_still_works():
    class Old(na.models.StratifiedMeans):
        scale_records = None

        def stretch_records(self, theta, records, amount):
            return na.models.StratifiedMeans.scale_records(self, theta, records, amount)

    made = make("strata")
    with pytest.warns(DeprecationWarning, match="Old.stretch_records is now scale_records"):
        target = Target(Old([4, 5]), made.release)
    na.moves.ScaleMove().check(target)


@pytest.mark.parametrize("name", ["Soma", "FullConditional", "Autoregressive"])
def test_moves_that_have_left_say_where_they_are(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; .*examples/moves/"):
        getattr(na.moves, name)


@pytest.mark.parametrize("example", [soma, full_conditional, crank_nicolson])
def test_an_example_runs(example, monkeypatch, capsys):
    monkeypatch.setattr(na, "sample", functools.partial(na.sample, draws=50, progressbar=False))
    example.main()
    assert "r_hat" in capsys.readouterr().out
