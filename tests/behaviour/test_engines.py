"""loky, Dask and Ray through joblib: same draws, progress, Ctrl-C, and workers that are killed.

The clusters are real: processes of their own, on this machine. Those of Dask are a LocalCluster,
and a scheduler with two workers that are started by hand.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import DiesOften, same_draws, small_release

pytestmark = [
    pytest.mark.full,
    # The engines' own: sockets that they leave to the garbage collector, and the like.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SHORT = {"draws": 60, "warmup": 60, "chains": 2, "random_seed": 3, "progressbar": False}
STUDY = {"n_records": 12, "replicates": 6, "random_seed": 3, "progressbar": False}
SAMPLER = {"short": na.studies.Sampler(na.moves.algorithm1(), draws=40, warmup=40)}
KILLS = [1] + [3] * -(-int(os.environ.get("NOISEAWARE_KILLS", "3")) // 3)
"""Workers that die in a run: 1, and 3 in as many runs as make the number in NOISEAWARE_KILLS. Five
that die in a row without a result end a run, as they should."""


@contextlib.contextmanager
def loky():
    with joblib.parallel_config("loky", n_jobs=2):
        yield


@contextlib.contextmanager
def local_cluster():
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    import dask

    with (
        # Or it gives up a worker that was killed 15 seconds ago and is killed again.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        yield


@contextlib.contextmanager
def two_workers_by_hand(folder):
    """`dask scheduler` and twice `dask worker`, as on three machines."""
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    said = folder / "scheduler.json"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    scheduler += ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(said)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard"]
    worker += ["--nthreads", "1", "--scheduler-file", str(said)]
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, *(path for path in sys.path if path)])
    started = []
    with (folder / "log").open("w") as log:
        options = {"env": {**os.environ, "PYTHONPATH": paths}, "stdout": log, "stderr": log}
        try:
            for words in (scheduler, worker, worker):
                started.append(subprocess.Popen(words, cwd=folder, **options))
            until = time.monotonic() + 120
            while not said.exists():
                assert time.monotonic() < until, (folder / "log").read_text()
                time.sleep(0.1)
            with distributed.Client(scheduler_file=str(said)) as client:
                client.wait_for_workers(2, timeout=120)
                with joblib.parallel_config("dask"):
                    yield
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(timeout=60)


@contextlib.contextmanager
def ray_here():
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.util.joblib import register_ray

    register_ray()
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *(p for p in sys.path if p)])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    try:
        with joblib.parallel_config("ray", n_jobs=2):
            yield
    finally:
        ray.shutdown()


@pytest.fixture(scope="module", params=["loky", "dask-local", "dask-by-hand", "ray"])
def cluster(request, tmp_path_factory):
    makers = {
        "loky": loky,
        "dask-local": local_cluster,
        "dask-by-hand": lambda: two_workers_by_hand(tmp_path_factory.mktemp("dask")),
        "ray": ray_here,
    }
    with makers[request.param]():
        yield request.param


@pytest.fixture
def engine(cluster):
    """Return an engine with two workers: one that was killed may not be back yet."""
    if cluster.startswith("dask"):
        from distributed import get_client

        get_client().wait_for_workers(2, timeout=120)
    return cluster


@pytest.fixture(scope="module")
def whole():
    return na.sample(na.models.Bernoulli(), small_release(), **ALGORITHM_1, cores=1)


@pytest.fixture(scope="module")
def done():
    return study(na.models.Bernoulli())


ALGORITHM_1 = SHORT | {"moves": na.moves.algorithm1()}


def study(model, **options):
    return na.study(model, small_release().mechanism, samplers=SAMPLER, **(STUDY | options))


def same_studies(one, other):
    for name in ("mean", "lower", "upper"):
        np.testing.assert_array_equal(one.tree["replicates"][name], other.tree["replicates"][name])


class Watching:
    """Progress that is counted."""

    def __init__(self, chains, schedule):
        self.told = []
        made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def update(self, chain, iteration, acceptance):
        self.told.append((chain, iteration))


made = []


def test_sample(engine, whole):
    made.clear()
    options = ALGORITHM_1 | {"progressbar": Watching}
    same_draws(na.sample(na.models.Bernoulli(), small_release(), **options), whole)
    for chain in range(2):
        assert [i for c, i in made[0].told if c == chain] == [6 * k for k in range(21)]


def test_the_default_sampler(engine):
    inside = na.sample(na.models.Bernoulli(), small_release(), **SHORT)
    with joblib.parallel_config("sequential"):
        same_draws(inside, na.sample(na.models.Bernoulli(), small_release(), **SHORT, cores=1))


def test_study(engine, done):
    told = []
    same_studies(study(na.models.Bernoulli(), progressbar=told.append), done)
    assert told == [0] + [1] * STUDY["replicates"]


def test_a_class_that_workers_cannot_import(engine, monkeypatch):
    monkeypatch.setattr(DiesOften, "__module__", "nowhere")
    monkeypatch.setitem(sys.modules, "nowhere", sys.modules[small_release.__module__])
    model = DiesOften(os.getpid(), ".", 1, 0)
    said = "No module named 'nowhere'" if engine == "ray" else "can import; they say: .*'nowhere'"
    with pytest.raises(Exception, match=said):
        na.sample(model, small_release(), **ALGORITHM_1)


@pytest.mark.filterwarnings("ignore:a worker process died:RuntimeWarning")
@pytest.mark.parametrize("kills", KILLS)
def test_workers_that_are_killed_in_a_sample(engine, whole, kills, tmp_path):
    model = DiesOften(os.getpid(), tmp_path, 4 if kills == 1 else 6, kills)
    same_draws(na.sample(model, small_release(), **ALGORITHM_1), whole)
    assert len(list(tmp_path.iterdir())) == kills


@pytest.mark.filterwarnings("ignore:a worker process died:RuntimeWarning")
@pytest.mark.parametrize("kills", KILLS)
def test_workers_that_are_killed_in_a_study(engine, kills, tmp_path):
    replicates = max(6, 2 * kills)
    model = DiesOften(os.getpid(), tmp_path, 60, kills)
    after = study(model, replicates=replicates)
    same_studies(after, study(na.models.Bernoulli(), replicates=replicates))
    assert len(list(tmp_path.iterdir())) == kills


def press_soon():
    """Press Ctrl-C in a moment, on this process alone."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()


