#!/usr/bin/env python3
"""Writes the golden file tests/golden/fine_tuning.safetensors: torchvision's resnet18, partly frozen.

Ten optimizer steps, each of a window of two micro-batches of golden_resnet.SAMPLES images, from the
weights and images of golden_resnet.py's formula. What is frozen has requires_grad False, and its
BatchNorms are in eval mode. In float64, for FROZEN `backbone` (all but fc) and `half` (conv1, bn1,
layer1 and layer2) and OPTIMIZER `sgd` (momentum, weight decay) and `adam`:

    FROZEN.OPTIMIZER.losses            [10]  the mean over each window
    FROZEN.OPTIMIZER.change.PARAMETER  [3]   golden_resnet.sums() of what the steps added to it; of
                                             trained parameters only
    FROZEN.OPTIMIZER.buffer.BUFFER     [3]   the same of running_mean and running_var after them; of
                                             trained BatchNorms only

Needs torch and torchvision.

    scripts/golden_fine_tuning.py            writes the file
    scripts/golden_fine_tuning.py --check    compares the committed file with what this PyTorch computes
"""

import sys

import torch
import torchvision
from torch.nn import functional

from golden_resnet import (CHANNELS, CLASSES, GOLDEN, HEIGHT, IMAGES, LABELS, SAMPLES, WIDTH,
                           buffers_of, initial, sums, uniform, write_or_check)

STEPS, MICRO_BATCHES = 10, 2
FROZEN = {"backbone": ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4"),
          "half": ("conv1", "bn1", "layer1", "layer2")}
OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9, weight_decay=1e-2),
              "adam": lambda p: torch.optim.Adam(p, lr=1e-3)}


def golden(frozen, optimizer):
    model = torchvision.models.resnet18(num_classes=CLASSES).double()
    with torch.no_grad():
        for stream, (own, x) in enumerate([*model.named_parameters(), *buffers_of(model)]):
            x.copy_(initial(stream, own, x.shape))
    model.train()
    for layer in FROZEN[frozen]:
        getattr(model, layer).eval().requires_grad_(False)
    before = {own: p.detach().clone() for own, p in model.named_parameters() if p.requires_grad}
    samples = MICRO_BATCHES * SAMPLES
    images = uniform(IMAGES, samples * CHANNELS * HEIGHT * WIDTH).float().double()
    images = images.reshape(MICRO_BATCHES, SAMPLES, CHANNELS, HEIGHT, WIDTH)
    labels = ((uniform(LABELS, samples) + 1) / 2 * CLASSES).long().reshape(MICRO_BATCHES, SAMPLES)
    step = OPTIMIZERS[optimizer]([p for p in model.parameters() if p.requires_grad])
    losses = []
    for _ in range(STEPS):
        step.zero_grad()
        parts = []
        for x, y in zip(images, labels):
            loss = functional.cross_entropy(model(x), y) / MICRO_BATCHES
            loss.backward()
            parts.append(loss.detach())
        step.step()
        losses.append(sum(parts))
    trained = {own.rpartition(".")[0] for own in before}
    tensors = {"losses": torch.stack(losses)}
    tensors.update({f"change.{own}": sums(p - before[own])
                    for own, p in model.named_parameters() if own in before})
    tensors.update({f"buffer.{own}": sums(b) for own, b in buffers_of(model)
                    if own.rpartition(".")[0] in trained})
    return {f"{frozen}.{optimizer}.{own}": x for own, x in tensors.items()}


def main():
    tensors = {own: x for frozen in FROZEN for optimizer in OPTIMIZERS
               for own, x in golden(frozen, optimizer).items()}
    return write_or_check(GOLDEN / "fine_tuning.safetensors", tensors, 1e-6,
                          __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
