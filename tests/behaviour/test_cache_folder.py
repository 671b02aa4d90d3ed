"""The package can be imported where nothing can be written to, and trusts no folder of others."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher

import noiseaware
from noiseaware._cache_folder import _place_for_pictures, choose_cache_folder

NOWHERE = "/dev/null/nowhere"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose folder cannot be written to, and no home; the temporary folder is there."""
    for variable in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", NOWHERE)
    made = tmp_path / "package"
    made.mkdir()
    (made / "code.py").write_text("x = 1\n")
    read_only(made)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return made


def read_only(folder):
    """Put a file where the folder of compiled functions would be, which stops even root."""
    (folder / "__pycache__").write_text("")


def test_next_to_the_source_where_that_can_be_written_to(package):
    (package / "__pycache__").unlink()
    package.chmod(0o755)
    (package / "__pycache__").mkdir(mode=0o755)
    assert choose_cache_folder(package) is None


@pytest.mark.parametrize("where", [".", "__pycache__", "inner", "inner/__pycache__"])
@pytest.mark.parametrize("how", ["others can write", "a link", "of another user"])
def test_not_next_to_a_source_that_others_can_write_to(package, tmp_path, where, how):
    (package / "__pycache__").unlink()
    for name in (".", "__pycache__", "inner", "inner/__pycache__"):
        (package / name).mkdir(exist_ok=True)
        (package / name).chmod(0o755)
    assert choose_cache_folder(package) is None
    folder = package / where
    if how == "others can write":
        folder.chmod(0o775)
    elif how == "a link":
        if where == ".":
            pytest.skip("how the package is found is up to Python")
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif os.getuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        pytest.skip("only root can give a folder to another user")
    assert choose_cache_folder(package).parent == tmp_path / "tmp"


def test_below_the_home_folder(package, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = choose_cache_folder(package)
    assert folder.parent == tmp_path / ".cache"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not caplog.messages


def test_in_a_private_temporary_folder_which_is_said_once(package, tmp_path, caplog):
    folder = choose_cache_folder(package)
    assert folder.parent == tmp_path / "tmp"
    assert choose_cache_folder(package) == folder
    (said,) = caplog.messages
    assert str(folder) in said
    assert "NUMBA_CACHE_DIR" in said


def test_where_the_user_says(package, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a" / "b"))
    assert choose_cache_folder(package).parent == tmp_path / "a" / "b"


def test_other_code_has_another_folder(package):
    folder = choose_cache_folder(package)
    (package / "code.py").write_text("x = 22\n")
    assert choose_cache_folder(package) != folder


@pytest.mark.parametrize("how", ["others can write", "a link", "of another user"])
def test_a_folder_that_others_could_have_filled_is_not_used(
    package, tmp_path, monkeypatch, caplog, how
):
    monkeypatch.setattr(Dispatcher, "enable_caching", Dispatcher.enable_caching)
    folder = choose_cache_folder(package)
    if how == "others can write":
        folder.chmod(0o777)
    elif how == "a link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif os.getuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        pytest.skip("only root can give a folder to another user")
    assert choose_cache_folder(package) is None
    assert "compiled anew" in caplog.messages[-1]


def test_without_any_folder_functions_are_compiled_all_the_same(package, monkeypatch, caplog):
    monkeypatch.setattr(Dispatcher, "enable_caching", Dispatcher.enable_caching)
    monkeypatch.setattr(tempfile, "tempdir", NOWHERE)
    assert choose_cache_folder(package) is None
    assert "NUMBA_CACHE_DIR" in caplog.messages[-1]
    namespace = {}
    exec(compile("def double(x):\n    return 2 * x\n", f"{NOWHERE}.py", "exec"), namespace)
    assert njit(cache=True)(namespace["double"])(21) == 42


def test_without_it_numba_gives_up(package):
    """What the functions above are for: if numba mends it, they can go."""
    namespace = {}
    exec(compile("def double(x):\n    return 2 * x\n", f"{NOWHERE}.py", "exec"), namespace)
    with pytest.raises(RuntimeError, match="no locator available"):
        njit(cache=True)(namespace["double"])


def test_the_package_itself_starts_from_a_folder_that_cannot_be_written_to(tmp_path):
    source, copy = Path(noiseaware.__file__).parent, tmp_path / "noiseaware"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [copy, *copy.rglob("*/")]:
        read_only(path)
    (tmp_path / "tmp").mkdir()
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import noiseaware.basics.linear_algebra as a; print(a.cholesky.stats.cache_path)",
        ],
        env={"PATH": "", "HOME": NOWHERE, "PYTHONPATH": str(tmp_path), "TMPDIR": f"{tmp_path}/tmp"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith(f"{tmp_path}/tmp/noiseaware-")
    assert ran.stderr.count("\n") == 1
    assert "compiled functions are kept in" in ran.stderr


def test_matplotlib_has_a_folder_where_the_home_folder_cannot_be_written_to(tmp_path, monkeypatch):
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    _place_for_pictures(tmp_path / "kept")
    assert "MPLCONFIGDIR" not in os.environ
    monkeypatch.setenv("MPLCONFIGDIR", "")  # so that it is taken away at the end
    monkeypatch.delenv("MPLCONFIGDIR")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    _place_for_pictures(tmp_path / "kept")
    assert os.environ["MPLCONFIGDIR"] == str(tmp_path / "kept")
