#!/usr/bin/env python3
"""Times single ops beside PyTorch's on this CPU, forward and backward, and prints a Markdown table.

Each op is called some times in a row in a network of values, and in the same network in PyTorch.
The time of a window of the network without these calls is subtracted, so that neither samples nor
the loss nor the step count. accrue and PyTorch take turns in separate processes; the table
compares medians.

    scripts/bench_ops_pytorch.py                             all groups
    scripts/bench_ops_pytorch.py softmax "depthwise 3x3"     cases whose names begin so
    scripts/bench_ops_pytorch.py --list                      their names
    scripts/bench_ops_pytorch.py --processor-time            for a busy machine: one thread, its own
                                                             time

accrue's Python module must be found, and torch by the same interpreter or the one of --python.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
import typing

from bench_pytorch import last_json, load_before, processor, run
from gpu_summary import table

import numpy as np


@dataclasses.dataclass
class Case:
    """`calls` links of a chain x = link(m, x, i), of `ops` ops each, on samples of a shape. m is
    accrue or PyTorch's functions, and m.parameter(shape, name, mean, std) makes a parameter."""
    name: str
    shape: tuple  # of a sample
    samples: int
    link: typing.Callable
    calls: int
    ops: int = 1
    sources: tuple = ()  # means of parameters whose products with the input all links share
    images: bool = False


def depthwise(kernel, samples, channels, size):
    def link(m, x, i):
        return m.depthwise(x, channels, kernel, f"layer{i}")
    return Case(f"depthwise {kernel}x{kernel} {samples} x {channels} x {size}x{size}",
                (channels, size, size), samples, link, 4, images=True)


def softmax(function, dim, samples, *shape):
    def link(m, x, i):
        return getattr(m, function)(x, dim)
    return Case(f"{function} {[samples, *shape]} dim {dim}", shape, samples, link, 6)


def broadcast(samples, *shape):
    """((x - row) / column) * row + row, where rows and columns are learned."""
    row, column = ((1, shape[1]), (shape[0], 1)) if len(shape) == 2 else (
        (shape[0], 1, 1), (1, 1, shape[2]))

    def link(m, x, i):
        shift, scale = m.parameter(row, f"a{i}", 0, 0.1), m.parameter(column, f"b{i}", 1, 0)
        factor, offset = m.parameter(row, f"c{i}", 1, 0), m.parameter(row, f"d{i}", 0, 0.1)
        return (x - shift) / scale * factor + offset
    return Case(f"broadcasts {[samples, *shape]} with {list(row)} and {list(column)}", shape,
                samples, link, 3, ops=4)


def matmul(form, batch, rows, columns):
    """Two products of a link: by a transposed matrix, and back."""
    means = (columns**-0.5, rows**-0.5)

    def link(m, x, i, keys, values):
        if form == "(a b^T) c":
            return m.matmul(m.matmul(x, m.transpose(keys, -2, -1)), values)
        return m.matmul(keys, m.matmul(m.transpose(values, -2, -1), x))
    return Case(f"matmul {form} of {[batch, rows, columns]}", (rows, columns), batch, link, 5,
                ops=2, sources=means)


def function(*names):
    """Functions one after another, so that values stay where all are defined."""
    def link(m, x, i):
        for name in names:
            base, _, argument = name.partition(" ")
            x = getattr(m, base)(x, float(argument)) if argument else getattr(m, base)(x)
        return x
    return Case(f"function {', '.join(names)}", (256, 1024), 2, link, 8 // len(names),
                ops=len(names))


