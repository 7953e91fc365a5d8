"""The arguments of layers, by PyTorch's names and in its order. judges/test_layers.py compares what
the layers compute."""

import pathlib
import tempfile
import unittest

import numpy as np

import accrue

RANDOM = np.random.default_rng(3)
PIXELS = RANDOM.normal(size=(16, 2, 6, 5)).astype(np.float32)
MASKS = RANDOM.integers(0, 3, (16, 6, 5)).astype(np.int32)
ROWS = RANDOM.normal(size=(16, 8)).astype(np.float32)
Y = np.arange(16, dtype=np.int32) % 3
WHOLE = {"steps": 3, "effective_batch": 8, "micro_batch": 8, "lr": 0.1, "optimizer": "sgd",
         "no_shuffle": True}


def difference(a, b):
    return max(np.abs(x - b[name]).max() for name, x in a.items())


class Arguments(unittest.TestCase):
    def test_are_in_pytorchs_order(self):
        for layer, said in (
                (accrue.Linear(3, 4, False), "linear 3 -> 4, no bias"),
                (accrue.BatchNorm2d(4, 1e-3, 0.2, False),
                 "batch norm 4, eps 0.001, no weights, momentum 0.2"),
                (accrue.BatchNorm1d(4), "batch norm 4"),
                (accrue.GroupNorm(2, 4, 1e-3, False),
                 "group norm, 2 groups of 2 channels, eps 0.001, no weights"),
                (accrue.LayerNorm((2, 4), 1e-3, True, False),
                 "layer norm 2 x 4, eps 0.001, no bias"),
                (accrue.InstanceNorm2d(), "instance norm"),
                (accrue.InstanceNorm2d(4, 1e-3, affine=True),
                 "instance norm, eps 0.001, with weights"),
                (accrue.Embedding(5, 3), "embedding 5 x 3"),
                (accrue.Embedding(5, 3, -2), "embedding 5 x 3, padding 3"),
                (accrue.RMSNorm((2, 4), 1e-3, False), "RMS norm 2 x 4, eps 0.001, no weights"),
                (accrue.GroupNorm(2, 4, bias=False), "group norm, 2 groups of 2 channels, no bias"),
                (accrue.Flatten(1, 2), "flatten dimensions 1 to 2"), (accrue.GELU("tanh"), "gelu_tanh"),
                (accrue.Dropout(), "dropout 0.5"),
                (accrue.StochasticDepth(0.2, "row"), "stochastic depth 0.2"),
                (accrue.Upsample(6), "nearest upsample to 6 x 6"),
                (accrue.Upsample(None, (2, 1.5), "bilinear", True),
                 "bilinear upsample by 2 x 1.5, corners aligned"),
                (accrue.Upsample((4, 3), mode="nearest-exact"),
                 "nearest-exact upsample to 4 x 3")):
            self.assertEqual(repr(layer), said)

    def test_that_are_not_there_are_refused_by_name(self):
        for make, said in (
                (lambda: accrue.BatchNorm2d(4, momentum=None), "momentum=None"),
                (lambda: accrue.BatchNorm2d(4, momentum=2), "momentum of a batch norm is 2"),
                (lambda: accrue.BatchNorm2d(4, track_running_stats=False),
                 "track_running_stats=False"),
                (lambda: accrue.InstanceNorm2d(4, track_running_stats=True),
                 "track_running_stats=True"),
                (lambda: accrue.InstanceNorm2d(affine=True), "needs num_features"),
                (lambda: accrue.Embedding(4, 3, 4), "padding_idx 4: expected -4 to 3"),
                (lambda: accrue.Embedding(4, 3, max_norm=1.0), "max_norm=1.0"),
                (lambda: accrue.Embedding(4, 3, sparse=True), "sparse=True"),
                (lambda: accrue.Linear(4, 3, device="cuda"), "Linear with device='cuda': expected None"),
                (lambda: accrue.LayerNorm(4, dtype="half"), "dtype='half'.*precision="),
                (lambda: accrue.Conv2d(4, 3, 3, padding_mode="reflect"), 'pad.x, ..., mode="reflect".'),
                (lambda: accrue.Flatten(0), "start_dim=0.*numbers the samples"),
                (lambda: accrue.GELU("erf"), "approximate=erf"),
                (lambda: accrue.RMSNorm(4, None), "eps=None"),
                (lambda: accrue.AdaptiveAvgPool2d((None, 2)), "output_size=.None, 2."),
                (lambda: accrue.Sequential(accrue.LSTM(4, 3)), "is called on values"),
                (lambda: accrue.StochasticDepth(0.5, "batch"), "mode is batch: expected row"),
                (lambda: accrue.StochasticDepth(1.0), "p is 1"),
                (lambda: accrue.Upsample(4, mode="trilinear"),
                 "mode is trilinear: expected nearest"),
                (lambda: accrue.Upsample(4, align_corners=True), "align_corners has no meaning"),
                (lambda: accrue.Upsample(4, 2), "and not both"),
                (lambda: accrue.Upsample((4, 4, 4)), "size has 3 numbers"),
                (lambda: accrue.Upsample(scale_factor=2, recompute_scale_factor=True),
                 "recompute_scale_factor=True"),
                (lambda: accrue.Sequential(accrue.ReLU(), 3), "there is 3"),
                (lambda: accrue.Sequential(), "a network needs a layer")):
            with self.assertRaisesRegex(accrue.Error, said):
                make()

    def test_of_sequential_are_layers_or_a_list(self):
        layers = accrue.Linear(8, 4), accrue.ReLU(), accrue.Linear(4, 3)
        each = accrue.train(accrue.Sequential(*layers), (ROWS, Y), **WHOLE).weights
        for others in (list(layers), layers, iter(layers)):
            weights = accrue.train(accrue.Sequential(others), (ROWS, Y), **WHOLE).weights
            self.assertEqual(difference(weights, each), 0)
        self.assertEqual(repr(accrue.Sequential(accrue.ReLU())),
                         repr(accrue.Sequential([accrue.ReLU()])))


