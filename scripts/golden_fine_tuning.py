"""The golden file fine_tuning.safetensors: torchvision's resnet18, partly frozen.

Takes ten optimizer steps, each on a window of two micro-batches of golden_torchvision.SAMPLES
images, from the weights and images of golden_torchvision.py's formula. Frozen parameters have
requires_grad False, and frozen BatchNorms are in eval mode. In float64, for FROZEN `backbone` (all
except fc) and `half` (conv1, bn1, layer1 and layer2) and OPTIMIZER `sgd` (momentum, weight decay)
and `adam`:

    FROZEN.OPTIMIZER.losses            [10]  the mean over each window
    FROZEN.OPTIMIZER.change.PARAMETER  [3]   golden_torchvision.sums() of the sum of the steps; for
                                             trained parameters only
    FROZEN.OPTIMIZER.buffer.BUFFER     [3]   the same of running_mean and running_var after them;
                                             for trained BatchNorms only
"""

import torch
from torch.nn import functional

import golden_files
from golden_torchvision import SAMPLES, buffers_of, make_model, make_samples, sums

STEPS, MICRO_BATCHES, TOLERANCE = 10, 2, 1e-6
FROZEN = {"backbone": ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4"),
          "half": ("conv1", "bn1", "layer1", "layer2")}
OPTIMIZERS = {"sgd": (torch.optim.SGD, {"lr": 1e-4, "momentum": 0.9, "weight_decay": 1e-2}),
              "adam": (torch.optim.Adam, {"lr": 1e-3})}


def frozen_model(frozen, name="resnet18"):
    model = make_model(name).train()
    for layer in FROZEN[frozen]:
        getattr(model, layer).eval().requires_grad_(False)
    return model


def golden(frozen, optimizer):
    model = frozen_model(frozen)
    trained, (kind, options) = golden_files.trained_of(model), OPTIMIZERS[optimizer]
    before = {own: p.detach().clone() for own, p in trained.items()}
    layers = {own.rpartition(".")[0] for own in trained}
    micro_batches = list(zip(*(x.split(SAMPLES) for x in make_samples(MICRO_BATCHES * SAMPLES))))
    _, losses, _ = golden_files.train(
        model, kind(trained.values(), **options),
        lambda x, y: functional.cross_entropy(model(x), y) / MICRO_BATCHES, micro_batches, STEPS)
    tensors = {"losses": losses,
               **{f"change.{own}": sums(p - before[own]) for own, p in trained.items()},
               **{f"buffer.{own}": sums(b) for own, b in buffers_of(model)
                  if own.rpartition(".")[0] in layers}}
    return {f"{frozen}.{optimizer}.{own}": x for own, x in tensors.items()}


def make():
    return {own: x for frozen in FROZEN for optimizer in OPTIMIZERS
            for own, x in golden(frozen, optimizer).items()}
