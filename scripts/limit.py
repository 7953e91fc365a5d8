#!/usr/bin/env python3
"""Limits the time of a command. Processes that still run then are shown, with the stacks of their
threads, and ended, and the exit status is 124.

    scripts/limit.py SECONDS COMMAND...    exits as the command does, if that ends in time
    scripts/limit.py SECONDS --siblings    limits all other processes that the parent has started or
                                           starts, until SIGTERM says that it is done; then exits
                                           with 0

gdb shows the stacks; without it, or if it has no permission, the kernel's facts about each thread
are shown. Then all processes get SIGABRT, at which Catch names the test that runs and faulthandler
shows Python's stack, and after a while SIGKILL.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

STATUS = 124
GRACE_S = 10
GDB_S = 60  # for each process
PROCESSES_SHOWN = 20


def processes():
    """The parent's number of each process that has not ended, by the process's number."""
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if state != "Z":
            parents[int(folder.name)] = int(parent)
    return parents


def descendants(root, but=None):
    """Processes that `root` has started, directly or not, parents first; without `but` and its
    descendants."""
    parents = processes()
    found = [root]
    for each in found:
        found += sorted(pid for pid, parent in parents.items() if parent == each and pid != but)
    return found[1:]


def command_of(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "(ended)"
    return b" ".join(words).decode(errors="replace")


def frames_by_gdb(pid):
    if not shutil.which("gdb"):
        return []
    try:
        output = subprocess.run(
            ["gdb", "--batch", "--nx", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
             "-ex", "set print frame-arguments scalars", "-ex", "thread apply all backtrace 40",
             "--pid", str(pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=GDB_S,
            check=False).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return []
    return [line[:200] for line in output.splitlines() if line.startswith(("Thread ", "#"))]


def threads_by_kernel(pid):
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        known = []
        for name in ("comm", "wchan", "syscall"):
            try:
                known.append(f"{name} {(task / name).read_text(errors='replace').strip()}")
            except OSError:
                known.append(f"{name} unknown")
        lines.append(f"Thread {task.name}: {', '.join(known)}")
    return lines


def show(pids):
    for pid in pids[:PROCESSES_SHOWN]:
        print(f"--- process {pid}: {command_of(pid)[:400]}")
        lines = frames_by_gdb(pid)
        if not any(line.startswith("#") for line in lines):
            lines = threads_by_kernel(pid)
        print(*lines, sep="\n", flush=True)


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def frozen(root, but=None):
    """The descendants, after all have been stopped: none starts another one that nobody ends."""
    pids = []
    while new := [pid for pid in descendants(root, but) if pid not in pids]:
        send(new, signal.SIGSTOP)
        pids += new
    return pids


def end(root, but=None):
    """Ends the descendants. None begins its next step when a child ends: all have the signal before
    one goes on."""
    pids = frozen(root, but)
    for number in (signal.SIGABRT, signal.SIGCONT):
        send(pids, number)
    end_of_grace = time.monotonic() + GRACE_S
    while time.monotonic() < end_of_grace and not processes().keys().isdisjoint(pids):
        time.sleep(0.1)
    send(pids + frozen(root, but), signal.SIGKILL)


def stop(seconds, what, root, but=None):
    print(f"error: not done after {seconds:g} s: {what}", flush=True)
    show(descendants(root, but))
    end(root, but)


def limit_command(seconds, command):
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        print(f"limit: error: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    try:
        process.wait(timeout=seconds)
    except KeyboardInterrupt:
        process.wait()
    except subprocess.TimeoutExpired:
        stop(seconds, " ".join(command), os.getpid())
        return STATUS
    # Shells report a process that a signal ended in the same way.
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def limit_siblings(seconds):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parent, own = os.getppid(), os.getpid()
    end_of_time = time.monotonic() + seconds
    while time.monotonic() < end_of_time:
        time.sleep(min(1, seconds))
        if os.getppid() != parent:
            return 0
    # The first process that ends may let the parent say that it is done. The others are ended all
    # the same.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    first = [command_of(pid) for pid in descendants(parent, own)[:1]]
    stop(seconds, *first or ["a step of a script"], parent, own)
    while os.getppid() == parent and signal.SIGTERM not in signal.sigpending():
        send(frozen(parent, own), signal.SIGKILL)  # a script's next steps are late, too
        time.sleep(0.2)
    return STATUS


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    return limit_siblings(seconds) if command == ["--siblings"] else limit_command(seconds, command)


if __name__ == "__main__":
    sys.exit(main())
