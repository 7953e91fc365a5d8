"""Five networks in float64, beside PyTorch's: five steps of Adam, whole, in every split and on two ranks.

Networks of values are made here. The same networks in C++, examples/five_networks, leave files in a folder, which
ACCRUE_FIVE_NETWORKS names (scripts/check_install.sh). The bound is ten times the distance of PyTorch from itself with
the samples of a window in another order.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.numpy import load_file
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


NETWORKS = {"vit": (vit, Vit, 8, 5), "mobile": (mobile, Mobile, 16, 5), "excited": (excited, Excited, 16, 5),
            "gated": (gated, Gated, 16, 5), "gates": (gates, Gates, 16, 3)}


class Judge:
    """What PyTorch makes of a start and samples, by which others' results are judged."""

    def __init__(self, module, state, x, y):
        random = np.random.default_rng(3)
        self.module, self.found = module, []
        self.gradient, self.weights = steps_of(module, state, x, y)
        order = np.concatenate([i + random.permutation(WINDOW) for i in range(0, len(x), WINDOW)])
        _, moved = steps_of(module, state, x[order], y[order])
        self.largest = max(np.abs(g).max() for g in self.gradient.values())
        self.bound = 10 * max(farthest(moved, self.weights), 1e-16)

    def take(self, start, step, weights):
        """Weights after a step of SGD, which moved them by the gradient, and after all steps of Adam."""
        difference = max(np.abs(start[name] - step[name] - g).max() for name, g in self.gradient.items())
        self.found.append((difference / self.largest, farthest(weights, self.weights)))

    def decide(self):
        print(f"\n{self.module.__name__}: gradient {max(f[0] for f in self.found):.1e} of the largest, weights after"
              f" {STEPS} steps {max(f[1] for f in self.found):.1e}, PyTorch in another order {self.bound / 10:.1e}")
        for of_gradient, of_weights in self.found:
            assert of_gradient <= 1e-10
            assert of_weights <= self.bound


def train(network, samples, by, **options):
    x, y = samples
    if by == "sgd":
        return accrue.train(network(), (x[:WINDOW], y[:WINDOW]), optimizer="sgd", momentum=0, lr=1, **options)
    return accrue.train(network(), (x, y), optimizer="adam", lr=1e-2, eps=1e-3, **options)


def options_for(name, init):
    options = dict(init=init, precision="fp64", effective_batch=WINDOW, no_shuffle=True, threads=1,
                   schedule="constant", weight_decay=0)
    if name in ("mobile", "excited"):
        options |= dict(batch_norm="window", batch_norm_by="keep")
    return options


def have_ranks():
    info = subprocess.run([sys.executable, "-m", "accrue", "info", "--model", "mlp-small"], capture_output=True,
                          text=True, check=True)
    return shutil.which("mpirun") and "MPI: none" not in info.stdout


def train_as_rank(name, by, folder):
    """A process of two, which trains once and leaves its weights."""
    folder = pathlib.Path(folder)
    with np.load(folder / "start.npz") as start:
        init = accrue.Weights(dict(start))
    with np.load(folder / "samples.npz") as samples:
        result = train(NETWORKS[name][0], (samples["x"], samples["y"]), by, micro_batch=3, **options_for(name, init))
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
    np.savez(folder / f"{by}-{rank}.npz", **result.weights)


def weights_of_ranks(name, by, folder):
    may_share = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    paths = [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    work = f"import test_five_networks as t; t.train_as_rank({name!r}, {by!r}, {str(folder)!r})"
    done = subprocess.run(["mpirun", "-n", "2", sys.executable, "-c", work], capture_output=True, text=True,
                          timeout=300, env=os.environ | may_share | dict(PYTHONPATH=os.pathsep.join(paths)))
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [dict(np.load(folder / f"{by}-{rank}.npz")) for rank in (0, 1)]
    for each in ranks[0]:
        np.testing.assert_array_equal(ranks[0][each], ranks[1][each])
    return ranks[0]


def begun(name):
    """A judge, and the start and the samples that it knows."""
    _, module, size, classes = NETWORKS[name]
    torch.manual_seed(1)
    random = np.random.default_rng(2)
    state = module().double().state_dict()
    x = random.normal(size=(STEPS * WINDOW, 3, size, size))
    y = random.integers(0, classes, (len(x), size, size) if module is Gates else len(x))
    init = accrue.Weights({n: t.numpy() for n, t in state.items() if not n.endswith("num_batches_tracked")})
    return Judge(module, state, x, y), init, (x, y)


@pytest.mark.parametrize("name", NETWORKS)
def test_steps(name):
    judge, init, samples = begun(name)
    for micro_batch in (8, 3, 1):
        step, result = (train(NETWORKS[name][0], samples, by, micro_batch=micro_batch, **options_for(name, init))
                        for by in ("sgd", "adam"))
        judge.take(init, step.weights, result.weights)
    judge.decide()


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_of_two_ranks(name, tmp_path):
    if not have_ranks():
        pytest.skip("no mpirun, or accrue is built without MPI")
    judge, init, (x, y) = begun(name)
    np.savez(tmp_path / "start.npz", **init)
    np.savez(tmp_path / "samples.npz", x=x, y=y)
    judge.take(init, *(weights_of_ranks(name, by, tmp_path) for by in ("sgd", "adam")))
    judge.decide()


@pytest.mark.skipif("ACCRUE_FIVE_NETWORKS" not in os.environ, reason="examples/five_networks has left no files")
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_in_cpp(name):
    path = pathlib.Path(os.environ["ACCRUE_FIVE_NETWORKS"], name)
    weights_in = lambda what: load_file(f"{path}-{what}.safetensors")
    start, samples = weights_in("start"), weights_in("data")
    x, y = samples["x"].astype("float64"), samples["y"].astype("int64")
    state = {n: torch.tensor(w) for n, w in start.items()}
    state |= {n.replace("running_mean", "num_batches_tracked"): torch.tensor(0) for n in start if "running_mean" in n}
    judge = Judge(NETWORKS[name][1], state, x, y.reshape(len(y), *x.shape[2:]) if y.ndim == 4 else y)
    for way in ("whole", "3+3+2", "singles", "ranks"):
        judge.take(start, weights_in(f"{way}-sgd"), weights_in(way))
    judge.decide()
