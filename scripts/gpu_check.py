#!/usr/bin/env python3
"""Runs every check that needs a GPU, the most useful first, and ends in time.

    scripts/gpu_check.py OUT_DIR --bundle FILE    program and tests of scripts/gpu_bundle.sh
    scripts/gpu_check.py OUT_DIR                  builds both here for the machine's GPU first

Each step has a limit of time, and so have all steps together: a step that no longer fits is not
begun and counts as not reached. After every step OUT_DIR has a new summary.md (a page),
results.json and log.txt; the measurements behind them stay in build/gpu-measured. With --failed,
only the checks that failed in an earlier call are repeated, under memcheck and with launches that
wait for their end. Exits with 1 if a required check failed. Needs no network; changes nothing about
the GPU.
"""

import argparse
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
import sys
import time

import gpu_machine
import gpu_summary
from gpu_machine import ROOT
from make_satellite import write_png

# Tags of tests that compute on a device, the most telling first; a test belongs to its first tag.
# Tests in ALONE fill the device or depend on its state, so nothing may run beside them.
FIRST = ("ops",)
TOGETHER = ("checkpoint", "zi2zi", "plan",  # these have the longest tests
            "window", "engine", "golden", "passes", "ladder", "precision", "strategies",
            "pitfalls", "recompute", "spectral", "random", "models", "game", "freeze", "packed",
            "averages", "trainer", "text")
ALONE = ("faults", "oom", "device-ranks")
MODELS = ("mlp", "cnn", "resnet", "unet", "zi2zi", "resnet18", "resnet50")
PRECISIONS = ("fp32", "tf32", "bf16")
TIMED_MODEL = "resnet50"  # its convolutions are timed, too
SPLITS = ("32x4", "8x16", "128x1", "1x32", "32x1", "32x8")
ROOM = 4  # seconds kept for the summary
LONGEST_TEST = 60  # seconds


def write_images(folder, classes=10, of_each=20, size=224):
    """PNG files of noise in a folder for each class, for networks that take photographs."""
    for label in range(classes):
        (folder / f"class{label}").mkdir(parents=True)
        for number in range(of_each):
            write_png(folder / f"class{label}" / f"{number}.png",
                      [os.urandom(3 * size) for _ in range(size)], size, colour_type=2)
    return folder


def write_tokens(path, vocabulary=50257, count=1 << 20):
    """A file in llm.c's format: random tokens of GPT-2 after a header of 256 numbers."""
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    tokens = array.array("H", random.Random(1).choices(range(vocabulary), k=count))
    path.write_bytes(header.tobytes() + tokens.tobytes())
    return path


def tail(text, lines=25):
    return "\n".join(text.splitlines()[-lines:])


