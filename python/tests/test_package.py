"""The module as a package: docstrings, their examples, types, and the logger."""

import contextlib
import doctest
import importlib.util
import inspect
import io
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

import accrue
import numpy as np
from accrue import _signatures

# numpydoc's checks that every docstring passes, beside those that it has no choice about. Left out: summaries in the
# third person (SS05), sections that say nothing (ES01, SA01), and how quotes stand (GL01, GL02).
CHECKS = {"GL03", "GL05", "GL06", "GL07", "GL08", "GL10", "SS01", "SS02", "SS03", "SS04", "SS06", "PR01", "PR02", "PR03",
          "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10", "RT02", "RT03", "RT04", "RT05"}
PARAMETERS = {"PR01", "PR02", "PR03"}
# Classes whose objects are results: nobody calls them. The signatures of scikit-learn's methods are its own.
RESULTS = ("Epoch", "History", "Info", "Memory", "Plan", "Result", "Samples", "Score", "Scores", "Step", "Value", "Layer",
           "Error", "OutOfMemory")
HAS_SCIKIT_LEARN = importlib.util.find_spec("sklearn") is not None


def public():
    """The names that people use, with their objects: functions, classes, and the classes' methods."""
    for name in dir(accrue):
        if name.startswith("_") or (name in ("Classifier", "Regressor") and not HAS_SCIKIT_LEARN):
            continue
        found = getattr(accrue, name)
        if isinstance(found, types.ModuleType):
            continue
        yield name, found
        for method in sorted(vars(found)) if isinstance(found, type) else ():
            if not method.startswith("_") and callable(getattr(found, method)):
                yield f"{name}.{method}", getattr(found, method)


def as_numpydoc_sees(found):
    """A function of nanobind's as one of Python's: it has no signature, and its __doc__ begins with one."""
    if not hasattr(found, "__nb_signature__") or isinstance(found, type):
        return found

    def shown(*args, **options):
        pass

    shown.__signature__, shown.__doc__ = _signatures._described(found)
    parameters = list(shown.__signature__.parameters.values())
    if parameters and parameters[0].name == "self":
        shown.__signature__ = shown.__signature__.replace(parameters=parameters[1:])
    shown.__module__, shown.__name__ = "accrue", "shown"
    return shown


class Docstrings(unittest.TestCase):
    def test_are_there(self):
        for name, found in public():
            self.assertTrue((found.__doc__ or "").strip(), name)

    def test_have_numpydocs_form(self):
        try:
            from numpydoc.docscrape import get_doc_object
            from numpydoc.validate import validate
        except ImportError:
            self.skipTest("no numpydoc")
        problems = []
        for name, found in public():
            if name.startswith(("Classifier.set_", "Regressor.set_")):
                continue  # scikit-learn's own
            checks = CHECKS - PARAMETERS if name in RESULTS else CHECKS
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of sections that it cannot read
                errors = validate(get_doc_object(as_numpydoc_sees(found)))["errors"]
            problems += [f"{name}: {code}: {text}" for code, text in errors if code in checks]
        self.assertEqual(problems, [])

    def test_of_functions_name_the_arguments_of_their_signatures(self):
        for name in ("train", "Trainer", "plan", "info", "evaluate", "predict", "export", "generate", "embed"):
            function = getattr(accrue, name)
            text = function.__doc__
            for parameter in inspect.signature(function).parameters:
                self.assertRegex(text, rf"(?m)^ *{parameter} : \S", name)


class Examples(unittest.TestCase):
    def test_run(self):
        names = {"accrue": accrue, "np": np}
        finder, count = doctest.DocTestFinder(recurse=False), 0
        failures = []
        with tempfile.TemporaryDirectory() as folder, in_folder(folder):
            for name, found in public():
                if ">>>" not in (found.__doc__ or "") or (name == "from_torch" and not has("torch")):
                    continue
                test = doctest.DocTestParser().get_doctest(found.__doc__, dict(names), f"accrue.{name}", None, 0)
                said = []
                doctest.DocTestRunner(verbose=False).run(test, out=said.append)
                count += 1
                if said:
                    failures.append("".join(said))
        self.assertEqual("\n".join(failures), "")
        self.assertGreater(count, 150)


