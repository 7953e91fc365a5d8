"""Tests of gpu_check.py on a made-up machine, whose GPU, toolkit and programs are
scripts."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import gpu_machine
import gpu_runs
import gpu_schedule
import gpu_steps

SCRIPTS = pathlib.Path(__file__).resolve().parent

# $MACHINE is the folder that stands for the machine; its calls.txt lists the tools that ran.
TOOLS = {
    "nvidia-smi": """
        if [[ $1 == -L ]]; then echo "GPU 0: Paper"; else echo "Paper, 580.1, 1 MiB"; fi""",
    "nvcc": "echo 'release 13.0'",
    "ninja": "",
    # Finds the fake toolkit's headers, and no others.
    "g++": 'exec /usr/bin/g++ -nostdinc "$@"',
    "cmake": """
        if [[ $1 == --version ]]; then echo "cmake version 3.25.1"; exit; fi
        [[ ! -e $MACHINE/no-build ]] || { echo "no such thing"; exit 1; }
        bundle=bundle; [[ ! -e $MACHINE/working ]] || bundle=working
        [[ $1 != --build ]] || for program in apps/accrue tests/accrue_tests; do
          install -D "$MACHINE/${bundle}/${program#*/}" "build/gpu/$program"
        done""",
    "compute-sanitizer": """
        while [[ $1 == --* ]]; do shift 2; done
        "$@" && echo "========= ERROR SUMMARY: 0 errors" """,
    "ncu": """echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
        echo '"0","accrue::cuda::relu(float)","gpu__time_duration.sum","ns","2,500"'
        echo '"0","accrue::cuda::relu(float)","dram__bytes.sum","Kbyte","10"' """,
}
PROGRAM = """
    while [[ $# -gt 1 && $1 != --json ]]; do shift; done
    [[ $1 != --json ]] || echo '{"samples_per_s": 100, "effective_batch": 128,
           "rungs": [], "array_bytes": 0, "rows": []}' >"$2" """
TESTS = """
    case $1:$2 in
      --list-tags:) ;;
      --list-test-names-only:attention\\**) echo "attention" ;;
      --list-test-names-only:*\\*\\[ops*) ;;
      --list-test-names-only:*ops*) echo "relu of [N, C]"; echo "a, b" ;;
      --list-test-names-only:*window*) echo "a window" ;;
      --list-test-names-only:*oom*) echo "the device is full" ;;
      --list-test-names-only:*) ;;
      --device:*)
        if [[ -e $MACHINE/broken && $3 == "a window" ]]; then
          echo "window.cpp:7: FAILED:"; echo "  1 == 2"; exit 1
        fi
        if [[ -e $MACHINE/idle && $3 == "a window" ]]; then echo "SKIPPED: no device"; fi
        true ;;
    esac"""
HEADERS = ("fmt/core.h", "eigen3/Eigen/Core", "CLI/CLI.hpp", "zlib.h", "png.h", "jpeglib.h",
           "pcre2.h", "utf8proc.h", "nlohmann/json.hpp", "catch2/catch.hpp", "cublasLt.h", "cudnn.h")


def write_script(path, text):
    path.write_text(f'#!/bin/bash\necho "{path.name} $*" >>"$MACHINE/calls.txt"\n{text}\n')
    path.chmod(0o755)


@unittest.skipUnless(pathlib.Path("/usr/bin/g++").exists(), "needs g++")
class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.machine = pathlib.Path(folder.name)
        self.tree, self.out = self.machine / "tree", self.machine / "out"
        (self.tree / "scripts").mkdir(parents=True)
        for name in ("gpu_check.py", "gpu_machine.py", "gpu_rehearsal.py", "gpu_runs.py",
                     "gpu_schedule.py", "gpu_steps.py", "gpu_summary.py", "make_satellite.py"):
            shutil.copy(SCRIPTS / name, self.tree / "scripts")
        (self.machine / "bin").mkdir()
        for name, text in TOOLS.items():
            write_script(self.machine / "bin" / name, text)
        (self.machine / "bundle").mkdir()
        write_script(self.machine / "bundle" / "accrue", PROGRAM)
        write_script(self.machine / "bundle" / "accrue_tests", TESTS)
        for name in HEADERS:
            header = self.machine / "usr" / "include" / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text("")
        # The toolkit's include/, beside its bin/nvcc.
        (self.machine / "include").mkdir()
        for name in ("cublasLt.h", "cudnn.h"):
            (self.machine / "usr" / "include" / name).rename(self.machine / "include" / name)

    def check(self, *arguments, **variables):
        """Output and status of a call."""
        environment = {**os.environ, "MACHINE": str(self.machine),
                       "PATH": f"{self.machine / 'bin'}:{os.environ['PATH']}", **variables}
        environment.pop("CUDACXX", None)
        process = subprocess.run(
            [sys.executable, self.tree / "scripts" / "gpu_check.py", self.out,
             "--python", sys.executable, "--prefix", self.machine, *arguments],
            check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        return process.stdout, process.returncode

    def check_bundle(self, *arguments, sources=None):
        (self.machine / "bundle" / "sources.txt").write_text(
            sources or gpu_machine.stamp_of_sources(self.tree))
        archive = self.machine / "bundle.tar.gz"
        with tarfile.open(archive, "w:gz") as file:
            file.add(self.machine / "bundle", ".")
        return self.check("--bundle", archive, *arguments)

    def calls(self):
        return (self.machine / "calls.txt").read_text().splitlines()

    def summary(self):
        return (self.out / "summary.md").read_text()

    def test_everything_passes_from_a_bundle(self):
        output, status = self.check_bundle()
        self.assertEqual(status, 0, output)
        self.assertIn("PyTorch that can use the GPU", output.splitlines()[1])
        self.assertIn("No required step failed. 5 of 5 tests passed.\n", self.summary())
        order = [output.index(f" s  {name}") for name in (
            "changed tests", "racecheck of what changed", "bench train gpt2",
            "time per kernel, gpt2", "ops")]
        self.assertEqual(order, sorted(order))
        second, status = self.check_bundle("--part", "second")
        self.assertEqual(status, 0, second)
        self.assertTrue(second.index(" s  bench kernels") < second.index(" s  memcheck of all"))
        # The page is of both parts.
        for step in ("changed tests", "bench kernels"):
            self.assertIn(f"| {step} | passed |", self.summary())
        calls = self.calls()
        self.assertFalse(any(call.startswith("cmake -") for call in calls), calls)
        # A process for each test, whose name Catch takes neither for tags nor for two patterns.
        self.assertIn("accrue_tests --device cuda relu of \\[N\\, C\\]", calls)
        self.assertIn("accrue_tests --device cuda a\\, b", calls)
        memcheck = [call for call in calls if "--tool memcheck --error-exitcode" in call][0]
        self.assertIn("--report-api-errors no --kernel-name kernel_substring=accrue", memcheck)
        self.assertIn("| mlp | accrue::cuda::relu | 1 | 2.50 | 100.0% | 4 |", self.summary())
        for name in ("summary.md", "results.json", "log.txt"):
            self.assertTrue((self.out / name).is_file(), name)

    def test_what_is_missing_comes_first(self):
        (self.machine / "include" / "cublasLt.h").unlink()
        (self.machine / "usr" / "include" / "fmt" / "core.h").unlink()
        write_script(self.machine / "bin" / "nvidia-smi", "exit 9")
        output, status = self.check()
        lines = output.splitlines()
        self.assertEqual((lines[0], status), ("missing here:", 1))
        self.assertIn("an NVIDIA GPU", lines[1])
        told = [line.split()[0] for line in lines]
        self.assertIn("fmt:", told)
        self.assertIn("cublasLt,", told)
        self.assertIn("nothing can be checked", lines[-1])
        self.assertFalse(self.out.exists())

    def test_cublas_of_pythons_packages_serves(self):
        (self.machine / "include" / "cublasLt.h").unlink()
        package = self.machine / "python" / "nvidia" / "cu13"
        for name in ("include/cublasLt.h", "lib/libcublasLt.so.13"):
            (package / name).parent.mkdir(parents=True)
            (package / name).touch()
        output, status = self.check(PYTHONPATH=self.machine / "python")
        self.assertEqual(status, 0, output)
        self.assertNotIn("cublasLt,", output)
        configure = [call for call in self.calls() if call.startswith("cmake --preset")][0]
        self.assertIn(f"-DCUDA_cublasLt_LIBRARY={package}/lib/libcublasLt.so.13", configure)

    def test_a_bundle_that_does_not_start_is_built_anew(self):
        shutil.copytree(self.machine / "bundle", self.machine / "working")
        write_script(self.machine / "bundle" / "accrue", "exit 127")
        output, status = self.check_bundle()
        self.assertEqual(status, 0, output)
        self.assertIn("does not start", output)
        self.assertTrue(any(call.startswith("cmake --build") for call in self.calls()))

    def test_a_failed_build_is_told(self):
        (self.machine / "no-build").touch()
        output, status = self.check()
        self.assertEqual(status, 1)
        self.assertIn("no such thing\n", output)
        self.assertIn("the build failed", output)

    def test_a_failing_test_is_told_and_repeated_in_detail(self):
        (self.machine / "broken").touch()
        output, status = self.check_bundle()
        self.assertEqual(status, 1)
        self.assertIn("failed: [window] a window", output)
        self.assertIn("FAILED: tests.", self.summary())
        self.assertIn("| tests | window | a window | failed | window.cpp:7: FAILED: |",
                      self.summary())
        results = self.machine / "results.json"
        shutil.copy(self.out / "results.json", results)
        (self.machine / "calls.txt").unlink()
        (self.machine / "broken").unlink()
        output, status = self.check_bundle("--failed", results)
        self.assertEqual(status, 0, output)
        run = [call for call in self.calls() if call.startswith("accrue_tests --device")]
        self.assertEqual(set(run), {"accrue_tests --device cuda a window"})
        self.assertFalse(any("bench" in call for call in self.calls()))

    def test_a_skipped_test_is_none_that_passed(self):
        (self.machine / "idle").touch()
        self.assertEqual(self.check_bundle()[1], 1)
        self.assertIn("| tests | window | a window | failed |", self.summary())

    def test_steps_are_left_out_by_name(self):
        output, status = self.check_bundle("--skip", "bench|^tests$")
        self.assertEqual(status, 0, output)
        self.assertIn("| tests | skipped |", self.summary())
        self.assertFalse(any("bench train" in call or "a window" in call for call in self.calls()))

    def test_what_no_longer_fits_is_not_begun(self):
        output, status = self.check_bundle("--seconds", "1")
        self.assertEqual(status, 1, output)
        self.assertIn("FAILED: ", self.summary())
        self.assertIn("| bench train | 7 left | 0 | required | no time was left: needs 6 s",
                      self.summary())
        self.assertFalse(any("bench" in call for call in self.calls()))
        # Tests of a step that was not begun are the second part's.
        self.assertIn(" 0 of 5 tests passed.\n", self.summary())
        output, status = self.check_bundle("--part", "second", "--skip", "bench|time per|check")
        self.assertIn(" s  tests alone: 1 passed\n", output)
        self.assertIn(" 5 of 5 tests passed.\n", self.summary())

    def test_what_was_not_reached_is_done_in_the_second_part(self):
        self.assertEqual(self.check_bundle("--skip", "bench|time per|racecheck")[1], 0)
        cases = self.tree / "build" / "gpu-measured" / "cases-tests.json"
        listed = json.loads(cases.read_text())["cases"]
        self.assertEqual([case["name"] for case in listed], ["a window"])
        late = {"tag": "window", "name": "a window", "status": "left", "seconds": 0, "output": ""}
        other = late | {"name": "another", "status": "passed"}
        cases.write_text(json.dumps({"cases": [other, late]}))
        output, status = self.check_bundle("--part", "second", "--skip", "bench|time per|check")
        self.assertEqual(status, 0, output)
        self.assertIn(" s  tests: 2 passed\n", output)

    def test_a_bundle_of_other_sources_is_told(self):
        header = self.tree / "core.h"
        header.write_text("int x;")
        before = gpu_machine.stamp_of_sources(self.tree)
        header.write_text("int y;")
        _, status = self.check_bundle("--skip", "bench|test|ops|check|time per", sources=before)
        self.assertEqual(status, 1)
        self.assertIn("FAILED: the bundle is of these sources.", self.summary())

    def test_a_profile_survives_its_time_limit(self):
        write_script(self.machine / "bin" / "ncu", """
            echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
            while [[ $1 != */accrue ]]; do shift; done
            cp /bin/sleep "$MACHINE/slow"
            "$MACHINE/slow" 60
            echo '"0","accrue::relu(float)","gpu__time_duration.sum","us","2.5"'""")
        runs = gpu_runs.Runs(options_for(self.machine), self.machine / "measured",
                             gpu_schedule.Schedule({}, 60, gpu_schedule.Clock()))
        runs.environment["MACHINE"] = str(self.machine)
        ending = gpu_runs.ENDING
        self.addCleanup(setattr, gpu_runs, "ENDING", ending)
        gpu_runs.ENDING = (5, 5)
        output = runs.step("optional", 11, "profile",
                           [self.machine / "bin" / "ncu", self.machine / "accrue"],
                           ended=self.machine / "slow")
        self.assertIn('"accrue::relu(float)"', output)
        self.assertIn("accrue::relu", (self.machine / "log.txt").read_text())
        runs.log.close()

    def test_a_rehearsal_needs_no_gpu_and_no_program(self):
        for how in ("expected", "slow"):
            output, status = self.check("--rehearse", how)
            self.assertEqual(status, 0, output)
            self.assertIn("A rehearsal: every figure is made up.", self.summary())
        self.assertFalse((self.machine / "calls.txt").exists())


def options_for(folder):
    return argparse.Namespace(out=pathlib.Path(folder), program="true", tests="sleep", workers=2,
                              skip="(?!)")


class Units(unittest.TestCase):
    def test_what_hangs_is_stopped_and_holds_up_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            check = gpu_runs.Runs(options_for(folder), pathlib.Path(folder) / "measured",
                                  gpu_schedule.Schedule({}, 60, gpu_schedule.Clock()))
            start = time.monotonic()
            status, _, seconds = check.run(["bash", "-c", "sleep 50 & sleep 50"], 0.2)
            self.assertIsNone(status)
            check.test_command = lambda name: ["sleep", name]
            check.run_cases("tests", "required", 2, [("a", "50"), ("b", "0")], 2)
            self.assertLess(time.monotonic() - start, 40)
            cases = json.loads((check.measured / "cases-tests.json").read_text())["cases"]
            self.assertEqual([case["status"] for case in cases], ["stopped", "passed"])
            check.log.close()

    def test_kernels_of_a_profile(self):
        launches = gpu_steps.launches_of(
            'noise\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
            '"0","void a<(int)4>(int)","gpu__time_duration.sum","us","2.5"\n'
            '"0","void a<(int)4>(int)","dram__bytes.sum","Mbyte","1"\n'
            '"1","void (anonymous namespace)::logit_softmax",'
            '"gpu__time_duration.sum","ns","5,000"\n'
            '"2","void a<(int)4>(float)","gpu__time_duration.sum","us","1"\n'
            '"3","void b(float)","dram__bytes.sum","Mbyte","2"\n'
            '"3","void b(float)","gpu__time_duration.sum","us","n/a"\n'
            '"4","void a<(int)4>(float)","gpu__time_dur\n')
        kernels = gpu_steps.kernels_of(launches)
        self.assertEqual([(each["name"], each["launches"], each["us"]) for each in kernels],
                         [("logit_softmax", 1, 5.0), ("a<(int)4>", 2, 3.5)])
        self.assertEqual(kernels[1]["bytes"], 1e6)
        self.assertEqual([each["us"] for each in gpu_steps.head_of(launches)], [2.5, 5.0, 1.0])
        self.assertEqual(gpu_steps.head_of(launches[:1]), [])


class Schedules(unittest.TestCase):
    def setUp(self):
        self.clock = gpu_schedule.RehearsedClock()

    def schedule(self, groups, seconds, **begun):
        return gpu_schedule.Schedule(groups, seconds, self.clock, **begun)

    def test_groups_fit_into_their_parts(self):
        for seconds, groups in gpu_schedule.PARTS.values():
            self.assertLessEqual(sum(groups.values()) + gpu_schedule.ROOM, seconds)

    def test_a_group_may_use_what_earlier_ones_left_and_no_more(self):
        schedule = self.schedule({"a": 10, "b": 20}, 100)
        schedule.begin("a")
        self.assertEqual(schedule.grant(40), 10)
        self.clock.seconds = 4
        schedule.begin("b")
        self.assertEqual(schedule.left(), 26)
        self.assertEqual(schedule.grant(15), 15)
        self.clock.seconds = 29
        self.assertEqual(schedule.grant(15), 0)
        self.assertIn("needs 2 s, had 1", schedule.refusal(15))
        schedule.begin("of no group")
        self.assertEqual(schedule.left(), 100 - gpu_schedule.ROOM - 29)

    def test_the_whole_ends_in_time_whatever_the_groups_say(self):
        schedule = self.schedule({"a": 50}, 30)
        schedule.begin("a")
        self.assertEqual(schedule.grant(60), 30 - gpu_schedule.ROOM)
        # A build has taken 20 of the seconds before the schedule begins.
        self.clock.seconds = 20
        later = self.schedule({"a": 50}, 30, begun=0)
        later.begin("a")
        self.assertEqual(later.left(), 10 - gpu_schedule.ROOM)

    def test_a_step_needs_its_least_or_its_limit_if_that_is_shorter(self):
        schedule = self.schedule({"a": 10}, 100)
        schedule.begin("a")
        self.assertEqual(schedule.grant(30, least=11), 0)
        self.assertEqual(schedule.grant(30, least=10), 10)
        self.assertEqual(schedule.grant(5, least=11), 5)
