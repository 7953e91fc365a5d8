"""Windows of networks of values that need general ops, and of the same modules by PyTorch."""

import accrue
import pytest

torch = pytest.importorskip("torch")

import test_graphs
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.thorough


class Vit(nn.Module):
    """A vision transformer whose attention is written out, with a class token and positions."""

    def __init__(self, D=16, depth=2, heads=4):
        super().__init__()
        self.heads = heads
        self.patches = nn.Conv2d(3, D, 2, stride=2)
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, D))
        self.positions = nn.Parameter(0.1 * torch.randn(1, 17, D))
        for i in range(depth):
            self.add_module(f"norm{i}", nn.LayerNorm(D))
            self.register_parameter(f"qkv{i}", nn.Parameter(0.3 * torch.randn(D, 3 * D)))
            self.register_parameter(f"out{i}", nn.Parameter(0.3 * torch.randn(D, D)))
        self.depth, self.head = depth, nn.Linear(D, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        N, T, D = x.shape
        for i in range(self.depth):
            h = getattr(self, f"norm{i}")(x) @ getattr(self, f"qkv{i}")
            q, k, v = (t.reshape(N, T, self.heads, -1).transpose(1, 2) for t in h.chunk(3, -1))
            a = (q @ k.transpose(-2, -1) * (D // self.heads) ** -0.5).softmax(-1)
            x = x + functional.gelu((a @ v).transpose(1, 2).reshape(N, T, D)) @ getattr(self, f"out{i}")
        return self.head(x[:, 0] + x[:, 1:].mean(1))


def vit(D=16, depth=2, heads=4):
    images = accrue.input(3, 8, 8)
    x = accrue.Conv2d(3, D, 2, stride=2)(images, name="patches").flatten(2).transpose(1, 2)
    token = accrue.parameter((1, 1, D), "token", std=0.02).expand(x.shape[0], -1, -1)
    x = accrue.cat([token, x], 1) + accrue.parameter((1, 17, D), "positions", std=0.02)
    N, T, _ = x.shape
    for i in range(depth):
        h = accrue.LayerNorm(D)(x, name=f"norm{i}") @ accrue.parameter((D, 3 * D), f"qkv{i}", std=0.1)
        q, k, v = (t.reshape(N, T, heads, -1).transpose(1, 2) for t in h.chunk(3, -1))
        a = (q @ k.transpose(-2, -1) * (D // heads) ** -0.5).softmax(-1)
        y = accrue.gelu((a @ v).transpose(1, 2).reshape(N, T, D))
        x = x + y @ accrue.parameter((D, D), f"out{i}", std=0.1)
    return accrue.Network(images, accrue.Linear(D, 5)(x[:, 0] + x[:, 1:].mean(1), name="head"))


def squeezed(channels=8, blocks=3):
    x = accrue.input(3, 8, 8)
    y = accrue.Conv2d(3, channels, 3, padding=1)(x, name="stem")
    for i in range(blocks):
        h = accrue.relu(accrue.GroupNorm(2, channels)(y, name=f"blocks.{i}.norm"))
        h = accrue.Conv2d(channels, channels, 3, padding=1)(h, name=f"blocks.{i}.conv")
        s = accrue.Conv2d(channels, channels, 1)(h.mean((2, 3), keepdim=True),
                                                 name=f"blocks.{i}.squeeze")
        y = y + h * accrue.sigmoid(s)
    return accrue.Network(x, accrue.Linear(channels, 5)(y.mean((2, 3)), name="head"))


class Norms(nn.Module):
    """Norms and activations by their formulas, over rolled and padded images."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(8, 1, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        h = self.a(functional.pad(x, (1, 1, 1, 1), mode="reflect"))
        h = (h - h.mean((1, 2, 3), keepdim=True)) / (h.var((1, 2, 3), keepdim=True, correction=0) + 1e-5).sqrt()
        h = torch.roll(self.b(h * self.scale), (1, 2), (2, 3))
        h = h * torch.clamp(h + 3, 0, 6) / 6 - 0.1 * h**2 + (torch.flip(h, (3,)).abs() + 1).sqrt()
        return self.head(torch.log_softmax(h.amax((2, 3)), 1) + torch.cumsum(h.mean((2, 3)), 1))


def norms():
    x = accrue.input(3, 8, 8)
    h = accrue.Conv2d(3, 8, 3)(x.pad((1, 1, 1, 1), mode="reflect"), name="a")
    h = (h - h.mean((1, 2, 3), keepdim=True)) / (h.var((1, 2, 3), keepdim=True, correction=0) + 1e-5).sqrt()
    scale = accrue.parameter((8, 1, 1), "scale", mean=1)
    h = accrue.Conv2d(8, 8, 3, padding=1)(h * scale, name="b").roll((1, 2), (2, 3))
    h = h * (h + 3).clamp(0, 6) / 6 - 0.1 * h**2 + (h.flip(3).abs() + 1).sqrt()
    return accrue.Network(x, accrue.Linear(8, 5)(h.amax((2, 3)).log_softmax(1) + h.mean((2, 3)).cumsum(1),
                                                 name="head"))


@pytest.mark.parametrize("network, module", (
    (vit, Vit), (squeezed, test_graphs.Squeezed), (norms, Norms)))
def test_windows(network, module):
    test_graphs.test_windows(network, module, 5, False)
