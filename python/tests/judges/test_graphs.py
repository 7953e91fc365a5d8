"""Windows of networks that are made of values, and of the same modules by PyTorch in float64."""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.thorough


class Squeezed(nn.Module):
    """Residual blocks whose channels are weighed by a function of their means (Hu et al. 2018)."""

    def __init__(self, channels=8, blocks=3):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "norm": nn.GroupNorm(2, channels), "conv": nn.Conv2d(channels, channels, 3, padding=1),
            "squeeze": nn.Conv2d(channels, channels, 1)}) for _ in range(blocks))
        self.head = nn.Linear(channels, 5)

    def forward(self, x):
        y = self.stem(x)
        for block in self.blocks:
            h = block["conv"](block["norm"](y).relu())
            y = y + h * block["squeeze"](h.mean((2, 3), keepdim=True)).sigmoid()
        return self.head(y.mean((2, 3)))


def squeezed(channels=8, blocks=3):
    x = accrue.input(3, 8, 8)
    y = accrue.Conv2d(3, channels, 3, padding=1)(x, name="stem")
    for i in range(blocks):
        h = accrue.relu(accrue.GroupNorm(2, channels)(y, name=f"blocks.{i}.norm"))
        h = accrue.Conv2d(channels, channels, 3, padding=1)(h, name=f"blocks.{i}.conv")
        s = accrue.Conv2d(channels, channels, 1)(h.adaptive_avg_pool2d(1),
                                                 name=f"blocks.{i}.squeeze")
        y = y + h * accrue.sigmoid(s).interpolate(size=8)
    return accrue.Network(x, accrue.Linear(channels, 5)(y.adaptive_avg_pool2d(1).flatten(1),
                                                        name="head"))


class Branches(nn.Module):
    """Two branches that are put together, twice."""

    def __init__(self):
        super().__init__()
        for i, channels in enumerate((3, 8)):
            self.add_module(f"a{i}", nn.Conv2d(channels, 4, 1))
            self.add_module(f"b{i}", nn.Conv2d(channels, 4, 5, padding=2))
        self.gate = nn.Parameter(torch.full((1,), 0.5))
        self.head = nn.Linear(8 * 2 * 2, 5)

    def forward(self, x):
        for a, b in ((self.a0, self.b0), (self.a1, self.b1)):
            x = torch.cat([functional.gelu(a(x)), b(x).tanh()], 1)
            x = functional.max_pool2d(x, 2) + self.gate * functional.avg_pool2d(x, 2)
        return self.head(x.flatten(1))


def branches():
    x = y = accrue.input(3, 8, 8)
    gate = accrue.parameter(1, "gate", mean=0.5)
    for i, channels in enumerate((3, 8)):
        a = accrue.Conv2d(channels, 4, 1)(y, name=f"a{i}")
        b = accrue.Conv2d(channels, 4, 5, padding=2)(y, name=f"b{i}")
        y = accrue.cat([accrue.gelu(a), accrue.tanh(b)], 1)
        y = accrue.scale_add(y.max_pool2d(2), gate, y.avg_pool2d(2))
    return accrue.Network(x, accrue.Linear(32, 5)(y.flatten(1), name="head"))


class Attention(nn.Module):
    """Every pixel sees all others, by a formula that is written out."""

    def __init__(self, channels=8):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 2, stride=2)
        self.q, self.k, self.v = (nn.Conv2d(channels, channels, 1) for _ in range(3))
        self.norm = nn.GroupNorm(1, channels)
        self.head = nn.Linear(channels * 16, 5)

    def forward(self, x):
        x = self.stem(x)
        h = self.norm(x)
        q, k, v = (layer(h).flatten(2) for layer in (self.q, self.k, self.v))
        scores = q.transpose(1, 2) @ k / q.shape[1] ** 0.5
        y = x + (v @ scores.softmax(-1).transpose(1, 2)).reshape(x.shape)
        return self.head(y.flatten(1))


def attention(channels=8):
    x = accrue.input(3, 8, 8)
    h = accrue.Conv2d(3, channels, 2, stride=2)(x, name="stem")
    n = accrue.GroupNorm(1, channels)(h, name="norm")
    q, k, v = (accrue.Conv2d(channels, channels, 1)(n, name=name) for name in "qkv")
    y = h + accrue.self_attention(q, k, v)
    return accrue.Network(x, accrue.Linear(channels * 16, 5)(y.flatten(1), name="head"))


