"""Random networks of accrue's Python layers, and the same in PyTorch, both in float64.

    PYTHONPATH=scripts python3 python/tests/judges/random_graphs.py [--count 200] [--seed 1]

Each network has answers within 1e-12 of PyTorch's; a window's gradient within 1e-10 of its largest
element, whole and in every split; the same bits on 1, 2 and 3 threads; and the memory that was
predicted, to the byte. About half have several outputs, with losses that count differently, or
several inputs. onnxruntime answers alike in float32, where accrue exports files. Prints
each network that differs, with the seed that draws it."""

import argparse
import dataclasses
import math
import os
import random
import sys
import tempfile
import typing

import accrue
import numpy as np
import torch
from reference_models import BasicBlock
from torch import nn
from torch.nn import functional

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

SAMPLES = 6
ANSWERS, GRADIENTS, IN_FLOAT32 = 1e-12, 1e-10, 1e-4
# A step of SGD with this rate is almost all gradient, so that little of it is lost in the weights.
RATE = 2.0**10


@dataclasses.dataclass
class Node:
    """A call on values, by numbers: first the inputs, then the results of the nodes."""
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


# Functions of one value and of two. A sample of a value has any rank, and the dimension of samples
# stays the first.


def dims_of(rng, shape):
    return tuple(sorted(rng.sample(range(1, len(shape) + 1), rng.randint(1, len(shape)))))


def without(shape, dims, keeps):
    kept = [1 if i in dims else size for i, size in enumerate(shape, 1)]
    return tuple(size for i, size in enumerate(kept, 1) if keeps or i not in dims)


def reduced(rng, shape):
    dims, keeps = dims_of(rng, shape), len(shape) == 1 or rng.random() < 0.5
    kept = without(shape, dims, keeps)
    return ((dims, keeps), kept) if kept else ((dims, True), without(shape, dims, True))


def permuted(rng, shape):
    dims = rng.sample(range(1, len(shape) + 1), len(shape))
    return ((0, *dims),), tuple(shape[i - 1] for i in dims)


def transposed(rng, shape):
    i, j = rng.randint(1, len(shape)), rng.randint(1, len(shape))
    sizes = list(shape)
    sizes[i - 1], sizes[j - 1] = sizes[j - 1], sizes[i - 1]
    return (i, j), tuple(sizes)


def narrowed(rng, shape):
    dim = rng.randint(1, len(shape))
    begin = rng.randrange(shape[dim - 1])
    length = rng.randint(1, shape[dim - 1] - begin)
    return (dim, begin, length), (*shape[:dim - 1], length, *shape[dim:])


def padded(rng, shape):
    before, after = rng.randint(0, 2), rng.randint(0, 2)
    return ((before, after),), (*shape[:-1], shape[-1] + before + after)


def along_one(rng, shape):
    return (rng.randint(1, len(shape)),), shape


def rolled(rng, shape):
    return (rng.randint(-2, 2), rng.randint(1, len(shape))), shape


def flipped(rng, shape):
    return (dims_of(rng, shape),), shape


def as_it_is(rng, shape):
    return (), shape


# Functions with PyTorch's names and arguments: each draws arguments and the shape that they make of
# a sample's.
FUNCTIONS = {name: draw for names, draw in (
    ("relu gelu sigmoid tanh silu exp sin cos softplus abs erf square", as_it_is),
    ("softmax log_softmax cumsum", along_one), ("sum mean amax", reduced), ("permute", permuted),
    ("transpose", transposed), ("narrow", narrowed), ("pad", padded), ("roll", rolled),
    ("flip", flipped)) for name in names.split()}


def narrow(x, dim, begin, length):
    return accrue.slice(x, dim, begin, begin + length)


def in_accrue(name):
    return narrow if name == "narrow" else getattr(accrue, name)


def in_torch(name):
    return getattr(torch, name, None) or getattr(functional, name)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *values):
        return self.function(*values)


def draw_function(rng, value, shape):
    name = rng.choice(list(FUNCTIONS))
    arguments, result = FUNCTIONS[name](rng, shape)
    mine = in_accrue(name)
    return Node(f"{name}{arguments}", lambda x: mine(x, *arguments),
                Function(lambda x: in_torch(name)(x, *arguments)), (value,), result)


PAIRS = {"+": lambda a, b: a + b, "*": lambda a, b: a * b, "-": lambda a, b: a - b}


def fit(a, b):
    return len(a) == len(b) and all(x == y or 1 in (x, y) for x, y in zip(a, b))