class Check:
    """Runs steps within the time and records their outcomes."""

    def __init__(self, options, measured):
        self.options, self.measured = options, measured
        self.deadline = options.end - ROOM
        shutil.rmtree(self.measured, ignore_errors=True)
        self.measured.mkdir(parents=True)
        self.log = open(self.measured / "log.txt", "w", encoding="utf-8")
        self.environment = {**os.environ, "ACCRUE_TEST_PROGRAM": str(options.program),
                            "ACCRUE_TEST_SOURCES": str(ROOT)}

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, command, limit, environment=None):
        """Runs a command; returns its status (None: stopped by the limit), output and seconds."""
        start = time.monotonic()
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT, start_new_session=True,
            env={**self.environment, **(environment or {})})
        try:
            output = process.communicate(timeout=max(0.1, min(limit, self.left())))[0]
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, status = process.communicate()[0], None
        return status, output, time.monotonic() - start

    def write(self, heading, text):
        print(f"\n=== {heading}\n{text.rstrip()}", file=self.log, flush=True)

    def record(self, name, status, seconds, need, note=""):
        print(f"{status:8s} {seconds:4.0f} s  {name}{': ' + note if note else ''}", flush=True)
        line = {"step": name, "status": status, "seconds": round(seconds), "need": need}
        with open(self.measured / "steps.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line | ({"note": note} if note else {})) + "\n")
        self.summarize()

    def summarize(self):
        status = gpu_summary.main(self.measured, self.options.out)
        shutil.copy(self.measured / "log.txt", self.options.out)
        return status

    def leave_out(self, name, why):
        self.record(name, "skipped", 0, "optional", why)

    def is_left_out(self, name, need):
        """Records a step that --skip names."""
        found = re.search(self.options.skip, name)
        if found:
            self.record(name, "skipped", 0, need)
        return found

    def step(self, need, limit, name, command, environment=None):
        """Runs a command as a step; returns its output. need: required; optional (its failure is
        reported but fails nothing); or budget (required, but the limit may stop it)."""
        if self.is_left_out(name, need):
            return ""
        if self.left() < 2:
            self.record(name, "left", 0, need, "no time was left")
            return ""
        status, output, seconds = self.run(command, limit, environment)
        self.write(f"{name}: {' '.join(map(str, command))}", output)
        if status is None:
            self.record(name, "stopped" if need == "budget" else "failed", seconds, need,
                        f"stopped after {seconds:.0f} s")
        else:
            self.record(name, "failed" if status else "passed", seconds, need,
                        tail(output, 1) if status else "")
            if status:
                print(tail(output, 12))
        return output

    # The tests.

    def names_of(self, specification):
        """The names of the tests that a specification for Catch selects."""
        for arguments in (["--list-test-names-only"], ["--list-tests", "--verbosity", "quiet"]):
            output = self.run([self.options.tests, *arguments, specification], 30)[1]
            names = [line.strip() for line in output.splitlines() if line.strip()]
            if names and not names[0].startswith(("Error", "Unrecognised", "error")):
                return [name for name in names if not name.startswith("Switching to")]
        return []

    def cases(self, tags):
        """(tag, name) of each test: first all with the first tag, then the rest with the second,
        and so on."""
        listed, seen = [], set()
        for tag in tags:
            new = [name for name in self.names_of(f"[{tag}]~[.]") if name not in seen]
            seen.update(new)
            listed += [(tag, name) for name in new]
        return listed

    def test_command(self, name):
        pattern = re.sub(r"([\\,\[\]\"])", r"\\\1", name)
        return [self.options.tests, "--device", "cuda", pattern]

    def run_case(self, name, limit, prefix=(), environment=None):
        status, output, seconds = self.run([*prefix, *self.test_command(name)], limit, environment)
        if status is None:
            result = "stopped"
        elif status or re.search(r"^SKIPPED:|No test(s| cases) (ran|matched)", output, re.M):
            result = "failed"
        else:
            result = "passed"
        return {"name": name, "status": result, "seconds": round(seconds, 2),
                "output": "" if result == "passed" else tail(output, 40)}

    def run_cases(self, title, need, limit, cases, workers, prefix=(), environment=None):
        """Runs each test in a process, several at once. Writes cases-TITLE.json; a test for which
        no time was left is 'left'."""
        if self.is_left_out(title, need):
            return []
        start, over = time.monotonic(), time.monotonic() + min(limit, max(0, self.left()))

        def one(case):
            tag, name = case
            left = over - time.monotonic()
            if left < 0.5:
                return {"tag": tag, "name": name, "status": "left", "seconds": 0, "output": ""}
            return {"tag": tag,
                    **self.run_case(name, min(left, LONGEST_TEST), prefix, environment)}

        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(one, cases))
        stem = title.replace(" ", "-")
        (self.measured / f"cases-{stem}.json").write_text(json.dumps({"cases": results}, indent=1))
        counts = {status: sum(result["status"] == status for result in results)
                  for status in ("passed", "failed", "stopped", "left")}
        for result in results:
            if result["status"] in ("failed", "stopped"):
                self.write(f"{title}: {result['status']}: {result['name']}", result["output"])
                print(f"    {result['status']}: [{result['tag']}] {result['name']}")
        note = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        late = counts["stopped"] + counts["left"]
        status = "passed"
        if counts["failed"] or not results or late and need != "budget":
            status = "failed"
        elif late:
            status = "stopped"
        self.record(title, status, time.monotonic() - start, need, note or "no tests")
        return results

    # The steps, in order.

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

    def sanitizer_works(self):
        """Whether compute-sanitizer takes this device: virtual ones may refuse."""
        if not self.options.sanitizer:
            return False
        first = self.names_of("[ops]")[:1]
        if not first:
            return False
        output = self.step("optional", 40, "compute-sanitizer takes the device",
                           [self.options.sanitizer, "--tool", "memcheck",
                            *self.test_command(first[0])])
        return "ERROR SUMMARY: 0 errors" in output

    def convolutions(self):
        """Records the algorithms that cuDNN's heuristics give, for every shape in the models."""
        if self.is_left_out("convolutions", "required"):
            return
        start, failures = time.monotonic(), []
        jobs = [(model, precision) for model in MODELS for precision in PRECISIONS]

        def one(job):
            model, precision = job
            return job, self.run([
                self.options.program, "info", "--device", "cuda", "--model", model, "--precision",
                precision, "--micro-batch", "32", "--quiet",
                *(("--time-convolutions", "3") if model == TIMED_MODEL else ()), "--json",
                self.measured / f"convolutions-{model}-{precision}.json"], 25)

        with concurrent.futures.ThreadPoolExecutor(self.options.workers) as pool:
            results = list(pool.map(one, [job for job in jobs if job[0] != TIMED_MODEL]))
            results += map(one, [job for job in jobs if job[0] == TIMED_MODEL])  # undisturbed
            for job, (status, output, _) in results:
                self.write(f"convolutions of {job[0]}, {job[1]}", output)
                if status != 0:
                    failures.append("-".join(job))
        self.record("convolutions", "failed" if failures else "passed", time.monotonic() - start,
                    "required", ", ".join(failures))

    def warm_up_pytorch(self):
        """Starts torch.compile, which needs minutes of a processor that the tests leave free."""
        requests = [{"measure": "speed", "model": model, "width": 1, "micro_batch": micro_batch,
                     "effective_batch": micro_batch * accum, "device": "cuda",
                     "precision": precision, "threads": 4, "seconds": 0.1}
                    for model, micro_batch, accum, precision in (
                        ("mlp", 32, 4, "fp32"), ("cnn", 32, 4, "fp32"), ("gpt2", 4, 2, "bf16"))
                    if not re.search(self.options.skip, f"beside PyTorch, {model}")]
        if self.options.runner or not requests or not self.has_torch():
            return []
        return [subprocess.Popen(["nice", self.options.python, "scripts/torch_training.py",
                                  json.dumps(request)], cwd=ROOT,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
                for request in requests]

    def images(self):
        """The folder of images, made when it is first asked for."""
        folder = self.measured / "images"
        return folder if folder.exists() else write_images(folder)

    def tokens(self):
        """The file of tokens, made when it is first asked for."""
        path = self.measured / "tokens.bin"
        return path if path.exists() else write_tokens(path)

    def bench_train(self):
        """Measures the splits that users ask for, and windows of 1 and of 8 micro-batches of 32.
        In each precision also measures a ResNet-50 at 224 x 224 pixels and a GPT-2 on rows of 1024
        tokens; the ResNet-50 also with BatchNorms that see a window, kept or offloaded."""
        def bench(name, *arguments, seconds=0.6):
            self.step("required", 40, f"bench train {name}", [
                self.options.program, "bench", "train", "--device", "cuda", "--seconds",
                0.1 if self.options.runner else seconds, *arguments,
                "--json", self.measured / f"train-{name.replace(' ', '-')}.json"])

        def split(text):
            return ["--micro-batch", text.split("x")[0], "--accum", text.split("x")[1]]

        for text in SPLITS[:1] if self.options.runner else SPLITS:
            for model in ("mlp", "cnn"):
                for graphs in ("on", "off") if text in ("32x4", "1x32") else ("on",):
                    bench(f"{model} {text} {graphs}", "--model", model, *split(text),
                          "--cuda-graphs", graphs)
        if self.options.runner:
            return
        bench("resnet-bn 32x4 on", "--model", "resnet-bn", *split("32x4"))
        for precision in ("bf16", "fp32", "tf32"):
            bench(f"resnet50 32x2 {precision}", "--model", "resnet50", "--data", self.images(),
                  *split("32x2"), "--precision", precision, seconds=2)
            bench(f"gpt2 4x2 {precision}", "--model", "gpt2", "--data", self.tokens(),
                  "--context", 1024, "--documents", "stream", *split("4x2"),
                  "--precision", precision, seconds=2)
        for way in ("keep", "offload"):
            bench(f"resnet50 8x8 {way}", "--model", "resnet50", "--data", self.images(),
                  *split("8x8"), "--precision", "bf16", "--batch-norm", "window",
                  "--batch-norm-by", way, seconds=2)

    def bench_kernels(self):
        small = ["--size", "1MiB"] if self.options.runner else []
        self.step("required", 60, "bench kernels", [
            self.options.program, "bench", "kernels", "--device", "cuda", "--seconds", 6, *small,
            "--json", self.measured / "kernels.json"])

    def bench_memory(self):
        for model, batch, micro_batches, ways in (
                ("mlp", 128, "32", "fused"), ("cnn", 128, "32", "fused"),
                ("unet", 256, "8,32", "fused,recompute-all,moments"),
                ("resnet", 256, "8,32", "fused,recompute-all,moments")):
            if self.options.runner and model != "mlp":
                continue
            self.step("required", 60, f"bench memory {model}", [
                self.options.program, "bench", "memory", "--device", "cuda", "--model", model,
                "--effective-batch", batch, "--micro-batches", micro_batches, "--ways", ways,
                "--steps", 3, "--rounds", 1, "--json", self.measured / f"memory-{model}.json"])

    def beside_pytorch(self):
        if self.options.runner or not self.has_torch():
            self.leave_out("beside PyTorch", "the runner is no GPU" if self.options.runner else
                           "no PyTorch that can use the GPU")
            return
        jobs = [(60, "resnet50:32x2", f"resnet50 32x2, {precision}", f"resnet50-{precision}",
                 "--precision", precision, "--data", self.images())
                for precision in reversed(PRECISIONS)]
        jobs += [(80, "gpt2:4x2", f"gpt2 4x2, {precision}", f"gpt2-{precision}",
                  "--precision", precision, "--data", self.tokens())
                 for precision in ("bf16", "tf32")]
        jobs += [(80, each, each, each.replace(":", "-")) for each in ("mlp:32x4", "cnn:32x4")]
        for limit, configuration, name, file, *arguments in jobs:
            self.step("optional", limit, f"beside PyTorch, {name}", [
                self.options.python, "scripts/bench_pytorch.py", "--device", "cuda", "--program",
                self.options.program, "--rounds", 1, "--seconds", 1.5, *arguments,
                "--json", self.measured / f"pytorch-{file}.json", configuration])

    def time_per_kernel(self):
        """Lets the profiler tell where the device's time goes, in two windows without graphs."""
        profiler = shutil.which("ncu") or next(
            map(str, pathlib.Path("/usr/local").glob("cuda*/bin/ncu")), None)
        if self.options.runner or not profiler:
            self.leave_out("time per kernel", "the runner is no GPU" if self.options.runner else
                           "no ncu here")
            return
        # Skips the first micro-step, which loads libraries, and then profiles a few micro-steps.
        for model, skip, count, *arguments in (
                ("mlp", 60, 200, "--data", "digits"), ("cnn", 60, 240, "--data", "digits"),
                ("resnet-bn", 400, 800, "--data", "digits"),
                ("gpt2", 500, 500, "--data", self.tokens(), "--precision", "bf16", "--context",
                 1024, "--documents", "stream", "--micro-batch", 4),
                ("resnet50", 1500, 1500, "--data", self.images(), "--precision", "bf16")):
            output = self.step("optional", 60, f"time per kernel, {model}", [
                profiler, "--clock-control", "none", "--csv", "--metrics",
                "gpu__time_duration.sum,dram__bytes.sum", "--launch-skip", skip, "--launch-count",
                count, self.options.program, "train", "--device", "cuda", "--model", model,
                *(() if "--micro-batch" in arguments else ("--micro-batch", 32)), *arguments,
                "--accum", 1, "--steps", 5, "--cuda-graphs", "off"])
            kernels = kernels_of(output)
            if kernels:
                (self.measured / f"ncu-{model}.json").write_text(json.dumps({"kernels": kernels}))

    def sanitize(self, tool, limit, ops):
        """Checks our own kernels: instrumenting the libraries' kernels is slow and tells nothing
        about ours. Some tests make calls fail on purpose, so a failing call is no finding. The
        shortest tests run first, and most end in time."""
        ops = sorted(ops, key=lambda result: result["seconds"])
        self.run_cases(tool, "budget", limit, [(result["tag"], result["name"]) for result in ops],
                       self.options.workers, prefix=(*self.sanitizer(tool), "--kernel-name",
                                                     "kernel_substring=accrue"))

    def sanitizer(self, tool):
        return (self.options.sanitizer, "--tool", tool, "--error-exitcode", "9",
                "--print-limit", "10", "--report-api-errors", "no")

    def everything(self):
        options = self.options
        self.machine()
        memcheck = not options.runner and self.sanitizer_works()
        few = 3 if options.runner else None  # to try the script, not the kernels
        ops = self.run_cases("ops", "required", 75, self.cases(FIRST)[:few], options.workers)
        self.convolutions()
        warming = self.warm_up_pytorch()
        others = [case for case in self.cases(FIRST + TOGETHER) if case[0] not in FIRST]
        alone = self.cases(ALONE)
        self.run_cases("tests", "required", 110,
                       [case for case in others if case not in alone][:few], options.workers)
        self.run_cases("tests alone", "required", 30, alone[:few], 1)
        self.bench_train()
        self.time_per_kernel()
        self.bench_kernels()
        self.bench_memory()
        for process in warming:
            try:
                process.wait(timeout=max(1, min(30, self.left())))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
        self.beside_pytorch()
        if memcheck:
            self.sanitize("memcheck", 60, ops)
            self.sanitize("racecheck", 40, ops)
        else:
            self.leave_out("memcheck, racecheck", "no compute-sanitizer that takes this device")

    def again(self, results):
        """Repeats the tests and steps that failed in an earlier call."""
        self.machine()
        cases = [(case["tag"], case["name"]) for key, value in results.items()
                 for case in (value["cases"] if key.startswith("cases-") else ())
                 if case["status"] in ("failed", "stopped")]
        cases = list(dict.fromkeys(cases))
        if cases:
            blocking = {"CUDA_LAUNCH_BLOCKING": "1"}
            for title, alone, workers in (("tests", False, self.options.workers),
                                          ("tests alone", True, 1)):
                listed = [case for case in cases if (case[0] in ALONE) == alone]
                if listed:
                    self.run_cases(title, "required", 100, listed, workers, environment=blocking)
            if self.options.sanitizer and not self.options.runner:
                self.run_cases("memcheck", "budget", 150, cases, 4, self.sanitizer("memcheck"))
        steps = {step["step"] for step in results["steps"] if step["status"] in ("failed", "left")}
        for begin, step in (("convolutions", self.convolutions),
                            ("bench kernels", self.bench_kernels),
                            ("bench train", self.bench_train), ("bench memory", self.bench_memory),
                            ("time per kernel", self.time_per_kernel),
                            ("beside PyTorch", self.beside_pytorch)):
            if any(name.startswith(begin) for name in steps):
                step()

    def has_torch(self):
        return self.run([self.options.python, "-c",
                         "import torch, sys; sys.exit(not torch.cuda.is_available())"], 60)[0] == 0


def kernels_of(output):
    """Launches, microseconds and bytes of device memory of each kernel, from ncu's --csv."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    kernels = {}
    for row in csv.DictReader(lines):
        name = re.sub(r"\(.*", "", row["Kernel Name"])
        kernel = kernels.setdefault(name, {"name": name, "launches": 0, "us": 0.0, "bytes": 0.0})
        value = float(row["Metric Value"].replace(",", ""))
        unit = row["Metric Unit"]
        if row["Metric Name"].startswith("gpu__time"):
            kernel["launches"] += 1
            kernel["us"] += value * {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3,
                                     "msecond": 1e3}.get(unit, 1)
        else:
            kernel["bytes"] += value * {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}.get(unit, 1)
    return sorted(kernels.values(), key=lambda kernel: -kernel["us"])


def parse(start):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def path(text):
        return pathlib.Path(text).resolve()

    parser.add_argument("out", type=path, nargs="?")
    parser.add_argument("--bundle", type=path, metavar="FILE",
                        help="program and tests that scripts/gpu_bundle.sh built elsewhere; without"
                             " it, or where they do not start, both are built here")
    parser.add_argument("--prefix", type=path, metavar="DIR",
                        help="where the libraries to build with are (scripts/vendor_headers.sh)")
    parser.add_argument("--python", default="python3", metavar="PROG",
                        help="a Python with PyTorch, with which accrue is compared")
    parser.add_argument("--seconds", type=int, default=500, metavar="N",
                        help="how long it may take, the build included (default: 500)")
    parser.add_argument("--failed", type=path, metavar="FILE",
                        help="only the checks that failed, by the results.json of an earlier call")
    parser.add_argument("--skip", default="(?!)", metavar="REGEX",
                        help="steps to leave out, by name")
    parser.add_argument("--runner", type=path, metavar="DIR",
                        help="a build with the runner (preset simt-release) in place of the GPU, to"
                             " try the checks")
    parser.add_argument("--workers", type=int, help="tests at once",
                        default=max(1, min(8, len(os.sched_getaffinity(0)) // 2)))
    parser.add_argument("--missing", action="store_true",
                        help="say what this machine lacks, and do nothing")
    options = parser.parse_args()
    if not options.out and not options.missing:
        parser.error("expected OUT_DIR")
    if options.seconds < 1:
        parser.error(f"--seconds {options.seconds}: expected a positive number")
    options.end = start + options.seconds
    return options


def main():
    options = parse(time.monotonic())
    machine = gpu_machine.Machine(options)
    lacking = list(machine.missing())
    print("missing here:" + ("\n  ".join(["", *lacking]) if lacking else " nothing"), flush=True)
    if options.missing:
        return 0
    if not options.runner and not gpu_machine.have_gpu():
        gpu_machine.fail("no NVIDIA GPU here: nothing can be checked")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError:
        gpu_machine.fail(f"cannot write to {options.out}")
    results = json.loads(options.failed.read_text()) if options.failed else None
    options.program, options.tests = machine.programs(lambda: options.end - time.monotonic())
    options.sanitizer = gpu_machine.compute_sanitizer()
    # Measurements do not lie in OUT_DIR, which may be emptied between two calls.
    check = Check(options, ROOT / "build" / "gpu-measured")
    try:
        check.again(results) if results else check.everything()
    finally:
        status = check.summarize()
        print((options.out / "summary.md").read_text())
    return status


if __name__ == "__main__":
    sys.exit(main())
