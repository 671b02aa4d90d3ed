"""What the tests of models share: every case of `model_cases.py`, and a copy in plain Python."""

import zlib

import numpy as np
import pytest

from later import all_but
from mutate_models import mutated_models
from protocol.model_cases import CALLS, LATER, SEED, make


@pytest.fixture(params=all_but(LATER, CALLS))
def name(request):
    return request.param


@pytest.fixture
def model(name):
    return make(name)


@pytest.fixture
def rng(name):
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])


@pytest.fixture(scope="session")
def plain_models():
    """The models as plain Python, uncompiled."""
    with mutated_models() as plain:
        yield plain
