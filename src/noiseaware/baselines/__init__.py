"""Other analyses of the same data, to hold next to the noise-aware posterior.

None of them is what `noiseaware.sample` computes; each answers "what would one have got instead?",
and is labelled as what it is:

- `naive`: the posterior of somebody who takes the noisy numbers as exact. Too narrow, and biased
  where the numbers had to be made possible first (a negative count, a matrix of moments that is
  not positive definite);
- `non_private`: p(theta | x), the posterior of somebody who may look at the confidential records;
- `bootstrap`: the parametric bootstrap of Ferrando, Wang and Sheldon (2022). It knows the noise,
  is not Bayesian and uses no prior; its coverage is right in the limit of many records, but not
  where records are clamped;
- `debiased_bootstrap`: that of Wang, Chang and Awan (2025), around an estimate that clamping does
  not bias, for any model and mechanism that can be simulated from.
"""

from noiseaware.baselines.bootstraps import Bootstrap, bootstrap, debiased_bootstrap
from noiseaware.baselines.naive import naive, naive_note
from noiseaware.baselines.non_private import non_private

__all__ = ["Bootstrap", "bootstrap", "debiased_bootstrap", "naive", "naive_note", "non_private"]
