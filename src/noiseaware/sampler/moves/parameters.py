"""Step 1 of Algorithms 1 and 2: update theta given the imputed database.

Given x, the release says nothing more about theta: p(theta | x, s_dp) = p(theta | x). So any kernel
that leaves p(theta | x) invariant, as for an analysis of the confidential data, leaves
p(theta, x | s_dp) invariant too (the paper's Assumption 1 and section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable

from noiseaware.contract import Kernel, KernelAbilities, Theta, kernel_abilities
from noiseaware.kernels.slice import Slice
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

READY = kernel_abilities(Slice())
"""The kernel for a model with a prior and a likelihood, but no kernel of its own."""


class ParameterUpdate(ReadyMove):
    """Update theta by a kernel for p(theta | x).

    Parameters
    ----------
    kernel : callable or kernel object, optional
        `kernel(theta, records, rng) -> theta`, or an object as in `noiseaware.kernels`, which may
        learn in warm-up. By default the model's own, `update_parameters` or a kernel object
        `kernel`; for a model with only `log_prior` and `log_likelihood`, `kernels.Slice()`.
    """

    def __init__(self, kernel: Kernel | Callable[..., Theta] | None = None) -> None:
        able = kernel_abilities(kernel)
        if not (kernel is None or callable(kernel) or able.step is not None):
            raise TypeError(
                "kernel must be a function kernel(theta, records, rng) or an object with "
                f"step(target, state, tuning); got {kernel!r}"
            )
        if isinstance(kernel, type):
            raise TypeError(
                f"kernel must be an object, such as {kernel.__name__}(); got the class {kernel!r}"
            )
        self.kernel = kernel
        self.reports = tuple(able.reports)
        self._given = None if kernel is None else able

    def __repr__(self) -> str:
        return "ParameterUpdate()" if self.kernel is None else f"ParameterUpdate({self.kernel!r})"

    def _kernel(self, target: Target) -> KernelAbilities:
        """Return the kernel: the one given, the model's own, or a ready one."""
        return self._given or target.kernel or READY

    def _where(self, target: Target) -> str:
        """Return the kernel's name for error messages."""
        own = f"{target.abilities.name}.update_parameters"
        return own if self._given is None else self._given.name

    def check(self, target: Target) -> None:
        able = target.abilities
        if self.kernel is None and not able.can_update:
            raise ValueError(
                f"{able.name} has no update_parameters(theta, records, rng), and not both "
                "log_prior(theta) and log_likelihood(theta, records) with records that stay as "
                "they are when theta moves, so ParameterUpdate needs a kernel of its own: "
                "ParameterUpdate(kernel)"
            )
        if able.holds_innovations:
            raise ValueError(
                f"{able.name} is only a simulator: its innovations cannot be recovered from the "
                "records, so theta cannot be changed with the records kept"
            )
        self._kernel(target).check(target)

    def start(self, target: Target, state: ChainState) -> Tuning:
        return self._kernel(target).start(target, state)

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, ...]:
        able = self._kernel(target)
        if able.step is not None:
            reported = able.step(target, state, tuning)
            return reported if self.reports else ()
        made = able.kernel(state.theta, state.records, state.rng)
        state.theta = target.as_theta(lambda: self._where(target), made)
        return ()

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        self._kernel(target).learn(target, state, tuning)

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        self._kernel(target).freeze(target, state, tuning)
