"""Models written in JAX and for NumPyro whose p(theta | x) is known, for the tests of the kernels.

Import this module only behind `pytest.importorskip("jax")` and of the other two libraries.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import noiseaware as na
from exact.test_kernels import Die

LOG_PRIORS = {
    "rate": lambda theta: jnp.log(theta["rate"]) - theta["rate"],
    "die": lambda theta: ((Die.prior - 1) * jnp.log(theta["faces"])).sum(),
    "proportion": lambda theta: 0.0,
    "two modes": lambda theta: -0.5 * ((theta["m"] - 0.3) / 2.0) ** 2,
}
LOG_LIKELIHOODS = {
    "rate": lambda theta, x: jnp.log(theta["rate"]) - theta["rate"] * x,
    "die": lambda theta, x: jnp.log(theta["faces"])[x],
    "proportion": lambda theta, x: jnp.where(
        x == 1, jnp.log(theta["probability"]), jnp.log1p(-theta["probability"])
    ),
    "two modes": lambda theta, x: -0.5 * (x - theta["m"] ** 2) ** 2,
}


def by_blackjax(case, **options):
    """Return the kernel for one of the cases."""
    return na.kernels.BlackJax(
        log_prior=LOG_PRIORS[case], log_likelihood=LOG_LIKELIHOODS[case], **options
    )


def rate(n, x=None):
    """The model `Rate`, for NumPyro."""
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("records", n):
        numpyro.sample("x", dist.Exponential(rate), obs=x)


def die(n, face=None):
    """The model `Die`, for NumPyro, without a plate."""
    faces = numpyro.sample("faces", dist.Dirichlet(Die.prior))
    numpyro.sample("face", dist.Categorical(probs=faces).expand([n]), obs=face)


def regression(n, x=None, y=None):
    """The model `na.models.LinearRegression(1)`, for NumPyro."""
    coefficients = numpyro.sample("coefficients", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    noise_variance = numpyro.sample("noise_variance", dist.InverseGamma(3.0, 4.0))
    mean = numpyro.sample("feature_mean", dist.Normal(0.0, 2.0).expand([1]).to_event(1))
    covariance = numpyro.sample("feature_covariance", dist.InverseWishart(4.0, 2.0 * jnp.eye(1)))
    with numpyro.plate("records", n):
        x = numpyro.sample("x", dist.MultivariateNormal(mean, covariance), obs=x)
        fitted = coefficients[0] + x @ coefficients[1:]
        numpyro.sample("y", dist.Normal(fitted, jnp.sqrt(noise_variance)), obs=y)