def draw_pair(rng, shapes):
    """Arithmetic of two values, a product of matrices, or several beside each other."""
    found = [(i, j) for i in range(len(shapes)) for j in range(i) if fit(shapes[i], shapes[j])]
    products = [(i, j) for i in range(len(shapes)) for j in range(len(shapes))
                if len(shapes[i]) == len(shapes[j]) > 1 and
                shapes[i][:-2] == shapes[j][:-2] and shapes[i][-1] == shapes[j][-2]]
    if products and rng.random() < 0.3:
        i, j = rng.choice(products)
        return Node("@", lambda a, b: a @ b, Function(torch.matmul), (i, j),
                    (*shapes[i][:-1], shapes[j][-1]))
    if not found:
        return None
    i, j = rng.choice(found)
    if shapes[i] == shapes[j] and rng.random() < 0.3:
        dim = rng.randint(1, len(shapes[i]))
        shape = (*shapes[i][:dim - 1], 2 * shapes[i][dim - 1], *shapes[i][dim:])
        return Node(f"cat {dim}", lambda a, b: accrue.cat([a, b], dim),
                    Function(lambda a, b: torch.cat([a, b], dim)), (i, j), shape)
    sign = rng.choice(list(PAIRS))
    return Node(sign, PAIRS[sign], Function(PAIRS[sign]), (i, j),
                tuple(map(max, zip(shapes[i], shapes[j]))))


def layer(value, name, arguments, options, shape):
    words = [*map(str, arguments), *(f"{key}={x!r}" for key, x in options.items())]
    return Node(f"{name}({', '.join(words)})", getattr(accrue, name)(*arguments, **options),
                IN_TORCH.get(name, getattr(nn, name, None))(*arguments, **options), (value,), shape)


def draw_node(rng, shapes):
    """On one of the last values, or on two."""
    node = draw_pair(rng, shapes) if rng.random() < 0.3 else None
    value = len(shapes) - 1
    if rng.random() < 0.3:
        value = rng.randrange(len(shapes))
    while not node or np.prod(node.shape) > 1500:
        if len(shapes[value]) not in (1, 3) or rng.random() < 0.3:
            node = draw_function(rng, value, shapes[value])
            continue
        found = rng.choices(list(LAYERS), LAYERS.values())[0](rng, shapes[value])
        node = layer(value, *found) if found else None
    return node


@dataclasses.dataclass
class Output:
    """A value that a network answers with, and the loss that it is learned by, if any."""
    value: int
    classes: int
    kind: typing.Optional[str] = None
    factor: float = 1.0
    class_weights: typing.Optional[list] = None
    ignores: bool = False  # some labels are -100
    counts: bool = False  # samples by weights of their own


@dataclasses.dataclass
class Graph:
    shapes: list  # of the inputs
    nodes: list
    outputs: list

    def __str__(self):
        lines = [f"{i}: {list(shape)}" for i, shape in enumerate(self.shapes)]
        lines += [f"{i}: {node.text} of {', '.join(map(str, node.inputs))}, {list(node.shape)}"
                  for i, node in enumerate(self.nodes, len(self.shapes))]
        return "\n".join(lines + [str(output) for output in self.outputs])

    @property
    def is_plain(self):
        return len(self.shapes) == len(self.outputs) == 1

    @property
    def is_chain(self):
        return self.is_plain and all(
            node.inputs == (i,) and isinstance(node.accrue, accrue.Layer)
            for i, node in enumerate(self.nodes))

    def in_accrue(self):
        if self.is_chain:
            return accrue.Sequential([node.accrue for node in self.nodes])
        inputs = [accrue.input(*shape) for shape in self.shapes]
        values = list(inputs)
        for number, node in enumerate(self.nodes):
            name = {"name": f"calls.{number}"} if isinstance(node.accrue, accrue.Layer) else {}
            values.append(node.accrue(*(values[i] for i in node.inputs), **name))
        outputs = [values[output.value] for output in self.outputs]
        if self.is_plain:
            return accrue.Network(inputs[0], outputs[0])
        return accrue.Network(dict(zip(INPUTS, inputs)), dict(zip(OUTPUTS, outputs)))

    def in_torch(self):
        modules = [node.torch for node in self.nodes]
        return (nn.Sequential(*modules) if self.is_chain else Calls(self)).double()


INPUTS, OUTPUTS = ("left", "right"), ("first", "second", "third", "fourth")


