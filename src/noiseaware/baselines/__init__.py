"""Other analyses of the same data, to compare with the noise-aware posterior.

- `naive`: the posterior of an analyst who treats the noisy numbers as exact. It is too narrow, and
  biased if the numbers first had to be made possible (a negative count, a matrix of moments that is
  not positive definite).
- `non_private`: p(theta | x), the posterior given the confidential records.
- `bootstrap`: the parametric bootstrap of Ferrando, Wang and Sheldon (2022). It accounts for the
  noise but is not Bayesian and uses no prior; its coverage is asymptotically right, but not if
  records are clamped.
- `debiased_bootstrap`: that of Wang, Chang and Awan (2025), around an estimate that clamping does
  not bias, for any model and mechanism that can be simulated from.
"""

from noiseaware.baselines.bootstraps import Bootstrap, bootstrap, debiased_bootstrap
from noiseaware.baselines.naive import naive, naive_note
from noiseaware.baselines.non_private import non_private

__all__ = ["Bootstrap", "bootstrap", "debiased_bootstrap", "naive", "naive_note", "non_private"]
