"""Run the benchmarks: ``python -m benchmarks [section ...] [options]``.

Sections, run in this order by default:

first       CPU seconds of the first and the second process for each ready model
foundation  Algorithm 1 against fused loops, large n, memory, import, a new process
mechanisms  sweeps with joint mechanisms against additive Laplace noise
peers       smallest ESS per second: default, algorithm1(), NUTS; cost of an iteration
dp_pf       seconds per effective draw, beside the published ones of a particle filter
plot        ESS per second against epsilon, from the results of peers
steps       cost of the parts of a transport move, against the constants of the tuning
own         a user's plain NumPy model against the built-in one
unknown     the paper's regression with n unknown: convergence and cost of an iteration
models      the default call on every ready model: sizes, epsilons, noises (long, as mixing)
groups      the default call on groups: many, large, noisy and clamped (long, as mixing)
covariate   a noisy covariate: scales and laws of the noise, sizes, priors (20 minutes)
cells       published cells: counties, 100,000 cells, cost per cell, NUTS, coverage (30 minutes)
odd         odd priors, few records, odd releases: the default call against the exact answer (long)
modes       posteriors with two modes: wrong runs that pass their checks (10 minutes)
ablation    effective draws per second without one part of the transport move (long)
mixing      the default call over simulated releases (long; can be stopped and continued)

Every section prints its tables, with targets beside the measured values, and writes them as CSV.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before NumPy is loaded: one core means one thread.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

SECTIONS = (
    "first",
    "foundation",
    "mechanisms",
    "peers",
    "dp_pf",
    "plot",
    "steps",
    "own",
    "unknown",
    "models",
    "groups",
    "covariate",
    "cells",
    "odd",
    "modes",
    "ablation",
    "mixing",
)
FILES = {
    "first": "first_call",
    "own": "own_model",
    "unknown": "unknown_n",
    "covariate": "noisy_covariate",
}
"""Sections whose file has a different name."""
MODELS = ("regression", "unknown", "naive-bayes")


def listed(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return a parser of comma-separated values."""

    def read(text: str) -> tuple[Any, ...]:
        return tuple(kind(part) for part in text.split(","))

    read.__name__ = f"list of {kind.__name__}"
    return read


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all runs")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the tables (benchmarks/results; quick: its folder quick)",
    )
    parser.add_argument(
        "--models",
        type=listed(str),
        help=f"mixing, peers, ablation: of {','.join(MODELS)} (peers: known only)",
    )
    parser.add_argument(
        "--sizes",
        type=listed(int),
        help="mixing, models, covariate, odd, peers, ablation: n (100,1000); groups: of each",
    )
    parser.add_argument(
        "--epsilons",
        type=listed(float),
        help="mixing, models, unknown, peers, ablation: such as 0.1,1",
    )
    parser.add_argument(
        "--releases",
        type=int,
        help="at each setting: mixing (20), models, unknown (1), modes (20), peers (3), dp_pf (5), "
        "ablation (1), cells (500); odd: so many random settings in place of its grid",
    )
    parser.add_argument(
        "--examples", type=listed(str), help="first, models, odd: only these, such as Normal,Gamma"
    )
    parser.add_argument(
        "--parts",
        type=listed(str),
        help="ablation, cells: only these parts; odd: only this noise (much, usual, little); "
        "groups: only these means (inside, reach, beyond)",
    )
    parser.add_argument("--workers", type=int, default=2, help="mixing: processes (2)")
    parser.add_argument(
        "--fresh", action="store_true", help="mixing, models, groups, odd, ablation: start anew"
    )
    chosen = parser.parse_args()
    for section in chosen.sections:
        if section not in SECTIONS:
            parser.error(f"section must be one of {', '.join(SECTIONS)}; got {section!r}")
    for model in chosen.models or ():
        if model not in MODELS:
            parser.error(f"--models must be among {','.join(MODELS)}; got {model!r}")
    if chosen.out is None:
        chosen.out = Path(__file__).parent / "results" / ("quick" if chosen.quick else "")
    return chosen


def main() -> None:
    chosen = options()
    from benchmarks import subjects

    subjects.check_order()
    chosen.out.mkdir(parents=True, exist_ok=True)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores{load}; "
        f"code {subjects.code()}; tables in {chosen.out}"
    )
    try:
        for section in chosen.sections or SECTIONS:
            start = time.perf_counter()
            print(f"== {section}", flush=True)
            importlib.import_module(f"benchmarks.{FILES.get(section, section)}").run(chosen)
            print(f"== {section}: {time.perf_counter() - start:.0f} s\n", flush=True)
    except KeyboardInterrupt:
        sys.exit("stopped; what was measured so far is on file")


if __name__ == "__main__":
    main()
