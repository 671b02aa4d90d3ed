"""A disk that is full: one line, nothing half written, no crash, and no draws lost.

Each test has a process of its own, because what used to happen was a segmentation fault.
"""

import json
import os
import subprocess
import sys

import pytest

import noiseaware as na

resource = pytest.importorskip("resource")

BEGIN = """
import gc, json, resource, sys
import noiseaware as na
from noiseaware.running import checkpoint
from noiseaware.sampler.progress import Silent

def full(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

checkpoint.SHARE = float("inf")  # every segment is written
release = na.Release.from_json("release.json")
settings = {"draws": 300, "warmup": 100, "chains": 2, "random_seed": 1, "cores": 1}

def sampled(progressbar=False, **options):
    return na.sample(na.models.Bernoulli(), release, progressbar=progressbar, **settings, **options)
"""
SAVE = """
posterior = sampled()
na.save(posterior, "posterior.nc")
full(5000)
for name in ("posterior.nc", "other.nc"):
    try:
        na.save(posterior, name)
    except OSError as error:
        print(error.strerror)
gc.collect()
"""
CHECKPOINT = """
class Fills(Silent):
    def update(self, chain, done, acceptance):
        if done >= 200:
            full(1000)

whole = sampled()
try:
    sampled(Fills, checkpoint="run")
except OSError as error:
    print(error)
full(resource.RLIM_INFINITY)
again = na.resume("run", progressbar=False)
assert again["posterior"].to_dataset().equals(whole["posterior"].to_dataset())
"""
STUDY = """
def studied(**options):
    sampler = {"short": na.studies.Sampler(na.moves.algorithm1(), draws=20, warmup=5)}
    return na.study(na.models.Bernoulli(), release.mechanism, n_records=20, replicates=6, cores=1,
                    samplers=sampler, random_seed=1, **options).table.drop(columns="seconds")

def fills(count):
    if count == 1:
        full(checkpoint.Path("run/replicates.jsonl").stat().st_size + 20)

whole = studied(progressbar=False)
try:
    studied(checkpoint="run", progressbar=fills)
except OSError as error:
    print(error)
full(resource.RLIM_INFINITY)
assert studied(checkpoint="run", progressbar=False).equals(whole)
"""
FIT = """
from noiseaware.cli import main
full(5000)
main()
"""


@pytest.fixture
def folder(tmp_path):
    noise = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    na.Release([37.2], noise, n_records=100).to_json(tmp_path / "release.json")
    (tmp_path / "model.toml").write_text('type = "Bernoulli"\n')
    return tmp_path


def ran(folder, script, *words):
    """Run a script in a folder, in a process of its own."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=300,
    )


def fit_words(out):
    return ["fit", "release.json", "-m", "model.toml", "-o", out, "--seed", "1", "-q"]


def test_a_posterior_that_cannot_be_saved(folder):
    done = ran(folder, SAVE)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout == "File too large\n" * 2
    # The one that was there is as it was.
    assert sorted(p.name for p in folder.glob("*.nc")) == ["posterior.nc"]
    assert na.load(folder / "posterior.nc")["posterior"].sizes["draw"] == 300


def test_a_checkpoint_that_cannot_be_written_is_resumed(folder):
    done = ran(folder, CHECKPOINT)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert "the same call goes on, or noiseaware resume run: 'run'" in done.stdout


def test_a_study_that_cannot_be_written_goes_on(folder):
    done = ran(folder, STUDY)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert "the same call goes on: 'run/replicates.jsonl'" in done.stdout


def test_a_fit_whose_posterior_fits_nowhere(folder):
    done = ran(folder, FIT, *fit_words("posterior.nc"))
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert done.stderr.splitlines() == [
        "noiseaware: posterior.nc cannot be written: File too large, and nowhere else either"
    ]
    assert sorted(p.name for p in folder.iterdir()) == ["model.toml", "release.json"]


@pytest.fixture
def small_disk(folder):
    """A disk of 200 KiB, for those who may mount one."""
    place = folder / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_fit_on_a_full_disk_is_written_elsewhere(folder, small_disk):
    script = "from noiseaware.cli import main\nmain()\n"
    done = ran(folder, script, *fit_words("disk/posterior.nc"), "--draws", "4000")
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert "disk/posterior.nc cannot be written: No space left on device; it is in" in done.stderr
    (found,) = folder.glob("noiseaware-*-posterior.nc")
    assert found.name in done.stderr
    assert na.load(found)["posterior"].sizes["draw"] == 4000
    assert not list(small_disk.iterdir())


def test_a_checkpoint_on_a_full_disk_says_how_to_go_on(folder, small_disk):
    script = "from noiseaware.cli import main\nmain()\n"
    words = [*fit_words("posterior.nc"), "--draws", "8000", "--checkpoint", "disk/run"]
    done = ran(folder, script, *words)
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert done.stderr.splitlines() == [
        "noiseaware: disk/run: no space left on device; nothing that was written is lost: "
        "the same call goes on, or noiseaware resume disk/run"
    ]
    assert json.loads((small_disk / "run" / "run.json").read_text())["draws"] == 8000
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    done = ran(folder, script, "resume", "disk/run", "-q")
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    release = na.Release.from_json(folder / "release.json")
    settings = {"draws": 8000, "random_seed": 1, "progressbar": False}
    whole = na.sample(na.models.Bernoulli(), release, **settings)
    drawn = na.load(folder / "posterior.nc")["posterior"].to_dataset()
    assert drawn.equals(whole["posterior"].to_dataset())
