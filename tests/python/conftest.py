"""Fixtures of the Python tests."""

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.name.encode()))
