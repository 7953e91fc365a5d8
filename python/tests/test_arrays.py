"""Tests the installed package: arrays that are not what they seem, and weights that are kept."""

import copy
import json
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import accrue
from accrue import Weights

FEW = {"threads": 1, "micro_batch": 4, "effective_batch": 8, "steps": 3, "seed": 3}
random = np.random.default_rng(0)
PIXELS = random.integers(0, 256, (32, 3, 12, 10), np.uint8)
X = random.standard_normal((32, 16)).astype(np.float32)
Y = np.arange(32) % 3


def layers(classes=3, features=16):
    return accrue.Sequential([accrue.Linear(features, 8, activation="relu"),
                              accrue.Linear(8, classes)])


def convolutions(classes=3):
    return accrue.Sequential([accrue.Conv2d(3, 4, 3, padding=1), accrue.ReLU(),
                              accrue.GlobalAvgPool2d(), accrue.Flatten(),
                              accrue.Linear(4, classes)])


def flat(weights):
    return np.concatenate([a.ravel() for a in weights.values()])


def plain(text):
    """The text with options and arguments spelt alike."""
    return text.replace("--", "").replace("=", " ").replace("_", "-")


class Case(unittest.TestCase):
    def refuses(self, run, *words):
        with self.assertRaises(accrue.Error) as raised:
            run()
        for word in words:
            self.assertIn(plain(word), plain(str(raised.exception)))


class Axes(Case):
    def test_of_channels_that_come_last_are_refused_everywhere(self):
        masks = random.integers(0, 2, (32, 12, 10))
        words = "[32, 12, 10, 3], which looks like [N, H, W, C]", "x.transpose(0, 3, 1, 2)"
        for model, y in (("mlp-small", Y), ("resnet", Y), ("resnet18", Y), ("unet", masks),
                         (convolutions(), Y)):
            for right in (PIXELS, PIXELS.astype(np.float32)):
                x = np.ascontiguousarray(right.transpose(0, 2, 3, 1))
                self.refuses(lambda: accrue.train(model, (x, y), **FEW), *words)
                self.refuses(lambda: accrue.Trainer(model, (right, y), test=(x, y), **FEW), *words)
                self.refuses(lambda: accrue.plan(model, (x, y), memory="1GiB"), *words)
        trainer = accrue.Trainer("cnn-gn", (PIXELS, Y), width=0.25, **FEW)
        weights = trainer.run().weights
        for right in (PIXELS, PIXELS.astype(np.float64), PIXELS.tolist()):
            x = np.asarray(right).transpose(0, 2, 3, 1)
            for run in (lambda: trainer.evaluate((x, Y)), lambda: trainer.predict(x),
                        lambda: accrue.evaluate(weights, data=(x, Y)),
                        lambda: accrue.predict(weights, x)):
                self.refuses(run, "[32, 12, 10, 3]", "x.transpose(0, 3, 1, 2)")
            self.assertEqual(x.transpose(0, 3, 1, 2).shape, PIXELS.shape)
        self.refuses(lambda: accrue.predict(weights, PIXELS[0].transpose(1, 2, 0)),
                     "uint8 [12, 10, 3]", "x.transpose(2, 0, 1)[None]")
        for x in (PIXELS[0], PIXELS[:, :1], PIXELS[:, 1]):
            self.refuses(lambda: accrue.predict(weights, x), "images of 1 channel, but",
                         "was trained on 3: expected [N, 3, H, W]")
        self.refuses(lambda: accrue.train("unet", (PIXELS, masks[..., None] > 0), **FEW),
                     "y is bool [32, 12, 10, 1]", "y.transpose(0, 3, 1, 2)")

    def test_of_feature_maps_are_as_they_are(self):
        maps = random.standard_normal((8, 16, 4, 4)).astype(np.float32)
        network = accrue.Sequential([accrue.Conv2d(16, 3, 4), accrue.Flatten()])
        self.assertEqual(accrue.train(network, (maps, Y[:8]), **{**FEW, "steps": 1}).steps, 1)
        for shape in ((8, 3, 5, 4), (8, 1, 28, 1), (8, 4, 5, 3)):
            x = np.zeros(shape, np.uint8)
            network = accrue.Sequential([accrue.Flatten(), accrue.Linear(x[0].size, 3)])
            accrue.Trainer(network, (x, Y[:8]), **FEW)

    def test_of_a_network_that_takes_them_so_are_as_they_are(self):
        network = accrue.Sequential([accrue.Conv2d(2, 3, 3, padding=1), accrue.ReLU(),
                                     accrue.GlobalAvgPool2d(), accrue.Flatten()])
        x = random.standard_normal((8, 2, 8, 4)).astype(np.float32)
        trainer = accrue.Trainer(network, (x, Y[:8]), test=(x, Y[:8]), **FEW)
        weights = trainer.run().weights
        for answers in (trainer.predict(x), accrue.predict(weights, x, network)):
            self.assertEqual(answers.shape, (8, 3))
        trainer.evaluate((x, Y[:8]))
        accrue.plan(network, (x, Y[:8]), memory="1GiB", effective_batch=8)
        wrong = np.ascontiguousarray(x.transpose(0, 2, 3, 1))[:, :, :, [0, 1, 1]]
        self.refuses(lambda: accrue.train(network, (wrong, Y[:8]), **FEW),
                     "x.transpose(0, 3, 1, 2)")
        self.refuses(lambda: trainer.predict(wrong), "x.transpose(0, 3, 1, 2)")


