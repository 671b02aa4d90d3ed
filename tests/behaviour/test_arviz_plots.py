"""ArviZ's own pictures take what noiseaware returns, as it is: each of them is drawn."""

import arviz_stats
import matplotlib
import numpy as np
import pytest

import noiseaware as na
from behaviour.docs_blocks import run_page

az = pytest.importorskip("arviz_plots", reason="needs the extra plots")
matplotlib.use("Agg")
QUICK = {"draws": 60, "warmup": 40, "chains": 2, "random_seed": 1, "progressbar": False}
COUNT = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)


@pytest.fixture(scope="module")
def results():
    """One of each kind: a scalar, a vector, a predictive, cells, an unknown n."""
    coin, shares = na.models.Bernoulli(), na.models.Categorical(3)
    histogram = na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), epsilon=1.0)
    vector = na.sample(shares, na.Release([5.0, 4.0, 1.0], histogram, 10), **QUICK)
    cells = na.mechanisms.LocalGaussian(na.queries.Value(), scale=2.0)
    everybody = na.mechanisms.Laplace(na.queries.Count(value=None), scale=2.0)
    size = na.sizes.Uniform(1, 30)
    return {
        "scalar": na.sample(coin, na.Release([9.0], COUNT, 12), **QUICK),
        "vector": vector,
        # Of several numbers: a release of one has no density.
        "predictive": na.posterior_predictive(vector, shares, draws=30, random_seed=1),
        "cells": na.sample(na.models.Poisson(), na.Release([3.2, 5.1], cells, 2), **QUICK),
        "unknown n": na.sample(coin, na.Release([9.0], everybody, None), size=size, **QUICK),
    }


@pytest.mark.parametrize("kind", ["scalar", "vector", "predictive", "cells", "unknown n"])
@pytest.mark.parametrize(
    "name",
    ["plot_dist", "plot_forest", "plot_trace", "plot_rank", "plot_ess", "plot_autocorr",
     "plot_mcse", "plot_prior_posterior"],
)  # fmt: skip
def test_each_picture_is_drawn(kind, name, results):
    drawn = getattr(az, name)(results[kind], backend="matplotlib")
    figure = drawn.viz["figure"].item()
    figure.canvas.draw()
    assert any(ax.has_data() for ax in figure.axes)
    matplotlib.pyplot.close("all")


def test_simulated_releases_are_drawn_beside_the_real_one(results):
    drawn = az.plot_ppc_dist(results["predictive"], backend="matplotlib")
    drawn.viz["figure"].item().canvas.draw()
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def told():
    """Cells with a value each, and so a `log_likelihood`, with a prediction for every draw."""
    x = np.linspace(-1.0, 1.0, 12)
    mechanism = na.mechanisms.LocalGaussian(na.queries.Value(), scale=2.0)
    counts = np.random.default_rng(1).poisson(np.exp(1.5 + 0.5 * x))
    release = mechanism.privatize(counts, np.random.default_rng(2))
    model = na.models.CountRegression(x[:, None])
    drawn = na.sample(model, release, **QUICK)
    return na.posterior_predictive(drawn, model, draws=QUICK["draws"], random_seed=1)


def drawn_line(picture, told):
    """Return the curve of a picture: where, and how far the PITs' ECDF is from the diagonal."""
    figure = picture(told, backend="matplotlib").viz["figure"].item()
    figure.canvas.draw()
    ((line,),) = [ax.lines for ax in figure.axes]
    matplotlib.pyplot.close("all")
    return line.get_xdata(), line.get_ydata()


def test_plot_ppc_pit_counts_predictions_below_what_was_released(told):
    x, away = drawn_line(az.plot_ppc_pit, told)
    below = told["posterior_predictive"]["release"] <= told["observed_data"]["release"]
    pit = below.mean(("chain", "draw")).values
    np.testing.assert_allclose(away, (pit[:, None] <= x).mean(axis=0) - x, atol=1e-12)


def test_plot_loo_pit_is_drawn_where_each_record_has_a_value(told, results):
    x, away = drawn_line(az.plot_loo_pit, told)
    pit = arviz_stats.loo_pit(told)["release"].values
    pit /= pit.max()  # as arviz-plots 0.8 does, which takes them for ranks
    np.testing.assert_allclose(away, (pit[:, None] <= x + 1e-12).mean(axis=0) - x, atol=1e-9)
    with pytest.raises(TypeError, match="log likelihood"):
        az.plot_loo_pit(results["predictive"])


def test_ranks_are_drawn_by_plot_ecdf_pit():
    found = na.sbc(
        na.models.Bernoulli(), COUNT, n_records=10, replicates=20, draws=40, warmup=20,
        random_seed=1,
    )  # fmt: skip
    tree = found.to_datatree()
    values = tree["prior_sbc"]["probability"]
    assert values.dims == ("chain", "draw")
    assert values.shape == (1, 20)
    np.testing.assert_array_equal(np.floor(values.values[0] * 20), found.values[:, 0])
    drawn = az.plot_ecdf_pit(tree, backend="matplotlib")
    drawn.viz["figure"].item().canvas.draw()
    matplotlib.pyplot.close("all")


def test_only_sbc_has_ranks():
    found = na.geweke(na.models.Bernoulli(), COUNT, n_records=5, replicates=20, random_seed=1)
    with pytest.raises(ValueError, match="only the outcome of sbc has ranks"):
        found.to_datatree()


def test_the_blocks_of_the_docs_run():
    run_page("beyond.md")
    assert len(matplotlib.pyplot.get_fignums()) == 4
    matplotlib.pyplot.close("all")
