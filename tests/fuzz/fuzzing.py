"""Mutated files through the command's own entry point: one line and an exit code, nothing else.

`python -m fuzz.fuzzing 5000 1000 --seed 1` (in tests/; `make fuzz`) mutates so many release, model
and plan files and so many posteriors and checkpoints, and prints what was not refused in one line.
A file that is accepted ends when the first chain has its records, or when a checkpoint is read.
`--only 84` shows file 84 of a seed, `--from 500` leaves out the files before that one. `--real`
sends every file through a process of its own, as a user would; an accepted one is sampled for a few
iterations, or ended after its time. One that has not begun to sample by then hangs, which is wrong.

What was found once is in `corpus`, and is tried again by the tests.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from typer.testing import CliRunner

from noiseaware.cli import app

ROOT = Path(__file__).parents[2]
SECONDS, WAIT = 10, 60
MEMORY = 2 << 30
"""What reading a file may take: seconds of processor time, seconds in all (the machine may have
other things to do), and bytes."""

NASTY: list[Any] = [
    None, True, "", "x", "\x1b[31mred\x1b[0m", "<script>alert(1)</script>", "=1+1", "\u202e", [],
    "\ud800", {}, [[]], [None], 0, -1, 1, 2, 3, 10**6, 10**9, 10**13, 2**53 + 1, 2**63, 10**400,
    -(10**400), 0.0, -0.0, 0.5, 1e-320, 1e-12, 1e12, 1e308, -1e308, float("nan"), float("inf"),
    "nan", "1", list(range(50)), [0.5] * 300, {"type": "Count"}, {"type": "Laplace"},
    {"type": {"type": []}},
    [[[[[[1]]]]]],
]  # fmt: skip


BEGINS, READ = "noiseaware.sampler.chain.ChainState", "noiseaware.running.run._advance_all"
STUDIES = "noiseaware.studies.run.run_tasks"
"""Where a chain has its first records, where a checkpoint is read, and where a study begins."""


class Accepted(BaseException):
    """The file was read and found right."""


class Hang(BaseException):
    """Reading took too long."""


def _stop(*_: Any, **__: Any) -> None:
    raise Accepted


def _late(*_: Any) -> None:
    raise Hang


# ------------------------------------------------------------------ mutations


def mutated_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a few bytes, or cut, repeat or drop a piece."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(changed) + 1))
        length = int(rng.integers(1, 1 + min(64, len(changed) or 1)))
        kind = rng.integers(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del changed[at : at + length]
        elif kind == 2:
            changed[at:at] = changed[at : at + length] * int(rng.integers(1, 4))
        elif kind == 3:
            changed[at : at + length] = rng.bytes(length)
        elif len(changed) > 1:
            del changed[at:]
    return bytes(changed)


def mutated_tree(tree: Any, rng: np.random.Generator) -> Any:
    """Put something nasty in one place of nested lists and dictionaries, or drop or add a place."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.15:
        return NASTY[int(rng.integers(len(NASTY)))]
    if isinstance(tree, list):
        at = int(rng.integers(len(tree)))
        kind = rng.integers(6)
        if kind == 0:
            return tree[:at] + tree[at + 1 :]
        if kind == 1:
            return tree + tree[at : at + 1] * int(rng.integers(1, 40))
        return [*tree[:at], mutated_tree(tree[at], rng), *tree[at + 1 :]]
    name = sorted(tree)[int(rng.integers(len(tree)))]
    kind = rng.integers(8)
    if kind == 0:
        return {key: value for key, value in tree.items() if key != name}
    if kind == 1:
        return {**tree, "unknown\x07": tree[name]}
    return {**tree, name: mutated_tree(tree[name], rng)}


def mutated_toml(text: str, rng: np.random.Generator) -> str:
    """Put something nasty in the place of one value."""
    places = list(re.finditer(r"= *(.+)$", text, re.M))
    if not places:
        return text + "x = "
    place = places[int(rng.integers(len(places)))]
    value = NASTY[int(rng.integers(len(NASTY)))]
    written = json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")
    return text[: place.start(1)] + written + text[place.end(1) :]


