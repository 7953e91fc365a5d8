"""Five networks of values in float64, beside PyTorch's: five steps of Adam, whole and in every split.

The bound is ten times the distance of PyTorch from itself with the samples of a window in another order.
"""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_general_graphs import Vit, vit
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.thorough
STEPS, WINDOW = 5, 8


class Mobile(nn.Module):
    """Blocks of MobileNetV3 (Howard et al. 2019)."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(8, eps=1e-3, momentum=0.01)
        for i, (k, stride) in enumerate(((3, 1), (5, 2))):
            self.add_module(f"expand{i}", nn.Conv2d(8, 24, 1, bias=False))
            self.add_module(f"expand{i}_norm", nn.BatchNorm2d(24, eps=1e-3, momentum=0.01))
            self.add_module(f"depth{i}", nn.Conv2d(24, 24, k, stride, k // 2, groups=24, bias=False))
            self.add_module(f"depth{i}_norm", nn.BatchNorm2d(24, eps=1e-3, momentum=0.01))
            self.add_module(f"squeeze{i}", nn.Conv2d(24, 8, 1))
            self.add_module(f"excite{i}", nn.Conv2d(8, 24, 1))
            self.add_module(f"project{i}", nn.Conv2d(24, 8, 1, bias=False))
            self.add_module(f"project{i}_norm", nn.BatchNorm2d(8, eps=1e-3, momentum=0.01))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        at = lambda name: getattr(self, name)
        x = functional.hardswish(self.stem_norm(self.stem(x)))
        for i, stride in enumerate((1, 2)):
            h = functional.hardswish(at(f"expand{i}_norm")(at(f"expand{i}")(x)))
            h = functional.hardswish(at(f"depth{i}_norm")(at(f"depth{i}")(h)))
            s = functional.relu(at(f"squeeze{i}")(functional.adaptive_avg_pool2d(h, 1)))
            # PyTorch's hardsigmoid has a gradient of 1/6 in float32, whatever it computes in.
            h = h * torch.clamp(at(f"excite{i}")(s) / 6 + 0.5, 0, 1)
            h = at(f"project{i}_norm")(at(f"project{i}")(h))
            x = x + h if stride == 1 else h
        return self.head(x.mean((2, 3)))


def mobile():
    def normed(x, name, *convolution, **options):
        y = accrue.Conv2d(*convolution, bias=False, **options)(x, name=name)
        return accrue.BatchNorm2d(y.shape[1], eps=1e-3, momentum=0.01)(y, name=f"{name}_norm")

    images = accrue.input(3, 16, 16)
    x = accrue.hardswish(normed(images, "stem", 3, 8, 3, stride=2, padding=1))
    for i, (k, stride) in enumerate(((3, 1), (5, 2))):
        h = accrue.hardswish(normed(x, f"expand{i}", 8, 24, 1))
        h = accrue.hardswish(normed(h, f"depth{i}", 24, 24, k, stride, k // 2, groups=24))
        s = accrue.relu(accrue.Conv2d(24, 8, 1)(h.adaptive_avg_pool2d(1), name=f"squeeze{i}"))
        h = h * accrue.hardsigmoid(accrue.Conv2d(8, 24, 1)(s, name=f"excite{i}"))
        h = normed(h, f"project{i}", 24, 8, 1)
        x = x + h if stride == 1 else h
    return accrue.Network(images, accrue.Linear(8, 5)(x.mean((2, 3)), name="head"))


class Excited(nn.Module):
    """A residual network whose channels are weighed (Hu et al. 2018)."""

    def __init__(self, channels=8, blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        for i in range(blocks):
            for j in range(2):
                self.add_module(f"conv{i}{j}", nn.Conv2d(channels, channels, 3, padding=1, bias=False))
                self.add_module(f"norm{i}{j}", nn.BatchNorm2d(channels))
            self.add_module(f"down{i}", nn.Linear(channels, 4))
            self.add_module(f"up{i}", nn.Linear(4, channels))
        self.blocks, self.head = blocks, nn.Linear(channels, 5)

    def forward(self, x):
        at = lambda name: getattr(self, name)
        x = self.stem(x)
        for i in range(self.blocks):
            h = at(f"norm{i}0")(at(f"conv{i}0")(x)).relu()
            h = at(f"norm{i}1")(at(f"conv{i}1")(h))
            s = at(f"up{i}")(at(f"down{i}")(h.mean((2, 3))).relu()).sigmoid()
            x = (x + h * s.reshape(len(x), -1, 1, 1)).relu()
        return self.head(x.mean((2, 3)))


def excited(channels=8, blocks=2):
    images = accrue.input(3, 16, 16)
    x = accrue.Conv2d(3, channels, 3, padding=1)(images, name="stem")
    N = x.shape[0]
    for i in range(blocks):
        h = x
        for j in range(2):
            h = accrue.Conv2d(channels, channels, 3, padding=1, bias=False)(h, name=f"conv{i}{j}")
            h = accrue.BatchNorm2d(channels)(h, name=f"norm{i}{j}")
            h = accrue.relu(h) if j == 0 else h
        s = accrue.relu(accrue.Linear(channels, 4)(h.mean((2, 3)), name=f"down{i}"))
        s = accrue.sigmoid(accrue.Linear(4, channels)(s, name=f"up{i}"))
        x = accrue.relu(x + h * s.reshape(N, channels, 1, 1))
    return accrue.Network(images, accrue.Linear(channels, 5)(x.mean((2, 3)), name="head"))


class Gated(nn.Module):
    """A recurrent network with a gate over the rows of an image, from the first to the last."""

    def __init__(self, features=12):
        super().__init__()
        self.read, self.recall = nn.Linear(48, 2 * features), nn.Linear(features, 2 * features)
        self.first = nn.Parameter(0.1 * torch.randn(1, features))
        self.head = nn.Linear(features, 5)

    def forward(self, x):
        rows = x.permute(0, 2, 1, 3).flatten(2)
        h = self.first.expand(len(x), -1)
        for t in range(rows.shape[1]):
            gate, new = (self.read(rows[:, t]) + self.recall(h)).chunk(2, -1)
            gate = gate.sigmoid()
            h = gate * h + (1 - gate) * new.tanh()
        return self.head(h)


def gated(features=12):
    images = accrue.input(3, 16, 16)
    rows = images.permute(0, 2, 1, 3).flatten(2)
    N, T, _ = rows.shape
    read, recall = accrue.Linear(48, 2 * features), accrue.Linear(features, 2 * features)
    h = accrue.parameter((1, features), "first", std=0.1).expand(N, -1)
    for t in range(T):
        z = read(rows[:, t], name="read") + recall(h, name="recall")
        gate, new = z.chunk(2, -1)
        gate = accrue.sigmoid(gate)
        h = gate * h + (1 - gate) * accrue.tanh(new)
    return accrue.Network(images, accrue.Linear(features, 5)(h, name="head"))


class Gates(nn.Module):
    """A U-Net with bilinear upsampling, whose skip passes a gate (Oktay et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 12, 3, padding=1)
        self.skip, self.signal, self.gate = nn.Conv2d(6, 4, 1), nn.Conv2d(12, 4, 1), nn.Conv2d(4, 1, 1)
        self.up, self.head = nn.Conv2d(18, 6, 3, padding=1), nn.Conv2d(6, 3, 1)

    def forward(self, x):
        a = self.down(x).relu()
        b = self.deep(functional.max_pool2d(a, 2)).relu()
        b = functional.interpolate(b, scale_factor=2, mode="bilinear")
        gate = self.gate((self.skip(a) + self.signal(b)).relu()).sigmoid()
        return self.head(self.up(torch.cat([a * gate, b], 1)).relu())


