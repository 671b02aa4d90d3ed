"""A run that is killed and resumed makes the draws of one that was never stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import noiseaware as na
from behaviour.examples import Coin, Dies, regression, small_release
from later import only
from noiseaware.basics.files import CheckpointError, read_arrays, write_arrays, write_whole
from noiseaware.cli import app
from noiseaware.running import checkpoint as checkpoints
from noiseaware.running import workers
from noiseaware.running.checkpoint import HEADER, words_of
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.progress import Silent

SETTINGS = {"draws": 60, "warmup": 40, "chains": 2, "random_seed": 4, "progressbar": False}


@pytest.fixture(autouse=True)
def _write_every_segment(monkeypatch):
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)


def stops_at(iteration):
    """Make a progress in which a chain that gets this far ends the run, as kill -9 would."""

    class Stops(Silent):
        def update(self, chain, done, acceptance):
            if done >= iteration:
                raise SystemExit

    return Stops


def assert_same(one, other):
    """Every draw, report and database, bit for bit."""
    for group in ("posterior", "sample_stats", "latent_records"):
        assert (group in one.children) == (group in other.children)
        if group in one.children:
            assert one[group].to_dataset().equals(other[group].to_dataset())


@pytest.fixture(scope="module")
def whole():
    """What a run that was never stopped draws."""
    return na.sample(*regression(), keep_records=7, **SETTINGS)


# In warm-up and after it; in `make validate` also at its end, and with the last draw.
@pytest.mark.parametrize("iteration", only([5, 75], [5, 40, 75, 100]))
def test_a_run_that_is_killed_goes_on(iteration, tmp_path, whole):
    model, release = regression()
    folder = tmp_path / "run"
    options = {**SETTINGS, "progressbar": stops_at(iteration), "keep_records": 7}
    with pytest.raises(SystemExit):
        na.sample(model, release, checkpoint=folder, **options)
    assert_same(na.resume(folder, progressbar=False), whole)
    # It is finished now: asking again draws nothing, and the same call does the same.
    assert_same(na.resume(folder, progressbar=stops_at(101)), whole)
    options["progressbar"] = False
    assert_same(na.sample(model, release, checkpoint=folder, **options), whole)


def test_an_unknown_number_of_records(tmp_path):
    noise = na.mechanisms.Laplace(na.queries.Count(), scale=1.0, neighbours="add-remove")
    given = (na.models.Bernoulli(), na.Release([5.2], noise, n_records=None))
    options = {**SETTINGS, "size": na.sizes.Uniform(1, 40)}
    whole = na.sample(*given, **options)
    with pytest.raises(SystemExit):
        na.sample(*given, checkpoint=tmp_path, **{**options, "progressbar": stops_at(65)})
    assert_same(na.resume(tmp_path, progressbar=False), whole)


def test_more_draws(tmp_path):
    model, release = regression()
    more = {**SETTINGS, "draws": 90}
    na.sample(model, release, checkpoint=tmp_path / "run", keep_records=6, **SETTINGS)
    longer = na.resume(tmp_path / "run", draws=90, progressbar=False)
    whole = na.sample(model, release, **more)
    assert longer["posterior"].to_dataset().equals(whole["posterior"].to_dataset())
    assert list(longer["latent_records"]["draw"]) == [9, 19, 29, 39, 49, 59, 69, 79, 89]
    with pytest.raises(CheckpointError, match="has 90 draws of each chain"):
        na.resume(tmp_path / "run", draws=60, progressbar=False)
    # What was refused left nothing behind.
    assert_same(na.resume(tmp_path / "run", progressbar=False), longer)


@pytest.mark.parametrize("draws", [None, 90])
def test_a_header_that_was_edited_is_refused(draws, tmp_path):
    na.sample(na.models.Bernoulli(), small_release(), checkpoint=tmp_path, **SETTINGS)
    header = json.loads((tmp_path / HEADER).read_text())
    header["release"]["values"]["count of 1"] += 3.0
    (tmp_path / HEADER).write_text(json.dumps(header))
    with pytest.raises(CheckpointError, match=r"it was not drawn from what run\.json says"):
        na.resume(tmp_path, draws=draws, progressbar=False)


def test_draws_of_another_run_are_refused(tmp_path):
    for seed in (1, 2):
        options = {**SETTINGS, "random_seed": seed, "checkpoint": tmp_path / str(seed)}
        na.sample(na.models.Bernoulli(), small_release(), **options)
    (tmp_path / "1" / "draws-000001.npz").replace(tmp_path / "2" / "draws-000001.npz")
    with pytest.raises(CheckpointError, match=r"draws-000001\.npz cannot be read: it was not"):
        na.resume(tmp_path / "2", progressbar=False)


def test_words_tell_every_number_of_an_array():
    class Shown:
        def __init__(self, values):
            self.values = values

    class Says(Shown):
        def __repr__(self):
            return f"Says({self.values!r})"

    values = np.random.default_rng(1).random(3000)
    other = values.copy()
    other[1500] = np.nextafter(other[1500], 1.0)
    for kind in (Shown, Says):
        one, two, three = (words_of(kind(x)) for x in (values, values.copy(), other))
        assert one == two
        assert one != three
        assert len(one) < 1000


def test_a_write_that_is_interrupted_is_done_again_to_the_same_files(tmp_path, monkeypatch, whole):
    model, release = regression()
    write, left = checkpoints.write_arrays, [6]

    def stops(path, arrays, words, synced):
        left[0] -= path.name.startswith("state")
        if left[0] == 0:
            left[0] = -1
            raise KeyboardInterrupt
        write(path, arrays, words, synced=synced)

    monkeypatch.setattr(checkpoints, "write_arrays", stops)
    with pytest.raises(KeyboardInterrupt, match="the same call goes on"):
        na.sample(model, release, checkpoint=tmp_path, keep_records=7, **SETTINGS)
    left[0] = 10
    part = na.resume(tmp_path, progressbar=False)
    assert part.attrs["complete"] == 0
    assert_same(na.resume(tmp_path, progressbar=False), whole)


class PowerCut(BaseException):
    """Nothing else happens."""


def test_a_power_cut_costs_what_was_not_waited_for(tmp_path, monkeypatch, whole):
    """What was not synced is damaged; the run goes on from what was, to the same draws."""
    model, release = regression()
    monkeypatch.setattr(checkpoints, "LONGEST_WAIT", 0.0)  # every segment is written
    monkeypatch.setattr(checkpoints, "SHARE", 1e-9)  # and only the first is waited for
    put, puts = checkpoints.Checkpoint._put, []

    def cut(self, states):
        put(self, states)
        puts.append(self._last)
        if len(puts) == 12:
            raise PowerCut

    monkeypatch.setattr(checkpoints.Checkpoint, "_put", cut)
    with pytest.raises(PowerCut):
        na.sample(model, release, checkpoint=tmp_path, keep_records=7, **SETTINGS)
    monkeypatch.undo()
    assert sorted(tmp_path.glob("state-*.npz")) == [puts[0], puts[-1]]
    for path in tmp_path.glob("*.npz"):
        if path != puts[0]:
            path.write_bytes(path.read_bytes()[:100])
    assert_same(na.resume(tmp_path, progressbar=False), whole)


def test_databases_are_evenly_spaced():
    assert Schedule.make(0, 10, 3).keep == (2, 6, 9)
    assert Schedule.make(0, 15, 3, first=10).keep == (2, 6, 9, 12)
    assert Schedule.make(5, 10, 0).keep == ()


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A checkpoint of a run that is over."""
    folder = tmp_path_factory.mktemp("small") / "run"
    na.sample(na.models.Bernoulli(), small_release(), checkpoint=folder, **SETTINGS)
    return folder


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"warmup": 30}, "warmup"),
        ({"chains": 3}, "chains"),
        ({"random_seed": 5}, "random_seed"),
        ({"keep_records": 2}, "keep_records"),
        ({"moves": na.moves.algorithm1()}, "moves"),
        ({"model": na.models.Bernoulli(a=2.0)}, "model"),
        ({"release": na.Release([9.0], small_release().mechanism, 10)}, "release"),
    ],
)
def test_another_run_is_refused_by_name(change, name, small_run):
    given = {"model": na.models.Bernoulli(), "release": small_release(), **SETTINGS, **change}
    with pytest.raises(CheckpointError, match=f"belongs to another run: its {name} is"):
        na.sample(**given, checkpoint=small_run)


