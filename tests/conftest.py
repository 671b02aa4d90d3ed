"""What all tests share."""

import os

import pytest

FIRST = (
    "protocol/test_moves.py",
    # Beside it, what compiles other kernels or none: two workers need not compile the same at once.
    *("exact/test_cells.py", "house/test_imports.py", "exact/test_mechanism_densities.py"),
    *("exact/test_sensitivity.py", "exact/test_after_noise.py", "exact/test_joint_mechanisms.py"),
    # What takes long; a short file at the end keeps both workers busy.
    *("protocol/test_models.py", "behaviour/test_docs.py", "behaviour/test_docstrings.py"),
    *("calibration/test_quick.py", "exact/test_count_regression.py", "exact/test_counts.py"),
    *("behaviour/test_checkpoint.py", "mutants/test_mutants.py", "behaviour/test_command.py"),
    *("validation/test_validate.py", "exact/test_closed_forms.py", "exact/test_size.py"),
)
"""The files that begin, in this order, where files are spread over workers as they come."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of these files in front."""
    order = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get("/".join(item.path.parts[-2:]), len(order)))


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of the tests that draw random numbers; set NOISEAWARE_TEST_SEED to try another."""
    return int(os.environ.get("NOISEAWARE_TEST_SEED", "20220614"))