class Float64(Case):
    """precision="fp64" takes, learns and answers float64 without rounding."""

    def setUp(self):
        self.x, self.y = random.standard_normal((8, 5)), random.standard_normal((8, 2))
        self.network = accrue.Sequential([accrue.Linear(5, 2)])
        self.options = {"threads": 1, "precision": "fp64", "no_shuffle": True,
                        "effective_batch": 8, "optimizer": "sgd", "lr": 0.5, "steps": 1}

    def test_gradients_are_those_of_numpy(self):
        w, b = random.standard_normal((2, 5)), random.standard_normal(2)
        init = {"0.weight": w, "0.bias": b}
        wrong = 2 * (self.x @ w.T + b - self.y) / self.y.size
        for micro_batch in (8, 3, 1):
            trainer = accrue.Trainer(self.network, (self.x, self.y), init=init,
                                     micro_batch=micro_batch, **self.options)
            weights = trainer.run().weights
            for name, truth in (("0.weight", w - wrong.T @ self.x / 2),
                                ("0.bias", b - wrong.sum(0) / 2)):
                self.assertEqual(weights[name].dtype, np.float64)
                self.assertLessEqual(np.abs(weights[name] - truth).max(), 1e-15)
            truth = self.x @ weights["0.weight"].T + weights["0.bias"]
            for answers in (trainer.predict(self.x),
                            accrue.predict(weights, self.x, self.network, precision="fp64")):
                self.assertEqual(answers.dtype, np.float64)
                self.assertLessEqual(np.abs(answers - truth).max(), 2e-15)
            loss = ((truth - self.y)**2).mean()
            for score in (trainer.evaluate((self.x, self.y)),
                          accrue.evaluate(weights, self.network, (self.x, self.y),
                                          precision="fp64")):
                self.assertAlmostEqual(score["loss"], loss, delta=1e-15)

    def test_weights_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "w.safetensors"
            trainer = accrue.Trainer(self.network, (self.x, self.y), micro_batch=4, **self.options)
            trainer.run()
            trainer.save_weights(path)
            trained = trainer.weights
            for kept in (Weights.load(path), trained.copy()):
                kept.save(path)
                again = accrue.Trainer(self.network, (self.x, self.y), init=path, micro_batch=4,
                                       **self.options).weights
                for name, x in trained.items():
                    np.testing.assert_array_equal(again[name], x)
            thirds = {name: np.full_like(x, 1 / 3) for name, x in trained.items()}
            trainer.weights = thirds
            self.assertEqual(trainer.weights["0.bias"][0], 1 / 3)
            trainer.weights = {name: x.astype(np.float32) for name, x in thirds.items()}
            self.assertEqual(trainer.weights["0.bias"][0], np.float32(1 / 3))
            narrow = accrue.Trainer(self.network, (self.x, self.y), micro_batch=4,
                                    **{**self.options, "precision": "fp32"})
            narrow.weights = thirds
            self.assertEqual(narrow.weights["0.bias"].dtype, np.float32)
            self.assertEqual(narrow.weights["0.bias"][0], np.float32(1 / 3))

    def test_memory_is_predicted(self):
        for precision in ("fp64", "fp32"):
            for x, y in ((self.x, self.y), (self.x.astype(np.float32), self.y)):
                options = {**self.options, "precision": precision}
                memory = accrue.train(self.network, (x, y), micro_batch=3, **options).memory
                self.assertEqual(memory["this run"], memory["predicted"])

    def test_what_cannot_be_is_refused(self):
        self.refuses(lambda: accrue.train(self.network, (self.x, self.y), strategy="bf16-sum",
                                          micro_batch=8, **self.options),
                     "strategy bf16-sum rounds the sum of gradients to 16 bits")


