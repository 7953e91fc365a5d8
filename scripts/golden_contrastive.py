"""The golden file contrastive.safetensors: a loss that compares all samples of a window.

A small net takes ten steps of Adam on the NT-Xent loss of SimCLR (Chen et al. 2020) between two
views of each of 12 images, as one batch of 24, in float64. The file holds

    images, views   F32 [12, 1, 5, 5]
    init.NAME       F32  the initial weights, NAME as in the nn.Sequential's state_dict
    grad.all.NAME, final.all.NAME, loss.all, grad_norm.all   as in unjudged.safetensors
"""

import random

import torch
from torch import nn
from torch.nn import functional

import golden_files

SAMPLES, STEPS, TEMPERATURE = 12, 10, 0.5
TOLERANCE = 1e-10


def nt_xent(first, second):
    z = functional.normalize(torch.stack([first, second], 1).flatten(0, 1), dim=1)
    similarity = z @ z.T / TEMPERATURE
    similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    partner = torch.arange(len(z)) ^ 1
    return functional.cross_entropy(similarity, partner)


def make():
    generator = random.Random("contrastive")
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Flatten(),
                          nn.Linear(100, 6)).double()
    golden_files.fill(model, lambda p: golden_files.uniform(generator, 0.4, *p.shape))
    images = golden_files.uniform(generator, 1, SAMPLES, 1, 5, 5)
    views = (images + golden_files.uniform(generator, 0.5, *images.shape)).float().double()
    return {"images": images.float(), "views": views.float(), **golden_files.initial(model),
            **golden_files.record("all", model, torch.optim.Adam(model.parameters(), lr=0.01),
                                  lambda a, b: nt_xent(model(a), model(b)), [(images, views)],
                                  STEPS)}
