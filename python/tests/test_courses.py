"""Trainings while they run: history, validation, callbacks, bars, metrics, pickles."""

import copy
import io
import pickle
import sys
import unittest
import unittest.mock

import numpy as np

import accrue


def samples(n=256, features=20, classes=3, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, features)).astype(np.float32)
    y = (x @ np.random.default_rng(5).normal(size=(features, classes))).argmax(axis=1)
    return x, y.astype(np.int32)


def network():
    return accrue.Sequential(accrue.Linear(20, 16, activation="relu"), accrue.Dropout(0.1),
                             accrue.Linear(16, 3))


def weights_equal(a, b):
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


OPTIONS = {"micro_batch": 16, "effective_batch": 64, "lr": 0.01, "epochs": 3, "threads": 1}


class History(unittest.TestCase):
    def test_has_a_row_for_each_window(self):
        result = accrue.train(network(), samples(), validation=samples(64, seed=1), **OPTIONS)
        h = result.history
        self.assertEqual({len(column) for column in h.values()}, {12})
        np.testing.assert_array_equal(h["step"], range(1, 13))
        np.testing.assert_array_equal(h["epoch"], np.repeat([0, 1, 2], 4))
        np.testing.assert_array_equal(h["loss"], result.losses)
        np.testing.assert_array_equal(h["lr"], 0.01)
        self.assertTrue((h["grad_norm"] > 0).all() and (h["samples_per_second"] > 0).all())
        self.assertTrue((np.diff(h["seconds"]) >= 0).all())
        scored = ~np.isnan(h["val_loss"])
        np.testing.assert_array_equal(np.flatnonzero(scored), [3, 7, 11])
        self.assertEqual(h["val_loss"][-1], result.score["loss"])
        self.assertEqual(h["val_accuracy"][-1], result.score["accuracy"])
        self.assertEqual(result.scored, "validation")

    def test_a_stream_of_validation_leaves_the_training_its_order(self):
        data, held_out = samples(), samples(64, seed=1)

        def stream():
            yield from zip(*held_out)

        plain = accrue.train(network(), data, validation=held_out, **OPTIONS)
        for name in ("validation", "test"):
            other = accrue.train(network(), data, **{name: stream}, epoch_samples=64, **OPTIONS)
            np.testing.assert_array_equal(other.losses, plain.losses)
            self.assertEqual(other.score["loss"], plain.score["loss"])

    def test_a_loader_of_validation_leaves_the_training_its_batches(self):
        try:
            import torch.utils.data
        except ImportError:
            self.skipTest("needs PyTorch")
        data, held_out = samples(), samples(64, seed=1)
        loader = torch.utils.data.DataLoader(list(zip(*held_out)), batch_size=5)
        options = {**OPTIONS, "effective_batch": None}
        plain = accrue.train(network(), data, validation=held_out, **options)
        other = accrue.train(network(), data, validation=loader, **options)
        self.assertEqual(other.batches, plain.batches)
        np.testing.assert_array_equal(other.losses, plain.losses)
        shuffled = torch.utils.data.DataLoader(list(zip(*data)), batch_size=64, shuffle=True)
        plain = accrue.train(network(), data, **OPTIONS)
        other = accrue.train(network(), shuffled, validation=loader, **options)
        np.testing.assert_array_equal(other.losses, plain.losses)

    def test_metrics_see_labels_that_are_fetched(self):
        def right(y, answers):
            return 100 * (answers.argmax(axis=1) == y).mean()

        held_out = samples(64, seed=1)
        fetched = list(zip(held_out[0], held_out[1].tolist()))
        for data in (held_out, fetched, lambda: iter(fetched)):
            options = {**OPTIONS, **({"epoch_samples": 64} if callable(data) else {})}
            result = accrue.train(network(), samples(), validation=data, metrics={"right": right}, **options)
            self.assertEqual(result.score["right"], result.score["accuracy"])
        trainer = accrue.Trainer(network(), samples(), metrics={"right": right}, **OPTIONS)
        score = trainer.evaluate(fetched)
        self.assertEqual(score["right"], score["accuracy"])

    def test_metrics_see_labels_that_count(self):
        x = np.random.default_rng(0).standard_normal((12, 5, 4)).astype(np.float32)
        y = np.random.default_rng(1).integers(0, 3, (12, 5))
        y[::2, 1:] = -100
        seen = []

        def accuracy(y, answers):
            seen.append((y.shape, answers.shape))
            return 100 * (answers.argmax(-1) == y).mean()

        options = {"micro_batch": 4, "effective_batch": 4, "epochs": 1, "metrics": {"mine": accuracy}}
        value = accrue.input(5, 4)
        network = accrue.Network({"x": value}, {"y": accrue.Linear(4, 3)(value, name="last")})
        for model, data, name in ((accrue.Sequential(accrue.Linear(4, 3)), (x, y), ""),
                                  (accrue.Sequential(accrue.Linear(4, 3)), list(zip(x, y)), ""),
                                  (network, {"x": x, "y": y}, "y.")):
            score = accrue.train(model, data, **options).score
            self.assertAlmostEqual(score["mine"], score[f"{name}accuracy"], places=4)
            self.assertEqual(seen[-1], ((36,), (36, 3)))
        labels = np.where(np.arange(12) % 3 == 0, -100, np.arange(12) % 3)
        score = accrue.train(accrue.Sequential(accrue.Flatten(), accrue.Linear(20, 3)), (x, labels), **options).score
        self.assertAlmostEqual(score["mine"], score["accuracy"], places=4)
        tokens = np.arange(60).reshape(12, 5) % 7
        for data in (tokens, (tokens, tokens > 2)):
            with self.assertRaisesRegex(accrue.Error, "metrics are of y"):
                accrue.train("gpt-tiny", data, layers=1, **options)

    def test_metrics_are_refused_by_name(self):
        def zero(y, answers):
            return 0

        for metrics, text in (([lambda y, a: 1, lambda y, a: 2], "2 functions with the name"),
                              ({"loss": zero}, "'loss', a name that scores have already"),
                              ("accuracy", "metrics is 'accuracy'"), (5, "metrics is 5"),
                              ([lambda y, a: None], "is None: expected a number")):
            with self.assertRaisesRegex(accrue.Error, text):
                accrue.train(network(), samples(), validation=samples(64, seed=1), metrics=metrics, **OPTIONS)

    def test_a_false_of_numpy_ends_a_training(self):
        result = accrue.train(network(), samples(), on_step=lambda step: np.float64(step.step) < 2, **OPTIONS)
        self.assertEqual(result.steps, 2)
        result = accrue.train(network(), samples(), on_epoch=lambda epoch: np.False_, **OPTIONS)
        self.assertEqual(result.steps, 4)

    def test_pickles_layers_as_they_were_made(self):
        for given in ([accrue.Linear(20, 3)], {"a": accrue.Linear(20, 3)}):
            made = accrue.Sequential(given)
            given.append(accrue.ReLU()) if isinstance(given, list) else given.update(b=accrue.ReLU())
            self.assertEqual(repr(pickle.loads(pickle.dumps(made))), repr(made))

    def test_more_epochs_after_patience_are_refused(self):
        trainer = accrue.Trainer(network(), samples(), validation=samples(64, seed=1), patience=1,
                                 **{**OPTIONS, "epochs": 50, "lr": 1.0})
        trainer.run()
        self.assertTrue(trainer.is_finished)
        with self.assertRaisesRegex(accrue.Error, "patience=1 has ended"):
            trainer.run(epochs=2)

    def test_the_test_beside_validation_is_checked_first(self):
        x, y = held_out = samples(64, seed=1)
        for test in ((x[:, :5], y), (x, y + 7), (x[:3], y), (x, y.astype(np.float32)), (x[:0], y[:0])):
            with self.assertRaises(accrue.Error):
                accrue.Trainer(network(), samples(), validation=held_out, test=test, **OPTIONS)

    def test_validation_changes_no_bit(self):
        x, y = samples()
        plain = accrue.train(network(), (x, y), **OPTIONS)
        for more in ({"validation": samples(64, seed=1)},
                     {"validation": samples(64, seed=1), "eval_every": 1},
                     {"on_step": lambda step: None, "on_epoch": [lambda epoch: None] * 2,
                      "metrics": {"worst": lambda y, answers: answers.min()}}):
            other = accrue.train(network(), (x, y), **OPTIONS, **more)
            np.testing.assert_array_equal(other.losses, plain.losses)
            self.assertTrue(weights_equal(other.weights, plain.weights))

    def test_eval_every_and_test_besides_validation(self):
        test = samples(96, seed=2)
        result = accrue.train(network(), samples(), validation=samples(64, seed=1), test=test,
                              eval_every=5, **OPTIONS)
        np.testing.assert_array_equal(np.flatnonzero(~np.isnan(result.history["val_loss"])), [4, 9])
        self.assertEqual((result.scored, result.score["samples"]), ("test", 96))
        self.assertEqual(result.score, accrue.evaluate(result.weights, network(), test))
        # A data set is scored on its own test samples.
        result = accrue.train("mlp-small", "digits", steps=4, eval_every=2)
        self.assertEqual((~np.isnan(result.history["val_loss"])).sum(), 2)
        with self.assertRaisesRegex(accrue.Error, "validation is for arrays alone.*eval_every"):
            accrue.train("mlp-small", "digits", validation=samples())

    def test_pandas_and_plot(self):
        result = accrue.train(network(), samples(), validation=samples(64, seed=1), **OPTIONS)
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("no pandas")
        frame = result.history.to_pandas()
        self.assertEqual(frame.shape, (12, len(result.history)))
        self.assertEqual(frame["val_loss"].notna().sum(), 3)
        try:
            import matplotlib
        except ImportError:
            self.skipTest("no matplotlib")
        matplotlib.use("Agg")
        above, below = result.history.plot()
        self.assertEqual([line.get_label() for line in above.lines], ["loss", "val_loss"])
        self.assertEqual([line.get_label() for line in below.lines], ["val_accuracy"])
        np.testing.assert_array_equal(above.lines[1].get_xdata(), [4, 8, 12])

    def test_counts_tokens(self):
        tokens = np.random.default_rng(0).integers(0, 50, size=(16, 33))
        result = accrue.train("gpt-tiny", tokens, micro_batch=4, effective_batch=8)
        self.assertIn("tokens_per_second", result.history)


