"""The paper's experiments, rerun by `noiseaware reproduce`.

Ju, Awan, Gong and Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data",
sections 4 and 5 and the supplement. This package uses the public noiseaware; nothing in noiseaware
except the command depends on it. The files, in reading order:

- `published`: the numbers printed in the paper;
- `settings`: its two models and mechanisms, and the size of a run;
- `limits`, `imputed`, `run_time`: claims that the paper does not show results for;
- `tables`, `figures`, `verdicts`: the output, with conclusions in words;
- `page`, `contents`: the page and its contents;
- `run`: everything in one call, which can be stopped and continued.
"""

from noiseaware_paper.run import reproduce

__all__ = ["reproduce"]
