#!/usr/bin/env python3
"""Checks that two builds of the program train to the same bits.

    scripts/compare_weights.py BEFORE AFTER [--steps 20]

Trains every model, strategy, precision and recomputation with both programs and compares the
SHA-256 of the weights that they save. Prints a line for each; exits with 1 if any differ.
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile

MODELS = ("mlp", "mlp-small", "cnn", "cnn-bn", "cnn-gn", "resnet", "resnet-bn", "unet")


def configurations():
    """The options of `train` that each run adds to the model's, by model."""
    for model in MODELS:
        yield model, []
        for strategy in ("separate", "moments"):
            yield model, ["--strategy", strategy]
        yield model, ["--strategy", "step-in-backward", "--micro-batch", "8"]
        for precision in ("bf16", "fp16"):
            yield model, ["--precision", precision]
        for recompute in ("sqrt", "all"):
            yield model, ["--recompute", recompute]
    for optimizer in ("adamw", "sgd --momentum 0.9 --nesterov", "lion"):
        yield "mlp-small", ["--optimizer", *optimizer.split()]
    for more in ("--dropout 0.5", "--clip-norm 0.1", "--ema 0.9", "--noise-scale", "--width 0.5",
                 "--schedule cosine --warmup-steps 3", "--beta2-half-life 1000", "--no-shuffle"):
        yield "cnn-gn", more.split()


def weights_hash(program, model, options, steps):
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder, "w.safetensors")
        split = [] if "--micro-batch" in options else ["--micro-batch", "3"]
        command = [program, "train", "--model", model, *split, "--effective-batch", "8",
                   "--steps", str(steps), "--device", "cpu", "--save", str(weights), *options]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            return "failed: " + run.stderr.strip().splitlines()[-1]
        return hashlib.sha256(weights.read_bytes()).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    different = 0
    total = 0
    for model, options in configurations():
        before, after = (weights_hash(program, model, options, arguments.steps)
                         for program in (arguments.before, arguments.after))
        same = before == after and not before.startswith("failed")
        different += not same
        total += 1
        print(f"{'same' if same else 'DIFFERENT'}  {model:<10} {' '.join(options):<40} {before}"
              + ("" if same else f"  {after}"), flush=True)
    print(f"{total - different} of {total} the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
