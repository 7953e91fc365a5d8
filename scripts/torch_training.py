"""Trains a network of reference_models.py in PyTorch, and measures its windows' time and memory.

    python3 scripts/torch_training.py '{"model": "cnn", "width": 1, "micro_batch": 8, ...}'

answers such a request as JSON, in a separate process: for PyTorch's row of `accrue bench memory`
and for scripts/bench_pytorch.py and scripts/bench_ranks_pytorch.py. Its "measure" is

    memory   peak memory of some windows on samples that are bytes in memory (the default)
    speed    samples per second of each way to train, on samples in the network's input format
    rank     time and memory of one of several processes under DistributedDataParallel
"""

import contextlib
import dataclasses
import gc
import itertools
import json
import math
import pathlib
import re
import resource
import statistics
import sys
import time

import torch
from reference_models import MODELS, SAMPLE_SHAPES, VOCABULARY
from torch.nn import functional

SAMPLES_OF_BYTES = 12000  # as many as accrue's built-in data sets have
SAMPLES, MOST_VALUES = 8192, 1 << 28  # for samples of floats
WINDOWS_TOGETHER = 20  # on cuda, between two synchronizations, as in accrue's own benchmark


@dataclasses.dataclass
class Way:
    """A way to train: with fused or default Adam, with images in NHWC or NCHW, and with or without
    torch.compile(mode="reduce-overhead") for the micro-step, which replays CUDA graphs."""
    name: str
    fused: bool = False
    channels_last: bool = False
    compiled: bool = False

    @property
    def layout(self):
        return torch.channels_last if self.channels_last else torch.contiguous_format


EAGER = Way("eager")


def ways_of(model, device):
    """The ways that may be the fastest."""
    if device == "cpu":
        images = [] if model.startswith("mlp") else [Way("channels last", channels_last=True)]
        return [EAGER, *images]
    if model == "gpt2":
        return [Way("fused Adam", fused=True), Way("compiled", fused=True, compiled=True)]
    if model == "resnet50":  # torch.compile takes a minute for it
        return [EAGER, Way("fused Adam, channels last", fused=True, channels_last=True)]
    return [EAGER, Way("fused Adam", fused=True), Way("compiled", fused=True, compiled=True)]


def make_optimizer(request, parameters, fused):
    rate = request.get("lr", 1e-3)
    kind = request.get("optimizer", "adam")
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](
        parameters, lr=rate, **({"fused": True} if fused else {}))


class Training:
    """A network and its optimizer; window() is one step of it."""

    def __init__(self, request, way=EAGER):
        torch.manual_seed(1)
        self.effective_batch, self.micro_batch = request["effective_batch"], request["micro_batch"]
        self.accum = math.ceil(self.effective_batch / self.micro_batch)
        self.device, self.compiled = request["device"], way.compiled
        self.segments = request["model"] == "unet"
        self.autocast = request.get("precision") == "bf16"
        self.model = MODELS[request["model"]](request["width"])
        self.model.to(self.device, memory_format=way.layout)
        self.optimizer = make_optimizer(request, self.model.parameters(), way.fused)
        if self.compiled:
            self.loss = torch.compile(self.loss, mode="reduce-overhead")

    def loss(self, x, y):
        """The mean over a micro-batch, weighted by its share of the window."""
        x = x.float() / 255 if x.dtype == torch.uint8 else x
        shorter = torch.autocast(self.device, torch.bfloat16) if self.autocast \
            else contextlib.nullcontext()
        with shorter:
            answer = self.model(x)
            mean = functional.binary_cross_entropy_with_logits(answer, y.float()) \
                if self.segments else functional.cross_entropy(answer, y.flatten())
            return mean * (len(x) / self.effective_batch)

    def window(self, micro_batches, set_to_none=True):
        for k, (x, y) in enumerate(micro_batches):
            if self.compiled:
                torch.compiler.cudagraph_mark_step_begin()
            # Ranks exchange their gradients only in the last backward of a window.
            waits = k + 1 < self.accum and hasattr(self.model, "no_sync")
            with self.model.no_sync() if waits else contextlib.nullcontext():
                self.loss(x, y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=set_to_none)


