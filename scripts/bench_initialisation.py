#!/usr/bin/env python3
"""First loss, and loss and score after a short training, of three initialisations.

Needs the module accrue. DATA is the folder of Fashion-MNIST's four files, of which networks learn
the first images; unet learns the built-in shapes. Prints the table of docs/benchmarks.md: means
over the seeds and their standard deviations, and on stderr the scores of the seeds and the
processor time.
"""

import argparse
import gzip
import math
import pathlib
import sys
import time

import accrue
import numpy as np

# Steps, samples a step, samples of the test, and the weight of the head.
BUDGETS = {
    "mlp": (200, 64, 2000, "6.weight"),
    "cnn": (150, 64, 2000, "9.weight"),
    "resnet-bn": (40, 32, 1000, "14.weight"),
    "resnet18": (30, 32, 1000, "fc.weight"),
    "unet": (90, 16, 2000, "head.weight"),
}
# The distributions of all weights but the head's, and of the head's.
WAYS = {"kaiming": ("kaiming", "kaiming"), "kaiming, head lecun": ("kaiming", "lecun"),
        "lecun": ("lecun", "lecun")}
DEVIATIONS = {"kaiming": lambda fan_in: math.sqrt(2 / fan_in),
              "lecun": lambda fan_in: math.sqrt(1 / (3 * fan_in))}


def read(path):
    """The numbers of an IDX file of bytes."""
    with gzip.open(path) as file:
        content = file.read()
    sizes = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def data_of(model, directory):
    if model == "unet":
        return {"data": "shapes"}
    steps, batch, tested, _ = BUDGETS[model]
    (x, y), (test_x, test_y) = [
        (read(directory / f"{split}-images-idx3-ubyte.gz"),
         read(directory / f"{split}-labels-idx1-ubyte.gz").astype(np.int32))
        for split in ("train", "t10k")]
    n = min(len(x), steps * batch)
    return {"data": (x[:n], y[:n]), "test": (test_x[:tested], test_y[:tested])}


def first_weights(model, way, options):
    """Weights as --init-scheme draws them, with the head brought to its standard deviation."""
    scheme, head = WAYS[way]
    weights = accrue.train(model, init_scheme=scheme, steps=0, **options).weights
    name = BUDGETS[model][-1]
    drawn = np.array(weights[name])
    # With kaiming, torchvision's resnets have a head of lecun's.
    has = "lecun" if model == "resnet18" else scheme
    if has != head:
        fan_in = drawn[0].size
        weights[name] = drawn * np.float32(DEVIATIONS[head](fan_in) / DEVIATIONS[has](fan_in))
    return weights


def measure(model, way, seed, data, rate):
    steps, batch, _, _ = BUDGETS[model]
    options = dict(data, seed=seed, effective_batch=batch, micro_batch=batch, threads=1)
    result = accrue.train(model, init=first_weights(model, way, options), steps=steps, lr=rate,
                          **options)
    score = result.score
    return (result.losses[0], score["loss"],
            100 * score["dice"] if model == "unet" else score["accuracy"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=pathlib.Path, metavar="DATA")
    parser.add_argument("--models", default=",".join(BUDGETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    asked = parser.parse_args()
    print("| | | first loss | test loss | accuracy or Dice, % |\n|---|---|---|---|---|")
    for model in asked.models.split(","):
        data = data_of(model, asked.data)
        for way in WAYS:
            before = time.process_time()
            runs = np.array([measure(model, way, seed, data, asked.lr)
                             for seed in range(1, asked.seeds + 1)])
            means, spreads = runs.mean(0), runs.std(0, ddof=1)
            cells = [f"{mean:.{digits}f} ± {spread:.{digits}f}"
                     for mean, spread, digits in zip(means, spreads, (2, 3, 1))]
            print(f"| {model} | {way} | {' | '.join(cells)} |", flush=True)
            print(f"{model}, {way}: {runs[:, 2].round(2).tolist()},"
                  f" {time.process_time() - before:.0f} s of the processor", file=sys.stderr)


if __name__ == "__main__":
    main()
