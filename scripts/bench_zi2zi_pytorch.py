#!/usr/bin/env python3
"""Measures windows of zi2zi's training in PyTorch on the CPU, and prints what they took, as JSON.

The networks and losses of reference_zi2zi.py in float32, with dropout, the port's constancy loss
and an Adam each; pixel-shuffle, added skips and instance norm. Each way to train is measured in
processes of its own: with contiguous and with channels_last tensors; with InstanceNorm2d and with
GroupNorm of as many groups as channels, which computes the same; and where alternating players have
a single micro-batch, making G's glyphs once for both or twice, which is slower but holds less. The
best figure of all ways counts. InstanceNorm2d with channels_last is left out: of a batch of one
sample its backward is wrong on the CPU, without a word, where the gradient that comes in is
channels_last (in 1.13 and 2.15).

    scripts/bench_zi2zi_pytorch.py --size 256 --micro-batch 1 --effective-batch 16
    scripts/bench_zi2zi_pytorch.py --size 64 --ngf 16 --ndf 16 --micro-batch 4 --order simultaneous

    samples_per_s      by the median window, after one that warms up
    rss_growth_bytes   the process's peak, above what it holds after the import, without the samples
    rss_growth_after_small_bytes   above what it holds after a window of a tiny net, so without the
                       code that PyTorch loads and makes at first use
    tensor_bytes       the most that tensors take at a time in a window, without the samples: what
                       is there before, and what torch's allocator notes in its profile

Needs torch alone.
"""

import argparse
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import reference_zi2zi as zi2zi
from torch_memory import forget_peak, resident_bytes

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TINY = {"size": 32, "ngf": 4, "ndf": 4, "micro_batch": 2, "effective_batch": 2}
WAYS = (("contiguous", "instance"), ("contiguous", "group"), ("channels_last", "group"))
LEARNING_RATES = {"G": 1e-3, "D": 2e-4}


def adam(net, learning_rate):
    options = {"lr": learning_rate, "betas": (0.5, 0.999), "eps": 1e-8}
    try:
        return torch.optim.Adam(net.parameters(), fused=True, **options)
    except RuntimeError:  # before 2.4 not on the CPU
        return torch.optim.Adam(net.parameters(), **options)


def use_group_norm(net):
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.InstanceNorm2d):
                channels = child.num_features
                setattr(module, name, torch.nn.GroupNorm(channels, channels, affine=False))