class Samples:
    """Random samples, as bytes or as floats."""

    def __init__(self, request, count, channels_last=False, as_bytes=False):
        device, shape = request["device"], SAMPLE_SHAPES[request["model"]]
        self.sizes = request["effective_batch"], request["micro_batch"]
        if request["model"] == "gpt2":
            self.x, self.y = torch.randint(VOCABULARY, (2, count, *shape), device=device)
            return
        self.x = torch.randint(256, (count, *shape), dtype=torch.uint8, device=device) \
            if as_bytes else torch.randn(count, *shape, device=device)
        if channels_last:
            self.x = self.x.to(memory_format=torch.channels_last)
        self.y = torch.randint(10, (count,), device=device)
        if request["model"] == "unet":
            masks = torch.randint(2, (count, *shape), dtype=torch.uint8, device=device)
            self.y = masks if as_bytes else masks.float()

    def windows(self):
        """Yields windows without end, whose micro-batches are made in advance."""
        size, micro_batch = self.sizes
        return itertools.cycle([list(zip(x.split(micro_batch), y.split(micro_batch)))
                                for x, y in zip(self.x.split(size), self.y.split(size))])

    def draw(self):
        """A window of random samples, whose micro-batches are made one by one."""
        size, micro_batch = self.sizes
        rows = torch.randperm(len(self.x), device=self.x.device)[:size]
        return ((self.x[part], self.y[part]) for part in rows.split(micro_batch))

    def bytes(self):
        return sum(each.numel() * each.element_size() for each in (self.x, self.y))


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_seconds(step, seconds, device="cpu", together=1, go_on=lambda going: going):
    """The median time of a step, measured for `seconds` after a tenth of that to warm up."""
    def time_steps():
        start = time.perf_counter()
        for _ in range(together):
            step()
        synchronize(device)
        return (time.perf_counter() - start) / together

    for limit in (seconds / 10, seconds):
        begin, durations = time.perf_counter(), [time_steps()]
        while go_on(time.perf_counter() - begin < limit):
            durations.append(time_steps())
    return statistics.median(durations)


