"""Tests of networks that are described by calling layers and functions on values."""

import pathlib
import tempfile
import unittest

import numpy as np

import accrue


def samples(n=40, shape=(3, 8, 8), classes=5, seed=0):
    random = np.random.default_rng(seed)
    return (random.normal(size=(n, *shape)).astype(np.float32),
            random.integers(0, classes, n).astype(np.int32))


def squeezed(blocks=2, channels=8):
    """Residual blocks whose channels are weighed by a function of their means, and two branches."""
    x = accrue.input(3, 8, 8)
    y = accrue.Conv2d(3, channels, 3, padding=1)(x, name="stem")
    for i in range(blocks):
        h = accrue.relu(accrue.GroupNorm(2, channels)(y, name=f"blocks.{i}.norm"))
        h = accrue.Conv2d(channels, channels, 3, padding=1)(h, name=f"blocks.{i}.conv")
        means = accrue.Conv2d(channels, channels, 1)(h.adaptive_avg_pool2d(1),
                                                     name=f"blocks.{i}.squeeze")
        y = y + h * accrue.sigmoid(means).interpolate(size=8)
    gate = accrue.parameter(1, "gate", mean=0.5)
    branches = accrue.cat([y.max_pool2d(2), accrue.scale_add(y.avg_pool2d(2), gate,
                                                             y.max_pool2d(2))], 1)
    features = branches.adaptive_avg_pool2d(1).flatten(1)
    return accrue.Network(x, accrue.Linear(2 * channels, 5)(features, name="head"))


def unet():
    x = accrue.input(1, 16, 16)

    def double(x, out, name):
        for i in range(2):
            x = accrue.Conv2d(x.shape[1], out, 3, padding=1, bias=False)(x, name=f"{name}.{3 * i}")
            x = accrue.GroupNorm(4, out, activation="relu")(x, name=f"{name}.{3 * i + 1}")
        return x

    fine = double(x, 8, "encoder.0")
    coarse = double(accrue.max_pool2d(fine, 2), 16, "encoder.1")
    up = accrue.ConvTranspose2d(16, 8, 2, stride=2)(coarse, name="up")
    return accrue.Network(x, accrue.Conv2d(8, 1, 1)(double(accrue.cat([fine, up], 1), 8, "decoder"),
                                                    name="head"))


