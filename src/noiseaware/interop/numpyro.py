"""An unmodified NumPyro model, with its prior, its likelihood of a record and NumPyro's NUTS.

The form
--------
A function of the number of records and of the values of each observed site, or None to draw them:

    def model(n, x=None, y=None):
        slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
        with numpyro.plate("records", n):
            x = numpyro.sample("x", dist.Normal(0.0, 1.0), obs=x)
            numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

* the first argument is n; each other argument defaults to None and has the name of the site whose
  `obs` it is. Every confidential entry of a record, features included, must be such a site, and is
  imputed;
* public knowledge of each record, such as an exposure or published covariates, is also an argument,
  with values given by `known`;
* the other sites are the parameters, with the prior that the function gives them. They may depend
  on each other, but neither on n nor on the records. Their distributions determine their supports:
  real, positive, between 0 and 1, simplex, positive definite matrix;
* given the parameters and public knowledge, records are independent and alike: a `plate` over n, or
  distributions with batch shape (n,). Each site's log probability has shape (n,).

A record is the row of the sites' values in the order of the arguments; a site with an event shape
takes one column per entry. With one site of scalars a record is a scalar. Records are int64 if all
sites are discrete, otherwise float64.

Anything else in a NumPyro model is an error, because data augmentation would then target a
different posterior: discrete or per-record parameters (marginalise them); other observed sites and
`factor` (the prior could not be drawn from); `mask`, `scale` and subsampling. `deterministic` sites
are ignored.

How it is computed
------------------
NumPyro's handlers trace the function with theta substituted. log p(theta) sums the log
probabilities of the parameters' sites, in their natural coordinates; log f(x_i | theta) sums those
of the observed sites. Functions are compiled for numbers of records padded to powers of two; the
surplus is discarded, which is valid because records are independent.

NumPyro's NUTS (`NUTS`) draws theta given the records on log p(v | x), with v the unconstrained
vector of noiseaware. `noiseaware.kernels.hamiltonian` tunes the step size and mass matrix in
warm-up and then freezes them: NumPyro's own adaptation assumes a fixed density, but here the
density changes with the imputed records.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Theta, kernel_abilities, model_abilities
from noiseaware.interop.numpyro_noisy import Noisy, true_values
from noiseaware.kernels.hamiltonian import Hamiltonian, needs
from noiseaware.parameters import Parameter

__all__ = ["NUTS", "Noisy", "NumPyroModel", "model", "true_values"]

FORM = (
    "a NumPyro model must be a function of the number of records and of the values of each "
    "observed site: def model(n, x=None, y=None), with numpyro.sample('x', ..., obs=x)"
)
_FEW, _SOME = 5, 3  # records that are looked at when a model is taken, and a part of them


def model(
    function: Callable[..., Any],
    *,
    kernel: Any = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
    known: Mapping[str, Any] | None = None,
) -> NumPyroModel:
    """Turn a NumPyro model into a model for `noiseaware.sample`.

    Parameters
    ----------
    function : callable
        The NumPyro model: `function(n, x=None, ...)`, with n the number of records and the others
        the values of the observed sites of these names.
    kernel : kernel, optional
        The kernel for p(theta | x), such as `noiseaware.kernels.BlackJax(algorithm="hmc")`; by
        default NumPyro's NUTS, `NUTS()`.
    dims : mapping, optional
        Names of the axes of a parameter, such as ``{"coefficients": ["term"]}``.
    coords : mapping, optional
        Labels along named axes, such as ``{"term": ["intercept", "slope"]}``.
    known : mapping, optional
        Values of arguments that are known for each record, such as ``{"income": income}``: arrays
        whose first axis is the record. They determine the number of records.

    Returns
    -------
    NumPyroModel

    Raises
    ------
    ValueError or TypeError
        If the model is not of the accepted form; the message says what is wrong.
    """
    return NumPyroModel(function, kernel, dims, coords, known)


class NUTS(Hamiltonian):
    """NumPyro's No-U-Turn sampler as a kernel for p(theta | x), tuned in warm-up and then frozen.

    Parameters
    ----------
    steps : int
        NUTS steps per iteration.
    max_tree_depth : int
        The maximum number of doublings of a trajectory.
    target_acceptance : float
        The acceptance rate to which the step size is tuned.
    """

    def __init__(
        self, steps: int = 1, max_tree_depth: int = 10, target_acceptance: float = 0.8
    ) -> None:
        self.max_tree_depth = whole_number("max_tree_depth", max_tree_depth)
        super().__init__(steps, target_acceptance)

    def __repr__(self) -> str:
        return f"NUTS(steps={self.steps})"

    def _density(self, model: Any) -> Callable[..., Any]:
        return model.jax_log_density

    def _transition(self, density: Callable[..., Any]) -> Callable[..., Any]:
        from numpyro.infer.hmc import hmc

        def nuts(key, v, step_size, inverse_mass, length):
            # One step with the given tuning, without warm-up.
            start, step = hmc(lambda v: -density(v), algo="NUTS")
            state = start(
                v,
                num_warmup=0,
                step_size=step_size,
                inverse_mass_matrix=inverse_mass,
                adapt_step_size=False,
                adapt_mass_matrix=False,
                dense_mass=inverse_mass.ndim == 2,
                max_tree_depth=self.max_tree_depth,
                rng_key=key,
            )
            state = step(state)
            return state.z, state.accept_prob, state.diverging

        return nuts

    def check(self, target: Any) -> None:
        """Raise if the model is not a NumPyro one."""
        able = model_abilities(target.model)
        if able.jax_log_density is None:
            raise ValueError(
                "NUTS is the kernel of noiseaware.interop.numpyro.model(...); for a "
                f"{able.name}, use noiseaware.kernels.BlackJax(...)"
            )
        super().check(target)


class NumPyroModel:
    """A NumPyro model as a model of noiseaware; made by `model`.

    `parameters` are its unobserved sites, `column_names` the names of a record's columns. With
    `known`, `n_records` is set and `uses_index` is True: records are not alike.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kernel: Any = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        needs("jax", "numpyro")
        import jax

        if not callable(function):
            raise TypeError(f"{FORM}; got {function!r}")
        self.function = function
        self.kernel = NUTS() if kernel is None else kernel
        if kernel_abilities(self.kernel).step is None or isinstance(self.kernel, type):
            raise TypeError(
                "kernel must be an object as in noiseaware.kernels, such as "
                f"noiseaware.kernels.BlackJax(); got {kernel!r}"
            )
        arguments = _data_arguments(function)
        self._known, self.n_records = _known_columns(known or {}, arguments)
        self.uses_index = bool(self._known)
        self._data = [name for name in arguments if name not in self._known]
        self._made: dict[str, Any] = {}
        with jax.enable_x64(True):
            sites = self._trace({}, _FEW, {}, jax.random.key(0))
            self._read_sites(sites)
            self.parameters = self._read_parameters(sites, dict(dims or {}), dict(coords or {}))
            self._read_columns(sites)
            self._check_likelihood(sites)

    def __repr__(self) -> str:
        return f"NumPyroModel({getattr(self.function, '__name__', self.function)})"

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions are not pickled.
        return {**self.__dict__, "_made": {}}

    # Reading the function.

    def _read_sites(self, sites: Any) -> None:
        """Find the parameters, and check that every site is of the accepted form."""
        for name in self._data:
            if name not in sites or sites[name]["type"] != "sample":
                raise ValueError(
                    f"{FORM}; it has the argument {name!r}, but its sites are {list(sites)}"
                )
        drawn = [name for name, site in sites.items() if site["type"] == "sample"]
        self._latent = [name for name in drawn if name not in self._data]
        for name, site in sites.items():
            _check_site(name, site, name in self._data)

    def _read_parameters(
        self, sites: Any, dims: dict[str, Any], coords: dict[str, Any]
    ) -> tuple[Parameter, ...]:
        """Return the unobserved sites with their supports."""
        import jax

        def fewer(key: Any) -> Any:
            trace = self._trace({}, _SOME, {}, key)
            return {name: s["value"] for name, s in trace.items() if s["type"] == "sample"}

        shapes = jax.eval_shape(fewer, jax.random.key(0))  # nothing is computed
        parameters = []
        for name in self._latent:
            shape = sites[name]["value"].shape
            if name not in shapes or shapes[name].shape != shape:
                raise ValueError(
                    f"the site {name!r} is there for each record (its shape grows with n); a "
                    "parameter must not be. Marginalise it, or make it a part of the record "
                    "by an argument of this name"
                )
            names = tuple(dims.pop(name, ()))
            labels = {dim: coords[dim] for dim in names if dim in coords}
            support = _support(name, sites[name]["fn"])
            parameters.append(Parameter(name, shape, support, names, labels))
        if dims:
            raise ValueError(f"dims must be of parameters ({self._latent}); got {list(dims)}")
        if not parameters:
            raise ValueError("the NumPyro model has no parameter: every site is observed")
        return tuple(parameters)

    def _read_columns(self, sites: Any) -> None:
        """Assign the columns of a record to the observed sites."""
        values = {name: sites[name]["value"] for name in self._data}
        for name, value in values.items():
            shape = sites[name]["fn"].log_prob(value).shape
            if value.shape[:1] != (_FEW,) or shape != (_FEW,):
                raise ValueError(
                    f"the site {name!r} must have n values and n log probabilities, one per "
                    f"record: put it into numpyro.plate('records', n). With n = {_FEW} its values "
                    f"have shape {value.shape} and its log probabilities {shape}"
                )
        self._columns = [(name, v.shape[1:], v.dtype) for name, v in values.items()]
        self._scalar = len(self._columns) == 1 and self._columns[0][1] == ()
        discrete = all(np.issubdtype(dtype, np.integer) for _, _, dtype in self._columns)
        self._dtype = np.dtype(np.int64 if discrete else np.float64)
        self.column_names = [
            name if event == () else f"{name}{j + 1}"
            for name, event, _ in self._columns
            for j in range(int(np.prod(event)))
        ]

    def _check_likelihood(self, sites: Any) -> None:
        """Check the assumptions about log f on drawn records.

        Each argument must be the `obs` of its site, and log f of a record must depend neither on
        the other records, checked in several orders, nor on their number.
        """
        import jax

        theta = {name: sites[name]["value"] for name in self._latent}
        observed = {name: sites[name]["value"] for name in self._data}
        trace = self._trace(theta, _FEW, observed, jax.random.key(0))
        for name in self._data:
            if not trace[name]["is_observed"]:
                raise ValueError(
                    f"the argument {name!r} is not the obs of the site {name!r}; {FORM}"
                )
            if not np.array_equal(trace[name]["value"], observed[name]):
                raise ValueError(
                    f"the site {name!r} must be observed as the argument {name!r} is, without a "
                    "change"
                )
        each = [trace[name]["fn"].log_prob(trace[name]["value"]) for name in self._data]
        log_f = np.sum([np.asarray(part) for part in each], axis=0)
        records, rows = np.asarray(self._joined(sites, _FEW)), self._rows(_FEW, None)
        for order in (np.arange(_FEW), np.arange(_FEW)[::-1], np.zeros(_FEW, dtype=int)):
            again = self._likelihood(theta, records[order], rows[order])
            if not np.allclose(again, log_f[order], rtol=1e-8, atol=1e-8):
                raise ValueError(
                    "records must be independent and alike given the parameters; in this NumPyro "
                    "model the log probability of a record depends on the others, on its place "
                    "or on n"
                )

    def _rows(self, n: int, index: Any) -> NDArray[np.int64]:
        """Return the numbers of the records: `index`, or the first n."""
        if index is None:
            index = np.arange(n) % (self.n_records or n)
        return np.asarray(index, dtype=np.int64)

    def _trace(self, theta: Any, n: int, observed: Any, key: Any, rows: Any = None) -> Any:
        """Return the trace of the function at these values of the sites."""
        import jax.numpy as jnp
        from numpyro import handlers

        rows = self._rows(n, None) if rows is None else rows
        known = {name: jnp.asarray(column)[rows] for name, column in self._known.items()}
        seeded = handlers.seed(handlers.substitute(self.function, data=theta), key)
        trace = handlers.trace(seeded).get_trace(n, **observed, **known)
        return {name: site for name, site in trace.items() if site["type"] != "plate"}

    # The densities, in JAX.

    def _log_prior(self, theta: Any) -> Any:
        import jax

        trace = self._trace(theta, 1, {}, jax.random.key(0))
        return sum(trace[name]["fn"].log_prob(trace[name]["value"]).sum() for name in self._latent)

    def _log_likelihood(self, theta: Any, records: Any, rows: Any = None) -> Any:
        import jax

        n = len(records)
        trace = self._trace(theta, n, self._split(records), jax.random.key(0), rows)
        return sum(trace[name]["fn"].log_prob(trace[name]["value"]) for name in self._data)

    def jax_log_density(self, theta: Any, records: Any) -> Any:
        """Log p(theta) + sum_i log f(x_i | theta), for JAX to differentiate."""
        return self._log_prior(theta) + self._log_likelihood(theta, records).sum()

    def _split(self, records: Any) -> dict[str, Any]:
        """Return the values of each observed site."""
        n, values, at = len(records), {}, 0
        flat = records.reshape(n, len(self.column_names))
        for name, event, dtype in self._columns:
            width = int(np.prod(event))
            values[name] = flat[:, at : at + width].reshape(n, *event).astype(dtype)
            at += width
        return values

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a JAX function in float64, compiled once."""
        import jax

        with jax.enable_x64(True):
            if name not in self._made:
                fixed = 1 if name == "_draw_records" else None
                self._made[name] = jax.jit(getattr(self, name), static_argnums=fixed)
            return self._made[name](*arguments)

    def _draw_prior(self, key_data: Any) -> Any:
        trace = self._trace({}, 1, {}, _key(key_data))
        return {name: trace[name]["value"] for name in self._latent}

    def _draw_records(self, theta: Any, n: int, key_data: Any, rows: Any) -> Any:
        return self._joined(self._trace(theta, n, {}, _key(key_data), rows), n)

    def _joined(self, sites: Any, n: int) -> Any:
        """Return the values of the observed sites as records."""
        import jax.numpy as jnp

        if self._scalar:
            return sites[self._data[0]]["value"].astype(self._dtype)
        values = [sites[name]["value"].reshape(n, -1) for name in self._data]
        return jnp.concatenate([value.astype(self._dtype) for value in values], axis=1)

    # The methods of a model.

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        theta = self._call("_draw_prior", _key_data(rng))
        return {name: np.array(theta[name], dtype=np.float64) for name in self._latent}

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Log p(theta) in the natural coordinates."""
        return float(self._call("_log_prior", self._arrays(theta)))

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator, index: Any = None
    ) -> NDArray[Any]:
        """Draw n records given theta: those numbered `index`, or the first n."""
        rows = self._rows(n, index)[np.minimum(np.arange(_at_least(n)), n - 1)]
        records = self._call("_draw_records", self._arrays(theta), len(rows), _key_data(rng), rows)
        return np.array(np.asarray(records)[:n], dtype=self._dtype, order="C")

    def log_likelihood(self, theta: Mapping[str, Any], records: NDArray[Any]) -> NDArray[Any]:
        """Log f(x_i | theta) of each record, (n,)."""
        return self._likelihood(theta, records, self._rows(len(records), None))

    def _likelihood(self, theta: Mapping[str, Any], records: NDArray[Any], rows: Any) -> Any:
        n = len(records)
        if n == 0:
            return np.empty(0)
        filled = np.minimum(np.arange(_at_least(n)), n - 1)
        each = self._call("_log_likelihood", self._arrays(theta), records[filled], rows[filled])
        return np.array(np.asarray(each)[:n], dtype=np.float64)

    def _arrays(self, theta: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.asarray(theta[name], dtype=np.float64) for name in self._latent}

    def to_dict(self) -> dict[str, Any]:
        """Raise ValueError: a function cannot be written to a file."""
        raise ValueError("a NumPyro model is a function, which cannot be written to a file")


