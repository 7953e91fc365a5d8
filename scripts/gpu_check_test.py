"""Tests of gpu_check.sh on a made-up machine, whose GPU, toolkit and programs are scripts.

    python3 -m unittest discover -s scripts -p '*_test.py'
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent

# Each is told the folder that stands for the machine, in $MACHINE; calls.txt there says who ran.
TOOLS = {
    "nvidia-smi": """
        if [[ $1 == -L ]]; then echo "GPU 0: Paper"; else cat "$MACHINE/gpu"; fi""",
    "nvcc": "echo 'release 13.0'",
    "ninja": "",
    # Finds what lies in the fake toolkit, and nothing else.
    "g++": 'exec /usr/bin/g++ -nostdinc "$@"',
    "cmake": """
        if [[ $1 == --version ]]; then echo "cmake version 3.25.1"; exit; fi
        [[ $1 != --build ]] || for program in apps/accrue tests/accrue_tests; do
          install -D "$MACHINE/program" "build/gpu/$program"
        done""",
    "ctest": """
        while [[ $1 != --output-junit ]]; do shift; done
        echo '<testcase name="ops-cuda" status="run"/>' >"$2"
        [[ $2 != *tests/* || ! -e $MACHINE/broken ]]""",
    "compute-sanitizer": "",
}
PROGRAM = """
    [[ ! -e $MACHINE/slow || $* != *"bench kernels"* ]] || exec sleep 120
    while [[ $# -gt 1 && $1 != --json ]]; do shift; done
    echo '{"samples_per_s": 100, "effective_batch": 128,
           "rungs": [], "array_bytes": 0, "rows": []}' >"$2" """
HEADERS = ("fmt/core.h", "eigen3/Eigen/Core", "CLI/CLI.hpp", "zlib.h", "png.h", "jpeglib.h",
           "nlohmann/json.hpp", "catch2/catch.hpp", "cublasLt.h", "cudnn.h")


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
        for name in ("gpu_check.sh", "gpu_summary.py", "machine.sh"):
            shutil.copy(SCRIPTS / name, self.tree / "scripts")
        (self.tree / "core").mkdir()
        (self.tree / "core" / "a.cu").write_text("1")
        (self.machine / "gpu").write_text("Paper, 580.1, 1 MiB\n")
        (self.machine / "bin").mkdir()
        for name, text in TOOLS.items():
            write_script(self.machine / "bin" / name, text)
        write_script(self.machine / "program", PROGRAM)
        for name in HEADERS:
            header = self.machine / "usr" / "include" / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text("")
        # The toolkit's, beside its bin/nvcc.
        (self.machine / "include").mkdir()
        for name in ("cublasLt.h", "cudnn.h"):
            (self.machine / "usr" / "include" / name).rename(self.machine / "include" / name)

    def start(self, *arguments, **variables):
        environment = {**os.environ, "MACHINE": str(self.machine),
                       "PATH": f"{self.machine / 'bin'}:{os.environ['PATH']}", **variables}
        environment.pop("CUDACXX", None)
        return subprocess.Popen(
            [self.tree / "scripts" / "gpu_check.sh", self.out, "--python", sys.executable,
             "--prefix", self.machine, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True)

    def check(self, *arguments, **variables):
        """Output and status of a call."""
        process = self.start(*arguments, **variables)
        return process.communicate()[0], process.returncode

    def calls(self):
        """What ran since this was asked before."""
        path = self.machine / "calls.txt"
        lines = path.read_text().splitlines()
        path.unlink()
        return lines

    def summary(self):
        return (self.out / "summary.md").read_text()

    def test_everything_passes(self):
        output, status = self.check()
        self.assertEqual(status, 0, output)
        self.assertEqual(output.splitlines()[0], "missing here:")
        self.assertIn("PyTorch that can use the GPU", output.splitlines()[1])
        self.assertIn("No required step failed.\n", self.summary())
        self.assertNotIn("Still to come", self.summary())
        tests, kernels, sanitizer = (output.index(f" s  {name}\n")
                                     for name in ("tests", "bench kernels", "memcheck"))
        self.assertTrue(tests < kernels < sanitizer)
        calls = self.calls()
        memcheck, initcheck = ([call for call in calls if f"--tool {tool}" in call][0]
                               for tool in ("memcheck", "initcheck"))
        self.assertIn("--report-api-errors no", memcheck)
        self.assertNotIn("kernel", initcheck)
        tests, cli = (call for call in calls if call.startswith("ctest"))
        self.assertIn("--exclude-regex ^cli", tests)
        self.assertIn("--tests-regex ^cli", cli)

    def test_what_is_missing_comes_first(self):
        (self.machine / "include" / "cublasLt.h").unlink()
        (self.machine / "usr" / "include" / "fmt" / "core.h").unlink()
        (self.machine / "bin" / "nvidia-smi").unlink()
        write_script(self.machine / "bin" / "nvidia-smi", "exit 9")
        output, status = self.check()
        lines = output.splitlines()
        self.assertEqual((lines[0], status), ("missing here:", 1))
        self.assertIn("an NVIDIA GPU", lines[1])
        self.assertEqual([line.split()[0] for line in lines[2:4]], ["fmt:", "cublasLt,"])
        self.assertIn("scripts/vendor_headers.sh", lines[2])
        self.assertIn("nothing can be checked", lines[-1])
        self.assertFalse(self.out.exists())

    def test_cublas_of_pythons_packages_serves(self):
        (self.machine / "include" / "cublasLt.h").unlink()
        package = self.machine / "python" / "nvidia" / "cu13"
        for name in ("include/cublasLt.h", "lib/libcublasLt.so.13"):
            (package / name).parent.mkdir(parents=True)
            (package / name).touch()
        output, status = self.check("--only", "kernels", PYTHONPATH=self.machine / "python")
        self.assertEqual(status, 0, output)
        self.assertNotIn("cublasLt,", output)
        configure = [call for call in self.calls() if call.startswith("cmake --preset")][0]
        self.assertIn(f"-DCUDA_cublasLt_LIBRARY={package}/lib/libcublasLt.so.13", configure)

    def interrupt(self, kill):
        (self.machine / "slow").touch()
        process = self.start()
        log = self.out / "log.txt"
        while not log.exists() or "=== bench kernels" not in log.read_text():
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        kill(process)
        process.communicate()
        (self.machine / "slow").unlink()
        return process.returncode

    def goes_on(self):
        self.assertIn("| tests | passed |", self.summary())
        self.assertIn("Still to come: kernels, train", self.summary())
        self.assertTrue(any(call.startswith("ctest") for call in self.calls()))
        output, status = self.check("--only", "tests,kernels")
        self.assertEqual(status, 0, output)
        calls = self.calls()
        self.assertFalse(any(call.startswith("ctest") for call in calls), calls)
        self.assertTrue(any("bench kernels" in call for call in calls), calls)
        self.assertIn("| bench kernels | passed |", self.summary())

    def test_goes_on_after_being_told_to_end(self):
        start = time.monotonic()
        self.assertEqual(self.interrupt(lambda process: process.terminate()), 143)
        self.assertLess(time.monotonic() - start, 100)  # not the 120 s of the step
        self.goes_on()

    def test_goes_on_after_being_killed(self):
        self.interrupt(lambda process: os.killpg(process.pid, signal.SIGKILL))
        self.goes_on()

    def test_what_failed_comes_again_at_the_end(self):
        (self.machine / "broken").touch()
        output, status = self.check("--only", "tests")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: tests.", self.summary())
        (self.machine / "broken").unlink()
        output, status = self.check("--only", "tests,kernels")
        self.assertEqual(status, 0, output)
        self.assertLess(output.index("s  bench kernels\n"), output.index("s  tests\n"))
        self.assertIn("| tests | passed |", self.summary())
        self.assertNotIn("| tests | failed |", self.summary())

    def test_figures_of_other_sources_are_put_aside(self):
        self.check("--only", "kernels")
        for path, text in ((self.tree / "core" / "a.cu", "2"), (self.machine / "gpu", "Wood\n")):
            path.write_text(text)
            output, status = self.check("--only", "tests")
            self.assertEqual(status, 0, output)
            self.assertIn("have changed", output)
            self.assertNotIn("bench kernels", self.summary())

    def test_without_a_build_nothing_goes_on(self):
        write_script(self.machine / "bin" / "cmake", """
            if [[ $1 == --version ]]; then echo "cmake version 3.25.1"; exit; fi
            echo "no such thing"; false""")
        output, status = self.check("--only", "tests")
        self.assertEqual(status, 1)
        self.assertIn("    no such thing", output)
        self.assertIn("FAILED: configure. Still to come: build, tests", self.summary())

    def test_dry_run(self):
        output, status = self.check("--dry-run")
        self.assertEqual(status, 0)
        self.assertIn("bench train cnn 32x8, graphs off", output)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
