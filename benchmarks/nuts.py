"""NumPyro's NUTS on (beta, u) for the paper's regression: the best general alternative.

The records are a function of the coefficients and standard normal innovations,
x_i = F(u_i; beta). So the posterior of (beta, u) has a known density, differentiable almost
everywhere:

    beta_j ~ N(0, 2^2),  u ~ N(0, 1) of shape (n, 3),
    log density += -sum_j |s_j - T_j(beta, u)| / scale.

The gradient jumps where T_j crosses the released value and where a record is clamped. NUTS runs
with NumPyro's defaults (diagonal mass matrix, target acceptance 0.8, trees of depth at most 10), in
float64, one chain at a time. It is timed in two ways, both without warm-up:

- `regression`: the kernel's own step in loops compiled ahead of time, sampling only;
- `regression_by_run`: ``MCMC.run`` as a user calls it. With its default settings NumPyro 0.22
  traces and compiles again at every call, even of the same object. This takes seconds, while the
  sampling may take 0.2.

Times are CPU seconds of the process (pin it to one core first).

Needs the extra ``bench`` (``pip install -e '.[bench]'``).
``python -m benchmarks.nuts`` prints the smallest ESS per second.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import measure, settings

MISSING = "benchmarks/nuts.py needs NumPyro, which is not installed: pip install -e '.[bench]'"


class NutsRun(NamedTuple):
    """Draws of NUTS from chains run one after the other."""

    coefficients: NDArray[np.float64]  # (chains, draws, 3), intercept first
    seconds: float  # CPU seconds, all chains, sampling phase only
    warmup_seconds: float  # all chains, warm-up only
    compile_seconds: float
    leapfrog_steps: float  # mean per draw
    divergences: int  # over all chains


def available() -> bool:
    try:
        import numpyro  # noqa: F401
    except ImportError:
        return False
    return True


def _kernel(values: NDArray[np.float64], n: int, scale: float):
    """Import JAX and make a NUTS kernel for (beta, u), or say what is missing."""
    try:
        import jax
        import jax.numpy as jnp
        import numpyro
        import numpyro.distributions as dist
        from numpyro.infer import NUTS
    except ImportError as error:
        raise ModuleNotFoundError(MISSING) from error
    numpyro.enable_x64()

    released = jnp.asarray(values)
    sigma = np.sqrt(settings.NOISE_VARIANCE)

    def scaled(z):
        clamped = jnp.clip(z, settings.LOWER, settings.UPPER)
        return 2.0 * (clamped - settings.LOWER) / (settings.UPPER - settings.LOWER) - 1.0

    def model():
        beta = numpyro.sample("beta", dist.Normal(0.0, settings.COEFFICIENT_SD).expand([3]))
        u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([n, 3]).to_event(2))
        features = settings.FEATURE_MEAN + u[:, :2]  # the feature covariance is I
        x1, x2 = scaled(features[:, 0]), scaled(features[:, 1])
        y = scaled(beta[0] + features @ beta[1:] + sigma * u[:, 2])
        statistic = jnp.stack([y, x1 * y, x2 * y, y * y, x1, x2, x1 * x1, x1 * x2, x2 * x2])
        gap = released - statistic.sum(axis=1)
        numpyro.factor("release", -jnp.abs(gap).sum() / scale)

    return jax, NUTS(model)


def regression(
    values: NDArray[np.float64],
    n: int,
    scale: float,
    *,
    warmup: int = 1000,
    draws: int = 1000,
    chains: int = 2,
    seed: int = 0,
) -> NutsRun:
    """Run NUTS on the paper's regression (see `settings`) with only beta unknown.

    Parameters
    ----------
    values : (9,)
        The released moments, in the order of `settings.regression_statistic`.
    n
        Number of records.
    scale
        Scale of the Laplace noise.
    warmup, draws, chains
        Iterations of each phase, and the number of chains, run one after the other.
    seed
        Seed of the chains.

    Raises
    ------
    ModuleNotFoundError
        If NumPyro is not installed; the message says how to install it.
    """
    jax, kernel = _kernel(values, n, scale)
    return compiled_ahead(jax, kernel, lambda z: z["beta"], warmup, draws, chains, seed)


def compiled_ahead(
    jax: Any, kernel: Any, read: Any, warmup: int, draws: int, chains: int, seed: int
) -> NutsRun:
    """Run a NUTS kernel, compiled ahead; `read` extracts a vector from the unconstrained state."""
    keys = jax.random.split(jax.random.key(seed), chains)
    states = [kernel.init(key, warmup, None, (), {}) for key in keys]

    # Compiled ahead of time, so that the timed call only samples.
    def warm_up(state):
        return jax.lax.fori_loop(0, warmup, lambda _, s: kernel.sample(s, (), {}), state)

    def collect(state):
        def step(state, _):
            state = kernel.sample(state, (), {})
            return state, (read(state.z), state.num_steps, state.diverging)

        return jax.lax.scan(step, state, None, length=draws)[1]

    start = time.process_time()
    warm_up_compiled = jax.jit(warm_up).lower(states[0]).compile()
    collect_compiled = jax.jit(collect).lower(states[0]).compile()
    compile_seconds = time.process_time() - start

    coefficients = []
    seconds = warmup_seconds = 0.0
    steps, divergences = [], 0
    for state in states:
        start = time.process_time()
        state = jax.block_until_ready(warm_up_compiled(state))
        middle = time.process_time()
        beta, num_steps, diverging = jax.block_until_ready(collect_compiled(state))
        end = time.process_time()
        warmup_seconds += middle - start
        seconds += end - middle
        coefficients.append(np.asarray(beta))
        steps.append(np.mean(num_steps))
        divergences += int(np.sum(diverging))
    return NutsRun(
        np.stack(coefficients),
        seconds,
        warmup_seconds,
        compile_seconds,
        float(np.mean(steps)),
        divergences,
    )


def cells(
    design: Any, values: Any, sd: Any, *, centred: bool, warmup: int, draws: int, chains: int
) -> NutsRun:
    """Run NUTS on a linear regression whose responses are latent, s_i ~ N(y_i, sd_i^2).

    Returns beta and log sigma^2. The priors are those of `models.LinearRegression`.
    """
    try:
        import jax
        import jax.numpy as jnp
        import numpyro
        import numpyro.distributions as dist
        from numpyro.infer import NUTS
    except ImportError as error:
        raise ModuleNotFoundError(MISSING) from error
    numpyro.enable_x64()
    design, values, sd = map(jnp.asarray, (design, values, sd))
    n, p = design.shape

    def model():
        beta = numpyro.sample("beta", dist.Normal(0.0, 2.0).expand([p]))
        variance = numpyro.sample("variance", dist.InverseGamma(3.0, 4.0))
        if centred:
            y = numpyro.sample("y", dist.Normal(design @ beta, jnp.sqrt(variance)))
        else:
            u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([n]))
            y = design @ beta + jnp.sqrt(variance) * u
        numpyro.sample("released", dist.Normal(y, sd), obs=values)

    def read(z):
        return jnp.append(z["beta"], z["variance"])

    return compiled_ahead(jax, NUTS(model), read, warmup, draws, chains, 0)


def regression_by_run(
    values: NDArray[np.float64],
    n: int,
    scale: float,
    *,
    warmup: int = 1000,
    draws: int = 1000,
    chains: int = 2,
    seed: int = 0,
) -> NutsRun:
    """Run the same through NumPyro's ``MCMC``, as a user calls it.

    A short first call starts JAX and fills its caches. The second call is measured:
    ``MCMC.warmup``, not in ``seconds``, then ``MCMC.run``, which compiles its loop again with
    NumPyro's default settings. That compilation is part of ``seconds``, and ``compile_seconds`` is
    zero.

    Parameters
    ----------
    values, n, scale, warmup, draws, chains, seed
        As in `regression`.
    """
    jax, kernel = _kernel(values, n, scale)
    from numpyro.infer import MCMC

    def make(kernel, warmup, draws):
        return MCMC(
            kernel,
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="sequential",
            progress_bar=False,
        )

    make(kernel, 2, 2).run(jax.random.key(seed))
    mcmc = make(_kernel(values, n, scale)[1], warmup, draws)
    start = time.process_time()
    mcmc.warmup(jax.random.key(seed))
    jax.block_until_ready(mcmc.post_warmup_state)
    middle = time.process_time()
    mcmc.run(jax.random.key(seed + 1), extra_fields=("num_steps", "diverging"))
    samples = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
    end = time.process_time()
    extra = mcmc.get_extra_fields()
    return NutsRun(
        np.asarray(samples["beta"]),
        end - middle,
        middle - start,
        0.0,
        float(np.mean(extra["num_steps"])),
        int(np.sum(extra["diverging"])),
    )


def main() -> None:
    """Print the smallest ESS per second of NUTS on the paper's regression.

    Two releases per setting, two chains each.
    """
    measure.pin_to_one_core()  # before JAX makes its threads
    if not available():
        raise SystemExit(MISSING)
    print("NUTS on (beta, u), one core: smallest ESS of the 3 coefficients, per second")
    for n, epsilon, draws in (
        (100, 0.1, 2000), (100, 1.0, 2000), (100, 10.0, 1000), (1000, 0.1, 1000),
    ):  # fmt: skip
        for seed in (1, 2):
            values = settings.regression_release(n, epsilon, seed)
            run = regression(values, n, settings.regression_scale(epsilon), draws=draws)
            bulk = measure.smallest_ess(run.coefficients)
            tail = measure.smallest_ess(run.coefficients, "tail")
            print(
                f"n = {n:>5,}  epsilon = {epsilon:>4g}  release {seed}"
                f"  bulk {bulk / run.seconds:8.1f}  tail {tail / run.seconds:8.1f} a second"
                f"  (ESS {bulk:.0f}, {tail:.0f} of {run.coefficients.shape[0] * draws} draws in"
                f" {run.seconds:.2f} s; warm-up {run.warmup_seconds:.2f} s, compilation"
                f" {run.compile_seconds:.1f} s; {run.leapfrog_steps:.0f} leapfrog steps a draw,"
                f" {run.divergences} divergences)",
                flush=True,
            )


if __name__ == "__main__":
    main()