class Networks(unittest.TestCase):
    def equal(self, a, b):
        self.assertEqual(list(a), list(b))
        for name, array in a.items():
            np.testing.assert_array_equal(array, b[name], name)

    def test_of_a_chain_are_sequentials(self):
        layers = [accrue.Conv2d(3, 4, 3, padding=1), accrue.GroupNorm(2, 4, activation="relu"),
                  accrue.Dropout(0.5), accrue.MaxPool2d(2), accrue.Flatten(), accrue.Linear(64, 5)]
        x = y = accrue.input(3, 8, 8)
        for layer in layers:
            y = layer(y)
        options = dict(effective_batch=8, micro_batch=3, threads=1)
        runs = [accrue.train(network, samples(), **options)
                for network in (accrue.Sequential(layers), accrue.Network(x, y))]
        self.equal(runs[0].weights, runs[1].weights)
        self.assertEqual(list(runs[0].losses), list(runs[1].losses))
        self.assertEqual(runs[0].memory, runs[1].memory)

    def test_take_the_same_steps_for_every_split(self):
        for network, data in ((squeezed(), samples()),
                              (unet(), (samples(shape=(1, 16, 16))[0],
                                        samples(shape=(1, 16, 16))[0][:, 0] > 0))):
            def run(network=network, data=data, **options):
                return accrue.train(network, data, effective_batch=8, threads=1, lr=0.01,
                                    **options)

            whole = run(micro_batch=8)
            self.assertEqual(len(whole.losses), 5)
            for micro in (1, 3):
                parts = run(micro_batch=micro)
                # Sums over 8 samples in float32, after steps that differ by as much.
                np.testing.assert_allclose(parts.losses, whole.losses, rtol=1e-5)
                self.assertEqual(parts.memory["this run"], parts.memory["predicted"])
            for recompute in ("sqrt", "all"):
                again = run(micro_batch=3, recompute=recompute)
                self.equal(again.weights, parts.weights)
                self.assertEqual(again.memory["this run"], again.memory["predicted"])

    def test_keep_little_beside_skips_and_in_dense_blocks(self):
        def conv(x, out, kernel, name):
            return accrue.Conv2d(x.shape[1], out, kernel, padding=kernel // 2)(x, name=name)

        def dense(images):
            every = [conv(images, 8, 3, "stem")]
            for i in range(6):
                h = accrue.relu(accrue.GroupNorm(4, 8 + 4 * i)(accrue.cat(every, 1), name=f"norm{i}"))
                h = conv(accrue.gelu(conv(h, 16, 1, f"narrow{i}")), 4, 3, f"new{i}")
                every.append(h)
            return accrue.cat(every, 1)

        def gated(images):
            fine = accrue.gelu(conv(accrue.gelu(conv(images, 8, 3, "a")), 8, 3, "b"))
            deep = accrue.gelu(conv(fine.max_pool2d(2), 16, 3, "c"))
            deep = accrue.gelu(conv(deep, 16, 3, "d")).interpolate(scale_factor=2, mode="bilinear")
            z = accrue.relu(conv(fine, 4, 1, "skip") + conv(deep, 4, 1, "signal"))
            both = accrue.cat([fine * accrue.sigmoid(conv(z, 1, 1, "gate")), deep], 1)
            return accrue.gelu(conv(accrue.gelu(conv(both, 8, 3, "e")), 8, 3, "f"))

        for make, most in ((dense, 0.5), (gated, 0.77)):
            runs = {}
            for recompute in ("none", "sqrt", "all"):
                x = accrue.input(3, 16, 16)
                y = make(x)
                y = accrue.Linear(y.shape[1], 5)(y.mean((2, 3)), name="head")
                run = accrue.train(accrue.Network(x, y), samples(shape=(3, 16, 16)), threads=1,
                                   effective_batch=8, micro_batch=3, lr=0.01, recompute=recompute)
                self.assertEqual(run.memory["this run"], run.memory["predicted"])
                runs[recompute] = run
            for recompute in ("sqrt", "all"):
                self.equal(runs[recompute].weights, runs["none"].weights)
                self.assertLess(runs[recompute].memory["this run"]["activations"],
                                most * runs["none"].memory["this run"]["activations"])

    def test_have_norms_of_the_window(self):
        x = accrue.input(3, 8, 8)
        y = accrue.Conv2d(3, 8, 3, padding=1)(x)
        for _ in range(3):
            y = y + accrue.Conv2d(8, 8, 3, padding=1)(accrue.relu(accrue.BatchNorm2d(8)(y)))
        network = accrue.Network(x, accrue.Linear(8, 5)(y.adaptive_avg_pool2d(1).flatten(1)))
        options = dict(effective_batch=8, threads=1, lr=0.01)
        whole = accrue.train(network, samples(), micro_batch=8, **options)
        for recompute in ("none", "sqrt", "all"):
            for by in ({"batch_norm_by": "keep"}, {"batch_norm_by": "walk", "window_passes": 6}):
                parts = accrue.train(network, samples(), micro_batch=3, batch_norm="window",
                                     recompute=recompute, **by, **options)
                np.testing.assert_allclose(parts.losses, whole.losses, rtol=1e-5)
                self.assertEqual(parts.memory["this run"], parts.memory["predicted"])

    def test_go_on_from_checkpoints(self):
        options = dict(effective_batch=8, micro_batch=3, threads=1)
        whole = accrue.train(squeezed(), samples(), **options)
        with tempfile.TemporaryDirectory() as folder:
            accrue.train(squeezed(), samples(), steps=2, checkpoint_dir=folder, **options)
            with self.assertRaisesRegex(accrue.Error, "network"):
                accrue.train(squeezed(3), samples(), resume=True, checkpoint_dir=folder, **options)
            rest = accrue.train(squeezed(), samples(), resume=True, checkpoint_dir=folder,
                                **options)
        self.equal(rest.weights, whole.weights)

    def test_have_weights_by_the_names_of_calls(self):
        network, data = squeezed(1), samples()
        trainer = accrue.Trainer(network, data, effective_batch=8, micro_batch=4)
        result = trainer.run()
        names = ["stem.weight", "stem.bias", "blocks.0.norm.weight", "blocks.0.norm.bias",
                 "blocks.0.conv.weight", "blocks.0.conv.bias", "blocks.0.squeeze.weight",
                 "blocks.0.squeeze.bias", "gate", "head.weight", "head.bias"]
        self.assertEqual(list(result.weights), names)
        self.assertEqual(trainer.evaluate(),
                         accrue.evaluate(result.weights, network, data, micro_batch=4))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "weights.safetensors")
            trainer.save_weights(path)
            np.testing.assert_array_equal(accrue.predict(path, data[0][:3], network),
                                          trainer.predict(data[0][:3]))
            frozen = accrue.train(network, data, init=path, freeze=["blocks", "gate"],
                                  effective_batch=8, micro_batch=8)
        for name in names:
            same = np.array_equal(frozen.weights[name], result.weights[name])
            self.assertEqual(same, name.startswith("blocks") or name == "gate", name)

    def test_are_described(self):
        info = accrue.info(squeezed(1))
        self.assertEqual(info["tensors"]["blocks.0.squeeze.weight"], [8, 8, 1, 1])
        with self.assertRaisesRegex(accrue.Error, "in layer 'stem conv 3x3 3 -> 8"):
            accrue.train(squeezed(1), samples(shape=(4, 8, 8)), effective_batch=8, micro_batch=8)
        with self.assertRaisesRegex(accrue.Error, r"in layer '%\d+ mul': \[mul\]"):
            accrue.train(squeezed(1), samples(shape=(3, 12, 8)), effective_batch=8, micro_batch=8)

    def test_are_planned(self):
        network, data = squeezed(3, 16), samples()
        plan = accrue.plan(network, data, memory="2MiB", effective_batch=16)
        result = accrue.train(network, data, **plan.options())
        self.assertEqual(result.memory["this run"], result.memory["predicted"])
        self.assertEqual(result.memory["this run"]["total"], plan["recommended"]["peak_bytes"])

    def test_are_exported(self):
        weights = accrue.train(squeezed(), samples(), effective_batch=8, micro_batch=8).weights
        known = accrue.train("mlp-small", "digits", steps=1).weights
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "network.onnx")
            accrue.export(weights, path, squeezed())
            self.assertIn(b"blocks.0.conv.weight", path.read_bytes())
            with self.assertRaisesRegex(accrue.Error, "^weights are of a network of layers"):
                accrue.export(weights, path)
            with self.assertRaisesRegex(accrue.Error, "of the network mlp-small: expected no"):
                accrue.export(known, path, squeezed())
            with self.assertRaisesRegex(accrue.Error, "model is 'mlp': expected a network of lay"):
                accrue.export(known, path, "mlp")
            accrue.export(known, path)
            self.assertIn(b"0.weight", path.read_bytes())

    def test_are_exported_with_the_samples_in_any_dimension(self):
        x = accrue.input(4, 6)
        rows = accrue.Linear(6, 6)(accrue.permute(x, (1, 0, 2)))  # [4, N, 6]
        heads = accrue.softmax(rows.reshape(4, 2 * x.shape[0], 3).transpose(0, 1), -1)
        y = accrue.roll(heads.transpose(0, 1).reshape(4, x.shape[0], 6), 1, 0).permute(1, 0, 2)
        network = accrue.Network(x, accrue.Linear(24, 5)(y.flatten(1)))
        weights = accrue.train(network, samples(shape=(4, 6)), effective_batch=8, micro_batch=8,
                               steps=1).weights
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "network.onnx")
            accrue.export(weights, path, network)
            for op in (b"Transpose", b"Softmax", b"Gather", b"Gemm"):
                self.assertIn(op, path.read_bytes())

    def test_share_layers_that_are_called_twice(self):
        x = accrue.input(4)
        layer = accrue.Linear(4, 4)
        network = accrue.Network(x, accrue.Linear(4, 5)(layer(accrue.tanh(layer(x)))))
        x, y = samples(shape=(4,))
        w = accrue.train(network, (x, y), steps=2, effective_batch=8, micro_batch=8).weights
        self.assertEqual(list(w), ["0.weight", "0.bias", "1.weight", "1.bias"])
        h = np.tanh(x @ w["0.weight"].T + w["0.bias"]) @ w["0.weight"].T + w["0.bias"]
        np.testing.assert_allclose(accrue.predict(w, x, network),
                                   h @ w["1.weight"].T + w["1.bias"], rtol=1e-4, atol=1e-5)

    def test_have_constants_and_arithmetic(self):
        random = np.random.default_rng(1)
        x, w = accrue.input(3), random.normal(size=(3, 4)).astype(np.float32)
        y = accrue.matmul(x, accrue.constant(w))
        network = accrue.Network(x, accrue.Linear(4, 2)(2 * y - y * y))
        x = random.normal(size=(6, 3)).astype(np.float32)
        trained = accrue.train(network, (x, np.arange(6) % 2), effective_batch=6, micro_batch=2).weights
        self.assertEqual(list(trained), ["0.weight", "0.bias"])
        h = x @ w
        np.testing.assert_allclose(accrue.predict(trained, x, network),
                                   (2 * h - h * h) @ trained["0.weight"].T + trained["0.bias"],
                                   rtol=1e-4, atol=1e-5)

    def test_show_their_calls(self):
        x = accrue.input(4, name="rows")
        y = accrue.Linear(4, 4)(x, name="first")
        z = accrue.leaky_relu(y + x, 0.1).reshape(-1, 2, 2)
        self.assertEqual(repr(accrue.Network(x, z)),
                         "rows: input\n"
                         "%1 = first(rows): linear 4 -> 4\n"
                         "%2 = add(%1, rows)\n"
                         "%3 = leaky_relu(%2, negative_slope=0.1)\n"
                         "%4 = reshape(%3, shape=(-1, 2, 2))\n"
                         "return %4")