def _data_arguments(function: Callable[..., Any]) -> list[str]:
    """Return the names of the observed sites from the function's arguments."""
    try:
        arguments = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise TypeError(f"{FORM}; got {function!r}, which does not say its arguments") from None
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    fits = (
        len(arguments) >= 2
        and arguments[0].kind in (plain[0], inspect.Parameter.POSITIONAL_ONLY)
        and arguments[0].default is inspect.Parameter.empty
        and all(a.kind in plain and a.default is None for a in arguments[1:])
    )
    if not fits:
        raise TypeError(f"{FORM}; got the arguments ({', '.join(map(str, arguments))})")
    return [argument.name for argument in arguments[1:]]


def _known_columns(
    known: Mapping[str, Any], arguments: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], int | None]:
    """Return the public columns and the number of records."""
    columns = {name: np.asarray(column) for name, column in known.items()}
    for name, column in columns.items():
        if name not in arguments:
            raise ValueError(
                f"known must name arguments of the model ({', '.join(arguments)}); got {name!r}"
            )
        if column.ndim == 0 or column.dtype.kind not in "iufb":
            raise TypeError(f"known must hold arrays of numbers, a row per record; {name!r} is not")
        if not np.isfinite(column.astype(np.float64)).all():
            raise ValueError(f"known must have no missing values; {name!r} has one")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"known must have columns of one length; got {lengths}")
    return columns, next(iter(lengths.values()), None)


