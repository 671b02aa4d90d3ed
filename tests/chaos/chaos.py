"""kill -9 at random moments: ``python -m chaos.chaos 100``, in `tests`; `make chaos` does it.

A run of `sample`, of the command `fit` and of `study` is killed at random moments, started again
with the same call, killed again, and at last left to end. Its result must be that of a run that
was never killed, bit for bit, and between two kills nothing that was in the checkpoint may be lost.
Every segment is written here, and the run notes how far its chains are: a kill may cost one
segment. `cores` is a `sample` with two workers.

A run is a fork of a process that has loaded the package, so that a kill costs little; some of them
are processes of their own, which are also killed while they start, load and, in a folder for
compiled functions that is empty at first, compile. A kill comes after a random time, after a random
iteration is in the checkpoint, or there, as soon as the next file is being written.
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
from collections.abc import Callable, Set
from pathlib import Path
from unittest import mock

import numpy as np

import noiseaware as na
from noiseaware.cli import main as command
from noiseaware.running import checkpoint
from noiseaware.sampler import progress
from noiseaware.sampler.progress import Silent

MODEL = na.models.LinearRegression(1)
QUERY = na.queries.RegressionMoments(1, lower=-5.0, upper=5.0)
MECHANISM = na.mechanisms.Laplace(QUERY, epsilon=1.0)
RELEASE = na.Release([-1.0, 2.0, 6.0, -2.0, 9.0], MECHANISM, n_records=20)
LIFE = 4
"""Kills of one run before it may end."""

WARMUP, DRAWS = 300, 900
SEGMENT = (WARMUP + DRAWS) // 20
NUMBERS = {"draws": DRAWS, "warmup": WARMUP, "chains": 2, "random_seed": 1}
WRITES = "writing"


def notes(folder: Path) -> type[Silent]:
    """Return a progress that notes how far the chains are, at the end of each segment."""

    class Notes(Silent):
        def update(self, chain: int, iteration: int, acceptance: float | None) -> None:
            if chain == 1:
                (folder / "noted.part").write_text(str(iteration))
                (folder / "noted.part").rename(folder / "noted")

    return Notes


def digest(tree: object) -> str:
    """Return a digest of all draws and reports of a posterior."""
    found = hashlib.sha256()
    for group in ("posterior", "sample_stats"):
        for name, values in sorted(tree[group].data_vars.items()):  # type: ignore[index]
            found.update(name.encode() + np.ascontiguousarray(values.values).tobytes())
    return found.hexdigest()


def sample(folder: Path, cores: int = 1) -> str:
    options = {"checkpoint": folder / "run", "progressbar": notes(folder), **NUMBERS}
    return digest(na.sample(MODEL, RELEASE, cores=cores, **options))


def with_cores(folder: Path) -> str:
    return sample(folder, 2)


def fit(folder: Path) -> str:
    RELEASE.to_json(folder / "release.json")
    (folder / "model.toml").write_text('type = "LinearRegression"\nn_features = 1\n')
    words = ["fit", "release.json", "-m", "model.toml", "-o", "posterior.nc", "--seed", "1"]
    words += ["--draws", str(DRAWS), "--warmup", str(WARMUP), "--chains", "2", "--cores", "1"]
    words += ["--checkpoint", "run"]
    sys.argv = ["noiseaware", *words, "--report", "report.html"]
    os.chdir(folder)
    with mock.patch.object(progress, "Rows", notes(folder)), contextlib.suppress(SystemExit):
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


KINDS = {"sample": sample, "cores": with_cores, "fit": fit, "study": study}


def start(kind: str, folder: Path, real: bool) -> int:
    """Start a run that leaves the digest of its result in `folder`; return its process."""
    if real:
        words = [sys.executable, "-m", "chaos.chaos", "--one", kind, str(folder)]
        cold = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "compiled")}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(words, env=cold, **quiet).pid
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
    checkpoint.LONGEST_WAIT = 0.0  # every segment is written
    found = KINDS[kind](folder)
    (folder / "digest.part").write_text(found)
    (folder / "digest.part").rename(folder / "digest")


def parts(folder: Path) -> set[Path]:
    """Return the files that are not whole."""
    return set((folder / "run").glob(".*.part-*"))


def done(folder: Path, older: Set[Path] = frozenset()) -> tuple[str, int]:
    """Return what a run was doing when it was killed, and how far its checkpoint is.

    `older` are files that the kill before left behind.
    """
    run = folder / "run"
    if (run / "replicates.jsonl").exists():
        lines = (run / "replicates.jsonl").read_bytes().count(b"\n") - 1
        return ("replicates" if lines < 20 else "after the last replicate"), lines
    states = sorted(run.glob("state-*.npz"))
    if not states:
        compiled = any((folder / "compiled").rglob("*.nbc"))
        return ("compiling" if compiled else "start"), 0
    iteration = int(states[-1].stem.removeprefix("state-"))
    if iteration == WARMUP + DRAWS:
        return "checks and report", iteration
    if parts(folder) - older:
        return WRITES, iteration
    return ("warm-up" if iteration < WARMUP else "draws"), iteration


def moment(
    folder: Path, rng: np.random.Generator, longest: float, older: Set[Path]
) -> Callable[[], bool]:
    """Return a function that says when to kill."""
    until, far = time.monotonic() + longest * rng.random(), WARMUP + DRAWS
    after, kind = int(rng.integers(far)), rng.integers(4)
    run = folder / "run"

    def there() -> bool:
        if kind == 0 or (run / "replicates.jsonl").exists():
            return time.monotonic() > until
        where, now = done(folder, older)
        return now >= after and (kind != 1 or where == WRITES or now == far)

    return there


def ends_before(process: int, there: Callable[[], bool]) -> bool:
    """Wait for a process, kill it when it is time; return whether it had ended by itself, well."""
    while not there():
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if status:
                raise AssertionError(f"a run ended with status {status}")
            return True
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def never() -> bool:
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
        assert ends_before(start(kind, whole, real), never)
        longest = time.monotonic() - began
        life = 0
        while sum(moments.values()) < kills and time.monotonic() < until:
            life += 1
            folder = Path(top, str(life))
            folder.mkdir()
            before = 0
            for _ in range(LIFE):
                older = parts(folder)
                there = moment(folder, rng, longest, older)
                if ends_before(start(kind, folder, real), there):
                    break
                doing, now = done(folder, older)
                moments[doing] += 1
                assert now >= before, f"{kind}: {now} after {before}"
                noted = folder / "noted"
                noted_now = int(noted.read_text()) if noted.exists() else 0
                assert now >= noted_now - SEGMENT, f"{kind}: {now}, and {noted_now} were done"
                before = now
            assert (folder / "digest").exists() or ends_before(start(kind, folder, real), never)
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
        parser.add_argument("kinds", nargs="*", help="sample, cores, fit, study; all if not given")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--minutes", type=float, default=1e6, help="at most, for each kind")
        given = parser.parse_args()
        main(given.kills, given.real, given.kinds, given.seed, given.minutes)
