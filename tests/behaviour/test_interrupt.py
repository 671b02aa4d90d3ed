"""Ctrl-C: what was drawn is kept, and says that it is not all."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import StopsAt, regression, small_release
from noiseaware.cli.files import stopping, write_or_say

SETTINGS = {"draws": 100, "warmup": 20, "chains": 2, "random_seed": 4, "progressbar": False}


class StopsAtCall(na.models.Bernoulli):
    """A model in which Ctrl-C is pressed at some call of its kernel."""

    def __init__(self, call):
        super().__init__()
        self.left = call

    def update_parameters(self, theta, records, rng):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().update_parameters(theta, records, rng)


def test_a_model_that_is_interrupted_in_one_chain():
    whole = na.sample(
        na.models.Bernoulli(), small_release(), cores=1, moves=na.moves.algorithm1(), **SETTINGS
    )
    # The first call is the check before sampling. 120 iterations in 20 stretches: after ten of
    # them both chains have 60 iterations, 40 of them draws, and the first is cut off in the next.
    part = na.sample(
        StopsAtCall(1 + 2 * 60 + 3),
        small_release(),
        cores=1,
        moves=na.moves.algorithm1(),
        **SETTINGS,
    )
    assert part.attrs["complete"] == 0
    assert whole.attrs["complete"] == 1
    assert part["posterior"].sizes["draw"] == 40
    np.testing.assert_array_equal(
        part["posterior"]["probability"].values, whole["posterior"]["probability"].values[:, :40]
    )
    assert part["sample_stats"]["acceptance_rate"].shape == (2, 40)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("position", [0, 3])
def test_a_move_that_is_interrupted(cores, position):
    model, release = regression()
    moves = [na.moves.ParameterUpdate(), na.moves.Transport(), na.moves.RecordSweep()]
    whole = na.sample(model, release, cores=1, moves=moves, keep_records=10, **SETTINGS)
    moves.insert(position, StopsAt(75))
    part = na.sample(model, release, cores=cores, moves=moves, keep_records=10, **SETTINGS)
    assert part.attrs["complete"] == 0
    # In this process the second chain has not begun its stretch; workers are all cut off at 75.
    draws = part["posterior"].sizes["draw"]
    assert draws == (52 if cores == 1 else 55)
    for name, values in part["posterior"].data_vars.items():
        np.testing.assert_array_equal(values, whole["posterior"][name].values[:, :draws])
    kept = part["latent_records"].sizes["draw"]
    assert kept == 5
    np.testing.assert_array_equal(
        part["latent_records"]["records"].values,
        whole["latent_records"]["records"].values[:, :kept],
    )
    acceptance = part["sample_stats"]["record_acceptance"].values
    assert (acceptance >= 0).all()
    assert (acceptance <= 1).all()


def test_check_says_that_the_run_was_stopped():
    moves = [*na.moves.algorithm1(), StopsAt(75)]
    part = na.sample(na.models.Bernoulli(), small_release(), moves=moves, **SETTINGS)
    result = na.check(part)
    assert not result
    assert "the run was stopped after 52 of 100 draws" in str(result)


def test_an_interrupted_run_can_be_saved(tmp_path):
    moves = [*na.moves.algorithm1(), StopsAt(75)]
    part = na.sample(na.models.Bernoulli(), small_release(), moves=moves, **SETTINGS)
    na.save(part, tmp_path / "part.nc")
    again = na.load(tmp_path / "part.nc")
    assert again.attrs["complete"] == 0
    assert again.identical(part)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("iteration", [0, 10, 19])
def test_interrupted_in_warm_up(cores, iteration):
    moves = [*na.moves.algorithm1(), StopsAt(iteration)]
    with pytest.raises(KeyboardInterrupt, match="before every chain had ended its warm-up"):
        na.sample(na.models.Bernoulli(), small_release(), moves=moves, cores=cores, **SETTINGS)


def test_the_calibration_checks_can_be_interrupted():
    moves = [*na.moves.algorithm1(), StopsAt(30)]
    with pytest.raises(KeyboardInterrupt):
        na.sbc(
            na.models.Bernoulli(),
            small_release().mechanism,
            n_records=5,
            replicates=3,
            draws=50,
            warmup=10,
            moves=moves,
        )


class Presses(StopsAt):
    """A move in which Ctrl-C is pressed so many times."""

    def __init__(self, iteration, times):
        super().__init__(iteration)
        self.times, self.ended = times, []

    def step(self, target, state, tuning):
        if state.iteration == self.iteration:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
        self.ended.append(state.iteration)
        return ()


@pytest.fixture
def _ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, whoever started the tests, and still does so afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize(("times", "ended"), [(1, True), (2, False)])
def test_an_iteration_is_ended_unless_ctrl_c_is_pressed_again(times, ended):
    presses = Presses(75, times)
    part = na.sample(
        na.models.Bernoulli(),
        small_release(),
        moves=[*na.moves.algorithm1(), presses],
        cores=1,
        **SETTINGS,
    )
    assert part.attrs["complete"] == 0
    assert (75 in presses.ended) is ended


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_in_the_last_iteration_of_a_stretch():
    presses = Presses(77, 1)  # 120 iterations in 20 stretches of 6
    moves = [*na.moves.algorithm1(), presses]
    part = na.sample(na.models.Bernoulli(), small_release(), moves=moves, cores=1, **SETTINGS)
    assert part.attrs["complete"] == 0
    assert part["posterior"].sizes["draw"] == 52


LOOKING = """
import signal, sys
import noiseaware as na
from behaviour.examples import regression
from noiseaware.scrutiny import conflict, scouts

