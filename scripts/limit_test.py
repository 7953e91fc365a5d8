"""Tests of limit.py and steps.sh: a step that hangs is shown and ended, and the next step runs."""

import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import unittest

import limit

FOLDER = pathlib.Path(__file__).resolve().parent

# A program like one of Catch's tests, which names the running test when it is aborted.
HANGS = """trap 'echo "FAILED in: a window ends"; exit 134' ABRT; sleep 1001 & wait"""


def run(command):
    # The limit is longer than gdb may take for each process. A job of a shell without job control
    # ignores interrupts, and so would what it starts.
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=300, check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    except subprocess.TimeoutExpired as late:
        output = (late.output or b"").decode(errors="replace")
        raise AssertionError(f"not done after {late.timeout} s, with this output:\n{output}") from None


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

    def test_what_starts_meanwhile_is_ended(self):
        done = limited(0.5, "bash", "-c", "while :; do sleep 1007 & sleep 0.05; done")
        self.assertEqual(124, done.returncode, done.stdout)
        self.assertEqual([], still_running("sleep 1007"))


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


class Lanes(unittest.TestCase):
    def test_a_lane_runs_beside_the_script_and_is_shown_and_counted_when_joined(self):
        done = steps("""
            meet() { touch "$scratch/$1"; until [[ -e $scratch/$2 ]]; do sleep 0.05; done; echo "$1 met $2"; }
            spin() { python3 -c 'while __import__("time").process_time() < 2: pass'; }
            its_steps() { step third meet lane script; step fourth false; skip "a fifth: it's 'quoted'"; spin; }
            beside lane its_steps
            step first meet script lane
            outlive() { until [[ -s $scratch/lane.counts ]]; do sleep 0.05; done; sleep 0.5; }
            step second outlive
            join lane
            finish""")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertEqual(["first", "second", "third", "fourth", "FAILED: fourth", "SKIPPED: a fifth: it's 'quoted'",
                          "summary"], re.findall("^=== (.*)", done.stdout, re.MULTILINE))
        self.assertRegex(done.stdout, "(?s)=== first\nscript met lane\n.*=== third\nlane met script\n")
        self.assertRegex(done.stdout, " [0-9]+ s     [01] s of CPU  second\n")  # the lane's 2 s are not its own
        self.assertRegex(done.stdout, "skipped: a fifth: it's 'quoted'\nfailed: fourth\n"
                         "3 passed, 1 failed, 1 skipped \\([0-9]+ s, [2-9] s of CPU\\)\n")

    def test_a_step_that_hangs_ends_no_lane(self):
        done = steps("""
            beside lane step patient sleep 4
            limit=0.5 step hangs sleep 1005
            finish""")
        self.assertIn("failed: hangs (not done after 0.5 s)\n1 passed, 1 failed, 0 skipped", done.stdout)

    def test_a_lane_that_ends_early_fails(self):
        done = steps("its_steps() { step one true; exit; }; beside lane its_steps; finish")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertRegex(done.stdout, "(?s)=== one\n.*failed: lane: ended before its last step\n0 passed, 1 failed")

    def test_a_script_that_is_ended_ends_its_lanes_and_shows_what_they_said(self):
        done = steps("""
            trap stop_lanes EXIT
            trap 'exit 9' TERM
            beside lane step long bash -c 'echo begun; sleep 1006'
            until grep -qs begun "$scratch/lane.log"; do sleep 0.05; done
            kill $$
            step never true""")
        self.assertEqual(9, done.returncode, done.stdout)
        self.assertRegex(done.stdout, "^\n=== lane: stopped\n\n=== long\nbegun\n")
        self.assertEqual([], still_running("sleep 1006"))

    def test_programs_in_a_lane_hear_an_interrupt(self):
        done = steps("""
            beside lane step heard python3 -c 'import signal; signal.raise_signal(signal.SIGINT)'
            finish""")
        self.assertIn("KeyboardInterrupt", done.stdout)


if __name__ == "__main__":
    unittest.main()
