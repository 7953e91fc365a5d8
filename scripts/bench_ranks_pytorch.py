#!/usr/bin/env python3
"""Measures ranks of accrue beside PyTorch's DistributedDataParallel on this machine, in turns.

    scripts/bench_ranks_pytorch.py                      two ranks of one thread, K = 1, 4 and 16
    scripts/bench_ranks_pytorch.py --ranks 2 --model resnet --micro-batch 8
    scripts/network.sh up 2 1gbit && scripts/bench_ranks_pytorch.py --network --model resnet
                                                        one rank on each of two machines

Both train the same layers with Adam, in windows of K micro-batches a rank. PyTorch runs on gloo,
with gradient_as_bucket_view, and with no_sync() for all micro-batches except the last; its samples
are tensors in memory. Prints a Markdown table with the time of a window and the largest resident
memory of a rank, in brackets its growth by the training. The last column is accrue as one process
with as many threads. Below stands the part of the time that does not grow with K (the reduction and
the step). The interpreter needs torch; accrue needs mpirun.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

from bench_pytorch import ROOT, TORCH_TRAINING, last_json

NETWORK = str(ROOT / "scripts" / "network.sh")


def start(command, **environment):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMP_NUM_THREADS="1", **environment)
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment)


def output_of(process):
    output, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(process.args)} failed:\n{output}{errors}")
    return output


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def measure_torch(options, K):
    """Seconds a window; the most megabytes of any rank, in all and by training."""
    request = {"measure": "rank", "ranks": options.ranks, "model": options.model, "width": 1,
               "device": "cpu", "threads": 1, "micro_batch": options.micro_batch,
               "effective_batch": K * options.micro_batch, "seconds": options.seconds}
    port, ranks = free_port(), []
    for rank in range(options.ranks):
        command = [options.python, TORCH_TRAINING, json.dumps(dict(request, rank=rank))]
        if options.network:
            ranks.append(start([NETWORK, "in", f"m{rank + 1}", *command], MASTER_ADDR="10.77.0.1",
                               MASTER_PORT=port, GLOO_SOCKET_IFNAME="eth0"))
        else:
            ranks.append(start(command, MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
    answers = [last_json(output_of(rank)) for rank in ranks]
    return [max(answer[key] for answer in answers) / unit
            for key, unit in (("seconds", 1), ("peak_bytes", 1e6), ("growth_bytes", 1e6))]


def measure_accrue(options, K, ranks, threads):
    effective = options.ranks * K * options.micro_batch
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:  # machines share it
        report = pathlib.Path(scratch) / "bench.json"
        launcher = [NETWORK, "mpirun"] if options.network else ["mpirun"]
        command = [*launcher, "-n", ranks] if ranks > 1 else []
        output_of(start([*command, options.program, "bench", "train", "--model", options.model,
                         "--device", "cpu", "--optimizer", "adam", "--threads", threads,
                         "--micro-batch", options.micro_batch, "--effective-batch", effective,
                         "--seconds", options.seconds, "--json", report]))
        answer = json.loads(report.read_text())
    return [effective / answer["samples_per_s"], answer["peak_rss_bytes"] / 1e6,
            answer["peak_rss_growth_bytes"] / 1e6]


def intercept(seconds_by_k):
    """The intercept of the line through the times of the fewest and the most micro-batches."""
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
    options = parser.parse_args()

    ways = {"accrue": lambda K: measure_accrue(options, K, options.ranks, 1),
            "PyTorch": lambda K: measure_torch(options, K),
            "one process": lambda K: measure_accrue(options, K, 1, options.ranks)}
    print(f"{options.model}, {options.ranks} ranks of one thread, micro-batches of"
          f" {options.micro_batch}, medians of {options.rounds} rounds\n")
    print("| K | accrue, ms a window | PyTorch | ratio | accrue, MB a rank | PyTorch | ratio |"
          " one process, ms |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    seconds_by_k = {way: {} for way in ways}
    for K in (1, 4, 16):
        rounds = [{way: measure(K) for way, measure in ways.items()}
                  for _ in range(options.rounds)]
        seconds, whole, growth = ({way: statistics.median(r[way][i] for r in rounds)
                                   for way in ways} for i in range(3))
        for way in ways:
            seconds_by_k[way][K] = seconds[way]
        ratio = statistics.median(r["PyTorch"][0] / r["accrue"][0] for r in rounds)
        print(f"| {K} | {1e3 * seconds['accrue']:.1f} | {1e3 * seconds['PyTorch']:.1f} |"
              f" {ratio:.2f} | {whole['accrue']:.0f} ({growth['accrue']:.1f}) |"
              f" {whole['PyTorch']:.0f} ({growth['PyTorch']:.1f}) |"
              f" {whole['accrue'] / whole['PyTorch']:.2f}"
              f" ({growth['accrue'] / growth['PyTorch']:.2f}) |"
              f" {1e3 * seconds['one process']:.1f} |", flush=True)
    print("\nnot growing with K, ms a window: " + ", ".join(
        f"{way} {1e3 * intercept(by_k):.2f}" for way, by_k in seconds_by_k.items()))


if __name__ == "__main__":
    main()
