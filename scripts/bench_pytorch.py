#!/usr/bin/env python3
"""Measures accrue beside PyTorch on this machine, in one run, and prints a Markdown table.

Both sides have the same layers, micro-batches, accumulation, Adam and threads. Every measurement
is a separate process; accrue and PyTorch take turns for several rounds, and the table compares
medians. PyTorch (torch_training.py) has its samples in memory as floats. Each of its ways to train
has a row, in which the faster of its two zero_grad modes counts.

    scripts/bench_pytorch.py                                 samples per second
    scripts/bench_pytorch.py resnet@4:8x4                    four times the channels (--width 4)
    scripts/bench_pytorch.py --busy 2                        beside two programs that never wait
    scripts/bench_pytorch.py --memory --data DIR             peak memory of training on MNIST
    scripts/bench_pytorch.py --python python3 --python /opt/torch/bin/python
                                                             beside several versions of PyTorch
    scripts/bench_pytorch.py --device cuda --program build/cuda/apps/accrue
                                                             on the GPU, speed and memory

The interpreters named by --python (default: the one that runs this) need torch alone.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from gpu_summary import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH_TRAINING = str(ROOT / "scripts" / "torch_training.py")
SPEED_CONFIGURATIONS = ("mlp:32x4", "mlp:8x16", "mlp:1x32", "mlp:128x1", "cnn:32x4",
                        "resnet:8x8", "unet:8x8", "resnet@4:8x4", "unet@4:8x2")
MEMORY_CONFIGURATIONS = ("mlp:16x4",)
MEMORY_STEPS, MNIST_IMAGES = 200, 70000
HEADS = {"speed": ("samples/s", "accrue is faster by"),
         "memory": ("peak MB", "accrue takes less by")}


class Configuration:
    """MODEL[@WIDTH]:MxK, a model trained by K micro-batches of M samples."""

    def __init__(self, text):
        self.text = text
        name, split = text.split(":")
        self.model, _, width = name.partition("@")
        self.width = float(width or 1)
        self.micro_batch, self.accum = (int(number) for number in split.split("x"))
        self.effective_batch = self.micro_batch * self.accum


def run(command, threads=None):
    """Standard output and peak memory in bytes of a process that must succeed."""
    environment = dict(os.environ)
    if threads:
        environment.update({f"{library}_NUM_THREADS": str(threads)
                            for library in ("OMP", "OPENBLAS", "MKL")})
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                   env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status  # wait4() has already reaped it
        output.seek(0)
        errors.seek(0)
        if status != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{output.read()}{errors.read()}")
        return output.read(), usage.ru_maxrss * 1024


def last_json(output):
    return json.loads(output.splitlines()[-1])


def report_of(command):
    """The JSON that a command of accrue writes with --json."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "bench.json"
        run([str(word) for word in command] + ["--json", str(report)])
        return json.loads(report.read_text())


@contextlib.contextmanager
def busy_programs(count):
    """Runs other programs that never wait, each as if started from another terminal."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                 start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def load_before():
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: the machine is busy (load {load:.1f}); figures will mislead",
              file=sys.stderr)
    return load


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


class Accrue:
    def __init__(self, options):
        self.options = options

    def network(self, configuration):
        """Networks for photographs and for text train on the user's data, others on digits."""
        data = ["--data", self.options.data] if configuration.model in ("resnet50", "gpt2") else []
        if configuration.model == "gpt2":
            data += ["--context", 1024, "--documents", "stream"]
        return ["--model", configuration.model, "--width", f"{configuration.width:g}",
                "--precision", self.options.precision, "--device", self.options.device,
                *data]

    def training(self, configuration):
        return [*self.network(configuration), "--micro-batch", configuration.micro_batch,
                "--accum", configuration.accum, "--optimizer", "adam",
                "--threads", self.options.threads]

    def speed(self, configuration, *arguments):
        command = [self.options.program, "bench", "train", *self.training(configuration),
                   "--seconds", self.options.seconds, *arguments]
        return {"samples_per_s": report_of(command)["samples_per_s"]}

    def ledger_peak(self, configuration):
        """The peak memory in accrue's ledger, without the data."""
        report = report_of([self.options.program, "bench", "memory", *self.network(configuration),
                            "--effective-batch", configuration.effective_batch, "--micro-batches",
                            configuration.micro_batch, "--ways", "fused", "--rounds", 1])
        peak = report["rows"][-1]["peak_bytes"]
        return {"peak_allocated_bytes": peak["total"] - peak["data"]}

    def memory(self, configuration):
        command = [self.options.program, "train", *self.training(configuration),
                   "--data", self.options.data, "--steps", MEMORY_STEPS]
        return {"peak_bytes": run([str(word) for word in command])[1]}

    def measure(self, configuration, is_first):
        if self.options.memory:
            return {"accrue": self.memory(configuration)}
        ways = {"accrue": self.speed(configuration)}
        if self.options.device == "cuda":
            if not self.options.brief:
                ways["accrue without graphs"] = self.speed(configuration, "--cuda-graphs", "off")
            if is_first:
                ways["accrue"].update(self.ledger_peak(configuration))
        return ways