DEPTHWISE = ((8, 32, 112), (8, 96, 56), (8, 192, 28), (8, 384, 14), (8, 576, 14), (8, 960, 7))
CASES = [
    *(depthwise(kernel, *shape) for kernel in (3, 5, 7) for shape in DEPTHWISE),
    *(softmax("softmax", -1, *shape)
      for shape in ((64, 1000), (8192, 64), (4096, 128), (1024, 512), (256, 4096))),
    softmax("softmax", 1, 8, 21, 64, 64), softmax("log_softmax", -1, 64, 1000),
    softmax("log_softmax", -1, 4096, 128),
    broadcast(8, 256, 256), broadcast(2, 1024, 1024), broadcast(32, 64, 28, 28),
    *(matmul(form, *shape) for form in ("(a b^T) c", "c (b^T a)")
      for shape in ((512, 32, 32), (256, 49, 32), (96, 64, 64), (48, 128, 64), (24, 256, 64),
                    (16, 512, 64))),
    *(function(*names) for names in (
        ("exp", "log"), ("expm1", "log1p"), ("sqrt", "square"), ("erf",), ("sin",), ("cos",),
        ("tan", "atan"), ("sin", "asin"), ("cos", "acos"), ("sinh", "asinh"), ("cosh", "acosh"),
        ("tanh", "atanh"), ("pow 1.5", "pow 0.6666"), ("sigmoid",), ("softplus", "log"), ("gelu",),
        ("silu",), ("mish",), ("hardswish",))),
]


def samples_of(case):
    random = np.random.default_rng(1)
    shape = (case.samples, *case.shape)
    return (random.uniform(0.2, 0.8, shape) if case.name.startswith("function")
            else random.normal(size=shape)).astype(np.float32)


def answer(m, case, x, calls):
    """The network's answer to x, a number for each sample."""
    y = x * m.parameter((1,), "first", 1, 0)
    sources = [x * m.parameter((1,), f"source{i}", mean, 0) for i, mean in enumerate(case.sources)]
    for i in range(calls):
        y = case.link(m, y, i, *sources)
    y = y * m.parameter(case.shape[-1:], "last", 0, 1)
    for source in sources:
        y = y + source
    return m.total(y)


class Accrue:
    def __init__(self, threads, clock):
        import accrue
        self.accrue, self.threads, self.clock = accrue, threads, clock
        self.name = f"accrue {accrue.__version__}"

    def __getattr__(self, name):
        return getattr(self.accrue, name)

    def parameter(self, shape, name, mean, std):
        return self.accrue.parameter(shape, name, mean=mean, std=std)

    def depthwise(self, x, channels, kernel, name):
        return self.accrue.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels,
                                  bias=False)(x, name=name)

    def total(self, x):
        return self.accrue.sum(x.flatten(1), -1, keepdim=True)

    def windows(self, case, calls, seconds, _):
        class Enough(Exception):
            pass
        times, begin = [self.clock()], self.clock()

        def on_step(_):
            times.append(self.clock())
            if times[-1] - begin > seconds and len(times) > 5:
                raise Enough
        x = self.accrue.input(*case.shape)
        network = self.accrue.Network(x, answer(self, case, x, calls))
        samples = samples_of(case)
        targets = np.zeros((len(samples), 1), np.float32)
        trainer = self.accrue.Trainer(
            network, (samples, targets), loss="mse", micro_batch=case.samples, accum=1,
            epochs=1000000, optimizer="sgd", lr=1e-30, threads=self.threads, no_shuffle=True)
        try:
            trainer.run(on_step=on_step)
        except Enough:
            pass
        return times


