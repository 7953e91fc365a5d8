"""The steps of scripts/gpu_check.py, which measure and test on the GPU."""

import array
import concurrent.futures
import csv
import json
import os
import pathlib
import random
import re
import shutil
import subprocess

from gpu_runs import Runs
from make_satellite import write_png

# Tests of what no GPU has run yet, as names for Catch: attention, the head, products by blocks,
# bias sums, convolutions and what has channels last. Empty it when a GPU has.
CHANGED = ("causal_attention*", "attention*", "linear_cross_entropy*", "add_linear_score*",
           "*quantized*", "linear*", "*16-bit*", "rows of a quantized*", "conv2d*", "batch_norm*",
           "*channels last*")
# Tags of tests that compute on a device, the most telling first; a test belongs to its first tag.
# Tests in ALONE fill the device or depend on its state, so nothing may run beside them.
FIRST = ("ops",)
TOGETHER = ("checkpoint", "zi2zi", "plan",  # these have the longest tests
            "window", "engine", "golden", "passes", "ladder", "precision", "strategies",
            "pitfalls", "recompute", "spectral", "random", "models", "game", "freeze", "packed",
            "averages", "trainer", "text", "layers", "graph")
ALONE = ("faults", "oom", "device-ranks", "offload")
MODELS = ("mlp", "cnn", "resnet", "unet", "zi2zi", "resnet18", "resnet50")
PRECISIONS = ("fp32", "tf32", "bf16")
TIMED_MODEL = "resnet50"  # its convolutions are timed, too
SPLITS = ("32x4", "8x16", "128x1", "1x32", "32x1", "32x8")
# The launches of a micro-step of gpt2, and roughly of TinyLlama with adapters. The profiler skips
# as many, because the first micro-step loads libraries.
MICRO_STEP_LAUNCHES = {"gpt2": 454, "lora": 1300}
PROFILED_LAUNCHES = 1300
VOCABULARIES = {"gpt2": 50257, "lora": 32000}


def write_images(folder, classes=10, of_each=20, size=224):
    """PNG files of noise in a folder for each class, for networks that take photographs."""
    for label in range(classes):
        (folder / f"class{label}").mkdir(parents=True)
        for number in range(of_each):
            write_png(folder / f"class{label}" / f"{number}.png",
                      [os.urandom(3 * size) for _ in range(size)], size, colour_type=2)
    return folder


