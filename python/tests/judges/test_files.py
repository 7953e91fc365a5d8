"""PyTorch reads what a run has written, and a run reads what PyTorch writes."""

import json

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from safetensors import safe_open
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.thorough


def test_checkpoint(tmp_path):
    accrue.train("cnn-bn", "digits", micro_batch=4, steps=3, checkpoint_dir=tmp_path)
    checkpoint = tmp_path / "step-00000003"
    weights = load_file(checkpoint / "weights.safetensors")
    state = load_file(checkpoint / "state.safetensors")
    with safe_open(checkpoint / "state.safetensors", "pt") as file:
        arena = json.loads(file.metadata()["arena"])
    assert state["optimizer.steps"].item() == 3 and arena
    for name, (begin, end) in arena.items():
        m = state["optimizer.m"][begin:end].view(weights[name].shape)
        assert torch.isfinite(m).all() and (m != 0).any(), name

    path = tmp_path / "weights.safetensors"
    # A half unit in the last place, and that of float16's smallest numbers.
    for dtype, relative, smallest in ((torch.float32, 0, 0), (torch.float16, 2.0**-11, 2.0**-25),
                                      (torch.bfloat16, 2.0**-8, 0)):
        # With PyTorch's own count of batches.
        save_file({"1.num_batches_tracked": torch.tensor(3),
                   **{name: x.to(dtype) for name, x in weights.items()}}, path)
        loaded = accrue.train("cnn-bn", "digits", steps=0, init=path).weights
        assert set(loaded) == set(weights)
        far = {name: np.abs(loaded[name] - x.numpy()) for name, x in weights.items()}
        for name, x in weights.items():
            assert (far[name] <= relative * np.abs(x.numpy()) + smallest).all(), name
        assert any(each.any() for each in far.values()) == (dtype != torch.float32)