def mutated(data: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """Return a file that is a little, or very, different."""
    if kind == "binary" or rng.random() < 0.3:
        return mutated_bytes(data, rng)
    if kind == "lines":
        lines = data.splitlines()
        at = int(rng.integers(len(lines)))
        lines[at] = mutated(lines[at], "json", rng)
        return b"\n".join(lines) + b"\n"
    if kind == "toml":
        return mutated_toml(data.decode(), rng).encode()
    return json.dumps(mutated_tree(json.loads(data), rng)).encode()


# ------------------------------------------------------------------ through the command


def outcome(words: list[str]) -> str:
    """Run the command; return "refused", "accepted", or what went wrong."""
    timers = {signal.ITIMER_PROF: SECONDS, signal.ITIMER_REAL: WAIT}
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _late)
    for timer, seconds in timers.items():
        signal.setitimer(timer, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, words)
    except Accepted:
        return "accepted"
    except Hang:
        return f"took more than {SECONDS} s of processor time, or {WAIT} s"
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
    said = result.stderr.strip()
    if os.environ.get("NOISEAWARE_TRACEBACK") and result.exc_info:
        traceback.print_exception(*result.exc_info)
    if result.exit_code in (0, 1):
        return "accepted"
    if result.exit_code == 70 or "Traceback" in said or isinstance(result.exception, MemoryError):
        return f"fault: {said[:300]}"
    if "not enough memory" in said and not said.endswith(" GiB"):  # found out before, not after
        return f"memory: {said[:300]}"
    if result.exit_code == 2 or len(said.splitlines()) != 1:
        return f"exit code {result.exit_code}: {said[:300]}"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in said):
        return f"control characters: {said[:300]!r}"
    return "refused"


def peak_memory(pid: int) -> int:
    """Return the most bytes that a process has had, 0 if it has ended.

    The `ru_maxrss` of a process begins with that of the one that started it, which may be larger.
    """
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return 1024 * int(found[1]) if found else 0


def begun(words: list[str]) -> Path | None:
    """Return the file that is there once a command begins to sample; None if it never does."""
    folder = Path(words[1]).parent
    files = {
        "fit": folder / "begun" / "run.json",
        "resume": Path(words[1]) / "lock",
        "plan": folder / "planned" / "checkpoint",
    }
    return files.get(words[0])


def real_outcome(words: list[str]) -> str:
    """As `outcome`, through a process of its own."""
    mark, loading = begun(words), start_up()
    shutil.rmtree(Path(words[1]).parent / "begun", ignore_errors=True)
    few = {
        "fit": ["--draws", "5", "--warmup", "5", "--chains", "2", "--checkpoint"],
        "plan": ["--cores", "1"],
    }.get(words[0], [])
    few += [str(mark.parent)] if words[0] == "fit" and mark else []
    command = [sys.executable, "-m", "noiseaware", *words, *few]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        most, began = 0, time.monotonic()
        while True:
            most = max(most, peak_memory(process.pid))
            ended, status = os.waitpid(process.pid, os.WNOHANG)
            if ended:
                break
            stat = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            if spent > SECONDS + loading or time.monotonic() - began > WAIT + loading:
                os.kill(process.pid, signal.SIGKILL)  # `process.kill` would wait for it
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().strip().splitlines()
    if most > MEMORY:
        return f"{most >> 20} MiB"
    if process.returncode == -signal.SIGKILL and not (mark and mark.exists()):
        return f"took more than {SECONDS} s of processor time, or {WAIT} s"
    if process.returncode in (0, 1, -signal.SIGKILL):  # the last: it was at work
        return "accepted"
    if process.returncode != 3 or len(lines) != 1:
        return f"exit code {process.returncode}: {lines[-3:]}"
    return "refused"


