"""The golden file unjudged.safetensors: masks with a part that is not judged.

A net of two convolutions takes three steps of SGD with momentum on one window of 8 samples, as one
batch, in float64. A third of the pixels has the label 255, two samples have no other, and the loss
is CrossEntropyLoss(ignore_index=255), alone or with the Dice loss of kernels/dice_loss.h over the
judged pixels, which weights each sample by their number. The file holds

    input, labels     F32 [8, 1, 5, 6], I32 [8, 1, 5, 6], of three classes or 255
    init.NAME         F32  the initial weights, NAME as in the nn.Sequential's state_dict
    grad.LOSS.NAME    F64  the first window's gradient, LOSS one of cross-entropy, both
    final.LOSS.NAME   F64  the weights after three steps
    loss.LOSS         F64  [3], the windows' losses
    grad_norm.LOSS    F64  [3], the windows' gradient norms
"""

import copy
import random

import torch
from torch import nn
from torch.nn import functional

import golden_files

CLASSES, UNJUDGED, STEPS = 3, 255, 3
TOLERANCE = 1e-12


def cross_entropy(logits, labels):
    return functional.cross_entropy(logits, labels, ignore_index=UNJUDGED)


def both(logits, labels):
    judged = (labels != UNJUDGED)[:, None].double()
    wanted = functional.one_hot(labels.clamp(max=CLASSES - 1), CLASSES).movedim(-1, 1) * judged
    found = logits.softmax(1) * judged
    dice = (2 * (found * wanted).sum((2, 3)) + 1) / (found + wanted).sum((2, 3)).add(1)
    of_sample = judged.sum((1, 2, 3))
    return cross_entropy(logits, labels) + ((1 - dice).mean(1) * of_sample).sum() / of_sample.sum()


def make():
    generator = random.Random("unjudged")
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, CLASSES, 1))
    model = model.double()
    golden_files.fill(model, lambda p: golden_files.uniform(generator, 0.7, *p.shape))
    inputs = golden_files.uniform(generator, 1, 8, 1, 5, 6)
    labels = torch.tensor([generator.choice([0, 1, 2, 2, UNJUDGED, UNJUDGED])
                           for _ in range(inputs.numel())]).int().reshape(inputs.shape)
    labels[4:6] = UNJUDGED  # in micro-batches of 1 and of 2, some have no judged pixel
    tensors = {"input": inputs.float(), "labels": labels, **golden_files.initial(model)}
    for name, loss_of in {"cross-entropy": cross_entropy, "both": both}.items():
        trained = copy.deepcopy(model)
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.5, momentum=0.9)
        tensors.update(golden_files.record(
            name, trained, optimizer, lambda x, y: loss_of(trained(x), y),
            [(inputs, labels[:, 0].long())], STEPS))
    return tensors
