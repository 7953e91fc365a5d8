"""zi2zi's generator and discriminator in PyTorch, and their training, to judge accrue's by.

The code is plain and readable rather than fast; accrue's networks have the same layers with the
same names.
"""

import torch
from torch import nn
from torch.nn import functional

MOST_LEVELS = 8
L1_WEIGHT, CONSTANCY_WEIGHT, CATEGORY_WEIGHT = 97.0, 15.0, 1.0
FIRST_LAMBDA_ADV = 0.25
# Counts for 256 pixels, one channel, 40 styles, instance norm, and attention on.
GENERATOR_PARAMETERS, DISCRIMINATOR_PARAMETERS = 66_262_918, 4_359_786


def level_count(size):
    """How often size can be halved evenly while it is above 1, at most 8 times."""
    levels = 0
    while size > 1 and size % 2 == 0 and levels < MOST_LEVELS:
        size, levels = size // 2, levels + 1
    return levels


def make_norm(kind, channels):
    """Kind None gives the identity. Instance norms have no parameters and no running statistics."""
    kinds = {None: nn.Identity, "instance": nn.InstanceNorm2d, "batch": nn.BatchNorm2d}
    return kinds[kind](channels)


class Attention(nn.Module):
    """y = gamma * softmax(q k / sqrt(d_k)) v + x over the pixels of each sample."""

    def __init__(self, channels):
        super().__init__()
        narrow = max(1, channels // 8)
        self.query = nn.Conv2d(channels, narrow, 1)
        self.key = nn.Conv2d(channels, narrow, 1)
        self.value = nn.Conv2d(channels, channels, 1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        q, k, v = self.query(x).flatten(2), self.key(x).flatten(2), self.value(x).flatten(2)
        weights = torch.softmax(q.transpose(1, 2) @ k / q.shape[1] ** 0.5, dim=-1)  # [N, to, from]
        return self.gamma * (v @ weights.transpose(1, 2)).reshape(x.shape) + x


class Down(nn.Module):
    def __init__(self, inputs, outputs, norm, bias, attention):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 4, 2, padding=1, bias=bias)
        self.norm = make_norm(norm, outputs)
        self.attention = Attention(outputs) if attention else nn.Identity()

    def forward(self, x):
        return self.attention(self.norm(self.conv(x)))


class Up(nn.Module):
    def __init__(self, inputs, outputs, kind, norm, bias):
        super().__init__()
        if kind == "transposed":
            self.conv = nn.ConvTranspose2d(inputs, outputs, 4, 2, padding=1, bias=bias)
            self.shuffle = nn.Identity()
        else:
            self.conv = nn.Conv2d(inputs, 4 * outputs, 3, padding=1, bias=bias)
            self.shuffle = nn.PixelShuffle(2)
        self.norm = make_norm(norm, outputs)

    def forward(self, x):
        return self.norm(self.shuffle(self.conv(functional.relu(x))))


class Generator(nn.Module):
    def __init__(self, size, styles, channels=1, ngf=64, embedding=128, up="pixel-shuffle",
                 skip="add", norm="instance", attention=True, dropout=0.5):
        super().__init__()
        self.levels, self.skip, self.dropout = level_count(size), skip, dropout
        last, biased = self.levels - 1, norm == "instance"
        widths = [ngf * min(2**i, 8) for i in range(self.levels)]
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for i, outputs in enumerate(widths):
            self.encoder.append(Down(widths[i - 1] if i else channels, outputs,
                                     norm if 0 < i < last else None, biased,
                                     attention and i in (2, 3) and i < last))
        for i, width in enumerate(widths):
            inputs = width + embedding if i == last else width * (2 if skip == "concat" else 1)
            outputs = widths[i - 1] if i else channels
            self.decoder.append(Up(inputs, outputs, up, norm if i else None, biased or i == 0))
        self.style = nn.Embedding(styles, embedding)

    def encode(self, x):
        """The outputs e[i] of the encoder's levels, and their inputs s[i]."""
        e, s = [], [x]
        for level in self.encoder:
            e.append(level(s[-1]))
            s.append(functional.leaky_relu(e[-1], 0.2))
        return e, s

    def decode(self, e, s, style):
        code = self.style(style)[:, :, None, None].expand(-1, -1, *e[-1].shape[2:])
        d = torch.cat([e[-1], code], 1)
        for i in reversed(range(self.levels)):
            d = self.decoder[i](d)
            if 4 <= i <= self.levels - 2:
                d = functional.dropout(d, self.dropout, self.training)
            if i > 0:
                d = s[i] + d if self.skip == "add" else torch.cat([s[i], d], 1)
        return torch.tanh(d)

    def forward(self, x, style):
        return self.decode(*self.encode(x), style)

    def pick_features(self, e, kind):
        """The features in e, of encode(), that the constancy loss compares; kind is port or tf."""
        if kind == "tf" or self.levels <= 5:
            return e[-1]
        # Follows the port: for a 1 x 1 innermost level this is the pixel at (0, 0).
        fourth = functional.interpolate(functional.leaky_relu(e[4], 0.2), e[-1].shape[2:],
                                        mode="nearest")
        return torch.cat([e[-1], fourth], 1)

    def features(self, x, kind):
        return self.pick_features(self.encode(x)[0], kind)


class Discriminator(nn.Module):
    """(binary [N, 1], category [N, styles]) logits of a glyph beside its source.

    With spectral=True each layer computes with W / sigma, sigma = u^T W v for W as a matrix
    [outputs, the rest]; only start_step changes u and v, and the gradient takes them for constants.
    """

    def __init__(self, size, styles, channels=1, ndf=64, norm="instance", spectral=False):
        super().__init__()
        widths = [2 * channels, ndf, 2 * ndf, 4 * ndf, 8 * ndf, 1]
        self.conv, self.norm = nn.ModuleList(), nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            normed = 1 <= i <= 3
            self.conv.append(nn.Conv2d(inputs, outputs, 5, 2 if i < 3 else 1, padding=2,
                                       bias=norm == "instance" or not normed))
            self.norm.append(make_norm(norm if normed else None, outputs))
        self.binary = nn.Linear((size // 8) ** 2, 1)
        self.category = nn.Linear((size // 8) ** 2, styles)
        self.vectors = {}
        if spectral:
            for name, layer in self.layers().items():
                u = functional.normalize(torch.randn(layer.weight.shape[0]), dim=0)
                self.vectors[name] = (u, None)

    def layers(self):
        layers = {f"conv.{i}": conv for i, conv in enumerate(self.conv)}
        return {**layers, "binary": self.binary, "category": self.category}

    @torch.no_grad()
    def start_step(self):
        """One power iteration, due before the first forward of a step of the discriminator."""
        for name, (u, _) in self.vectors.items():
            w = self.layers()[name].weight.flatten(1)
            v = functional.normalize(w.t() @ u, dim=0, eps=1e-12)
            self.vectors[name] = functional.normalize(w @ v, dim=0, eps=1e-12), v

    def weight(self, name, layer):
        if name not in self.vectors:
            return layer.weight
        u, v = self.vectors[name]
        return layer.weight / (u @ (layer.weight.flatten(1) @ v))

    def forward(self, source, glyph):
        x = torch.cat([source, glyph], 1)
        for i, conv in enumerate(self.conv):
            x = self.norm[i](functional.conv2d(x, self.weight(f"conv.{i}", conv), conv.bias,
                                               conv.stride, conv.padding))
            if i < 4:
                x = functional.leaky_relu(x, 0.2)
        x = x.flatten(1)
        return tuple(functional.linear(x, self.weight(name, layer), layer.bias)
                     for name, layer in (("binary", self.binary), ("category", self.category)))


def bce(logits, is_real):
    return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, is_real))


def category(logits, style):
    target = functional.one_hot(style, logits.shape[1]).to(logits.dtype)
    return functional.binary_cross_entropy_with_logits(logits, target)


def lambda_adv_of(d_loss):
    """The weight of the adversarial part, from the discriminator's loss over a whole window."""
    if d_loss > 5:
        return 0.05
    for bound, weight in ((0.02, 0.20), (0.08, 0.35), (0.20, 0.50)):
        if d_loss < bound:
            return weight
    return 0.60


class Players:
    """Generator G and discriminator D, with an optimizer each; window() is one step of both."""

    PARTS = {"D": ("real", "fake", "category_real", "category_fake"),
             "G": ("adversarial", "l1", "constancy", "category")}

    def __init__(self, g, d, make_optimizer, order, constancy="port"):
        self.g, self.d, self.nets = g, d, {"G": g, "D": d}
        self.optimizers = {name: make_optimizer(name, net) for name, net in self.nets.items()}
        self.order, self.constancy = order, constancy
        self.lambda_adv = FIRST_LAMBDA_ADV
        self.seen = {}

    def differentiate(self, player, loss, parts, share):
        """Adds to the player's gradients, and adds the losses to `seen`."""
        (share * loss).backward()
        for key, value in {"loss": loss, **parts}.items():
            self.seen[f"{player}.{key}"] += share * value.detach()

    def differentiate_d(self, source, target, style, share, fake):
        """Differentiates one half of the loss after the other, to hold one graph at a time; no
        gradient reaches the generator."""
        self.d.requires_grad_(True)
        for name, glyph, is_real in (("real", target, 1.0), ("fake", fake.detach(), 0.0)):
            binary, styles = self.d(source, glyph)
            parts = {name: bce(binary, is_real), f"category_{name}": category(styles, style)}
            loss = 0.5 * (parts[name] + CATEGORY_WEIGHT * parts[f"category_{name}"])
            self.differentiate("D", loss, parts, share)

    def make_fake(self, source, style):
        """(e, fake): the encoder's outputs, which the constancy loss needs too, and the glyph."""
        e, s = self.g.encode(source)
        return e, self.g.decode(e, s, style)

    def differentiate_g(self, source, target, style, share, made=None):
        """`made` is the result of make_fake, or None to make it here."""
        self.d.requires_grad_(False)
        e, fake = made or self.make_fake(source, style)
        if self.constancy == "port":
            far = self.g.pick_features(e, "port") - self.g.features(target, "port")
            far = far.abs().mean()
        else:
            far = (self.g.pick_features(e, "tf") - self.g.features(fake, "tf")).square().mean()
        binary, styles = self.d(source, fake)
        parts = {"adversarial": bce(binary, 1.0), "l1": (fake - target).abs().mean(),
                 "constancy": far, "category": category(styles, style)}
        loss = self.lambda_adv * parts["adversarial"] + L1_WEIGHT * parts["l1"] + \
            CONSTANCY_WEIGHT * parts["constancy"] + CATEGORY_WEIGHT * parts["category"]
        self.differentiate("G", loss, parts, share)

    def step(self, name):
        self.optimizers[name].step()
        self.optimizers[name].zero_grad(set_to_none=True)

    def window(self, micro_batches, glyphs_made_once=False):
        """micro_batches() yields source, target, style and share of the window; alternating players
        call it twice, simultaneous players once. Afterwards `seen` has the mean losses."""
        self.seen = {f"{player}.{key}": 0 for player, parts in self.PARTS.items()
                     for key in ("loss", *parts)}
        self.d.start_step()
        if self.order == "alternating":
            self.alternating(micro_batches, glyphs_made_once)
        else:
            self.simultaneous(micro_batches)

    def alternating(self, micro_batches, glyphs_made_once):
        made = None
        for source, target, style, share in micro_batches():
            if glyphs_made_once:
                made = self.make_fake(source, style)
                fake = made[1]
            else:
                with torch.no_grad():
                    fake = self.g(source, style)
            self.differentiate_d(source, target, style, share, fake)
        self.step("D")
        self.lambda_adv = lambda_adv_of(self.seen["D.loss"].item())
        for source, target, style, share in micro_batches():
            self.differentiate_g(source, target, style, share, made)
        self.step("G")

    def simultaneous(self, micro_batches):
        for source, target, style, share in micro_batches():
            made = self.make_fake(source, style)
            self.differentiate_d(source, target, style, share, made[1])
            self.differentiate_g(source, target, style, share, made)
            del made  # before the next one is made
        for name in self.nets:
            self.step(name)
        self.lambda_adv = lambda_adv_of(self.seen["D.loss"].item())


def check_parameter_counts():
    for net, expected in ((Generator(256, 40), GENERATOR_PARAMETERS),
                          (Discriminator(256, 40), DISCRIMINATOR_PARAMETERS)):
        count = sum(p.numel() for p in net.parameters())
        if count != expected:
            raise SystemExit(f"{type(net).__name__} at 256 pixels: expected {expected} parameters,"
                             f" got {count}")
