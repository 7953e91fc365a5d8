"""The golden files random.{json,safetensors}: one window of 200 random configurations.

A configuration has a small net: layers in sequence on images of any height and width, a ResNet or a
U-Net. It also has a split into micro-batches, a loss, a precision, a strategy, a recompute mode, an
optimizer and perhaps a largest norm. The last micro-batch may be short, and so may the window. A
generator that tests/layers/golden_random.cpp repeats draws weights, inputs and targets, as integers
of 8 bits times powers of two, which float16 and bfloat16 hold too. PyTorch computes everything in
float64. The JSON file holds the configurations with loss and gradient norm. The other file holds
for number i (F32, for precision f64 F64; each one tensor, parameter after parameter)

    i.gradient    the optimizer's input: the mean over the samples, clipped
    i.weights     after the step; then, if there are any, the running statistics

The configuration tells how far a right result may be from these numbers. By docs/numerics.md, a
result z of an op may be off by depth * u * max |z| + h * |z|. Here u is the unit roundoff of the
type that sums are made in, depth is the length of the sum, and h is the unit roundoff of a 16-bit
type that stores the result. In norms larger terms cancel, so for them max |z| is the maximum of the
terms. The window is repeated with every result of a layer, forward and backward, moved up or down
at random by this amount (stochastic arithmetic). The bound of a tensor is FACTOR times the largest
change of any element in DRAWS such windows, and a few roundings. Roundings are no larger than these
moves, so a right program stays well within the bound, and a wrong factor or term exceeds it by far.
A configuration is drawn again if its bounds are wide, as they are for a net at a kink of relu.
"""

import collections
import json
import math
import random

import torch
from torch import nn
from torch.nn import functional

import golden_files
from golden_files import flat
from random_configurations import draw_configuration, make_model

CONFIGURATIONS, DRAWS, FACTOR = 200, 8, 4
JSON = golden_files.FOLDER / "random.json"
UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-24, "f16": 2.0**-24}
STORED = {"f64": 0, "f32": 0, "bf16": 2.0**-8, "f16": 2.0**-11}
# The widest bound, relative to the largest element of the whole gradient.
WIDEST = {"f64": 1e-10, "f32": 1e-3, "bf16": 0.25, "f16": 0.05}
NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm2d, nn.InstanceNorm2d)


class Generator:
    """Integers in [-128, 128): the upper bits of a linear congruential generator (Knuth's MMIX)."""

    def __init__(self, seed):
        self.state = seed

    def draw(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 56) - 128

    def tensor(self, shape):
        count = torch.Size(shape).numel()
        return torch.tensor([self.draw() for _ in range(count)]).double().reshape(shape)


