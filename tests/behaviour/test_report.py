"""The report: what it says, and that it says the same as the file. See also the browser's tests."""

import math
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import Coin, WeightedNoise, regression, small_release
from noiseaware.basics.described import query_words
from noiseaware.mechanisms.ready import mechanism_words
from noiseaware.plots import COLOURS
from noiseaware.report.numbers import number, percent, share_of_draws
from noiseaware.report.pictures import INK
from noiseaware.report.words import promise

QUICK = {"draws": 100, "warmup": 60, "chains": 2, "random_seed": 1, "progressbar": False}
SECTIONS = ["answer", "naive", "sources", "release", "checks", "chains", "imputed", "made"]
ONE = "coefficients[x1]"
ALONE = {"meta", "link", "br", "hr", "img", "use", "image"}


class Page(HTMLParser):
    """What the tests look at: the tags in order, the numbers, and whether tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.numbers, self.headings = [], [], {}, []
        self._data = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag not in ALONE:
            self.open.append(tag)
        if tag == "data":
            self._data = attrs
            self._data["text"] = ""

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in ALONE:
            return
        assert self.open.pop() == tag
        if tag == "data":
            self.numbers[self._data["data-what"]] = (
                float(self._data["value"]),
                self._data["text"],
            )
            self._data = None

    def handle_data(self, text):
        if self._data is not None:
            self._data["text"] += text

    def ids(self):
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]


def write(posterior, path, **options):
    return na.write_report(posterior, path / "report.html", **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def posterior():
    return na.sample(*regression(), keep_records=5, **QUICK)


@pytest.fixture(scope="module")
def text(posterior, tmp_path_factory):
    return write(posterior, tmp_path_factory.mktemp("report"), question="Is <x1> of use?")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_parts_come_in_their_order(page, text):
    places = [page.ids().index(name) for name in SECTIONS]
    assert places == sorted(places)
    assert text.startswith("<!DOCTYPE html>")
    assert "Is &lt;x1&gt; of use?" in text


def test_nothing_is_loaded_from_elsewhere(page, text):
    for tag, attrs in page.tags:
        for name in ("src", "href", "xlink:href", "data", "action"):
            if name in attrs and tag != "html":
                assert attrs[name].startswith(("#", "data:")), (tag, attrs[name])
    assert "<script" not in text
    assert "@import" not in text
    assert "url(http" not in text
    assert len(text) < 2_000_000


def test_the_numbers_are_those_of_the_file(page, posterior, tmp_path):
    na.save(posterior, tmp_path / "posterior.nc")
    stored = na.load(tmp_path / "posterior.nc")
    slope = stored["posterior"]["coefficients"].sel(coefficient="x1").values
    prior = stored["prior"]["coefficients"].sel(coefficient="x1").values
    label = ONE
    quantiles = {"low": 0.05, "middle": 0.5, "high": 0.95}
    for what, draws in (("answer", slope), ("posterior", slope), ("prior", prior)):
        for place, q in quantiles.items():
            value, shown = page.numbers[f"{what} {place} {label}"]
            assert value == np.quantile(draws, q)
            assert float(shown.replace("−", "-")) == pytest.approx(value, rel=0.2, abs=0.05)
    assert page.numbers[f"above zero {label}"][0] == (slope > 0).mean()
    released = stored["observed_data"]["release"]
    for name, value in zip(released["released"].values, released.values, strict=True):
        assert page.numbers[f"released {name}"][0] == value
    rate = float(stored["sample_stats"]["acceptance_rate"].mean())
    assert page.numbers["acceptance rate"][0] == rate
    lowest = float(stored["sample_stats"]["lowest_log_acceptance"].min())
    assert page.numbers["lowest acceptance"][0] == math.exp(lowest)
    assert page.numbers["acceptance bound"][0] == math.exp(-1.0)
    share = page.numbers[f"noise share {label}"][0]
    assert share + page.numbers[f"sampling share {label}"][0] == pytest.approx(1.0)
    assert page.numbers[f"private sd {label}"][0] == pytest.approx(slope.std())
    assert 0 < share < 1


def test_the_same_posterior_gives_the_same_page(posterior, tmp_path):
    assert write(posterior, tmp_path, var_names=ONE) == write(posterior, tmp_path, var_names=ONE)


def test_it_can_be_read_aloud(page, text):
    assert ("html", {"lang": "en"}) in page.tags
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(headings))
    pictures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(pictures) >= 6 + 2 * 6 + 1
    assert all(p["role"] == "img" and len(p["aria-label"]) > 20 for p in pictures)
    ids = page.ids()
    links = [attrs["href"][1:] for tag, attrs in page.tags if tag == "a"]
    assert set(links) <= set(ids)
    first = next(attrs for tag, attrs in page.tags if tag == "a")
    assert first["class"] == "skip"
    cells = [attrs for tag, attrs in page.tags if tag == "th"]
    assert all(cell["scope"] in ("row", "col") for cell in cells)


def test_ids_are_not_repeated_between_pictures(page):
    # Matplotlib names groups (figure_1, axes_1) the same in every picture; what is referred to
    # must be unique.
    used = set()
    for _, attrs in page.tags:
        for value in attrs.values():
            used |= set(re.findall(r"url\(#([^)]+)\)", value or ""))
        if "xlink:href" in attrs:
            used.add(attrs["xlink:href"].lstrip("#"))
    ids = page.ids()
    # The same marker drawn by the same commands may be there twice: whichever is taken, it is the
    # same picture.
    shapes = {}
    for name in used & set(ids):
        shapes[name] = ids.count(name)
    assert all(count == 1 for count in shapes.values())


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    a, b = sorted((luminance(one), luminance(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def schemes():
    css = (files("noiseaware.report") / "page.css").read_text(encoding="utf-8")
    found = [dict(re.findall(r"--(\w+): (#\w{6});", block)) for block in
             re.findall(r":root \{(.*?)\}", css, re.S)]  # fmt: skip
    assert len(found) == 3
    return found


@pytest.mark.parametrize("scheme", schemes(), ids=["light", "dark", "print"])
def test_contrast(scheme):
    for paper in ("paper", "panel"):
        for ink in ("ink", "soft", "link", "posterior", "naive", "prior", "good", "bad"):
            assert contrast(scheme[ink], scheme[paper]) >= 4.5, (ink, paper)


def test_the_pictures_have_the_colours_of_the_page(text):
    light = schemes()[0]
    assert {name: light[name] for name in COLOURS} == COLOURS
    assert light["ink"] == INK
    pictures = text[text.index("<svg") :]
    for colour in (*COLOURS.values(), INK):
        assert colour not in pictures
    assert "var(--posterior)" in pictures


def test_a_failed_check_is_said_at_the_top(posterior, text):
    assert not na.check(posterior)  # 200 draws are too few
    top = text[: text.index('id="naive"')]
    assert "✗ A check failed." in top
    assert "Do not use the numbers below" in top
    assert "✗ Failed" in text
    assert "What to do:" in text


def test_passed_checks_are_said_at_the_top(tmp_path):
    model, release = na.models.Bernoulli(), small_release(60, 20.0)
    posterior = na.sample(model, release, random_seed=1, progressbar=False)
    text = write(posterior, tmp_path)
    assert "✓ All checks passed." in text
    assert "✗" not in text
    assert "no imputed databases were kept: sample(..., keep_records=25)" in text
    assert "None were kept." in text


def test_the_settings_and_the_command_are_there(posterior, tmp_path):
    command = "noiseaware fit a.json -o b.nc"
    text = write(posterior, tmp_path, title="A title", command=command, var_names=ONE)
    assert "<h1>A title</h1>" in text
    assert "noiseaware fit a.json -o b.nc" in text
    assert "draws=100, warmup=60, chains=2," in text
    assert "random_seed=1, keep_records=5," in text
    assert "model = na.models.LinearRegression(n_features=2)" in text
    assert f"numpy {np.__version__}" in text


def test_the_code_on_the_page_makes_the_same_draws(text, posterior, tmp_path, monkeypatch):
    _, release = regression()
    release.to_json(tmp_path / "release.json")
    code = re.search(r"<pre><code>(import noiseaware as na.*?)</code></pre>", text, re.S)[1]
    code = (
        code.replace("&#34;", '"')
        .replace("),\n", ")")
        .replace("    random", "    progressbar=False, random")
    )
    code = code.replace('na.write_report(posterior, "report.html")', "")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    np.testing.assert_array_equal(
        names["posterior"]["posterior"]["coefficients"], posterior["posterior"]["coefficients"]
    )


def test_what_the_command_says_of_the_question_is_used(posterior, tmp_path):
    labelled = posterior.copy()
    labelled.attrs = {
        **posterior.attrs,
        "report_title": "T1",
        "report_question": "Q1?",
        "report_parameters": '["noise_variance"]',
        "command": "noiseaware fit x",
    }
    text = write(labelled, tmp_path)
    assert "answer middle noise_variance" in text
    assert "answer middle coefficients" not in text
    assert "<h1>T1</h1>" in text
    assert "Q1?" in text
    assert "noiseaware fit x" in text


def test_a_model_and_a_mechanism_of_ones_own(tmp_path):
    mechanism = WeightedNoise(na.Query(lambda x: x[:, None] * 1.0, ["ones"], 1.0), 2.0)
    release = na.Release([9.0], mechanism, 12)
    posterior = na.sample(Coin(), release, keep_records=2, **QUICK)
    text = write(posterior, tmp_path)
    Page(text)
    assert "There is no naive analysis to compare with" in text
    assert "pass it as model=" in text
    assert "pass it as release=" in text
    told = write(posterior, tmp_path, model=Coin(), release=release)
    assert "With the confidential records" in told


@pytest.mark.full
def test_what_a_model_derives_comes_first(tmp_path):
    model = na.models.TwoProportions(sizes=[20, 30])
    query = na.queries.ByGroup(na.queries.Count(), 2)
    release = na.Release([8.0, 20.0], na.mechanisms.Laplace(query, epsilon=1.0), 50)
    posterior = na.sample(model, release, keep_records=3, **QUICK)
    page = Page(write(posterior, tmp_path))
    draws = posterior["posterior"]["difference"].values
    assert page.numbers["answer middle difference"][0] == np.median(draws)
    assert "naive middle difference" in page.numbers
    assert "prior middle difference" in page.numbers
    assert 0 < page.numbers["noise share difference"][0] < 1
    order = [what for what in page.numbers if what.startswith("answer middle")]
    assert order[0] == "answer middle difference"


@pytest.mark.full
def test_many_parameters_fold(tmp_path):
    model = na.models.NaiveBayes(3, [4] * 5)
    query = na.queries.ClassFeatureCounts(3, [4] * 5)
    release = na.Release(np.full(60, 5.0), na.mechanisms.Laplace(query, epsilon=1.0), 60)
    posterior = na.sample(model, release, keep_records=3, **QUICK)
    text = write(posterior, tmp_path)
    page = Page(text)
    assert len(text) < 3_000_000
    assert "All parameters (63)" in text
    assert "answer middle class_probabilities[2]" in page.numbers
    assert "answer middle feature_probabilities[0, feature1, 0]" not in page.numbers
    assert "posterior middle feature_probabilities[2, feature5, 3]" in page.numbers
    chosen = write(posterior, tmp_path, var_names="feature_probabilities[0, feature1, 0]")
    assert "answer middle feature_probabilities[0, feature1, 0]" in Page(chosen).numbers


@pytest.mark.parametrize(
    ("value", "spread", "shown"),
    [
        (-0.16123, 0.066, "−0.161"),
        (0.0004, 0.1, "0.00"),
        (-0.0004, 0.1, "0.00"),
        (1234.5, 200.0, "1,230"),
        (51234567.0, 3e6, "51,200,000"),
        (1.5e-9, 1e-10, "1.50e−09"),
        (math.inf, 1.0, "∞"),
        (math.nan, 1.0, "not a number"),
        (0.0, None, "0"),
        (3.14159, None, "3.14"),
    ],
)
def test_numbers_in_words(value, spread, shown):
    assert number(value, spread) == shown


def test_shares_are_never_rounded_to_certainty():
    assert percent(0.9999) == "over 99.9%"
    assert percent(1e-5) == "under 0.1%"
    assert (percent(0.0), percent(1.0), percent(0.5), percent(0.986)) == (
        "0%", "100%", "50%", "98.6%",
    )  # fmt: skip


def test_all_draws_are_not_certainty():
    assert share_of_draws(1.0, 4000) == "over 99.9%"
    assert share_of_draws(1.0, 1000) == "over 99%"
    assert share_of_draws(0.0, 100) == "under 3%"
    assert share_of_draws(0.0, 2) == "under 50%"
    assert share_of_draws(0.986, 4000) == percent(0.986)


def test_the_answer_does_not_claim_certainty(tmp_path):
    mechanism = na.mechanisms.Laplace(na.queries.Sum(0, 50), epsilon=10.0)
    model = na.models.Normal(variance=1.0)
    posterior = na.sample(model, na.Release([2000.0], mechanism, 100), **QUICK)
    page = Page(write(posterior, tmp_path))
    assert page.numbers["above zero mean"] == (1.0, "over 98%")


def test_a_page_of_a_single_draw(tmp_path):
    short = {**QUICK, "draws": 1, "chains": 1, "warmup": 0}
    posterior = na.sample(na.models.Bernoulli(), small_release(), **short)
    assert "too few draws to compare" in write(posterior, tmp_path)


def test_promises_in_words():
    query = na.queries.Sum(0, 5)
    count = na.queries.Count()
    m = na.mechanisms
    pure = " ".join(promise(m.Laplace(query, epsilon=1.0).guarantee))
    assert "at most 2.72 times as likely" in pure
    assert "number of records is public" in pure
    added = " ".join(promise(m.Laplace(count, epsilon=1.0, neighbours="add-remove").guarantee))
    assert "a single record more or less" in added
    both = " ".join(promise(m.Gaussian(query, epsilon=1.0, delta=1e-6).guarantee))
    assert "δ = 1e-06" in both
    assert "μ = 0.5" in " ".join(promise(m.Gaussian(query, mu=0.5).guarantee))
    assert "ρ = 0.1" in " ".join(promise(m.DiscreteGaussian(count, rho=0.1).guarantee))
    assert promise(None) == ["The mechanism does not say what it promises."]


def test_queries_and_noise_in_words():
    words = " ".join(query_words(na.queries.RegressionMoments(1, lower=[-6, -3], upper=[6, 3])))
    assert "below (−6, −3), column by column," in words
    clamped = " ".join(query_words(na.queries.Sum(0, 5)))
    assert "values below 0 count as 0, values above 5 as 5." in clamped
    one = na.queries.InGroup(na.queries.Count(), group=1)
    assert query_words(one)[0] == "Of the records of group 1 only."
    assert "each group" in query_words(na.queries.ByGroup(na.queries.Count(), n_groups=2))[0]
    laplace = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    twice = na.mechanisms.Several([laplace, laplace], labels=["June", "July"])
    assert query_words(twice.query) == [
        "(June) How many records have the value 1.",
        "(July) How many records have the value 1.",
    ]
    assert "scale 2 (a standard deviation of 2.83)" in mechanism_words(laplace)[0]
    clamped = mechanism_words(na.mechanisms.Clamped(laplace, lower=0.0))
    assert "After the noise they were clamped to a range" in clamped[1]


def test_releases_and_checks_show_well_in_a_notebook(posterior):
    _, release = regression()
    shown = release._repr_html_()
    Page(shown)
    assert "Release of 15 records" in shown
    assert "pure differential privacy with epsilon = 1" in shown
    assert all(f"{value:.6g}" in shown for value in release.values)
    many = na.Release(
        np.full(60, 5.0),
        na.mechanisms.Laplace(na.queries.ClassFeatureCounts(3, [4] * 5), epsilon=1.0), 60,
    )  # fmt: skip
    assert "and 30 more" in many._repr_html_()
    query = na.Query(lambda x: x[:, None], ["<b>"], sensitivity=1.0)
    own = na.Release([1.0], na.mechanisms.Laplace(query, epsilon=1.0), 5)
    assert "&lt;b&gt;" in own._repr_html_()
    checks = na.check(posterior)._repr_html_()
    Page(checks)
    assert "✗ failed" in checks
    assert "✓ passed" in checks


def test_the_page_must_be_of_a_posterior(tmp_path):
    with pytest.raises(TypeError, match="must be a posterior"):
        na.write_report({}, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def incomes():
    rng = np.random.default_rng(1)
    mechanism = na.mechanisms.Laplace(na.queries.Sum(0, 200_000), epsilon=1.0)
    release = mechanism.privatize(np.exp(10.7 + 0.6 * rng.standard_normal(300)), rng)
    model = na.models.Normal(mean_mean=5e4, mean_sd=5e4, variance_shape=3, variance_scale=2e9)
    return na.sample(model, release, keep_records=5, **QUICK)


def test_large_numbers_are_written_for_people(incomes, tmp_path):
    pictures = re.findall(r"<svg.*?</svg>", write(incomes, tmp_path), re.S)
    texts = [
        text for picture in pictures for text in re.findall(r"<text[^>]*>(.*?)</text>", picture)
    ]
    assert any("0,000" in text for text in texts)
    assert any("×10⁹" in text for text in texts)
    assert not [text for text in texts if re.search(r"\de\d|\d{5}", text)]


def test_a_scale_divides_what_is_shown(incomes, tmp_path):
    plain = Page(write(incomes, tmp_path, var_names="mean"))
    units, scales = {"mean": "thousand dollars"}, {"mean": 1000}
    text = write(incomes, tmp_path, var_names="mean", units=units, scales=scales)
    page = Page(text)
    kinds = [f"{kind} {place} mean" for kind in ("answer", "posterior", "naive", "prior")
             for place in ("low", "middle", "high")]  # fmt: skip
    for what in [*kinds, "exact sd mean", "private sd mean"]:
        assert page.numbers[what][0] == pytest.approx(plain.numbers[what][0] / 1000)
    for what in ("noise share mean", "above zero mean"):
        assert page.numbers[what][0] == plain.numbers[what][0]
    shown = page.numbers["answer middle mean"][1]
    assert f"is about {shown} thousand dollars;" in re.sub(r"<[^>]*>", "", text)
    assert len(re.findall(r"<text[^>]*>thousand dollars</text>", text)) == 2  # density, trace


def test_every_check_says_what_is_behind_it():
    from noiseaware.report.page import MEANINGS
    from noiseaware.results.checks import CHECKS

    assert set(CHECKS) == {"complete", *MEANINGS}
    assert "Releases simulated from the prior" in MEANINGS["the prior fits the release"]
    assert "other starting points" in MEANINGS["no other mode"]


def test_a_check_that_could_not_be_made_is_not_called_passed(tmp_path):
    parts = [
        na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0),
        na.mechanisms.RandomizedResponse(n_levels=2, truth=0.7),
    ]
    release = na.Release([2.0, 1.0, 0.0, 1.0], na.mechanisms.Several(parts), 3)
    text = write(na.sample(na.models.Bernoulli(), release, **QUICK), tmp_path)
    place = text.index("Not checked: there is no test for Several")
    assert "For information" in text[place - 150 : place]