class Calls(nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.calls = nn.ModuleList(node.torch for node in graph.nodes)
        self.inputs = [node.inputs for node in graph.nodes]
        self.outputs = [output.value for output in graph.outputs]

    def forward(self, *x):
        values = list(x)
        for call, inputs in zip(self.calls, self.inputs):
            values.append(call(*(values[i] for i in inputs)))
        found = [values[i] for i in self.outputs]
        return found if len(found) > 1 else found[0]


def needed(graph):
    """Without the calls whose results are not used."""
    first = len(graph.shapes)
    used = {output.value for output in graph.outputs}
    for i in range(first + len(graph.nodes) - 1, first - 1, -1):
        used |= set(graph.nodes[i - first].inputs) if i in used else set()
    numbers = {i: i for i in range(first)}
    numbers |= {i: n for n, i in enumerate(sorted(used - set(numbers)), first)}
    nodes = [dataclasses.replace(node, inputs=tuple(numbers[i] for i in node.inputs))
             for i, node in enumerate(graph.nodes, first) if i in used]
    outputs = [dataclasses.replace(output, value=numbers[output.value])
               for output in graph.outputs]
    return Graph(graph.shapes, nodes, outputs)


def draw_loss(rng, output):
    output.kind = rng.choice(["cross_entropy", "mse", "smooth_l1", "l1"])
    output.factor = rng.choice([1.0, 0.3, 2.0])
    if output.kind == "cross_entropy":
        output.ignores = rng.random() < 0.4
        if rng.random() < 0.4:
            output.class_weights = [rng.choice([0.5, 1.0, 3.0]) for _ in range(output.classes)]
    output.counts = rng.random() < 0.3


def draw(seed):
    rng, more = random.Random(seed), random.Random(f"{seed} outputs")
    shape = (rng.randint(1, 4), rng.randint(4, 9), rng.randint(5, 9))
    if rng.random() < 0.3:
        shape = (rng.randint(3, 12),)
    shapes = [shape]
    has_several = more.random() < 0.5
    if has_several and more.random() < 0.5:
        shapes.append(more.choice([shape, (*shape[:-1], 1) if len(shape) > 1 else shape]))
    nodes, outputs, classes = [], [], rng.randint(2, 4)
    for _ in range(rng.randint(2, 9)):
        nodes.append(draw_node(rng, [*shapes, *(node.shape for node in nodes)]))

    def append(value, *call):
        nodes.append(layer(value, *call))
        return len(shapes) + len(nodes) - 1

    def answer(value, classes):
        last = [*shapes, *(node.shape for node in nodes)][value]
        if len(last) > 1:
            value = append(value, "Flatten", (), {}, (int(np.prod(last)),))
        value = append(value, "Linear", (int(np.prod(last)), classes), {}, (classes,))
        outputs.append(Output(value, classes))

    drawn = len(shapes) + len(nodes)
    answer(drawn - 1, classes)
    if has_several:
        for _ in range(more.randint(1 if len(shapes) == 1 else 0, 3)):
            answer(more.randrange(len(shapes), drawn), more.randint(2, 4))
        for output in outputs:
            draw_loss(more, output)
        if len(outputs) > 1 and more.random() < 0.3:
            more.choice(outputs).kind = None
        more.shuffle(outputs)
    return needed(Graph(shapes, nodes, outputs))


# The comparison.


def numbered(model):
    return {name: x.detach().numpy() for name, x in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def relative(mine, truth):
    return float(np.abs(mine - truth).max() / max(np.abs(truth).max(), 1e-300))


def answers_of_file(weights, network, question):
    """onnxruntime's answers by name; None without it, or for a call that such files do not know."""
    if onnxruntime is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "network.onnx")
        try:
            accrue.export(weights, path, network)
        except accrue.Error as error:
            assert "ONNX" in str(error), error
            return None
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        if not isinstance(question, dict):
            question = dict(zip(names, [question], strict=True))
        answers = session.run(None, {name: question[name].astype(np.float32) for name in names})
        return dict(zip([each.name for each in session.get_outputs()], answers, strict=True))


def loss_in_torch(output, answer, y, counts):
    """The loss of one output: a mean over what it counts, as accrue.loss says."""
    mean = counts / counts.sum()
    if output.kind == "cross_entropy":
        weights = output.class_weights and torch.tensor(output.class_weights, dtype=torch.float64)
        own = functional.cross_entropy(answer, y, weight=weights, reduction="none")
        each = weights[y.clamp(min=0)] if weights is not None else torch.ones(len(y)).double()
        each = each * (y >= 0) * counts
        total = each.sum()
        return (own * counts).sum() / (total if total > 0 else 1.0)
    losses = {"mse": functional.mse_loss, "l1": functional.l1_loss,
              "smooth_l1": functional.smooth_l1_loss}
    return (losses[output.kind](answer, y, reduction="none").mean(1) * mean).sum()


@dataclasses.dataclass
class Task:
    """The work of a network: its data in accrue, its options, and its loss in PyTorch."""
    data: typing.Any
    question: typing.Any
    options: dict
    loss: typing.Callable  # of the answers


def plain_task(rng, graph, x):
    classes = graph.outputs[0].classes
    if rng.random() < 0.5:
        y, loss_of = torch.arange(SAMPLES) % classes, functional.cross_entropy
    else:
        y, loss_of = torch.randn(SAMPLES, classes, dtype=torch.float64), functional.mse_loss
    return Task((x[0].numpy(), y.numpy()), x[0].numpy(), {}, lambda answer: loss_of(answer, y))


def task_of_several(rng, graph, x):
    question = {name: each.numpy() for name, each in zip(INPUTS, x)}
    data, losses, counted, parts = dict(question), {}, {}, []
    for number, (name, output) in enumerate(zip(OUTPUTS, graph.outputs)):
        if output.kind is None:
            continue
        counts = torch.ones(SAMPLES, dtype=torch.float64)
        if output.counts:
            counts = torch.tensor([rng.choice([0.5, 1.0, 3.0]) for _ in range(SAMPLES)]).double()
            counted[name] = counts.numpy()
        if output.kind == "cross_entropy":
            y = (torch.arange(SAMPLES) * 5 + number) % output.classes
            if output.ignores:
                y[rng.sample(range(SAMPLES), 2)] = -100
            y[y.argmax()] = output.classes - 1  # so that data knows all classes
        else:
            y = torch.randn(SAMPLES, output.classes, dtype=torch.float64)
        data[name] = y.numpy()
        losses[name] = accrue.loss(output.kind, weight=output.factor,
                                   class_weights=output.class_weights)
        parts.append((number, output, y, counts))

    def loss_of(answers):
        answers = answers if isinstance(answers, list) else [answers]
        return sum(output.factor * loss_in_torch(output, answers[number], y, counts)
                   for number, output, y, counts in parts)

    options = {"loss": losses, **({"sample_weight": counted} if counted else {})}
    return Task(data, question, options, loss_of)


def compare(seed):
    """The differences from PyTorch's, of the largest. Raises AssertionError beyond bounds."""
    graph = draw(seed)
    rng = random.Random(f"{seed} values")
    torch.manual_seed(seed)
    model = graph.in_torch()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64) * rng.choice([0.2, 0.5]) +
                    (p.dim() == 1) * 0.3)
    x = [torch.randn(SAMPLES, *shape, dtype=torch.float64) for shape in graph.shapes]
    task = (plain_task if graph.is_plain else task_of_several)(rng, graph, x)
    start = {name: x.copy() for name, x in numbered(model).items()}
    names = list(start)
    network = graph.in_accrue()
    init = accrue.Weights(start)
    has_batch_norm = any(name.endswith("running_mean") for name in names)
    window = {"batch_norm": "window"} if has_batch_norm else {}
    trainer = accrue.Trainer(network, task.data, init=init, precision="fp64", micro_batch=4,
                             effective_batch=SAMPLES, **task.options, **window)
    answers = trainer.predict(task.question)
    found = {"answers": 0.0}
    with torch.no_grad():
        truth = model.eval()(*x)
    if not graph.is_plain:
        assert list(answers) == list(OUTPUTS[:len(graph.outputs)]), list(answers)
    for mine, true in zip([answers] if graph.is_plain else answers.values(),
                          truth if isinstance(truth, list) else [truth]):
        found["answers"] = max(found["answers"], relative(mine, true.numpy()))
    assert found["answers"] <= ANSWERS, found
    exported = answers_of_file(trainer.weights, network, task.question)
    if exported is not None:
        named = dict(zip(exported, [answers])) if graph.is_plain else answers
        assert list(exported) == list(named), list(exported)
        found["onnxruntime"] = max(relative(exported[name], named[name]) for name in named)
        assert found["onnxruntime"] <= IN_FLOAT32, found
    loss = task.loss(model.train()(*x))
    loss.backward()
    gradient = {name: (torch.zeros_like(p) if p.grad is None else p.grad).numpy()
                for name, p in model.named_parameters()}
    most = max(np.abs(g).max() for g in gradient.values())

    def train(micro_batch, threads=1, **more):
        result = accrue.train(network, task.data, init=init, precision="fp64",
                              micro_batch=micro_batch, effective_batch=SAMPLES, threads=threads,
                              no_shuffle=True, optimizer="sgd", lr=RATE, steps=1, **task.options,
                              **window, **more)
        assert result.memory["this run"] == result.memory["predicted"], "memory"
        assert math.isclose(result.losses[0], loss.item(), rel_tol=1e-12), "loss"
        return result.weights

    found["gradient"] = 0.0
    for micro_batch in range(1, SAMPLES + 1):
        recompute = rng.choice(["none", "sqrt", "all"])
        weights = train(micro_batch, recompute=recompute)
        for name, g in gradient.items():
            mine = (start[name] - weights[name]) / RATE
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