class PyTorch:
    def __init__(self, options, python):
        self.options, self.python, self.name = options, python, f"PyTorch by {python}"

    def measure(self, configuration, _):
        options = self.options
        request = {"model": configuration.model, "width": configuration.width,
                   "micro_batch": configuration.micro_batch, "samples": MNIST_IMAGES,
                   "effective_batch": configuration.effective_batch, "steps": MEMORY_STEPS,
                   "measure": "memory" if options.memory else "speed", "seconds": options.seconds,
                   "device": options.device, "precision": options.precision,
                   "threads": options.threads}
        output, peak_bytes = run([self.python, TORCH_TRAINING, json.dumps(request)],
                                 options.threads)
        answer = last_json(output)
        self.name = answer["torch"]
        ways = {"PyTorch": {"peak_bytes": peak_bytes}} if options.memory else answer["ways"]
        if len(options.python) == 1:
            return ways
        return {f"{self.name}, {name}": way for name, way in ways.items()}


def measure(contestants, configuration, options):
    """For each way to train, a figure of each round, and the figures that were measured once."""
    key = "peak_bytes" if options.memory else "samples_per_s"
    ways = {}
    for round_number in range(1, options.rounds + 1):
        print(f"{configuration.text}: round {round_number} of {options.rounds}", file=sys.stderr)
        for contestant in contestants:
            for name, figures in contestant.measure(configuration, round_number == 1).items():
                way = ways.setdefault(name, {key: []})
                if key in figures:
                    way[key].append(figures.pop(key))
                way.update(figures)
    return ways


def rows(configuration, ways, options):
    """Medians, and accrue's advantage with the range that the rounds span."""
    key, unit = ("peak_bytes", 1e6) if options.memory else ("samples_per_s", 1)
    own = ways["accrue"][key]
    for name, way in ways.items():
        cells = [configuration.text.split(":")[0],
                 f"{configuration.micro_batch} x {configuration.accum}", name]
        if not way[key]:
            yield cells + [way["error"].replace("|", "/").splitlines()[0][:80], "", "", ""]
            continue
        ratios = sorted(theirs / ours if options.memory else ours / theirs
                        for ours, theirs in zip(own, way[key]))
        middle = statistics.median(own) / statistics.median(way[key])
        middle = 1 / middle if options.memory else middle
        yield cells + [f"{statistics.median(way[key]) / unit:,.0f}",
                       f"{middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                       *(f"{way[peak] / 1e6:.1f}" if peak in way else ""
                         for peak in ("peak_allocated_bytes", "peak_reserved_bytes"))]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configurations", nargs="*", type=Configuration,
                        metavar="MODEL[@WIDTH]:MxK",
                        help=f"default: {' '.join(SPEED_CONFIGURATIONS)};"
                             f" with --memory: {' '.join(MEMORY_CONFIGURATIONS)}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32",
                        help="with --device cuda; PyTorch's bf16 is autocast")
    parser.add_argument("--brief", action="store_true",
                        help="with --device cuda: leave out accrue without CUDA graphs")
    parser.add_argument("--memory", action="store_true", help="compare peak memory, not speed")
    parser.add_argument("--python", action="append", metavar="PYTHON",
                        help="an interpreter that has torch; may be given again")
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "apps" / "accrue")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data" / "mnist",
                        help="directory of IDX files, for --memory, or of images, for resnet50;"
                             " for gpt2 a file of llm.c's tokens")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--busy", type=int, default=0, metavar="N",
                        help="measure beside N programs that never wait")
    parser.add_argument("--seconds", type=float, default=4, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.program.is_file():
        parser.error(f"no program {options.program}: build it, or name it with --program")
    options.configurations = options.configurations or [Configuration(text) for text in (
        MEMORY_CONFIGURATIONS if options.memory else SPEED_CONFIGURATIONS)]
    options.python = options.python or [sys.executable]
    return options


def main():
    options, load = parse(), load_before()
    pytorch = [PyTorch(options, python) for python in options.python]
    with busy_programs(options.busy):
        results = [(configuration, measure([Accrue(options), *pytorch], configuration, options))
                   for configuration in options.configurations]
    names = "; ".join(each.name for each in pytorch)
    beside = f", beside {options.busy} busy programs" if options.busy else ""
    print(f"{names}; {processor()}, {options.threads} threads{beside}, load before {load:.1f};"
          f" medians of {options.rounds} rounds"
          + ("" if options.memory else f" of {options.seconds:g} s")
          + "; in brackets the range of the rounds; peaks without the samples\n")
    heads = ["model", "micro-batch x K", "way", *HEADS["memory" if options.memory else "speed"]]
    if options.device == "cuda":
        heads += ["peak MB allocated", "reserved"]
    print(table(heads, [row[:len(heads)] for result in results for row in rows(*result, options)]))
    if options.json:
        precision = f" {options.precision}" if options.precision != "fp32" else ""
        options.json.write_text(json.dumps({"torch": names, "results": [
            {"configuration": each.text + precision, "ways": ways} for each, ways in results]},
            indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