class Callbacks(unittest.TestCase):
    def test_epochs(self):
        seen = []
        result = accrue.train(network(), samples(), validation=samples(64, seed=1),
                              on_epoch=seen.append, **OPTIONS)
        self.assertEqual([(e.epoch, e.step) for e in seen], [(0, 4), (1, 8), (2, 12)])
        np.testing.assert_allclose([e.loss for e in seen], result.losses.reshape(3, 4).mean(axis=1),
                                   rtol=1e-12)
        np.testing.assert_array_equal([e.validation["loss"] for e in seen],
                                      result.history["val_loss"][3::4])

    def test_false_stops_and_the_training_goes_on(self):
        x, y = samples()
        whole = accrue.train(network(), (x, y), **OPTIONS)
        trainer = accrue.Trainer(network(), (x, y), **OPTIONS)
        seen = []
        first = trainer.run(on_step=[lambda step: step.step < 3, seen.append])
        self.assertEqual((first.steps, len(seen), trainer.is_finished), (3, 3, False))
        self.assertIsNotNone(first.score)
        self.assertEqual(trainer.run(on_epoch=lambda epoch: False).steps, 4)
        self.assertTrue(weights_equal(trainer.run().weights, whole.weights))
        with self.assertRaises(ZeroDivisionError):
            accrue.train(network(), (x, y), on_epoch=lambda epoch: 1 / 0, **OPTIONS)
        for name in ("on_step", "on_epoch"):
            with self.assertRaisesRegex(accrue.Error, f"{name} is 3: expected a function"):
                accrue.train(network(), (x, y), **{name: 3})

    def test_runs_for_more_epochs(self):
        x, y = samples()
        whole = accrue.train(network(), (x, y), **{**OPTIONS, "epochs": 4})
        trainer = accrue.Trainer(network(), (x, y), **OPTIONS)
        self.assertIn("steps=0 of 12", repr(trainer))
        self.assertEqual([trainer.run(epochs=2).steps for _ in range(2)], [8, 16])
        self.assertTrue(weights_equal(trainer.weights, whole.weights))
        np.testing.assert_array_equal(trainer.losses, whole.losses)
        self.assertIn("finished", repr(trainer))
        with self.assertRaisesRegex(accrue.Error, "epochs is 0: expected 1 or more"):
            trainer.run(epochs=0)
        trainer = accrue.Trainer(network(), (x, y), schedule="cosine", **OPTIONS)
        self.assertEqual(trainer.run(epochs=3).steps, 12)
        with self.assertRaisesRegex(accrue.Error, "schedule cosine ends with epoch 3"):
            trainer.run(epochs=1)

    def test_metrics(self):
        test = samples(64, seed=1)

        def wrong(y, answers):
            return 100 * np.mean(answers.argmax(axis=1) != y)

        result = accrue.train(network(), samples(), validation=test, metrics=[wrong], **OPTIONS)
        self.assertAlmostEqual(result.score["wrong"], 100 - result.score["accuracy"], places=4)
        np.testing.assert_allclose(result.history["val_wrong"][3::4],
                                   100 - result.history["val_accuracy"][3::4], atol=1e-4)
        with self.assertRaisesRegex(accrue.Error, "metrics are of y and the answers to x"):
            accrue.train("mlp-small", "digits", metrics=wrong)
        with self.assertRaisesRegex(accrue.Error, "metrics has 'f': 1, expected a function"):
            accrue.train(network(), samples(), metrics={"f": 1})

    def test_keeps_average_and_best(self):
        seen = []
        trainer = accrue.Trainer(network(), samples(), validation=samples(64, seed=1), ema=0.9,
                                 keep_best=True, **{**OPTIONS, "lr": 0.3})
        result = trainer.run(on_epoch=lambda epoch: seen.append(trainer.weights))
        best = int(np.argmin(result.history["val_loss"][3::4]))
        self.assertTrue(weights_equal(result.best_weights, seen[best]))
        self.assertEqual(list(result.ema_weights), list(result.weights))
        self.assertFalse(weights_equal(result.ema_weights, result.weights))
        self.assertTrue(weights_equal(trainer.weights, result.weights))
        with self.assertRaisesRegex(accrue.Error, "keep_best .* expected validation"):
            accrue.train(network(), samples(), keep_best=True)