class Help(unittest.TestCase):
    def test_has_the_contracts_of_functions(self):
        for function in (accrue.softmax, accrue.Value.softmax):
            self.assertIn("y[o, c, i] = exp(x[o, c, i] - L[o, i])", function.__doc__)
            self.assertIn("Contract: kernels/softmax.h", function.__doc__)
        self.assertIn("Gradient of other: -dy * (input / other) / other", accrue.div.__doc__)
        for owner in (accrue, accrue.Value):
            for name, each in vars(owner).items():
                if type(each).__name__ in ("nb_func", "nb_method") and not name.startswith("__"):
                    self.assertGreater(len(each.__doc__.split("\n", 2)[-1].strip()), 3, name)


class Networks(unittest.TestCase):
    def test_are_the_same_for_every_split(self):
        """Also where samples, or elements of samples with several rows, are dropped."""
        upsampled = accrue.Sequential(
            accrue.Conv2d(2, 4, 3, padding=1), accrue.StochasticDepth(0.3),
            accrue.Upsample(scale_factor=0.5, mode="bilinear"), accrue.GroupNorm(2, 4, 0.1),
            accrue.Upsample((6, 5), mode="bicubic"), accrue.Dropout(0.2),
            accrue.InstanceNorm2d(4, 0.1, affine=True), accrue.Conv2d(4, 3, 1))
        rows = accrue.Sequential(
            accrue.Linear(5, 7), accrue.LayerNorm((6, 7), 0.1), accrue.Dropout(0.3),
            accrue.Flatten(), accrue.Linear(2 * 6 * 7, 3, bias=False))
        for network, y in ((upsampled, MASKS), (rows, Y)):
            whole = accrue.train(network, (PIXELS, y), **WHOLE).weights
            for micro_batch in (1, 3):
                parts = accrue.train(network, (PIXELS, y),
                                     **{**WHOLE, "micro_batch": micro_batch}).weights
                self.assertLess(difference(parts, whole), 2e-6)

    def test_normalise_the_window_with_eps_and_momentum(self):
        def network(*arguments):
            return accrue.Sequential(accrue.Conv2d(2, 4, 3), accrue.BatchNorm2d(4, *arguments),
                                     accrue.ReLU(), accrue.Flatten(), accrue.Linear(4 * 4 * 3, 3))

        whole = accrue.train(network(0.5, 0.3), (PIXELS, Y), **WHOLE).weights
        for by in ("keep", "walk"):
            parts = accrue.train(network(0.5, 0.3), (PIXELS, Y), batch_norm="window",
                                 batch_norm_by=by, **{**WHOLE, "micro_batch": 3}).weights
            self.assertLess(difference(parts, whole), 2e-6)
        for other in ((0.5, 0.1), (1e-5, 0.3)):
            weights = accrue.train(network(*other), (PIXELS, Y), **WHOLE).weights
            self.assertGreater(difference(weights, whole), 1e-3)

    def test_answer_by_their_file(self):
        network = accrue.Sequential(
            accrue.BatchNorm2d(2, 0.5, 0.3), accrue.BatchNorm2d(2, affine=False),
            accrue.Upsample(scale_factor=2, mode="bilinear"), accrue.Flatten(),
            accrue.Linear(2 * 12 * 10, 3))
        trainer = accrue.Trainer(network, (PIXELS, Y), **WHOLE)
        weights = trainer.run().weights
        self.assertEqual(
            sorted(weights), ["0.bias", "0.running_mean", "0.running_var", "0.weight",
                              "1.running_mean", "1.running_var", "4.bias", "4.weight"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "weights.safetensors")
            weights.save(path)
            np.testing.assert_array_equal(accrue.predict(path, PIXELS, network, micro_batch=8),
                                          trainer.predict(PIXELS))


if __name__ == "__main__":
    unittest.main()
