"""Runs the programs of scripts/gpu_check.py within their time, and records their outcomes."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import gpu_summary
from gpu_machine import ROOT
from gpu_schedule import LEAST

LONGEST_TEST = 60  # seconds
# Seconds that a profiled program has to end in, and its profiler then to write what it has.
ENDING = (4, 5)


def tail(text, lines=25):
    return "\n".join(text.splitlines()[-lines:])


def processes_of(session, program):
    """The processes of a session that run a program."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if (entry.name.isdigit() and os.getsid(int(entry.name)) == session
                    and os.path.samefile(entry / "exe", program)):
                yield int(entry.name)
        except OSError:
            pass


class Runs:
    """Runs steps within a schedule and records their outcomes. log.txt gets each step's output as
    it comes."""

    def __init__(self, options, measured, schedule, keep=False):
        self.options, self.measured, self.schedule = options, measured, schedule
        self.measured.mkdir(parents=True, exist_ok=True)
        if not keep:
            shutil.rmtree(self.measured)
            self.measured.mkdir()
            (options.out / "log.txt").write_bytes(b"")
        self.log = open(options.out / "log.txt", "ab")
        self.environment = {**os.environ, "ACCRUE_TEST_PROGRAM": str(options.program),
                            "ACCRUE_TEST_SOURCES": str(ROOT)}

    def left(self):
        return self.schedule.left()

    def start(self, command, output, environment=None):
        return subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
            env={**self.environment, **(environment or {})})

    def run(self, command, limit, environment=None):
        """Runs a command; returns its status (None: stopped by the limit), output and seconds."""
        start = self.schedule.clock.now()
        process = self.start(command, subprocess.PIPE, environment)
        try:
            output = process.communicate(timeout=max(0.1, limit))[0]
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, status = process.communicate()[0], None
        return status, output.decode(errors="replace"), self.schedule.clock.now() - start

    def run_logged(self, command, limit, environment=None, ended=None):
        """Like run(), with the output in the log as it comes. A program named by `ended` is asked
        to end some seconds before the limit, so that the profiler it runs under still writes."""
        start, begin = self.schedule.clock.now(), self.log.seek(0, os.SEEK_END)
        process = self.start(command, self.log, environment)
        status = None
        waits = [(limit, None)]
        if ended:
            waits = [(limit - sum(ENDING), signal.SIGTERM), (ENDING[0], signal.SIGKILL),
                     (ENDING[1], None)]
        for wait, then in waits:
            try:
                status = process.wait(max(0.1, wait))
                break
            except subprocess.TimeoutExpired:
                for each in processes_of(process.pid, ended) if then else ():
                    os.kill(each, then)
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output = (self.options.out / "log.txt").read_bytes()[begin:].decode(errors="replace")
        return status, output, self.schedule.clock.now() - start

    def write(self, heading, text=""):
        self.log.write(f"\n=== {heading}\n{text.rstrip()}\n".encode())
        self.log.flush()

    def record(self, name, status, seconds, need, note=""):
        print(f"{status:8s} {seconds:4.0f} s  {name}{': ' + note if note else ''}", flush=True)
        line = {"step": name, "status": status, "seconds": round(seconds), "need": need}
        with open(self.measured / "steps.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line | ({"note": note} if note else {})) + "\n")
        self.summarize()

    def summarize(self):
        return gpu_summary.main(self.measured, self.options.out)

    def leave_out(self, name, why):
        self.record(name, "skipped", 0, "optional", why)

    def is_left_out(self, name, need, limit=LEAST, least=LEAST):
        """Records a step that --skip names, or that no longer fits."""
        if re.search(self.options.skip, name):
            self.record(name, "skipped", 0, need)
        elif not self.schedule.grant(limit, least):
            self.record(name, "left", 0, need, self.schedule.refusal(limit, least))
        else:
            return False
        return True

    def step(self, need, limit, name, command, *, least=LEAST, ended=None):
        """Runs a command as a step; returns its output. need: required; optional (its failure is
        reported but fails nothing); or budget (required, but the limit may stop it). A step that
        needs `least` seconds is not begun with fewer."""
        if self.is_left_out(name, need, limit, least):
            return ""
        self.write(f"{name}: {' '.join(map(str, command))}")
        status, output, seconds = self.run_logged(command, self.schedule.grant(limit, least),
                                                  ended=ended)
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

    def write_cases(self, title, results):
        stem = title.replace(" ", "-")
        (self.measured / f"cases-{stem}.json").write_text(json.dumps({"cases": results}, indent=1))

    def run_cases(self, title, need, limit, cases, workers, prefix=(), environment=None,
                  earlier=()):
        """Runs each test in a process, several at once. Writes cases-TITLE.json, with the results
        of an earlier call; a test for which no time was left is 'left'."""
        def left_case(case):
            return {"tag": case[0], "name": case[1], "status": "left", "seconds": 0, "output": ""}

        if self.is_left_out(title, need, limit):
            if not re.search(self.options.skip, title):
                self.write_cases(title, [*earlier, *map(left_case, cases)])
            return []
        clock = self.schedule.clock
        start = clock.now()
        over = start + self.schedule.grant(limit)

        def one(case):
            tag, name = case
            left = over - clock.now()
            if left < 0.5:
                return left_case(case)
            return {"tag": tag,
                    **self.run_case(name, min(left, LONGEST_TEST), prefix, environment)}

        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            results = [*earlier, *pool.map(one, cases)]
        self.write_cases(title, results)
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
        self.record(title, status, clock.now() - start, need, note or "no tests")
        return results
