"""Tests of networks with several inputs and outputs, and of losses by their names."""

import pathlib
import tempfile
import unittest

import numpy as np

import accrue

N = 24


def two_heads(spare=True):
    x, m = accrue.input(1, 6, 6), accrue.input(3)
    h = accrue.relu(accrue.Conv2d(1, 4, 3, padding=1)(x, name="stem"))
    h = accrue.cat([h.adaptive_avg_pool2d(2).flatten(1), m], 1)
    outputs = {"kind": accrue.Linear(19, 4)(h, name="kind"),
               "box": accrue.Linear(19, 2)(h, name="box")}
    if spare:
        outputs["spare"] = accrue.Linear(19, 50)(h, name="spare")
    return accrue.Network({"image": x, "meta": m}, outputs)


def pairs(n=N, seed=0):
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 4, n)
    kinds[[0, 1, 5]] = -100
    kinds[2] = 3
    return {"image": random.normal(size=(n, 1, 6, 6)), "meta": random.normal(size=(n, 3)),
            "kind": kinds, "box": random.normal(size=(n, 2))}


LOSS = {"kind": accrue.loss("cross_entropy", class_weights=np.array([1, 2, 0.5, 3]),
                            label_smoothing=0.1),
        "box": accrue.loss("smooth_l1", weight=0.5, beta=0.7)}
EXACT = dict(precision="fp64", effective_batch=8, no_shuffle=True, threads=1, loss=LOSS)


