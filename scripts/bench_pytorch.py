#!/usr/bin/env python3
"""Measures accrue beside PyTorch on this machine, in one run, and prints a Markdown table.

Same layers, micro-batches, accumulation, Adam and threads on both sides. Every measurement is a
process of its own; accrue and PyTorch take turns for several rounds, and medians are compared.
PyTorch's samples are float tensors in memory; of its two zero_grad modes and, for convolutions, its
two memory formats the fastest counts.

    scripts/bench_pytorch.py                                 samples per second
    scripts/bench_pytorch.py resnet@4:8x4                    of four times the channels (--width 4)
    scripts/bench_pytorch.py --busy 2                        beside two programs that never wait
    scripts/bench_pytorch.py --memory --data DIR             peak memory of training on MNIST
    scripts/bench_pytorch.py --python python3 --python /opt/torch/bin/python
                                                             beside several versions of PyTorch
    scripts/bench_pytorch.py --device cuda --program build/cuda/apps/accrue
                                                             on the GPU, speed and memory: beside
                                                             PyTorch's ways there (torch_cuda.py)

The interpreters named by --python (default: the one that runs this) need torch; no other package.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEED_CONFIGURATIONS = ("mlp:32x4", "mlp:8x16", "mlp:1x32", "mlp:128x1", "cnn:32x4",
                        "resnet:8x8", "unet:8x8", "resnet@4:8x4", "unet@4:8x2")
MEMORY_CONFIGURATIONS = ("mlp:16x4",)
MEMORY_STEPS = 200
SAMPLES_IN_MEMORY = 8192
LEARNING_RATE = 1e-3


class Configuration:
    """MODEL[@WIDTH]:MxK, a model trained by K micro-batches of M samples."""

    def __init__(self, text, precision="fp32"):
        self.text = text
        self.precision = precision
        name, split = text.split(":")
        self.model, _, width = name.partition("@")
        self.width = float(width or 1)
        self.micro_batch, self.accum = (int(number) for number in split.split("x"))
        self.split = f"{self.micro_batch} x {self.accum}"
        self.effective_batch = self.micro_batch * self.accum


# In a process of PyTorch's own; torch is imported nowhere else.


def describe_torch(device):
    import torch

    if device == "cuda":
        return (f"PyTorch {torch.__version__} (CUDA {torch.version.cuda},"
                f" cuDNN {torch.backends.cudnn.version()}), {torch.cuda.get_device_name()}")
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    blas = blas.group(1) if blas else "unknown BLAS"
    if blas == "generic":  # the system's: which one is in the process?
        loaded = re.search(r"([^/\s]+/lib\w*blas\S*)", pathlib.Path("/proc/self/maps").read_text())
        blas = loaded.group(1) if loaded else blas
    onednn = ", oneDNN" if torch.backends.mkldnn.is_available() else ""
    return f"PyTorch {torch.__version__} ({blas}{onednn})"


def window_step(model, optimizer, micro_batches, accum, set_to_none):
    from torch.nn import functional

    for x, y in micro_batches:
        loss = (functional.cross_entropy if y.dim() == 1 else
                functional.binary_cross_entropy_with_logits)
        (loss(model(x), y) / accum).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=set_to_none)


def make_training(configuration):
    import torch
    from reference_models import MODELS, SAMPLE_SHAPES, unet

    torch.manual_seed(1)
    segments = configuration.model == "unet"
    model = (unet if segments else MODELS[configuration.model])(configuration.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    return model, optimizer, (1, 28, 28) if segments else SAMPLE_SHAPES[configuration.model]


def median_window_seconds(seconds, step):
    """Of step(), repeated for so long; the first tenth of the time only warms up."""
    durations, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or not durations:
        start = time.perf_counter()
        step()
        if start - begin >= seconds / 10:
            durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def torch_speed(configuration, seconds):
    """Samples per second on samples that are there already."""
    import torch

    size, micro_batch = configuration.effective_batch, configuration.micro_batch
    count = max(1, SAMPLES_IN_MEMORY // size) * size

    def window_seconds(set_to_none, memory_format):
        model, optimizer, sample_shape = make_training(configuration)
        model = model.to(memory_format=memory_format)
        x = torch.randn(count, *sample_shape)
        if x.dim() == 4:
            x = x.to(memory_format=memory_format)
        segments = configuration.model == "unet"
        y = (torch.rand(count, *sample_shape) < 0.3).float() if segments else \
            torch.randint(10, (count,))
        windows = itertools.cycle(
            list(zip(x[rows].split(micro_batch), y[rows].split(micro_batch)))
            for rows in (slice(start, start + size) for start in range(0, count, size)))
        return median_window_seconds(seconds / len(variants), lambda: window_step(
            model, optimizer, next(windows), configuration.accum, set_to_none))

    formats = [torch.contiguous_format]
    if not configuration.model.startswith("mlp"):
        formats.append(torch.channels_last)
    variants = list(itertools.product((False, True), formats))
    return size / min(window_seconds(*variant) for variant in variants)


def torch_training(configuration, data):
    """Trains on a shuffled data set that is in memory as bytes."""
    import torch
    import idx_io

    model, optimizer, sample_shape = make_training(configuration)
    images, labels = (idx_io.read(data, name) for name in idx_io.FILES[:2])
    windows = torch.randperm(len(images)).split(configuration.effective_batch)
    for window in windows[:MEMORY_STEPS]:
        micro_batches = ((idx_io.pixels(images[rows]).reshape(-1, *sample_shape),
                          labels[rows].long()) for rows in window.split(configuration.micro_batch))
        window_step(model, optimizer, micro_batches, configuration.accum, True)


def torch_process(request):
    """What the process was started for; its answer is one line of JSON."""
    import torch

    torch.set_num_threads(request["threads"])
    answer = {"torch": describe_torch(request["device"])}
    configuration = Configuration(request["configuration"])
    if request["device"] == "cuda":
        import torch_cuda

        configuration.precision = request["precision"]
        answer["variants"] = torch_cuda.measure_all(configuration, request["seconds"],
                                                    SAMPLES_IN_MEMORY)
    elif request["memory"]:
        torch_training(configuration, request["data"])
    else:
        answer["samples_per_s"] = torch_speed(configuration, request["seconds"])
    print(json.dumps(answer))


# In the process that the user started.


def run(command, threads=None):
    """Standard output and peak memory in bytes of a process that must succeed."""
    environment = dict(os.environ)
    if threads:
        for library in ("OMP", "OPENBLAS", "MKL"):
            environment[f"{library}_NUM_THREADS"] = str(threads)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                   env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status  # it has been waited for
        output.seek(0)
        errors.seek(0)
        if status != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{output.read()}{errors.read()}")
        return output.read(), usage.ru_maxrss * 1024


def report_of(command):
    """What a command of accrue writes with --json."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "bench.json"
        run(command + ["--json", str(report)])
        return json.loads(report.read_text())


