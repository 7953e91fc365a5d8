"""For gpu_check.py --rehearse: its steps with made-up programs, figures and time. It shows what a
call would do in which order, what fits, and what the page looks like."""

import json
import pathlib
import re
import threading

from gpu_steps import Steps

# Seconds that steps are expected to take on an H200 with 16 cores, by their names or commands.
EXPECTED = (
    ("a base for LoRA", 12), ("compute-sanitizer takes", 6), ("bench train lora", 12),
    ("bench train (gpt2|resnet50)", 8), ("bench train", 2.5), ("bench kernels", 12),
    ("bench memory", 4), ("time per kernel, (gpt2|lora|resnet50)", 22), ("time per kernel", 9),
    ("beside PyTorch, gpt2", 38), ("beside PyTorch, resnet50", 17), ("beside PyTorch", 35),
    ("the program and the device", 3), ("import torch", 4), ("info .*time-convolutions", 4),
    ("info", 1.5), ("--tool", 6), ("--device cuda", 2.2), ("", 0.3))
# Tests by the first tag that the check asks for; tests of what has changed are not among the ops.
TESTS = {"ops": 265, "checkpoint": 24, "zi2zi": 14, "plan": 24, "window": 70, "engine": 54,
         "golden": 33, "precision": 15, "strategies": 19, "pitfalls": 11, "recompute": 13,
         "spectral": 8, "models": 25, "game": 15, "freeze": 10, "text": 119, "layers": 11,
         "graph": 17, "oom": 8, "faults": 3, "device-ranks": 2, "offload": 3}
PROFILE = """"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","void gemm_of_logits<int(8)>(Params)","gpu__time_duration.sum","us","900"
"1","void accrue::cuda::logit_loss_and_gradient_kernel<float>(float)","gpu__time_duration.sum","us","100"
"2","void gemm_of_dx<int(8)>(Params)","gpu__time_duration.sum","us","950"
"2","void gemm_of_dx<int(8)>(Params)","dram__bytes.sum","Mbyte","70"
"""


def made_up(command):
    """The JSON that such a command would write."""
    if "bench_pytorch.py" in command:
        configuration, precision = command.split()[-1], command.split("--precision ")[1].split()[0]
        way = {"samples_per_s": [100.0], "peak_allocated_bytes": 2e9}
        names = ("accrue", "eager", "fused Adam", "compiled", "fused Adam, channels last")
        text = configuration + (f" {precision}" if precision != "fp32" else "")
        return {"torch": "PyTorch, made up",
                "results": [{"configuration": text, "ways": {name: way for name in names}}]}
    if "bench train" in command:
        return {"samples_per_s": 100.0, "tokens_per_s": 102400.0, "effective_batch": 128}
    return {"rungs": [], "array_bytes": 0, "rows": [], "convolutions": []}


class Rehearsal(Steps):
    def __init__(self, options, measured, schedule, keep):
        options.program, options.tests = pathlib.Path("accrue"), pathlib.Path("accrue_tests")
        options.sanitizer, options.runner = "compute-sanitizer", None
        options.workers = self.workers = 8
        self.lock, self.name = threading.Lock(), ""
        super().__init__(options, measured, schedule, keep)

    def pass_time(self, seconds, limit):
        with self.lock:
            self.schedule.clock.seconds += min(seconds, limit)
        return None if seconds > limit else 0

    def seconds_of(self, text, limit):
        if self.options.rehearse == "slow":
            return limit + 1
        return next(seconds for pattern, seconds in EXPECTED if re.search(pattern, text))

    def run(self, command, limit, environment=None):
        text = " ".join(map(str, command))
        if "--list-test-names-only" in text:
            tag = re.search(r"\[([\w-]+)\]~", text)
            found = TESTS.get(tag.group(1), 0) if tag else 1
            if tag and not text.split()[-1].startswith("["):
                found = 6  # of a pattern of names
            names = "".join(f"{text.split()[-1]} {i}\n" for i in range(found))
            return 0, names, 0.0
        self.write_json(text)
        seconds = self.seconds_of(text, limit)
        # Tests run side by side.
        together = self.workers if "accrue_tests" in text else 1
        if " info " in text:
            together = self.options.workers
        status = self.pass_time(seconds / together, limit / together)
        return status, "", min(seconds, limit)

    def run_logged(self, command, limit, environment=None, ended=None):
        text = " ".join(map(str, command))
        status = self.pass_time(self.seconds_of(f"{self.name} {text}", limit), limit)
        if status == 0:
            self.write_json(text)
        output = PROFILE if "--csv" in text else "ERROR SUMMARY: 0 errors\n"
        self.log.write(output.encode())
        return status, output, limit if status is None else self.seconds_of(self.name + text, limit)

    def run_cases(self, title, need, limit, cases, workers, *more, **options):
        self.workers = workers
        return super().run_cases(title, need, limit, cases, workers, *more, **options)

    def step(self, need, limit, name, command, **options):
        self.name = name
        return super().step(need, limit, name, command, **options)

    def write_json(self, text):
        if "--save" in text:
            pathlib.Path(text.split()[-1]).touch()
        file = re.search(r"--json (\S+)", text)
        if file:
            pathlib.Path(file.group(1)).write_text(json.dumps(made_up(text)))

    def machine(self):
        super().machine()
        (self.measured / "gpu.txt").write_text("A rehearsal: every figure is made up.\n")

    def images(self):
        return self.measured / "images"

    def tokens(self, model="gpt2"):
        return self.measured / f"tokens-{model}.bin"

    def profiler(self):
        return "ncu"

    def has_torch(self):
        return True

    def warm_up_pytorch(self, jobs):
        return []

    def draw_base(self):
        self.base_command()[0].touch()
        return []
