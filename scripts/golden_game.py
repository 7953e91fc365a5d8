"""The golden file game.safetensors of tests/train/game.cpp: two players.

A small generator G and discriminator D are trained for 6 windows of 64 samples, each as ONE batch,
in float64, with an Adam each (learning rates 1e-2 for D, 4e-3 for G):

    loss of D = bce(D(real), 1) + bce(D(G(input)), 0)      loss of G = bce(D(G(input)), 1)
                                                                       + 2 mse(G(input), real)

They alternate (D steps, then G with the new D) or play simultaneously (both gradients are taken at
the same weights), with G in every window or in every third; they also alternate with two steps of G
a window. The file holds

    input, real       F32  [384, 6] and [384, 5], the windows one after the other
    init.P.NAME       F32  the initial weights of player P, G or D
    CASE.P.loss       F64  the losses at the steps of P; CASE is ORDER.EVERY.TIMES:
                           alternating.1.1, simultaneous.3.1, alternating.1.2, ...
    CASE.P.norm       F64  the norms of the gradient at these steps
    CASE.P.gradient   F64  [steps, parameters], the gradients one parameter after the other
    CASE.P.final      F64  [parameters], the weights after the last window
"""

import copy
import random

import torch
from torch.nn import functional

import golden_files
from golden_files import flat, uniform
from reference_models import mlp

WINDOWS, SAMPLES, NOISE, IMAGE = 6, 64, 6, 5
LEARNING_RATES = {"D": 1e-2, "G": 4e-3}
CASES = [("alternating", 1, 1), ("alternating", 3, 1), ("alternating", 1, 2),
         ("simultaneous", 1, 1), ("simultaneous", 3, 1)]
EPSILON = 1e-3  # large enough that Adam does not enlarge rounding
TOLERANCE = 1e-12


def make_players():
    generator = random.Random("game")
    players = {"D": mlp(IMAGE, 8, 1).double(), "G": mlp(NOISE, 8, IMAGE).double()}
    for player in players.values():
        golden_files.fill(player, lambda p: uniform(generator, p.shape[-1] ** -0.5, *p.shape))
    count = WINDOWS * SAMPLES
    return players, uniform(generator, 1, count, NOISE), uniform(generator, 1, count, IMAGE)


def loss_of(name, players, x, real):
    def verdict(images, is_real):
        logits = players["D"](images)
        return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, is_real))

    fake = players["G"](x)
    if name == "D":
        return verdict(real, 1.0) + verdict(fake.detach(), 0.0)
    return verdict(fake, 1.0) + 2 * functional.mse_loss(fake, real)


def play(players, inputs, reals, order, every, times):
    optimizers = {name: torch.optim.Adam(players[name].parameters(), lr=rate, eps=EPSILON)
                  for name, rate in LEARNING_RATES.items()}
    seen = {name: {"loss": [], "norm": [], "gradient": []} for name in players}

    def differentiate(name, x, real):
        loss = loss_of(name, players, x, real)
        gradients = torch.autograd.grad(loss, list(players[name].parameters()))
        for p, gradient in zip(players[name].parameters(), gradients):
            p.grad = gradient
        seen[name]["loss"].append(loss.detach())
        seen[name]["norm"].append(flat(gradients).norm())
        seen[name]["gradient"].append(flat(gradients))

    for window, (x, real) in enumerate(zip(inputs.split(SAMPLES), reals.split(SAMPLES)), 1):
        playing = ["D"] + times * ["G"] if window % every == 0 else ["D"]
        # Each turn ends with the steps of its players.
        turns = [[name] for name in playing] if order == "alternating" else [playing]
        for turn in turns:
            for name in turn:
                differentiate(name, x, real)
            for name in turn:
                optimizers[name].step()
    return seen


def make():
    players, inputs, reals = make_players()
    tensors = {"input": inputs.float(), "real": reals.float()}
    for name, player in players.items():
        tensors.update(golden_files.initial(player, f"init.{name}."))
    for order, every, times in CASES:
        trained = copy.deepcopy(players)
        for name, values in play(trained, inputs, reals, order, every, times).items():
            case = f"{order}.{every}.{times}.{name}"
            tensors.update({f"{case}.{key}": torch.stack(rows) for key, rows in values.items()})
            tensors[f"{case}.final"] = flat(trained[name].parameters())
    return tensors
