"""The site: every page has its place, it builds without a warning and loads nothing."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from behaviour.browser import open_browser, open_page
from noiseaware.registry import MODELS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.relative_to(DOCS).parts)


def test_every_page_is_in_a_toctree():
    placed = {DOCS / "index.md"}
    for page in PAGES:
        for block in re.findall(
            r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.S
        ):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            for entry in entries:
                found = list(page.parent.glob(f"{entry}.md"))
                assert found, f"{page.name} lists {entry}, which is not there"
                placed.update(found)
    assert [str(page.relative_to(DOCS)) for page in PAGES if page not in placed] == []


def test_every_ready_model_is_on_the_page_of_models():
    text = (DOCS / "models.md").read_text(encoding="utf-8")
    assert [name for name in MODELS.names if name not in text] == []


def test_the_example_of_the_naive_analysis_runs(tmp_path, capsys):
    example = load(ROOT / "examples" / "against_naive.py")
    example.main(replicates=2, draws=200, path=str(tmp_path / "naive.png"))
    assert "of 2 miss" in capsys.readouterr().out
    assert (tmp_path / "naive.png").stat().st_size > 0


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_code_prints_and_draws_is_found():
    printed = load(DOCS / "printed.py")
    blocks = [
        "x = 2",
        "print(x + 1)",
        "from matplotlib import pyplot\npyplot.subplots()\nprint('drawn')",
    ]
    found = printed.run_page({"blocks": blocks, "commands": ["noiseaware --version"]})
    assert [output["text"] for output in found["blocks"]] == ["", "3\n", "drawn\n"]
    assert [len(output["pictures"]) for output in found["blocks"]] == [0, 0, 1]
    assert found["blocks"][2]["pictures"][0].startswith("data:image/svg+xml;base64,")
    assert "noiseaware" in found["commands"][0]["text"]
    for code in ({"blocks": ["1 / 0"], "commands": []}, {"blocks": [], "commands": ["python no"]}):
        with pytest.raises(RuntimeError, match="failed"):
            printed.run_page(code)
    assert printed.stamp({"a": ["1"]}) != printed.stamp({"a": ["2"]})


def test_every_page_of_a_model_draws_a_picture():
    for page in (DOCS / "models").glob("*.md"):
        assert "\nna.plot_" in page.read_text(encoding="utf-8"), page.name


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built without a warning."""
    for needed in ("sphinx", "sphinx-mathjax-offline", "myst_nb", "furo", "opendp"):
        pytest.importorskip(needed, reason=f"the site needs {needed}, which make docs installs")
    folder = tmp_path_factory.mktemp("site")
    build = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going"),
            *("-d", str(folder / "read"), str(DOCS), str(folder / "html")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    return folder / "html"


@pytest.mark.full
def test_the_site_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link)[^>]*(?:src|href)=\"(https?:[^\"]*)", page.read_text()
        )
        assert loaded == [], f"{page.name} loads {loaded}"


@pytest.mark.full
def test_formulas_are_set_and_fit_on_the_page(site, tmp_path):
    pages = [page for page in site.rglob("*.html") if 'class="math' in page.read_text()]
    assert len(pages) > len(list((DOCS / "models").glob("*.md")))
    with open_browser(tmp_path) as driver:
        for page in pages:
            open_page(driver, page)
            driver.execute_async_script("MathJax.startup.promise.then(arguments[0])")
            bad = driver.execute_script("""
                return [...document.querySelectorAll(".math")].filter(
                    formula => !formula.querySelector("svg")
                        || formula.querySelector("[data-mml-node=merror]")
                        || formula.scrollWidth > formula.clientWidth + 1
                            && formula.tagName == "DIV"
                ).map(formula => formula.textContent)""")
            assert bad == [], page.name


@pytest.mark.full
def test_pages_show_what_their_code_prints_and_draws(site):
    for page in [*(site / "models").glob("*.html"), site / "gallery.html"]:
        text = page.read_text(encoding="utf-8")
        assert 'class="printed' in text, page.name
        assert 'src="data:image/' in text, page.name