class UNet(nn.Module):
    """Two levels, with a class for each pixel."""

    def __init__(self):
        super().__init__()

        def double(channels, out):
            return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1, bias=False),
                                 nn.GroupNorm(4, out), nn.ReLU(),
                                 nn.Conv2d(out, out, 3, padding=1, bias=False),
                                 nn.GroupNorm(4, out), nn.ReLU())

        self.fine, self.coarse, self.decoder = double(3, 8), double(8, 16), double(16, 8)
        self.up, self.head = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        fine = self.fine(x)
        up = self.up(self.coarse(functional.max_pool2d(fine, 2)))
        return self.head(self.decoder(torch.cat([fine, up], 1)))


def unet():
    def double(x, out, name):
        for i in (0, 3):
            x = accrue.Conv2d(x.shape[1], out, 3, padding=1, bias=False)(x, name=f"{name}.{i}")
            x = accrue.relu(accrue.GroupNorm(4, out)(x, name=f"{name}.{i + 1}"))
        return x

    x = accrue.input(3, 8, 8)
    fine = double(x, 8, "fine")
    up = accrue.ConvTranspose2d(16, 8, 2, stride=2)(double(fine.max_pool2d(2), 16, "coarse"),
                                                    name="up")
    return accrue.Network(x, accrue.Conv2d(8, 4, 1)(double(accrue.cat([fine, up], 1), 8, "decoder"),
                                                    name="head"))


@pytest.mark.parametrize("network", (squeezed, branches, attention, unet))
def test_files(network, tmp_path):
    """onnxruntime answers what the network answers."""
    onnxruntime = pytest.importorskip("onnxruntime")
    x = np.random.default_rng(3).normal(size=(8, 3, 8, 8)).astype(np.float32)
    y = np.zeros((8, 8, 8) if network is unet else 8, int)
    y[::2] = 3
    weights = accrue.train(network(), (x, y), effective_batch=8, micro_batch=8).weights
    accrue.export(weights, tmp_path / "network.onnx", network())
    session = onnxruntime.InferenceSession(str(tmp_path / "network.onnx"),
                                           providers=["CPUExecutionProvider"])
    for n in (1, 8):
        wanted = accrue.predict(weights, x[:n], network())
        answer, = session.run(None, {"images": x[:n]})
        assert np.abs(answer - wanted).max() <= 2e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("network, module, classes, of_pixels", (
    (squeezed, Squeezed, 5, False), (branches, Branches, 5, False),
    (attention, Attention, 5, False), (unet, UNet, 4, True)))
def test_windows(network, module, classes, of_pixels):
    """The gradient of a window, and five windows of Adam, whole and in every split."""
    torch.manual_seed(1)
    random = np.random.default_rng(2)
    model = module().double()
    x = random.normal(size=(40, 3, 8, 8)).astype(np.float32)
    y = random.integers(0, classes, (40, 8, 8) if of_pixels else 40)
    # As float32 has them.
    for p in model.parameters():
        p.data = p.data.float().double()
    init = accrue.Weights({n: p.detach().float().numpy() for n, p in model.named_parameters()})

    loss = functional.cross_entropy(model(torch.tensor(x[:8]).double()), torch.tensor(y[:8]))
    loss.backward()
    gradient = {n: p.grad.numpy() for n, p in model.named_parameters()}
    largest = max(np.abs(g).max() for g in gradient.values())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3)
    losses = []
    for i in range(0, 40, 8):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(torch.tensor(x[i:i + 8]).double()),
                                        torch.tensor(y[i:i + 8]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    options = dict(init=init, effective_batch=8, no_shuffle=True, threads=1)
    for options["micro_batch"] in (8, 3, 1):
        for options["recompute"] in ("none", "sqrt", "all"):
            step = accrue.train(network(), (x[:8], y[:8]), optimizer="sgd", momentum=0, lr=1,
                                schedule="constant", weight_decay=0, **options).weights
            assert set(step) == set(gradient)
            for name, g in gradient.items():
                # A weight of about 1 is rounded to 2^-24, and sums in float32 differ by as much.
                error = np.abs(init[name] - step[name] - g).max()
                assert error <= 2**-22 + 1e-5 * largest, name
            result = accrue.train(network(), (x, y), optimizer="adam", lr=1e-2, eps=1e-3,
                                  schedule="constant", **options)
            np.testing.assert_allclose(result.losses, losses, rtol=1e-5)
            for name, p in model.named_parameters():
                error = np.abs(result.weights[name] - p.detach().numpy()).max()
                assert error <= 1e-5, name
