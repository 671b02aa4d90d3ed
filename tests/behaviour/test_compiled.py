"""Compiled kernels do not outlive the code that they were made from."""

import os

from noiseaware.compiled import drop_stale_kernels


def make_package(folder):
    (folder / "inner" / "__pycache__").mkdir(parents=True)
    (folder / "a.py").write_text("x = 1\n")
    (folder / "inner" / "b.py").write_text("y = 2\n")
    kernel = folder / "inner" / "__pycache__" / "b.loop-1.nbi"
    kernel.write_text("compiled")
    return kernel


def test_a_change_in_any_file_drops_all_kernels(tmp_path):
    kernel = make_package(tmp_path)
    assert drop_stale_kernels(tmp_path)  # made by nobody knows which code
    assert not kernel.exists()
    kernel.write_text("compiled")
    assert not drop_stale_kernels(tmp_path)
    assert kernel.exists()
    (tmp_path / "a.py").write_text("x = 1  # changed\n")
    assert drop_stale_kernels(tmp_path)
    assert not kernel.exists()


def test_a_file_that_was_only_touched_counts_as_changed(tmp_path):
    kernel = make_package(tmp_path)
    drop_stale_kernels(tmp_path)
    kernel.write_text("compiled")
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert drop_stale_kernels(tmp_path)
    assert not kernel.exists()