class Values(unittest.TestCase):
    def refused(self, words, make):
        with self.assertRaisesRegex(accrue.Error, words):
            make()

    def test_have_sizes(self):
        x = accrue.input(3, 8, 4)
        N = x.shape[0]
        self.assertEqual(repr(x), "value [N, 3, 8, 4]")
        self.assertEqual(x.shape, (N, 3, 8, 4))
        self.assertEqual(x.flatten(1).shape, (N, 96))
        self.assertEqual(x.reshape(N * 3, 8, 4).shape, (N * 3, 8, 4))
        self.assertEqual(x.reshape(-1, 4).shape, (24 * N, 4))
        self.assertEqual(repr(x.reshape((-1, 4))), "value [24 N, 4]")
        self.assertEqual(x.reshape(N, 2, -1).shape, (N, 2, 48))
        self.assertEqual(accrue.input((2, 3)).shape, accrue.input(2, 3).shape)

    def test_say_what_does_not_fit(self):
        x, y = accrue.input(3, 8, 8), accrue.input(4, 8, 8)
        self.refused(r"add of \[N, 3, 8, 8\] and \[N, 4, 8, 8\]: \[add\] ", lambda: x + y)
        self.refused(r"conv 3x3 4 -> 2.* 'stem' of \[N, 3, 8, 8\]: \[conv2d\] ",
                     lambda: accrue.Conv2d(4, 2, 3)(x, name="stem"))
        self.refused(r"\[relu\] got 2 arguments: expected relu\(input\)",
                     lambda: accrue.relu(x, 1))
        self.refused(r"\[max_pool2d\] has no kernel_size", lambda: x.max_pool2d())
        self.refused(r"\[max_pool2d\] has no argument kernel", lambda: x.max_pool2d(kernel=2))
        self.refused(r"\[max_pool2d\] kernel_size is given twice",
                     lambda: x.max_pool2d(2, kernel_size=2))
        self.refused(r"\[max_pool2d\] kernel_size is 'a'", lambda: x.max_pool2d("a"))
        self.refused(r"\[cat\] tensors is value .*expected a list of values",
                     lambda: accrue.cat(x, 1))
        self.refused(r"\[attention_rows\] 2 heads and 9223372036854775807 groups in \[.*, 4, 8\]",
                     lambda: accrue.attention_rows(accrue.input(4, 8), 2, groups=2**63 - 1))
        self.refused("input is of sizes .*expected whole numbers", lambda: accrue.input(3, 0))
        self.refused("a parameter has no name", lambda: accrue.parameter(3, ""))
        with self.assertRaises(TypeError):
            x + "a"  # pylint: disable=pointless-statement

    def test_make_networks(self):
        x, z = accrue.input(4), accrue.input(4, name="z")
        y = accrue.Linear(4, 2)(x, name="a")
        self.refused(r"outputs need the input x \[N, 4\]: expected it in inputs",
                     lambda: accrue.Network(z, y))
        self.refused("an input of a network is a result", lambda: accrue.Network(y, y))
        self.refused("inputs is 3: expected a value", lambda: accrue.Network(3, y))
        self.refused("outputs is empty", lambda: accrue.Network(x, []))
        self.refused("two parameters of the network are called 'a.weight'",
                     lambda: accrue.Network(x, accrue.Linear(2, 2)(y, name="a")))
        two = accrue.Network([x, z], [y, x + z])
        self.refused("the network has 2 inputs and 2 outputs: expected data by their names",
                     lambda: accrue.train(two, samples(shape=(4,))))


if __name__ == "__main__":
    unittest.main()
