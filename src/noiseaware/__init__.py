"""Exact Bayesian inference from differentially private releases.

A release (`Release`) holds the private numbers and the mechanism that made them; a model
(`models`) describes how the confidential records arose; `sample` draws from the exact posterior
p(theta | s_dp) by imputing the records inside a Markov chain.
"""

from pathlib import Path as _Path

from noiseaware import _cache_folder as _cache_folder  # first: before anything is compiled
from noiseaware import baselines, interop, kernels, mechanisms, models, queries, sizes
from noiseaware._version import __version__ as __version__
from noiseaware.basics.compiled import drop_stale_kernels as _drop_stale_kernels
from noiseaware.basics.deprecated import renamed as _renamed
from noiseaware.calibration import geweke, sbc
from noiseaware.cell_plots import plot_estimates
from noiseaware.evidence import Evidence, evidence
from noiseaware.maximum import Maximum, mle
from noiseaware.parameters import Innovations, Parameter, Work
from noiseaware.plots import (
    plot_acceptance,
    plot_against_naive,
    plot_posterior,
    plot_rank,
    plot_trace,
)
from noiseaware.queries import Query
from noiseaware.release import Release
from noiseaware.report import write_report
from noiseaware.results.checks import check
from noiseaware.results.databases import imputed
from noiseaware.results.estimates import estimates
from noiseaware.results.export import to_frame, to_posteriordb, write_draws
from noiseaware.results.posterior import load, save, summary
from noiseaware.results.predictive import posterior_predictive, predict
from noiseaware.results.scalars import in_units
from noiseaware.sampler import moves
from noiseaware.sampling import resume, sample
from noiseaware.studies import study
from noiseaware.validation import validate

__all__ = [
    "Evidence",
    "Innovations",
    "Maximum",
    "Parameter",
    "Query",
    "Release",
    "Work",
    "baselines",
    "check",
    "estimates",
    "evidence",
    "geweke",
    "imputed",
    "in_units",
    "interop",
    "kernels",
    "load",
    "mechanisms",
    "mle",
    "models",
    "moves",
    "plot_acceptance",
    "plot_against_naive",
    "plot_estimates",
    "plot_posterior",
    "plot_rank",
    "plot_trace",
    "posterior_predictive",
    "predict",
    "queries",
    "resume",
    "sample",
    "save",
    "sbc",
    "sizes",
    "study",
    "summary",
    "to_frame",
    "to_posteriordb",
    "validate",
    "write_draws",
    "write_report",
]

__getattr__ = _renamed("noiseaware", {"comparators": ("noiseaware.baselines", baselines)})

_drop_stale_kernels(_Path(__file__).parent)
