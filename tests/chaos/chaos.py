"""kill -9 at random moments: ``python -m chaos.chaos 100``, in `tests`; `make chaos` does it.

A run of `sample`, of the command `fit` and of `study` is killed at random moments, started again
with the same call, killed again, and at last left to end. Its result must be that of a run that
was never killed, bit for bit, and between two kills nothing that was in the checkpoint may be lost.

A run is a fork of a process that has loaded the package, so that a kill costs little; some of them
are processes of their own, which are also killed while they start, load and (with an empty folder
for compiled functions) compile.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import noiseaware as na
from noiseaware.cli import main as command

MODEL = na.models.LinearRegression(1)
QUERY = na.queries.RegressionMoments(1, lower=-5.0, upper=5.0)
MECHANISM = na.mechanisms.Laplace(QUERY, epsilon=1.0)
RELEASE = na.Release([-1.0, 2.0, 6.0, -2.0, 9.0], MECHANISM, n_records=20)
LIFE = 4
"""Kills of one run before it may end."""


def digest(tree: object) -> str:
    """Return a digest of all draws and reports of a posterior."""
    found = hashlib.sha256()
    for group in ("posterior", "sample_stats"):
        for name, values in sorted(tree[group].data_vars.items()):  # type: ignore[index]
            found.update(name.encode() + np.ascontiguousarray(values.values).tobytes())
    return found.hexdigest()


def sample(folder: Path) -> str:
    options = {"draws": 300, "warmup": 300, "chains": 2, "random_seed": 1, "progressbar": False}
    return digest(na.sample(MODEL, RELEASE, cores=1, checkpoint=folder / "run", **options))


def fit(folder: Path) -> str:
    RELEASE.to_json(folder / "release.json")
    (folder / "model.toml").write_text('type = "LinearRegression"\nn_features = 1\n')
    words = ["fit", "release.json", "-m", "model.toml", "-o", "posterior.nc", "--seed", "1", "-q"]
    words += ["--draws", "300", "--warmup", "300", "--chains", "2", "--checkpoint", "run"]
    sys.argv = ["noiseaware", *words, "--report", "report.html"]
    os.chdir(folder)
    with contextlib.suppress(SystemExit):
        command()
    assert (folder / "report.html").read_text().rstrip().endswith("</html>")
    return digest(na.load(folder / "posterior.nc"))


def study(folder: Path) -> str:
    samplers = {"short": na.studies.Sampler(na.moves.algorithm1(), draws=1000, warmup=200)}
    done = na.study(
        MODEL,
        MECHANISM,
        n_records=20,
        replicates=20,
        samplers=samplers,
        cores=1,
        random_seed=1,
        progressbar=False,
        checkpoint=folder / "run",
    )
    table = done.tree["replicates"].to_dataset().drop_vars("seconds")
    return hashlib.sha256(json.dumps(table.to_dict()["data_vars"]).encode()).hexdigest()


KINDS = {"sample": sample, "fit": fit, "study": study}


def start(kind: str, folder: Path, real: bool) -> int:
    """Start a run that leaves the digest of its result in `folder`; return its process."""
    if real:
        words = [sys.executable, "-m", "chaos.chaos", "--one", kind, str(folder)]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
            one(kind, folder)
            code = 0
        finally:
            os._exit(code)
    return child


def one(kind: str, folder: Path) -> None:
    found = KINDS[kind](folder)
    (folder / "digest.part").write_text(found)
    (folder / "digest.part").rename(folder / "digest")


def done(folder: Path) -> tuple[str, int]:
    """Return what a run was doing when it was killed, and how far its checkpoint is."""
    run = folder / "run"
    if (run / "replicates.jsonl").exists():
        lines = (run / "replicates.jsonl").read_bytes().count(b"\n") - 1
        return ("replicates" if lines < 20 else "after the last replicate"), lines
    states = sorted(run.glob("state-*.npz"))
    if not states:
        return ("before the first write" if (run / "run.json").exists() else "start"), 0
    iteration = int(states[-1].stem.removeprefix("state-"))
    where = "warm-up" if iteration < 300 else "draws" if iteration < 600 else "checks and report"
    return where, iteration


def ends_within(process: int, seconds: float) -> bool:
    """Wait for a process, then kill it; return whether it had ended by itself, well."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if status:
                raise AssertionError(f"a run ended with status {status}")
            return True
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def torment(kind: str, kills: int, seed: int, real: bool, minutes: float) -> Counter[str]:
    """Kill runs of one kind so many times, or for so long; return what they were doing."""
    rng = np.random.default_rng(seed)
    moments: Counter[str] = Counter()
    until = time.monotonic() + 60.0 * minutes
    with tempfile.TemporaryDirectory() as top:
        whole = Path(top, "whole")
        whole.mkdir()
        began = time.monotonic()
        assert ends_within(start(kind, whole, real), 1e6)
        longest = time.monotonic() - began
        life = 0
        while sum(moments.values()) < kills and time.monotonic() < until:
            life += 1
            folder = Path(top, str(life))
            folder.mkdir()
            before = 0
            for _ in range(LIFE):
                if ends_within(start(kind, folder, real), longest * rng.random()):
                    break
                doing, now = done(folder)
                moments[doing] += 1
                assert now >= before, f"{kind}: {now} after {before}"
                before = now
            assert (folder / "digest").exists() or ends_within(start(kind, folder, real), 1e6)
            found, wanted = (Path(f, "digest").read_text() for f in (folder, whole))
            assert found == wanted, f"{kind}: another result after kills"
    return moments


def main(kills: int, real: int, kinds: list[str], seed: int, minutes: float) -> None:
    for kind in kinds or list(KINDS):
        for count, own in ((kills, False), (real, True)):
            if count:
                moments = torment(kind, count, seed, own, minutes)
                words = ", ".join(f"{number} {doing}" for doing, number in moments.most_common())
                where = "processes of their own" if own else "forks"
                print(f"{kind}, {where}: {sum(moments.values())} kills ({words}); same results")
                sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(sys.argv[2], Path(sys.argv[3]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("kills", type=int, help="of forks, for each kind of run")
        parser.add_argument("real", type=int, help="of processes of their own")
        parser.add_argument("kinds", nargs="*", help="sample, fit, study; all if not given")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--minutes", type=float, default=1e6, help="at most, for each kind")
        given = parser.parse_args()
        main(given.kills, given.real, given.kinds, given.seed, given.minutes)
