"""Tests of limit.py and steps.sh: a step that hangs is shown and ended, and the next step runs."""

import pathlib
import shlex
import subprocess
import tempfile
import unittest

import limit

FOLDER = pathlib.Path(__file__).resolve().parent

# A program like one of Catch's tests, which names the running test when it is aborted.
HANGS = """trap 'echo "FAILED in: a window ends"; exit 134' ABRT; sleep 1001 & wait"""


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, check=False)


def limited(seconds, *command):
    return run([FOLDER / "limit.py", str(seconds), *command])


def steps(script):
    """The script, with the functions of steps.sh."""
    with tempfile.TemporaryDirectory() as scratch:
        return run(["bash", "-uo", "pipefail", "-c",
                    f"scratch={scratch}; source {FOLDER}/steps.sh; {script}"])


def still_running(words):
    return [pid for pid in limit.processes() if limit.command_of(pid) == words]


class Commands(unittest.TestCase):
    def test_what_ends_in_time_keeps_its_status_and_output(self):
        for command, status in (("echo said", 0), ("echo said; exit 3", 3),
                                ("echo said; kill -SEGV $$", 139)):
            done = limited(60, "bash", "-c", command)
            self.assertEqual((status, "said\n"), (done.returncode, done.stdout))

    def test_what_cannot_be_run_is_named(self):
        done = limited(60, "/no/such/program")
        self.assertEqual((127, "limit: error: cannot run /no/such/program: No such file or directory\n"),
                         (done.returncode, done.stdout))

    def test_what_hangs_is_shown_with_its_stacks_and_ended(self):
        done = limited(0.5, "bash", "-c", HANGS)
        self.assertEqual(124, done.returncode, done.stdout)
        self.assertIn("error: not done after 0.5 s: bash -c trap", done.stdout)
        shown = done.stdout.split("--- process ")
        self.assertEqual(3, len(shown), done.stdout)
        self.assertIn(": sleep 1001\n", shown[2])
        for process in shown[1:]:
            self.assertIn("\nThread ", process)
            self.assertRegex(process, "\n#0 |wchan ")
        self.assertIn("FAILED in: a window ends\n", done.stdout)
        self.assertEqual([], still_running("sleep 1001"))

    def test_what_ignores_the_first_signal_is_ended(self):
        done = limited(0.5, "bash", "-c", "trap '' ABRT; sleep 1002; echo went on")
        self.assertEqual(124, done.returncode, done.stdout)
        self.assertNotIn("went on\n", done.stdout.split("--- process ")[-1])
        self.assertEqual([], still_running("sleep 1002"))


class Steps(unittest.TestCase):
    def test_a_step_that_hangs_fails_and_the_next_goes_on(self):
        done = steps(f"""
            in_a_function() {{ sleep 1003; sleep 1004; echo its rest; }}
            limit=0.5
            step first true
            step program bash -c {shlex.quote(HANGS)}
            step function in_a_function || echo it failed
            limit=60 step last echo said
            finish""")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn("FAILED in: a window ends\n", done.stdout)
        self.assertRegex(done.stdout, "(?s): sleep 1003\nThread .*it failed\n.*=== last\nsaid\n")
        self.assertIn("failed: program (not done after 0.5 s)\n"
                      "failed: function (not done after 0.5 s)\n2 passed, 2 failed, 0 skipped", done.stdout)
        self.assertNotIn("Terminated", done.stdout)
        self.assertEqual([], still_running("sleep 1003") + still_running("sleep 1004"))

    def test_steps_that_end_in_time_are_counted(self):
        done = steps("step one true; step two false || skip three; finish")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn("failed: two\n1 passed, 1 failed, 1 skipped", done.stdout)
        self.assertNotIn("limit.py", done.stdout)


if __name__ == "__main__":
    unittest.main()
