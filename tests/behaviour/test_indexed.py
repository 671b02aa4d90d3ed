"""Models whose records are not alike: what record i can be depends on i."""

import numpy as np
import pytest
from examples.moves.crank_nicolson import CrankNicolson
from examples.moves.full_conditional import FullConditional
from examples.moves.soma import Soma

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.agreement.fit import check_fit
from noiseaware.running.run import pick_moves
from noiseaware.sampler import chain
from noiseaware.sampler.moves import records
from noiseaware.sampler.target import CHUNK, Target

N = CHUNK + 904  # more than one chunk, the last of them not full


class Exposed:
    """x_i ~ N(theta, 1), and a first column that holds i itself: a swapped record would show."""

    parameters = (na.Parameter("mean"),)
    derived = (na.Parameter("square"),)
    innovations = na.Innovations("normal", width=1)
    uses_index = True
    n_records = N

    def sample_prior(self, rng):
        return {"mean": rng.standard_normal()}

    def log_prior(self, theta):
        return -0.5 * float(theta["mean"]) ** 2

    def sample_records(self, theta, n, rng, index):
        return self.build_records(theta, rng.standard_normal((n, 1)), index)

    def build_records(self, theta, innovations, index):
        assert len(index) == len(innovations)
        return np.column_stack([index.astype(float), theta["mean"] + innovations[:, 0]])

    def recover_innovations(self, theta, records, rng):
        return records[:, 1:] - theta["mean"]

    def log_likelihood(self, theta, records):
        return -0.5 * (records[:, 1] - theta["mean"]) ** 2

    def update_parameters(self, theta, records, rng):
        precision = 1.0 + len(records)
        return {"mean": records[:, 1].sum() / precision + rng.standard_normal() / precision**0.5}

    def derive(self, theta):
        return {"square": theta["mean"] ** 2}


class Simulator:
    """The same without a kernel, so that the chain carries the innovations."""

    parameters = Exposed.parameters
    innovations = Exposed.innovations
    uses_index = True
    sample_prior, log_prior = Exposed.sample_prior, Exposed.log_prior
    build_records = Exposed.build_records


def release(n=N):
    query = na.Query(lambda x: np.clip(x[:, 1:], -5, 5), names=["sum"], sensitivity=10.0)
    return na.Release([100.0], na.mechanisms.Laplace(query, epsilon=1.0), n_records=n)


MOVES = {
    "the default": None,
    "Algorithm 1": na.moves.algorithm1(),
    "blocks": (na.moves.BlockSweep(size=8),),
    "blocks over chunks": (na.moves.BlockSweep(size=600),),
    "everything": (na.moves.BlockSweep(size=N),),
    "turns": (CrankNicolson(),),
}


@pytest.mark.parametrize("model", [Exposed(), Simulator()], ids=["kernel", "simulator"])
@pytest.mark.parametrize("name", MOVES)
def test_every_record_keeps_its_index(name, model):
    if name == "Algorithm 1" and isinstance(model, Simulator):
        pytest.skip("needs a kernel for p(theta | x)")
    target = Target(model, release())
    moves = pick_moves(MOVES[name], target)
    state = chain.start(target, moves, np.random.default_rng(1))
    start = state.records.copy()
    state, _ = chain.advance(target, moves, chain.Schedule(3, 3), state, 6)
    assert np.array_equal(state.records[:, 0], np.arange(N))
    assert not np.array_equal(state.records, start)


def test_moves_that_mix_records_up_refuse():
    target = Target(Exposed(), release())
    with pytest.raises(ValueError, match=r"Soma needs records that are alike.*Exposed"):
        Soma().check(target)
    own = na.moves.RecordSweep(lambda *a: None)
    with pytest.raises(ValueError, match="a proposal needs records that are alike"):
        own.check(target)
    model = Exposed()
    model.record_values = np.zeros((2, 2))
    with pytest.raises(ValueError, match="FullConditional needs records that are alike"):
        FullConditional().check(Target(model, release()))


def test_the_number_of_records_must_fit():
    with pytest.raises(ValueError, match="is of 5000 records, and the release of 10"):
        check_fit(Exposed(), release(10))


def test_a_model_with_an_index_must_take_it():
    class Deaf(Exposed):
        def sample_records(self, theta, n, rng):
            return np.zeros((n, 2))

    with pytest.raises(TypeError, match="Deaf has uses_index, so sample_records must take an arg"):
        check_fit(Deaf(), release())


def test_derived_quantities_are_in_the_posterior():
    posterior = na.sample(
        Exposed(), release(), draws=5, warmup=5, chains=2, random_seed=1, progressbar=False
    )
    drawn = posterior["posterior"]
    assert np.array_equal(drawn["square"], drawn["mean"] ** 2)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda self, theta: {}, r"derive must return a dict of \['square'\]; got \[\]"),
        (lambda self, theta: 3.0, "got float"),
        (lambda self, theta: {"square": 1.0}, r"square with shape \(2,\) for two draws"),
    ],
)
def test_wrong_derived_quantities_are_named(made, message):
    wrong = type("Wrong", (Exposed,), {"derive": made})()
    with pytest.raises(ValueError, match=message):
        check_fit(wrong, release())
    with pytest.raises(TypeError, match="has `derived`, so it needs derive"):
        check_fit(type("Lacking", (Simulator,), {"derived": Exposed.derived})(), release())


BUGS = {
    "Algorithm 1": Edit(records, "from_model", "rng, begin)", "rng)"),
    "blocks": Edit(records, "from_model", "rng, begin)", "rng)"),
    "turns": Edit(CrankNicolson, "_propose", "turned, begin)", "turned)"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_move_that_forgets_where_its_chunk_starts_is_caught(name):
    with planted(BUGS[name]), pytest.raises(AssertionError):
        test_every_record_keeps_its_index(name, Exposed())
