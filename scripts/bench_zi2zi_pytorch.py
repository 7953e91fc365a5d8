#!/usr/bin/env python3
"""Measures windows of zi2zi's training in PyTorch on the CPU, and prints what they took, as JSON.

Trains the networks of reference_zi2zi.py in float32, with dropout, the port's constancy loss, an
Adam each, pixel-shuffle, added skips and instance norm. Separate processes measure each way to
train:

- with contiguous and with channels_last tensors;
- with InstanceNorm2d, and with a GroupNorm of as many groups as channels, which computes the same;
- if alternating players have a single micro-batch, with G's glyphs made once for both players, or
  twice, which is slower but holds less memory.

The best figure of all ways counts. InstanceNorm2d with channels_last is left out: for a batch of
one sample its backward on the CPU is silently wrong if the incoming gradient is channels_last (in
1.13 and 2.15).

    scripts/bench_zi2zi_pytorch.py --size 256 --micro-batch 1 --effective-batch 16
    scripts/bench_zi2zi_pytorch.py --size 64 --ngf 16 --ndf 16 --micro-batch 4 --order simultaneous

    samples_per_s      by the median window, after one that warms up
    rss_growth_bytes   the process's peak, above what it holds after the import, without the samples
    rss_growth_after_small_bytes   above what it holds after a window of a tiny net, so without the
                       code that PyTorch loads and makes at first use
    tensor_bytes       the most that tensors take at a time in a window, without the samples: the
                       tensors from before it, and those that torch's allocator notes in its profile

Needs torch alone.
"""

import argparse
import gc
import itertools
import json
import statistics
import sys
import time

import torch
import reference_zi2zi as zi2zi
from bench_pytorch import last_json, load_before, run
from torch_training import forget_peak, resident_bytes

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TINY = {"size": 32, "ngf": 4, "ndf": 4, "micro_batch": 2, "effective_batch": 2}
WAYS = (("contiguous", "instance"), ("contiguous", "group"), ("channels_last", "group"))
LEARNING_RATES = {"G": 1e-3, "D": 2e-4}


def adam(name, net):
    options = {"lr": LEARNING_RATES[name], "betas": (0.5, 0.999), "eps": 1e-8}
    try:
        return torch.optim.Adam(net.parameters(), fused=True, **options)
    except RuntimeError:  # PyTorch before 2.4 has no fused Adam on the CPU
        return torch.optim.Adam(net.parameters(), **options)


def use_group_norm(net):
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.InstanceNorm2d):
                channels = child.num_features
                setattr(module, name, torch.nn.GroupNorm(channels, channels, affine=False))


def bytes_of(tensors):
    return sum(each.numel() * each.element_size() for each in tensors)


class Training:
    def __init__(self, request):
        self.request, self.layout = request, LAYOUTS[request["layout"]]
        size, styles = request["size"], request["styles"]
        g = zi2zi.Generator(size, styles, ngf=request["ngf"], attention=request["attention"])
        d = zi2zi.Discriminator(size, styles, ndf=request["ndf"], spectral=request["spectral"])
        for net in (g, d):
            if request["norm"] == "group":
                use_group_norm(net)
            net.to(memory_format=self.layout)
        self.players = zi2zi.Players(g, d, adam, request["order"])
        count = request["effective_batch"]
        self.glyphs = torch.randint(256, (2, count, 1, size, size), dtype=torch.uint8)
        self.styles = torch.randint(styles, (count,))

    def micro_batches(self):
        size = self.request["micro_batch"]
        for *glyphs, style in zip(*(each.split(size) for each in self.glyphs),
                                  self.styles.split(size)):
            source, target = ((each.float() / 127.5 - 1).contiguous(memory_format=self.layout)
                              for each in glyphs)
            yield source, target, style, len(style) / self.request["effective_batch"]

    def window(self):
        self.players.window(self.micro_batches, self.request["glyphs_made_once"])

    def data_bytes(self):
        return bytes_of([self.glyphs, self.styles])

    def state_bytes(self):
        """The bytes of the tensors that remain between two windows, without the samples."""
        players = self.players
        state = [value for optimizer in players.optimizers.values()
                 for values in optimizer.state.values() for value in values.values()
                 if torch.is_tensor(value)]
        weights = [tensor for net in players.nets.values()
                   for tensor in itertools.chain(net.parameters(), net.buffers())]
        return bytes_of(state + weights + [u for pair in players.d.vectors.values() for u in pair])


def measure_speed(request):
    after_import = resident_bytes("VmRSS")
    Training({**request, **TINY}).window()
    gc.collect()
    after_small = resident_bytes("VmRSS")
    forget_peak()
    training, seconds = Training(request), []
    for _ in range(1 + request["windows"]):
        start = time.perf_counter()
        training.window()
        seconds.append(time.perf_counter() - start)
    peak = resident_bytes("VmHWM") - training.data_bytes()
    return {"samples_per_s": request["effective_batch"] / statistics.median(seconds[1:]),
            "seconds": seconds, "rss_growth_bytes": peak - after_import,
            "rss_growth_after_small_bytes": peak - after_small}


def measure_tensors(request):
    training = Training(request)
    training.window()  # makes the optimizers' state
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        training.window()
    events = [event for event in profile.profiler.kineto_results.events()
              if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns() if hasattr(event, "start_ns") else
                event.start_us())
    bytes_now = itertools.accumulate(event.nbytes() for event in events)
    return {"tensor_bytes": training.state_bytes() + max(bytes_now)}


def answer(request):
    """Measures a request in a separate process."""
    torch.manual_seed(1)
    torch.set_num_threads(request["threads"])
    torch.ones(1)
    measured = measure_speed if request["what"] == "speed" else measure_tensors
    print(json.dumps(measured(request)))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("size", 256), ("ngf", 64), ("ndf", 64), ("styles", 40),
                          ("micro-batch", 1), ("effective-batch", 16), ("windows", 3),
                          ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--order", choices=("alternating", "simultaneous"), default="alternating")
    parser.add_argument("--attention", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--spectral", action=argparse.BooleanOptionalAction, default=False)
    options = parser.parse_args(arguments)
    if min(options.windows, options.micro_batch, options.effective_batch) < 1:
        parser.error("--windows, --micro-batch and --effective-batch are 1 or more")
    return vars(options)


def main():
    request, load, ways = parse(sys.argv[1:]), load_before(), []
    one_micro_batch = request["micro_batch"] >= request["effective_batch"]
    once = (False, True) if request["order"] == "alternating" and one_micro_batch else (False,)
    for (layout, norm), glyphs_made_once in itertools.product(WAYS, once):
        way = {"layout": layout, "norm": norm, "glyphs_made_once": glyphs_made_once}
        for what in ("speed", "tensors"):
            command = [sys.executable, __file__, "--answer",
                       json.dumps({**request, **way, "what": what})]
            way.update(last_json(run(command)[0]))
        ways.append(way)
    best = {key: choose(way[key] for way in ways)
            for key, choose in (("samples_per_s", max), ("rss_growth_bytes", min),
                                ("rss_growth_after_small_bytes", min), ("tensor_bytes", min))}
    print(json.dumps({"torch": torch.__version__, "load_before": load, **request, "best": best,
                      "ways": ways}, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(json.loads(sys.argv[2]))
    else:
        main()
