"""PyTorch's row of `accrue bench memory`: in a process of its own it trains a few windows and prints
what they took, as JSON.

    python3 scripts/torch_memory.py '{"model": "cnn", "width": 1, "micro_batch": 8, ...}'

The data set is bytes in memory, of the size of accrue's built-in one; a micro-batch at a time is
made float. On the CPU the peak is that of the process, above what it holds after the import; on
cuda that of torch's allocator.
"""

import json
import pathlib
import sys
import time

import torch
from reference_models import MODELS, SAMPLE_SHAPES, unet
from torch.nn import functional

SAMPLES = 12000


def resident_bytes(key):
    """VmRSS: now; VmHWM: at the highest."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"no {key} in /proc/self/status")


def forget_peak():
    # The import itself may have needed more for a moment.
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def make_optimizer(request, model):
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
             "sgd": lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9)}
    return kinds[request["optimizer"]](model.parameters(), lr=request["lr"])


class Training:
    def __init__(self, request, device):
        self.request, self.device = request, device
        name = request["model"]
        self.segments = name == "unet"
        shape = SAMPLE_SHAPES.get(name, (1, 28, 28))
        self.images = torch.randint(256, (SAMPLES, *shape), dtype=torch.uint8, device=device)
        self.answers = torch.randint(10, (SAMPLES,), device=device)
        if self.segments:
            self.answers = torch.randint(2, (SAMPLES, *shape), dtype=torch.uint8, device=device)
        self.model = (unet if self.segments else MODELS[name])(request["width"]).to(device)
        self.optimizer = make_optimizer(request, self.model)

    def loss(self, rows):
        y = self.model(self.images[rows].float() / 255)
        if self.segments:
            return functional.binary_cross_entropy_with_logits(y, self.answers[rows].float())
        return functional.cross_entropy(y, self.answers[rows])

    def data_bytes(self):
        return sum(each.numel() * each.element_size() for each in (self.images, self.answers))

    def window(self):
        size = self.request["effective_batch"]
        rows = torch.randperm(SAMPLES, device=self.device)[:size]
        for part in rows.split(self.request["micro_batch"]):
            (self.loss(part) * (len(part) / size)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure(request):
    device = request["device"]
    torch.manual_seed(1)
    if request["threads"]:
        torch.set_num_threads(request["threads"])
    torch.ones(1, device=device)
    before = resident_bytes("VmRSS")
    forget_peak()
    training = Training(request, device)
    us_per_sample = []
    for _ in range(request["steps"]):
        start = time.perf_counter()
        training.window()
        us_per_sample.append(1e6 * (time.perf_counter() - start) / request["effective_batch"])
    growth = resident_bytes("VmHWM") - before
    data = training.data_bytes()
    answer = {"data_bytes": data, "rss_growth_bytes": growth, "peak_bytes": growth - data,
              "us_per_sample": us_per_sample[1:] or us_per_sample}
    if device == "cuda":
        answer["peak_bytes"] = torch.cuda.max_memory_allocated() - data
        answer["reserved_bytes"] = torch.cuda.max_memory_reserved()
    return answer


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
