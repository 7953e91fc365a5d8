#!/usr/bin/env python3
"""Measures ranks of accrue beside PyTorch's DistributedDataParallel on this machine, in turns.

    scripts/bench_ranks_pytorch.py                      two ranks of one thread, K = 1, 4 and 16
    scripts/bench_ranks_pytorch.py --ranks 2 --model resnet --micro-batch 8
    scripts/network.sh up 2 1gbit && scripts/bench_ranks_pytorch.py --network --model resnet
                                                        one rank on each of two machines

Both train the same layers with Adam, in windows of K micro-batches a rank. PyTorch runs on gloo,
with no_sync() for all micro-batches but the last and gradient_as_bucket_view; its samples are
tensors in memory. Prints a Markdown table: the time of a window, the part of it that does not grow
with K (the reduction and the step), the most resident memory of a rank and, in brackets, its growth
by the training, and accrue as one process with as many threads. The interpreter needs torch; accrue
needs mpirun.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETWORK = str(ROOT / "scripts/network.sh")


def resident_mb():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def torch_rank(request):
    """One rank of PyTorch's; prints its median seconds a window and megabytes as JSON."""
    import torch
    from torch import distributed
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from reference_models import MODELS, SAMPLE_SHAPES

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=request["rank"], world_size=request["ranks"])
    K, size = request["K"], request["micro_batch"]
    # Loads code, which is no memory of the training.
    warm_up = DistributedDataParallel(torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU()))
    warm_up(torch.randn(8, 1, 8, 8)).sum().backward()
    torch.optim.Adam(warm_up.parameters()).step()
    before = resident_mb()
    torch.manual_seed(1)
    model = DistributedDataParallel(MODELS[request["model"]](1), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(K * size, *SAMPLE_SHAPES[request["model"]])
    y = torch.randint(10, (K * size,))

    def window():
        for k, (images, labels) in enumerate(zip(x.split(size), y.split(size))):
            with model.no_sync() if k + 1 < K else contextlib.nullcontext():
                (cross_entropy(model(images), labels) / K).backward()
        optimizer.step()
        optimizer.zero_grad()

    durations, begin = [], time.perf_counter()
    going = torch.ones(1)
    while going.item():
        start = time.perf_counter()
        for _ in range(5):
            window()
        durations.append((time.perf_counter() - start) / 5)
        going.fill_(time.perf_counter() - begin < request["seconds"])
        distributed.broadcast(going, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps([statistics.median(durations[1:] or durations), peak, resident_mb() - before]))
    distributed.destroy_process_group()


def start(command, **environment):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMP_NUM_THREADS="1", **environment)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def output_of(process):
    output, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(process.args)} failed:\n{output}{errors}")
    return output


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure_torch(options, K):
    """The slowest and the largest of its ranks."""
    request = {"ranks": options.ranks, "K": K, "micro_batch": options.micro_batch,
               "model": options.model, "seconds": options.seconds}
    port = str(free_port())
    ranks = []
    for rank in range(options.ranks):
        command = [options.python, str(pathlib.Path(__file__).resolve()), "--torch",
                   json.dumps(dict(request, rank=rank))]
        if options.network:
            ranks.append(start([NETWORK, "in", f"m{rank + 1}", *command], MASTER_ADDR="10.77.0.1",
                               MASTER_PORT=port, GLOO_SOCKET_IFNAME="eth0"))
        else:
            ranks.append(start(command, MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
    answers = [json.loads(output_of(rank).splitlines()[-1]) for rank in ranks]
    return [max(figures) for figures in zip(*answers)]


def measure_accrue(options, K, ranks, threads):
    """Seconds a window; megabytes of a rank, in all and by training."""
    effective = options.ranks * K * options.micro_batch
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:  # which machines share
        report = pathlib.Path(scratch) / "bench.json"
        launcher = [NETWORK, "mpirun"] if options.network else ["mpirun"]
        command = [*launcher, "-n", str(ranks)] if ranks > 1 else []
        output_of(start([*command, options.program, "bench", "train", "--model", options.model,
                         "--device", "cpu", "--optimizer", "adam", "--threads", str(threads),
                         "--micro-batch", str(options.micro_batch), "--effective-batch",
                         str(effective), "--seconds", str(options.seconds), "--json", str(report)]))
        answer = json.loads(report.read_text())
    return [effective / answer["samples_per_s"], answer["peak_rss_bytes"] / 1e6,
            answer["peak_rss_growth_bytes"] / 1e6]


def intercept(seconds_by_k):
    """Of the line through the times of the fewest and the most micro-batches."""
    few, many = min(seconds_by_k), max(seconds_by_k)
    slope = (seconds_by_k[many] - seconds_by_k[few]) / (many - few)
    return seconds_by_k[few] - few * slope


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/apps/accrue"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--model", default="cnn", choices=("mlp", "cnn", "resnet"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", action="store_true",
                        help="a rank on each machine of scripts/network.sh, which is up")
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        return torch_rank(json.loads(options.torch))

    ways = {"accrue": lambda K: measure_accrue(options, K, options.ranks, 1),
            "PyTorch": lambda K: measure_torch(options, K),
            "one process": lambda K: measure_accrue(options, K, 1, options.ranks)}
    print(f"{options.model}, {options.ranks} ranks of one thread, micro-batches of"
          f" {options.micro_batch}, medians of {options.rounds} rounds\n")
    print("| K | accrue, ms a window | PyTorch | ratio | accrue, MB a rank | PyTorch | ratio |"
          " one process, ms |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    seconds = {way: {} for way in ways}
    for K in (1, 4, 16):
        rounds = [{way: measure(K) for way, measure in ways.items()}
                  for _ in range(options.rounds)]
        for way in ways:
            seconds[way][K] = statistics.median(r[way][0] for r in rounds)
        whole, growth = ({way: statistics.median(r[way][i] for r in rounds) for way in ways}
                         for i in (1, 2))
        ratio = statistics.median(r["PyTorch"][0] / r["accrue"][0] for r in rounds)
        print(f"| {K} | {1e3 * seconds['accrue'][K]:.1f} | {1e3 * seconds['PyTorch'][K]:.1f} |"
              f" {ratio:.2f} | {whole['accrue']:.0f} ({growth['accrue']:.1f}) |"
              f" {whole['PyTorch']:.0f} ({growth['PyTorch']:.1f}) |"
              f" {whole['accrue'] / whole['PyTorch']:.2f}"
              f" ({growth['accrue'] / growth['PyTorch']:.2f}) |"
              f" {1e3 * seconds['one process'][K]:.1f} |", flush=True)
    print("\nnot growing with K, ms a window: " + ", ".join(
        f"{way} {1e3 * intercept(by_k):.2f}" for way, by_k in seconds.items()))


if __name__ == "__main__":
    main()
