"""Step 1 of Algorithms 1 and 2: update theta given the imputed database.

Given x, the release says nothing more about theta: p(theta | x, s_dp) = p(theta | x). So any
kernel that leaves p(theta | x) alone, the one that an analyst would use on the confidential
data, leaves p(theta, x | s_dp) alone too (the paper's Assumption 1 and section 3.1).
"""

from __future__ import annotations

from typing import Any

from noiseaware.kernels.slice import Slice
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

READY = Slice()
"""The kernel of a model that has a prior and a likelihood, but no kernel of its own."""


class ParameterUpdate:
    """Update theta by a kernel for p(theta | x).

    Parameters
    ----------
    kernel : callable or kernel object, optional
        `kernel(theta, records, rng) -> theta`, or an object as in `noiseaware.kernels`, which may
        learn in warm-up. If not given, the model's own: `update_parameters`, or a kernel object
        `kernel`; for a model that has only `log_prior` and `log_likelihood`, `kernels.Slice()`.
    """

    def __init__(self, kernel: Any = None) -> None:
        if not (kernel is None or callable(kernel) or hasattr(kernel, "step")):
            raise TypeError(
                "kernel must be a function kernel(theta, records, rng) or an object with "
                f"step(target, state, tuning); got {kernel!r}"
            )
        if isinstance(kernel, type):
            raise TypeError(
                f"kernel must be an object, such as {kernel.__name__}(); got the class {kernel!r}"
            )
        self.kernel = kernel
        self.reports: tuple[str, ...] = tuple(getattr(kernel, "reports", ()))

    def __repr__(self) -> str:
        return "ParameterUpdate()" if self.kernel is None else f"ParameterUpdate({self.kernel!r})"

    def _kernel(self, target: Target) -> Any:
        """Return the kernel: the one given, the model's own, or a ready one."""
        if self.kernel is not None:
            return self.kernel
        model = target.model
        if hasattr(model, "update_parameters"):
            return model.update_parameters
        own = getattr(model, "kernel", None)
        return own if hasattr(own, "step") else READY

    def _where(self, target: Target) -> str:
        """Return what to call the kernel in a message."""
        if self.kernel is None:
            return f"{type(target.model).__name__}.update_parameters"
        return getattr(self.kernel, "__name__", repr(self.kernel))

    def check(self, target: Target) -> None:
        """Raise if there is no kernel for p(theta | x)."""
        if self.kernel is None and not target.can_update:
            raise ValueError(
                f"{type(target.model).__name__} has no update_parameters(theta, records, rng), and "
                "not both log_prior(theta) and log_likelihood(theta, records) with records that "
                "theta can leave alone, so ParameterUpdate needs a kernel of its own: "
                "ParameterUpdate(kernel)"
            )
        if target.holds_innovations:
            raise ValueError(
                f"{type(target.model).__name__} is only a simulator: its innovations cannot be "
                "recovered from the records, so theta cannot be changed with the records kept"
            )
        kernel = self._kernel(target)
        if hasattr(kernel, "check"):
            kernel.check(target)

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin with the kernel's own tuning."""
        kernel = self._kernel(target)
        return kernel.start(target, state) if hasattr(kernel, "start") else {}

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float, ...]:
        """Draw theta by the kernel."""
        kernel = self._kernel(target)
        if hasattr(kernel, "step"):
            reported = kernel.step(target, state, tuning)
            return reported if self.reports else ()
        made = kernel(state.theta, state.records, state.rng)
        state.theta = target.as_theta(lambda: self._where(target), made)
        return ()

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Let the kernel learn."""
        kernel = self._kernel(target)
        if hasattr(kernel, "learn"):
            kernel.learn(target, state, tuning)

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Let the kernel learn no more."""
        kernel = self._kernel(target)
        if hasattr(kernel, "freeze"):
            kernel.freeze(target, state, tuning)
