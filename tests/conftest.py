"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of the tests that draw random numbers; set NOISEAWARE_TEST_SEED to try another."""
    return int(os.environ.get("NOISEAWARE_TEST_SEED", "20220614"))
