"""Ready kernels for p(theta | x), for models in which nothing is conjugate.

From a model's `log_prior(theta)` and `log_likelihood(theta, records)`:

| file             | kernel                                                                       |
|------------------|------------------------------------------------------------------------------|
| `random_walk.py` | `RandomWalk`: Metropolis with a normal step                                  |
| `slice.py`       | `Slice`: slice sampling along one direction after another; nothing to choose |
| `blackjax.py`    | `BlackJax`: HMC or NUTS on a density written in JAX (the extra `jax`)         |

All move the unconstrained coordinates of theta (`maths.coordinates`). The first two take the
shape of their steps from how the log likelihood of each record answers to theta (`density.py`),
`BlackJax` from the gradient (`hamiltonian.py`): learned in warm-up and then frozen. A model that
has no `update_parameters` gets its own `kernel`, if it has one, and otherwise `Slice`;
`na.moves.ParameterUpdate(kernel)` puts another in its place.

A kernel is a function `kernel(theta, records, rng) -> theta`, or an object with the members of
`noiseaware.contract.Kernel` and as many of `KernelAbilities` as it needs. All that it learns is in
its tuning and nothing in the kernel itself: a chain is a function of its state, and chains share
the kernel.
"""

from __future__ import annotations

from noiseaware.kernels.blackjax import BlackJax
from noiseaware.kernels.random_walk import RandomWalk
from noiseaware.kernels.slice import Slice

__all__ = ["BlackJax", "RandomWalk", "Slice"]
