"""The golden file zi2zi.safetensors.

Generator G and discriminator D of reference_zi2zi.py are trained for 10 windows of 8 samples, each
as ONE batch, in float64, without dropout, with Adam (betas 0.5 and 0.999, eps 1e-8; learning rate
1e-3 for G, 2e-4 for D). In the order alternating, D's gradient over the window is taken and D
steps, then G's gradient is taken against the new D on the same samples. In the order simultaneous,
both gradients are taken at the old weights, then both step. lambda_adv follows from D's loss over a
whole window: this window for alternating, the window before for simultaneous (0.25 in the first
window). Spectral norm's power iteration, u and v of each layer in turn (v from u, then u from v),
runs only at the beginning of each window: G sees the stepped weights through the same u and v.

CONFIGURATIONS has the configurations; the file's metadata has each again, as JSON under its name.
Batch norm couples the samples of a batch, so only windows of one batch of 8 can agree with it. Its
running statistics move with every forward: G's also when D is trained, and D's also when G is
trained.

A head scale of 48 starts D with losses around 5, where lambda_adv changes: a program that takes it
from a micro-batch, or from the wrong window, differs.

Initial values and samples are not in the file: they come from streams of numbers, each with a name,
that are the same to the last bit in every language. The stream called NAME is SplitMix64, seeded
with the FNV-1a hash of the bytes of NAME; all integers are unsigned, of 64 bits, and wrap around:

    seed = 14695981039346656037;  for each byte b of NAME: seed = (seed ^ b) * 1099511628211
    z = seed + (k + 1) * 0x9E3779B97F4A7C15                         for number k = 0, 1, ...
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    h(NAME, k) = (z ^ (z >> 31)) >> 32                              32 bits
    x(NAME, k) = h(NAME, k) / 2^31 - 1                              a double in [-1, 1), exact

For example h("source", 0) = 466069496, h("source", 1) = 819162217 and h("style", 0) = 1185381562.
k counts the elements of a tensor row-major. P.W below is parameter W of player P, as in
G.encoder.0.conv.weight, D.conv.0.bias, D.binary.weight; names, shapes and the order of elements are
PyTorch's (a transposed convolution's weight is [inputs, outputs, 4, 4]). All configurations share
the streams.

    a parameter of two or more dimensions  x("P.W", k) * scale, scale = 1 / sqrt(n), both rounded to
                                           double, with n the elements of W[0], so numel / shape[0];
                                           then, of D.binary.weight and D.category.weight, times
                                           the configuration's head scale
    G.encoder.I.attention.gamma            0.5
    the weight of a batch norm             1 + x("P.W", k) * 0.1
    any other parameter of one dimension   x("P.W", k) * 0.1
    u of D's layer L (conv.0 ... category) x("D.L.u", k), k < outputs, divided by its norm
    source, target [80, 1, size, size]     x("source", k) and x("target", k)
    style of sample i < 80                 h("style", i) modulo styles

Window w has the samples 8 w to 8 w + 7. The file holds for each configuration C, all F64,

    C.D.loss, C.G.loss                        [10]  the losses in each window, before its step
    C.D.real, fake, category_real, category_fake    [10]  the parts of the losses, means over the
    C.G.adversarial, l1, constancy, category        [10]      samples, without their weights
    C.lambda_adv                              [10]  the weight of G's adversarial part
    C.D.norm, C.G.norm                        [10]  the norms of the gradients
    C.gradient.P.W                            the gradient in the first window
    C.final.P.W                               the value after the last window
    C.final.D.L.u                             the vector u after the last window, if spectral
    C.final.P.N.running_mean, running_var     the statistics of batch norm N after the last window

where a tensor of more than 64 elements is stored as a summary, a tensor [5]: four projections

    y[j] = sum_k x("projection.J", k) * value[k] / sqrt(numel),  J = j = 0 ... 3

and the largest magnitude. Compare a difference of any of the five with this magnitude. A tensor of
at most 64 elements is stored whole, so a parameter of shape [5] is no summary.

Some gradients are zero except for rounding, because a later layer undoes the parameter: a bias
before an instance norm (not before pixel-shuffle, where one norm spans four biases), and the key's
bias in an attention. The metadata names these parameters under "vanishing" (JSON, a list of P.W for
each configuration): compare them with the largest element of the player's whole gradient. Adam
turns such a gradient's rounding into steps of about rounding / eps * learning rate, which changes
no other value.

A check also compares windows cut into micro-batches, each weighted by its share, with one big
batch.
"""

