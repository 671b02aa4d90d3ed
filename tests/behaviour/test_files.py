"""Posteriors as netCDF, releases as JSON: what goes in comes out, and nothing else does."""

import json

import numpy as np
import pytest
import xarray as xr

import noiseaware as na
from behaviour.examples import WeightedNoise, regression, small_release
from noiseaware.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

# ------------------------------------------------------------------ netCDF


@pytest.fixture(scope="module")
def posterior():
    return na.sample(
        *regression(), draws=30, warmup=20, chains=2, keep_records=3, random_seed=1,
        progressbar=False,
    )  # fmt: skip


def test_a_posterior_comes_back_from_its_file(posterior, tmp_path):
    path = tmp_path / "posterior.nc"
    na.save(posterior, path)
    again = na.load(path)
    assert again.identical(posterior)
    assert set(again.children) == {
        "posterior", "sample_stats", "observed_data", "constant_data", "prior",
        "latent_records",
    }  # fmt: skip
    assert set(again.attrs) == set(posterior.attrs)
    for name, value in posterior.attrs.items():
        assert again.attrs[name] == value, name
    for group in posterior.children:
        for name, values in posterior[group].variables.items():
            assert again[group][name].dtype.kind == values.dtype.kind, name
    np.testing.assert_array_equal(
        again["latent_records"]["records"].values, posterior["latent_records"]["records"].values
    )
    assert str(na.check(again)) == str(na.check(posterior))
    assert na.summary(again).equals(na.summary(posterior))


def test_the_file_is_closed_after_loading(posterior, tmp_path):
    path = tmp_path / "posterior.nc"
    na.save(posterior, path)
    again = na.load(str(path))
    na.save(again, str(path))
    assert na.load(path).identical(posterior)


def test_a_file_says_how_it_was_made(posterior, tmp_path):
    na.save(posterior, tmp_path / "p.nc")
    attrs = na.load(tmp_path / "p.nc").attrs
    model, release = regression()
    assert na.models.from_dict(json.loads(attrs["model_json"])).to_dict() == model.to_dict()
    assert na.Release.from_dict(json.loads(attrs["release_json"])).to_dict() == release.to_dict()
    assert attrs["random_seed"] == "1"
    assert (attrs["draws"], attrs["warmup"], attrs["complete"]) == (30, 20, 1)
    assert attrs["inference_library"] == "noiseaware"
    assert attrs["inference_library_version"] == na.__version__
    assert "numpy" in json.loads(attrs["versions"])
    assert attrs["change_epsilon"] == pytest.approx(1.0)
    assert "epsilon = 1" in attrs["guarantee"]
    assert "Sweep(" in attrs["moves"]


def test_a_release_without_a_pure_promise_can_be_saved(tmp_path):
    release = na.Release([8.0], Gaussian(na.queries.Count(), mu=1.0), 12)
    posterior = na.sample(
        na.models.Bernoulli(), release, draws=10, warmup=5, chains=2, progressbar=False
    )
    na.save(posterior, tmp_path / "p.nc")
    assert na.load(tmp_path / "p.nc").identical(posterior)


def test_load_of_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.nc"):
        na.load(tmp_path / "nothing.nc")


@pytest.mark.parametrize("content", [b"", b"not netCDF at all", b"\x89HDF\r\n\x1a\n" + b"\0" * 99])
def test_load_of_a_file_that_is_not_netcdf(content, tmp_path):
    path = tmp_path / "strange.nc"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"strange\.nc is not a netCDF file that can be read"):
        na.load(path)


def test_load_of_a_file_that_was_cut_off(posterior, tmp_path):
    path = tmp_path / "cut.nc"
    na.save(posterior, path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"cut\.nc is not a netCDF file that can be read"):
        na.load(path)


def test_load_of_a_directory(tmp_path):
    with pytest.raises(ValueError, match="is a directory, not a posterior saved by noiseaware"):
        na.load(tmp_path)


@pytest.mark.parametrize("group", ["/", "posterior"])
def test_load_of_a_foreign_file(group, tmp_path):
    path = tmp_path / "foreign.nc"
    foreign = xr.DataTree.from_dict({group: xr.Dataset({"a": ("x", [1.0, 2.0])})})
    foreign.to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"foreign\.nc is a netCDF file, but not a posterior"):
        na.load(path)


# ------------------------------------------------------------------ JSON

QUERIES = {
    "count": na.queries.Count(),
    "named-count": na.queries.Count(3, name="threes"),
    "sum": na.queries.Sum(0.0, 5.0),
    "sums": na.queries.Sum([0.0, -1.0], [2.0, 1.0]),
    "integer-sum": na.queries.Sum(0, 5, integer_valued=True),
    "bins": na.queries.Histogram(edges=[-np.inf, 0.0, 1.5, np.inf]),
    "levels": na.queries.Histogram(n_levels=3),
    "moments": na.queries.RegressionMoments(2, lower=[-1.0, -2.0, -3.0], upper=4.0),
    "tables": na.queries.ClassFeatureCounts(2, [2, 3]),
}
NOISES = {
    "laplace": (Laplace, {"epsilon": 0.7}),
    "laplace-add-remove": (Laplace, {"epsilon": 0.7, "neighbours": "add-remove"}),
    "gaussian": (Gaussian, {"epsilon": 0.5, "delta": 1e-6}),
    "gaussian-mu": (Gaussian, {"mu": 0.5}),
    "discrete-laplace": (DiscreteLaplace, {"epsilon": 0.7}),
    "discrete-gaussian": (DiscreteGaussian, {"rho": 0.3}),
}
PAIRS = [
    (query, noise)
    for query in QUERIES
    for noise in NOISES
    if QUERIES[query].integer_valued or not noise.startswith("discrete")
]


