"""Whatever a chain learns is in its checkpoint.

Of an object in a tuning, a checkpoint holds the attributes that it names in `learned`. One that is
forgotten there would have its first value again in a resumed run, which would then go on with other
draws, silently. So a chain goes through its warm-up, is written, and is read into a chain that has
just been started; then every attribute of every object that can be reached must be the same.
"""

import dataclasses

import numpy as np
import pytest

import noiseaware as na
from calibration.settings import MODELS
from noiseaware.calibration import Simulation
from noiseaware.contract import move_abilities
from noiseaware.running.plain import pack_state, unpack_state
from noiseaware.running.run import prepare
from noiseaware.sampler import chain
from noiseaware.sampler.moves.geometry import Geometry

WARMUP = 60
QUICK = ("regression-unknown", "bernoulli", "normal-histogram", "categorical")


def walk(value, other, where, seen):
    """Yield where two values differ, as far down as there is anything to compare."""
    if type(value) is not type(other):
        yield f"{where}: {type(value).__name__}, {type(other).__name__}"
        return
    if isinstance(value, np.ndarray):
        if not np.array_equal(value, other, equal_nan=value.dtype.kind == "f"):
            yield where
        return
    if isinstance(value, np.random.Generator):
        value, other = value.bit_generator.state, other.bit_generator.state
    if isinstance(value, int | float | str | bytes | np.generic | type(None)):
        if value != other and not (value != value and other != other):
            yield f"{where}: {value}, {other}"
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        if value.keys() != other.keys():
            yield f"{where}: {sorted(map(str, value.keys() ^ other.keys()))}"
            return
        pairs = [(f"{where}[{key!r}]", x, other[key]) for key, x in value.items()]
    elif isinstance(value, list | tuple):
        if len(value) != len(other):
            yield f"{where}: {len(value)} and {len(other)} entries"
            return
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(value, other, strict=True))]
    else:
        scratch = move_abilities(value).scratch  # worked out anew in every step
        names = [n for n in vars(value) if n not in scratch] if "__dict__" in dir(value) else []
        pairs = [(f"{where}.{n}", vars(value)[n], vars(other).get(n)) for n in names]
    for name, x, y in pairs:
        yield from walk(x, y, name, seen)


def forgotten(model, query, n):
    """Return what differs between a chain after its warm-up and the same after a checkpoint."""
    rng = np.random.default_rng(5)
    mechanism = na.mechanisms.Laplace(query, epsilon=2.0)
    simulation = Simulation(model, n, None, mechanism.privatize)
    _, records = simulation.database(rng)  # n of them; None: as many as the model draws
    target, moves = prepare(model, simulation.release(records, rng), None)
    schedule = chain.Schedule.make(WARMUP, 40, 0)

    def started():
        return chain.start(target, moves, np.random.Generator(np.random.SFC64(3)))

    state, differences = started(), []
    for iterations in (WARMUP - 15, 25):  # in the warm-up, and after it
        state, _ = chain.advance(target, moves, schedule, state, iterations)
        arrays = {}
        again = unpack_state(pack_state(state, arrays), arrays, started())
        for field in dataclasses.fields(state):
            both = getattr(state, field.name), getattr(again, field.name)
            differences += walk(*both, field.name, set())
    return differences


@pytest.mark.parametrize("name", QUICK)
def test_what_a_chain_has_learned_is_in_its_checkpoint(name):
    assert forgotten(*MODELS[name]) == []


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in MODELS if name not in QUICK])
def test_what_a_chain_of_any_model_has_learned_is_in_its_checkpoint(name):
    assert forgotten(*MODELS[name]) == []


@pytest.mark.parametrize("name", Geometry.learned)
def test_what_is_forgotten_is_found(name, monkeypatch):
    monkeypatch.setattr(Geometry, "learned", tuple(x for x in Geometry.learned if x != name))
    found = forgotten(*MODELS["regression-unknown"])
    assert any(f".{name}" in where for where in found), found
