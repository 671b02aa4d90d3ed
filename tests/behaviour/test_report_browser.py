"""The report in a real browser: headless Chromium, as Debian packages it."""

import base64

import numpy as np
import pytest

import noiseaware as na
from behaviour.browser import DESK, PHONE, assert_page_is_quiet, open_browser, open_page
from behaviour.examples import regression

QUICK = {"draws": 100, "warmup": 60, "chains": 2, "random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The posterior's file and the page that was made of it after loading."""
    folder = tmp_path_factory.mktemp("report")
    stored, page = folder / "posterior.nc", folder / "report.html"
    na.save(na.sample(*regression(), keep_records=5, **QUICK), stored)
    na.write_report(na.load(stored), page, question="What are the slopes?")
    return stored, page


@pytest.fixture
def opened(browser, files, request):
    """The browser with the page open, in a window of the size asked for."""
    open_page(browser, files[1], getattr(request, "param", DESK))
    return browser


@pytest.mark.parametrize("opened", [DESK, PHONE], indirect=True, ids=["desk", "phone"])
def test_the_page_opens_without_an_error(opened):
    assert_page_is_quiet(opened)


@pytest.mark.parametrize("opened", [DESK, PHONE], indirect=True, ids=["desk", "phone"])
def test_all_pictures_are_there(opened):
    opened.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    sizes = opened.execute_script(
        "return [...document.querySelectorAll('svg')].map(svg => {"
        "const box = svg.getBoundingClientRect(); return [box.width, box.height]})"
    )
    assert len(sizes) >= 6 + 2 * 6 + 2
    assert all(width > 200 and height > 80 for width, height in sizes)
    # What is drawn inside: text, and curves or bars or a picture of the traces.
    drawn = opened.execute_script(
        "return [...document.querySelectorAll('svg')].map(svg => ["
        "svg.querySelectorAll('text').length, svg.querySelectorAll('path, use, image').length,"
        "svg.getBBox().width])"
    )
    assert all(texts > 2 and shapes > 2 and width > 100 for texts, shapes, width in drawn)
    images = opened.execute_async_script(
        "const done = arguments[0];"
        "Promise.all([...document.querySelectorAll('svg image')].map(async image => {"
        "const copy = new Image(); copy.src = image.href.baseVal;"
        "await copy.decode(); return copy.naturalWidth})).then(done)"
    )
    assert len(images) >= 7  # the traces and the acceptance
    assert all(width > 100 for width in images)


def test_the_numbers_on_the_page_are_those_of_the_file(opened, files):
    stored = na.load(files[0])
    shown = opened.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('data')].map(data =>"
        "[data.dataset.what, [data.value, data.innerText, data.textContent]]))"
    )
    coefficients = stored["posterior"]["coefficients"]
    for name in ("intercept", "x1", "x2"):
        draws = coefficients.sel(coefficient=name).values
        for place, q in (("low", 0.05), ("middle", 0.5), ("high", 0.95)):
            value, seen, _ = shown[f"answer {place} coefficients[{name}]"]
            assert float(value) == np.quantile(draws, q)
            # Two digits of the standard deviation are seen.
            assert float(seen.replace("−", "-")) == pytest.approx(
                np.quantile(draws, q), abs=0.06 * draws.std()
            )
    released = stored["observed_data"]["release"]
    for name, value in zip(released["released"].values, released.values, strict=True):
        stated, _, text = shown[f"released {name}"]
        assert float(stated) == value
        assert float(text.replace("−", "-")) == pytest.approx(value, rel=1e-5)
    rate = float(stored["sample_stats"]["acceptance_rate"].mean())
    assert float(shown["acceptance rate"][0]) == rate
    assert float(shown["acceptance rate"][1].rstrip("%")) == pytest.approx(100 * rate, abs=0.51)


@pytest.mark.parametrize("opened", [PHONE, DESK], indirect=True, ids=["phone", "desk"])
def test_nothing_runs_out_of_the_window(opened):
    for unfolded in (False, True):
        opened.execute_script(
            f"document.querySelectorAll('details').forEach(d => d.open = {str(unfolded).lower()})"
        )
        wide, window = opened.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert wide <= window
    letters = opened.execute_script(
        "return [...document.querySelectorAll('svg text')].map(t => {"
        "const scale = t.ownerSVGElement.getBoundingClientRect().width"
        " / t.ownerSVGElement.viewBox.baseVal.width;"
        "return parseFloat(getComputedStyle(t).fontSize) * scale})"
    )
    assert min(letters) > 7.5


def test_it_prints(opened):
    printed = opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF-")
    pages = pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ")
    assert 2 <= pages <= 20


def test_the_keyboard_is_enough(opened):
    from selenium.webdriver.common.keys import Keys

    opened.find_element("tag name", "body").send_keys(Keys.TAB)
    focused = opened.switch_to.active_element
    assert focused.text == "Skip to the answer"
    focused.send_keys(Keys.ENTER)
    assert opened.current_url.endswith("#answer")
    summary = opened.find_element("css selector", "details.gloss > summary")
    inside = opened.find_element("css selector", "details.gloss > p")
    assert not inside.is_displayed()
    summary.send_keys(Keys.ENTER)
    assert inside.is_displayed()


def test_dark_and_light(opened):
    seen = {}
    for scheme in ("light", "dark"):
        opened.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        seen[scheme] = opened.execute_script(
            "return [getComputedStyle(document.body).backgroundColor,"
            "getComputedStyle(document.querySelector('svg text')).fill]"
        )
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(seen["light"], seen["dark"], strict=True))