def write_tokens(path, vocabulary, count=1 << 20):
    """A file in llm.c's format: random tokens, repeated, after a header of 256 numbers."""
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    tokens = array.array("H", random.Random(1).choices(range(vocabulary), k=count // 16)) * 16
    path.write_bytes(header.tobytes() + tokens.tobytes())
    return path


def split(text):
    return ["--micro-batch", text.split("x")[0], "--accum", text.split("x")[1]]


class Steps(Runs):
    # Inputs, each made when it is first asked for.

    def images(self):
        """The folder of images."""
        folder = self.measured / "images"
        return folder if folder.exists() else write_images(folder)

    def tokens(self, model="gpt2"):
        """The file of tokens of a model's vocabulary."""
        path = self.measured / f"tokens-{model}.bin"
        return path if path.exists() else write_tokens(path, VOCABULARIES[model])

    def text(self, model):
        return ["--data", self.tokens(model), "--context", 1024, "--documents", "stream"]

    def base_command(self):
        path = self.measured / "base.safetensors"
        return path, [self.options.program, "train", "--device", "cpu", "--model", "tinyllama",
                      *self.text("lora"), *split("1x1"), "--steps", 0, "--save", path]

    def draw_base(self):
        """Begins to draw base()'s weights, on the processors that tests leave free."""
        if self.options.runner or re.search(self.options.skip, "a base for LoRA"):
            return []
        return [self.start(["nice", *self.base_command()[1]], subprocess.DEVNULL)]

    def base(self):
        """TinyLlama's weights as they are drawn, to which adapters are added."""
        path, command = self.base_command()
        if not path.exists():
            self.step("optional", 30, "a base for LoRA", command)
        return path

    def adapters(self, bits):
        """Options of the training of adapters on TinyLlama in so many bits."""
        return ["--base", self.base(), "--base-bits", bits, "--lora", 8, "--lora-targets", "all",
                *self.text("lora"), "--precision", "bf16", "--optimizer", "adamw"]

    # Tests.

    def machine(self):
        commands = [["nvidia-smi"], ["nvcc", "--version"], [self.options.python, "-c", (
            "import torch; print('PyTorch', torch.__version__, torch.version.cuda,"
            " torch.backends.cudnn.version())")]]
        if self.options.runner:
            commands, gpu = [], "the runner in place of a GPU"
        else:
            gpu = self.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                            "--format=csv,noheader"], 20)[1]
        (self.measured / "gpu.txt").write_text(gpu)
        for command in commands:
            try:
                self.write(" ".join(command[:2]), self.run(command, 20)[1])
            except OSError as error:
                self.write(" ".join(command[:2]), str(error))
        self.step("required", 30, "the program and the device",
                  [self.options.program, "info", "--device", "cuda", "--model", "mlp"])

    def changed_cases(self):
        return list(dict.fromkeys(("changed", name) for pattern in CHANGED
                                  for name in self.names_of(f"{pattern}[ops]~[.]")))

    def sanitizer_works(self):
        """Whether compute-sanitizer takes this device: virtual ones may refuse."""
        if self.options.runner or not self.options.sanitizer:
            return False
        first = self.names_of("[ops]")[:1]
        if not first:
            return False
        output = self.step("optional", 20, "compute-sanitizer takes the device",
                           [self.options.sanitizer, "--tool", "memcheck",
                            *self.test_command(first[0])])
        return "ERROR SUMMARY: 0 errors" in output

    def sanitize(self, tool, limit, title, tested):
        """Checks our own kernels: instrumenting the libraries' kernels is slow and tells nothing
        about ours. Some tests make calls fail on purpose, so a failing call is no finding. The
        shortest tests run first, and most end in time."""
        tested = sorted(tested, key=lambda result: result["seconds"])
        self.run_cases(title, "budget", limit, [(each["tag"], each["name"]) for each in tested],
                       self.options.workers, prefix=(*self.sanitizer(tool), "--kernel-name",
                                                     "kernel_substring=accrue"))

    def sanitizer(self, tool):
        return (self.options.sanitizer, "--tool", tool, "--error-exitcode", "9",
                "--print-limit", "10", "--report-api-errors", "no")

    # Speed.

    def bench(self, name, *arguments, seconds=0.6, least=2, need="required"):
        self.step(need, 40, f"bench train {name}", [
            self.options.program, "bench", "train", "--device", "cuda", "--seconds",
            0.1 if self.options.runner else seconds, *arguments,
            "--json", self.measured / f"train-{name.replace(' ', '-')}.json"], least=least)

    def bench_photographs(self, name, splits, precision, *arguments):
        self.bench(f"resnet50 {splits} {name}", "--model", "resnet50", "--data", self.images(),
                   *split(splits), "--precision", precision, *arguments, seconds=2, least=6)

    def bench_text(self, precision):
        self.bench(f"gpt2 4x2 {precision}", "--model", "gpt2", *self.text("gpt2"), *split("4x2"),
                   "--precision", precision, seconds=2, least=6)

    def bench_changed(self):
        """GPT-2, adapters on TinyLlama in 4 and in 16 bits, a ResNet-50 with channels first and
        last, and one with BatchNorms that see a window, whose activations are kept on the device or
        moved to the host."""
        if self.options.runner:
            return self.leave_out("bench train gpt2 4x2 bf16", "the runner is no GPU")
        self.bench_text("bf16")
        for bits in (4, 16):
            self.bench(f"lora 1x4 {bits} bits", *self.adapters(bits), *split("1x4"), seconds=2,
                       least=8)
        for way in ("first", "last"):
            self.bench_photographs(f"bf16 {way}", "32x2", "bf16", "--channels", way)
        for way in ("keep", "offload"):
            self.bench_photographs(way, "8x8", "bf16", "--batch-norm", "window",
                                   "--batch-norm-by", way)

    def bench_others(self):
        """The splits that users ask for, windows of 1 and of 8 micro-batches of 32, and in each
        precision a ResNet-50 at 224 x 224 pixels and a GPT-2 on rows of 1024 tokens."""
        for text in SPLITS[:1] if self.options.runner else SPLITS:
            for model in ("mlp", "cnn"):
                for graphs in ("on", "off") if text in ("32x4", "1x32") else ("on",):
                    self.bench(f"{model} {text} {graphs}", "--model", model, *split(text),
                               "--cuda-graphs", graphs)
        if self.options.runner:
            return
        self.bench("resnet-bn 32x4 on", "--model", "resnet-bn", *split("32x4"))
        for precision in ("bf16", "tf32", "fp32"):
            self.bench_photographs(precision, "32x2", precision)
        self.bench_photographs("tf32 last", "32x2", "tf32", "--channels", "last")
        for precision in ("tf32", "fp32"):
            self.bench_text(precision)

    def bench_kernels(self):
        small = ["--size", "1MiB"] if self.options.runner else []
        self.step("required", 30, "bench kernels", [
            self.options.program, "bench", "kernels", "--device", "cuda", "--seconds", 6, *small,
            "--json", self.measured / "kernels.json"], least=12)

    def bench_memory(self):
        for model, batch, micro_batches, ways in (
                ("mlp", 128, "32", "fused"), ("cnn", 128, "32", "fused"),
                ("unet", 256, "8,32", "fused,recompute-all,moments"),
                ("resnet", 256, "8,32", "fused,recompute-all,moments")):
            if self.options.runner and model != "mlp":
                continue
            self.step("required", 40, f"bench memory {model}", [
                self.options.program, "bench", "memory", "--device", "cuda", "--model", model,
                "--effective-batch", batch, "--micro-batches", micro_batches, "--ways", ways,
                "--steps", 3, "--rounds", 1, "--json", self.measured / f"memory-{model}.json"])

    def convolutions(self):
        """Records the algorithms that cuDNN's heuristics give, for every shape in the models."""
        if self.is_left_out("convolutions", "required"):
            return
        clock, failures = self.schedule.clock, []
        start = clock.now()
        jobs = [(model, precision) for model in MODELS for precision in PRECISIONS]

        def one(job):
            model, precision = job
            return job, self.run([
                self.options.program, "info", "--device", "cuda", "--model", model, "--precision",
                precision, "--micro-batch", "32", "--quiet",
                *(("--time-convolutions", "3") if model == TIMED_MODEL else ()), "--json",
                self.measured / f"convolutions-{model}-{precision}.json"],
                max(0, min(25, self.left())))

        with concurrent.futures.ThreadPoolExecutor(self.options.workers) as pool:
            results = list(pool.map(one, [job for job in jobs if job[0] != TIMED_MODEL]))
            results += map(one, [job for job in jobs if job[0] == TIMED_MODEL])  # undisturbed
            for job, (status, output, _) in results:
                self.write(f"convolutions of {job[0]}, {job[1]}", output)
                if status != 0:
                    failures.append("-".join(job))
        self.record("convolutions", "failed" if failures else "passed", clock.now() - start,
                    "required", ", ".join(failures))

    # Beside PyTorch.

    def has_torch(self):
        return self.run([self.options.python, "-c",
                         "import torch, sys; sys.exit(not torch.cuda.is_available())"], 60)[0] == 0

    def warm_up_pytorch(self, jobs):
        """Starts torch.compile, which needs minutes of a processor and keeps what it has compiled.
        Nothing may be timed before end_warm_up()."""
        jobs = [job for job in jobs
                if not re.search(self.options.skip, f"beside PyTorch, {job[0]}")]
        if self.options.runner or not jobs or not self.has_torch():
            return []
        return [self.start(["nice", self.options.python, "scripts/torch_training.py", json.dumps(
            {"measure": "speed", "model": model, "width": 1, "micro_batch": micro_batch,
             "effective_batch": micro_batch * accum, "device": "cuda", "precision": precision,
             "threads": 4, "seconds": 0.1, "ways": ["compiled"]})], subprocess.DEVNULL)
                for model, micro_batch, accum, precision in jobs]

    def end_warm_up(self, processes, limit=20):
        """Waits for them, and ends them if they take longer: nothing is measured beside them."""
        over, late = self.schedule.clock.now() + max(0, min(limit, self.left() - 20)), 0
        for process in processes:
            try:
                process.wait(timeout=max(0.1, over - self.schedule.clock.now()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                late += 1
        if late:
            self.leave_out("warm-ups", f"{late} of {len(processes)} ended early")

    def pytorch_file(self, job):
        _, _, configuration, precision = job
        return self.measured / f"pytorch-{configuration.replace(':', '-')}-{precision}.json"

    def beside_pytorch(self, jobs):
        """In turns, one after another. A job has a limit, the seconds that it needs at least, a
        configuration and a precision."""
        if self.options.runner or not self.has_torch():
            self.leave_out("beside PyTorch", "the runner is no GPU" if self.options.runner else
                           "no PyTorch that can use the GPU")
            return
        for job in jobs:
            limit, least, configuration, precision = job
            data = {"resnet50": self.images, "gpt2": self.tokens}.get(configuration.split(":")[0])
            self.step("optional", limit, f"beside PyTorch, {configuration}, {precision}", [
                self.options.python, "scripts/bench_pytorch.py", "--device", "cuda", "--program",
                self.options.program, "--rounds", 1, "--seconds", 1.5, "--precision", precision,
                *(["--brief", "--data", data()] if data else []),
                "--json", self.pytorch_file(job), configuration], least=least)

    # The profiler.

    def profiler(self):
        return shutil.which("ncu") or next(
            map(str, pathlib.Path("/usr/local").glob("cuda*/bin/ncu")), None)

    def time_per_kernel(self, models):
        """Lets the profiler tell where the device's time goes, in windows without graphs. The
        page keeps whatever it has measured when its time is over."""
        profiler = self.profiler()
        if self.options.runner or not profiler:
            self.leave_out("time per kernel", "the runner is no GPU" if self.options.runner else
                           "no ncu here")
            return
        kinds = {
            "gpt2": lambda: ["--model", "gpt2", *self.text("gpt2"), "--precision", "bf16",
                             "--micro-batch", 4],
            "lora": lambda: [*self.adapters(4), "--micro-batch", 1],
            "resnet50": lambda: ["--model", "resnet50", "--data", self.images(), "--precision",
                                 "bf16", "--micro-batch", 32]}
        for model, limit, skip, count in models:
            arguments = kinds.get(model, lambda model=model: [
                "--model", model, "--data", "digits", "--micro-batch", 32])()
            output = self.step("optional", limit, f"time per kernel, {model}", [
                profiler, "--clock-control", "none", "--csv", "--print-kernel-base", "demangled",
                "--metrics", "gpu__time_duration.sum,dram__bytes.sum", "--launch-skip", skip,
                "--launch-count", count, "--kill", "yes", self.options.program, "train",
                "--device", "cuda", *arguments, "--accum", 1, "--steps", 5, "--cuda-graphs",
                "off"], least=15, ended=self.options.program)
            launches = launches_of(output)
            if launches:
                (self.measured / f"ncu-{model}.json").write_text(json.dumps(
                    {"kernels": kernels_of(launches), "head": head_of(launches)}))


def launches_of(output):
    """Each launch's kernel, microseconds and bytes of device memory, from ncu's --csv, whose last
    line may be cut off. Launches without a time are left out."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    launches = {}
    for row in csv.DictReader(lines):
        try:
            value = float((row.get("Metric Value") or "").replace(",", ""))
        except ValueError:  # cut off, or "n/a" where the device does not tell
            continue
        launch = launches.setdefault(row["ID"], {"name": row["Kernel Name"], "us": 0.0,
                                                 "bytes": 0.0})
        unit = row["Metric Unit"]
        if row["Metric Name"].startswith("gpu__time"):
            launch["us"] = value * {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3,
                                    "msecond": 1e3}.get(unit, 1)
        else:
            launch["bytes"] = value * {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}.get(unit, 1)
    return [launch for launch in launches.values() if launch["us"]]


def short_name(kernel):
    """A kernel's name with its template's arguments, and without its own."""
    name, depth = kernel.removeprefix("void ").replace("(anonymous namespace)::", ""), 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:i]
    return name


def kernels_of(launches):
    """The sums of each kernel's launches, the longest first."""
    kernels = {}
    for launch in launches:
        name = short_name(launch["name"])
        kernel = kernels.setdefault(name, {"name": name, "launches": 0, "us": 0.0, "bytes": 0.0})
        kernel["launches"] += 1
        kernel["us"] += launch["us"]
        kernel["bytes"] += launch["bytes"]
    return sorted(kernels.values(), key=lambda kernel: -kernel["us"])


def head_of(launches, around=3):
    """The launches around the first softmax over logits, with the whole names of their kernels:
    they say how a library multiplies by the vocabulary's size."""
    for i, launch in enumerate(launches):
        if any(kernel in launch["name"] for kernel in ("logit_softmax", "logit_loss")):
            return launches[max(0, i - around):i + around + 1]
    return []
