"""Other programs read the files of a run, and a run reads the files of other programs."""

import json
import math

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


def test_weights(tmp_path):
    """safetensors, in all types."""
    path = tmp_path / "w.safetensors"
    arrays = {"bytes": np.array([1, 2, 255], np.uint8), "double": np.array(1e-300),
              "layer.weight": np.array([[1, -2, 3.5], [0, 5, 6]], np.float32),
              "index": np.array([[-7], [7]], np.int32), "none": np.zeros((0, 4), np.float32)}
    numpy_files = pytest.importorskip("safetensors.numpy")
    numpy_files.save_file(arrays, path, {"format": "np"})
    read = accrue.Weights.load(path)
    assert read.metadata == {"format": "np"}
    assert_equal(read, arrays)
    weights = accrue.Weights({name: arrays[name] for name in ("layer.weight", "none")}, {"a": "b"})
    weights.save(path)
    assert_equal(numpy_files.load_file(path), weights)
    with safe_open(path, "np") as file:
        assert file.metadata() == {"a": "b"}


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, x in expected.items():
        assert found[name].dtype == x.dtype, name
        np.testing.assert_array_equal(found[name], x, name, strict=True)


def test_log(tmp_path):
    """TensorBoard reads the log of a run that resumed at step 4: the steps after it are void."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.plugins.hparams import metadata

    def train(steps, **options):
        accrue.train("mlp-small", "digits", log_dir=tmp_path, log_histograms=3, steps=steps,
                     checkpoint_dir=tmp_path / "checkpoints", checkpoint_every=4, **options)

    train(6)
    for later in (tmp_path / "checkpoints").glob("step-*6"):
        later.rename(tmp_path / "later")
    train(5, resume=True)
    log = accumulator.EventAccumulator(str(tmp_path), {"histograms": 0, "scalars": 0}).Reload()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").open()]
    steps = [line for line in lines if "step" in line]
    loss = log.Scalars("train/loss")
    assert [event.step for event in loss] == [1, 2, 3, 4, 5]
    for event, line in zip(loss, steps, strict=True):
        assert math.isclose(event.value, line["loss"], rel_tol=1e-6)
    memory = log.Scalars("peak_bytes/activations")
    assert memory[0].value == steps[0]["peak_bytes"]["activations"]
    in_use = log.Scalars("in_use_bytes/parameters")
    assert {event.value for event in in_use} == {steps[0]["in_use_bytes"]["parameters"]}
    described = log.SummaryMetadata("in_use_bytes/parameters").summary_description
    assert "bytes" in described.lower()
    assert "samples per second" in log.SummaryMetadata("train/samples_per_s").summary_description
    start = log.SummaryMetadata("_hparams_/session_start_info").plugin_data
    assert start.plugin_name == "hparams"
    chosen = metadata.parse_session_start_info_plugin_data(start.content).hparams
    assert chosen["lr"].number_value == 0.001 and chosen["model"].string_value == "mlp-small"
    histogram = log.Histograms("gradients/0.weight")[0]
    assert histogram.step == 3 and histogram.histogram_value.num == 784 * 256
    assert sum(histogram.histogram_value.bucket) == 784 * 256
