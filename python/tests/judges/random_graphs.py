"""Random networks of accrue's Python layers, and the same in PyTorch, both in float64.

    PYTHONPATH=scripts python3 python/tests/judges/random_graphs.py [--count 200] [--seed 1]

Each network has answers within 1e-12 of PyTorch's; a window's gradient within 1e-10 of its largest
element, whole and in every split; the same bits on 1, 2 and 3 threads; and the memory that was
predicted, to the byte. Prints what is wrong with the network and the seed that draws it."""

import argparse
import dataclasses
import math
import random
import sys
import typing

import accrue
import numpy as np
import torch
from reference_models import BasicBlock
from torch import nn
from torch.nn import functional

SAMPLES = 6
ANSWERS, GRADIENTS = 1e-12, 1e-10
# A step of SGD with this rate is almost all gradient, so that little of it is lost in the weights.
RATE = 2.0**10


@dataclasses.dataclass
class Node:
    """A call on values, by numbers: 0 is the input's, i the result's of node i - 1."""
    text: str
    accrue: typing.Callable  # values to a value, or a layer
    torch: nn.Module
    inputs: tuple
    shape: tuple  # of a sample


# Calls on a value [C, H, W] or [F], drawn by its shape; None for a shape that they do not take.


def size_after(size, kernel, stride=1, padding=0, dilation=1):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def conv(rng, shape):
    if len(shape) != 3:
        return None
    C, H, W = shape
    options = {"stride": rng.choice([1, 1, 2]), "padding": rng.randint(0, 2),
               "dilation": rng.choice([1, 1, 1, 2]), "bias": rng.random() < 0.7}
    kernel, out = rng.choice([1, 2, 3, 3, 5]), rng.choice([2, 3, 4, 16])
    window = kernel, options["stride"], options["padding"], options["dilation"]
    sizes = [size_after(size, *window) for size in (H, W)]
    if min(sizes) < 1 or max(sizes) > 24 or min(H, W) + 2 * options["padding"] < kernel:
        return None
    return "Conv2d", (C, out, kernel), options, (out, *sizes)


def conv_transpose(rng, shape):
    if len(shape) != 3 or max(shape[1:]) > 8:
        return None
    C, H, W = shape
    stride, kernel, out = rng.choice([1, 2]), rng.choice([2, 3]), rng.choice([2, 3, 4])
    options = {"stride": stride, "padding": rng.randint(0, 1), "bias": rng.random() < 0.7}
    sizes = [(size - 1) * stride - 2 * options["padding"] + kernel for size in (H, W)]
    return ("ConvTranspose2d", (C, out, kernel), options, (out, *sizes)) if min(sizes) > 0 else None


def group_norm(rng, shape):
    groups = rng.choice([g for g in range(1, shape[0] + 1) if shape[0] % g == 0])
    if len(shape) != 3 or np.prod(shape) / groups < 4:
        return None
    return "GroupNorm", (groups, shape[0]), {}, shape


def norm_of_planes(rng, shape):
    if len(shape) != 3 or shape[1] * shape[2] < 4:
        return None
    if rng.random() < 0.5:
        return "InstanceNorm2d", (), {}, shape
    return "BatchNorm2d", (shape[0],), {}, shape


def norm_of_features(rng, shape):
    if len(shape) != 1 or shape[0] < 3:
        return None
    return rng.choice([("LayerNorm", shape, {}, shape), ("RMSNorm", shape, {"eps": 1e-6}, shape)])


def pool(rng, shape):
    kernel, stride = rng.choice([2, 3]), rng.choice([1, 2])
    if len(shape) != 3 or min(shape[1:]) < kernel:
        return None
    sizes = [size_after(size, kernel, stride) for size in shape[1:]]
    return rng.choice(["MaxPool2d", "AvgPool2d"]), (kernel,), {"stride": stride}, (shape[0], *sizes)


