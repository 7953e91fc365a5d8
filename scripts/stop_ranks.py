#!/usr/bin/env python3
"""Kills or stops a random rank of a training at a random moment, again and again, and checks that
nothing hangs or is lost.

    scripts/stop_ranks.py [--runs 40] [--ranks 3]

Each run trains with a checkpoint after every few steps. A rank gets SIGKILL or SIGSTOP while MPI
starts, or within a micro-batch, a reduction or a checkpoint. Then all ranks must end within
--rank-timeout and a few seconds, and a line must say which rank was lost. The run that resumes must
end with the same bits as a run that was never disturbed. Exits with 1 if any run fails.
"""

import argparse
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT_S = 3
# The time in which mpirun must notice a lost rank and end the others.
GRACE_S = 6
WRAPPER = 'echo $$ > "$0/pid-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"'


def command(options, folder, weights=None):
    program = [options.program, "train", "--device", "cpu", "--model", "mlp-small",
               "--threads", "1", "--optimizer", "adam", "--ema", "0.99", "--shard-optimizer",
               "--micro-batch", "8", "--effective-batch", "100", "--epochs", str(options.epochs),
               "--checkpoint-every", "5", "--checkpoint-dir", str(folder / "checkpoints"),
               "--resume", "--rank-timeout", str(TIMEOUT_S)]
    if weights:
        program += ["--save", str(weights)]
    return ["mpirun", "-n", str(options.ranks), "sh", "-c", WRAPPER, str(folder), *program]


def start(arguments):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1",
                       PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment)


def finish(options, folder):
    """Runs to the end, resuming if possible; returns the hash of the weights, and the seconds."""
    weights = folder / "weights.safetensors"
    begin = time.monotonic()
    process = start(command(options, folder, weights))
    output, _ = process.communicate(timeout=300)
    if process.returncode != 0:
        raise SystemExit(f"an undisturbed run failed:\n{output}")
    return hashlib.sha256(weights.read_bytes()).hexdigest(), time.monotonic() - begin


def is_alive(pid):
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def disturb(options, rng, longest, expected):
    """Does one run; returns its fault, or None, and a text about the signal."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        rank, wanted = rng.randrange(options.ranks), rng.choice((signal.SIGKILL, signal.SIGSTOP))
        delay = rng.uniform(0.1, longest)
        done = f"{wanted.name} to rank {rank} after {delay:.2f} s"
        process = start(command(options, folder))
        pid_file = folder / f"pid-{rank}"
        while not pid_file.exists() or not pid_file.read_text().strip():
            time.sleep(0.01)
        try:
            process.wait(timeout=delay)
            return None, done + ", which had ended"
        except subprocess.TimeoutExpired:
            pids = [int(f.read_text()) for f in folder.glob("pid-*") if f.read_text().strip()]
            os.kill(int(pid_file.read_text()), wanted)
        begin = time.monotonic()
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S + GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return "mpirun hangs", done
        took = time.monotonic() - begin
        while any(is_alive(pid) for pid in pids) and time.monotonic() - begin < TIMEOUT_S + GRACE_S:
            time.sleep(0.05)
        if left := [pid for pid in pids if is_alive(pid)]:
            return f"{len(left)} ranks are left", done
        if process.returncode == 0:
            # All ranks had ended before the signal was sent.
            return None, done + ", too late"
        saved = sorted((folder / "checkpoints").glob("step-*"))
        done += f": ended after {took:.1f} s, latest {saved[-1].name if saved else 'none'}"
        signs = f"process rank {rank} ", f"rank {rank} of {options.ranks}, on", "--rank-timeout"
        if not any(sign in output for sign in signs):
            return f"no line names the rank:\n{output}", done
        if finish(options, folder)[0] != expected:
            return "resumed, it has other weights", done
        shutil.rmtree(folder / "checkpoints")
        return None, done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/apps/accrue"))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        expected, seconds = finish(options, pathlib.Path(scratch))
    print(f"undisturbed: {seconds:.1f} s")
    failures = 0
    for run in range(options.runs):
        wrong, done = disturb(options, rng, 0.9 * seconds, expected)
        failures += wrong is not None
        print(f"{run + 1}: {done}{': ' + wrong if wrong else ''}", flush=True)
    print(f"{options.runs} runs, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
