#!/usr/bin/env python3
"""Runs every check that needs a GPU, the most useful first, and ends in time.

    scripts/gpu_check.py OUT_DIR --bundle FILE                 480 s: what has changed, speed, tests
    scripts/gpu_check.py OUT_DIR --bundle FILE --part second   250 s: everything else
    scripts/gpu_check.py OUT_DIR                               builds both programs here first
    scripts/gpu_check.py OUT_DIR --rehearse                    needs no GPU: goes through both parts

Each step has a limit of time, and so have groups of steps and each part (gpu_schedule.py): a step
that no longer fits is not begun and counts as not reached. log.txt in OUT_DIR gets the output as it
comes. After every step OUT_DIR has a new summary.md (a page) and results.json; the measurements
behind them stay in build/gpu-measured, where the second part adds to the first one's. With
--failed, only the checks that failed in an earlier call are repeated, under memcheck and with
launches that wait for their end. Exits with 1 if a required check failed. Needs no network; changes
nothing about the GPU.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import gpu_machine
import gpu_schedule
from gpu_machine import ROOT
from gpu_rehearsal import Rehearsal
from gpu_steps import ALONE, FIRST, TOGETHER, Steps, MICRO_STEP_LAUNCHES, PROFILED_LAUNCHES

# What PyTorch is timed beside: seconds, those it needs at least, network and precision.
PYTORCH_FIRST = ((45, 25, "gpt2:4x2", "bf16"), (25, 12, "resnet50:32x2", "bf16"),
                 (25, 12, "resnet50:32x2", "tf32"), (25, 12, "resnet50:32x2", "fp32"))
PYTORCH_LAST = ((45, 25, "gpt2:4x2", "tf32"), (50, 25, "mlp:32x4", "fp32"),
                  (50, 25, "cnn:32x4", "fp32"))


class Parts:
    """The steps of each part, in the order of its groups."""

    def __init__(self, steps):
        self.steps, self.schedule = steps, steps.schedule
        # To try the script, not the kernels.
        self.few = 3 if steps.options.runner else None

    def begin(self, group):
        self.schedule.begin(group)
        self.steps.write(f"{group}: {self.schedule.left():.0f} s")

    def first(self):
        steps = self.steps
        self.begin("device")
        steps.machine()
        memcheck = steps.sanitizer_works()
        self.begin("changed tests")
        warming = [*steps.warm_up_pytorch([("gpt2", 4, 2, "bf16"), ("mlp", 32, 4, "fp32"),
                                           ("cnn", 32, 4, "fp32")]), *steps.draw_base()]
        changed = steps.run_cases("changed tests", "required", 25,
                                  steps.changed_cases()[:self.few], steps.options.workers)
        self.begin("changed kernels under sanitizers")
        self.sanitize(memcheck, "of what changed", 20, changed)
        steps.end_warm_up(warming)
        self.begin("speed")
        steps.bench_changed()
        self.begin("time per kernel")
        steps.time_per_kernel([(model, 30, MICRO_STEP_LAUNCHES[model], PROFILED_LAUNCHES)
                               for model in ("gpt2", "lora")])
        self.begin("beside PyTorch")
        steps.beside_pytorch(PYTORCH_FIRST)
        self.begin("every test")
        self.tests(dict.fromkeys(result["name"] for result in changed))
        self.begin("the rest")
        steps.beside_pytorch(PYTORCH_LAST)

    def sanitize(self, works, what, limit, tested):
        if not works or not tested:
            self.steps.leave_out(f"racecheck, memcheck {what}", "nothing to check" if works else
                                 "no compute-sanitizer that takes this device")
            return
        for tool in ("racecheck", "memcheck"):
            self.steps.sanitize(tool, limit, f"{tool} {what}", tested)

    def tests(self, passed=()):
        steps, workers = self.steps, self.steps.options.workers
        alone = steps.cases(ALONE)
        listed = [case for case in steps.cases(FIRST + TOGETHER) if case[1] not in passed]
        ops = [case for case in listed if case[0] in FIRST]
        others = [case for case in listed if case not in ops and case not in alone]
        steps.run_cases("ops", "required", 75, ops[:self.few], workers)
        steps.run_cases("tests", "required", 150, others[:self.few], workers)
        steps.run_cases("tests alone", "required", 30, alone[:self.few], 1)

    def second(self):
        steps = self.steps
        self.begin("device")
        steps.machine()
        memcheck = steps.sanitizer_works()
        self.begin("tests left over")
        self.left_over()
        for group, step in (("other speeds", steps.bench_others), ("kernels", steps.bench_kernels),
                            ("convolutions", steps.convolutions), ("memory", steps.bench_memory)):
            self.begin(group)
            step()
        self.begin("other kernels' time")
        steps.time_per_kernel([("resnet50", 30, 1500, 1500), ("mlp", 15, 60, 200),
                               ("cnn", 15, 60, 240), ("resnet-bn", 15, 400, 800)])
        self.begin("all kernels under sanitizers")
        ops = [{"tag": tag, "name": name, "seconds": 0} for tag, name in steps.cases(FIRST)]
        self.sanitize(memcheck, "of all ops", 20, ops[:self.few])
        self.begin("the rest")
        steps.beside_pytorch([job for job in PYTORCH_LAST if not steps.pytorch_file(job).exists()])

    def left_over(self):
        """The tests for which the first part had no time, if its measurements are here."""
        for file in sorted(self.steps.measured.glob("cases-*.json")):
            title = file.stem.removeprefix("cases-").replace("-", " ")
            cases = json.loads(file.read_text())["cases"]
            late = [(case["tag"], case["name"]) for case in cases if case["status"] == "left"]
            if late and not title.startswith(("racecheck", "memcheck")):
                workers = 1 if title == "tests alone" else self.steps.options.workers
                self.steps.run_cases(title, "required", 30, late, workers, earlier=[
                    case for case in cases if case["status"] != "left"])

    def again(self, results):
        """Repeats the tests and steps that failed in an earlier call."""
        steps = self.steps
        steps.machine()
        cases = [(case["tag"], case["name"]) for key, value in results.items()
                 for case in (value["cases"] if key.startswith("cases-") else ())
                 if case["status"] in ("failed", "stopped")]
        cases = list(dict.fromkeys(cases))
        if cases:
            blocking = {"CUDA_LAUNCH_BLOCKING": "1"}
            for title, alone, workers in (("tests", False, steps.options.workers),
                                          ("tests alone", True, 1)):
                listed = [case for case in cases if (case[0] in ALONE) == alone]
                if listed:
                    steps.run_cases(title, "required", 100, listed, workers, environment=blocking)
            if steps.options.sanitizer and not steps.options.runner:
                steps.run_cases("memcheck", "budget", 150, cases, 4, steps.sanitizer("memcheck"))
        failed = {step["step"] for step in results["steps"] if step["status"] in ("failed", "left")}
        for begin, step in (
                ("convolutions", steps.convolutions), ("bench kernels", steps.bench_kernels),
                (r"bench train (gpt2 4x2 bf16|lora|resnet50 (8x8|32x2 bf16 ))", steps.bench_changed),
                ("bench train", steps.bench_others), ("bench memory", steps.bench_memory),
                ("time per kernel", lambda: steps.time_per_kernel(
                    [("gpt2", 30, MICRO_STEP_LAUNCHES["gpt2"], PROFILED_LAUNCHES)])),
                ("beside PyTorch", lambda: steps.beside_pytorch(PYTORCH_FIRST + PYTORCH_LAST))):
            if any(re.match(begin, name) for name in failed):
                step()


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
    parser.add_argument("--part", choices=tuple(gpu_schedule.PARTS), default="first",
                        help="which half of the checks (default: first)")
    parser.add_argument("--seconds", type=int, metavar="N",
                        help="how long it may take, the build included (default: 480; 250 for the"
                             " second part)")
    parser.add_argument("--failed", type=path, metavar="FILE",
                        help="only the checks that failed, by the results.json of an earlier call")
    parser.add_argument("--skip", default="(?!)", metavar="REGEX",
                        help="steps to leave out, by name")
    parser.add_argument("--runner", type=path, metavar="DIR",
                        help="a build with the runner (preset simt-release) in place of the GPU, to"
                             " try the checks")
    parser.add_argument("--rehearse", choices=("expected", "slow"), nargs="?", const="expected",
                        help="run nothing: go through both parts with made-up figures and the time"
                             " that steps are expected to take, or as slow as they may be")
    parser.add_argument("--workers", type=int, help="tests at once",
                        default=max(1, min(8, len(os.sched_getaffinity(0)) // 2)))
    parser.add_argument("--missing", action="store_true",
                        help="say what this machine lacks, and do nothing")
    options = parser.parse_args()
    if not options.out and not options.missing:
        parser.error("expected OUT_DIR")
    if options.seconds is None:
        options.seconds = gpu_schedule.PARTS[options.part][0]
    if options.seconds < 1:
        parser.error(f"--seconds {options.seconds}: expected a positive number")
    options.begun = start
    return options


def make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        gpu_machine.fail(f"cannot write to {folder}")


def rehearse(options):
    """Both parts with made-up programs and time. Returns whether neither took too long."""
    make_folder(options.out)
    in_time = True
    for part, (seconds, groups) in gpu_schedule.PARTS.items():
        schedule = gpu_schedule.Schedule(groups, seconds, gpu_schedule.RehearsedClock())
        steps = Rehearsal(options, ROOT / "build" / "gpu-rehearsed", schedule, part == "second")
        print(f"{part} part, {seconds} s:", flush=True)
        getattr(Parts(steps), part)()
        steps.log.close()
        taken = schedule.clock.now()
        print(f"{part} part: {taken:.0f} of {seconds} s\n", flush=True)
        in_time = in_time and taken <= seconds
    return in_time


def main():
    options = parse(time.monotonic())
    if options.rehearse:
        in_time = rehearse(options)
        print((options.out / "summary.md").read_text())
        return 0 if in_time else 1
    machine = gpu_machine.Machine(options)
    lacking = list(machine.missing())
    print("missing here:" + ("\n  ".join(["", *lacking]) if lacking else " nothing"), flush=True)
    if options.missing:
        return 0
    if not options.runner and not gpu_machine.have_gpu():
        gpu_machine.fail("no NVIDIA GPU here: nothing can be checked")
    make_folder(options.out)
    results = json.loads(options.failed.read_text()) if options.failed else None
    deadline = options.begun + options.seconds
    options.program, options.tests = machine.programs(lambda: deadline - time.monotonic())
    options.sanitizer = gpu_machine.compute_sanitizer()
    groups = {} if results else gpu_schedule.PARTS[options.part][1]
    schedule = gpu_schedule.Schedule(groups, options.seconds, gpu_schedule.Clock(), options.begun)
    # Measurements do not lie in OUT_DIR, which may be emptied between two calls.
    steps = Steps(options, ROOT / "build" / "gpu-measured", schedule,
                  keep=options.part == "second" and not results)
    if machine.is_stale():
        steps.record("the bundle is of these sources", "failed", 0, "required",
                     "build it again: scripts/gpu_bundle.sh")
    parts = Parts(steps)
    try:
        parts.again(results) if results else getattr(parts, options.part)()
    finally:
        status = steps.summarize()
        print((options.out / "summary.md").read_text())
    return status


if __name__ == "__main__":
    sys.exit(main())
