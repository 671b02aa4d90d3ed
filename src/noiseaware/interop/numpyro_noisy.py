"""`Noisy` for NumPyro: the distribution of a number published with noise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.interop import noisy
from noiseaware.kernels.hamiltonian import needs

__all__ = ["Noisy", "true_values"]


def Noisy(distribution: Any, mechanism: Any) -> Any:
    """Return the NumPyro distribution of what a local mechanism publishes about a draw.

    Its log density sums over the true number to machine precision, or integrates over it if the
    distribution is continuous; see `noiseaware.interop.noisy`. Use it like any distribution: with
    `obs=`, in plates, under `jit`, `grad` and NUTS.

    Parameters
    ----------
    distribution : numpyro.distributions.Distribution
        The distribution of the true numbers: counts from 0, or continuous; no event dimensions.
    mechanism : mechanism
        A local mechanism of `queries.Value()`: `LocalLaplace`, `LocalGaussian`, `LocalGeometric`,
        `LocalDiscreteGaussian`, with one scale or one for each value; `RandomRounding`, `CellKey`,
        `LocalExact`.

    Returns
    -------
    numpyro.distributions.Distribution
        Observed values are as for `Release`, NaN where nothing was published. They must be arrays,
        known when the model is traced, not arguments of a function being compiled.

    Notes
    -----
    JAX computes in single precision unless `numpyro.enable_x64()` is called.

    Examples
    --------
    >>> import noiseaware as na
    >>> def model(released, sd):  # with numpyro and numpyro.distributions as dist
    ...     rate = numpyro.sample("rate", dist.Gamma(2.0, 0.1))
    ...     noise = na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=sd)
    ...     published = na.interop.numpyro.Noisy(dist.Poisson(rate), noise)
    ...     with numpyro.plate("cells", len(released)):
    ...         numpyro.sample("y", published, obs=released)
    """
    needs("jax", "numpyro")
    return _noisy_class()(distribution, mechanism)


@functools.cache
def _noisy_class() -> Any:
    """Make the class, importing NumPyro only when needed."""
    import jax
    import jax.numpy as jnp
    from numpyro.distributions import Distribution, constraints

    class NoisyDistribution(Distribution):
        """The distribution of what is published about a draw from `base`."""

        support = constraints.real
        arg_constraints: dict[str, Any] = {}  # noqa: RUF012
        pytree_data_fields = ("base",)
        pytree_aux_fields = ("mechanism",)

        def __init__(self, base: Any, mechanism: Any) -> None:
            if not isinstance(base, Distribution):
                raise TypeError(f"distribution must be one of NumPyro; got {base!r}")
            if base.event_shape:
                raise ValueError(
                    "distribution must be of single numbers; this one has the event shape "
                    f"{base.event_shape}"
                )
            self.base, self.mechanism = base, mechanism
            super().__init__(base.batch_shape, ())

        def log_prob(self, value: Any, intermediates: Any = None) -> Any:
            return _read(self, value).log_prob(self.base)

        def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
            key, other = jax.random.split(key)
            true = self.base.sample(key, sample_shape)
            bits = jax.random.bits(other, (2,), dtype=jnp.uint32)
            shape = jax.ShapeDtypeStruct(jnp.shape(true), jnp.result_type(float))

            def privatize(true: Any, bits: Any) -> Any:
                rng = np.random.default_rng(np.asarray(bits))
                flat = np.asarray(true).reshape(-1)
                made = [
                    self.mechanism.privatize(part, rng).values
                    for part in np.split(flat, max(int(np.prod(sample_shape)), 1))
                ]
                return np.concatenate(made).reshape(shape.shape).astype(shape.dtype)

            return jax.pure_callback(privatize, shape, true, bits, vmap_method="sequential")

    return NoisyDistribution


def _backend() -> noisy.Backend:
    import jax
    import jax.numpy as jnp

    special, still = jax.scipy.special, jax.lax.stop_gradient
    functions = (special.erf, special.log_ndtr, _log_mass, _coordinate)
    return noisy.Backend(jnp, jnp.asarray, still, *functions)


def _read(published: Any, value: Any) -> noisy.Read:
    """Read the released values of a `Noisy`, in the shape of the log probabilities."""
    import jax

    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            "Noisy needs the released values themselves; here they are an argument of a function "
            "that JAX compiles. Let the function close over them"
        )
    array, base = np.asarray(value, dtype=np.float64), published.base
    values = np.broadcast_to(array, np.broadcast_shapes(array.shape, base.batch_shape))
    return noisy.Read(_backend, base.support.is_discrete, published.mechanism, values)


def _log_mass(base: Any) -> Callable[[Any], Any]:
    """Return the function log f of counts, -inf outside the support."""
    import jax.numpy as jnp

    def log_mass(x: Any) -> Any:
        possible = base.support(x)
        safe = jnp.where(possible, x, base.support.feasible_like(x))
        return jnp.where(possible, base.log_prob(safe), -jnp.inf)

    return log_mass


def _coordinate(base: Any) -> noisy.Coordinate:
    """Return NumPyro's own unconstrained coordinate of such a value."""
    import jax
    import jax.numpy as jnp
    from numpyro.distributions import biject_to

    support, to_value = base.support, biject_to(base.support)
    try:
        middle = jax.lax.stop_gradient(to_value.inv(base.mean))
    except NotImplementedError:
        middle = jnp.zeros(base.batch_shape)
    middle = jnp.where(jnp.isfinite(middle), middle, 0.0)

    def from_value(x: Any) -> Any:
        y = jax.lax.stop_gradient(to_value.inv(x))
        return jnp.where(jnp.isfinite(y), y, middle)

    def log_density(y: Any) -> Any:
        x = jax.lax.stop_gradient(to_value(y))
        possible = jnp.isfinite(x) & support(x)
        safe = jnp.where(possible, y, middle)
        x = to_value(safe)
        made = base.log_prob(x) + to_value.log_abs_det_jacobian(safe, x)
        return jnp.where(possible & ~jnp.isnan(made), made, -jnp.inf)

    return noisy.Coordinate(to_value, from_value, log_density, middle)