class Bars(unittest.TestCase):
    def test_are_tqdms(self):
        try:
            import tqdm  # noqa: F401
        except ImportError:
            self.skipTest("no tqdm")
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            accrue.train(network(), samples(), validation=samples(64, seed=1), progress=True,
                         **OPTIONS)
        text = said.getvalue()
        self.assertIn("12/12", text)
        self.assertIn("loss=", text)
        self.assertIn("val_loss=", text)

    def test_are_on_terminals_alone(self):
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            accrue.train(network(), samples(), **OPTIONS)
            said.isatty = lambda: True
            accrue.train(network(), samples(), quiet=True, **OPTIONS)
            accrue.train(network(), samples(), progress=False, **OPTIONS)
        self.assertEqual(said.getvalue(), "")
        with unittest.mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.std": None}):
            with self.assertRaisesRegex(accrue.Error, "no tqdm: expected pip install tqdm"):
                accrue.train(network(), samples(), progress=True)
        with self.assertRaisesRegex(accrue.Error, "progress is 'yes': expected True, False or None"):
            accrue.train(network(), samples(), progress="yes")


class Pickles(unittest.TestCase):
    def test_layers(self):
        layer = accrue.Sequential({"body": network(), "end": accrue.LayerNorm(3)})
        for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
            self.assertEqual(repr(other), repr(layer))
        x = accrue.input(4)
        with self.assertRaisesRegex(pickle.PicklingError, "a Network of values is not pickled"):
            pickle.dumps(accrue.Network(x, accrue.Linear(4, 3)(x)))

    def test_steps_and_results(self):
        steps = []
        result = accrue.train(network(), samples(), on_step=steps.append, **OPTIONS)
        other = pickle.loads(pickle.dumps(steps[-1]))
        self.assertEqual(repr(other), repr(steps[-1]))
        self.assertEqual((other.epoch, other.window, other.player), (2, 11, ""))
        other = pickle.loads(pickle.dumps(result))
        self.assertEqual(repr(other), repr(result))
        self.assertTrue(weights_equal(other.weights, result.weights))
        np.testing.assert_array_equal(other.history["loss"], result.history["loss"])
        self.assertIsInstance(other.history, accrue.History)

    def test_trainers_as_checkpoints(self):
        x, y = samples()
        whole = accrue.train(network(), (x, y), **OPTIONS)
        trainer = accrue.Trainer(network(), (x, y), **OPTIONS)
        trainer.run(on_step=lambda step: step.step < 6)
        other = pickle.loads(pickle.dumps(trainer))
        self.assertEqual((other.steps, other.is_finished), (6, False))
        self.assertTrue(weights_equal(other.run().weights, whole.weights))
        fresh = accrue.Trainer(network(), (x, y), **OPTIONS)
        self.assertTrue(weights_equal(pickle.loads(pickle.dumps(fresh)).run().weights, whole.weights))


if __name__ == "__main__":
    unittest.main()