import functools
import json
import math

import torch

import golden_files
import reference_zi2zi as zi2zi

WINDOWS, SAMPLES = 10, 8
LEARNING_RATES = {"G": 1e-3, "D": 2e-4}
BETAS, EPSILON = (0.5, 0.999), 1e-8
MOST_WHOLE, PROJECTIONS = 64, 4
KEYS = ("size", "styles", "order", "up", "skip", "attention", "spectral", "constancy", "head_scale",
        "norm")
CONFIGURATIONS = {name: dict(zip(KEYS, values)) for name, *values in (
    ("32.alternating", 32, 2, "alternating", "pixel-shuffle", "add", False, False, "port", 48,
     "instance"),
    ("32.simultaneous", 32, 5, "simultaneous", "transposed", "concat", True, True, "tf", 1,
     "instance"),
    ("64.alternating", 64, 3, "alternating", "pixel-shuffle", "add", True, True, "port", 1,
     "instance"),
    ("64.simultaneous", 64, 1, "simultaneous", "pixel-shuffle", "add", False, False, "port", 48,
     "instance"),
    ("32.batch", 32, 2, "alternating", "transposed", "add", False, False, "port", 1, "batch"))}
COMMON = {"channels": 1, "ngf": 4, "ndf": 4, "embedding": 8}
MASK = 2**64 - 1


def hashes(name, count):
    seed = 14695981039346656037
    for byte in name.encode():
        seed = (seed ^ byte) * 1099511628211 & MASK
    for k in range(count):
        z = seed + (k + 1) * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        yield (z ^ (z >> 31)) >> 32


@functools.lru_cache(maxsize=None)
def stream(name, *shape):
    values = [h / 2**31 - 1 for h in hashes(name, torch.Size(shape).numel())]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