def gates():
    images = accrue.input(3, 16, 16)
    a = accrue.relu(accrue.Conv2d(3, 6, 3, padding=1)(images, name="down"))
    b = accrue.relu(accrue.Conv2d(6, 12, 3, padding=1)(a.max_pool2d(2), name="deep"))
    b = b.interpolate(scale_factor=2, mode="bilinear")
    z = accrue.Conv2d(6, 4, 1)(a, name="skip") + accrue.Conv2d(12, 4, 1)(b, name="signal")
    gate = accrue.sigmoid(accrue.Conv2d(4, 1, 1)(accrue.relu(z), name="gate"))
    y = accrue.Conv2d(18, 6, 3, padding=1)(accrue.cat([a * gate, b], 1), name="up")
    return accrue.Network(images, accrue.Conv2d(6, 3, 1)(accrue.relu(y), name="head"))


def steps_of(module, state, x, y):
    """PyTorch's gradient of the first window, and its weights after all."""
    model = module().double()
    model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3)
    first = None
    for i in range(0, len(x), WINDOW):
        optimizer.zero_grad()
        functional.cross_entropy(model(torch.tensor(x[i:i + WINDOW])), torch.tensor(y[i:i + WINDOW])).backward()
        first = first or {n: p.grad.numpy().copy() for n, p in model.named_parameters()}
        optimizer.step()
    return first, {n: p.detach().numpy() for n, p in model.named_parameters()}


def farthest(a, b):
    return max(np.abs(a[name] - b[name]).max() for name in b)


@pytest.mark.parametrize("network, module, size, classes, has_norms", (
    (vit, Vit, 8, 5, False), (mobile, Mobile, 16, 5, True), (excited, Excited, 16, 5, True),
    (gated, Gated, 16, 5, False), (gates, Gates, 16, 3, False)))
def test_steps(network, module, size, classes, has_norms):
    torch.manual_seed(1)
    random = np.random.default_rng(2)
    state = module().double().state_dict()
    x = random.normal(size=(STEPS * WINDOW, 3, size, size))
    y = random.integers(0, classes, (len(x), size, size) if module is Gates else len(x))
    gradient, weights = steps_of(module, state, x, y)
    order = np.concatenate([i + random.permutation(WINDOW) for i in range(0, len(x), WINDOW)])
    moved_gradient, moved = steps_of(module, state, x[order], y[order])
    largest = max(np.abs(g).max() for g in gradient.values())
    bound = 10 * max(farthest(moved, weights), 1e-16)

    init = accrue.Weights({n: t.numpy() for n, t in state.items() if not n.endswith("num_batches_tracked")})
    options = dict(init=init, precision="fp64", effective_batch=WINDOW, no_shuffle=True, threads=1,
                   schedule="constant", weight_decay=0)
    if has_norms:
        options |= dict(batch_norm="window", batch_norm_by="keep")
    found = []
    for options["micro_batch"] in (8, 3, 1):
        step = accrue.train(network(), (x[:WINDOW], y[:WINDOW]), optimizer="sgd", momentum=0, lr=1, **options)
        difference = max(np.abs(init[n] - step.weights[n] - g).max() for n, g in gradient.items())
        result = accrue.train(network(), (x, y), optimizer="adam", lr=1e-2, eps=1e-3, **options)
        found.append((difference / largest, farthest(result.weights, weights)))
    print(f"\n{module.__name__}: gradient {max(f[0] for f in found):.1e} of the largest, weights after"
          f" {STEPS} steps {max(f[1] for f in found):.1e}, PyTorch in another order {bound / 10:.1e}")
    for of_gradient, of_weights in found:
        assert of_gradient <= 1e-10
        assert of_weights <= bound
