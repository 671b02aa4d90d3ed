"""What the gradient-based kernels share: the density, the tuning, the compiled step.

**The density** is that of the unconstrained vector v, Jacobian included (`density.py`). A
Hamiltonian step with a fixed step size and mass matrix leaves it invariant (Neal 2011; NUTS:
Hoffman and Gelman 2014). The records x are an argument of the compiled step, which is compiled once
for each shape of the records. Each step recomputes the value and the gradient of the density,
because x has changed.

**The tuning**, in warm-up only, is kept as plain arrays in the chain's tuning:

* the *mass matrix* M. The best one is the precision of v given x. At stationarity the score s = d
  log p(v | x) / d v has mean zero, and E(s s') = E(-d^2 log p(v | x) / d v d v'), which is that
  precision if p(v | x) is normal. The step computes the score anyway, so averaging s s' over a
  window costs nothing. Averaging over v would instead give the spread of theta given the release,
  over which x varies too, and which is much wider. Windows end at the powers of two. The average is
  shrunk towards its diagonal, more so in short windows;
* the *step size*, by the dual averaging of Hoffman and Gelman (2014, section 3.2) towards an
  acceptance of `target_acceptance`, restarted with each mass matrix from the last value.

**Random numbers.** The key of a step is 64 bits drawn from the chain's own generator, so a chain is
a function of its state, and no key is used twice.

References
----------
Neal, R. M. (2011). MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo, ch. 5.
Hoffman, M. D. and Gelman, A. (2014). The No-U-Turn sampler. Journal of Machine Learning Research
    15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Maps, Model, missing
from noiseaware.kernels.density import State, Target
from noiseaware.maths.coordinates import COVARIANCE, POSITIVE, REAL, SUPPORTS, UNIT, Coordinates
from noiseaware.parameters import Parameter

LARGEST_DENSE = 64
"""Most coordinates for a full mass matrix; beyond, it is diagonal."""

FIRST_WINDOW = 8
"""Steps of warm-up before the first mass matrix."""

FIRST_STEP_SIZE = 0.5
"""In units of the masses, which are 1; dual averaging leaves it within a few steps."""

ENOUGH = 25
"""Steps of dual averaging before its average becomes the step size."""

# Dual averaging: the constants that Hoffman and Gelman (2014) recommend.
SHRINKAGE, DELAY, DECAY = 0.05, 10.0, 0.75


class JaxCoordinates(Coordinates):
    """The maps of `noiseaware.maths.coordinates`, with v -> theta differentiable by JAX."""

    def from_vector(self, v: Any) -> tuple[dict[str, Any], Any]:
        """Return theta(v) and the log of the Jacobian at v, as JAX arrays."""
        theta, log_jacobian = {}, 0.0
        ends = [*self.layout[1:, 2].tolist(), self.size]
        for parameter, row, end in zip(self.parameters, self.layout, ends, strict=True):
            value, part = _constrain(parameter, v[row[2] : end])
            theta[parameter.name] = value
            log_jacobian = log_jacobian + part
        return theta, log_jacobian


def _constrain(parameter: Parameter, v: Any) -> tuple[Any, Any]:
    """Return one parameter's theta(v), in its shape, and the log of the Jacobian."""
    import jax
    import jax.numpy as jnp

    shape, support = parameter.shape, SUPPORTS[parameter.support]
    if support.code == REAL:
        return v.reshape(shape), 0.0
    if support.code == POSITIVE:
        return jnp.exp(v).reshape(shape), v.sum()
    if support.code == UNIT:
        # log theta + log(1 - theta), stable for large |v|.
        log_jacobian = -(jax.nn.softplus(v) + jax.nn.softplus(-v)).sum()
        return jax.nn.sigmoid(v).reshape(shape), log_jacobian
    if support.code == COVARIANCE:
        p = shape[0]
        row, column = np.tril_indices(p)
        filled = jnp.where(row == column, jnp.exp(v), v)
        factor = jnp.zeros((p, p), v.dtype).at[row, column].set(filled)
        diagonal = v[np.flatnonzero(row == column)]
        log_jacobian = p * math.log(2.0) + ((p - np.arange(p) + 1) * diagonal).sum()
        return factor @ factor.T, log_jacobian
    _, width, _ = support.cut(shape)
    rows = v.reshape(-1, width - 1)
    logits = jnp.concatenate([rows, jnp.zeros((len(rows), 1), rows.dtype)], axis=1)
    log_theta = jax.nn.log_softmax(logits, axis=1)
    return jnp.exp(log_theta).reshape(shape), log_theta.sum()


def needs(*libraries: str, extra: str = "jax") -> None:
    """Raise ImportError, with what to install, unless these libraries are there."""
    import importlib

    for library in libraries:
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise ImportError(
                f"this needs {library}, which comes with the extra `{extra}`: "
                f"pip install 'noiseaware[{extra}]'"
            ) from error


