#!/usr/bin/env python3
"""Prints what tests/layers/spectral_norm.cpp expects: torch.nn.utils.spectral_norm in float64."""

import torch

torch.set_default_dtype(torch.float64)


def ramp(*shape):
    """Numbers of either sign that any language can compute easily."""
    n = torch.Size(shape).numel()
    return torch.tensor([((7 * i + 3) % 11 - 5) / 4 for i in range(n)]).reshape(shape)


conv = torch.nn.utils.spectral_norm(torch.nn.Conv2d(2, 3, 2))
with torch.no_grad():
    conv.weight_orig.copy_(ramp(3, 2, 2, 2))
    conv.weight_u.copy_(torch.tensor([0.6, 0.0, 0.8]))
    conv.bias.copy_(ramp(3))
conv.train()
y = conv(ramp(1, 2, 3, 3))  # one power iteration, then the convolution
(y * ramp(*y.shape)).sum().backward()
values = dict(conv.named_buffers(), y=y, gradient=conv.weight_orig.grad)
for name, value in values.items():
    print(name, ", ".join(f"{v:.17g}" for v in value.flatten().tolist()))