@pytest.mark.parametrize(("query", "noise"), PAIRS)
def test_a_release_comes_back_from_its_file(query, noise, tmp_path):
    kind, arguments = NOISES[noise]
    mechanism = kind(QUERIES[query], **arguments)
    values = np.arange(len(mechanism.query.names)) - 2.0
    if not kind.discrete:
        values += 1 / 3
    release = na.Release(values, mechanism, n_records=50)
    path = tmp_path / "release.json"
    release.to_json(path)
    again = na.Release.from_json(path)
    np.testing.assert_array_equal(again.values, release.values)
    assert again.n_records == 50
    assert again.names == release.names
    assert again.query == release.query
    assert type(again.mechanism) is kind
    assert again.mechanism.scale == mechanism.scale
    assert again.mechanism.guarantee == mechanism.guarantee
    assert again.to_dict() == release.to_dict()
    json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_values_may_be_a_list_or_names_in_any_order():
    content = na.Release([1.0, 2.0, 3.0], Laplace(QUERIES["levels"], 1.0), 9).to_dict()
    shuffled = dict(reversed(content["values"].items()))
    for values in (shuffled, [1.0, 2.0, 3.0]):
        again = na.Release.from_dict({**content, "values": values})
        np.testing.assert_array_equal(again.values, [1.0, 2.0, 3.0])


def broken(**changes):
    content = small_release().to_dict()
    for field, value in changes.items():
        if value is None:
            del content[field]
        else:
            content[field] = value
    return json.dumps(content)


def mechanism(**changes):
    return {**small_release().mechanism.to_dict(), **changes}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[1, 2]", 'not a release: the field "format" must be "noiseaware-release"'),
        ("{}", 'not a release: the field "format" must be "noiseaware-release"'),
        (broken(format="other"), 'the field "format" must be "noiseaware-release"'),
        (broken(version=99), 'the release has "version" 99; this noiseaware reads version 1'),
        (broken(n_records=None), 'the release lacks the field "n_records"'),
        (broken(mechanism=None), 'the release lacks the field "mechanism"'),
        (broken(values=None), 'the release lacks the field "values"'),
        (broken(colour="red"), "the release has unknown fields: colour"),
        (broken(n_records=0), "n_records must be a positive integer; got 0"),
        (broken(n_records=2.5), "n_records must be a positive integer; got 2.5"),
        (broken(n_records="12"), "n_records must be a positive integer; got '12'"),
        (broken(mechanism="Laplace"), "a mechanism must be described by a .* got 'Laplace'"),
        (
            broken(mechanism=mechanism(type="Cauchy")),
            "type of a mechanism must be one of Attributes, CellKey, Clamped,",
        ),
        (
            broken(mechanism=mechanism(type=[])),
            "type of a mechanism must be one of Attributes, CellKey, Clamped,",
        ),
        (broken(mechanism=mechanism(scale=-1)), "scale must be .*; got -1"),
        (broken(mechanism=mechanism(colour=1)), "Laplace may have type,.*; got 'colour'"),
        (broken(mechanism={"type": "Laplace"}), "'scale' is missing"),
        (broken(mechanism=mechanism(query={"type": "Mode"})), "'Mode'; did you mean 'Moments'"),
        (broken(mechanism=mechanism(query={"type": "Sum"})), "the arguments of the query Sum"),
        (
            broken(mechanism=mechanism(guarantee={"kind": "pure", "epsilon": 0.1})),
            "guarantee states .* epsilon = 0.1, .* but the scale .* give .* epsilon = 1,",
        ),
        (broken(values={}), '"values" lacks count of 1'),
        (
            broken(values={"count of 1": 1.0, "count of 2": 1.0}),
            '"values" has names that the query does not give: count of 2',
        ),
        (broken(values=[1.0, 2.0]), "values must be 1 numbers.*; got 2"),
        (broken(values={"count of 1": float("nan")}), "values must be finite; got nan"),
        (broken(values={"count of 1": "many"}), "values must be numbers"),
        (
            broken(values={"count of 1": 7.5}).replace("7.5", "7,5"),
            "with a decimal point and no thou",
        ),
        (broken(values={"count of 1": "7,5"}), "with a decimal point and no thou"),
    ],
)
def test_a_release_file_that_is_wrong(text, message, tmp_path):
    path = tmp_path / "release.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        na.Release.from_json(path)
    assert "release.json" in str(caught.value)


def test_a_release_file_that_is_not_text(tmp_path):
    (tmp_path / "release.json").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match=r"release\.json is not JSON"):
        na.Release.from_json(tmp_path / "release.json")


def test_a_release_file_that_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        na.Release.from_json(tmp_path / "release.json")


def test_what_cannot_be_written_says_so(tmp_path):
    def tanh(records):
        return np.tanh(records)[:, None]

    own_query = na.Query(tanh, ["tanh"], sensitivity=2.0)
    release = na.Release([1.0], Laplace(own_query, epsilon=1.0), 10)
    with pytest.raises(ValueError, match=r"function \(tanh\) cannot be written to a file"):
        release.to_json(tmp_path / "a.json")
    release = na.Release([1.0], WeightedNoise(na.queries.Count(), 1.0), 10)
    with pytest.raises(ValueError, match="by WeightedNoise cannot be written to a file"):
        release.to_json(tmp_path / "b.json")
    assert not list(tmp_path.iterdir())
