"""HMC and NUTS on p(theta | x), by BlackJAX, on a log density written in JAX.

`hamiltonian.py` says what is left invariant, what is tuned, and where the random numbers come from.
With a fixed step size epsilon and mass matrix M,

* `"nuts"` is the No-U-Turn sampler with multinomial weights of the states of a trajectory, whose
  length need not be chosen;
* `"hmc"` does L leapfrog steps and accepts their end with probability min(1, exp(-change of
  energy)). L is drawn uniformly from 1, ..., `leapfrog_steps` before each step, independently of
  the state, so the kernel is a mixture of kernels that each leave p(v | x) invariant. With one
  fixed L, a trajectory could return to its start.

JAX works in double precision here, inside a block that ends with the step: its setting elsewhere in
the program stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Maps, Model, model_abilities
from noiseaware.kernels.density import Target
from noiseaware.kernels.hamiltonian import Hamiltonian, needs

ALGORITHMS = ("nuts", "hmc")


class BlackJax(Hamiltonian):
    """HMC or NUTS on p(theta | x), by BlackJAX; tuned in warm-up and then frozen.

    It needs the extra `jax`. The density is given in one of three ways: `log_density`; `log_prior`
    and `log_likelihood`; or neither, and then the model's own `log_prior` and `log_likelihood` are
    taken, which JAX must be able to trace (written with `jax.numpy`, returning JAX arrays).

    Parameters
    ----------
    log_density : callable, optional
        `log_density(theta, records)`: log p(theta) + sum_i log f(x_i | theta), one number.
    log_prior : callable, optional
        `log_prior(theta)`: one number.
    log_likelihood : callable, optional
        `log_likelihood(theta, records)`: one number for each record.
    algorithm : str
        ``"nuts"`` or ``"hmc"``.
    steps : int
        Steps in an iteration.
    leapfrog_steps : int
        The largest number of leapfrog steps of an HMC step.
    max_doublings : int
        The most doublings of a NUTS trajectory.
    target_acceptance : float
        What the step size is tuned to.
    coordinates : object, optional
        Maps between theta and a real vector of your own: `size`, `to_vector(theta) -> v` and
        `from_vector(v) -> (theta, log_jacobian)`, the second written in JAX. If not given, those of
        the parameters' supports.

    Examples
    --------
    >>> import noiseaware as na
    >>> na.moves.ParameterUpdate(na.kernels.BlackJax(steps=2))
    ParameterUpdate(BlackJax(algorithm='nuts', steps=2))
    """

    def __init__(
        self,
        log_density: Callable[..., Any] | None = None,
        *,
        log_prior: Callable[..., Any] | None = None,
        log_likelihood: Callable[..., Any] | None = None,
        algorithm: str = "nuts",
        steps: int = 1,
        leapfrog_steps: int = 16,
        max_doublings: int = 10,
        target_acceptance: float = 0.8,
        coordinates: Maps | None = None,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm must be 'nuts' or 'hmc'; got {algorithm!r}")
        if (log_prior is None) != (log_likelihood is None):
            raise ValueError("log_prior and log_likelihood go together; got only one of them")
        if log_density is not None and log_prior is not None:
            raise ValueError("give log_density, or log_prior and log_likelihood; got all three")
        self.log_density = log_density
        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        for name in ("log_density", "log_prior", "log_likelihood"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be a function; got {given!r}")
        self.algorithm = algorithm
        self.leapfrog_steps = whole_number("leapfrog_steps", leapfrog_steps)
        self.max_doublings = whole_number("max_doublings", max_doublings)
        longest = self.leapfrog_steps if algorithm == "hmc" else 1
        super().__init__(steps, target_acceptance, coordinates, longest)

    def __repr__(self) -> str:
        return f"BlackJax(algorithm={self.algorithm!r}, steps={self.steps})"

    def _density(self, model: Model) -> Callable[..., Any]:
        """Return log p(theta) + log f(x | theta) as it was given, or the model's own."""
        if self.log_density is not None:
            return self.log_density
        if self.log_prior is not None:
            return joined(self.log_prior, self.log_likelihood)
        able = model_abilities(model)
        if able.jax_log_density is not None:
            return able.jax_log_density
        return joined(able.log_prior, able.log_likelihood)

    def _transition(self, density: Callable[..., Any]) -> Callable[..., Any]:
        import blackjax

        nuts = self.algorithm == "nuts"
        algorithm = blackjax.nuts if nuts else blackjax.hmc

        def move(key, v, step_size, inverse_mass, length):
            state, step = algorithm.init(v, density), algorithm.build_kernel()
            longest = self.max_doublings if nuts else length
            state, info = step(key, state, density, step_size, inverse_mass, longest)
            return state.position, info.acceptance_rate, info.is_divergent

        return move

    def check(self, target: Target) -> None:
        """Raise if a library is missing, or if JAX cannot differentiate the density."""
        needs("jax", "blackjax")
        if self.log_density is None and self.log_prior is None:
            able = target.abilities
            for method in ("log_prior", "log_likelihood"):
                if getattr(able, method) is None:
                    raise ValueError(
                        "BlackJax needs log_density, or log_prior and log_likelihood, or a model "
                        f"that has both; {able.name} has no {method}"
                    )
        super().check(target)


def joined(log_prior: Any, log_likelihood: Any) -> Callable[..., Any]:
    """Return log p(theta) + sum_i log f(x_i | theta)."""

    def log_density(theta: Any, records: Any) -> Any:
        each = log_likelihood(theta, records)
        if getattr(each, "shape", None) != (len(records),):
            raise ValueError(
                f"log_likelihood must return one number for each record, shape ({len(records)},); "
                f"got {getattr(each, 'shape', type(each).__name__)}"
            )
        return log_prior(theta) + each.sum()

    return log_density