def draw_values(configuration):
    """The model with its weights, inputs and targets."""
    model, generator = make_model(configuration["net"]), Generator(configuration["seed"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = generator.tensor(p.shape)
            if p.dim() > 1:
                p.copy_(values / 128 * 2.0**math.ceil(-math.log2(p[0].numel()) / 2))
            elif name.endswith("bias"):
                p.copy_(values / 256)
            else:  # a norm's weight, which is read in float32
                p.copy_(1 + values / 256)
    samples = sum(configuration["micro_batches"])
    x = generator.tensor([samples, *configuration["shape"]]) / 128
    with torch.no_grad():
        model.eval()
        shape = model(x[:1]).shape[1:]
        model.train()
    if configuration["loss"] == "cross_entropy":
        y = torch.tensor([(generator.draw() + 128) % shape[0] for _ in range(samples)])
    else:
        y = generator.tensor([samples, *shape]) / 128
        if configuration["loss"] == "bce":
            y = (y > 0).double()
    return model, x, y


# A window, exact or with its results moved.


class Rounding:
    """Moves results by as much as a program's may be off; without a generator not at all."""

    def __init__(self, precision, generator=None):
        self.unit, self.stored = UNIT[precision], STORED[precision]
        self.generator = generator

    def __call__(self, z, depth, terms=0.0):
        """Moves z, a sum of `depth` terms; `terms` is their magnitude if they cancel."""
        if self.generator is None:
            return z
        sign, size = 2 * torch.randint(2, z.shape, generator=self.generator) - 1, z.detach().abs()
        return z + sign * (depth * self.unit * max(largest(z), terms) + self.stored * size)


def runs_of(norm, x):
    """The runs that the norm normalizes, one in each row."""
    if isinstance(norm, nn.BatchNorm2d):
        x = x.transpose(0, 1)
    rows = {nn.GroupNorm: lambda: len(x) * norm.num_groups, nn.BatchNorm2d: lambda: len(x),
            nn.InstanceNorm2d: lambda: len(x) * x.shape[1], nn.LayerNorm: lambda: len(x)}
    return x.detach().reshape(rows[type(norm)](), -1)


def slope(layer, x):
    """The largest factor of a norm: gamma over the standard deviation. The norm's results, and
    above all its gradient, may be much smaller than their terms times this factor. 0 for other
    layers."""
    if not isinstance(layer, NORMS):
        return 0.0
    variance = runs_of(layer, x).var(1, unbiased=False).min().item()
    gamma = 1.0 if getattr(layer, "weight", None) is None else largest(layer.weight)
    return gamma / math.sqrt(variance + layer.eps)


def depths(layer, x, y):
    """The longest sums that a layer makes for an element of y, of dx and of dw."""
    if isinstance(layer, nn.Linear):
        return layer.in_features + 1, layer.out_features, len(x)
    if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
        taps = layer.kernel_size[0] * layer.kernel_size[1]
        return (layer.in_channels * taps + 1, layer.out_channels * taps,
                max(x.numel() // x.shape[1], y.numel() // y.shape[1]))
    if isinstance(layer, NORMS):
        run = runs_of(layer, x).shape[1]
        return run + 6, 2 * run + 6, x.numel() // x.shape[1]
    pooled = max(1, x.numel() // y.numel())
    return pooled + 4, max(pooled, y.numel() // x.numel()) + 4, 1


def watch(model, rounding):
    """Moves the results of every layer of the model."""
    def moved(layer, inputs, y):
        x, terms = inputs[0], []
        forward, backward, layer.terms = depths(layer, x, y)
        factor = slope(layer, x)
        if x.requires_grad:
            y.register_hook(lambda dy: terms.append(largest(dy) * factor))
            x.register_hook(lambda dx: rounding(dx, backward, terms[-1]))
        return rounding(y, forward, largest(x) * factor)

    for layer in model.modules():
        if not list(layer.children()):
            layer.register_forward_hook(moved)
            for p in layer.parameters():
                p.register_hook(lambda dp, layer=layer: rounding(dp, layer.terms))


def mean_loss(kind, answer, y):
    return {"cross_entropy": functional.cross_entropy, "mse": functional.mse_loss,
            "bce": functional.binary_cross_entropy_with_logits}[kind](answer, y)


def step(configuration, parameters, gradient):
    options = dict(configuration["optimizer"])
    kind = options.pop("kind")
    for p, g in zip(parameters, gradient):
        p.grad = g
    if kind == "sgd":
        optimizer = torch.optim.SGD(parameters, configuration["lr"], **options)
    else:
        options["betas"] = options.pop("beta1"), options.pop("beta2")
        optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](
            parameters, configuration["lr"], **options)
    optimizer.step()


def step_by_moments(configuration, parameters, shares):
    """AdamA (arXiv 2305.19982): squares each micro-batch's gradient, not their sum."""
    options, lr = configuration["optimizer"], configuration["lr"]
    beta1, beta2, decay = options["beta1"], options["beta2"], options["weight_decay"]
    for i, w in enumerate(parameters):
        m, v = torch.zeros_like(w), torch.zeros_like(w)
        for number, share in enumerate(shares):
            g = share[i] + (decay * w if number == 0 and options["kind"] == "adam" else 0)
            m, v = m + (1 - beta1) * g, v + (1 - beta2) * g * g
        if options["kind"] == "adamw":
            w.mul_(1 - lr * decay)
        w.sub_(lr * (m / (1 - beta1)) / ((v / (1 - beta2)).sqrt() + options["eps"]))


def run_window(configuration, generator=None):
    """Loss, gradient norm, the optimizer's input gradient, and the state after the step."""
    rounding = Rounding(configuration["precision"], generator)
    model, x, y = draw_values(configuration)
    watch(model, rounding)
    parameters, total, loss, begin, shares = list(model.parameters()), len(x), 0, 0, []
    for n in configuration["micro_batches"]:
        rows = slice(begin, begin + n)
        answer = model(x[rows])
        share = mean_loss(configuration["loss"], answer, y[rows]) * n / total
        shares.append(torch.autograd.grad(share, parameters))
        loss, begin = loss + share.item(), begin + n
    gradient = [sum(parts) for parts in zip(*shares)]
    norm = flat(gradient).norm().item()
    if configuration["clip_norm"]:
        gradient = [g * min(1, configuration["clip_norm"] / norm) for g in gradient]
    with torch.no_grad():
        if configuration["strategy"] == "moments":
            step_by_moments(configuration, parameters, shares)
        else:
            step(configuration, parameters, gradient)
    state = [p.detach() for p in parameters]
    state += [b for name, b in model.named_buffers() if "num_batches" not in name]
    return loss, norm, gradient, state


def largest(tensor):
    return tensor.abs().max().item()


def bound(truth, moved, roundings, unit):
    change = max(largest(other - truth) for other in moved)
    return FACTOR * change + roundings * unit * largest(truth)


def measure(configuration):
    """The window's results, and the configuration with its figures and bounds; None if a bound is
    wide."""
    precision, unit = configuration["precision"], UNIT[configuration["precision"]]
    truth = run_window(configuration)
    moved = [run_window(configuration, torch.Generator().manual_seed(draw))
             for draw in range(DRAWS)]
    loss, norm, gradient, state = truth
    # A loss adds its terms in the type of sums; a step takes some ten operations.
    loss_bound, norm_bound = (
        bound(torch.tensor(truth[i]), [torch.tensor(other[i]) for other in moved], 32, unit)
        for i in range(2))
    gradient_bounds, state_bounds = (
        [bound(tensor, [other[i][j] for other in moved], 16, unit)
         for j, tensor in enumerate(truth[i])] for i in (2, 3))
    wide = WIDEST[precision]
    scale = max(map(largest, gradient))
    if not (scale > 0 and max(gradient_bounds) <= wide * scale and norm_bound <= wide * norm and
            loss_bound <= wide * abs(loss)):
        return None
    def short(bounds):
        return [float(f"{each:.3g}") for each in bounds]

    return truth, {**configuration, "loss_is": [loss, loss_bound], "norm_is": [norm, norm_bound],
                   "gradient_bounds": short(gradient_bounds), "weight_bounds": short(state_bounds)}


def first_measured(configurations):
    """The result of measure() for the first configuration whose bounds are not wide."""
    for configuration in configurations:
        try:
            measured = measure(configuration)
        except ValueError:  # a norm over a single value
            continue
        if measured:
            return measured
    raise SystemExit("all bounds are wide")


def draw_configurations(name, number):
    return (draw_configuration(random.Random(f"{name} {attempt}"), number)
            for attempt in range(1000))


def prepare():
    """Draws the configurations of the JSON file."""
    configurations = [first_measured(draw_configurations(number, number))[1]
                      for number in range(CONFIGURATIONS)]
    lines = ",\n".join(map(json.dumps, configurations))
    JSON.write_text(f"[\n{lines}\n]\n")
    print(collections.Counter(f"{key} {configuration[key]}" for configuration in configurations
                              for key in ("precision", "strategy", "recompute", "loss")))
    return {}


def make():
    tensors = {}
    for number, configuration in enumerate(json.loads(JSON.read_text())):
        loss, norm, gradient, state = run_window(configuration)
        stored = torch.float64 if configuration["precision"] == "f64" else torch.float32
        tensors[f"{number}.gradient"] = flat(gradient).to(stored)
        tensors[f"{number}.weights"] = flat(state).to(stored)
        for name, value in (("loss_is", loss), ("norm_is", norm)):
            if abs(configuration[name][0] / value - 1) > 1e-10:
                raise SystemExit(f"{name} of {number} is {configuration[name][0]}, now {value}")
    return tensors


def relative_error(actual, truth):
    """The largest relative error beyond the error of another rounding to float32."""
    rounding = {torch.float64: 0.0, torch.float32: 2.0**-23}
    return max((golden_files.relative_error(actual, {key: value}) - rounding[value.dtype]
                for key, value in truth.items()), key=lambda error: (math.isnan(error), error))


TOLERANCE = 1e-10