module, name = {"scouts": (scouts, "follow"), "conflict": (conflict, "Simulator")}[sys.argv[1]]
reached = []

def pressed(*_):
    reached.append(1)
    signal.raise_signal(int(sys.argv[2]))

setattr(module, name, pressed)
posterior = na.sample(
    *regression(), draws=300, warmup=20, chains=2, cores=1, random_seed=1, progressbar=False
)
assert reached
print(posterior["posterior"].sizes["draw"], posterior.attrs["complete"])
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
@pytest.mark.parametrize("look", ["scouts", "conflict"])
def test_second_looks_that_are_stopped_cost_no_draws(look, how):
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", LOOKING, look, str(int(how))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path[1:]])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.split() == ["300", "1"]


@pytest.mark.usefixtures("_ctrl_c")
def test_a_posterior_is_written_before_a_command_stops(tmp_path):
    out = tmp_path / "table.txt"

    def write(part):
        signal.raise_signal(signal.SIGTERM)
        part.write_text("all of it")

    with pytest.raises(KeyboardInterrupt, match="it is there"), stopping("stopped; it is there"):
        write_or_say(out, write)
    assert out.read_text() == "all of it"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


MANY = """
import signal
import noiseaware as na
from behaviour.examples import small_release

class Pressing:
    def __init__(self, chains, schedule):
        self.pressed = False
    def __enter__(self):
        return self
    def __exit__(self, *error):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    def update(self, chain, iteration, acceptance):
        if iteration and not self.pressed:
            self.pressed = True
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.001 * (1 + k % 20))

signal.signal(signal.SIGVTALRM, lambda *_: signal.raise_signal(signal.SIGINT))
stopped = 0
for k in range(100):
    try:
        na.sample(
            na.models.Bernoulli(), small_release(), draws=10, warmup=40_000, chains=1, cores=1,
            random_seed=1, progressbar=Pressing,
        )
    except KeyboardInterrupt:
        stopped += 1
print(stopped)
"""


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="timers of POSIX")
def test_ctrl_c_many_times():
    """At any moment of an iteration: in compiled code that reads a Generator, it once crashed."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", MANY],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path[1:]])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["100"]


SCRIPT = """
import json, sys
from behaviour.examples import SignsOfLife, small_release
import noiseaware as na
posterior = na.sample(
    na.models.Bernoulli(),
    small_release(),
    draws=4_000_000,
    warmup=100,
    chains=2,
    cores=int(sys.argv[1]),
    moves=[*na.moves.algorithm1(), SignsOfLife(STRETCH_AND_MORE, sys.argv[2])],
    random_seed=1,
    progressbar=False,
)
result = na.check(posterior)
print(json.dumps({
    "complete": int(posterior.attrs["complete"]),
    "draws": posterior["posterior"].sizes["draw"],
    "finite": bool(abs(posterior["posterior"]["probability"]).max() <= 1),
    "check": str(result),
}))
"""


@pytest.mark.full  # `make test` presses Ctrl-C on the command, in `test_command`
@pytest.mark.parametrize(
    ("cores", "group"), [(1, False), (2, False), (2, True)], ids=["one", "two", "two-terminal"]
)
def test_a_real_signal(cores, group, tmp_path):
    """SIGINT to the process; and to the whole group, as a terminal does it."""
    sign = tmp_path / "alive"
    script = SCRIPT.replace("STRETCH_AND_MORE", "12_000").replace("4_000_000", "200_000")
    tests = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(cores), str(sign)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path[1:]])},
        start_new_session=True,
        # A test run in the background ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until = time.monotonic() + 60
        while not sign.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert sign.exists(), process.communicate(timeout=5)
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    said = json.loads(out.splitlines()[-1])
    assert said["complete"] == 0
    assert 9_000 < said["draws"] < 200_000
    assert said["finite"]
    assert f"the run was stopped after {said['draws']} of 200000 draws" in said["check"]
