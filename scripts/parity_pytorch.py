#!/usr/bin/env python3
"""Trains the same nets from the same weights on the same samples in accrue and in PyTorch.

accrue writes initial weights and takes 10 Adam steps on the first samples of the file, in float32;
PyTorch does the same in float64, the truth, and in float32, for comparison. Final weights are
compared tensor by tensor, relative to the tensor's largest weight.

With Adam's eps at 1e-3 every weight must be within 1e-5; a value that rounding moves across a kink
of relu or max-pool can spoil that in any float32 program, but hardly for two seeds. With eps at its
default, 1e-8, no float32 program reaches it, PyTorch's own neither: where a gradient is no larger
than its rounding, Adam divides noise by itself and takes whole steps. Of these runs at most one
weight in 1000 may be further off; tests/golden holds nets small enough for the default to be
compared at 1e-5. Exits with 1 if accrue misses either. Needs torch and MNIST, or any data set in
its format.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional

import idx_io
import safetensors_io
from reference_models import MODELS, SAMPLE_SHAPES

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, LEARNING_RATE, TOLERANCE = 10, 1e-3, 1e-5
SPLITS = ((64, 1), (16, 4))
# Adam's eps, and the share of the weights that may be beyond the tolerance.
CASES = ((1e-3, 0.0), (1e-8, 1e-3))


def train(name, initial, images, labels, micro_batch, accum, eps, dtype):
    """The weights after STEPS steps in PyTorch."""
    model = MODELS[name]().to(dtype)
    model.load_state_dict({key: value.to(dtype) for key, value in initial.items()})
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, eps=eps)
    start = 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(accum):
            rows = slice(start, start + micro_batch)
            x = idx_io.pixels(images[rows], dtype).reshape(-1, *SAMPLE_SHAPES[name])
            (functional.cross_entropy(model(x), labels[rows].long()) / accum).backward()
            start += micro_batch
        optimizer.step()
    return model.state_dict()


def compare(weights, truth):
    """The largest relative difference, and how many are beyond the tolerance (or not numbers)."""
    relative = torch.cat([((weights[name].double() - exact).abs() / exact.abs().max()).flatten()
                          for name, exact in truth.items()])
    return relative.max().item(), (~(relative <= TOLERANCE)).sum().item(), relative.numel()


def accrue(options, *arguments):
    command = [str(options.program), "train", "--data", str(options.data), *map(str, arguments)]
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{finished.stdout}")


def check(options, images, labels, name, scratch):
    """Prints the model's rows of the table; true if accrue is within what is allowed."""
    start, end, good = scratch / "init.safetensors", scratch / "final.safetensors", True
    accrue(options, "--model", name, "--seed", options.seed, "--steps", 0, "--save", start)
    initial = safetensors_io.read(start)
    for micro_batch, accum in SPLITS:
        for eps, allowed_share in CASES:
            accrue(options, "--model", name, "--init", start, "--no-shuffle", "--steps", STEPS,
                   "--optimizer", "adam", "--lr", LEARNING_RATE, "--eps", eps,
                   "--micro-batch", micro_batch, "--accum", accum, "--save", end)
            case = (name, initial, images, labels, micro_batch, accum, eps)
            truth = train(*case, torch.float64)
            largest, beyond, count = compare(safetensors_io.read(end), truth)
            their_largest, their_beyond, _ = compare(train(*case, torch.float32), truth)
            passed = math.isfinite(largest) and beyond <= allowed_share * count
            good = good and passed
            print(f"| {name} | {micro_batch} x {accum} | {eps:g} | {largest:.1e} |"
                  f" {beyond} of {count} | {their_largest:.1e} | {their_beyond} |"
                  f" {'yes' if passed else 'NO'} |", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "apps" / "accrue")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data" / "mnist",
                        help="directory of IDX files")
    parser.add_argument("--seed", type=int, default=1, help="of the initial weights")
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn"], choices=sorted(MODELS))
    options = parser.parse_args()
    if not options.program.is_file():
        parser.error(f"no program {options.program}: build it, or name it with --program")
    try:
        images, labels = (idx_io.read(options.data, name) for name in idx_io.FILES[:2])
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"PyTorch {torch.__version__}; {STEPS} Adam steps; differences from PyTorch in float64,"
          " relative to each tensor's largest weight\n")
    print("| model | split | Adam's eps | accrue: largest | over 1e-5 |"
          " PyTorch float32: largest | over 1e-5 | as it must be |")
    print("| --- " * 8 + "|")
    with tempfile.TemporaryDirectory() as scratch:
        good = all([check(options, images, labels, name, pathlib.Path(scratch))
                    for name in options.models])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
