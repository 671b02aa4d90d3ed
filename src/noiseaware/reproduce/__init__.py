"""The experiments of the paper, run again: `noiseaware reproduce`.

Ju, Awan, Gong and Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data",
sections 4 and 5 and the supplement. The files, in reading order:

- `published`: the numbers that the paper prints;
- `settings`: its two models and mechanisms, and how much of everything a run does;
- `experiments`: posterior means, acceptance and coverage, as four studies;
- `limits`, `imputed`, `run_time`: what the paper says without showing it;
- `tables`, `figures`, `verdicts`, `page`: what is written, and in which words;
- `run`: all of it in one call, which goes on where it was stopped.
"""

from noiseaware.reproduce.run import reproduce

__all__ = ["reproduce"]
