"""The examples on files in published formats: the files, what is read from them, the answers."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_the_ones_that_the_script_makes(tmp_path, monkeypatch):
    script = load("make_published_files")
    monkeypatch.setattr(script, "HERE", tmp_path)
    script.main()
    made = sorted(path.name for path in tmp_path.iterdir())
    assert len(made) == 3
    for name in made:
        assert (tmp_path / name).read_text() == (EXAMPLES / name).read_text()


def test_the_census_release_is_both_queries():
    release = load("census_2020").read()
    people = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [50, 20, 120, 50], axis=0)
    total = release.query.statistic(people).sum(axis=0)
    assert total.tolist() == [50, 20, 120, 50, 170, 70]
    off = np.array([50, 24, 135, 51, 168, 79]) - total
    expected = -(off[:4] ** 2).sum() / (2 * 90.0) - (off[4:] ** 2).sum() / (2 * 60.0)
    assert release.mechanism.log_density(release.values, total) == pytest.approx(expected)


def test_a_missing_page_of_wikimedia_is_a_censored_count():
    wikimedia = load("wikimedia")
    release = wikimedia.read("2023-2-6")
    withheld = np.isnan(release.values)
    assert 0 < withheld.sum() < len(wikimedia.PAGES)
    total = np.nan_to_num(release.values)
    k = np.arange(-400, 401)
    mass = np.exp(-(k**2) / (10 / 0.015))  # 2 sigma^2, by rho = 10 / (2 sigma^2)
    mass /= mass.sum()

    def log_g(count):
        total[withheld] = count
        return release.mechanism.log_density(release.values, total)

    at_70, at_110 = (math.log(mass[k <= 90 - count].sum()) for count in (70, 110))
    assert log_g(110) - log_g(70) == pytest.approx(withheld.sum() * (at_110 - at_70), rel=1e-6)


@pytest.mark.full
def test_the_scripts_run(capsys):
    load("census_2020").main(draws=200)
    load("wikimedia").main(days=("2023-2-6",), draws=200)
    printed = capsys.readouterr().out
    assert "adult, Hispanic" in printed
    assert "withheld" in printed
