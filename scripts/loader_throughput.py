#!/usr/bin/env python3
"""Samples per second that accrue fetches from a Dataset of PyTorch, and that a DataLoader with two processes gives, in turns.

usage: loader_throughput.py [SAMPLES] [TURNS]
"""

import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import accrue

BATCH = 64


class Pictures(Dataset):
    """Pictures that need work: a resize of 256x256 to 64x64, which releases Python's lock."""

    def __init__(self, samples: int):
        self.pixels = np.random.default_rng(0).integers(0, 256, (16, 256, 256, 3), np.uint8)
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, i: int):
        from PIL import Image

        image = Image.fromarray(self.pixels[i % 16]).resize((64, 64), Image.Resampling.BICUBIC)
        return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)), i % 10


class Numbers(Dataset):
    """Samples that need no work but Python's own."""

    def __init__(self, samples: int):
        self.x = np.random.default_rng(0).standard_normal((samples, 3, 32, 32)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int):
        return self.x[i], i % 10


def by_accrue(data: Dataset, workers: int) -> float:
    """A training whose network does next to nothing; the time is that of the fetching."""
    x, _ = data[0]
    network = accrue.Sequential([accrue.AvgPool2d(x.shape[1]), accrue.Flatten(), accrue.Linear(3, 10)])
    trainer = accrue.Trainer(network, data, test=[data[0]], epochs=1, effective_batch=BATCH, micro_batch=BATCH,
                             threads=2, workers=workers)
    begin = time.perf_counter()
    trainer.run()
    return len(data) / (time.perf_counter() - begin)


def by_loader(data: Dataset) -> float:
    network = torch.nn.Sequential(torch.nn.AvgPool2d(data[0][0].shape[1]), torch.nn.Flatten(), torch.nn.Linear(3, 10))
    optimizer = torch.optim.AdamW(network.parameters())
    begin = time.perf_counter()
    for x, y in DataLoader(data, BATCH, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x.float()), y).backward()
        optimizer.step()
    return len(data) / (time.perf_counter() - begin)


def main() -> None:
    samples, turns = int(sys.argv[1]) if len(sys.argv) > 1 else 4000, int(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.set_num_threads(1)
    for kind in (Pictures, Numbers):
        data = kind(samples)
        rates = {"accrue, workers=1": [], "accrue, workers=2": [], "DataLoader, num_workers=2": []}
        for _ in range(turns):
            for (_, found), run in zip(rates.items(), (lambda: by_accrue(data, 1), lambda: by_accrue(data, 2),
                                                       lambda: by_loader(data))):
                found.append(run())
        for name, found in rates.items():
            print(f"{kind.__name__:9} {name:26} {np.median(found):8.0f} samples/s ({min(found):.0f} to {max(found):.0f})")


if __name__ == "__main__":
    main()
