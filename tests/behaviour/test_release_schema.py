"""The published JSON Schema agrees with the reader; `noiseaware check` reads a release file."""

import copy
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app
from noiseaware.documents.release_schema import release_schema
from noiseaware.registry import MECHANISMS, QUERIES

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
RELEASES = [*sorted((ROOT / "examples" / "releases").glob("*.json")),
            *sorted((ROOT / "tests" / "files").rglob("*.json"))]  # fmt: skip
RELEASE = json.loads((ROOT / "examples" / "releases" / "bernoulli.json").read_text())


@pytest.fixture(scope="module")
def schema():
    made = json.loads((ROOT / "docs" / "release-file.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


def test_the_published_schema_is_that_of_the_code(schema):
    assert schema.schema == release_schema()


def test_every_release_file_is_valid(schema):
    checked = 0
    for path in RELEASES:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") == "noiseaware-release":
            schema.validate(content)
            checked += 1
    assert checked >= 18


def test_every_mechanism_and_query_is_valid(schema):
    for name in MECHANISMS.names:
        schema.validate({**RELEASE, "mechanism": MECHANISMS[name].example().to_dict()})
    for name in QUERIES.names:
        query = QUERIES[name].example().to_dict()
        schema.validate({**RELEASE, "mechanism": {**RELEASE["mechanism"], "query": query}})


def changed(*path, to=None):
    """Return the release with one entry changed, or left out."""
    made = copy.deepcopy(RELEASE)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    if to is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = to
    return made


@pytest.mark.parametrize(
    "content",
    [
        changed("format"),
        changed("version", to=2),
        changed("n_records", to=0),
        changed("n_records", to="many"),
        changed("values"),
        changed("values", to=[True]),
        changed("colour", to="red"),
        changed("mechanism", "type", to="Cauchy"),
        changed("mechanism", "scale"),
        changed("mechanism", "query"),
        changed("mechanism", "query", "type", to="Median"),
        changed("mechanism", "neighbours", to="both"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(schema, content):
    assert not schema.is_valid(content)
    with pytest.raises((ValueError, TypeError)):
        na.Release.from_dict(content)


def test_check_reads_a_release_file(tmp_path):
    good = CliRunner().invoke(app, ["check", str(RELEASES[0])])
    assert good.exit_code == 0
    assert "can be read" in good.stdout
    (tmp_path / "release.json").write_text(json.dumps(changed("mechanism", "scale")))
    for words in (["check"], ["check", "--json"]):
        bad = CliRunner().invoke(app, [*words, str(tmp_path / "release.json")])
        assert bad.exit_code == 3
        assert bad.stderr.count("\n") == 1
        assert "'scale' is missing" in bad.stderr
    as_json = CliRunner().invoke(app, ["check", "--json", str(RELEASES[0])])
    assert json.loads(as_json.stdout)["n_records"] == 250
