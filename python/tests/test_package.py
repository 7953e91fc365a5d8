"""The module as a package: the logger, and other customs of packages."""

import contextlib
import io
import logging
import subprocess
import sys
import unittest

import accrue
import numpy as np


def network():
    return accrue.Sequential(accrue.Linear(4, 8, activation="relu"), accrue.Linear(8, 3))


def samples(n=64):
    x = np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)
    return x, np.arange(n, dtype=np.int32) % 3


class Notes(unittest.TestCase):
    def test_go_to_the_logger(self):
        out = io.StringIO()
        with self.assertLogs("accrue", logging.INFO) as logs, contextlib.redirect_stdout(out):
            accrue.train(network(), samples(), steps=2, log_every=1)
        self.assertEqual(out.getvalue(), "")
        self.assertGreater(len(logs.records), 2)
        for record in logs.records:
            self.assertEqual((record.levelno, record.name), (logging.INFO, "accrue"))
            self.assertNotIn("\n", record.getMessage())
            self.assertNotIn("\r", record.getMessage())
        self.assertTrue(any("loss" in record.getMessage() for record in logs.records))
        with contextlib.redirect_stdout(out), self.assertLogs("accrue", logging.INFO):
            accrue.train(network(), samples(), steps=2, quiet=False)
        self.assertIn("loss", out.getvalue())

    def test_are_silent_by_default(self):
        ran = subprocess.run([sys.executable, "-c", """if True:
            import logging, accrue
            accrue.train("mlp-small", "digits", steps=1)
            assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("accrue").handlers)"""],
                             capture_output=True, text=True, check=True)
        self.assertEqual((ran.stdout, ran.stderr), ("", ""))

    def test_warnings_are_pythons(self):
        x, y = samples()
        first = accrue.train(network(), (x, y), steps=1).weights
        other = accrue.Sequential(accrue.Linear(4, 8, activation="relu"), accrue.Linear(8, 5))
        with self.assertWarnsRegex(UserWarning, "3 classes in .*, 5 here: made new") as caught:
            accrue.train(other, (x, np.arange(64) % 5), steps=1, init=first)
        self.assertEqual(caught.filename, __file__)  # the line of the caller


if __name__ == "__main__":
    unittest.main()
