"""`Noisy` for PyMC: a variable published with noise, the true number summed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from noiseaware.interop import noisy
from noiseaware.kernels.hamiltonian import needs

__all__ = ["Noisy", "true_values"]


def Noisy(name: str, distribution: Any, mechanism: Any, *, observed: Any, **kwargs: Any) -> Any:
    """Add to the model what a local mechanism published about draws from a distribution.

    The true number is summed out to machine precision, or integrated out if the distribution is
    continuous; see `noiseaware.interop.noisy`. The log density has a gradient, so `pymc.sample`
    uses NUTS.

    Parameters
    ----------
    name : str
        The name of the variable.
    distribution : TensorVariable
        The distribution of the true numbers, without a name: ``pm.Poisson.dist(mu)``. Counts from
        0, or continuous.
    mechanism : mechanism
        A local mechanism of `queries.Value()`: `LocalLaplace`, `LocalGaussian`, `LocalGeometric`,
        `LocalDiscreteGaussian`, with one scale or one for each value; `RandomRounding`, `CellKey`,
        `LocalExact`.
    observed : array_like
        The released values, as for `Release`: NaN where nothing was published. PyMC would impute
        NaN, so it is given -inf instead.
    **kwargs
        Passed to `pymc.CustomDist`, such as `dims`.

    Returns
    -------
    TensorVariable

    Examples
    --------
    >>> import noiseaware as na
    >>> def build(released, sd):  # with pymc as pm
    ...     with pm.Model() as model:
    ...         rate = pm.Gamma("rate", 2.0, 0.1)
    ...         noise = na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=sd)
    ...         na.interop.pymc.Noisy("y", pm.Poisson.dist(rate), noise, observed=released)
    ...     return model
    """
    needs("pymc", extra="pymc")
    import pymc as pm
    from pymc.distributions.shape_utils import change_dist_size, rv_size_is_none
    from pytensor.graph.replace import clone_replace

    if not _is_distribution(distribution):
        raise TypeError(
            f"distribution must be one of PyMC, as pm.Poisson.dist(mu) is; got {distribution!r}"
        )
    if distribution.owner.op.ndim_supp:
        raise ValueError("distribution must be of single numbers; this one is of vectors")
    try:
        values = np.asarray(observed, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"observed must be the released values, an array of numbers; got {observed!r}"
        ) from None
    model = pm.modelcontext(None)
    distribution = _with_shapes(distribution, model)
    given = _parameters(distribution.owner, model)
    discrete = distribution.dtype.startswith(("int", "uint", "bool"))
    read = noisy.Read(_backend, discrete, mechanism, values)

    def with_parameters(parameters: Any) -> Any:
        return clone_replace(distribution, dict(zip(given, parameters, strict=True)))

    def logp(value: Any, *parameters: Any) -> Any:
        return read.log_prob(with_parameters(parameters))

    def published(*parameters: Any) -> Any:
        size, true = parameters[-1], with_parameters(parameters[:-1])
        resized = true if rv_size_is_none(size) else change_dist_size(true, size)
        return _published(mechanism, resized)

    shown = np.where(np.isnan(values), -np.inf, values)
    made = pm.CustomDist(name, *given, dist=published, logp=logp, observed=shown, **kwargs)
    made.tag.noisy = (distribution, read)
    return made


def _is_distribution(variable: Any) -> bool:
    node = getattr(variable, "owner", None)
    return node is not None and hasattr(node.op, "dist_params")


def _with_shapes(distribution: Any, model: Any) -> Any:
    """Return the distribution with the shapes of its parts derived from their parameters.

    PyMC broadcasts the parts of a mixture to the largest one by the shape of a draw of it, which in
    log p(s) would be a random variable without a value in the model.
    """
    import pytensor.tensor as pt
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.replace import graph_replace
    from pytensor.tensor.rewriting.shape import ShapeFeature
    from pytensor.tensor.shape import Shape

    named = list(model.basic_RVs)
    places = [variable.type() for variable in named]  # a copy of a variable is not the model's
    closed = graph_replace(distribution, dict(zip(named, places, strict=True)), strict=False)
    shapes = ShapeFeature()
    graph = FunctionGraph(outputs=[closed], features=[shapes], clone=True, copy_inputs=False)
    for node in graph.toposort():
        if isinstance(node.op, Shape) and _is_distribution(node.inputs[0]):
            graph.replace(node.outputs[0], pt.stack(shapes.shape_of[node.inputs[0]]))
    return graph_replace(graph.outputs[0], dict(zip(places, named, strict=True)), strict=False)


def _parameters(node: Any, model: Any) -> list[Any]:
    """Return the parameters of a distribution, each once.

    The parts of a mixture, and the base of a censored distribution, are unnamed distributions; they
    are replaced by their own parameters.
    """
    from pytensor.tensor.type import TensorType

    try:
        parts = node.op.dist_params(node)
    except ValueError:  # PyMC has no list of those of a truncated distribution
        parts = [variable for variable in node.inputs if isinstance(variable.type, TensorType)]
    found: list[Any] = []
    for parameter in parts:
        inside = _is_distribution(parameter) and parameter not in model.basic_RVs
        found += _parameters(parameter.owner, model) if inside else [parameter]
    return list(dict.fromkeys(found))


def _published(mechanism: Any, true: Any) -> Any:
    from pytensor.tensor.random.op import RandomVariable

    class Published(RandomVariable):
        """What is published about a number."""

        name = "published"
        signature = "()->()"
        dtype = "floatX"

        @classmethod
        def rng_fn(cls, rng: Any, true: Any, size: Any) -> Any:
            shape = np.shape(true) if size is None else tuple(size)
            flat = np.broadcast_to(true, shape).reshape(-1)
            return mechanism.privatize(flat, rng).values.reshape(shape)

    return Published()(true)


def _backend() -> noisy.Backend:
    import pytensor.tensor as pt
    from pymc.distributions.dist_math import normal_lcdf
    from pytensor.gradient import disconnected_grad

    functions = (pt.erf, lambda x: normal_lcdf(0.0, 1.0, x), _log_mass, _coordinate)
    return noisy.Backend(pt, pt.as_tensor, disconnected_grad, *functions)


def _log_mass(distribution: Any) -> Callable[[Any], Any]:
    import pymc as pm
    import pytensor.tensor as pt

    return lambda x: pm.logp(distribution, pt.as_tensor(x))


def _coordinate(distribution: Any) -> noisy.Coordinate:
    """Return PyMC's own unconstrained coordinate of such a value."""
    import pymc as pm
    import pytensor.tensor as pt
    from pymc.distributions.distribution import support_point
    from pymc.distributions.transforms import _default_transform
    from pytensor.gradient import disconnected_grad

    transform = _default_transform(distribution.owner.op, distribution)
    inputs = distribution.owner.inputs

    def to_value(y: Any) -> Any:
        return y if transform is None else transform.backward(pt.as_tensor(y), *inputs)

    def forward(x: Any) -> Any:
        y = pt.as_tensor(x)
        return disconnected_grad(y if transform is None else transform.forward(y, *inputs))

    def finite(x: Any) -> Any:
        return ~(pt.isnan(x) | pt.isinf(x))

    middle = forward(support_point(distribution))
    middle = pt.where(finite(middle), middle, 0.0)

    def from_value(x: Any) -> Any:
        y = forward(x)
        return pt.where(finite(y), y, middle)

    def log_density(y: Any) -> Any:
        x = disconnected_grad(to_value(y))
        possible = finite(x) & finite(disconnected_grad(pm.logp(distribution, x)))
        safe = pt.where(possible, y, middle)
        made = pm.logp(distribution, to_value(safe))
        if transform is not None:
            made = made + transform.log_jac_det(safe, *inputs)
        return pt.where(possible, made, -np.inf)

    return noisy.Coordinate(to_value, from_value, log_density, middle)


