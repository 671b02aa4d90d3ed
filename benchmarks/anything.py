"""Random settings: any ready model with odd priors, and a query and a mechanism that fit it.

`draw_setting(seed)` picks one, with additive, discrete or joint noise, post-processing, local
mechanisms, several releases, additional exact numbers, or an unknown number of records. The release
is simulated with theta from the prior, or moved far away from that. `reference` computes the answer
without a chain, by importance sampling from the prior. `python -m benchmarks odd --releases 100`
compares them (`odd.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import noiseaware as na
from noiseaware.contract import (
    draw_poisson_records,
    mechanism_abilities,
    model_abilities,
    poisson_means,
)
from noiseaware.mechanisms.additive import AdditiveNoise
from noiseaware.mechanisms.ready import ReadyMechanism

M, Q, C = na.models, na.queries, na.mechanisms


class Setting(NamedTuple):
    """The arguments of a call of `sample`, and words to name it in a table."""

    model: Any
    release: Any
    size: Any
    words: str


def pick(rng: np.random.Generator, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def small(rng):
    """Return a parameter of a prior: usual, sparse or heavy."""
    return float(pick(rng, 1.0, 2.0, 0.5, 0.1, 0.02, 0.001, 8.0))


def shape(rng):
    return float(pick(rng, 3.0, 1.0, 0.5, 0.2, 10.0))


def sizes_of(rng, n, groups):
    return [1 + int(k) for k in rng.multinomial(n - groups, np.ones(groups) / groups)]


def clamps(rng, centre=0.0):
    lower, upper = sorted(centre + rng.normal(size=2) * pick(rng, 0.5, 2.0, 5.0))
    return float(lower), float(upper + 0.1)


def linear(rng, cells, levels=None):
    rows = int(rng.integers(1, 4))
    matrix = rng.integers(-1, 3, size=(rows, cells))
    matrix[0, int(rng.integers(cells))] += 1
    if not matrix.any(axis=1).all():
        matrix[:, 0] += 1
    return Q.Linear(matrix.tolist(), [f"row {j}" for j in range(rows)], n_levels=levels)


def number_query(rng, centre=0.0, positive=False, whole=False):
    """Return a query of records with one number each."""
    if whole:
        top = int(pick(rng, 1, 3, 10, 40))
        return pick(
            rng,
            Q.Sum(0, top, integer_valued=True),
            Q.Sum(int(min(1, top - 1)), top, integer_valued=True),
            Q.Histogram(edges=[0, 1, top + 1, top + 5]),
            Q.Moments(1, 0, top),
            Q.Count(0),
        )
    lower, upper = clamps(rng, centre)
    if positive:
        lower, upper = float(pick(rng, 0.0, 0.3)), float(pick(rng, 1.0, 5.0, 0.5))
    edges = np.cumsum([lower, *rng.uniform(0.2, 2.0, size=3)]).tolist()
    moments = Q.Moments(1, lower, upper)
    return pick(rng, Q.Sum(lower, upper), moments, Q.Histogram(edges=edges))


def design(rng, n, q=1):
    return rng.normal(size=(n, q)) * pick(rng, 1.0, 3.0) + pick(rng, 0.0, 2.0)


def covariance(rng, p):
    a = rng.normal(size=(p, p)) * 0.5 + np.eye(p)
    return a @ a.T


def feature_prior(rng, p):
    if rng.random() < 0.5:
        return {"feature_mean": rng.normal(size=p), "feature_covariance": covariance(rng, p)}
    return {"feature_mean_sd": pick(rng, 2.0, 0.3, 5.0)}


def of_bernoulli(rng, n):
    return M.Bernoulli(small(rng), small(rng)), pick(
        rng, Q.Count(), Q.Count(0), Q.Histogram(n_levels=2), Q.Sum(0, 1, integer_valued=True)
    )


def of_categorical(rng, n):
    k = int(rng.integers(2, 5))
    prior = small(rng) if rng.random() < 0.5 else [small(rng) for _ in range(k)]
    return M.Categorical(k, prior), pick(
        rng, Q.Histogram(n_levels=k), linear(rng, k), Q.Count(int(rng.integers(k)))
    )


def of_contingency(rng, n):
    levels = pick(rng, [2, 2], [2, 3], [3, 2], [2, 2, 2])
    prior = pick(rng, small(rng), np.exp(rng.normal(-1, 2, size=levels)))
    cells = int(np.prod(levels))
    sets = [[j] for j in range(len(levels))]
    return M.ContingencyTable(levels, prior), pick(
        rng,
        Q.Margins(levels, sets),
        Q.Margins(levels, [*sets, [0, 1]]),
        linear(rng, cells, levels),
    )


def of_naive_bayes(rng, n):
    classes, levels = int(pick(rng, 2, 3)), pick(rng, [2], [2, 2], [3, 2], [2, 2, 2])
    every = [classes, *levels]
    return M.NaiveBayes(classes, levels, small(rng)), pick(
        rng,
        Q.ClassFeatureCounts(classes, levels),
        Q.ClassFeatureCounts(classes, levels),
        Q.Margins(every, [[0], *([j] for j in range(1, len(every)))]),
        Q.Margins(every, [[0, 1]]),
        linear(rng, int(np.prod(every)), every),
    )


def of_two_proportions(rng, n):
    model = M.TwoProportions(sizes_of(rng, n, 2), small(rng), small(rng))
    return model, Q.ByGroup(pick(rng, Q.Count(), Q.Histogram(n_levels=2)), 2)


def of_stratified_proportions(rng, n):
    k = int(pick(rng, 2, 3))
    model = M.StratifiedProportions(
        sizes_of(rng, n, k),
        location_mean=pick(rng, 0.0, -3.0),
        location_sd=pick(rng, 1.5, 0.2, 8.0),
        spread_scale=pick(rng, 1.0, 0.05, 8.0),
    )
    return model, Q.ByGroup(pick(rng, Q.Count(), Q.Histogram(n_levels=2)), k)


def of_two_means(rng, n):
    model = M.TwoMeans(
        sizes_of(rng, n, 2),
        mean_mean=pick(rng, 0.0, 3.0),
        mean_sd=pick(rng, 10.0, 1.0, 0.1),
        variance_shape=shape(rng),
        variance_scale=pick(rng, 2.0, 0.1, 20.0),
        equal_variances=bool(rng.integers(2)),
    )
    return model, Q.ByGroup(number_query(rng), 2)


def of_stratified_means(rng, n):
    k = int(pick(rng, 2, 3))
    model = M.StratifiedMeans(
        sizes_of(rng, n, k),
        location_mean=pick(rng, 0.0, 3.0),
        location_sd=pick(rng, 10.0, 1.0),
        spread_scale=pick(rng, 2.0, 0.1, 20.0),
        variance_shape=shape(rng),
        variance_scale=pick(rng, 2.0, 0.1, 20.0),
    )
    return model, Q.ByGroup(number_query(rng), k)


def of_unknown_sizes(rng, n):
    k = 2
    kind = int(rng.integers(4))
    prior = {"concentration": pick(rng, 1.0, 0.1, 5.0)}
    if kind == 0:
        return M.UnknownSizes(M.TwoProportions(a=small(rng), b=small(rng)), **prior), Q.ByGroup(
            pick(rng, Q.Count(), Q.Histogram(n_levels=2)), k
        )
    if kind == 1:
        model = M.TwoMeans(
            mean_sd=pick(rng, 2.0, 0.3, 10.0),
            variance_shape=shape(rng),
            equal_variances=bool(rng.integers(2)),
        )
        return M.UnknownSizes(model, **prior), Q.ByGroup(number_query(rng), k)
    labels = ["a", "b", "c"][: int(pick(rng, 2, 3))]
    if kind == 2:
        model = M.StratifiedProportions(labels=labels, spread_scale=pick(rng, 1.0, 5.0))
        return M.UnknownSizes(model, **prior), Q.ByGroup(Q.Histogram(n_levels=2), len(labels))
    model = M.StratifiedMeans(
        labels=labels, location_sd=pick(rng, 2.0, 10.0), spread_scale=pick(rng, 1.0, 0.1, 5.0)
    )
    return M.UnknownSizes(model, **prior), Q.ByGroup(number_query(rng), len(labels))


def of_normal(rng, n):
    known = {}
    if rng.random() < 0.25:
        known = pick(rng, {"mean": 1.0}, {"variance": 2.0})
    centre = pick(rng, 0.0, 4.0)
    prior = {"mean_mean": centre, "mean_sd": pick(rng, 10.0, 1.0, 0.1, 100.0)}
    spread = {"variance_shape": shape(rng), "variance_scale": pick(rng, 2.0, 0.05, 30.0)}
    prior = {} if "mean" in known else prior
    spread = {} if "variance" in known else spread
    return M.Normal(**known, **prior, **spread), number_query(rng, centre)


def of_multivariate(rng, n):
    d = int(pick(rng, 1, 2))
    known = {"covariance": covariance(rng, d)} if rng.random() < 0.3 else {}
    lower, upper = np.sort(rng.normal(size=(2, d)) * 3, axis=0)
    return (
        M.MultivariateNormal(
            d, mean_sd=pick(rng, 10.0, 1.0), mean_mean=pick(rng, 0.0, 2.0), **known
        ),
        Q.Moments(d, lower, upper + 0.2),
    )


def of_exponential(rng, n):
    return M.Exponential(max(small(rng), 0.03), small(rng)), number_query(rng, positive=True)


def of_gamma(rng, n):
    known = pick(rng, {}, {}, {"shape": 0.3}, {"rate": 2.0})
    prior = {"shape_shape": shape(rng), "shape_rate": pick(rng, 1.0, 0.1)}
    if "shape" in known:
        prior = {}
    if "rate" not in known:
        prior |= {"rate_shape": shape(rng), "rate_rate": pick(rng, 1.0, 0.1)}
    return M.Gamma(**known, **prior), number_query(rng, positive=True)


def of_dirichlet(rng, n):
    k = int(pick(rng, 2, 3))
    return M.Dirichlet(
        k,
        max(small(rng), 0.03),
        precision_shape=shape(rng),
        precision_rate=pick(rng, 0.1, 1.0, 5.0),
    ), Q.Shares(k, squares=bool(rng.integers(2)))


def of_poisson(rng, n):
    return M.Poisson(max(small(rng), 0.03), pick(rng, 0.1, 1.0, 5.0)), number_query(rng, whole=True)


def of_negative_binomial(rng, n):
    return M.NegativeBinomial(
        max(small(rng), 0.03),
        pick(rng, 0.1, 1.0, 5.0),
        dispersion_shape=shape(rng),
        dispersion_rate=shape(rng),
    ), number_query(rng, whole=True)


def of_linear(rng, n):
    known = {"noise_variance": 1.0} if rng.random() < 0.3 else {"noise_variance_shape": shape(rng)}
    known["coefficient_sd"] = pick(rng, 2.0, 0.2, 20.0)
    if rng.random() < 0.25:
        return M.LinearRegression(features=design(rng, n), **known), Q.Sum(*clamps(rng))
    p = int(pick(rng, 1, 2))
    lower, upper = np.sort(rng.normal(size=(2, p + 1)) * pick(rng, 1, 4), axis=0)
    return (
        M.LinearRegression(p, **known, **feature_prior(rng, p)),
        Q.RegressionMoments(p, lower, upper + 0.2),
    )


def of_logistic(rng, n):
    sd = {"coefficient_sd": pick(rng, 2.0, 0.2, 10.0)}
    if rng.random() < 0.3:
        return M.LogisticRegression(features=design(rng, n), **sd), Q.Count()
    p = int(pick(rng, 1, 2))
    lower, upper = np.sort(rng.normal(size=(2, p)) * pick(rng, 1, 4), axis=0)
    model = M.LogisticRegression(p, **sd, **feature_prior(rng, p))
    moments = Q.RegressionMoments(p, [*lower, 0.0], [*(upper + 0.2), 1.0])
    kind = rng.random()
    if kind < 0.2:
        return model, C.ObjectivePerturbation(
            C.LogisticLoss(n_features=p, lower=lower, upper=upper + 0.2),
            ridge=pick(rng, 1.0, 0.1, 10.0),
            scale=pick(rng, 0.5, 2.0),
            norm=pick(rng, 2, 1),
            gaussian=bool(rng.integers(2)),
        )
    if kind < 0.3:
        return model, C.Functional("logistic", p, lower, upper + 0.2, scale=pick(rng, 0.5, 3.0))
    return model, moments


def of_poisson_regression(rng, n):
    sd = {"coefficient_sd": pick(rng, 1.0, 0.2, 3.0)}
    top = float(pick(rng, 15.0, 3.0))
    if rng.random() < 0.3:
        whole = Q.Sum(0, int(top), integer_valued=True)
        return M.PoissonRegression(features=design(rng, n), **sd), whole
    p = int(pick(rng, 1, 2))
    lower, upper = np.sort(rng.normal(size=(2, p)) * pick(rng, 1, 4), axis=0)
    return (
        M.PoissonRegression(p, **sd, **feature_prior(rng, p), largest_rate=pick(rng, 500.0, 20.0)),
        Q.RegressionMoments(p, [*lower, 0.0], [*(upper + 0.2), top]),
    )


def table_query(rng, levels):
    cells = int(np.prod(levels))
    sets = [[j] for j in range(len(levels))]
    return pick(
        rng,
        Q.Margins(levels, sets),
        Q.Margins(levels, [*sets, list(range(len(levels)))]),
        linear(rng, cells, levels),
    )


def of_poisson_table(rng, n):
    levels = pick(rng, [2, 2], [3, 2], [2, 2, 2])
    return M.PoissonTable(levels, small(rng), pick(rng, 0.1, 1.0, 0.5)), table_query(rng, levels)


def of_log_normal_table(rng, n):
    if rng.random() < 0.3:
        k = int(pick(rng, 2, 3))
        return M.LogNormalTable(k, pick(rng, 0.5, -2.0), pick(rng, 0.2, 1.5)), pick(
            rng, Q.Histogram(n_levels=k), linear(rng, k)
        )
    levels = pick(rng, [2, 2], [3, 2])
    return M.LogNormalTable(
        levels, pick(rng, 0.5, -2.0, 2.0), pick(rng, 0.2, 1.5, 1.0)
    ), table_query(rng, levels)


def of_log_linear_table(rng, n):
    levels = pick(rng, [2, 2], [3, 2], [2, 2, 2])
    return M.LogLinearTable(
        levels,
        pick(rng, None, []) if len(levels) > 1 else None,
        pick(rng, 0.5, -1.0, 2.0),
        pick(rng, 0.3, 1.0),
        pick(rng, 1.0, 0.1, 2.0),
    ), table_query(rng, levels)


def of_count_regression(rng, n):
    family = pick(rng, "poisson", "negative-binomial", "binomial")
    prior = {
        "coefficient_sd": pick(rng, 2.0, 0.3),
        "intercept_mean": pick(rng, 0.0, 2.0, -2.0),
        "intercept_sd": pick(rng, 1.0, 2.0),
        "spread_scale": pick(rng, 1.0, 0.1),
        "spread_df": pick(rng, None, 3.0),
        "family": family,
    }
    if family == "binomial":
        prior["trials"] = rng.integers(1, 20, size=n)
    elif rng.random() < 0.5:
        prior["exposure"] = rng.uniform(0.1, 5.0, size=n)
    if family == "negative-binomial":
        prior["dispersion_mean"] = pick(rng, 1.0, 0.1, 3.0)
    features = design(rng, n) if rng.random() < 0.6 else None
    groups = rng.choice(["a", "b"], size=n) if rng.random() < 0.5 else None
    model = M.CountRegression(features, groups=groups, **prior)
    value = Q.Value()
    more = pick(rng, {}, {"threshold": 2.0}, {"clamp": [0.0, None]}, {"step": 2.0})
    scale = pick(rng, 1.0, 5.0, 0.3, rng.uniform(0.5, 5.0, size=n))
    return model, pick(
        rng,
        C.LocalDiscreteGaussian(value, scale=scale, **more),
        C.LocalGeometric(value, scale=scale, **more),
        C.LocalLaplace(value, scale=scale, **more),
        C.LocalGaussian(value, scale=scale, **more),
        C.RandomRounding(3),
        C.CellKey([[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]], -1),
        Q.Sum(0, 30, integer_valued=True),
    )


def of_errors(rng, n):
    p = int(pick(rng, 1, 1, 2))
    known = {}
    if rng.random() < 0.3:
        known["noise_variance"] = 0.5
    if rng.random() < 0.3:
        known["feature_covariance"] = covariance(rng, p)
    model = M.ErrorsInVariables(
        p,
        features=pick(rng, None, design(rng, n)),
        coefficient_sd=pick(rng, 2.0, 0.5),
        feature_sd=pick(rng, 2.0, 0.5),
        **known,
    )
    value = Q.Value(integer_valued=False)

    def one():
        more = pick(rng, {}, {}, {"threshold": 0.0}, {"clamp": [-1.0, 2.0]}, {"step": 1.0})
        kind = pick(rng, C.LocalLaplace, C.LocalGaussian)
        return kind(value, scale=pick(rng, 1.0, 0.5, 4.0), **more)

    return model, C.Attributes([one() for _ in range(p + 1)])


MAKERS = {
    "Bernoulli": of_bernoulli,
    "Categorical": of_categorical,
    "ContingencyTable": of_contingency,
    "NaiveBayes": of_naive_bayes,
    "TwoProportions": of_two_proportions,
    "StratifiedProportions": of_stratified_proportions,
    "TwoMeans": of_two_means,
    "StratifiedMeans": of_stratified_means,
    "UnknownSizes": of_unknown_sizes,
    "Normal": of_normal,
    "MultivariateNormal": of_multivariate,
    "Exponential": of_exponential,
    "Gamma": of_gamma,
    "Dirichlet": of_dirichlet,
    "Poisson": of_poisson,
    "NegativeBinomial": of_negative_binomial,
    "LinearRegression": of_linear,
    "LogisticRegression": of_logistic,
    "PoissonRegression": of_poisson_regression,
    "PoissonTable": of_poisson_table,
    "LogNormalTable": of_log_normal_table,
    "LogLinearTable": of_log_linear_table,
    "CountRegression": of_count_regression,
    "ErrorsInVariables": of_errors,
}
LARGEST = 10_000
"""Tables with more records are skipped: none of these releases could come from them."""

TABLES = ("PoissonTable", "LogNormalTable", "LogLinearTable")
FIXED = ("CountRegression", "ErrorsInVariables")
GROUPS = ("TwoProportions", "StratifiedProportions", "TwoMeans", "StratifiedMeans")
FINITE = ("Bernoulli", "Categorical", "ContingencyTable", "NaiveBayes", "TwoProportions", *TABLES)


def additive(rng, query, unit):
    """Return noise of scale about `unit`, possibly post-processed."""
    scale = unit * float(pick(rng, 0.3, 1.0, 1.0, 3.0, 10.0))
    whole = query.integer_valued
    kinds = [C.Laplace, C.Gaussian]
    if whole:
        kinds += [C.DiscreteLaplace, C.DiscreteGaussian]
        scale = max(scale, 0.5)
    d = len(query.names)
    noise = kinds[int(rng.integers(len(kinds)))](
        query, scale=scale if rng.random() < 0.7 else scale * rng.uniform(0.5, 2.0, size=d)
    )
    low = float(np.round(rng.normal() * unit))
    high = float(low + np.ceil(unit * 3))
    step = rng.random()
    if step < 0.45:
        return noise
    if step < 0.55:
        return C.Clamped(noise, low, pick(rng, high, np.inf))
    if step < 0.65:
        return C.Thresholded(noise, low)
    if step < 0.75:
        return C.Rounded(noise, float(max(1, np.round(2 * unit))))
    if step < 0.83:
        return C.Truncated(noise, low, high)
    if step < 0.88 and isinstance(noise, C.Laplace):
        return C.Folded(C.Laplace(query, scale=scale), low, high)
    if step < 0.94:
        return C.KNorm(query, norm=pick(rng, 1, 2, np.inf), scale=scale)
    if d > 1:
        return C.Exponential(query, np.arange(d), scale=scale)
    return C.Clamped(C.Rounded(noise, float(max(1, np.round(unit)))), low)


def mechanism_of(rng, name, model, query, unit, n):
    """Return a mechanism for this query, possibly several combined."""
    if isinstance(query, ReadyMechanism):
        return query
    kind = rng.random()
    numbers = ("Normal", "Exponential", "Gamma", "Poisson", "NegativeBinomial")
    if kind < 0.12:
        return C.Several([additive(rng, query, unit), additive(rng, query, unit)], ["a", "b"])
    if kind < 0.24 and name in ("Bernoulli", "Categorical") and n is not None:
        k = 2 if name == "Bernoulli" else model.n_levels
        told = C.RandomizedResponse(k, epsilon=pick(rng, 0.3, 2.0, 6.0))
        return pick(rng, told, C.Several([told, additive(rng, query, unit)], ["a", "b"]))
    if kind < 0.24 and name in numbers and n is not None and len(query.names) == 1:
        more = pick(rng, {}, {"threshold": 1.0}, {"clamp": [0.0, None]}, {"step": 1.0})
        local = C.LocalLaplace(query, scale=unit * pick(rng, 0.5, 2.0), **more)
        return pick(rng, local, C.Several([local, additive(rng, query, unit)], ["a", "b"]))
    if kind < 0.3 and name in ("Normal", "Exponential") and n is not None:
        grid = np.linspace(-3.0, 3.0, 9)
        return C.KNormGradient(C.QuantileLoss(0.3), grid=grid, scale=pick(rng, 0.5, 2.0))
    if kind < 0.36 and name in FINITE and query.integer_valued:
        return C.Several([additive(rng, query, unit), C.Exact(query)], ["a", "b"])
    return additive(rng, query, unit)


def simulate(model, n, size, rng):
    """Return theta and records from the prior, and the log weight of a table given n."""
    theta = model.sample_prior(rng)
    if not model_abilities(model).random_size:
        return theta, model.sample_records(theta, size.sample(rng) if n is None else n, rng), 0.0
    whole = float(poisson_means(model, theta).sum())
    if n is not None:
        return theta, model.sample_records(theta, n, rng), n * np.log(whole) - whole
    records = draw_poisson_records(model, theta, rng) if whole < LARGEST else None
    return theta, records, 0.0


def total_of(mechanism, records, values):
    """Return T for any mechanism, also for an empty database."""
    own = mechanism_abilities(mechanism)
    if own.statistic is None:
        return mechanism.query.statistic(records).sum(axis=0)
    return own.statistic(records, np.arange(len(records)), values).sum(axis=0)


def draw_setting(seed, names=tuple(MAKERS), most=8):
    """Return a setting of up to `most` records, determined by the arguments."""
    rng = np.random.default_rng([99, seed])
    name = names[seed % len(names)]
    least = 3 if name in (*GROUPS, *FIXED) or "Regression" in name else 1
    n = known = int(rng.integers(least, most + 1))
    model, query = MAKERS[name](rng, n)
    size = None
    alike = model_abilities(model).n_records is None and name not in (*GROUPS, *FIXED)
    if name in TABLES:
        known = pick(rng, n, None, None)
    elif alike and rng.random() < 0.2:
        known = None
        size = pick(rng, na.sizes.Uniform(1, 2 * n), na.sizes.Poisson(float(n)))
    with np.errstate(all="ignore"):
        drawn = (simulate(model, known, size, rng)[1] for _ in range(300))
        drawn = [records for records in drawn if records is not None and len(records)]
    unit = 1.0
    if not isinstance(query, ReadyMechanism):
        totals = np.stack([query.statistic(records).sum(axis=0) for records in drawn])
        low, high = np.quantile(totals, (0.16, 0.84), axis=0)
        unit = float(np.mean(high - low)) / 2 or float(totals.std()) or 1.0
    mechanism = mechanism_of(rng, name, model, query, unit, known)
    values = np.array(mechanism.privatize(drawn[0], rng).values)
    far = rng.random() < 0.25 and isinstance(mechanism, AdditiveNoise)
    if far:
        values += np.ceil(4.0 * unit) * rng.choice([-1.0, 1.0], size=values.shape)
    words = f"{type(mechanism).__name__}{' far' if far else ''}{' unknown n' * (known is None)}"
    return Setting(model, na.Release(values, mechanism, known), size, f"{name}, {words}")


def reference(setting, draws, rng):
    """Return theta of prior draws (with n if unknown), their weights and the ESS."""
    model, release, size, _ = setting
    mechanism, values, n = release.mechanism, release.values, release.n_records
    rows, logs = [], []
    with np.errstate(all="ignore"):
        for _ in range(draws):
            theta, records, log_weight = simulate(model, n, size, rng)
            if records is None:
                continue
            row = [np.ravel(theta[p.name]) for p in model.parameters]
            rows.append(np.concatenate(row if n is not None else [*row, [len(records)]]))
            total = total_of(mechanism, records, values)
            logs.append(log_weight + mechanism.log_density(values, total))
    weights = np.exp(np.array(logs) - max(logs)) if np.isfinite(max(logs)) else np.ones(len(logs))
    weights /= weights.sum()
    enough = 1.0 / float(weights @ weights) if np.isfinite(max(logs)) else 0.0
    return np.stack(rows), weights, enough
