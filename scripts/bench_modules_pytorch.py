#!/usr/bin/env python3
"""Measures networks given as PyTorch's modules beside PyTorch's own training on this CPU.

Both sides train the same module, with Adam, on the same data and as many threads, and PyTorch adds
up gradients as its users do: a backward of loss / K for each micro-batch. Every measurement is a
separate process. For speed accrue and PyTorch take turns for several rounds, and the table compares
medians; PyTorch has the faster of its two memory formats. Modules are traced before time counts.

    scripts/bench_modules_pytorch.py                         three networks, at 224 pixels and 8x8
    scripts/bench_modules_pytorch.py convnext_tiny --pixels 64 --split 8x8
    scripts/bench_modules_pytorch.py --memory vit_b_16       peaks, at 224 pixels and 4x16
    scripts/bench_modules_pytorch.py --profile vit_b_16      where accrue's time goes

The names are torchvision's, and "bert" (two layers of BERT's base size with a mask, sequences of 128
tokens) and "gpt" (nanoGPT's network for characters: 6 layers of 384, 256 characters, a tied head).

A peak is the process's resident memory over that before the training, when the module, the data and
the list of its calls are there. PyTorch's peak is of two windows, because Adam's moments exist from
the first step on, and has the module's own values added: PyTorch trains them in place, and accrue
trains a copy, which is in its peak. accrue's prediction is of its ledger, without the data.
accrue's Python module must be found, and torch and torchvision by the same interpreter.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

from bench_pytorch import last_json, load_before, processor, run
from gpu_summary import table

import numpy as np

NAMES = ("mobilenet_v3_small", "efficientnet_b0", "vit_b_16")
CLASSES, WINDOWS = 10, 3  # of the data
CHARACTERS, BERT_TOKENS, GPT_TOKENS = 65, 128, 256
LAYOUTS = ("contiguous", "channels last")


class Way:
    """A way to train, for the table of memory."""

    def __init__(self, name, side, at_once, checkpoints=False, **options):
        self.name, self.side, self.at_once = name, side, at_once
        self.checkpoints, self.options = checkpoints, options


WAYS = (Way("accrue", "accrue", False),
        Way("accrue, recomputing", "accrue", False, recompute="sqrt"),
        Way("accrue at once", "accrue", True),
        Way("PyTorch at once", "PyTorch", True),
        Way("PyTorch", "PyTorch", False),
        Way("PyTorch, a checkpoint for each block", "PyTorch", False, checkpoints=True))


def bert():
    from transformers import BertConfig, BertForSequenceClassification
    return BertForSequenceClassification(BertConfig(
        num_hidden_layers=2, num_labels=CLASSES, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0))


def gpt():
    from reference_models import NanoGpt
    return NanoGpt(CHARACTERS, context=GPT_TOKENS, width=384, heads=6, layers=6)


def module_of(name):
    import torch
    torch.manual_seed(1)
    if name in ("bert", "gpt"):
        return {"bert": bert, "gpt": gpt}[name]().train()
    import torchvision
    options = {"googlenet": {"aux_logits": False, "init_weights": False},
               "fcn_resnet50": {"weights_backbone": None}}.get(name, {})
    return torchvision.models.get_model(name, num_classes=CLASSES, **options).train()


def data_of(request, windows):
    """The network's arguments by their names, and the labels of its answers."""
    random = np.random.default_rng(2)
    name, n, size = request["model"], windows * request["effective_batch"], request["pixels"]
    if name == "gpt":
        tokens = random.integers(0, CHARACTERS, (n, GPT_TOKENS + 1))
        return {"tokens": tokens[:, :-1].copy()}, tokens[:, 1:].copy()
    if name == "bert":
        lengths = random.integers(BERT_TOKENS // 4, BERT_TOKENS + 1, (n, 1))
        mask = (np.arange(BERT_TOKENS) < lengths).astype(np.int64)
        return ({"input_ids": random.integers(0, 30522, (n, BERT_TOKENS)), "attention_mask": mask},
                random.integers(0, CLASSES, n))
    x = random.standard_normal((n, 3, size, size), dtype=np.float32)
    shape = (n, size, size) if name == "fcn_resnet50" else n  # a label for each pixel
    return {"x": x}, random.integers(0, CLASSES, shape)


def answers_of(answers):
    """The logits with classes in the second dimension, of tensors, dictionaries and transformers' outputs."""
    logits = answers
    if not hasattr(answers, "dim"):
        logits = answers["out" if "out" in answers else "logits"]
    return logits.transpose(1, 2) if logits.dim() == 3 else logits


def resident(which):
    """VmRSS or VmHWM in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"^{which}:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024


class Peak:
    """The peak of resident memory from here on over the memory now."""

    def __init__(self):
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        self.before = resident("VmRSS")

    def bytes(self):
        return resident("VmHWM") - self.before


class Accrue:
    def __init__(self, request):
        import accrue
        self.accrue, self.request = accrue, request
        module = module_of(request["model"])
        x, _ = data_of(request, 1)
        self.network = accrue.from_torch(module, x if len(x) > 1 else next(iter(x.values())))
        self.name = f"accrue {accrue.__version__}"

    def train(self, data, on_step=None, **options):
        x, y = data
        if self.request["model"] == "fcn_resnet50":
            options |= {"loss": {"out": self.accrue.loss("cross_entropy")}}
            data = {**x, "out": y}
        elif len(x) == 1:
            data = next(iter(x.values())), y
        trainer = self.accrue.Trainer(
            self.network, data, micro_batch=self.request["micro_batch"],
            effective_batch=self.request["effective_batch"], optimizer="adam", lr=1e-4,
            threads=self.request["threads"], **options)
        return trainer.run(on_step=on_step)

    def windows(self, data, enough):
        class Enough(Exception):
            pass
        times = [time.perf_counter()]

        def on_step(_):
            times.append(time.perf_counter())
            if enough(times):
                raise Enough
        try:
            self.train(data, on_step, epochs=1000000)
        except Enough:
            pass
        return times

    def speed(self, enough):
        return self.windows(data_of(self.request, WINDOWS), enough)

    def memory(self, options):
        data = data_of(self.request, 1)
        peak = Peak()
        result = self.train(data, epochs=1, **options)
        ledger = {which: result.memory[which]["total"] - result.memory[which]["data"]
                  for which in ("this run", "predicted")}
        return {"peak_bytes": peak.bytes(), "ledger": ledger["this run"],
                "predicted": ledger["predicted"]}

    def profile(self):
        """The table of a profile: rows with kernels, and their times in microseconds."""
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "trace.json"
            self.train(data_of(self.request, 1), epochs=self.request["windows"], profile=str(path))
            return json.loads(path.read_text())["otherData"]["profile"]


class PyTorch:
    def __init__(self, request):
        import torch
        self.torch, self.request = torch, request
        torch.set_num_threads(request["threads"])
        self.name = f"PyTorch {torch.__version__}"

    def train(self, module, data, enough):
        torch, request = self.torch, self.request
        micro_batch, effective_batch = request["micro_batch"], request["effective_batch"]
        loss_of = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)
        x, y = data
        times = [time.perf_counter()]
        while not enough(times):
            window = (len(times) - 1) * effective_batch % len(y)
            for begin in range(window, window + effective_batch, micro_batch):
                end = min(begin + micro_batch, window + effective_batch)
                answers = module(**{name: each[begin:end] for name, each in x.items()})
                loss = loss_of(answers_of(answers), y[begin:end])
                (loss * ((end - begin) / effective_batch)).backward()
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter())
        return times

    def samples(self, windows, layout=LAYOUTS[0]):
        x, y = data_of(self.request, windows)
        x = {name: self.torch.from_numpy(each) for name, each in x.items()}
        if layout == "channels last":
            x = {name: each.contiguous(memory_format=self.torch.channels_last)
                 for name, each in x.items()}
        return x, self.torch.from_numpy(y)

    def speed(self, enough, layout):
        module = module_of(self.request["model"])
        if layout == "channels last":
            module = module.to(memory_format=self.torch.channels_last)
        return self.train(module, self.samples(WINDOWS, layout), enough)

    def memory(self, checkpoints):
        module = module_of(self.request["model"])
        if checkpoints:
            self.add_checkpoints(module)
        data = self.samples(1)
        values = sum(each.nbytes for each in module.state_dict().values())
        peak = Peak()
        self.train(module, data, lambda times: len(times) > 2)
        return {"peak_bytes": peak.bytes() + values, "values": values}

    def add_checkpoints(self, module):
        """Each block of the network drops its activations and computes them again."""
        from torch.utils.checkpoint import checkpoint
        blocks = [*module.features] if hasattr(module, "features") else [*module.encoder.layers]
        for block in blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


def enough_after(seconds):
    return lambda times: len(times) > 3 and times[-1] - times[0] > seconds


def middle(times):
    """The median window, without the first."""
    return statistics.median(b - a for a, b in zip(times[1:], times[2:]))


def answer(request):
    """The measurement of one process."""
    contestant = {"accrue": Accrue, "PyTorch": PyTorch}[request["side"]](request)
    if request["measure"] == "profile":
        return contestant.profile()
    if request["measure"] == "memory":
        way = next(way for way in WAYS if way.name == request["way"])
        found = (contestant.memory(way.options) if way.side == "accrue"
                 else contestant.memory(way.checkpoints))
        return {"name": contestant.name, **found}
    enough = enough_after(request["seconds"])
    if request["side"] == "accrue":
        return {"name": contestant.name, "window": middle(contestant.speed(enough))}
    windows = {layout: middle(contestant.speed(enough, layout)) for layout in request["layouts"]}
    return {"name": contestant.name, "window": min(windows.values()), "windows": windows}


def ask(options, **request):
    micro_batch, accum = options.split
    request = {"threads": options.threads, "seconds": options.seconds, "pixels": options.pixels,
               "micro_batch": micro_batch, "effective_batch": micro_batch * accum, **request}
    output, _ = run([sys.executable, __file__, "--request", json.dumps(request)], options.threads)
    return last_json(output)


def measure_speed(name, options):
    rounds, layouts = [], list(LAYOUTS[:1] if name in ("bert", "gpt") else LAYOUTS)
    for number in range(options.rounds):
        print(f"{name}: round {number + 1} of {options.rounds}", file=sys.stderr)
        found = {side: ask(options, side=side, model=name, measure="speed", layouts=layouts)
                 for side in ("accrue", "PyTorch")}
        windows = found["PyTorch"]["windows"]
        layouts = [min(windows, key=windows.get)]  # the other one would cost time alone
        rounds.append(found)
    return rounds


def rows_of_speed(name, rounds, options):
    ours, theirs = ([each[side]["window"] for each in rounds] for side in ("accrue", "PyTorch"))
    ratios = sorted(b / a for a, b in zip(ours, theirs))
    samples = options.split[0] * options.split[1]
    yield [name, *(f"{samples / statistics.median(each):.1f}" for each in (ours, theirs)),
           f"{statistics.median(theirs) / statistics.median(ours):.2f}"
           f" ({ratios[0]:.2f} to {ratios[-1]:.2f})", next(iter(rounds[-1]["PyTorch"]["windows"]))]


def measure_memory(name, options):
    found = {}
    for way in WAYS:
        if options.ways and way.name not in options.ways:
            continue
        print(f"{name}: {way.name}", file=sys.stderr)
        samples = options.split[0] * options.split[1]
        found[way.name] = ask(options, side=way.side, model=name, measure="memory", way=way.name,
                              **({"micro_batch": samples} if way.at_once else {}))
        print(f"  {found[way.name]}", file=sys.stderr)
    return found


def mebibytes(count):
    return f"{count / 2**20:,.1f}"


def rows_of_memory(name, found):
    for way, figures in found.items():
        ledger = (figures.get(key) for key in ("ledger", "predicted"))
        yield [name, way, mebibytes(figures["peak_bytes"]),
               *("" if count is None else mebibytes(count) for count in ledger)]


def print_profile(name, options):
    profile = ask(options, side="accrue", model=name, measure="profile", windows=options.rounds)
    rows = profile["rows"]
    total = sum(row["us"] for row in rows)
    by_op = collections.Counter()
    for row in rows:
        by_op[row["phase"], row["op"], row["kernel"]] += row["us"]
    print(f"{name}: {total / 1e6 / options.rounds:.2f} s a window\n")
    print(table(["phase", "op", "kernel", "ms", "%"],
                [[*key, f"{us / 1e3 / options.rounds:,.1f}", f"{100 * us / total:.1f}"]
                 for key, us in by_op.most_common(options.most)]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(NAMES), help="torchvision's, bert, gpt")
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--split", metavar="MxK", help="default: 8x8; with --memory 4x16")
    parser.add_argument("--memory", action="store_true", help="compare peak memory, not speed")
    parser.add_argument("--way", action="append", dest="ways", choices=[way.name for way in WAYS],
                        help="with --memory: this way alone; may be given again")
    parser.add_argument("--profile", action="store_true", help="print where accrue's time goes")
    parser.add_argument("--most", type=int, default=30, help="rows of a profile")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=8, help="for each measurement, at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures")
    parser.add_argument("--request", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    split = options.split or ("4x16" if options.memory else "8x8")
    options.split = tuple(int(number) for number in split.split("x"))
    return options


def main():
    options = parse()
    if options.request:
        print(json.dumps(answer(options.request)))
        return 0
    if options.profile:
        for name in options.names:
            print_profile(name, options)
        return 0
    load = load_before()
    measure = measure_memory if options.memory else measure_speed
    results = {name: measure(name, options) for name in options.names}
    print(f"{processor()}, {options.threads} threads, load before {load:.1f};"
          f" {options.pixels} pixels, {options.split[0]} x {options.split[1]}"
          + ("" if options.memory else f"; medians of {options.rounds} rounds of"
             f" {options.seconds:g} s; in brackets the range of the rounds") + "\n")
    if options.memory:
        print(table(["network", "way", "peak MiB", "ledger", "predicted"],
                    [row for name in results for row in rows_of_memory(name, results[name])]))
    else:
        heads = ["network", "accrue samples/s", "PyTorch", "faster by", "PyTorch's layout"]
        print(table(heads, [row for name, rounds in results.items()
                            for row in rows_of_speed(name, rounds, options)]))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
