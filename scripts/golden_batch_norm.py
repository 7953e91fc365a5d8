"""The golden file batch_norm.safetensors: BatchNorms that see a whole window.

A small net with three BatchNorms, the last one over single numbers, takes ten steps of Adam on 12
images as one batch, in float64. The file holds

    images          F32 [12, 2, 6, 6]
    labels          I32 [12]
    init.NAME       F32  the initial weights and running statistics, NAME as in the state_dict
                         of the nn.Sequential
    grad.all.NAME, final.all.NAME, loss.all, grad_norm.all   as in unjudged.safetensors, with the
                         running statistics among the final values
"""

import random

import torch
from torch import nn
from torch.nn import functional

import golden_files

SAMPLES, STEPS = 12, 10
TOLERANCE = 1e-10


def net():
    """The convolutions have no biases: their gradients would be rounding alone, which Adam makes as
    large as any other gradient."""
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.Tanh(),
                         nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6),
                         nn.Tanh(), nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8), nn.Tanh(),
                         nn.Flatten(), nn.Linear(8, 3)).double()


def floats(state):
    return {name: value for name, value in state.items() if value.is_floating_point()}


def make():
    generator = random.Random("batch_norm")
    model = net()
    with torch.no_grad():
        for name, value in floats(model.state_dict()).items():
            if "running" not in name:
                value.copy_(golden_files.uniform(generator, 0.4, *value.shape))
        for norm in model:
            if isinstance(norm, nn.BatchNorm2d):
                norm.weight.copy_((norm.weight + 1).float())
    images = golden_files.uniform(generator, 1, SAMPLES, 2, 6, 6)
    offsets = torch.arange(SAMPLES).reshape(SAMPLES, 1, 1, 1) / 8  # micro-batches differ
    images = (images + offsets).float().double()
    labels = torch.tensor([generator.randrange(3) for _ in range(SAMPLES)])
    tensors = {"images": images.float(), "labels": labels.int()}
    tensors.update({f"init.{name}": value.float()
                    for name, value in floats(model.state_dict()).items()})
    tensors.update(golden_files.record(
        "all", model, torch.optim.Adam(model.parameters(), lr=0.01),
        lambda x, y: functional.cross_entropy(model(x), y), [(images, labels)], STEPS))
    tensors.update({f"final.all.{name}": value for name, value in model.named_buffers()
                    if value.is_floating_point()})
    return tensors