class Pressing(Watching):
    """Progress that presses Ctrl-C when the chains have come to some iteration."""

    def update(self, chain, iteration, acceptance):
        super().update(chain, iteration, acceptance)
        if self.told.count((chain, iteration)) == 1 and (chain, iteration) == (1, 3 * 5003):
            press_soon()


def test_ctrl_c_in_a_sample(engine, whole):
    longer = ALGORITHM_1 | {"draws": 100_000, "progressbar": Pressing}
    part = na.sample(na.models.Bernoulli(), small_release(), **longer)
    assert part.attrs["complete"] == 0
    assert part["posterior"].sizes["draw"] >= 3 * 5003 - SHORT["warmup"]
    same_draws(na.sample(na.models.Bernoulli(), small_release(), **ALGORITHM_1), whole)


def test_ctrl_c_in_a_study(engine, done, tmp_path):
    told = []

    def advance(number):
        told.append(number)
        if len(told) == 4:
            press_soon()

    with pytest.raises(KeyboardInterrupt, match="of 1000 replicates; what is done is in"):
        study(
            na.models.Bernoulli(),
            replicates=1000,
            checkpoint=tmp_path / "study",
            progressbar=advance,
        )
    lines = (tmp_path / "study" / "replicates.jsonl").read_text().splitlines()
    # Ctrl-C may come between the line and what is told of it.
    assert 3 <= sum(told) <= len(lines) - 1 <= sum(told) + 1
    same_studies(study(na.models.Bernoulli()), done)