class Outputs(unittest.TestCase):
    def close(self, a, b, bound=1e-12):
        self.assertEqual(list(a), list(b))
        for name, array in a.items():
            self.assertLess(np.abs(array - b[name]).max(), bound, name)

    def test_take_the_same_steps_for_every_split(self):
        weights = np.random.default_rng(1).uniform(0, 2, N)
        for more in ({}, {"sample_weight": {"box": weights}}, {"sample_weight": weights},
                     {"recompute": "all"}):
            whole = accrue.train(two_heads(), pairs(), micro_batch=8, lr=0.01, **EXACT, **more)
            self.assertEqual(whole.memory["this run"], whole.memory["predicted"])
            for micro in (1, 3):
                split = accrue.train(two_heads(), pairs(), micro_batch=micro, lr=0.01, **EXACT,
                                     **more)
                np.testing.assert_allclose(split.losses, whole.losses, rtol=1e-12)
                self.close(split.weights, whole.weights)
                self.assertEqual(split.memory["this run"], split.memory["predicted"])
                self.assertAlmostEqual(split.score["loss"], whole.score["loss"], 12)

    def test_are_means_over_what_each_loss_counts(self):
        data = pairs(8)
        steps = []
        result = accrue.train(two_heads(), data, micro_batch=3, steps=1, optimizer="sgd", lr=0,
                              on_step=steps.append, **EXACT)
        answers = accrue.predict(result.weights, {k: data[k] for k in ("image", "meta")},
                                 two_heads(), precision="fp64")
        self.assertEqual(list(answers), ["kind", "box", "spare"])
        self.assertEqual(answers["spare"].shape, (8, 50))
        away = np.abs(answers["box"] - data["box"])
        box = np.where(away < 0.7, away**2 / 1.4, away - 0.35).mean()
        p = answers["kind"] - np.log(np.exp(answers["kind"]).sum(1, keepdims=True))
        w, judged = np.array([1, 2, 0.5, 3]), data["kind"] >= 0
        y = data["kind"][judged]
        wanted = 0.9 * np.eye(4)[y] + 0.1 / 4
        kind = -(wanted * w * p[judged]).sum() / w[y].sum()
        self.assertAlmostEqual(result.losses[0], kind + 0.5 * box, 12)
        self.assertEqual(list(steps[0].terms), ["kind", "box"])
        self.assertAlmostEqual(steps[0].terms["kind"], kind, 12)
        self.assertAlmostEqual(steps[0].terms["box"], box, 12)
        self.assertAlmostEqual(result.score["kind.loss"], kind, 12)
        self.assertAlmostEqual(result.score["box.loss"], box, 12)
        self.assertAlmostEqual(result.score["loss"], kind + 0.5 * box, 12)
        right = 100 * (answers["kind"].argmax(1) == data["kind"])[judged].mean()
        self.assertAlmostEqual(result.score["kind.accuracy"], right)

    def test_without_a_loss_cost_nothing_and_stay(self):
        runs = {spare: accrue.train(two_heads(spare), pairs(), micro_batch=4, lr=0.01,
                                    optimizer="sgd", **EXACT) for spare in (False, True)}
        for name in runs[False].weights:
            np.testing.assert_array_equal(runs[True].weights[name], runs[False].weights[name])
        peaks = [runs[spare].memory["this run"]["activations"] for spare in (False, True)]
        self.assertEqual(*peaks)
        trainer = accrue.Trainer(two_heads(), pairs(), micro_batch=4, lr=0.01, **EXACT)
        before = trainer.weights
        trainer.run()
        np.testing.assert_array_equal(trainer.weights["spare.weight"], before["spare.weight"])
        self.assertGreater(np.abs(trainer.weights["kind.weight"] - before["kind.weight"]).max(), 0)

    def test_resume_with_the_same_bits_and_are_scored_again(self):
        options = dict(EXACT, micro_batch=3, lr=0.01, epochs=2)
        whole = accrue.train(two_heads(), pairs(), **options)
        with tempfile.TemporaryDirectory() as folder:
            kept = dict(options, checkpoint_dir=folder, checkpoint_every=1)
            accrue.train(two_heads(), pairs(), **kept, steps=4)
            again = accrue.train(two_heads(), pairs(), **kept, resume=True)
            for name, array in whole.weights.items():
                np.testing.assert_array_equal(array, again.weights[name])
            with self.assertRaisesRegex(accrue.Error, "objective|loss"):
                accrue.train(two_heads(), pairs(), **dict(kept, loss={"box": "l1"}), resume=True)
            path = str(pathlib.Path(folder) / "weights.safetensors")
            again.weights.save(path)
            score = accrue.evaluate(path, two_heads(), pairs(), precision="fp64")
            self.assertAlmostEqual(score["loss"], again.score["loss"], 12)
            self.assertAlmostEqual(score["box.loss"], again.score["box.loss"], 12)

    def test_are_of_every_kind(self):
        random = np.random.default_rng(0)
        x, ids = accrue.input(3, 8, 8), accrue.input(5, dtype="int32")
        h = accrue.relu(accrue.Conv2d(3, 4, 3, padding=1)(x, name="stem"))
        words = accrue.Embedding(11, 6)(ids, name="words").mean(1)
        network = accrue.Network({"image": x, "ids": ids}, {
            "mask": accrue.Conv2d(4, 3, 1)(h, name="mask"),
            "there": accrue.Conv2d(4, 1, 1)(h, name="there"),
            "kind": accrue.Linear(6, 3)(words, name="kind"),
            "many": accrue.Linear(6, 4)(words, name="many")})
        data = {"image": random.integers(0, 255, (N, 3, 8, 8)).astype(np.uint8),
                "ids": np.arange(5 * N).reshape(N, 5) % 11,
                "mask": random.integers(0, 3, (N, 8, 8)), "there": random.random((N, 8, 8)) > 0.5,
                "kind": np.arange(N) % 3,
                "many": (random.random((N, 4)) > 0.5).astype(np.float32)}
        loss = {"mask": "cross-entropy+dice", "there": accrue.loss("bce+dice", weight=0.5),
                "kind": accrue.loss("cross_entropy", class_weights="balanced"),
                "many": accrue.loss("bce", pos_weight=[1, 2, 1, 1])}
        runs = [accrue.train(network, data, loss=loss, micro_batch=micro, effective_batch=8,
                             precision="fp64", mean=0.5, std=0.25) for micro in (8, 3)]
        self.close(runs[0].weights, runs[1].weights)
        self.assertEqual(runs[1].memory["this run"], runs[1].memory["predicted"])
        for name in ("mask.dice", "there.iou", "kind.balanced_accuracy", "many.f1"):
            self.assertAlmostEqual(runs[0].score[name], runs[1].score[name], 10)
        with self.assertRaisesRegex(accrue.Error, "info.. shows networks of one input"):
            accrue.info(network)

    def test_know_classes_that_no_sample_has(self):
        data = pairs()
        data["kind"] = np.minimum(data["kind"], 1)  # of 4
        result = accrue.train(two_heads(), data, micro_batch=4, lr=0.01, **EXACT)
        self.assertTrue(np.isfinite(result.losses).all())
        self.assertTrue(np.isnan(result.score["kind.accuracy.3"]))

    def test_are_balanced_by_all_classes_that_an_output_tells_apart(self):
        data = pairs()
        data["kind"] = np.where(data["kind"] == 3, 1, data["kind"])  # the last of 4 has no label
        counts = np.bincount(data["kind"][data["kind"] >= 0])
        # scikit-learn's compute_class_weight("balanced", classes=[0, 1, 2]); nothing weighs the fourth.
        expected = [*(counts.sum() / (3 * counts)), 1.0]

        def losses(kind, data=data, network=two_heads):
            return accrue.train(network(), data, micro_batch=4, **{**EXACT, "loss": {"kind": kind, "box": "mse"}}).losses

        same = losses(accrue.loss("cross_entropy", class_weights=expected))
        for given in ({"class_weights": "balanced"}, {"class_weight": "balanced"},
                      {"class_weight": dict(enumerate(expected[:3]))}, {"class_weights": np.float64(expected)}):
            np.testing.assert_array_equal(losses(accrue.loss("cross_entropy", **given)), same)
        fetched = [dict(zip(data, row)) for row in zip(*(array.astype(np.float32) if array.dtype == np.float64 else array
                                                         for array in data.values()))]
        for given in ("balanced", expected):
            same = losses(accrue.loss("cross_entropy", class_weights=given), fetched)
            np.testing.assert_allclose(same, losses(accrue.loss("cross_entropy", class_weights="balanced")), rtol=1e-5)
        for words, given in (("class_weights of 'kind' has the class 4, but there are 4", {"class_weights": {4: 2.0}}),
                             ("class_weights of 'kind' is 'even'", {"class_weights": "even"}),
                             ("class_weights of 'kind' has the key 'cat'", {"class_weight": {"cat": 2.0}}),
                             ("class_weights of 'kind' is 2.5", {"class_weights": 2.5})):
            with self.subTest(words), self.assertRaisesRegex(accrue.Error, f"^{words}"):
                losses(accrue.loss("cross_entropy", **given))
        with self.assertRaisesRegex(accrue.Error, "class_weights of 'box' is 'balanced', but box has no labels"):
            accrue.train(two_heads(), data, **{**EXACT, "loss": {"box": accrue.loss("mse", class_weights="balanced")}})
        weights = accrue.train(two_heads(), data, micro_batch=8, **EXACT).weights
        with self.assertRaisesRegex(accrue.Error, "counts the labels that are trained on"):
            accrue.evaluate(weights, two_heads(), data, precision="fp64",
                            loss={"kind": accrue.loss("cross_entropy", class_weights="balanced"), "box": "mse"})
        with self.assertRaisesRegex(accrue.Error, r"^weight is \[1, 2\]: expected a number, the factor of this loss"):
            accrue.loss("cross_entropy", weight=[1, 2])
        with self.assertRaisesRegex(accrue.Error, "two names of the same"):
            accrue.loss("cross_entropy", class_weight=[1, 2], class_weights=[1, 2])

    def test_have_metrics_each_and_together(self):
        seen = {}

        def right(y, answers):
            seen["right"] = y.shape, answers.shape
            return 100 * (answers.argmax(axis=1) == y).mean()

        def far(y, answers):
            return ((y - answers) ** 2).mean()

        def both(y, answers):
            seen["both"] = {name: array.shape for name, array in y.items()}, sorted(answers)
            judged = y["kind"] != -100
            return 100 * (answers["kind"].argmax(axis=1) == y["kind"])[judged].mean() + far(y["box"], answers["box"])

        options = {**EXACT, "loss": None, "micro_batch": 4}
        result = accrue.train(two_heads(), pairs(), test=pairs(10, 4), metrics={"kind": right, "box": [far], "both": both},
                              **options)
        score = result.score
        self.assertEqual(seen, {"right": ((7,), (7, 4)), "both": ({"kind": (10,), "box": (10, 2)}, ["box", "kind"])})
        self.assertAlmostEqual(score["kind.right"], score["kind.accuracy"], 4)
        self.assertAlmostEqual(score["box.far"], score["box.loss"], 10)
        self.assertAlmostEqual(score["both"], score["kind.right"] + score["box.far"], 10)
        names = {"kind": {"mine": right}, "box": {"a": far, "b": far}}
        trainer = accrue.Trainer(two_heads(), pairs(), validation=pairs(10, 4), metrics=names, **options)
        history = trainer.run().history
        self.assertEqual(history["val_kind.mine"][-1], trainer.evaluate(pairs(10, 4))["kind.mine"])
        self.assertEqual(trainer.evaluate(pairs(10, 4))["box.a"], trainer.evaluate(pairs(10, 4))["box.b"])
        one = accrue.train(two_heads(), {k: v for k, v in pairs().items() if k != "box"},
                           metrics={"mine": right, "kind": [right]}, **options).score
        self.assertEqual(one["mine"], one["kind.right"])
        for metrics, words in (({"spare": right}, "metrics has 'spare', an output that no array of the data is compared with"),
                               ({"kind": 3}, "metrics of 'kind' is 3: expected functions"),
                               ({"kind": ["accuracy"]}, "metrics of 'kind' has 'accuracy', which scores have by themselves"),
                               ({"kinds": right}, "a metric of all outputs gets dictionaries, of labels by kind, box .*AttributeError")):
            with self.subTest(words), self.assertRaisesRegex(accrue.Error, words):
                accrue.train(two_heads(), pairs(), metrics=metrics, **options)

    def test_share_a_target_and_take_lists(self):
        random = np.random.default_rng(3)
        x, y = random.normal(size=(N, 5)).astype(np.float32), random.integers(0, 3, N)
        value = accrue.input(5)
        h = accrue.Linear(5, 8)(value, name="body").tanh()
        network = accrue.Network([value], [accrue.Linear(8, 3)(h, name="main"),
                                           accrue.Linear(8, 3)(h, name="aux")])
        loss = {"y0": "cross_entropy",
                "y1": accrue.loss("cross_entropy", weight=0.3, target="y0")}
        result = accrue.train(network, {"x": x, "y0": y}, loss=loss, micro_batch=4,
                              effective_batch=8)
        self.assertAlmostEqual(result.score["loss"],
                               result.score["y0.loss"] + 0.3 * result.score["y1.loss"], 5)
        answers = accrue.predict(result.weights, x, network)
        self.assertEqual({name: y.shape for name, y in answers.items()},
                         {"y0": (N, 3), "y1": (N, 3)})

    def test_of_one_of_each_are_the_same_by_name(self):
        random = np.random.default_rng(3)
        x, y = random.normal(size=(N, 5)).astype(np.float32), random.integers(0, 3, N)
        value = accrue.input(5)
        network = accrue.Network(value, accrue.Linear(5, 3)(value))
        options = dict(micro_batch=4, effective_batch=8)
        plain = accrue.train(network, (x, y), **options)
        named = accrue.train(network, {"x": x, "y": y}, **options)
        self.close(plain.weights, named.weights, 1e-7)
        self.assertAlmostEqual(plain.score["accuracy"], named.score["y.accuracy"])

    def test_are_planned_and_scored_by_a_trainer(self):
        options = dict(effective_batch=8, loss=LOSS)
        plan = accrue.plan(two_heads(), pairs(), memory="64MiB", **options)
        trainer = accrue.Trainer(two_heads(), pairs(), test=pairs(10, 4),
                                 **{**options, **plan.options()})
        result = trainer.run()
        self.assertEqual(trainer.evaluate(pairs(10, 4)), result.score)
        answers = trainer.predict({k: pairs()[k] for k in ("image", "meta")})
        self.assertEqual(answers["box"].shape, (N, 2))
        self.assertIn("kind.accuracy", trainer.evaluate(pairs(6, 5)))

    def test_refuse_what_does_not_fit(self):
        m = accrue.input(3)
        data, options = pairs(), dict(micro_batch=4, effective_batch=8)

        def without(*names):
            return {name: array for name, array in data.items() if name not in names}

        for message, network, given, more in (
                ("data has no 'meta': expected an array for each input, image, meta", two_heads(),
                 without("meta"), {}),
                ("the network has 2 inputs and 3 outputs: expected data by their names",
                 two_heads(), (data["image"], data["kind"]), {}),
                (r"meta is float64 \[24, 2\], but the network's input is \[N, 3\]", two_heads(),
                 {**data, "meta": data["box"]}, {}),
                ("has 'boxes', which is no input", two_heads(), {**data, "boxes": data["box"]}, {}),
                ("a loss of 'boxes', which is no output", two_heads(), data,
                 {"loss": {"boxes": "l1"}}),
                ("no array for an output", two_heads(), without("box", "kind"), {}),
                ("the loss of 'kind' is l1, but kind has classes", two_heads(), data,
                 {"loss": {"kind": "l1"}}),
                ("the loss l1 of 'box' has no beta", two_heads(), without("kind"),
                 {"loss": {"box": accrue.loss("l1", beta=2)}}),
                ("output 'spare': the network answers with", two_heads(), data,
                 {"loss": {"spare": accrue.loss("mse", target="box"), "kind": "cross_entropy"}}),
                ("the loss is l1, but the data has arrays for 2 outputs", two_heads(), data,
                 {"loss": "l1"}),
                ("means over different things", two_heads(), data,
                 {"strategy": "separate", "on_overflow": "drop-micro-batch"}),
                ("loss is of outputs by their names, but data has no names",
                 accrue.Network(m, accrue.Linear(3, 2)(m)), (data["meta"], data["box"]),
                 {"loss": {"y": "l1"}}),
                ("label_smoothing", two_heads(), data, {"label_smoothing": 0.1})):
            with self.subTest(message), self.assertRaisesRegex(accrue.Error, message):
                accrue.train(network, given, **options, **more)
        with self.assertRaisesRegex(accrue.Error, "are called 'a': expected names that differ"):
            accrue.Network({"a": m}, {"a": m})
        with self.assertRaisesRegex(accrue.Error, "loss is 'hinge': expected cross-entropy"):
            accrue.loss("hinge")
        result = accrue.train(two_heads(), data, **options)
        with self.assertRaisesRegex(accrue.Error, "x has 'kind', which is no input"):
            accrue.predict(result.weights, data, two_heads())

    def test_are_exported(self):
        weights = accrue.train(two_heads(), pairs(), effective_batch=8, micro_batch=8).weights
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "network.onnx")
            accrue.export(weights, path, two_heads())
            for name in (b"image", b"meta", b"kind", b"box", b"spare"):
                self.assertIn(name, path.read_bytes())

    def test_weights_say_how_pixels_were_normalized_behind_numbers(self):
        m, x = accrue.input(3), accrue.input(1, 4, 4)
        network = accrue.Network({"meta": m, "image": x}, {
            "y": accrue.Linear(19, 2)(accrue.cat([x.flatten(1), m], 1))})
        random = np.random.default_rng(0)
        asked = {"meta": np.ones((4, 3), np.float32),
                 "image": random.integers(0, 256, (4, 1, 4, 4)).astype(np.uint8)}
        trainer = accrue.Trainer(network, {**asked, "y": np.ones((4, 2), np.float32)}, steps=1,
                                 effective_batch=2, micro_batch=2, mean=0.25, std=0.125)
        trainer.run()
        answers = accrue.predict(trainer.weights, asked, network)
        np.testing.assert_array_equal(answers["y"], trainer.predict(asked)["y"])
        numbers = asked | {"image": asked["image"].astype(np.float32)}
        for answer in (trainer.predict, lambda x: accrue.predict(trainer.weights, x, network)):
            with self.assertRaisesRegex(accrue.Error, "has learned from pixels x from 0 to 255"):
                answer(numbers)

    def test_of_integers_are_exported(self):
        i, m = accrue.input(2, dtype="int32"), accrue.input(3)
        rows = accrue.Embedding(5, 3, padding_idx=0)(i, name="rows").sum(1)
        data = {"place": np.arange(8, dtype=np.int32).reshape(4, 2) % 5,
                "meta": np.ones((4, 3), np.float32), "sum": np.ones((4, 3), np.float32)}
        one = {"place": data["place"], "sum": data["sum"]}
        for network, given in ((accrue.Network({"place": i}, {"sum": rows}), one),
                               (accrue.Network({"place": i, "meta": m}, {"sum": rows * m}), data)):
            weights = accrue.train(network, given, steps=0, effective_batch=2,
                                   micro_batch=2).weights
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "network.onnx")
                accrue.export(weights, path, network)
                for name in (b"place", b"sum", b"rows.weight"):
                    self.assertIn(name, path.read_bytes())


if __name__ == "__main__":
    unittest.main()
