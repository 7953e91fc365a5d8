"""onnxruntime, with the files of `accrue export`, answers what the networks answer."""

import subprocess
import sys

import accrue
import numpy as np
import pytest

onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.thorough

IMAGES = {"mlp": (1, 28, 28), "mlp-small": (1, 28, 28), "cnn": (1, 28, 28), "cnn-gn": (1, 28, 28),
          "cnn-bn": (1, 28, 28), "resnet": (1, 28, 28), "resnet-bn": (1, 28, 28),
          "resnet18": (3, 224, 224), "resnet34": (3, 224, 224), "resnet50": (3, 224, 224),
          "resnet18-gn": (3, 224, 224), "resnet34-gn": (3, 224, 224),
          "resnet50-gn": (3, 224, 224), "unet": (1, 28, 28)}
OTHERWISE = {"upsampling": "transposed", "skip": "concat", "norm": "batch", "self_attention": True,
             "width": 0.25}
LLAMA = {"groups": 2, "rotary_scaling": "linear:4", "tied_head": "no", "attention_bias": "yes"}


def compare(folder, weights, inputs, x, *options):
    """Compares the file's answers, in batches of 1 and 5, with the network's own."""
    random = np.random.default_rng(2)
    # With these numbers every layer has an effect, unlike with the initial weights.
    drawn = {name: a + random.uniform(-0.25, 0.25, a.shape).astype(np.float32)
             if a.ndim < 2 or not a.any() else a for name, a in weights.items()}
    path, file = folder / "weights.safetensors", folder / "network.onnx"
    accrue.Weights(drawn, weights.metadata).save(path)
    subprocess.run([sys.executable, "-m", "accrue", "export", "--weights", path, "--out", file,
                    *options], check=True)
    onnx.checker.check_model(str(file), full_check=True)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    apart = []
    for N in (1, 5):
        part = [a[:N] if a.dtype != np.int32 or a.ndim == 1 else a[:N, N:] for a in x]
        wanted = accrue.predict(path, part[0] if len(part) == 1 else tuple(part))
        answer, = session.run(None, dict(zip(inputs, part)))
        assert answer.shape == wanted.shape
        apart.append(np.abs(answer - wanted).max() / np.abs(wanted).max())
    print(f"{len(onnx.load(str(file)).graph.node)} nodes, {file.stat().st_size / 2**20:.1f} MiB, "
          f"{max(apart):.1e}")
    assert max(apart) <= 2e-5  # both compute in float32


def pixels(*shape):
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


# Includes sides that neither pools nor strides divide.
@pytest.mark.parametrize("name, shape, classes", (
    *((name, shape, 10) for name, shape in IMAGES.items()), ("cnn-bn", (3, 31, 37), 7),
    ("resnet18", (3, 97, 65), 5), ("unet", (3, 45, 50), 4)))
def test_images(name, shape, classes, tmp_path):
    x, y = pixels(10, *shape), np.arange(10) % classes
    if name == "unet":
        y = np.stack([np.full(shape[1:], k) for k in y])
    weights = accrue.train(name, (x, y), steps=0, effective_batch=2, micro_batch=2).weights
    compare(tmp_path, weights, ["images"], [x])


def test_bytes(tmp_path):
    x = np.random.default_rng(1).integers(0, 256, (10, 3, 28, 28), np.uint8)
    weights = accrue.train("cnn-bn", (x, np.arange(10)), steps=0, mean="0.5,0.4,0.3",
                           std="0.25,0.2,0.3", effective_batch=2, micro_batch=2).weights
    compare(tmp_path, weights, ["images"], [x], "--bytes")


@pytest.mark.parametrize("side, options", ((256, {}), (96, OTHERWISE)))
def test_glyphs(side, options, tmp_path):
    x, styles = pixels(6, 1, side, side), np.arange(6, dtype=np.int32) % 3
    weights = accrue.train("zi2zi", (x, x, styles), steps=0, effective_batch=2, micro_batch=2,
                           init_scheme="normal", **options).weights
    compare(tmp_path, weights, ["sources", "styles"], [x, styles])


@pytest.mark.parametrize("name, lora, sizes", (
    ("gpt-tiny", None, {}), ("gpt-tiny", 4, {"tied_head": "no"}), ("llama-tiny", None, {}),
    ("llama-tiny", 4, LLAMA)))
def test_tokens(name, lora, sizes, tmp_path):
    rows = np.random.default_rng(1).integers(0, 256, (5, 40), np.int32)
    options = {"vocabulary": 256, "steps": 0, "effective_batch": 2, "micro_batch": 2, **sizes}
    weights = accrue.train(name, rows, **options).weights
    if lora:
        weights = accrue.train(name, rows, init=weights, lora=lora, **options).weights
    compare(tmp_path, weights, ["tokens"], [rows])


@pytest.mark.parametrize("name, sizes", (("gpt-tiny", {}), ("llama-tiny", {"groups": 2})))
def test_embeddings(name, sizes, tmp_path):
    """For rows that end with padding, the mean over the rows' own tokens, divided by its norm."""
    pairs, path, file = (tmp_path / each for each in ("pairs.jsonl", "w.safetensors", "w.onnx"))
    pairs.write_text("".join(f'{{"anchor": "{n}", "positive": "no. {n}"}}\n' for n in range(99)))
    weights = accrue.train(name, str(pairs), tokenizer="bytes", context=64, layers=2, steps=3,
                           effective_batch=8, micro_batch=4, lr=0.1, **sizes).weights
    weights.save(path)
    random = np.random.default_rng(1)
    documents = [random.integers(0, 256, n, np.int32) for n in (1, 7, 30, 12)]
    wanted = accrue.predict(path, documents, micro_batch=3)
    assert np.abs(np.linalg.norm(wanted, axis=1) - 1).max() <= 1e-6
    one = accrue.predict(path, documents[2][None])
    assert np.abs(one - wanted[2:3]).max() <= 1e-6
    subprocess.run([sys.executable, "-m", "accrue", "export", "--weights", path, "--out", file],
                   check=True)
    onnx.checker.check_model(str(file), full_check=True)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for padding in (0, 99):
        rows = np.full((4, 33), padding, np.int32)
        for row, document in zip(rows, documents):
            row[:len(document)] = document
        lengths = np.array([len(document) for document in documents], np.int32)
        answer, = session.run(None, {"tokens": rows, "lengths": lengths})
        assert answer.shape == wanted.shape
        assert np.abs(answer - wanted).max() <= 2e-5
