"""The release file: every field that the docs name, what is refused, and in which words."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import noiseaware as na
from noiseaware import mechanisms, queries, registry
from noiseaware.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Rounded,
    Several,
    Thresholded,
    Truncated,
)

PAGE = (Path(__file__).parents[2] / "docs" / "release-file.md").read_text()
NAN = float("nan")
COUNT, LEVELS = queries.Count(), queries.Histogram(n_levels=3)
SUM = queries.Sum(0.0, 9.0)

RELEASES = {
    "Laplace": na.Release([3.5], Laplace(COUNT, epsilon=0.3), 9),
    "Gaussian": na.Release([3.5], Gaussian(SUM, epsilon=0.3, delta=1e-7), 9),
    "DiscreteLaplace": na.Release(
        [1, -2, 3], DiscreteLaplace(LEVELS, epsilon=0.3, neighbours="add-remove"), 9
    ),
    "DiscreteGaussian": na.Release([1, -2, 3], DiscreteGaussian(LEVELS, rho=0.3), 9),
    "Clamped": na.Release([1, 0, 3], Clamped(DiscreteLaplace(LEVELS, scale=1.1), lower=0), 9),
    "Thresholded": na.Release(
        [7.5, NAN, NAN], Thresholded(Laplace(LEVELS, scale=1.1), [5, 5, 9]), 9
    ),
    "Rounded": na.Release([10, -5, 0], Rounded(Gaussian(LEVELS, scale=1.1), 5), 9),
    "Truncated": na.Release([1, 0, 3], Truncated(DiscreteLaplace(LEVELS, scale=1.1), 0, 7), 9),
    "Several": na.Release(
        [10, NAN, 7, 2.2],
        Several(
            [Thresholded(Laplace(LEVELS, scale=1.1), 4), Gaussian(COUNT, mu=0.2)],
            labels=["levels", "count"],
        ),
        9,
    ),
}


@pytest.mark.parametrize("kind", RELEASES)
def test_written_and_read(kind, tmp_path):
    release = RELEASES[kind]
    path = tmp_path / "release.json"
    release.to_json(path)

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert content["mechanism"]["type"] == kind
    back = na.Release.from_json(path)
    np.testing.assert_array_equal(back.values, release.values)
    assert back.to_dict() == release.to_dict()
    assert back.names == release.names
    assert back.n_records == 9
    assert type(back.mechanism) is type(release.mechanism)
    assert back.mechanism.guarantee == release.mechanism.guarantee


def test_a_withheld_value_is_null():
    content = RELEASES["Thresholded"].to_dict()
    assert content["values"] == {"level=0": 7.5, "level=1": None, "level=2": None}
    assert content["mechanism"]["threshold"] == [5.0, 5.0, 9.0]


def test_an_infinite_bound_is_left_out_or_a_text():
    assert "upper" not in RELEASES["Clamped"].to_dict()["mechanism"]
    mechanism = Clamped(Laplace(LEVELS, scale=1.0), [0, -np.inf, 2], np.inf)
    entries = mechanism.to_dict()
    assert entries["lower"] == [0.0, "-inf", 2.0]
    np.testing.assert_array_equal(mechanisms.from_dict(entries).lower, [0, -np.inf, 2])


def test_values_may_be_in_any_order_or_a_list():
    content = RELEASES["Several"].to_dict()
    shuffled = dict(reversed(list(content["values"].items())))
    for values in (shuffled, [10, None, 7, 2.2]):
        back = na.Release.from_dict(content | {"values": values})
        np.testing.assert_array_equal(back.values, [10, NAN, 7, 2.2])


# ------------------------------------------------------------------ the page


def test_the_page_names_every_field():
    tables = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE, re.M))
    for field in na.Release([1.0], Laplace(COUNT, scale=1.0), 2).to_dict():
        assert field in tables
    for field in Laplace(COUNT, scale=1.0).to_dict():
        assert field in tables
    for name in ("Clamped", "Thresholded", "Rounded", "Truncated"):
        step = RELEASES[name].mechanism
        for field in {*step.needed, *step.optional_arguments} - {"mechanism"}:
            assert f"`{field}`" in tables[name]
    for field in RELEASES["Several"].mechanism.to_dict():
        assert f"`{field}`" in PAGE
    for query in (COUNT, SUM, LEVELS, queries.Histogram(edges=[0, 1])):
        for field in query.to_dict():
            assert field == "type" or f"`{field}`" in tables[type(query).__name__]
    for query in (queries.RegressionMoments(1, -1, 1), queries.ClassFeatureCounts(2, [2])):
        for field in query.to_dict():
            assert field == "type" or f"`{field}`" in tables[type(query).__name__]


def test_the_page_says_which_fields_are_needed():
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| (yes|no) \|", PAGE, re.M)
    release = RELEASES["Laplace"].to_dict()
    for field, needed in rows:
        where = release if field in release and field != "guarantee" else release["mechanism"]
        changed = {name: value for name, value in where.items() if name != field}
        content = changed if where is release else release | {"mechanism": changed}
        if needed == "yes":
            with pytest.raises(ValueError, match=field):
                na.Release.from_dict(content)
        else:
            na.Release.from_dict(content)
    na.Release.from_dict({k: v for k, v in release.items() if k != "guarantee"})


# ------------------------------------------------------------------ what is refused


def changed(kind, **changes):
    return RELEASES[kind].to_dict() | changes


def changed_mechanism(kind, **changes):
    content = RELEASES[kind].to_dict()
    entries = {k: v for k, v in (content["mechanism"] | changes).items() if v is not None}
    return content | {"mechanism": entries}


BAD = {
    "version": (changed("Laplace", version=2), 'has "version" 2; this noiseaware reads version 1'),
    "unknown field": (changed("Laplace", code="1"), "the release has unknown fields: code"),
    "a field like another": (changed("Laplace", value=[1]), "fields: value; did you mean 'values'"),
    "withheld": (
        changed("Laplace", values={"count of 1": None}),
        r"values must be finite; got nan for 'count of 1' \(a withheld value needs Thresholded\)",
    ),
    "below": (
        changed("Thresholded", values=[4, None, None]),
        "values must be above the threshold its own .* or withheld .*; got 4 for 'level=0'",
    ),
    "no threshold": (
        changed_mechanism("Thresholded", threshold=None),
        "Thresholded must have threshold, mechanism; 'threshold' is missing",
    ),
    "threshold of text": (
        changed_mechanism("Thresholded", threshold="5"),
        "threshold must be a number, or one for each value; got '5'",
    ),
    "text in a list": (
        changed_mechanism("Thresholded", threshold=["5", 5, 9]),
        r"threshold must be a number, or one for each value; got \['5', 5, 9\]",
    ),
    "thresholds": (
        changed_mechanism("Thresholded", threshold=[5, 5]),
        r"threshold must be one number or 3; got shape \(2,\)",
    ),
    "unknown bound": (
        changed_mechanism("Clamped", top=3),
        "Clamped may have type, mechanism, lower, upper; got 'top'",
    ),
    "negative after a clamp at 0": (
        changed("Clamped", values=[-1, 0, 3]),
        "values must be between 0 and inf .*; got -1 for 'level=0'",
    ),
    "a step on nothing": (
        changed_mechanism("Clamped", mechanism=None),
        "Clamped must have mechanism; 'mechanism' is missing",
    ),
    "a step on text": (
        changed_mechanism("Clamped", mechanism="Laplace"),
        "a mechanism must be described by a \"type\" and arguments; got 'Laplace'",
    ),
    "an unknown mechanism inside": (
        changed_mechanism("Clamped", mechanism={"type": "Cauchy", "scale": 1, "query": {}}),
        "type of a mechanism must be one of Attributes, .*Laplace.*; got 'Cauchy'",
    ),
    "a step of 0": (changed_mechanism("Rounded", step=0), "step must be a positive number; got 0"),
    "not a multiple": (
        changed("Rounded", values=[10, -5, 1]),
        "values must be multiples of 5 .*; got 1 for 'level=2'",
    ),
    "several: labels": (
        changed_mechanism("Several", labels=["a"]),
        r"labels must be 2 different texts; got \['a'\]",
    ),
    "several: other names": (
        changed_mechanism("Several", labels=["a", "b"]),
        '"values" lacks a: level=0',
    ),
    "several: an unknown field": (
        changed_mechanism("Several", scale=1.0),
        "Several may have type, mechanisms, labels, guarantee; got 'scale'",
    ),
    "several: a part": (
        changed("Several", values=[10, None, 7, None]),
        "part 'count': values must be finite; got nan",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name, tmp_path):
    content, message = BAD[name]
    path = tmp_path / "release.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        na.Release.from_json(path)
    assert "release.json" in str(caught.value)


def test_nothing_in_a_file_is_run(tmp_path):
    """Text that looks like code is only text."""
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    release = RELEASES["Clamped"].to_dict()
    for content in (
        release | {"guarantee": code},
        release | {"mechanism": release["mechanism"] | {"type": code}},
        release | {"mechanism": release["mechanism"] | {"lower": code}},
        release | {"values": [code, 0, 3]},
    ):
        path = tmp_path / "release.json"
        path.write_text(json.dumps(content))
        try:
            na.Release.from_json(path)
        except ValueError:
            continue
    assert not marker.exists()


def test_a_release_with_withheld_values_is_kept_with_the_posterior(tmp_path):
    release = na.Release([7, NAN, NAN], Thresholded(DiscreteLaplace(LEVELS, epsilon=2.0), 4), 9)
    posterior = na.sample(
        na.models.Categorical(3),
        release,
        draws=20,
        warmup=20,
        chains=2,
        cores=1,
        random_seed=1,
        progressbar=False,
    )
    na.save(posterior, tmp_path / "posterior.nc")
    back = na.load(tmp_path / "posterior.nc")
    kept = na.Release.from_dict(json.loads(back.attrs["release_json"]))
    assert kept.to_dict() == release.to_dict()


# ------------------------------------------------------------------ files of earlier versions

EARLIER = sorted((Path(__file__).parents[1] / "files").glob("*/*.json"))


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_release_file_of_an_earlier_version_is_read_and_written_back(path):
    earlier, written = json.loads(path.read_text("utf-8")), na.Release.from_json(path).to_dict()
    # What could only have one value is no longer written.
    mechanism = earlier["mechanism"] | written["mechanism"]
    assert earlier == written | {"mechanism": mechanism}
    assert na.Release.from_dict(written).to_dict() == written


def test_every_mechanism_of_an_earlier_version_is_still_there():
    assert {path.stem for path in EARLIER} <= set(registry.MECHANISMS.names)


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "files").glob("*/*.nc")), ids=lambda path: path.stem
)
def test_a_posterior_file_of_an_earlier_version_is_read(path):
    posterior = na.load(path)
    assert "posterior" in posterior.children
    kept = json.loads(posterior.attrs["release_json"])
    assert na.Release.from_dict(kept).to_dict() == kept
