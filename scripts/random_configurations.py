"""Random configurations of a window, and their nets in PyTorch, for golden_random.py.

A configuration is a JSON object with the net's layers, the split, loss, precision, strategy,
recompute mode and optimizer. The same generator of random numbers draws the same configuration.
"""

from torch import nn

from reference_models import UNet, resnet

ACTIVATIONS = {"relu": "ReLU", "leaky_relu": "LeakyReLU", "gelu": "GELU", "sigmoid": "Sigmoid",
               "tanh": "Tanh", "silu": "SiLU"}
LAYERS = {"linear": "Linear", "layer_norm": "LayerNorm", "group_norm": "GroupNorm",
          "batch_norm": "BatchNorm2d", "instance_norm": "InstanceNorm2d", "conv": "Conv2d",
          "conv_transpose": "ConvTranspose2d", "max_pool": "MaxPool2d", "avg_pool": "AvgPool2d",
          "flatten": "Flatten"}


# Nets. A layer is a line of text: its name and numbers.


def draw_mlp(rng):
    sizes = [rng.randint(2, 10) for _ in range(rng.randint(2, 4))] + [rng.randint(2, 5)]
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:-1]):
        if rng.random() < 0.3:
            layers.append(f"linear_relu {inputs} {outputs}")
            continue
        layers.append(f"linear {inputs} {outputs}")
        if rng.random() < 0.4:
            layers.append(f"layer_norm {outputs}")
        layers.append(rng.choice(list(ACTIVATIONS)))
    return layers + [f"linear {sizes[-2]} {sizes[-1]}"], [sizes[0]]


def size_after(size, kernel, stride=1, padding=0, dilation=1):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def draw_norm(rng, channels):
    groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    return rng.choice([f"group_norm {groups} {channels}", f"batch_norm {channels}",
                       f"instance_norm {channels}"])


def draw_conv_net(rng):
    channels, height, width = rng.randint(1, 3), rng.randint(4, 11), rng.randint(4, 11)
    layers, shape = [], [channels, height, width]
    for _ in range(rng.randint(1, 3)):
        outputs = rng.choice([2, 3, 4, 6])
        if rng.random() < 0.15:
            layers.append(f"conv_transpose {channels} {outputs} 2 2")
            height, width = 2 * height, 2 * width
        else:
            kernel, stride, dilation = rng.choice([1, 3, 3, 5]), rng.choice([1, 1, 2]), 1
            if kernel == 3 and rng.random() < 0.2:
                dilation = 2
            padding = rng.randint(0, dilation * (kernel // 2))
            window = kernel, stride, padding, dilation
            if min(height, width) + 2 * padding <= dilation * (kernel - 1):
                break
            height, width = (size_after(size, *window) for size in (height, width))
            layers.append(f"conv {channels} {outputs} {kernel} {stride} {padding} {dilation}")
        channels = outputs
        if rng.random() < 0.5:
            layers.append(draw_norm(rng, channels))
        if rng.random() < 0.8:
            layers.append(rng.choice(list(ACTIVATIONS)))
        if rng.random() < 0.5 and min(height, width) >= 3:
            kernel, stride = rng.randint(2, 3), rng.randint(1, 3)
            layers.append(f"{rng.choice(['max_pool', 'avg_pool'])} {kernel} {stride}")
            height, width = (size_after(size, kernel, stride) for size in (height, width))
        if rng.random() < 0.1:
            layers.append("upsample 2")
            height, width = 2 * height, 2 * width
    if rng.random() < 0.4:
        layers.append("global_avg_pool")
        height = width = 1
    return layers + ["flatten", f"linear {channels * height * width} {rng.randint(2, 5)}"], shape


def draw_net(rng, number):
    if number % 20 == 0:
        return ["resnet 8 8"], [1, rng.randint(4, 9), rng.randint(4, 9)]
    if number % 20 == 1:
        return ["unet 8 8"], [1, 2 * rng.randint(2, 4), 2 * rng.randint(2, 4)]
    return draw_mlp(rng) if rng.random() < 0.35 else draw_conv_net(rng)


def parse(lines):
    return [(name, [int(number) for number in numbers])
            for name, *numbers in map(str.split, lines)]


def make_layer(name, numbers, library=nn):
    """A layer of PyTorch, or of another library with PyTorch's names."""
    first = {"conv": 3, "conv_transpose": 3, "max_pool": 1, "avg_pool": 1}.get(name, len(numbers))
    return getattr(library, {**LAYERS, **ACTIVATIONS}[name])(
        *numbers[:first], **dict(zip(("stride", "padding", "dilation"), numbers[first:])))


def make_layers(name, n):
    layers = {"linear_relu": lambda: [nn.Linear(*n), nn.ReLU()],
              "global_avg_pool": lambda: [nn.AdaptiveAvgPool2d(1)],
              "upsample": lambda: [nn.Upsample(scale_factor=n[0])],
              "resnet": lambda: resnet(n, blocks=1), "unet": lambda: [UNet(n)]}
    return layers[name]() if name in layers else [make_layer(name, n)]


def make_model(lines):
    return nn.Sequential(*(layer for line in parse(lines) for layer in make_layers(*line))).double()


# Configurations.


def draw_optimizer(rng):
    kind = rng.choice(["adam", "adamw", "sgd"])
    decay = rng.choice([0, 0, 0.01, 0.3])
    if kind == "sgd":
        momentum = rng.choice([0, 0.9])
        return {"kind": kind, "momentum": momentum, "weight_decay": decay,
                "nesterov": momentum > 0 and rng.random() < 0.5}
    # With a tiny eps a gradient that is rounding noise moves its weight by lr.
    return {"kind": kind, "beta1": rng.choice([0.9, 0.5]), "beta2": rng.choice([0.999, 0.9]),
            "eps": 1e-2, "weight_decay": decay}


def draw_configuration(rng, number):
    net, shape = draw_net(rng, number)
    unet = net[0].startswith("unet")
    size, count = rng.randint(1, 4), rng.randint(1, 4)
    micro_batches = [size] * (count - 1) + [rng.randint(1, size)]
    optimizer = draw_optimizer(rng)
    strategies = ["fused", "fused", "separate"]
    if optimizer["kind"] != "sgd":
        strategies.append("moments")
    if count == 1:
        strategies.append("step_in_backward")
    strategy = rng.choice(strategies)
    keeps = strategy in ("fused", "separate")
    precision = rng.choice(["f32", "f32", "f64", "bf16", "f16"])
    if net[0].startswith(("resnet", "unet")):
        precision = rng.choice(["f32", "f32", "f64"])
    samples = sum(micro_batches)
    return {"net": net, "shape": shape, "loss": "bce" if unet else
            rng.choice(["cross_entropy", "cross_entropy", "mse"]),
            "micro_batches": micro_batches,
            "effective_batch": samples + (rng.randint(1, 5) if rng.random() < 0.25 else 0),
            "precision": precision, "strategy": strategy,
            "recompute": rng.choice(["none", "sqrt", "all"]), "optimizer": optimizer,
            "lr": rng.choice([1e-3, 1e-2, 0.1]),
            "clip_norm": rng.choice([0, 0.05, 0.5]) if keeps else 0,
            # Without the scale small gradients would lose digits as denormal numbers of float16.
            "loss_scale": 1024 if precision == "f16" else rng.choice([1, 1, 64]),
            "seed": rng.getrandbits(32)}