def test_what_a_file_cannot_hold_is_asked_for(tmp_path):
    moves = [na.moves.RecordSweep(), na.moves.ParameterUpdate()]
    whole = na.sample(Coin(), small_release(), moves=moves, **SETTINGS)
    options = {**SETTINGS, "progressbar": stops_at(70)}
    with pytest.raises(SystemExit):
        na.sample(Coin(), small_release(), moves=moves, checkpoint=tmp_path, **options)
    with pytest.raises(ValueError, match=r"model must be given: Coin\(\) is more than"):
        na.resume(tmp_path)
    with pytest.raises(ValueError, match="moves must be given"):
        na.resume(tmp_path, model=Coin())
    with pytest.raises(CheckpointError, match="its model is"):
        na.resume(tmp_path, model=na.models.Bernoulli(), moves=moves)
    resumed = na.resume(tmp_path, model=Coin(), moves=moves, progressbar=False)
    assert_same(resumed, whole)


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds something else"):
        na.sample(na.models.Bernoulli(), small_release(), checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        na.resume(tmp_path)


def test_two_processes_do_not_mix(tmp_path):
    script = "import sys, pathlib, noiseaware.basics.files as f"
    script += "\nwith f.locked(pathlib.Path(sys.argv[1])):"
    script += "\n    print('held', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointError, match="in use by another process"):
            na.sample(na.models.Bernoulli(), small_release(), checkpoint=tmp_path, **SETTINGS)
        other.kill()
    na.sample(na.models.Bernoulli(), small_release(), checkpoint=tmp_path, **SETTINGS)


# ------------------------------------------------------------------ files


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b/c": np.array(3), "d": np.zeros((0, 2))}
    write_arrays(tmp_path / "x.npz", arrays, {"words": [1, None, float("inf")]})
    found, words = read_arrays(tmp_path / "x.npz")
    assert words == {"words": [1, None, float("inf")]}
    for name, array in arrays.items():
        assert found[name].tobytes("A") == array.tobytes("A")
        assert found[name].strides == array.strides
    with np.load(tmp_path / "x.npz") as stored:  # by any program that reads NumPy's files
        assert set(stored) == {"json", *arrays}


def test_a_damaged_file_is_refused(tmp_path):
    folder = tmp_path / "run"
    na.sample(na.models.Bernoulli(), small_release(), checkpoint=folder, **SETTINGS)
    rng, said = np.random.default_rng(1), []
    for path in (folder / HEADER, *folder.glob("*.npz")):
        good = path.read_bytes()
        for _ in range(5):
            bad = bytearray(good)
            at = int(rng.integers(len(bad)))
            bad[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(bad) if rng.random() < 0.8 else good[:at])
            try:
                na.resume(folder, progressbar=False)
            except (ValueError, TypeError) as error:
                said.append(str(error))
        path.write_bytes(good)
    assert len(said) > 7
    assert not any("\n" in words for words in said)


def test_no_half_written_file_stands_under_its_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fails(part):
        part.write_text("ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_whole(path, fails)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------ processes


RELEASE = {
    "format": "noiseaware-release",
    "version": 1,
    "n_records": 100,
    "mechanism": {"type": "Laplace", "scale": 2.0, "query": {"type": "Count", "value": 1}},
    "values": [37.2],
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "release.json").write_text(json.dumps(RELEASE))
    (tmp_path / "model.toml").write_text('type = "Bernoulli"\n')
    return tmp_path


def fit_words(folder, *more):
    names = ("release.json", "model.toml", "posterior.nc")
    release, model, out = (str(folder / name) for name in names)
    return ["fit", release, "-m", model, "-o", out, "--seed", "1", "-q", *more]


def started(folder, *words):
    """Start the command in a process of its own."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "noiseaware", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=folder,
    )


def wait_for(folder, pattern, process):
    until = time.monotonic() + 60
    while not list(folder.glob(pattern)) and time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize("how", only([signal.SIGTERM], [signal.SIGKILL, signal.SIGTERM]))
def test_a_fit_that_is_killed_is_resumed(files, how):
    run = str(files / "run")
    words = fit_words(files, "--draws", "40000", "--chains", "2", "--warmup", "20")
    with started(files, *words, "--checkpoint", run) as process:
        wait_for(files / "run", "state-*.npz", process)
        process.send_signal(how)
        _, said = process.communicate()
    if how == signal.SIGTERM:
        assert process.returncode == 130
        assert "noiseaware resume" in said
        assert len(said.splitlines()) == 1
    # How many draws it had: as many more, and the run is over.
    # The last state that a power cut spares may stand beside the last.
    state = max((files / "run").glob("state-*.npz"))
    done = int(state.stem.split("-")[1]) - 20
    words = ["resume", run, "--draws", str(done + 50), "-q"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 1), result.output
    again = na.load(files / "posterior.nc")
    whole = na.sample(
        na.models.Bernoulli(), na.Release.from_dict(RELEASE), draws=done + 50, chains=2,
        warmup=20, random_seed=1, progressbar=False,
    )  # fmt: skip
    assert again["posterior"].to_dataset().equals(whole["posterior"].to_dataset())
    assert f"--draws {done + 50} --seed 1" in again.attrs["command"]


def test_a_checkpoint_of_python_needs_a_place_to_write(tmp_path):
    na.sample(na.models.Bernoulli(), small_release(), checkpoint=tmp_path / "run", **SETTINGS)
    result = CliRunner().invoke(app, ["resume", str(tmp_path / "run"), "-q"])
    assert result.exit_code == 3
    assert "say where to write with --out" in result.output
    out = tmp_path / "posterior.nc"
    result = CliRunner().invoke(app, ["resume", str(tmp_path / "run"), "-q", "-o", str(out)])
    assert result.exit_code in (0, 1), result.output
    assert na.load(out)["posterior"].sizes["draw"] == 60


@pytest.mark.full
def test_a_worker_that_is_killed(tmp_path):
    moves = na.moves.algorithm1()
    whole = na.sample(na.models.Bernoulli(), small_release(), moves=moves, **SETTINGS)
    model = Dies(os.getpid(), str(tmp_path / "died"))
    with pytest.warns(RuntimeWarning, match="a worker process died"):
        after = na.sample(model, small_release(), moves=moves, cores=2, **SETTINGS)
    assert_same(after, whole)


def test_workers_that_die_again_and_again(monkeypatch):
    def breaks(calls):
        list(calls)
        raise workers.TerminatedWorkerError

    monkeypatch.setattr(workers.warnings, "warn", lambda *words, **options: None)
    with pytest.raises(RuntimeError, match="5 worker processes died in a row"):
        workers.call_all(breaks, len, [()])


@pytest.mark.full
def test_a_class_that_workers_cannot_import(monkeypatch):
    monkeypatch.setattr(Coin, "__module__", "nowhere")
    monkeypatch.setitem(sys.modules, "nowhere", sys.modules[small_release.__module__])
    with pytest.raises(TypeError, match=r"can import; they say: .*'nowhere'\. Put your class"):
        na.sample(Coin(), small_release(), cores=2, **SETTINGS)


ORPHANS = """
import sys, noiseaware as na
release = na.Release.from_json(sys.argv[1])
na.sample(na.models.Bernoulli(), release, draws=10**7, chains=2, cores=2, progressbar=False,
          checkpoint=sys.argv[2])
"""


@pytest.mark.full
def test_workers_end_with_their_parent(files):
    paths = os.pathsep.join(path for path in sys.path if path)
    words = [sys.executable, "-c", ORPHANS, str(files / "release.json"), str(files / "run")]
    parent = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths})
    wait_for(files / "run", "state-*.npz", parent)
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent.pid)], capture_output=True)
    children = [int(word) for word in listed.stdout.split()]
    assert len(children) >= 2
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert not list(Path("/dev/shm").glob(f"joblib_memmapping_folder_{parent.pid}_*"))
