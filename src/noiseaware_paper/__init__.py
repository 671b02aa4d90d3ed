"""The experiments of the paper, run again: `noiseaware reproduce`.

Ju, Awan, Gong and Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data",
sections 4 and 5 and the supplement. This package uses noiseaware as anybody would; nothing in
noiseaware but the command knows of it. The files, in reading order:

- `published`: the numbers that the paper prints;
- `settings`: its two models and mechanisms, and how much of everything a run does;
- `limits`, `imputed`, `run_time`: what the paper says without showing it;
- `tables`, `figures`, `verdicts`: what is written, and in which words;
- `page`, `contents`: the page, and what stands on it;
- `run`: all of it in one call, which continues where it was stopped.
"""

from noiseaware_paper.run import reproduce

__all__ = ["reproduce"]
