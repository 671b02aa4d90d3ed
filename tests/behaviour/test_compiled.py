"""Compiled kernels do not outlive the code that they were made from."""

import os

import pytest

from noiseaware.basics import compiled
from noiseaware.basics.compiled import drop_stale_kernels

SOURCES = {
    "__init__.py": "",
    "constants.py": "x = 1\n",
    "inner/__init__.py": "",
    "inner/base.py": "from noiseaware import constants\n",
    "inner/loop.py": "from noiseaware.inner.base import (\n    something,\n)\n",
    "inner/other.py": "y = 2\n",
}


@pytest.fixture
def package(tmp_path):
    (tmp_path / "inner" / "__pycache__").mkdir(parents=True)
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def kernel(package, name):
    made = package / "inner" / "__pycache__" / f"{name}.function-1.py311.nbi"
    made.write_text("compiled")
    return made


def test_kernels_of_unknown_code_are_dropped(package):
    made = kernel(package, "loop")
    assert drop_stale_kernels(package)
    assert not made.exists()


def test_nothing_else_is_deleted_and_no_link_is_followed(package, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    of_another = elsewhere / "other.function-1.py311.nbi"
    folder = package / "inner" / "__pycache__"
    others = ["loop.txt", "loop.nbi", "notes.loop-1.py311.nbi", "loop.a-1.py311.1.nbc"]
    for path in (of_another, elsewhere / "stamp", *(folder / name for name in others)):
        path.write_text("mine")
    link = folder / "loop.linked-1.py311.nbi"
    link.symlink_to(of_another)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / compiled.STAMP).symlink_to(elsewhere / "stamp")
    (package / "linked").mkdir()
    (package / "linked" / "other.py").write_text("")
    (package / "linked" / "__pycache__").symlink_to(elsewhere)
    made = kernel(package, "loop")
    assert drop_stale_kernels(package)
    assert not made.exists()
    assert link.is_symlink()
    for path in (of_another, elsewhere / "stamp", *(folder / name for name in others)):
        assert path.read_text() == "mine"
    assert not drop_stale_kernels(package)


def test_kernels_stay_while_nothing_changes(package):
    drop_stale_kernels(package)
    made = kernel(package, "loop")
    assert not drop_stale_kernels(package)
    os.utime(package / "inner" / "base.py", (1, 1))  # read again, and found to be the same
    assert not drop_stale_kernels(package)
    assert made.exists()


def test_files_are_read_only_if_one_of_them_looks_changed(package, monkeypatch):
    drop_stale_kernels(package)
    read = []
    monkeypatch.setattr(compiled, "_digests", lambda package: read.append(package) or {})
    drop_stale_kernels(package)
    assert read == []
    (package / "inner" / "base.py").write_text(SOURCES["inner/base.py"].replace("import", "IMPORT"))
    drop_stale_kernels(package)
    assert read == [package]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"inner/loop.py": "0"}'])
def test_a_stamp_of_another_version_is_no_stamp(package, text):
    drop_stale_kernels(package)
    made = kernel(package, "loop")
    (package / "__pycache__" / compiled.STAMP).write_text(text)
    assert drop_stale_kernels(package)
    assert not made.exists()


@pytest.mark.parametrize("changed", ["inner/loop.py", "inner/base.py", "constants.py"])
def test_a_change_of_what_a_file_imports_drops_its_kernels_and_no_others(package, changed):
    drop_stale_kernels(package)
    dependent, independent = kernel(package, "loop"), kernel(package, "other")
    (package / changed).write_text(SOURCES[changed] + "# changed\n")
    stale = drop_stale_kernels(package)
    assert "inner/loop.py" in stale
    assert not dependent.exists()
    assert independent.exists()


def test_a_module_of_a_package_does_not_stand_for_the_whole(package):
    """`from noiseaware import constants` reads constants.py, not all that __init__.py imports."""
    (package / "__init__.py").write_text("from noiseaware.inner.other import y\n")
    drop_stale_kernels(package)
    made = kernel(package, "loop")
    (package / "inner" / "other.py").write_text("y = 3\n")
    assert sorted(drop_stale_kernels(package)) == ["__init__.py", "inner/other.py"]
    assert made.exists()
    (package / "inner" / "base.py").write_text("from noiseaware import constants as c, y as z\n")
    assert "inner/loop.py" in drop_stale_kernels(package)
    (package / "inner" / "other.py").write_text("y = 4\n")
    assert "inner/loop.py" in drop_stale_kernels(package)