class Accrue:
    def __init__(self, options):
        self.options = options
        self.name = "accrue"

    def command(self, configuration, *arguments):
        return [str(self.options.program), *arguments, "--model", configuration.model,
                "--width", f"{configuration.width:g}",
                "--micro-batch", str(configuration.micro_batch), "--accum",
                str(configuration.accum), "--optimizer", "adam",
                "--precision", self.options.precision, *self.data_of(configuration),
                "--device", self.options.device, "--threads", str(self.options.threads)]

    def data_of(self, configuration):
        """Networks that take photographs are trained on the user's; digits do for the others."""
        photographs = configuration.model == "resnet50"
        return ["--data", str(self.options.data)] if photographs else []

    def speed(self, configuration, *arguments):
        return report_of(self.command(configuration, "bench", "train") +
                         ["--seconds", str(self.options.seconds), *arguments])["samples_per_s"]

    def ledger_peak(self, configuration):
        """Bytes without the data."""
        report = report_of([str(self.options.program), "bench", "memory",
                            "--model", configuration.model, "--device", self.options.device,
                            "--precision", self.options.precision, *self.data_of(configuration),
                            "--effective-batch", str(configuration.effective_batch),
                            "--micro-batches", str(configuration.micro_batch),
                            "--ways", "fused", "--rounds", "1"])
        peak = report["rows"][-1]["peak_bytes"]
        return peak["total"] - peak["data"]

    def memory(self, configuration):
        return run(self.command(configuration, "train") + [
            "--data", str(self.options.data), "--steps", str(MEMORY_STEPS)])[1]


class PyTorch:
    def __init__(self, options, python):
        self.options = options
        self.python = python
        self.name = f"PyTorch by {python}"

    def process(self, configuration):
        request = {"configuration": configuration.text, "threads": self.options.threads,
                   "seconds": self.options.seconds, "memory": self.options.memory,
                   "device": self.options.device, "data": str(self.options.data),
                   "precision": self.options.precision}
        output, peak_bytes = run([self.python, __file__, "--torch-process", json.dumps(request)],
                                 self.options.threads)
        answer = json.loads(output.splitlines()[-1])
        self.name = answer["torch"]
        return answer, peak_bytes

    def speed(self, configuration):
        return self.process(configuration)[0]["samples_per_s"]

    def memory(self, configuration):
        return self.process(configuration)[1]