def resize(rng, shape):
    if len(shape) != 3 or max(shape[1:]) > 8:
        return None
    C, H, W = shape
    if C % 4 == 0 and rng.random() < 0.5:
        return "PixelShuffle", (2,), {}, (C // 4, 2 * H, 2 * W)
    return "UpsampleNearest", (2,), {}, (C, 2 * H, 2 * W)


def block(rng, shape):
    if len(shape) != 3 or min(shape[1:]) < 4:
        return None
    out, stride = rng.choice([8, shape[0]]), rng.choice([1, 2])
    options = {"stride": stride,
               "norm": rng.choice(["batch", "instance"] + (["group"] if out == 8 else []))}
    sizes = [size_after(size, 3, stride, 1) for size in shape[1:]]
    return ("BasicBlock", (shape[0], out), options, (out, *sizes)) if min(sizes) > 1 else None


def flatten(rng, shape):
    return ("Flatten", (), {}, (int(np.prod(shape)),)) if len(shape) == 3 else None


def mean_of_planes(rng, shape):
    return ("GlobalAvgPool2d", (), {}, (shape[0], 1, 1)) if len(shape) == 3 else None


def linear(rng, shape):
    out = rng.choice([3, 5, 16])
    return ("Linear", (shape[0], out), {}, (out,)) if len(shape) == 1 else None


def activation(rng, shape):
    name = rng.choice(["ReLU", "GELU", "Sigmoid", "Tanh", "SiLU", "LeakyReLU"])
    return name, (), {}, shape


LAYERS = {conv: 6, conv_transpose: 1, group_norm: 2, norm_of_planes: 2, norm_of_features: 2,
          pool: 2, resize: 1, block: 1, flatten: 0.5, mean_of_planes: 0.5, linear: 4, activation: 6}
NORMS = {"batch": nn.BatchNorm2d, "instance": nn.InstanceNorm2d,
         "group": lambda channels: nn.GroupNorm(8, channels)}


class Block(BasicBlock):
    def __init__(self, inputs, outputs, stride, norm):
        super().__init__(inputs, outputs, stride, NORMS[norm])


IN_TORCH = {"UpsampleNearest": lambda factor: nn.Upsample(scale_factor=factor),
            "GlobalAvgPool2d": lambda: nn.AdaptiveAvgPool2d(1), "BasicBlock": Block,
            "InstanceNorm2d": lambda: nn.InstanceNorm2d(1)}


# And on two, where networks are made of values.


class Add(nn.Module):
    def forward(self, a, b):
        return a + b


class Multiply(nn.Module):
    def forward(self, a, b):
        return a * b


class Subtract(nn.Module):
    def forward(self, a, b):
        return a - b


PAIRS = {"+": (Add, lambda a, b: a + b), "*": (Multiply, lambda a, b: a * b),
         "-": (Subtract, lambda a, b: a - b)}
HAS_VALUES = hasattr(accrue, "Network")


def layer(value, name, arguments, options, shape):
    words = [*map(str, arguments), *(f"{key}={x!r}" for key, x in options.items())]
    return Node(f"{name}({', '.join(words)})", getattr(accrue, name)(*arguments, **options),
                IN_TORCH.get(name, getattr(nn, name, None))(*arguments, **options), (value,), shape)


def draw_node(rng, shapes):
    """On one of the last values, or on two of one shape."""
    pairs = [(i, j) for i in range(len(shapes)) for j in range(i) if shapes[i] == shapes[j]]
    if HAS_VALUES and pairs and rng.random() < 0.3:
        pair, sign = rng.choice(pairs), rng.choice(list(PAIRS))
        in_torch, in_accrue = PAIRS[sign]
        return Node(sign, in_accrue, in_torch(), pair, shapes[pair[0]])
    value = len(shapes) - 1
    if HAS_VALUES and rng.random() < 0.3:
        value = rng.randrange(len(shapes))
    while True:
        draw = rng.choices(list(LAYERS), LAYERS.values())[0]
        found = draw(rng, shapes[value])
        if found and np.prod(found[-1]) <= 1500:
            return layer(value, *found)


@dataclasses.dataclass
class Graph:
    shape: tuple
    classes: int
    nodes: list

    def __str__(self):
        lines = [f"{i}: {node.text} of {', '.join(map(str, node.inputs))}, {list(node.shape)}"
                 for i, node in enumerate(self.nodes, 1)]
        return "\n".join([f"0: {list(self.shape)}", *lines])

    @property
    def is_chain(self):
        return all(node.inputs == (i,) for i, node in enumerate(self.nodes))

    def in_accrue(self):
        if self.is_chain:
            return accrue.Sequential([node.accrue for node in self.nodes])
        values = [accrue.input(*self.shape)]
        for node in self.nodes:
            values.append(node.accrue(*(values[i] for i in node.inputs)))
        return accrue.Network(values[0], values[-1])

    def in_torch(self):
        modules = [node.torch for node in self.nodes]
        return (nn.Sequential(*modules) if self.is_chain else Calls(self.nodes)).double()


class Calls(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.calls = nn.ModuleList(node.torch for node in nodes)
        self.inputs = [node.inputs for node in nodes]

    def forward(self, x):
        values = [x]
        for call, inputs in zip(self.calls, self.inputs):
            values.append(call(*(values[i] for i in inputs)))
        return values[-1]


def draw(seed):
    rng = random.Random(seed)
    shape = (rng.randint(1, 4), rng.randint(4, 9), rng.randint(4, 9))
    if rng.random() < 0.3:
        shape = (rng.randint(3, 12),)
    nodes, classes = [], rng.randint(2, 4)
    for _ in range(rng.randint(2, 9)):
        nodes.append(draw_node(rng, [shape, *(node.shape for node in nodes)]))

    def append(*call):
        nodes.append(layer(len(nodes), *call))

    last = nodes[-1].shape
    if len(last) == 3:
        append("Flatten", (), {}, (int(np.prod(last)),))
    append("Linear", (int(np.prod(last)), classes), {}, (classes,))
    return Graph(shape, classes, nodes)


# The comparison.


def numbered(model):
    return {name: x.detach().numpy() for name, x in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def relative(mine, truth):
    return float(np.abs(mine - truth).max() / max(np.abs(truth).max(), 1e-300))


def compare(seed):
    """The differences from PyTorch, relative to the largest; raises AssertionError beyond bounds."""
    graph = draw(seed)
    rng = random.Random(f"{seed} values")
    torch.manual_seed(seed)
    model = graph.in_torch()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64) * rng.choice([0.2, 0.5]) +
                    (p.dim() == 1) * 0.3)
    x = torch.randn(SAMPLES, *graph.shape, dtype=torch.float64)
    if rng.random() < 0.5:
        y, loss_of = torch.arange(SAMPLES) % graph.classes, functional.cross_entropy
    else:
        y, loss_of = torch.randn(SAMPLES, graph.classes, dtype=torch.float64), functional.mse_loss
    start = {name: x.copy() for name, x in numbered(model).items()}
    names = list(start)
    network = graph.in_accrue()
    if not graph.is_chain:  # whose names are its own, in the order of the calls
        own = accrue.info(network)["tensors"]
        assert [list(x) for x in own.values()] == [list(x.shape) for x in start.values()]
        names = list(own)
    init = accrue.Weights(dict(zip(names, start.values())))
    has_batch_norm = any(name.endswith("running_mean") for name in names)
    answers = accrue.Trainer(network, (x.numpy(), y.numpy()), init=init, precision="fp64",
                             effective_batch=SAMPLES).predict(x.numpy())
    with torch.no_grad():
        found = {"answers": relative(answers, model.eval()(x).numpy())}
    assert found["answers"] <= ANSWERS, found
    loss = loss_of(model.train()(x), y)
    loss.backward()
    gradient = {name: p.grad.numpy() for name, p in model.named_parameters()}
    mine_of = dict(zip(start, names))
    most = max(np.abs(g).max() for g in gradient.values())

    def train(micro_batch, threads=1, **more):
        window = {"batch_norm": "window"} if has_batch_norm else {}
        result = accrue.train(network, (x.numpy(), y.numpy()), init=init, precision="fp64",
                              micro_batch=micro_batch, effective_batch=SAMPLES, threads=threads,
                              no_shuffle=True, optimizer="sgd", lr=RATE, steps=1, **window, **more)
        assert result.memory["this run"] == result.memory["predicted"], "memory"
        assert math.isclose(result.losses[0], loss.item(), rel_tol=1e-12), "loss"
        return result.weights

    found["gradient"] = 0.0
    for micro_batch in range(1, SAMPLES + 1):
        recompute = rng.choice(["none", "sqrt", "all"])
        weights = train(micro_batch, recompute=recompute)
        for name, g in gradient.items():
            mine = (start[name] - weights[mine_of[name]]) / RATE
            found["gradient"] = max(found["gradient"], float(np.abs(mine - g).max() / most))
        assert found["gradient"] <= GRADIENTS, (micro_batch, recompute, found)
    alone = train(4)
    for threads in (2, 3):
        several = train(4, threads)
        assert all(np.array_equal(alone[name], several[name]) for name in names), "threads"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    worst, wrong = {}, 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            for name, value in compare(seed).items():
                worst[name] = max(worst.get(name, 0.0), value)
        except Exception as error:  # whatever it is, of this network
            wrong += 1
            print(f"seed {seed}: {type(error).__name__}: {error}\n{draw(seed)}\n", flush=True)
    print(f"{options.count} networks, {wrong} wrong; the largest differences:",
          ", ".join(f"{name} {value:.1e}" for name, value in worst.items()))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
