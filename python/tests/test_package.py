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


class ClassWeight(unittest.TestCase):
    def weighted(self, **options):
        return accrue.train(network(), samples(), steps=3, seed=3, **options).losses

    def test_is_another_name_of_class_weights(self):
        for given, same in (({0: 1.0, 2: 2.5}, [1.0, 1.0, 2.5]), ({1: 3}, [1.0, 3.0, 1.0]), ([1, 2, 3], [1, 2, 3]),
                            ("balanced", "balanced"), ({np.int64(2): np.float32(2.5)}, [1, 1, 2.5])):
            np.testing.assert_array_equal(self.weighted(class_weight=given), self.weighted(class_weights=same))
        self.assertFalse(np.array_equal(self.weighted(class_weight={2: 2.5}), self.weighted()))
        np.testing.assert_array_equal(
            self.weighted(class_weight={"owl": 2.5}, classes=["cat", "dog", "owl"]),
            self.weighted(class_weights=[1, 1, 2.5], classes=["cat", "dog", "owl"]))

    def test_counts_classes_as_a_training_does(self):
        x, y = samples()
        several = np.tile(y[:, None], (1, 5)) % 2  # the third class is not in these labels
        places = accrue.Sequential(accrue.Linear(4, 8), accrue.Linear(8, 3))
        options = {"steps": 2, "seed": 3}
        for layers, data, same in ((network(), list(zip(x, y % 2)), [2, 1, 1]), (accrue.Linear(4, 2), (x, y % 2), [2, 1]),
                                   (places, (np.tile(x[:, None], (1, 5, 1)), several), [2, 1, 1])):
            np.testing.assert_array_equal(accrue.train(layers, data, class_weight={0: 2.0}, **options).losses,
                                          accrue.train(layers, data, class_weights=same, **options).losses)

    def test_is_refused_where_it_is_wrong(self):
        for given, words in (({"cat": 1.0}, "class_weight has the key 'cat'"), ({-1: 1.0}, "has the key -1"),
                             ({3: 1.0}, "has the class 3, but there are 3"), ({}, "class_weight is empty"),
                             ({0: "much"}, "has 'much' for the class 0"), ("even", "class_weight is 'even'")):
            with self.assertRaisesRegex(accrue.Error, words):
                self.weighted(class_weight=given)
        with self.assertRaisesRegex(accrue.Error, "two names of the same: expected one"):
            self.weighted(class_weight={0: 1.0}, class_weights=[1, 1, 1])

    def test_acts_in_plans_and_scores(self):
        x, y = samples()
        accrue.plan(network(), (x, y), effective_batch=64, memory="64MiB", class_weight={0: 2.0})
        weights = accrue.train(network(), (x, y), steps=1).weights
        score = accrue.evaluate(weights, network(), (x, y), class_weight={0: 5.0})
        self.assertNotEqual(score["loss"], accrue.evaluate(weights, network(), (x, y))["loss"])
        self.assertEqual(score["loss"], accrue.evaluate(weights, network(), (x, y), class_weights=[5, 1, 1])["loss"])


if __name__ == "__main__":
    unittest.main()