class Types(unittest.TestCase):
    def test_of_the_examples(self):
        if not has("mypy"):
            self.skipTest("no mypy")
        folder = pathlib.Path(accrue.__file__).parent
        if not (folder / "_accrue.pyi").exists():
            self.skipTest("no stub beside the module")
        self.assertTrue((folder / "py.typed").exists())
        files = [pathlib.Path(__file__).with_name("typed") / "examples.py"]
        with tempfile.TemporaryDirectory() as cache:
            ran = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", cache, *files],
                env={**os.environ, "MYPYPATH": str(folder.parent)}, cwd=cache, capture_output=True, text=True,
                check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


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
                                   (network(), (x, y % 2), [2, 1, 1]),
                                   (places, (np.tile(x[:, None], (1, 5, 1)), several), [2, 1, 1])):
            np.testing.assert_array_equal(accrue.train(layers, data, class_weight={0: 2.0}, **options).losses,
                                          accrue.train(layers, data, class_weights=same, **options).losses)

    def test_is_refused_where_it_is_wrong(self):
        for given, words in (({"cat": 1.0}, "class_weight has the key 'cat'"), ({-1: 1.0}, "has the key -1"),
                             ({3: 1.0}, "has the class 3, but there are 3"), ({}, "class_weight is empty"),
                             ({0: "much"}, "has 'much' for the class 0"), ("even", "class_weight is 'even'"),
                             (True, "class_weight is True"), (b"x", "class_weight is b'x'"), ([], "class_weight is empty"),
                             (2.5, "class_weight is 2.5")):
            with self.assertRaisesRegex(accrue.Error, words):
                self.weighted(class_weight=given)
        with self.assertRaisesRegex(accrue.Error, "classes is 3: expected a list of names"):
            self.weighted(class_weight={0: 1.0}, classes=3)
        with self.assertRaisesRegex(accrue.Error, "two names of the same: expected one"):
            self.weighted(class_weight={0: 1.0}, class_weights=[1, 1, 1])

    def test_acts_on_data_sets_by_name_and_on_modules(self):
        options = {"steps": 2, "seed": 3, "threads": 1}
        losses = [accrue.train("mlp-small", "digits", **given, **options).losses
                  for given in ({"class_weight": {3: 2.5}}, {"class_weights": [1, 1, 1, 2.5, 1, 1, 1, 1, 1, 1]})]
        np.testing.assert_array_equal(*losses)
        with self.assertRaisesRegex(accrue.Error, "there are 13 class weights for 10 classes"):
            accrue.train("mlp-small", "digits", class_weight={12: 2.5}, **options)
        if not has("torch"):
            return
        import torch

        torch.manual_seed(0)
        module, (x, y) = torch.nn.Linear(4, 3), samples()  # the third class is not in these labels
        np.testing.assert_array_equal(accrue.train(module, (x, y % 2), class_weight={0: 2.0}, **options).losses,
                                      accrue.train(module, (x, y % 2), class_weights=[2, 1, 1], **options).losses)

    def test_errors_have_the_name_that_was_given(self):
        x, y = samples()
        numbers = np.ones((64, 3), np.float32)
        for name in ("class_weight", "class_weights"):
            for data, weights, words in (((x, numbers), [1, 2, 3], "arrays has numbers"), ((x, y), [1, -2, 3], "expected a number")):
                with self.assertRaisesRegex(accrue.Error, rf"^{name}\b.*{words}"):
                    accrue.train(network(), data, **{name: weights})
        weights = accrue.train(network(), (x, y), steps=1).weights
        with self.assertRaisesRegex(accrue.Error, r"^predict\(\) has no argument class_weight"):
            accrue.predict(weights, x, network(), class_weight={0: 2.0})

    def test_acts_in_plans_and_scores(self):
        x, y = samples()
        accrue.plan(network(), (x, y), effective_batch=64, memory="64MiB", class_weight={0: 2.0})
        weights = accrue.train(network(), (x, y), steps=1).weights
        score = accrue.evaluate(weights, network(), (x, y), class_weight={0: 5.0})
        self.assertNotEqual(score["loss"], accrue.evaluate(weights, network(), (x, y))["loss"])
        self.assertEqual(score["loss"], accrue.evaluate(weights, network(), (x, y), class_weights=[5, 1, 1])["loss"])


def has(module):
    return importlib.util.find_spec(module) is not None


@contextlib.contextmanager
def in_folder(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    unittest.main()
