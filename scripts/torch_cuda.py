"""PyTorch's ways to train a window on a GPU, measured for scripts/bench_pytorch.py."""

import gc
import itertools
import math
import statistics
import time

import torch
from reference_models import MODELS, SAMPLE_SHAPES
from torch.nn import functional

VARIANTS = ("eager", "fused Adam", "compiled")
# torch.compile takes a minute for these.
LARGE_VARIANTS = ("eager", "fused Adam, channels last")
WINDOWS_TOGETHER = 20  # between two synchronisations, as accrue measures itself
LEARNING_RATE = 1e-3


class Training:
    """eager: Adam as it is by default; fused Adam: in one kernel; channels last: with the images in
    NHWC; compiled: that, and the micro-step by torch.compile(mode="reduce-overhead"), which replays
    CUDA graphs."""

    def __init__(self, configuration, variant):
        torch.manual_seed(1)
        self.model = MODELS[configuration.model]().to("cuda")
        self.autocast = configuration.precision == "bf16"
        if variant.endswith("channels last"):
            self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE,
                                          fused=True if variant != "eager" else None)
        self.accum = configuration.accum
        self.compiled = variant == "compiled"
        self.loss = torch.compile(self.scaled_loss, mode="reduce-overhead") if self.compiled \
            else self.scaled_loss

    def scaled_loss(self, x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
            return functional.cross_entropy(self.model(x), y) / self.accum

    def zero_grad_modes(self):
        # A graph's outputs are overwritten by its next replay: gradients must not be those.
        return (False,) if self.compiled else (False, True)

    def window(self, micro_batches, set_to_none):
        for x, y in micro_batches:
            if self.compiled:
                torch.compiler.cudagraph_mark_step_begin()
            self.loss(x, y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def prepare(self):
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)


def median_window_seconds(seconds, step):
    """Of step(), for so long, after as many windows of warm-up as are timed together."""

    def run_together():
        for _ in range(WINDOWS_TOGETHER):
            step()
        torch.cuda.synchronize()

    run_together()
    durations, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or not durations:
        start = time.perf_counter()
        run_together()
        durations.append((time.perf_counter() - start) / WINDOWS_TOGETHER)
    return statistics.median(durations)


def measure(configuration, variant, seconds, samples):
    """Samples per second and peak memory without the samples; the better zero_grad counts."""
    # As accrue computes: float32 throughout, and tensor cores' shorter TF32 only if asked for.
    tf32 = configuration.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    size = configuration.effective_batch
    sample_shape = SAMPLE_SHAPES[configuration.model]
    count = max(1, min(samples, (1 << 28) // math.prod(sample_shape)) // size) * size
    x = torch.randn(count, *sample_shape, device="cuda")
    if variant.endswith("channels last"):
        x = x.to(memory_format=torch.channels_last)
    y = torch.randint(10, (count,), device="cuda")
    windows = itertools.cycle([
        list(zip(x[rows].split(configuration.micro_batch), y[rows].split(configuration.micro_batch)))
        for rows in (slice(start, start + size) for start in range(0, count, size))])
    data_bytes = sum(each.numel() * each.element_size() for each in (x, y))
    training = Training(configuration, variant)
    training.prepare()
    rates, allocated, reserved = [], [], []
    modes = training.zero_grad_modes()
    for set_to_none in modes:
        torch.cuda.reset_peak_memory_stats()
        rates.append(size / median_window_seconds(
            seconds / len(modes), lambda: training.window(next(windows), set_to_none)))
        allocated.append(torch.cuda.max_memory_allocated() - data_bytes)
        reserved.append(torch.cuda.max_memory_reserved() - data_bytes)
    return {"samples_per_s": max(rates), "peak_allocated_bytes": min(allocated),
            "peak_reserved_bytes": min(reserved)}


def measure_all(configuration, seconds, samples):
    """By variant; one that fails (no compiler for torch.compile, say) is an error text."""
    figures = {}
    for variant in LARGE_VARIANTS if configuration.model == "resnet50" else VARIANTS:
        try:
            figures[variant] = measure(configuration, variant, seconds, samples)
        except Exception as error:  # pylint: disable=broad-except
            figures[variant] = {"error": f"{type(error).__name__}: {error}"[:500]}
        gc.collect()
        torch.cuda.empty_cache()
    return figures