class PyTorch:
    def __init__(self, threads, clock):
        import torch
        self.torch, self.functional, self.clock = torch, torch.nn.functional, clock
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.name = f"PyTorch {torch.__version__}"

    def __getattr__(self, name):
        return getattr(self.torch, name, None) or getattr(self.functional, name)

    def parameter(self, shape, name, mean, std):
        if name not in self.parameters:
            self.parameters[name] = self.torch.nn.Parameter(mean + std * self.torch.randn(shape))
        return self.parameters[name]

    def depthwise(self, x, channels, kernel, name):
        weight = self.parameter((channels, 1, kernel, kernel), name, 0, 1 / kernel)
        return self.functional.conv2d(x, weight, padding=kernel // 2, groups=channels)

    def total(self, x):
        return x.flatten(1).sum(-1, keepdim=True)

    def windows(self, case, calls, seconds, layout):
        samples = self.torch.from_numpy(samples_of(case))
        if layout == "channels last":
            samples = samples.contiguous(memory_format=self.torch.channels_last)
        targets = self.torch.zeros(len(samples), 1)
        self.parameters = {}
        optimizer = None
        times, begin = [self.clock()], self.clock()
        while times[-1] - begin < seconds or len(times) <= 5:
            loss = self.functional.mse_loss(answer(self, case, samples, calls), targets)
            optimizer = optimizer or self.torch.optim.SGD(self.parameters.values(), lr=1e-30)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(self.clock())
        return times


def middle(times):
    """The median window, without the first two."""
    return statistics.median(b - a for a, b in zip(times[2:], times[3:]))


def measure(side, names, options):
    """Microseconds for an op, forward and backward, of each case."""
    clock = time.process_time if options.processor_time else time.perf_counter
    contestant = {"accrue": Accrue, "PyTorch": PyTorch}[side](options.threads, clock)
    seconds = options.seconds
    figures = {}
    for case in CASES:
        if case.name not in names:
            continue
        ways = ["", "channels last"] if case.images and side == "PyTorch" else [""]
        figures[case.name] = min(
            (middle(contestant.windows(case, case.calls, seconds, way)) -
             middle(contestant.windows(case, 0, seconds / 3, way))) / case.calls / case.ops * 1e6
            for way in ways)
    return {"name": contestant.name, "figures": figures}


def rows(cases, rounds):
    for case in cases:
        ours, theirs = ([each[side]["figures"][case.name] for each in rounds]
                        for side in ("accrue", "PyTorch"))
        ratios = sorted(b / a for a, b in zip(ours, theirs))
        yield [case.name, *(f"{statistics.median(each):,.0f}" for each in (ours, theirs)),
               f"{statistics.median(theirs) / statistics.median(ours):.2f}"
               f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="beginnings of names; default: all cases")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.5, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument("--side", choices=("accrue", "PyTorch"), help=argparse.SUPPRESS)
    parser.add_argument("--processor-time", action="store_true",
                        help="with one thread, count the time of its processor alone")
    options = parser.parse_args()
    if options.processor_time:
        options.threads = 1
    return options


def main():
    options = parse()
    cases = [case for case in CASES if not options.cases or
             any(case.name.startswith(begin) for begin in options.cases)]
    if options.list or options.side:
        names = {case.name for case in cases}
        print(json.dumps(measure(options.side, names, options))
              if options.side else "\n".join(case.name for case in cases))
        return 0
    load = load_before()
    groups = {}
    for case in cases:
        groups.setdefault(case.name.split()[0], []).append(case)
    rounds = [{"accrue": {"figures": {}}, "PyTorch": {"figures": {}}}
              for _ in range(options.rounds)]
    for number, group in ((n, g) for n in range(options.rounds) for g in groups.values()):
        print(f"round {number + 1} of {options.rounds}: {group[0].name}, ...", file=sys.stderr)
        for side, python in (("accrue", sys.executable), ("PyTorch", options.python)):
            output, _ = run([python, __file__, *(case.name for case in group), "--side", side,
                             "--threads", str(options.threads), "--seconds", str(options.seconds),
                             *(["--processor-time"] if options.processor_time else [])],
                            options.threads)
            answered = last_json(output)
            rounds[number][side]["figures"] |= answered["figures"]
            rounds[number][side]["name"] = answered["name"]
    names = " and ".join(rounds[0][side]["name"] for side in ("accrue", "PyTorch"))
    clock = ", its processor's time" if options.processor_time else ""
    print(f"{names}; {processor()}, threads: {options.threads}{clock}, load before {load:.1f};"
          f" medians of {options.rounds} rounds of {options.seconds:g} s; in brackets the range of"
          " the rounds\n")
    heads = ["op", "accrue us", "PyTorch us", "accrue is faster by"]
    print(table(heads, list(rows(cases, rounds))))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rounds, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
