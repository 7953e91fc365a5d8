"""accrue's networks in PyTorch: the same layers in the same order, and so the same names."""

import torch
from torch import nn
from torch.nn import functional

CNN_CHANNELS = (16, 32)
CNN_HIDDEN = 128
STAGES = (16, 32, 64)


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def scaled(sizes, width):
    """The sizes times width in multiples of 8, like accrue's --width."""
    return [8 * max(1, int(size * width / 8 + 0.5)) for size in sizes]


def group_norm(channels):
    return nn.GroupNorm(8, channels)


def cnn(image=28, channels=CNN_CHANNELS, hidden=CNN_HIDDEN, classes=10, norm=None):
    """A cnn for square images with one channel; hidden 0 leaves out the hidden linear layer."""
    layers, inputs = [], 1
    for outputs in channels:
        layers.append(nn.Conv2d(inputs, outputs, 3, padding=1))
        layers += [norm(outputs)] if norm else []
        layers += [nn.MaxPool2d(2), nn.ReLU()]
        inputs, image = outputs, image // 2
    features = inputs * image * image
    layers.append(nn.Flatten())
    if hidden:
        layers += [nn.Linear(features, hidden), nn.ReLU()]
        features = hidden
    return nn.Sequential(*layers, nn.Linear(features, classes))


class BasicBlock(nn.Module):
    """torchvision's BasicBlock, with a projected shortcut if the shape changes."""

    def __init__(self, inputs, outputs, stride, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = norm(outputs)
        self.downsample = None
        if inputs != outputs or stride != 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (self.downsample(x) if self.downsample else x))


def resnet(channels=STAGES, blocks=3, norm=group_norm, classes=10):
    inputs = channels[0]
    layers = [nn.Conv2d(1, inputs, 3, padding=1, bias=False), norm(inputs), nn.ReLU()]
    for stage, outputs in enumerate(channels):
        for block in range(blocks):
            layers.append(BasicBlock(inputs, outputs, 2 if stage and not block else 1, norm))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def double_conv(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), group_norm(outputs),
                   nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """A logit for each pixel."""

    def __init__(self, channels=STAGES):
        super().__init__()
        self.encoder = nn.ModuleList(map(double_conv, (1, *channels), channels))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(coarse, fine, 2, stride=2)
            for fine, coarse in zip(channels, channels[1:]))
        self.decoder = nn.ModuleList(double_conv(2 * fine, fine) for fine in channels[:-1])
        self.head = nn.Conv2d(channels[0], 1, 1)

    def level(self, i, x):
        skip = self.encoder[i](x)
        if i == len(self.up):
            return skip
        below = self.up[i](self.level(i + 1, functional.max_pool2d(skip, 2)))
        return self.decoder[i](torch.cat([skip, below], 1))

    def forward(self, x):
        height, width = x.shape[2:]
        coarsest = 2 ** len(self.up)
        padded = functional.pad(x, (0, -width % coarsest, 0, -height % coarsest))
        return self.head(self.level(0, padded))[:, :, :height, :width]


def wide_cnn(width=1, norm=None):
    return cnn(channels=scaled(CNN_CHANNELS, width), hidden=scaled([CNN_HIDDEN], width)[0],
               norm=norm)


def resnet20(width=1, norm=group_norm):
    return resnet(scaled(STAGES, width), norm=norm)


def resnet50():
    from torchvision import models  # only this model needs it

    return models.resnet50()


class Gpt2(nn.Module):
    """Logits [N T, vocabulary] of tokens [N, T], without dropout, like accrue's by default."""

    def __init__(self):
        from transformers import GPT2Config, GPT2LMHeadModel  # only this model needs it

        super().__init__()
        self.network = GPT2LMHeadModel(GPT2Config(
            attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, use_cache=False,
            attn_implementation="sdpa"))

    def forward(self, tokens):
        return self.network(tokens).logits.flatten(0, 1)


class NanoGpt(nn.Module):
    """Logits [N, T, vocabulary] of tokens [N, T] as nanoGPT computes them; its head is the embedding."""

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.ln_1, self.ln_2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
            self.c_attn = nn.Linear(width, 3 * width, bias=False)
            self.c_proj = nn.Linear(width, width, bias=False)
            self.c_fc = nn.Linear(width, 4 * width, bias=False)
            self.c_out = nn.Linear(4 * width, width, bias=False)

        def forward(self, x):
            n, t, width = x.shape
            heads = (each.view(n, t, self.heads, width // self.heads).transpose(1, 2)
                     for each in self.c_attn(self.ln_1(x)).split(width, dim=2))
            y = functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).contiguous().view(n, t, width))
            return x + self.c_out(functional.gelu(self.c_fc(self.ln_2(x))))

    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(self.Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, bias=False)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


# The models have accrue's names and widths.
MODELS = {
    "mlp": lambda width=1: mlp(784, *scaled((512, 256, 128), width), 10),
    "mlp-small": lambda width=1: mlp(784, *scaled((256,), width), 10),
    "cnn": wide_cnn,
    "cnn-gn": lambda width=1: wide_cnn(width, group_norm),
    "cnn-bn": lambda width=1: wide_cnn(width, nn.BatchNorm2d),
    "resnet": resnet20,
    "resnet-bn": lambda width=1: resnet20(width, nn.BatchNorm2d),
    "resnet50": lambda width=1: resnet50(),
    "gpt2": lambda width=1: Gpt2(),
    "unet": lambda width=1: UNet(scaled(STAGES, width)),
}
# The shape in which each model takes a sample.
SAMPLE_SHAPES = {name: (784,) if name.startswith("mlp") else (1, 28, 28) for name in MODELS}
SAMPLE_SHAPES["resnet50"] = (3, 224, 224)
SAMPLE_SHAPES["gpt2"] = (1024,)
VOCABULARY = 50257  # GPT-2's, for its samples and targets
