"""The cost of the first call: CPU seconds of a process that compiles, and of the next one.

For each ready model, the default call on a release of 200 records runs in two new processes that
share an initially empty numba cache. The time includes the start of Python, imports, compilation,
sampling and checks. The last columns are the time of a repeated call in the second process, with
everything compiled and loaded, and the number of compiled functions.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, models, tables
from noiseaware.documents.model_file import read_model_file

N_RECORDS = 200
SECOND = ("Bernoulli", "Normal", "LinearRegression")
"""The models with a target for the second process."""

_EXAMPLES = Path(__file__).parent.parent / "examples"

SETUP = """
import json, time
import noiseaware as na
with open({path!r}) as file:
    model, release = json.load(file)
model, release = na.models.from_dict(model), na.Release.from_dict(release)
def draw():
    return na.sample(model, release, random_seed=1, cores=1, progressbar=False)
"""

CALL = "print(na.summary(draw()))"

AGAIN = """
again = time.process_time()
draw()
again = time.process_time() - again
"""


def run(options: Namespace) -> None:
    rows = []
    for name, (model, release) in subjects().items():
        if options.examples and name not in options.examples:
            continue
        rows.append(
            {"model": name}
            | two_processes(model, release)
            | {"target": "<= 15, <= 3" if name in SECOND else "<= 15"}
        )
        print(".", end="", flush=True)
    tables.show(
        f"The default call about {N_RECORDS} records in a new process, CPU seconds",
        {"model": "", "first": ".1f", "second": ".1f", "again": ".1f", "compiled": "d"}
        | {"target": ""},
        rows,
    )
    tables.write(options.out / "first_call.csv", rows)


def subjects() -> dict[str, tuple[Any, na.Release]]:
    """Return each ready model with a release of it."""
    found: dict[str, tuple[Any, na.Release]] = {}
    for name in models.EXAMPLES:
        model, query, theta = models.sized(name, N_RECORDS)
        values = {key: np.asarray(value, dtype=np.float64) for key, value in theta.items()}
        rng = np.random.default_rng(1)
        records = model.sample_records(values, N_RECORDS, rng)
        found[name] = model, na.mechanisms.Laplace(query, epsilon=1.0).privatize(records, rng)
    found["CountRegression"] = (
        read_model_file(_EXAMPLES / "models" / "count_regression.toml").model,
        na.Release.from_json(_EXAMPLES / "releases" / "count_regression.json"),
    )
    return found


def two_processes(model: Any, release: na.Release) -> dict[str, Any]:
    """Return the CPU seconds of the first and second process, and of a repeated call."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "subject.json")
        path.write_text(json.dumps([model.to_dict(), release.to_dict()]))
        setup = SETUP.format(path=str(path))
        # With Python's own bytecode cache, as after pip, whatever the environment says.
        environment = {"NUMBA_CACHE_DIR": folder, "PYTHONDONTWRITEBYTECODE": ""}
        first = measure.in_new_process(setup, CALL, environment=environment)
        compiled = len(list(Path(folder).rglob("*.nbc")))
        second = measure.in_new_process(setup, CALL + AGAIN, "again", environment=environment)
    again = second.value
    return {
        "first": first.cpu_seconds,
        "second": second.cpu_seconds - again,
        "again": again,
        "compiled": compiled,
    }