@functools.cache
def start_up() -> float:
    """Return the processor time that the command takes to be loaded."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-c", "import noiseaware, noiseaware.cli, arviz_stats, pandas"]
    subprocess.run(words, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def text_words(rng: np.random.Generator, folder: Path) -> list[str]:
    """Mutate a release, a model or a plan; return the command that reads it."""
    examples, which = ROOT / "examples", rng.integers(5)
    if which == 0:
        plans = sorted((examples / "plan").glob("*.toml"))
        plan = plans[int(rng.integers(len(plans)))]
        (folder / "plan.toml").write_bytes(mutated(plan.read_bytes(), "toml", rng))
        shutil.rmtree(folder / "planned", ignore_errors=True)
        return ["plan", str(folder / "plan.toml"), "-q", "-o", str(folder / "planned")]
    names = sorted(p.stem for p in (examples / "models").glob("*.toml"))
    names = [name for name in names if (examples / "releases" / f"{name}.json").exists()]
    name = names[int(rng.integers(len(names)))]
    release = (examples / "releases" / f"{name}.json").read_bytes()
    model = (examples / "models" / f"{name}.toml").read_bytes()
    if which in (1, 2):
        model = mutated(model, "toml", rng)
    else:
        release = mutated(release, "json", rng)
    (folder / "release.json").write_bytes(release)
    (folder / "model.toml").write_bytes(model)
    files = [str(folder / part) for part in ("release.json", "model.toml", "out.nc")]
    return ["fit", files[0], "-m", files[1], "-o", files[2], "-q", "--cores", "1"]


def binary_words(rng: np.random.Generator, folder: Path, good: Path) -> list[str]:
    """Mutate a posterior, or a file of a checkpoint; return a command that reads it."""
    which = rng.integers(6)
    if which < 3:
        path = folder / "posterior.nc"
        path.write_bytes(mutated((good / "posterior.nc").read_bytes(), "binary", rng))
        out = str(folder / "out")
        rest = (["check"], ["report", "-o", f"{out}.html"], ["impute", "-o", f"{out}.csv"])[which]
        return [rest[0], str(path), *rest[1:]]
    name = "planned" if which == 5 else "run"
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(good / name, folder / name)
    files = [path for path in (folder / name).rglob("*") if path.is_file()]
    path = sorted(files)[int(rng.integers(len(files)))]
    kind = {".json": "json", ".jsonl": "lines"}.get(path.suffix, "binary")
    path.write_bytes(mutated(path.read_bytes(), kind, rng))
    if which == 5:
        return ["plan", str(good / "plan.toml"), "-q", "-o", str(folder / name)]
    return ["resume", str(folder / name), "-q", "--cores", "1", "-o", str(folder / "out.nc")]


def make_good(folder: Path) -> None:
    """Compile what the examples need; make a posterior and checkpoints to mutate."""
    examples = ROOT / "examples"
    names = sorted(path.stem for path in (examples / "models").glob("*.toml"))
    for name in names:
        release, model = (
            examples / "releases" / f"{name}.json",
            examples / "models" / f"{name}.toml",
        )
        words = ["fit", str(release), "-m", str(model), "-o", str(folder / "x.nc"), "-q"]
        with mock.patch(BEGINS, _stop), suppress(Accepted):
            CliRunner().invoke(app, words)
    fit = ["fit", str(examples / "releases/bernoulli.json"), "-m"]
    fit += [str(examples / "models/bernoulli.toml"), "-o", str(folder / "posterior.nc"), "-q"]
    fit += [
        "--draws",
        "30",
        "--warmup",
        "10",
        "--chains",
        "2",
        "--keep-records",
        "3",
        "--seed",
        "1",
    ]
    plan = (examples / "plan/mean.toml").read_text()
    plan = re.sub(r"epsilons = .*", "epsilons = [0.5]", plan).replace("[200, 1000]", "[20]")
    (folder / "plan.toml").write_text(re.sub(r"replicates = .*", "replicates = 4", plan))
    planned = ["plan", str(folder / "plan.toml"), "-q", "--cores", "1", "-o"]
    for words in ([*fit, "--checkpoint", str(folder / "run")], [*planned, str(folder / "planned")]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (0, 1), result.output
    for kept in folder.rglob("*"):
        if kept.name == "lock" or kept.suffix in (".csv", ".png", ".svg"):
            kept.unlink()


def fuzz(
    texts: int,
    binaries: int,
    seed: int,
    only: int | None = None,
    *,
    first: int = 0,
    real: bool = False,
) -> tuple[collections.Counter, list[str]]:
    """Return how often files were refused and accepted, and what went wrong, with its files."""
    counts: collections.Counter = collections.Counter()
    wrong: list[str] = []
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with tempfile.TemporaryDirectory() as name:
        folder, good = Path(name), Path(name) / "good"
        good.mkdir()
        make_good(good)
        try:
            for number in range(first, texts + binaries) if only is None else (only,):
                rng = np.random.default_rng((seed, number))
                if number < texts:
                    words = text_words(rng, folder)
                else:
                    words = binary_words(rng, folder, good)
                if not real:
                    pages = int(Path("/proc/self/statm").read_text().split()[0])
                    most = pages * resource.getpagesize() + MEMORY
                    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
                stop = BEGINS if number < texts else READ
                with mock.patch(stop, _stop), mock.patch(STUDIES, _stop):
                    found = (real_outcome if real else outcome)(words)
                counts[found if found in ("refused", "accepted") else "wrong"] += 1
                if (number + 1) % 500 == 0:
                    print(number + 1, dict(counts), file=sys.stderr, flush=True)
                if only is not None:
                    print(*map(_content, words), sep="\n")
                if found not in ("refused", "accepted"):
                    wrong.append(f"seed {seed}, file {number}, {words[0]}: {found}")
                    print(wrong[-1], file=sys.stderr, flush=True)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
    return counts, wrong


def _content(word: str) -> str:
    path = Path(word)
    return path.read_text(errors="replace") if path.is_file() else word


def main() -> None:
    """Fuzz, print what was found, and fail if anything was."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", type=int)
    parser.add_argument("binaries", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one file, shown in full")
    parser.add_argument("--from", type=int, default=0, dest="first", help="a number to begin with")
    parser.add_argument("--real", action="store_true", help="processes of their own")
    given = parser.parse_args()
    numbers = (given.texts, given.binaries, given.seed, given.only)
    counts, wrong = fuzz(*numbers, first=given.first, real=given.real)
    print(dict(counts))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
