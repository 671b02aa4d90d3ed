"""Mutated files through the command's own entry point: one line and an exit code, nothing else.

`python -m fuzz.fuzzing 5000 1000 --seed 1` (in tests/; `make fuzz`) mutates so many release, model
and plan files and so many posteriors and checkpoints, and prints what was not refused in one line.
A file that is accepted ends before its first iteration. `--only 84` shows file 84 of a seed.
`--real` sends every file through a process of its own, as a user would; an accepted one is sampled
for a few iterations, or ended after its time.

What was found once is in `corpus`, and is tried again by the tests.
"""

from __future__ import annotations

import argparse
import collections
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
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.agreement.fit import check_fit
from noiseaware.cli import app
from noiseaware.documents.model_file import read_model_file

ROOT = Path(__file__).parents[2]
SECONDS = 10
MEMORY = 2 << 30
"""What reading a file may take, in seconds and bytes."""

NASTY: list[Any] = [
    None, True, "", "x", "\x1b[31mred\x1b[0m", "<script>alert(1)</script>", "=1+1", "\u202e", [],
    {}, [[]], [None], 0, -1, 1, 2, 3, 10**6, 10**9, 10**13, 2**53 + 1, 2**63, 10**400, -(10**400),
    0.0, -0.0, 0.5, 1e-320, 1e-12, 1e12, 1e308, -1e308, float("nan"), float("inf"), "nan", "1",
    list(range(50)), [0.5] * 300, {"type": "Count"}, {"type": "Laplace"}, {"type": {"type": []}},
    [[[[[[1]]]]]],
]  # fmt: skip


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
    if kind == "toml":
        return mutated_toml(data.decode(), rng).encode()
    return json.dumps(mutated_tree(json.loads(data), rng)).encode()


# ------------------------------------------------------------------ through the command


def outcome(words: list[str]) -> str:
    """Run the command; return "refused", "accepted", or what went wrong."""
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of this process, whatever else is running
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, words)
    except Accepted:
        return "accepted"
    except Hang:
        return f"took more than {SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
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


def real_outcome(words: list[str]) -> str:
    """As `outcome`, through a process of its own."""
    few = ["--draws", "5", "--warmup", "5", "--chains", "1"] if words[0] == "fit" else []
    command = [sys.executable, "-m", "noiseaware", *words, *few]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        most, until = 0, time.monotonic() + 6 * SECONDS  # a plan works in other processes
        while True:
            most = max(most, peak_memory(process.pid))
            ended, status = os.waitpid(process.pid, os.WNOHANG)
            if ended:
                break
            stat = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            if spent > 3 * SECONDS or time.monotonic() > until:
                process.kill()
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().strip().splitlines()
    if most > MEMORY:
        return f"{most >> 20} MiB"
    if process.returncode in (0, 1, -signal.SIGKILL):  # the last: it was at work
        return "accepted"
    if process.returncode != 3 or len(lines) != 1:
        return f"exit code {process.returncode}: {lines[-3:]}"
    return "refused"


def text_words(rng: np.random.Generator, folder: Path) -> list[str]:
    """Mutate a release, a model or a plan; return the command that reads it."""
    examples, which = ROOT / "examples", rng.integers(5)
    if which == 0:
        plans = sorted((examples / "plan").glob("*.toml"))
        plan = plans[int(rng.integers(len(plans)))]
        (folder / "plan.toml").write_bytes(mutated(plan.read_bytes(), "toml", rng))
        return ["plan", str(folder / "plan.toml"), "-q"]
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
    return ["fit", files[0], "-m", files[1], "-o", files[2], "-q"]


def binary_words(rng: np.random.Generator, folder: Path, good: Path) -> list[str]:
    """Mutate a posterior or a checkpoint; return a command that reads it."""
    which = rng.integers(5)
    if which < 3:
        path = folder / "posterior.nc"
        path.write_bytes(mutated((good / "posterior.nc").read_bytes(), "binary", rng))
        out = str(folder / "out")
        rest = (["check"], ["report", "-o", f"{out}.html"], ["impute", "-o", f"{out}.csv"])[which]
        return [rest[0], str(path), *rest[1:]]
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(good / "run", run)
    files = sorted(path for path in run.iterdir() if path.name != "lock")
    path = files[int(rng.integers(len(files)))]
    kind = "json" if path.suffix == ".json" else "binary"
    path.write_bytes(mutated(path.read_bytes(), kind, rng))
    return ["resume", str(run), "-q", "-o", str(folder / "out.nc")]


def make_good(folder: Path) -> None:
    """Compile what the examples need; make a posterior and a checkpoint to mutate."""
    for path in sorted((ROOT / "examples" / "models").glob("*.toml")):
        release = ROOT / "examples" / "releases" / f"{path.stem}.json"
        check_fit(read_model_file(path).model, na.Release.from_json(release))
    noise = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    posterior = na.sample(
        na.models.Bernoulli(),
        na.Release([12.0], noise, 20),
        draws=30,
        warmup=10,
        chains=2,
        keep_records=3,
        random_seed=1,
        progressbar=False,
        checkpoint=folder / "run",
    )
    na.save(posterior, folder / "posterior.nc")


def fuzz(
    texts: int, binaries: int, seed: int, only: int | None = None, *, real: bool = False
) -> tuple[collections.Counter, list[str]]:
    """Return how often files were refused and accepted, and what went wrong, with its files."""
    counts: collections.Counter = collections.Counter()
    wrong: list[str] = []
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    patches = ("noiseaware.sampling.run", "noiseaware.plan.plan")
    with tempfile.TemporaryDirectory() as name:
        folder, good = Path(name), Path(name) / "good"
        good.mkdir()
        make_good(good)
        if not real:
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
        try:
            for number in range(texts + binaries) if only is None else (only,):
                rng = np.random.default_rng((seed, number))
                if number < texts:
                    words = text_words(rng, folder)
                    with mock.patch(patches[0], _stop), mock.patch(patches[1], _stop):
                        found = (real_outcome if real else outcome)(words)
                else:
                    words = binary_words(rng, folder, good)
                    with mock.patch("noiseaware.running.run._advance_all", _stop):
                        found = (real_outcome if real else outcome)(words)
                counts[found if found in ("refused", "accepted") else "wrong"] += 1
                if only is not None:
                    print(*map(_content, words), sep="\n")
                if found not in ("refused", "accepted"):
                    wrong.append(f"seed {seed}, file {number}, {words[0]}: {found}")
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
    parser.add_argument("--real", action="store_true", help="processes of their own")
    given = parser.parse_args()
    counts, wrong = fuzz(given.texts, given.binaries, given.seed, given.only, real=given.real)
    print(dict(counts))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
