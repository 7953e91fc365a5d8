"""The golden file torchvision.safetensors: torchvision's resnet18, 34 and 50, some with GroupNorm.

The networks are whole, with 11 to 24 million weights, but the file is small: weights, images and
labels follow from a formula (uniform() below), and for each gradient the file has three sums. For
each network NAME, in float64:

    NAME.logits             [4, 5]  in eval mode
    NAME.loss               [1]     the mean cross-entropy in training mode
    NAME.grad.PARAMETER     [3]     sums over the gradient of that loss: of squares, and of products
                                    with two vectors of the formula
    NAME.buffer.BUFFER      [3]     the same of running_mean and running_var after that pass

Tensor t of a network, counted over its parameters and then its buffers, both in the order of
named_parameters() and named_buffers() (num_batches_tracked left out), begins as the formula's
stream t.
"""

import functools

import torch
import torchvision
from torch.nn import functional

SAMPLES, CHANNELS, HEIGHT, WIDTH, CLASSES = 4, 3, 48, 40, 5
# Networks whose names end in -gn have GroupNorms of 32 groups in place of BatchNorms.
NETS = ("resnet18", "resnet34", "resnet50", "resnet18-gn", "resnet50-gn")
TOLERANCE = 1e-9
# Streams of the formula for values that are no tensors of a network.
IMAGES, LABELS, FIRST_VECTOR, SECOND_VECTOR = 100000, 100001, 100002, 100003


def uniform(stream, count):
    """Element i of a stream: a hash of both, from -1 to 1, in steps of 2^-31."""
    x = (torch.arange(count, dtype=torch.int64) + stream * 7919 + 1) & 0xffffffff
    for factor in (0x2c1b3c6d, 0x297a2d39):
        x = (x ^ (x >> 15)) * factor & 0xffffffff
    return (x ^ (x >> 16)).double() / 2**31 - 1


def initial(stream, name, shape):
    """Float32 values; gains and variances near 1, the others around 0."""
    u = uniform(stream, shape.numel()).reshape(shape)
    is_gain = ("bn" in name or "downsample.1" in name) and name.endswith("weight")
    if len(shape) > 1:
        u = u * (6 / shape[1:].numel())**0.5
    elif is_gain or name.endswith("running_var"):
        u = 1 + u / 2
    else:
        u = u / 4
    return u.float().double()


def sums(x):
    x = x.detach().flatten()
    return torch.stack([(x * x).sum(), (x * uniform(FIRST_VECTOR, x.numel())).sum(),
                        (x * uniform(SECOND_VECTOR, x.numel())).sum()])


def buffers_of(model):
    return [(name, b) for name, b in model.named_buffers() if "num_batches" not in name]


def make_model(name):
    network, _, group_norm = name.partition("-")
    norm = functools.partial(torch.nn.GroupNorm, 32) if group_norm else None
    model = getattr(torchvision.models, network)(num_classes=CLASSES, norm_layer=norm).double()
    with torch.no_grad():
        for stream, (own, x) in enumerate([*model.named_parameters(), *buffers_of(model)]):
            x.copy_(initial(stream, own, x.shape))
    return model


def make_samples(count):
    """Images and labels."""
    images = uniform(IMAGES, count * CHANNELS * HEIGHT * WIDTH).float().double()
    labels = ((uniform(LABELS, count) + 1) / 2 * CLASSES).long()
    return images.reshape(count, CHANNELS, HEIGHT, WIDTH), labels


def golden(name):
    model, (images, labels) = make_model(name), make_samples(SAMPLES)
    with torch.no_grad():
        tensors = {"logits": model.eval()(images)}
    loss = functional.cross_entropy(model.train()(images), labels)
    loss.backward()
    tensors["loss"] = loss.detach().reshape(1)
    tensors.update({f"grad.{own}": sums(p.grad) for own, p in model.named_parameters()})
    tensors.update({f"buffer.{own}": sums(b) for own, b in buffers_of(model)})
    return {f"{name}.{own}": x for own, x in tensors.items()}


def make():
    return {own: x for name in NETS for own, x in golden(name).items()}