class Training:
    def __init__(self, request):
        self.request, self.layout = request, LAYOUTS[request["layout"]]
        size, styles = request["size"], request["styles"]
        self.g = zi2zi.Generator(size, styles, ngf=request["ngf"], attention=request["attention"])
        self.d = zi2zi.Discriminator(size, styles, ndf=request["ndf"], spectral=request["spectral"])
        self.nets = {"G": self.g, "D": self.d}
        for net in self.nets.values():
            if request["norm"] == "group":
                use_group_norm(net)
            net.to(memory_format=self.layout)
        self.optimizers = {name: adam(net, LEARNING_RATES[name])
                           for name, net in self.nets.items()}
        count = request["effective_batch"]
        self.glyphs = torch.randint(256, (2, count, 1, size, size), dtype=torch.uint8)
        self.styles = torch.randint(styles, (count,))
        self.lambda_adv = zi2zi.FIRST_LAMBDA_ADV

    def micro_batches(self):
        """Source, target, style and share of the window."""
        size = self.request["micro_batch"]
        for *glyphs, style in zip(*(each.split(size) for each in self.glyphs),
                                  self.styles.split(size)):
            source, target = ((each.float() / 127.5 - 1).contiguous(memory_format=self.layout)
                              for each in glyphs)
            yield source, target, style, len(style) / self.request["effective_batch"]

    def differentiate_d(self, source, target, style, fake, share):
        """One half of the loss after the other, so that one graph is there at a time."""
        self.d.requires_grad_(True)
        total = 0
        for glyph, is_real in ((target, 1.0), (fake.detach(), 0.0)):
            binary, category = self.d(source, glyph)
            loss = 0.5 * share * (zi2zi.bce(binary, is_real) + zi2zi.CATEGORY_WEIGHT *
                                  zi2zi.category(category, style))
            loss.backward()
            total += loss.detach()
        return total

    def differentiate_g(self, source, target, style, share, made):
        self.d.requires_grad_(False)
        loss, _ = zi2zi.generator_loss(self.g, self.d, source, target, style, self.lambda_adv,
                                       "port", made)
        (share * loss).backward()

    def step(self, name):
        self.optimizers[name].step()
        self.optimizers[name].zero_grad(set_to_none=True)

    def window(self):
        self.d.start_step()
        if self.request["order"] == "alternating":
            self.alternating()
        else:
            self.simultaneous()

    def alternating(self):
        d_loss, made = 0, None
        for source, target, style, share in self.micro_batches():
            if self.request["glyphs_made_once"]:
                made = zi2zi.make_fake(self.g, source, style)
                fake = made[1]
            else:
                with torch.no_grad():
                    fake = self.g(source, style)
            d_loss += self.differentiate_d(source, target, style, fake, share)
        self.step("D")
        self.lambda_adv = zi2zi.lambda_adv_of(d_loss.item())
        for source, target, style, share in self.micro_batches():
            self.differentiate_g(source, target, style, share, made)
        self.step("G")

    def simultaneous(self):
        d_loss = 0
        for source, target, style, share in self.micro_batches():
            made = zi2zi.make_fake(self.g, source, style)
            d_loss += self.differentiate_d(source, target, style, made[1], share)
            self.differentiate_g(source, target, style, share, made)
            del made  # before the next is there
        for name in self.nets:
            self.step(name)
        self.lambda_adv = zi2zi.lambda_adv_of(d_loss.item())

    def data_bytes(self):
        return bytes_of([self.glyphs, self.styles])

    def state_bytes(self):
        """What there is between two windows, without the samples."""
        state = [value for optimizer in self.optimizers.values()
                 for values in optimizer.state.values() for value in values.values()
                 if torch.is_tensor(value)]
        weights = [*self.g.parameters(), *self.d.parameters(), *self.g.buffers(),
                   *self.d.buffers()]
        return bytes_of(state + weights + [u for pair in self.d.vectors.values() for u in pair])


def bytes_of(tensors):
    return sum(each.numel() * each.element_size() for each in tensors)


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


def child(request):
    torch.manual_seed(1)
    torch.set_num_threads(request["threads"])
    torch.ones(1)
    measured = measure_speed if request["what"] == "speed" else measure_tensors
    print(json.dumps(measured(request)))


def ask(request):
    """The answer of a process of its own."""
    process = subprocess.run([sys.executable, __file__, "--child", json.dumps(request)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode != 0:
        raise SystemExit(f"{request} failed:\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])


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
    request = parse(sys.argv[1:])
    ways, once = [], [False]
    if request["order"] == "alternating" and request["micro_batch"] >= request["effective_batch"]:
        once.append(True)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: the machine is busy (load {load:.1f}); figures will mislead",
              file=sys.stderr)
    for (layout, norm), glyphs_made_once in itertools.product(WAYS, once):
        way = {"layout": layout, "norm": norm, "glyphs_made_once": glyphs_made_once}
        for what in ("speed", "tensors"):
            way.update(ask({**request, **way, "what": what}))
        ways.append(way)
    best = {key: choose(way[key] for way in ways)
            for key, choose in (("samples_per_s", max), ("rss_growth_bytes", min),
                                ("rss_growth_after_small_bytes", min), ("tensor_bytes", min))}
    print(json.dumps({"torch": torch.__version__, "load_before": load, **request, "best": best,
                      "ways": ways}, indent=2))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
