"""Exact Bayesian inference from differentially private releases.

A release (`Release`) holds the private numbers and the mechanism that made them; a model
(`models`) says what made the confidential records; `sample` draws from the exact posterior
p(theta | s_dp) by imputing the records inside a Markov chain.
"""

from pathlib import Path as _Path

from noiseaware import comparators, interop, kernels, mechanisms, models, queries
from noiseaware.calibration import geweke, sbc
from noiseaware.checks import check
from noiseaware.compiled import drop_stale_kernels as _drop_stale_kernels
from noiseaware.frames import imputed
from noiseaware.parameters import Innovations, Parameter
from noiseaware.plots import (
    plot_acceptance,
    plot_against_naive,
    plot_posterior,
    plot_rank,
    plot_trace,
)
from noiseaware.posterior import load, save, summary
from noiseaware.queries import Query
from noiseaware.release import Release
from noiseaware.report import write_report
from noiseaware.sampler import moves
from noiseaware.sampler.run import sample
from noiseaware.studies import study
from noiseaware.validation import validate

__version__ = "0.1.0"

__all__ = [
    "Innovations",
    "Parameter",
    "Query",
    "Release",
    "check",
    "comparators",
    "geweke",
    "imputed",
    "interop",
    "kernels",
    "load",
    "mechanisms",
    "models",
    "moves",
    "plot_acceptance",
    "plot_against_naive",
    "plot_posterior",
    "plot_rank",
    "plot_trace",
    "queries",
    "sample",
    "save",
    "sbc",
    "study",
    "summary",
    "validate",
    "write_report",
]

_drop_stale_kernels(_Path(__file__).parent)
