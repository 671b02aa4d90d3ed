"""The example files: a model file and a release for it, for every ready model."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.agreement.fit import check_fit
from noiseaware.cli import app
from noiseaware.documents.model_file import read_model_file
from noiseaware.registry import MODELS

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in (EXAMPLES / "models").glob("*.toml"))


def read(name):
    described = read_model_file(EXAMPLES / "models" / f"{name}.toml")
    return described, na.Release.from_json(EXAMPLES / "releases" / f"{name}.json")


@pytest.mark.parametrize("name", NAMES)
def test_the_release_of_an_example_fits_its_model(name):
    described, release = read(name)
    assert described.title
    assert described.question.endswith("?")
    check_fit(described.model, release)


def test_every_ready_model_has_an_example():
    there = {type(read_model_file(EXAMPLES / "models" / f"{n}.toml").model).__name__ for n in NAMES}
    missing = sorted(set(MODELS.names) - there)
    assert not missing, f"no file in examples/models for {', '.join(missing)}"


def test_a_model_file_is_what_to_dict_says():
    """What a model says of itself can be written into a file, and read back."""
    for name in NAMES:
        model = read(name)[0].model
        assert na.models.from_dict(json.loads(json.dumps(model.to_dict()))).to_dict() == (
            model.to_dict()
        )


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_fit_with_its_defaults_passes_the_checks(name, tmp_path):
    result = CliRunner().invoke(
        app,
        [
            *("fit", str(EXAMPLES / "releases" / f"{name}.json")),
            *("--model", str(EXAMPLES / "models" / f"{name}.toml")),
            *("--out", str(tmp_path / "posterior.nc"), "--seed", "1", "--quiet"),
        ],
    )
    assert result.exit_code == 0, result.output