def true_values(
    model: Callable[..., Any],
    samples: Mapping[str, Any],
    *args: Any,
    random_seed: int | None = None,
    **kwargs: Any,
) -> dict[str, NDArray[Any]]:
    """Draw the true numbers given the published ones, once for each draw of the parameters.

    Parameters
    ----------
    model : callable
        The NumPyro model, with `Noisy` at some observed sites.
    samples : mapping
        Draws of its parameters, ``mcmc.get_samples()``.
    *args, **kwargs
        The model's arguments in the fit.
    random_seed : int, optional
        The seed of the draws.

    Returns
    -------
    dict
        For each site with `Noisy`, draws of the true numbers, (draws, ...).
    """
    needs("jax", "numpyro")
    import jax

    arrays = {name: np.asarray(value) for name, value in samples.items()}
    if not arrays:
        raise ValueError("samples must have draws of the parameters; it is empty")
    rng = np.random.default_rng(random_seed)
    compiled = jax.jit(lambda sample, key: _draw(model, sample, key, args, kwargs))
    made: dict[str, list[Any]] = {}
    for j in range(len(next(iter(arrays.values())))):
        key = jax.random.key(int(rng.integers(2**31)))
        for name, x in compiled({name: each[j] for name, each in arrays.items()}, key).items():
            made.setdefault(name, []).append(np.asarray(x))
    return {name: np.stack(draws) for name, draws in made.items()}


def _draw(model: Any, sample: Any, key: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Trace the model at a draw of its parameters and draw the numbers behind each `Noisy`."""
    import jax
    from numpyro import handlers

    found = {}
    seeded = handlers.seed(handlers.substitute(model, data=sample), key)
    for name, site in handlers.trace(seeded).get_trace(*args, **kwargs).items():
        part = site["fn"] if site["type"] == "sample" and site["is_observed"] else None
        while part is not None and not isinstance(part, _noisy_class()):
            part = getattr(part, "base_dist", None)
        if part is None:
            continue
        base, read = part.base, _read(part, site["value"])
        key, first, second = jax.random.split(key, 3)
        shape = read.shape[: len(read.shape) - len(base.batch_shape)]
        free = base.sample(first, (noisy.FREE, *shape))
        uniforms = jax.random.uniform(second, (noisy.FREE + 1, *read.shape))
        found[name] = read.draw(base, free, uniforms)
    if not found:
        raise ValueError("the model has no observed site with Noisy")
    return found
