"""Ready kernels for p(theta | x), for models in which nothing is conjugate.

From a model's `log_prior(theta)` and `log_likelihood(theta, records)`:

| file             | kernel                                                                       |
|------------------|------------------------------------------------------------------------------|
| `random_walk.py` | `RandomWalk`: Metropolis with a normal step                                  |
| `slice.py`       | `Slice`: slice sampling along one direction after another; nothing to choose |
| `blackjax.py`    | `BlackJax`: HMC or NUTS on a density written in JAX (the extra `jax`)         |

All move the unconstrained coordinates of theta (`maths.coordinates`). The first two shape their
steps by the derivatives of each record's log likelihood (`density.py`), `BlackJax` by the gradient
(`hamiltonian.py`): learned in warm-up and then frozen. A model without `update_parameters` uses its
own `kernel` if it has one, and otherwise `Slice`; `na.moves.ParameterUpdate(kernel)` replaces it.

A kernel is a function `kernel(theta, records, rng) -> theta`, or an object with the members of
`noiseaware.contract.Kernel` and any of `KernelAbilities`. All that it learns must be in its tuning,
not in the kernel itself: a chain is a function of its state, and chains share the kernel.
"""

from __future__ import annotations

from noiseaware.kernels.blackjax import BlackJax
from noiseaware.kernels.random_walk import RandomWalk
from noiseaware.kernels.slice import Slice

__all__ = ["BlackJax", "RandomWalk", "Slice"]