def resident_bytes(key):
    """This process's resident memory: VmRSS now, VmHWM at its peak."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"no {key} in /proc/self/status")


def forget_peak():
    # The import itself may have had a higher peak.
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def measure_memory(request):
    """The data set has the size of accrue's built-in one, or `samples`. On the CPU the peak is the
    process's, above its memory after the import; on cuda it is the peak of torch's allocator."""
    device = request["device"]
    torch.manual_seed(1)
    torch.ones(1, device=device)
    before = resident_bytes("VmRSS")
    forget_peak()
    samples = Samples(request, request.get("samples", SAMPLES_OF_BYTES), as_bytes=True)
    training, us_per_sample = Training(request), []
    for _ in range(request["steps"]):
        start = time.perf_counter()
        training.window(samples.draw())
        synchronize(device)
        us_per_sample.append(1e6 * (time.perf_counter() - start) / request["effective_batch"])
    growth, data = resident_bytes("VmHWM") - before, samples.bytes()
    answer = {"data_bytes": data, "rss_growth_bytes": growth, "peak_bytes": growth - data,
              "us_per_sample": us_per_sample[1:] or us_per_sample}
    if device == "cuda":
        answer["peak_bytes"] = torch.cuda.max_memory_allocated() - data
        answer["reserved_bytes"] = torch.cuda.max_memory_reserved()
    return answer


def measure_way(request, way):
    """Samples per second with the better zero_grad, and on cuda peak memory without the samples."""
    device, size = request["device"], request["effective_batch"]
    most = min(SAMPLES, MOST_VALUES // math.prod(SAMPLE_SHAPES[request["model"]]))
    samples = Samples(request, max(1, most // size) * size, way.channels_last)
    windows, training = samples.windows(), Training(request, way)
    for parameter in training.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    # A graph's next replay overwrites its outputs, so gradients must not be outputs.
    modes = (False,) if way.compiled else (False, True)
    rates, allocated, reserved = [], [], []
    for set_to_none in modes:
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        rates.append(size / median_seconds(
            lambda: training.window(next(windows), set_to_none), request["seconds"] / len(modes),
            device, WINDOWS_TOGETHER if device == "cuda" else 1))
        if device == "cuda":
            allocated.append(torch.cuda.max_memory_allocated() - samples.bytes())
            reserved.append(torch.cuda.max_memory_reserved() - samples.bytes())
    figures = {"samples_per_s": max(rates)}
    return figures if device == "cpu" else {**figures, "peak_allocated_bytes": min(allocated),
                                            "peak_reserved_bytes": min(reserved)}


def measure_speed(request):
    """The figures of each way by its name, or its error (no compiler for torch.compile, say).
    The request may name the ways that it wants."""
    # Computes like accrue: float32 throughout, and tensor cores' shorter TF32 only on request.
    tf32 = request["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    ways = {}
    for way in ways_of(request["model"], request["device"]):
        if way.name not in request.get("ways", [way.name]):
            continue
        try:
            ways[way.name] = measure_way(request, way)
        except Exception as error:  # pylint: disable=broad-except
            ways[way.name] = {"error": f"{type(error).__name__}: {error}"[:500]}
        gc.collect()
        torch.cuda.empty_cache()
    return {"ways": ways}


def measure_rank(request):
    """Seconds a window; the process's peak bytes, and the bytes that training added."""
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo", rank=request["rank"], world_size=request["ranks"])
    # Loads code, which is not part of the training's memory.
    small = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU())
    warm_up = DistributedDataParallel(small)
    warm_up(torch.randn(8, 1, 8, 8)).sum().backward()
    torch.optim.Adam(warm_up.parameters()).step()
    before = resident_bytes("VmRSS")
    training = Training(request)
    training.model = DistributedDataParallel(training.model, gradient_as_bucket_view=True)
    windows = Samples(request, request["effective_batch"]).windows()

    def as_the_first_rank_says(going):
        answer = torch.tensor(float(going))
        distributed.broadcast(answer, 0)
        return bool(answer)

    seconds = median_seconds(lambda: training.window(next(windows)), request["seconds"],
                             together=5, go_on=as_the_first_rank_says)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    growth = resident_bytes("VmRSS") - before
    distributed.destroy_process_group()
    return {"seconds": seconds, "peak_bytes": peak, "growth_bytes": growth}


def describe_torch(device):
    if device == "cuda":
        return (f"PyTorch {torch.__version__} (CUDA {torch.version.cuda},"
                f" cuDNN {torch.backends.cudnn.version()}), {torch.cuda.get_device_name()}")
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    blas = blas.group(1) if blas else "unknown BLAS"
    if blas == "generic":  # the system's BLAS: the process's maps tell which
        loaded = re.search(r"([^/\s]+/lib\w*blas\S*)", pathlib.Path("/proc/self/maps").read_text())
        blas = loaded.group(1) if loaded else blas
    onednn = ", oneDNN" if torch.backends.mkldnn.is_available() else ""
    return f"PyTorch {torch.__version__} ({blas}{onednn})"


def main():
    request = json.loads(sys.argv[1])
    if request["threads"]:
        torch.set_num_threads(request["threads"])
    measure = {"memory": measure_memory, "speed": measure_speed, "rank": measure_rank}[
        request.get("measure", "memory")]
    print(json.dumps({**measure(request), "torch": describe_torch(request["device"])}))


if __name__ == "__main__":
    main()