class Hamiltonian:
    """A tuned Hamiltonian kernel, the base of `BlackJax` and `interop.numpyro.NUTS`.

    `coordinates` are the user's own, or None; `longest` is the largest `length` of a step.
    """

    reports = ("kernel_acceptance", "kernel_divergence")

    def __init__(
        self,
        steps: int,
        target_acceptance: float,
        coordinates: Maps | None = None,
        longest: int = 1,
    ) -> None:
        wanted = target_acceptance
        if not 0.0 < wanted < 1.0:
            raise ValueError(f"target_acceptance must be between 0 and 1; got {wanted!r}")
        lacks = [] if coordinates is None else missing(coordinates, Maps)
        if lacks:
            raise TypeError(
                "coordinates must have size, to_vector(theta) and from_vector(v); "
                f"{type(coordinates).__name__} has no {lacks[0]}"
            )
        self.coordinates = coordinates
        self.steps = whole_number("steps", steps)
        self.target_acceptance = float(wanted)
        self.longest = longest
        self._made: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Compiled code is not shared between processes; a worker compiles its own.
        return {**self.__dict__, "_made": {}}

    def _density(self, model: Model) -> Callable[..., Any]:
        """Return f(theta, records) = log p(theta) + log f(x | theta), in JAX."""
        raise NotImplementedError

    def _transition(self, density: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step on the density of v, `move(key, v, step_size, inverse_mass, length)`.

        It returns the new v, the acceptance, and whether the step diverged.
        """
        raise NotImplementedError

    def _log_density(self, model: Model) -> tuple[Any, Callable[..., Any]]:
        """Return the coordinates, and the log density of v and the records."""
        coordinates = self.coordinates or JaxCoordinates(tuple(model.parameters))
        density = self._density(model)
        return coordinates, log_density_of_vector(type(self).__name__, density, coordinates)

    def _compiled(self, target: Target) -> tuple[Any, Any]:
        """Return the coordinates and the compiled step for this model, made once."""
        model, parameters = target.model, tuple(target.model.parameters)
        made = self._made.get(id(model))
        if made is None or made[0] is not model or made[1] != parameters:
            coordinates, log_density = self._log_density(model)
            step = compiled_step(log_density, coordinates, self._transition, self.steps)
            # Keeping the model prevents the reuse of its id.
            made = self._made[id(model)] = (model, parameters, coordinates, step)
        return made[2], made[3]

    def check(self, target: Target) -> None:
        """Raise if the density is not one number that JAX can differentiate."""
        import jax

        rng = np.random.default_rng(0)
        theta = target.model.sample_prior(rng)
        records, _ = target.propose(theta, min(target.n, 3), rng)
        coordinates, log_density = self._log_density(target.model)
        v = np.asarray(coordinates.to_vector(theta), dtype=np.float64)
        if v.shape != (coordinates.size,):
            raise ValueError(
                f"to_vector of the coordinates of {type(self).__name__} must return "
                f"({coordinates.size},) numbers; got shape {v.shape}"
            )
        with jax.enable_x64(True):
            jax.eval_shape(jax.grad(log_density), v, records)

    def start(self, target: Target, state: State) -> dict[str, Any]:
        """Begin with unit masses."""
        size = self._compiled(target)[0].size
        dense = size <= LARGEST_DENSE
        return {
            "step_size": FIRST_STEP_SIZE,
            "inverse_mass": np.eye(size) if dense else np.ones(size),
            "warming": True,
            "acceptance": 0.0,
            "score": np.zeros(size),
            "squares": np.zeros((size, size) if dense else size),
            "count": 0,
            "window": 0,
            "averaging": _averaging(FIRST_STEP_SIZE),
        }

    def step(self, target: Target, state: State, tuning: dict[str, Any]) -> tuple[float, float]:
        """Do `steps` steps; report the acceptance and the share of steps that diverged."""
        import jax

        coordinates, run = self._compiled(target)
        rng = state.rng
        key = rng.integers(0, 2**32, size=2, dtype=np.uint32)
        lengths = rng.integers(1, self.longest + 1, size=self.steps)
        v = np.asarray(coordinates.to_vector(state.theta), dtype=np.float64)
        with jax.enable_x64(True):
            made = run(key, v, tuning["step_size"], tuning["inverse_mass"], lengths, state.records)
        theta, new, score, acceptance, divergent = made
        if not np.array_equal(new, v):  # a rejection leaves theta as it is, to the last bit
            names = [parameter.name for parameter in target.model.parameters]
            state.theta = {name: np.array(theta[name], dtype=np.float64) for name in names}
        if tuning["warming"]:
            tuning["acceptance"], tuning["score"] = float(acceptance), np.array(score)
        return float(acceptance), float(divergent)

    def learn(self, target: Target, state: State, tuning: dict[str, Any]) -> None:
        """Tune the step size and, at the end of a window, the mass matrix."""
        tuning["count"] += 1
        score = tuning["score"]
        if np.isfinite(score).all():
            dense = tuning["squares"].ndim == 2
            tuning["squares"] += np.outer(score, score) if dense else score**2
            tuning["window"] += 1
        _tune_step_size(tuning, self.target_acceptance)
        count = tuning["count"]
        if count >= FIRST_WINDOW and count & (count - 1) == 0:
            _take_mass(tuning)

    def freeze(self, target: Target, state: State, tuning: dict[str, Any]) -> None:
        """Keep the averaged step size and the masses, and drop what was averaged."""
        step_size, inverse_mass = _averaged(tuning), tuning["inverse_mass"]
        tuning.clear()
        tuning.update(step_size=step_size, inverse_mass=inverse_mass, warming=False)


def log_density_of_vector(name: str, density: Any, coordinates: Any) -> Callable[..., Any]:
    """Return log p(v | x) as a function of v and the records, Jacobian included."""
    import jax
    import jax.numpy as jnp

    def log_density(v: Any, records: Any) -> Any:
        theta, log_jacobian = coordinates.from_vector(v)
        try:
            value = density(theta, records)
        except jax.errors.JAXTypeError as error:
            raise TypeError(
                f"the log density that {name} is given must be written with jax.numpy, for "
                "values that are not known yet: no float(...), no NumPy function, no `if` on a "
                f"parameter. JAX says: {str(error).splitlines()[0]}"
            ) from error
        value = jnp.asarray(value) + log_jacobian
        if value.shape != ():
            raise ValueError(
                f"the log density that {name} is given must be one number; got shape {value.shape}"
            )
        # Far out, where the model overflows, nothing is accepted.
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    return log_density


def compiled_step(
    log_density: Any, coordinates: Any, transition: Any, steps: int
) -> Callable[..., Any]:
    """Return a compiled function that does `steps` steps given the records."""
    import jax

    def run(key, v, step_size, inverse_mass, lengths, records):
        def density(v):
            return log_density(v, records)

        move = transition(density)
        keys = jax.random.split(jax.random.wrap_key_data(key, impl="threefry2x32"), steps)

        def body(k, carry):
            v, acceptance, divergent = carry
            v, probability, diverged = move(keys[k], v, step_size, inverse_mass, lengths[k])
            return v, acceptance + probability, divergent + diverged

        v, acceptance, divergent = jax.lax.fori_loop(0, steps, body, (v, 0.0, 0.0))
        theta, _ = coordinates.from_vector(v)
        return theta, v, jax.grad(density)(v), acceptance / steps, divergent / steps

    return jax.jit(run)


def _averaging(step_size: float) -> np.ndarray:
    """Return dual averaging at its beginning: count, mean error, mean log, starting point."""
    return np.array([0.0, 0.0, math.log(step_size), math.log(step_size)])


def _averaged(tuning: dict[str, Any]) -> float:
    """Return the step size found by dual averaging, or its starting point if that is recent."""
    times, _, average, begun = tuning["averaging"]
    return math.exp(average if times >= ENOUGH else begun)


def _tune_step_size(tuning: dict[str, Any], target_acceptance: float) -> None:
    """One update of dual averaging (Hoffman and Gelman 2014, their Algorithm 5)."""
    times, error, average, begun = tuning["averaging"]
    times += 1.0
    acceptance = tuning["acceptance"] if math.isfinite(tuning["acceptance"]) else 0.0
    weight = 1.0 / (times + DELAY)
    error = (1.0 - weight) * error + weight * (target_acceptance - acceptance)
    log_step = math.log(10.0) + begun - math.sqrt(times) / SHRINKAGE * error
    weight = times**-DECAY
    average = weight * log_step + (1.0 - weight) * average
    tuning["averaging"] = np.array([times, error, average, begun])
    tuning["step_size"] = math.exp(log_step)


def _take_mass(tuning: dict[str, Any]) -> None:
    """Take the mass matrix from the window that ends, and begin another."""
    window, squares = tuning["window"], tuning["squares"]
    if window:
        precision = squares / window
        if precision.ndim == 1:
            tuning["inverse_mass"] = 1.0 / np.maximum(precision, 1e-12)
        else:
            variances = np.maximum(np.diag(precision), 1e-12)
            pull = len(variances) + 5.0
            precision = (window * precision + pull * np.diag(variances)) / (window + pull)
            inverse = np.linalg.inv(precision)
            tuning["inverse_mass"] = 0.5 * (inverse + inverse.T)
    tuning["squares"] = np.zeros_like(squares)
    tuning["window"] = 0
    # In units of the mass matrix, a step keeps about the same length.
    tuning["step_size"] = _averaged(tuning)
    tuning["averaging"] = _averaging(tuning["step_size"])
