"""A step of PyTorch by a network of one layer with these arguments, and the same by accrue."""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.thorough

IMAGES = (6, 4, 5, 3)

# The same name and arguments in both, and the shape of a batch.
LAYERS = [
    ("BatchNorm2d", (4, 0.1, 0.3), {}, IMAGES), ("BatchNorm2d", (4,), {"affine": False}, IMAGES),
    ("BatchNorm1d", (4, 1e-2), {"momentum": 0.9}, (6, 4)),
    ("GroupNorm", (2, 4, 0.1), {}, IMAGES), ("GroupNorm", (2, 4), {"affine": False}, IMAGES),
    ("LayerNorm", (3, 0.1), {}, IMAGES), ("LayerNorm", ((5, 3),), {"bias": False}, IMAGES),
    ("LayerNorm", ([4, 5, 3],), {"elementwise_affine": False}, IMAGES),
    ("InstanceNorm2d", (4, 0.1), {"affine": True}, IMAGES), ("InstanceNorm2d", (4,), {}, IMAGES),
    ("Linear", (3, 7), {}, IMAGES), ("Linear", (3, 7, False), {}, IMAGES),
    ("Linear", (7, 2), {}, (6, 1, 7)),
    *(("Upsample", size, {"mode": mode, "align_corners": corners}, IMAGES)
      for size in (((7, 4),), (None, 2), (None, (1.5, 0.5)))
      for mode, corners in (("nearest", None), ("nearest-exact", None), ("bilinear", False),
                            ("bilinear", True), ("bicubic", False), ("bicubic", True)))]


def test_embedding_with_padding():
    """Its row is used and not trained."""
    torch.manual_seed(1)
    index, x, y = np.array([[1, 4, 1, 0]], np.int32), torch.randn(6, 4, 3), torch.arange(6) % 3
    table, head = nn.Embedding(5, 3, padding_idx=1), nn.Linear(12, 3)
    with torch.no_grad():
        table.weight.add_(0.3)  # and its row of padding
    values = accrue.input(4, 3)
    rows = accrue.Embedding(5, 3, -4)(accrue.constant(index).expand(values.shape[0], -1), name="0")
    network = accrue.Network(values, accrue.Linear(12, 3)((values * rows).flatten(1), name="1"))
    before = {f"{i}.{name}": p.detach().numpy().copy() for i, layer in enumerate((table, head))
              for name, p in layer.named_parameters()}
    for micro_batch in (6, 2):
        after = accrue.train(network, (x.numpy(), y.int().numpy()), init=before, steps=1, optimizer="sgd", lr=0.1,
                             micro_batch=micro_batch, effective_batch=6, no_shuffle=True).weights
        table.zero_grad()
        head.zero_grad()
        functional.cross_entropy(head((x * table(torch.tensor(index).expand(6, -1))).flatten(1)), y).backward()
        for i, layer in enumerate((table, head)):
            for name, p in layer.named_parameters():
                assert np.abs(after[f"{i}.{name}"] - (p - 0.1 * p.grad).detach().numpy()).max() < 1e-6
        assert (after["0.weight"][1] == before["0.weight"][1]).all()
        assert (after["0.weight"][2] == before["0.weight"][2]).all()
    fresh = accrue.train(network, (x.numpy(), y.int().numpy()), steps=1, micro_batch=6,
                         effective_batch=6).weights["0.weight"]
    assert (fresh[1] == 0).all()


@pytest.mark.parametrize("name, arguments, options, shape", LAYERS)
def test_step(name, arguments, options, shape):
    torch.manual_seed(1)
    # A layer before it, so that its gradient with respect to x counts.
    first = nn.Conv2d(4, 4, 1) if len(shape) == 4 else nn.Linear(shape[-1], shape[-1])
    body = nn.Sequential(first, getattr(nn, name)(*arguments, **options), nn.Flatten())
    x, y = torch.randn(shape), torch.arange(shape[0]) % 3
    features = body(x).shape[1]
    model = nn.Sequential(*body, nn.Linear(features, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
        for buffer in model.buffers():  # after the run above
            if buffer.ndim:
                buffer.fill_(1)
    before = {key: v.clone().numpy() for key, v in model.state_dict().items()
              if not key.endswith("num_batches_tracked")}
    before_layer = (accrue.Conv2d(4, 4, 1) if len(shape) == 4 else
                    accrue.Linear(shape[-1], shape[-1]))
    network = accrue.Sequential(before_layer, getattr(accrue, name)(*arguments, **options),
                                accrue.Flatten(), accrue.Linear(features, 3))
    result = accrue.train(network, (x.numpy(), y.int().numpy()), init=before, steps=1,
                          optimizer="sgd", lr=0.1, micro_batch=shape[0],
                          effective_batch=shape[0], no_shuffle=True)
    model.double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    functional.cross_entropy(model(x.double()), y).backward()
    optimizer.step()
    for key, v in model.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            assert np.abs(result.weights[key] - v.numpy()).max() < 2e-5, key
    model.eval()
    answer = accrue.predict(result.weights, x.numpy(), network)
    assert np.abs(answer - model(x.double()).detach().numpy()).max() < 5e-5