class Inputs(Case):
    def test_are_those_that_the_weights_have_seen(self):
        x = PIXELS.astype(np.float32) / 255
        of_pixels, of_numbers = (accrue.Trainer("cnn-gn", (data, Y), width=0.25, **FEW)
                                 for data in (PIXELS, x))
        for trainer, wrong, words in (
                (of_pixels, x, ("has learned from pixels", "mean 0.5 and std 0.5",
                                "expected pixels (uint8)")),
                (of_numbers, PIXELS, ("has learned from numbers as they were given",
                                      "expected numbers (float32)"))):
            weights = trainer.run().weights
            for run in (lambda: trainer.predict(wrong), lambda: trainer.evaluate((wrong, Y)),
                        lambda: accrue.predict(weights, wrong),
                        lambda: accrue.evaluate(weights, data=(wrong, Y)),
                        lambda: accrue.train("cnn-gn", (wrong, Y), init=weights, **FEW)):
                self.refuses(run, *words)
        pixels, numbers = of_pixels.weights, of_numbers.weights
        self.assertEqual(pixels.metadata["mean"], "0.5")
        self.assertNotIn("mean", numbers.metadata)
        self.assertNotIn("std", numbers.metadata)
        self.assertEqual(numbers.metadata["inputs"], "as given")
        # With mean 0 and std 1 the network sees pixels as x / 255.
        np.testing.assert_allclose(accrue.predict(numbers, PIXELS, mean=0, std=1),
                                   of_numbers.predict(x), rtol=1e-5, atol=1e-6)
        went_on = accrue.train("cnn-gn", (PIXELS, Y), init=numbers, mean=0, std=1, **FEW).weights
        self.assertEqual(went_on.metadata["mean"], "0")
        self.assertNotIn("inputs", went_on.metadata)
        self.refuses(lambda: accrue.train("cnn-gn", (x, Y), test=(PIXELS, Y), **FEW),
                     "f32 images, i32 labels, but test has u8 images")
        with tempfile.TemporaryDirectory() as folder:
            for weights, status in ((pixels, 0), (numbers, 1)):
                path = pathlib.Path(folder, "w.safetensors")
                weights.save(path)
                command = [sys.executable, "-m", "accrue", "export", "--weights", str(path),
                           "--out", str(path) + ".onnx"]
                ran = subprocess.run([*command, "--bytes"], capture_output=True, text=True,
                                     check=False)
                self.assertEqual(ran.returncode, status, ran.stderr)
                self.assertEqual("--bytes: " in ran.stderr, status > 0)
                self.assertEqual(subprocess.run(command, check=False,
                                                capture_output=True).returncode, 0)

    def test_are_cropped_as_the_weights_were_trained(self):
        for model in ("cnn", convolutions(), accrue.Sequential(
                [accrue.Flatten(), accrue.Linear(3 * 8 * 8, 3)])):
            trainer = accrue.Trainer(model, (PIXELS, Y), crop=8, **FEW)
            weights = trainer.run().weights
            network = None if model == "cnn" else model
            expected = trainer.predict(PIXELS)
            np.testing.assert_array_equal(
                accrue.predict(weights, PIXELS, network, micro_batch=4), expected)
            middle = np.ascontiguousarray(PIXELS[:, :, 2:10, 1:9])
            np.testing.assert_array_equal(
                accrue.predict(weights, middle, network, micro_batch=4), expected)
            self.assertEqual(accrue.evaluate(weights, network, (PIXELS, Y), micro_batch=4),
                             trainer.evaluate())
        # Masks cover whole images.
        network = accrue.Sequential([accrue.Conv2d(3, 2, 1)])
        trainer = accrue.Trainer(network, (PIXELS, PIXELS[:, 0] // 128), crop=8, **FEW)
        weights = trainer.run().weights
        self.assertEqual(accrue.predict(weights, PIXELS, network).shape, (32, 2, 12, 10))
        np.testing.assert_array_equal(accrue.predict(weights, PIXELS, network),
                                      trainer.predict(PIXELS))

    def test_of_a_network_of_tables_are_files(self):
        with tempfile.TemporaryDirectory() as folder:
            table, weights = pathlib.Path(folder, "t.csv"), pathlib.Path(folder, "w.safetensors")
            table.write_text("x,y\n" + "".join(f"{n},{n + 0.5}\n" for n in range(10)))
            accrue.train(data=table, target="y", save=weights, micro_batch=2, effective_batch=4)
            with self.assertRaisesRegex(accrue.Error, "sees the columns of a table, but x is"):
                accrue.predict(weights, np.zeros((2, 1), np.float32))

    def test_are_of_any_order_of_bytes_and_memory(self):
        expected = flat(accrue.train(layers(), (X, Y), **FEW).weights)
        for x, y in ((X.astype(">f4"), Y.astype(">i4")), (X.astype(">f8"), Y.astype(">u2")),
                     (np.asfortranarray(X), Y.astype(np.uint64)), (X[::-1][::-1], Y.tolist()),
                     (X.tolist(), Y.astype(np.int8)), (np.ma.masked_array(X), Y)):
            np.testing.assert_array_equal(flat(accrue.train(layers(), (x, y), **FEW).weights),
                                          expected)

    def test_say_what_came(self):
        masked = np.ma.masked_array(X, mask=X > 1)
        names = np.array(["cat", "dog", "owl"])[Y]
        trainer = accrue.Trainer(layers(), (X, Y), **FEW)
        for data, words in (
                ((masked, Y), ("x is a masked array", "x.filled(VALUE)")),
                ((X, np.ma.masked_equal(Y, 2)), ("y is a masked array",)),
                ((X, names), ("y is an array of <U3: expected numbers", "return_inverse")),
                ((X, names.astype(object)), ("y is an array of object", "return_inverse")),
                ((X, None), ("y is None: expected data=(x, y)",)),
                ((None, Y), ("x is None",)),
                ((X.astype(np.complex64), Y), ("x is complex64 [32, 16]",)),
                ((X.astype(np.int16), Y), ("x is int16 [32, 16]",)),
                ((X > 0, Y), ("x is bool [32, 16]",)),
                ((X, Y.astype(np.complex128)), ("y is complex128 [32]: expected integers",)),
                ((X, Y > 0), ("y is bool [32]", "y.astype(int)")),
                ((X, np.eye(3)[Y] > 0), ("y is bool [32, 3]", "y.argmax(axis=1)")),
                (([[1, None]] * 32, Y), ("x is an array of object: expected numbers",)),
                ((X, Y[:, None]), ("y is int64 [32, 1]", "y.reshape(-1)")),
                ((X, np.eye(3, dtype=np.int32)[Y]), ("y is int32 [32, 3]", "y.argmax(axis=1)")),
                ((X.reshape(32, *[1] * 7, 16), Y), ("x is float32 [32, 1, 1, 1, 1, 1, 1, 1, 16]",
                                                    "expected 1 to 8 dimensions"))):
            for run in (lambda: accrue.train(layers(), data, **FEW),
                        lambda: trainer.evaluate(data)):
                self.refuses(run, *words)


class Classes(Case):
    def test_may_be_fewer_where_they_are_scored(self):
        trainer = accrue.Trainer(layers(), (X, Y), **FEW)
        weights = trainer.run().weights
        for part in (slice(0, 1), slice(0, 2), slice(None)):
            data = X[part], Y[part]
            self.assertEqual(accrue.evaluate(weights, layers(), data, micro_batch=4),
                             trainer.evaluate(data))
        self.refuses(lambda: accrue.evaluate(weights, layers(), (X, Y + 1)),
                     "knows the classes 0, 1, 2, but arrays has the classes 0, 1, 2, 3")
        masks = PIXELS[:, 0] // 86
        trainer = accrue.Trainer("unet", (PIXELS, masks), width=0.25, depth=2, **FEW)
        data = PIXELS[:2], masks[:2] // 2
        self.assertEqual(accrue.evaluate(trainer.run().weights, data=data, micro_batch=4),
                         trainer.evaluate(data))

    def test_have_the_names_that_are_said(self):
        names = ["cat", "dog", "owl"]
        for model in ("cnn-gn", convolutions()):
            trainer = accrue.Trainer(model, (PIXELS, Y), classes=names, **FEW)
            weights = trainer.run().weights
            network = None if model == "cnn-gn" else model
            self.assertEqual(weights.metadata["class-names"], '["cat","dog","owl"]')
            expected = accrue.evaluate(weights, network, (PIXELS, Y), classes=names, micro_batch=4)
            self.assertEqual(expected, trainer.evaluate())
            self.refuses(lambda: accrue.evaluate(weights, network, (PIXELS, Y)),
                         "knows the classes cat, dog, owl, but arrays has the classes 0, 1, 2",
                         "--classes names the data's classes")
            turned = accrue.evaluate(weights, network, (PIXELS, (Y + 1) % 3), micro_batch=4,
                                     classes=["owl", "cat", "dog"])
            self.assertEqual(turned, expected)
            # The data may have only some of the classes.
            accrue.evaluate(weights, network, (PIXELS[:2], Y[:2]), classes=names)
            for wrong, words in ((["cat", "dog"], "--classes has 2 names, but the labels have 3"),
                                 (["cat", "dog", "cat"], "expected different names"),
                                 (["cat", "dog", "emu"], "has the classes cat, dog, emu")):
                self.refuses(lambda: accrue.evaluate(weights, network, (PIXELS, Y), classes=wrong),
                             words)

    def test_of_weights_are_not_given_up_without_a_word(self):
        weights = accrue.train(layers(10), (X, np.arange(32) % 10), **FEW).weights
        options = {**FEW, "init": weights}
        ten = [str(k) for k in range(10)]
        self.refuses(lambda: accrue.train(layers(), (X, Y), **options),
                     "has the classes 0, 1, 2: expected the same, or --new-head")
        self.assertEqual(accrue.train(layers(), (X, Y), new_head=True,
                                      **options).weights["2.weight"].shape, (3, 8))
        self.assertEqual(accrue.train(layers(10), (X, Y), classes=ten,
                                      **options).weights["2.weight"].shape, (10, 8))
        ran = subprocess.run([sys.executable, "-c", """if True:
            import accrue, numpy as np
            x, y = np.ones((64, 16), np.float32), np.arange(64)
            def layers(classes):
                return accrue.Sequential([accrue.Linear(16, 8), accrue.Linear(8, classes)])
            w = accrue.train(layers(10), (x, y % 10), threads=1).weights
            accrue.train(layers(20), (x, y % 20), threads=1, init=w)"""],
                             capture_output=True, text=True, check=True)
        self.assertRegex(ran.stderr, "^<string>:7: UserWarning: 1: 10 classes in .*, 20 here: made new\n")

    def test_that_are_empty_have_no_samples(self):
        self.refuses(lambda: accrue.train(layers(), (X[:0], Y[:0]), **FEW), "has no samples")

    def test_that_are_ones_among_zeros_are_no_numbers(self):
        ones = np.eye(3, dtype=np.float32)[Y]
        for y in (ones, ones.astype(np.float64)):
            self.refuses(lambda: accrue.train(layers(), (X, y), **FEW),
                         "y is float32 [32, 3] with one 1 in each row", "y.argmax(axis=1)",
                         "--loss mse")
        self.refuses(lambda: accrue.train(layers(), (X, ones), loss="cross-entropy", **FEW),
                     "--loss cross-entropy: arrays has numbers")
        self.refuses(lambda: accrue.train(layers(), (X, Y), loss="mse", **FEW),
                     "--loss mse: arrays has classes")
        self.refuses(lambda: accrue.train(layers(), (X, Y.astype(np.float32)), **FEW),
                     "the network answers with [4, 3], but the targets of these samples are [4, 1]")
        self.refuses(lambda: accrue.train("mlp-small", (X, ones), **FEW),
                     "y is float32 [32, 3]", "y.argmax(axis=1)")
        self.refuses(lambda: accrue.train(layers(), (X, Y), test=(X, ones), **FEW),
                     "expected arrays of the same kinds")
        self.refuses(lambda: accrue.train(layers(), (X, ones), loss="mse", classes="abc", **FEW),
                     "--classes abc: arrays has neither labels nor masks")
        trainer = accrue.Trainer(layers(), (X, ones), loss="mse", **FEW)
        result = trainer.run()
        error = ((trainer.predict(X) - ones) ** 2).sum(axis=1).mean()
        self.assertAlmostEqual(result.score["loss"] / (error / 3), 1, places=5)
        self.assertEqual(accrue.evaluate(result.weights, layers(), (X, ones), micro_batch=4),
                         result.score)
        soft = ones * np.float32(0.9) + np.float32(0.1 / 3)
        self.assertEqual(accrue.train(layers(), (X, soft), **FEW).steps, 3)
        masks = PIXELS[:, :2] > 127
        network = accrue.Sequential([accrue.Conv2d(3, 2, 1)])
        losses = [accrue.train(network, (PIXELS, masks), loss=loss, **FEW).losses[0]
                  for loss in ("bce", "dice", "bce+dice", None)]
        self.assertAlmostEqual(losses[0] + losses[1], losses[2], places=5)
        self.assertEqual(losses[0], losses[3])


class Counts(Case):
    COUNTS = np.where(np.arange(32) % 5 == 0, 0, random.uniform(0.1, 3, 32)).astype(np.float32)

    def losses(self, micro=32, y=Y, network=None, **options):
        return accrue.train(network or layers(), (X, y), micro_batch=micro, effective_batch=32,
                            epochs=2, no_shuffle=True, seed=3, threads=1, **options).losses

    def test_are_a_mean_over_their_sum_in_every_split(self):
        of_each = []
        for n in range(32):
            alone = np.zeros(32)
            alone[n] = 1
            of_each.append(self.losses(sample_weight=alone)[0])
        mean = np.average(of_each, weights=self.COUNTS)
        self.assertAlmostEqual(self.losses(sample_weight=self.COUNTS)[0], mean, delta=1e-6)
        self.assertAlmostEqual(self.losses()[0], np.mean(of_each), delta=1e-6)
        whole = self.losses(sample_weight=self.COUNTS)
        for micro in (7, 1):
            self.assertLess(np.abs(self.losses(micro, sample_weight=self.COUNTS) - whole).max(), 2e-6)

    def test_of_classes_are_a_list_or_balanced(self):
        rare = np.minimum(np.arange(32), 2)[::-1].copy()
        n = np.bincount(rare)
        given = self.losses(y=rare, class_weights=list(32 / (3 * n)))
        self.assertTrue((self.losses(y=rare, class_weights="balanced") == given).all())
        self.assertFalse((self.losses(y=rare) == given).any())
        score = accrue.train(layers(), (X, rare), class_weights="balanced", label_smoothing=0.1,
                             **FEW).score
        right = [score[f"accuracy.{k}"] for k in range(3)]
        self.assertAlmostEqual(score["balanced_accuracy"], np.mean(right))

    def test_of_the_last_classes_do_not_need_samples(self):
        lacking = np.where(Y == 2, 0, Y)
        for y, options in ((np.where(Y == 2, -100, Y), {}), (lacking, {"class_weights": [1, 2, 3]}),
                           (lacking, {"class_weights": "balanced"}), (lacking, {"label_smoothing": 0.1}),
                           (lacking, {"sample_weight": self.COUNTS})):
            with self.subTest(options=options):
                result = accrue.train(layers(), (X, y), **FEW, **options)
                fetched = accrue.train(layers(), list(zip(X, y)), **FEW, **options)
                np.testing.assert_array_equal(result.losses, fetched.losses)
                self.assertEqual(repr(result.score), repr(fetched.score))
                self.assertTrue(np.isnan(result.score["accuracy.2"]))
        pixels = random.standard_normal((8, 1, 4, 4)).astype(np.float32)
        masks = np.arange(8 * 4 * 4).reshape(8, 4, 4) % 2
        score = accrue.train(accrue.Conv2d(1, 3, 3, padding=1), (pixels, masks), **FEW, class_weights=[1, 2, 3]).score
        self.assertIn("iou.2", score)

    def test_of_trainers_score_other_samples_alike(self):
        trainer = accrue.Trainer(layers(), (X, Y), sample_weight=self.COUNTS, test=(X[:9], Y[:9]), **FEW)
        trainer.run()
        plain = accrue.evaluate(trainer.weights, layers(), (X[:9], Y[:9]))
        self.assertAlmostEqual(trainer.evaluate()["loss"], plain["loss"], delta=1e-6)
        self.assertAlmostEqual(trainer.evaluate((X[:9], Y[:9]))["loss"], plain["loss"], delta=1e-6)

    def test_of_labels_of_which_several_hold(self):
        y = (random.uniform(0, 1, (32, 3)) < 0.3).astype(np.float32)
        result = accrue.train(layers(), (X, y), loss="bce", positive_weights=[2, 1, 1], **FEW)
        self.assertIn("f1", result.score)
        for loss in ("l1", "smooth-l1"):
            self.assertTrue(np.isfinite(self.losses(y=y, loss=loss)).all())

    def test_that_do_not_fit_are_refused(self):
        def refused(text, y=Y, **options):
            self.refuses(lambda: self.losses(y=y, **options), text)
        refused("sample_weight is float64 [3]: expected [32]", sample_weight=np.ones(3))
        refused("sample_weight has -1", sample_weight=-np.ones(32))
        refused("sample_weight is 0 for each sample", sample_weight=np.zeros(32))
        refused("there are 2 class weights for 3 classes", class_weights=[1, 2])
        numbers = X[:, :3]
        refused("expected classes (integers), or with", y=numbers, class_weights=[1, 2, 3])
        refused("expected mse, l1, smooth-l1 or bce", y=numbers, loss="dice")
        refused("has no effect with", y=numbers, positive_weights=[1, 2, 3])
        self.refuses(lambda: accrue.train("mlp-small", "digits", sample_weight=np.ones(3), **FEW),
                     "sample_weight is for arrays alone")


class Kept(Case):
    def test_weights_stay_what_they_are(self):
        weights = accrue.train(layers(), (X, Y), **FEW).weights
        others = {"2.bias": np.zeros(3, np.float32)}
        for copied in (weights.copy(), copy.copy(weights), copy.deepcopy(weights),
                       pickle.loads(pickle.dumps(weights)), weights | {}, {} | weights,
                       weights | weights):
            self.assertIs(type(copied), Weights)
            self.assertIsNot(copied, weights)
            self.assertEqual(copied.metadata, weights.metadata)
            self.assertIsNot(copied.metadata, weights.metadata)
            np.testing.assert_array_equal(flat(copied), flat(weights))
            self.assertEqual(accrue.evaluate(copied, layers(), (X, Y)),
                             accrue.evaluate(weights, layers(), (X, Y)))
        self.assertTrue(((weights | others)["2.bias"] == 0).all())
        self.assertTrue(((others | weights)["2.bias"] == weights["2.bias"]).all())
        merged = weights.copy()
        merged |= others
        self.assertIs(type(merged), Weights)
        self.assertTrue((merged["2.bias"] == 0).all() and weights["2.bias"].any())

    def test_weights_of_a_step_are_those_of_that_step(self):
        trainer = accrue.Trainer(layers(), (X, Y), **FEW)
        kept = [trainer.weights]
        trainer.run(on_step=lambda step: kept.append(trainer.weights))
        expected = [flat(accrue.train(layers(), (X, Y), **{**FEW, "steps": steps}).weights)
                    for steps in (0, 1, 2, 3)]
        for one, other in zip(kept, expected, strict=True):
            np.testing.assert_array_equal(flat(one), other)

        def spoil(_):
            for array in trainer.weights.values():
                array[...] = np.nan

        trainer = accrue.Trainer(layers(), (X, Y), **{**FEW, "steps": None})
        first = trainer.run(on_step=spoil).weights
        spoil(None)
        np.testing.assert_array_equal(
            flat(first), flat(accrue.train(layers(), (X, Y), **{**FEW, "steps": None}).weights))

    def test_weights_that_are_assigned_are_trained_on(self):
        options = {**FEW, "optimizer": "sgd", "lr": 0.5, "no_shuffle": True, "steps": 4}
        trainer, found = accrue.Trainer(layers(), (X, Y), **options), []
        start = trainer.weights

        def go_back(_):
            found.append(flat(trainer.weights))
            trainer.weights = start

        trainer.run(on_step=go_back)
        np.testing.assert_array_equal(flat(trainer.weights), flat(start))
        for step, weights in enumerate(found):
            window = slice(8 * step, 8 * step + 8)
            alone = accrue.train(layers(), (X[window], Y[window]), init=start,
                                 **{**options, "steps": 1})
            np.testing.assert_array_equal(flat(alone.weights), weights)
        for wrong, words in (({}, "0.bias [8] is missing"),
                             ({**start, "more": X}, "more [32, 16] is not in the model"),
                             ({**start, "0.bias": X}, "0.bias is f32 [32, 16], expected f32 [8]")):
            self.refuses(lambda: setattr(trainer, "weights", wrong), words)
        np.testing.assert_array_equal(flat(trainer.weights), flat(start))

    def test_state_dicts_are_weights(self):
        network = accrue.Sequential([accrue.Conv2d(3, 4, 3), accrue.GroupNorm(2, 4),
                                     accrue.GlobalAvgPool2d(), accrue.Flatten(),
                                     accrue.Linear(4, 3)])
        expected = accrue.train(network, (PIXELS, Y), **FEW).weights

        class Held:  # like torch's tensors
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **_):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        state = {name: Held(array) for name, array in expected.items()}
        state["1.num_batches_tracked"] = np.array(12)
        options = {**FEW, "steps": 0, "mean": 0.5, "std": 0.5}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "w.safetensors")
            tensors = {**expected, "1.num_batches_tracked": np.array(12)}
            self.write(path, tensors)
            loaded = Weights.load(path)
            self.assertEqual(set(loaded), set(expected))
            for init in (state, tensors, loaded, path, Weights(state)):
                got = accrue.train(network, (PIXELS, Y), init=init, **options).weights
                for name, array in expected.items():
                    np.testing.assert_array_equal(got[name], array, name)
            Weights(tensors).save(path)
            self.assertEqual(set(Weights.load(path)), set(expected))
        np.testing.assert_array_equal(
            accrue.predict(state, PIXELS, network, mean=0.5, std=0.5),
            accrue.predict(expected, PIXELS, network))
        scalar = {"scale": np.float32(2).reshape(()), "half": np.ones(2, np.float16)}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "w.safetensors")
            Weights(scalar).save(path)
            self.assertEqual(Weights.load(path)["scale"].shape, ())
            self.refuses(lambda: Weights({"ids": np.arange(3)}).save(path),
                         "ids is int64 [3]: expected float32")
            self.refuses(lambda: Weights({1: np.ones(3)}).save(path),
                         "weights have the key 1: expected names")

    @staticmethod
    def write(path, tensors):
        """A safetensors file as PyTorch writes them."""
        header, data = {}, b""
        for name, array in sorted(tensors.items(), key=lambda item: -item[1].itemsize):
            kind = {"f": "F", "i": "I"}[array.dtype.kind] + str(8 * array.itemsize)
            header[name] = {"dtype": kind, "shape": list(array.shape),
                            "data_offsets": [len(data), len(data) + array.nbytes]}
            data += array.tobytes()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    unittest.main()