@contextlib.contextmanager
def busy_programs(count):
    """Others that never wait, each as if started from a terminal of its own."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                 start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def measure(contestants, configuration, options):
    """By contestant, a figure of each round."""
    figures = [[] for _ in contestants]
    for round_number in range(1, options.rounds + 1):
        for contestant, rounds in zip(contestants, figures):
            print(f"{configuration.text}: round {round_number} of {options.rounds}:"
                  f" {contestant.name}", file=sys.stderr)
            measured = contestant.memory if options.memory else contestant.speed
            rounds.append(measured(configuration))
    return figures


def row(configuration, figures, options):
    """Medians, and accrue's advantage with the range that the rounds span."""
    unit = 1e6 if options.memory else 1
    cells = [configuration.text.split(":")[0], configuration.split]
    for figure in figures:
        cells.append(f"{statistics.median(figure) / unit:,.0f}")
    for other in figures[1:]:
        pairs = list(zip(figures[0], other))
        ratios = sorted(b / a if options.memory else a / b for a, b in pairs)
        middle = statistics.median(other) / statistics.median(figures[0])
        middle = middle if options.memory else 1 / middle
        cells.append(f"{middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return "| " + " | ".join(cells) + " |"


def measure_cuda(configuration, options):
    """By way to train, the samples per second of each round and the peak bytes."""
    accrue, pytorch = Accrue(options), PyTorch(options, (options.python or [sys.executable])[0])
    ways = {}
    for round_number in range(1, options.rounds + 1):
        print(f"{configuration.text}: round {round_number} of {options.rounds}", file=sys.stderr)
        figures = {"accrue": {"samples_per_s": accrue.speed(configuration)},
                   "accrue without graphs": {
                       "samples_per_s": accrue.speed(configuration, "--cuda-graphs", "off")}}
        if round_number == 1:
            figures["accrue"]["peak_allocated_bytes"] = accrue.ledger_peak(configuration)
        figures |= pytorch.process(configuration)[0]["variants"]
        for name, figure in figures.items():
            way = ways.setdefault(name, {"samples_per_s": []})
            if "samples_per_s" in figure:
                way["samples_per_s"].append(figure.pop("samples_per_s"))
            way.update(figure)
    text = configuration.text + (f" {options.precision}" if options.precision != "fp32" else "")
    return {"configuration": text, "ways": ways}, pytorch.name


def cuda_rows(result):
    configuration, ways = Configuration(result["configuration"].split()[0]), result["ways"]
    own = statistics.median(ways["accrue"]["samples_per_s"])
    for name, way in ways.items():
        cells = [configuration.model, configuration.split, name]
        if way["samples_per_s"]:
            rate = statistics.median(way["samples_per_s"])
            cells += [f"{rate:,.0f}", f"{own / rate:.2f}"]
            cells += [f"{way[key] / 1e6:.1f}" if key in way else ""
                      for key in ("peak_allocated_bytes", "peak_reserved_bytes")]
        else:
            cells += [way["error"].replace("|", "/").splitlines()[0][:80], "", "", ""]
        yield "| " + " | ".join(cells) + " |"


def compare_on_cuda(configurations, options):
    results, names = zip(*(measure_cuda(each, options) for each in configurations))
    print(f"{names[0]}; medians of {options.rounds} rounds of {options.seconds:g} s; peak without"
          " the samples\n")
    heads = ["model", "micro-batch x K", "way", "samples/s", "accrue is faster by",
             "peak MB allocated", "reserved"]
    print("| " + " | ".join(heads) + " |\n" + "| --- " * len(heads) + "|")
    print("\n".join(row for result in results for row in cuda_rows(result)))
    if options.json:
        options.json.write_text(json.dumps({"torch": names[0], "results": results}, indent=2))
    return 0


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def main():
    threads = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configurations", nargs="*", type=Configuration, metavar="MODEL[@WIDTH]:MxK",
                        help=f"default: {' '.join(SPEED_CONFIGURATIONS)};"
                             f" with --memory: {' '.join(MEMORY_CONFIGURATIONS)}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures, with --device cuda")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32",
                        help="with --device cuda; PyTorch's bf16 is autocast")
    parser.add_argument("--memory", action="store_true", help="compare peak memory, not speed")
    parser.add_argument("--python", action="append", metavar="PYTHON",
                        help="an interpreter that has torch; may be given again")
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "apps" / "accrue")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data" / "mnist",
                        help="directory of IDX files, for --memory, or of images, for resnet50")
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--busy", type=int, default=0, metavar="N",
                        help="measure beside N programs that never wait")
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.program.is_file():
        parser.error(f"no program {options.program}: build it, or name it with --program")
    configurations = options.configurations or [Configuration(text) for text in (
        MEMORY_CONFIGURATIONS if options.memory else SPEED_CONFIGURATIONS)]
    if options.device == "cuda":
        return compare_on_cuda(configurations, options)
    contestants = [Accrue(options)]
    contestants += [PyTorch(options, python) for python in options.python or [sys.executable]]

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: the machine is busy (load {load:.1f}); figures will mislead",
              file=sys.stderr)
    with busy_programs(options.busy):
        rows = [row(configuration, measure(contestants, configuration, options), options)
                for configuration in configurations]
    beside = f", beside {options.busy} busy programs" if options.busy else ""
    print(f"{processor()}, {options.threads} threads{beside}, load before {load:.1f}; medians of"
          f" {options.rounds} rounds" + ("" if options.memory else f" of {options.seconds:g} s") +
          "; in brackets the range of the rounds\n")
    what = "peak MB" if options.memory else "samples/s"
    heads = ["model", "micro-batch x K"] + [f"{each.name} {what}" for each in contestants]
    heads += [f"{'less' if options.memory else 'faster'} than {each.name.split(' (')[0]} by"
              for each in contestants[1:]]
    print("| " + " | ".join(heads) + " |\n" + "| --- " * len(heads) + "|\n" + "\n".join(rows))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--torch-process"]:
        torch_process(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
