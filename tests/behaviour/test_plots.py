"""Pictures: axes in and out, no pyplot where axes are given, and the numbers that are drawn."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import xarray as xr
from examples.moves.full_conditional import FullConditional
from matplotlib.figure import Figure

import noiseaware as na
from behaviour.examples import Coin, regression, small_release
from behaviour.looks import overlapping, powers_of_ten, seen_texts

matplotlib.use("Agg")
QUICK = {"draws": 60, "warmup": 40, "chains": 2, "random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def posterior():
    return na.sample(*regression(), **QUICK)


@pytest.fixture(scope="module")
def coin():
    return na.sample(Coin(), small_release(), **QUICK)


def axes(count):
    return Figure(layout="constrained").subplots(count, 1, squeeze=False).ravel()


@pytest.mark.parametrize("plot", [na.plot_posterior, na.plot_trace, na.plot_rank])
def test_axes_go_in_and_come_out(plot, posterior, monkeypatch):
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "subplots", None)
    given = axes(3)
    made = plot(posterior, ["coefficients"], axes=given)
    assert list(made) == list(given)
    assert [ax.get_title(loc="left") for ax in made] == [
        "coefficients[intercept]", "coefficients[x1]", "coefficients[x2]",
    ]  # fmt: skip
    assert all(ax.has_data() for ax in made)
    made[0].figure.canvas.draw()
    assert pyplot.get_fignums() == []


def test_one_axes_is_enough_for_one_entry(posterior):
    (ax,) = axes(1)
    (made,) = na.plot_posterior(posterior, "coefficients[x2]", axes=ax)
    assert made is ax


def test_a_new_figure_is_made_where_none_is_given(posterior):
    from matplotlib import pyplot

    made = na.plot_posterior(posterior)
    # The first parameters of the model, up to six entries: three coefficients, one variance, two
    # means; not the covariance.
    assert len(made) == 6
    assert len(pyplot.get_fignums()) == 1
    pyplot.close("all")


def test_the_bar_is_the_interval_and_the_dot_the_median(posterior):
    (ax,) = na.plot_posterior(posterior, "coefficients[x1]", axes=axes(1), ci_prob=0.8)
    draws = posterior["posterior"]["coefficients"].sel(coefficient="x1").values.ravel()
    xs = [line.get_xdata() for line in ax.lines]
    expected = np.quantile(draws, [0.1, 0.9])
    assert any(len(x) == 2 and np.allclose(x, expected) for x in xs)
    assert any(len(x) == 1 and np.isclose(x[0], np.median(draws)) for x in xs)


def test_the_naive_analysis_is_a_row_of_its_own(posterior):
    (ax,) = na.plot_against_naive(posterior, var_names="coefficients[x1]", axes=axes(1))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["posterior", "naive", "prior"]
    given = {"coefficients": np.full((50, 3), np.nan)}
    (ax,) = na.plot_against_naive(posterior, given, "coefficients[x1]", axes=axes(1))
    assert "no value exists" in [text.get_text() for text in ax.texts]


def test_a_model_of_ones_own_is_passed_for_the_naive_analysis(coin):
    with pytest.raises(ValueError, match="pass it as model="):
        na.plot_against_naive(coin, axes=axes(1))
    given = {"probability": np.linspace(0.4, 0.6, 100)}
    na.plot_against_naive(coin, given, axes=axes(1))[0].figure.canvas.draw()


def test_acceptance_stands_against_its_bound(coin):
    (given,) = axes(1)
    ax = na.plot_acceptance(coin, ax=given)
    assert ax is given
    flat = [line.get_ydata() for line in ax.lines]
    assert any(np.allclose(y, np.exp(-1.0)) for y in flat)
    lowest = np.exp(coin["sample_stats"]["lowest_log_acceptance"].min("chain").values)
    assert any(len(y) == len(lowest) and np.allclose(y, lowest) for y in flat)


def test_without_proposals_for_records_there_is_no_acceptance():
    posterior = na.sample(
        na.models.Bernoulli(), small_release(),
        moves=[na.moves.ParameterUpdate(), FullConditional()], **QUICK,
    )  # fmt: skip
    with pytest.raises(ValueError, match="no acceptance to plot"):
        na.plot_acceptance(posterior)


def test_ranks_of_equal_chains_are_level():
    posterior = na.sample(na.models.Bernoulli(), small_release(), **{**QUICK, "draws": 400})
    (ax,) = na.plot_rank(posterior, axes=axes(1))
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, -1)
    np.testing.assert_allclose(heights.mean(axis=1), 0.4, rtol=1e-12)
    # Both chains together have every rank once: what one lacks the other has.
    np.testing.assert_allclose(heights.sum(axis=0), 0.8, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: na.plot_posterior(p, ["slope"]), r"var_names must hold .*coefficients.*'slope'"),
        (lambda p: na.plot_posterior(p, axes=axes(2)), "axes must be 6 Matplotlib axes"),
        (lambda p: na.plot_posterior(p, "coefficients[x1]", axes=[3]), "axes must be 1 Matplotlib"),
        (lambda p: na.plot_posterior(p, ci_prob=90, axes=axes(6)), "ci_prob must be between 0 and"),
    ],
)
def test_wrong_arguments_are_named(call, words, posterior):
    with pytest.raises(ValueError, match=words):
        call(posterior)


def test_only_a_posterior_can_be_drawn():
    with pytest.raises(TypeError, match="must be a posterior, as sample or load returns it"):
        na.plot_posterior({"a": 1})


def test_the_package_does_not_import_what_is_needed_later():
    slow = ("arviz_base", "arviz_stats", "jinja2", "matplotlib", "pandas", "scipy.linalg")
    slow += ("scipy.optimize", "scipy.sparse.csgraph", "scipy.stats", "xarray")
    # Older versions of SciPy import some of these themselves.
    code = "import sys, scipy.special; own = set(sys.modules); import noiseaware\n"
    code += f"print([m for m in {slow} if m in set(sys.modules) - own])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def money():
    """A posterior of numbers that are large, huge and tiny."""
    draws = np.random.default_rng(1).normal(size=(2, 200))
    values = {
        "income": 5e4 + 2e4 * draws,
        "variance": 2e10 + 3e9 * draws,
        "rate": 4e-5 + 3e-6 * draws,
    }
    made = {name: (("chain", "draw"), value) for name, value in values.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(made)})


@pytest.mark.parametrize("width", [3.9, 5.2])
@pytest.mark.parametrize("plot", [na.plot_posterior, na.plot_trace])
def test_axes_have_numbers_for_people(plot, width, money):
    figure = Figure(figsize=(width, 5.4), layout="constrained")
    plot(money, axes=figure.subplots(3, 1))
    assert powers_of_ten(figure) == []
    texts = [text for text, _ in seen_texts(figure)]
    assert any("0,000" in text for text in texts)
    assert any("×10¹⁰" in text for text in texts)
    assert any("×10⁻⁵" in text for text in texts)
    assert overlapping(figure) == []


def test_parameters_are_shown_in_their_units(money):
    shown = na.in_units(money, {"income": "thousand dollars"}, {"income": 1000, "rate": 1e-5})
    (ax,) = axes(1)
    na.plot_posterior(shown, "income", axes=ax)
    assert ax.get_xlabel() == "thousand dollars"
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert dots == [pytest.approx(np.median(money["posterior"]["income"]) / 1000)]
    (ax,) = axes(1)
    na.plot_trace(shown, "income", axes=ax)
    assert ax.get_ylabel() == "thousand dollars"
    frame = na.summary(shown)
    words = str(frame).splitlines()[1].split()
    assert words[:3] == ["income", "(thousand", "dollars)"]
    assert float(words[3]) == pytest.approx(50, rel=0.1)
    assert frame.loc["income", "mean"] == pytest.approx(50_000, rel=0.1)
    assert "report_units" not in money.attrs
    with pytest.raises(ValueError, match=r"unknown name 'incom' in units; did you mean 'income'"):
        na.in_units(money, {"incom": "dollars"})
    with pytest.raises(ValueError, match="scales must be a table of positive numbers; got"):
        na.in_units(money, scales={"income": -1})
