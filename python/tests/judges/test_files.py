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
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        stored = {name: x.to(dtype) for name, x in weights.items()}
        # With PyTorch's own count of batches.
        save_file({"1.num_batches_tracked": torch.tensor(3), **stored}, path)
        loaded = accrue.train("cnn-bn", "digits", steps=0, init=path).weights
        assert set(loaded) == set(stored)
        for name, x in stored.items():
            np.testing.assert_array_equal(loaded[name], x.float().numpy(), name)