def _check_site(name: str, site: Any, is_data: bool) -> None:
    """Raise if a site would lead to a posterior other than the model's."""
    from numpyro import distributions

    if site["type"] in ("deterministic", "mutable"):
        return
    if site["type"] != "sample":
        raise ValueError(f"the site {name!r} is a {site['type']}, which has no prior")
    if site["is_observed"]:
        raise ValueError(
            f"the site {name!r} is observed (or a factor) without being an argument: the prior of "
            f"the parameters given it could not be drawn from. {FORM}"
        )
    part = site["fn"]
    while hasattr(part, "base_dist") and not isinstance(part, distributions.MaskedDistribution):
        part = part.base_dist
    if isinstance(part, distributions.MaskedDistribution):
        raise ValueError(f"the site {name!r} is masked: its draws would not follow its density")
    if site.get("scale") is not None:
        raise ValueError(
            f"the log probability of the site {name!r} is scaled (handlers.scale, or a plate with "
            "a subsample): its draws would not follow its density"
        )
    if not is_data and site["fn"].support.is_discrete:
        raise ValueError(
            f"the site {name!r} is a discrete parameter; NUTS has no gradient there. Marginalise "
            "it (numpyro.distributions.MixtureSameFamily, for one)"
        )


def _support(name: str, distribution: Any) -> str:
    """Return the support of a parameter, named as in `noiseaware.Parameter`."""
    from numpyro.distributions import constraints

    constraint = distribution.support
    while hasattr(constraint, "base_constraint"):
        constraint = constraint.base_constraint
    kind = type(constraint)
    lower, upper = (getattr(constraint, f"{side}_bound", None) for side in ("lower", "upper"))
    if kind is type(constraints.real):
        return "real"
    if lower is not None and upper is None and np.all(np.asarray(lower) == 0):
        return "positive"
    if upper is not None and np.all(np.asarray(lower) == 0) and np.all(np.asarray(upper) == 1):
        return "unit"
    if kind is type(constraints.simplex):
        return "simplex"
    if kind is type(constraints.positive_definite):
        if len(distribution.batch_shape) == 0:
            return "covariance"
        raise ValueError(
            f"the site {name!r} is several matrices (batch shape {distribution.batch_shape}); "
            "give each a site of its own"
        )
    raise ValueError(
        f"the site {name!r} has the support {constraint}; the parameters of noiseaware are real, "
        "positive, between 0 and 1, simplexes or positive definite matrices. Sample one of these "
        "and compute the other from it: for a number between a and b, u between 0 and 1 and "
        "a + (b - a) * u"
    )


def _at_least(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << max(0, int(n) - 1).bit_length()


def _key_data(rng: np.random.Generator) -> NDArray[np.uint32]:
    """Draw the bits of a key for JAX."""
    return rng.integers(0, 2**32, size=2, dtype=np.uint32)


def _key(key_data: Any) -> Any:
    import jax

    return jax.random.wrap_key_data(key_data, impl="threefry2x32")
