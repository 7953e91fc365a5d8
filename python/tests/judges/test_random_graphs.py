"""Random networks are PyTorch's in float64, however a window is split."""

import pytest

pytest.importorskip("torch")

import random_graphs

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("seed", range(1, 201))
def test_random_graphs(seed):
    random_graphs.compare(seed)