class Players(zi2zi.Players):
    """G and D with their initial values; they record the figures of each window."""

    def __init__(self, configuration):
        c = configuration
        both = {"channels": COMMON["channels"], "norm": c["norm"]}
        g = zi2zi.Generator(c["size"], c["styles"], ngf=COMMON["ngf"], dropout=0,
                            embedding=COMMON["embedding"], up=c["up"], skip=c["skip"],
                            attention=c["attention"], **both)
        d = zi2zi.Discriminator(c["size"], c["styles"], ndf=COMMON["ndf"], spectral=c["spectral"],
                                **both)
        super().__init__(g.double(), d.double(), lambda name, net: torch.optim.Adam(
            net.parameters(), LEARNING_RATES[name], BETAS, EPSILON), c["order"], c["constancy"])
        self.first_gradient = {}
        self.initialize(c["head_scale"])

    @torch.no_grad()
    def initialize(self, head_scale):
        for name, p in self.parameters().items():
            if p.dim() > 1:
                head = name in ("D.binary.weight", "D.category.weight")
                scale = 1 / math.sqrt(p.numel() // p.shape[0])
                p.copy_(stream(name, *p.shape) * scale * (head_scale if head else 1))
            else:
                p.copy_(stream(name, *p.shape) * 0.1)
                if name.endswith("weight"):  # a norm's weight
                    p.add_(1)
                if name.endswith("gamma"):
                    p.fill_(0.5)
        for name, (u, _) in self.d.vectors.items():
            u = stream(f"D.{name}.u", len(u))
            self.d.vectors[name] = u / u.norm(), None

    def step(self, name):
        gradient = {f"{name}.{key}": p.grad for key, p in self.nets[name].named_parameters()}
        self.seen[f"{name}.norm"] = golden_files.flat(gradient.values()).norm()
        for key, each in gradient.items():
            self.first_gradient.setdefault(key, each)
        if name == "G":
            self.seen["lambda_adv"] = torch.tensor(self.lambda_adv, dtype=torch.float64)
        super().step(name)

    def parameters(self):
        return {f"{player}.{name}": p for player, net in self.nets.items()
                for name, p in net.named_parameters()}

    def running(self):
        """The running statistics of batch norms."""
        return {f"{player}.{name}": buffer for player, net in self.nets.items()
                for name, buffer in net.named_buffers()
                if name.endswith(("running_mean", "running_var"))}

    def vanishing(self):
        """Names of parameters that a later layer undoes."""
        pairs = [(f"G.encoder.{i}.conv", level.norm) for i, level in enumerate(self.g.encoder)]
        pairs += [(f"G.decoder.{i}.conv", level.norm) for i, level in enumerate(self.g.decoder)
                  if not isinstance(level.shuffle, torch.nn.PixelShuffle)]
        pairs += [(f"D.conv.{i}", norm) for i, norm in enumerate(self.d.norm)]
        undone = [f"{conv}.bias" for conv, norm in pairs
                  if isinstance(norm, torch.nn.InstanceNorm2d)]
        return undone + [name for name in self.parameters() if name.endswith("attention.key.bias")]


def samples_of(configuration):
    count, size = WINDOWS * SAMPLES, configuration["size"]
    style = torch.tensor([h % configuration["styles"] for h in hashes("style", count)])
    return [*(stream(name, count, 1, size, size) for name in ("source", "target")), style]


def train(configuration, sizes):
    """The file's tensors for a configuration, all whole, with windows cut into these sizes."""
    players, samples, windows = Players(configuration), samples_of(configuration), []
    keys = [f"{player}.{key}" for player, parts in players.PARTS.items()
            for key in ("loss", *parts, "norm")] + ["lambda_adv"]
    for w in range(WINDOWS):
        window = [each[w * SAMPLES:(w + 1) * SAMPLES].split(sizes) for each in samples]
        micro_batches = [(*each, len(each[0]) / SAMPLES) for each in zip(*window)]
        players.window(lambda: micro_batches)
        windows.append(players.seen)
    tensors = {key: torch.stack([each[key] for each in windows]) for key in keys}
    tensors.update({f"gradient.{name}": players.first_gradient[name]
                    for name in players.parameters()})
    tensors.update({f"final.{name}": p.detach() for name, p in players.parameters().items()})
    tensors.update({f"final.D.{name}.u": u for name, (u, _) in players.d.vectors.items()})
    tensors.update({f"final.{name}": buffer for name, buffer in players.running().items()})
    return tensors


def summary(tensor, directions):
    if tensor.numel() <= MOST_WHOLE:
        return tensor
    flat = tensor.flatten()
    projections = directions[:, :len(flat)] @ flat / len(flat) ** 0.5
    return torch.cat([projections, flat.abs().max()[None]])


def make():
    zi2zi.check_parameter_counts()
    trained = {name: train(configuration, SAMPLES)
               for name, configuration in CONFIGURATIONS.items()}
    longest = max(tensor.numel() for tensors in trained.values() for tensor in tensors.values())
    directions = torch.stack([stream(f"projection.{j}", longest) for j in range(PROJECTIONS)])
    return {f"{name}.{key}": summary(tensor, directions)
            for name, tensors in trained.items() for key, tensor in tensors.items()}


def vanishing_names():
    return {name: Players(configuration).vanishing()
            for name, configuration in CONFIGURATIONS.items()}


def relative_error(actual, truth):
    """The largest difference, relative to the one that LIMITS allow."""
    vanishing, worst = vanishing_names(), torch.zeros((), dtype=torch.float64)
    for key, value in truth.items():
        case = ".".join(key.split(".")[:2])
        kind, _, name = key[len(case) + 1:].partition(".")
        scale, kind = value.abs().max(), kind if kind in ("gradient", "final") else "window"
        if kind != "window" and name in vanishing[case]:
            if kind == "gradient":
                scale = max(each.abs().max() for of, each in truth.items()
                            if of.startswith(f"{case}.gradient.{name[0]}."))
            kind = f"vanishing {kind}"
        worst = torch.maximum(worst, (actual[key] - value).abs().max() / scale / LIMITS[kind])
    return worst.item()


# About ten times the differences between two versions of PyTorch, or between the splits.
LIMITS = {"window": 1e-12, "gradient": 1e-12, "final": 1e-11, "vanishing gradient": 1e-14,
          "vanishing final": 1e-6}
TOLERANCE = 1


def prepare():
    """The file's metadata."""
    configurations = {name: json.dumps({**configuration, **COMMON})
                      for name, configuration in CONFIGURATIONS.items()}
    return {"vanishing": json.dumps(vanishing_names()), **configurations}
