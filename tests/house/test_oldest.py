"""`make oldest` installs the oldest versions that pyproject.toml allows, of everything it names."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def floors():
    """Return {(name, marker): version} of the dependencies in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {}
    for line in project["dependencies"]:
        wanted, _, marker = line.partition(";")
        name, floor = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", wanted).groups()
        found[name.lower(), marker.strip().replace("'", '"')] = floor
    return found


def test_the_pins_are_the_floors():
    pinned = {}
    for line in (ROOT / "requirements/oldest.txt").read_text(encoding="utf-8").splitlines():
        wanted, _, marker = line.partition(";")
        name, version = wanted.strip().split("==")
        pinned[name.lower(), marker.strip()] = version
    for key, floor in floors().items():
        assert key in pinned, f"requirements/oldest.txt lacks {key[0]}"
        parts = pinned[key].split(".")
        assert parts == [*floor.split("."), "0", "0"][: len(parts)], (key, floor, pinned[key])