def true_values(idata: Any, model: Any = None, *, random_seed: int | None = None) -> Any:
    """Draw the true numbers given the published ones, once for each draw of the parameters.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `pymc.sample` returned.
    model : pymc.Model, optional
        The model with `Noisy` variables; by default that of the enclosing `with` block.
    random_seed : int, optional
        The seed of the draws.

    Returns
    -------
    xarray.Dataset
        For each `Noisy` variable, draws of the true numbers, (chain, draw, ...).
    """
    needs("pymc", extra="pymc")
    import pymc as pm
    import xarray as xr

    model = pm.modelcontext(model)
    rng = np.random.default_rng(random_seed)
    posterior = idata["posterior"]
    draw, names, noisy_names = _compiled_draw(model, rng)
    shape = tuple(posterior.sizes[dim] for dim in ("chain", "draw"))
    parts = [np.asarray(posterior[name].transpose("chain", "draw", ...)) for name in names]
    shapes = [model[name].tag.noisy[1].shape for name in noisy_names]
    made: list[Any] = [np.empty(shape + each) for each in shapes]
    for place in np.ndindex(shape):
        uniforms = [rng.random((noisy.FREE + 1, *each)) for each in shapes]
        drawn = draw(*(part[place] for part in parts), *uniforms)
        for array, x in zip(made, drawn, strict=True):
            array[place] = x
    variables = {}
    for name, array in zip(noisy_names, made, strict=True):
        dims = model.named_vars_to_dims.get(name) or [
            f"{name}_dim_{k}" for k in range(array.ndim - 2)
        ]
        whole = model[name].tag.noisy[1].discrete
        variables[name] = (("chain", "draw", *dims), array.astype(np.int64) if whole else array)
    coords = {dim: posterior[dim] for dim in ("chain", "draw")}
    return xr.Dataset(variables, coords)


def _compiled_draw(model: Any, rng: np.random.Generator) -> tuple[Any, list[str], list[str]]:
    """Return a function of free variables and uniforms, and the names of free and noisy ones."""
    import pytensor.tensor as pt
    from pymc.distributions.shape_utils import change_dist_size
    from pymc.pytensorf import compile as compile_graph
    from pytensor.graph.replace import clone_replace

    names = [rv.name for rv in model.observed_RVs if hasattr(rv.tag, "noisy")]
    if not names:
        raise ValueError("the model has no Noisy variable")
    drawn, uniforms = [], []
    for name in names:
        distribution, read = model[name].tag.noisy
        uniform = pt.tensor(dtype="float64", shape=(noisy.FREE + 1, *read.shape))
        free = change_dist_size(distribution, (noisy.FREE, *read.shape))
        drawn.append(read.draw(distribution, free, uniform))
        uniforms.append(uniform)
    inputs = [rv.type(name=rv.name) for rv in model.free_RVs]
    replaced = clone_replace(drawn, dict(zip(model.free_RVs, inputs, strict=True)))
    seed = int(rng.integers(2**31))
    made = compile_graph([*inputs, *uniforms], replaced, random_seed=seed)
    return made, [rv.name for rv in model.free_RVs], names
