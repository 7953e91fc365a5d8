"""Tests the installed package: data that are fetched sample by sample train with the same bits as arrays in memory."""

import os
import pathlib
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy as np

import accrue
from accrue import _fetched

try:
    import torch
    from torch.utils.data import (BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, Subset,
                                  SubsetRandomSampler, TensorDataset, WeightedRandomSampler)
    from torch.utils.data.distributed import DistributedSampler
except ImportError:
    torch = None
try:
    import pandas
except ImportError:
    pandas = None
try:
    import datasets
except ImportError:
    datasets = None
try:
    from PIL import Image
except ImportError:
    Image = None

FEW = {"threads": 2, "micro_batch": 4, "effective_batch": 16, "epochs": 2, "seed": 3}
random = np.random.default_rng(0)
X = random.standard_normal((50, 16)).astype(np.float32)
Y = np.arange(50) % 3
NUMBERS = random.standard_normal((50, 2)).astype(np.float32)
PIXELS = random.integers(0, 256, (50, 3, 8, 10), np.uint8)


def layers(outputs=3):
    return accrue.Sequential([accrue.Linear(16, 8, activation="relu"), accrue.Linear(8, outputs)])


def convolutions():
    return accrue.Sequential([accrue.Conv2d(3, 4, 3, padding=1), accrue.ReLU(), accrue.GlobalAvgPool2d(),
                              accrue.Flatten(), accrue.Linear(4, 3)])


def write_images(folder):
    """PIXELS by their part, for training or to test, and their class a, b or c."""
    for i, pixels in enumerate(PIXELS):
        place = pathlib.Path(folder) / ("train" if i < 40 else "test") / "abc"[i % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(place / f"{i:02}.png")


class Samples:
    """Samples by their index. Sample 37 gives `bad`, or raises it."""

    def __init__(self, x=X, y=Y, bad=None):
        self.x, self.y, self.bad = x, y, bad
        self.within = self.most = 0
        self.lock = threading.Lock()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if i == 37 and self.bad is not None:
            if isinstance(self.bad, BaseException):
                raise self.bad
            return self.bad
        return self.x[i], self.y[i]


class Elsewhere:
    """An array whose elements are elsewhere, as in zarr and h5py."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __len__(self):
        return len(self._array)

    def __getitem__(self, i):
        return self._array[i]


class Case(unittest.TestCase):
    def same(self, result, expected):
        np.testing.assert_array_equal(result.losses, expected.losses)
        self.assertEqual(result.score, expected.score)
        self.assertEqual(list(result.weights), list(expected.weights))
        for name in expected.weights:
            np.testing.assert_array_equal(result.weights[name], expected.weights[name])

    def refuses(self, run, *words):
        with self.assertRaises(accrue.Error) as raised:
            run()
        for word in words:
            self.assertIn(word, str(raised.exception))
        return raised.exception


class ByIndex(Case):
    def test_trains_with_the_bits_of_arrays(self):
        masks = random.integers(0, 2, (50, 8, 10)).astype(bool)
        pixelwise = accrue.Sequential([accrue.Conv2d(3, 1, 3, padding=1)])
        cases = ((layers(), X, Y, {}), (layers(2), X, NUMBERS, {}), (convolutions(), PIXELS, Y, {"augment": "flip"}),
                 (layers(2), X.astype(np.float64), NUMBERS.astype(np.float64), {}),
                 (layers(2), X.astype(np.float64), NUMBERS.astype(np.float64), {"precision": "fp64"}),
                 (layers(2), X.astype(np.float16), NUMBERS, {}), ("mlp-small", PIXELS, Y, {"crop": 6}),
                 (pixelwise, PIXELS, masks, {}))
        for network, x, y, options in cases:
            options = {**FEW, **options}
            expected = accrue.train(network, (x, y), test=(x[:20], y[:20]), **options)
            fetched = accrue.train(network, Samples(x, y), test=Samples(x[:20], y[:20]), **options)
            with self.subTest(x=x.dtype, y=y.dtype, options=options):
                self.same(fetched, expected)

    def test_of_other_kinds_train_with_the_bits_of_arrays(self):
        expected = accrue.train(layers(), (X, Y), **FEW)
        for data in (list(zip(X, Y)), [(x.tolist(), int(y)) for x, y in zip(X.astype(float), Y)],
                     (Elsewhere(X), Elsewhere(Y)), (Elsewhere(X), Y)):
            self.same(accrue.train(layers(), data, **FEW), expected)

    def test_have_labels_that_count_nowhere(self):
        labels = np.where(np.arange(50) % 7 == 0, -100, Y)
        places, masks = np.repeat(labels[:, None], 4, 1), np.repeat(Y[:, None], 80, 1).reshape(50, 8, 10)
        masks[:, 2] = -100
        pixels = accrue.Sequential([accrue.Conv2d(3, 3, 1)])
        for network, x, y in ((layers(), X, labels), (layers(), np.repeat(X[:, None], 4, 1), places),
                              (pixels, PIXELS, masks)):
            expected = accrue.train(network, (x, y), **FEW)
            for data in (list(zip(x, y)), (Elsewhere(x), Elsewhere(y))):
                with self.subTest(x=x.shape):
                    self.same(accrue.train(network, data, **FEW), expected)
        late = np.where(np.arange(50) == 49, -100, Y)
        many = np.tile(Y, 3)
        many[1] = -100
        self.refuses(lambda: accrue.train(layers(), list(zip(np.tile(X, (3, 1)), many)), **FEW), "has -100", "array")
        self.same(accrue.train(layers(), (Elsewhere(X), late), **FEW), accrue.train(layers(), (X, late), **FEW))

    def test_masks_of_8_bits_in_a_mapped_file_are_classes(self):
        masks = random.integers(0, 3, (50, 8, 10), np.uint8)
        network = accrue.Sequential([accrue.Conv2d(3, 3, 1)])
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("accrue._data._MAPPED_BYTES", 0):
            np.save(f"{folder}/y.npy", masks)
            mapped = np.load(f"{folder}/y.npy", mmap_mode="r")
            self.same(accrue.train(network, (PIXELS, mapped), **FEW), accrue.train(network, (PIXELS, masks), **FEW))

    def test_by_names_train_a_network_of_values(self):
        x = accrue.input(16)
        network = accrue.Network({"image": x}, {"kind": accrue.Linear(16, 3)(x, name="kind"),
                                                "size": accrue.Linear(16, 2)(x, name="size")})
        labels = np.where(np.arange(50) % 7 == 0, -100, Y)
        expected = accrue.train(network, {"image": X, "kind": labels, "size": NUMBERS}, **FEW)
        samples = [{"image": X[i], "kind": labels[i], "size": NUMBERS[i]} for i in range(50)]
        self.same(accrue.train(network, samples, **FEW), expected)
        renamed = [{"a": X[i], "b": labels[i], "c": NUMBERS[i], "d": "text"} for i in range(50)]
        self.same(accrue.train(network, renamed, columns={"image": "a", "kind": "b", "size": "c"}, **FEW), expected)
        pairs = accrue.train(layers(2), renamed, columns=("a", "c"), **{**FEW, "steps": 1})
        self.assertEqual(pairs.steps, 1)
        self.refuses(lambda: accrue.train(layers(), renamed, **FEW), "a, b, c, d", "columns=(x, y)")
        self.refuses(lambda: accrue.train(layers(), renamed, columns=("a", "z"), **FEW), "no 'z'", "a, b, c, d")
        streamed = accrue.train(layers(2), lambda: iter(renamed), columns=("a", "c"), epoch_samples=50, **FEW)
        self.same(streamed, accrue.train(layers(2), (X, NUMBERS), no_shuffle=True, **FEW))
        trainer = accrue.Trainer(layers(2), renamed, columns=("a", "c"), transform=lambda x: 2 * x, **FEW)
        trainer.run()
        # The arguments about samples hold for these, too.
        self.assertEqual(trainer.evaluate(renamed[:30]), trainer.evaluate((X[:30], NUMBERS[:30])))

    def test_resume_with_the_bits_of_a_run_that_never_stopped(self):
        expected = accrue.train(layers(), (X, Y), **FEW)
        with tempfile.TemporaryDirectory() as folder:
            options = {**FEW, "checkpoint_dir": folder, "checkpoint_every": 1}

            def stop(step):
                if step.step == 3:
                    raise InterruptedError

            with self.assertRaises(InterruptedError):
                accrue.train(layers(), Samples(), on_step=stop, **options)
            resumed = accrue.train(layers(), Samples(), resume=True, **options)
            self.same(resumed, type(expected)(**{**vars(expected), "losses": expected.losses[-len(resumed.losses):]}))
            self.assertLess(len(resumed.losses), len(expected.losses))
            self.refuses(lambda: accrue.train(layers(), Samples(X + 1), resume=True, **options), "data")

    def test_weigh_and_balance_as_arrays_do(self):
        weights = random.random(50)
        for options in ({"sample_weight": weights}, {"class_weights": "balanced"}):
            expected = accrue.train(layers(), (X, Y), **options, **FEW)
            self.same(accrue.train(layers(), Samples(), **options, **FEW), expected)

    def test_need_the_names_of_classes(self):
        self.refuses(lambda: accrue.train(layers(), Samples(), classes=3, **FEW), "classes is 3: expected a list of names")

    def test_are_asked_for_by_as_many_threads_as_workers(self):
        class Slow(Samples):
            def __getitem__(self, i):
                with self.lock:
                    self.within += 1
                    self.most = max(self.most, self.within)
                time.sleep(0.001)
                with self.lock:
                    self.within -= 1
                return self.x[i], self.y[i]

        for workers in (None, 1, 2):
            samples = Slow()
            accrue.train(layers(), samples, workers=workers, **FEW)
            self.assertEqual(samples.most, workers or 1)
        self.refuses(lambda: accrue.train(layers(), Samples(), workers=0, **FEW), "workers is 0")
        self.refuses(lambda: accrue.train(layers(), (X, Y), workers=2, **FEW), "workers is for")

    def test_cost_the_memory_that_a_plan_predicts(self):
        result = accrue.train(layers(), Samples(), **FEW)
        self.assertEqual(result.memory["this run"], result.memory["predicted"])
        options = {"effective_batch": 16, "threads": 2, "memory": "1GiB"}
        self.assertEqual(accrue.plan(layers(), Samples(), **options)["recommended"]["micro_batch"], 16)

    def test_score_and_evaluate(self):
        trainer = accrue.Trainer(layers(), Samples(), test=Samples(X[:30], Y[:30]), **FEW)
        result = trainer.run()
        self.assertEqual(trainer.evaluate(), result.score)
        self.assertEqual(trainer.evaluate(Samples()), trainer.evaluate((X, Y)))
        self.assertEqual(accrue.evaluate(result.weights, layers(), Samples()),
                         accrue.evaluate(result.weights, layers(), (X, Y)))


class Questions(Case):
    """Samples to answer to that are fetched."""

    x = np.tile(X, (30, 1))  # more than wait at once

    @classmethod
    def setUpClass(cls):
        cls.trainer = accrue.Trainer(layers(), (X, Y), **{**FEW, "micro_batch": 7})
        cls.result = cls.trainer.run()
        cls.expected = cls.trainer.predict(cls.x)

    def answers(self, x, expected=None, **options):
        expected = self.expected if expected is None else expected
        np.testing.assert_array_equal(accrue.predict(self.result, x(), layers(), micro_batch=7, **options), expected)
        if not options:
            np.testing.assert_array_equal(self.trainer.predict(x()), expected)

    def test_are_answered_in_their_order(self):
        y = np.tile(Y, 30)
        kinds = [lambda: Samples(self.x, y), lambda: list(zip(self.x, y)), lambda: iter(self.x), lambda: lambda: zip(self.x, y),
                 lambda: Elsewhere(self.x), lambda: (Elsewhere(self.x), y), lambda: [(row,) for row in self.x]]
        if torch:
            tensors = TensorDataset(torch.tensor(self.x), torch.tensor(y))
            kinds += [lambda: tensors, lambda: DataLoader(tensors, 5), lambda: Subset(tensors, range(len(self.x)))]
        if datasets:
            data = datasets.Dataset.from_dict({"a": list(self.x[:60]), "b": y[:60]}, features=datasets.Features(
                {"a": datasets.Sequence(datasets.Value("float32")), "b": datasets.Value("int64")}))
            for columns in ("a", ("a", "b")):
                self.answers(lambda: data, self.expected[:60], columns=columns)
            self.refuses(lambda: self.trainer.predict(data), "names a, b", "columns='x'")
        if pandas:
            frame = pandas.DataFrame(self.x, columns=[f"c{i}" for i in range(16)])
            self.answers(lambda: frame.assign(y=y), columns=(list(frame.columns), "y"))
            kinds += [lambda: frame, lambda: (frame, y)]
        for place, kind in enumerate(kinds):
            with self.subTest(place):
                self.answers(kind)

    def test_wait_in_bounded_memory(self):
        most = waiting = 0
        sizes = []
        real = accrue._chunks.Chunks._stacked

        def rows():
            nonlocal waiting
            for row in self.x:
                waiting += 1
                yield row

        def stacked(chunks, samples):
            nonlocal most, waiting
            if len(samples) > 1:
                sizes.append(len(samples))
                most, waiting = max(most, waiting), 0
            return real(chunks, samples)

        with unittest.mock.patch.object(accrue._chunks.Chunks, "_stacked", stacked), \
                unittest.mock.patch.object(accrue._chunks, "_BYTES", 64 * 100):
            self.answers(rows)
        self.assertLessEqual(most, 100)
        self.assertEqual(sum(size % 7 > 0 for size in sizes), 2)  # the last ones of two calls; others are whole micro-batches

    def test_are_fetched_by_several_threads(self):
        x, y = self.x, np.tile(Y, 30)
        both = threading.Barrier(2, timeout=60)

        class Meeting(Samples):
            def __getitem__(self, index):
                if index in (1, 2):
                    both.wait()  # in vain, if one thread fetched
                return super().__getitem__(index)

        self.answers(lambda: Meeting(x, y), workers=2)
        taken, most, asked = 0, 0, []

        class Counted(Samples):
            def __getitem__(self, index):
                asked.append(index)
                return super().__getitem__(index)

        with unittest.mock.patch.object(accrue._chunks, "_BYTES", 64 * 40):  # 40 samples wait, half of them fetched ahead
            chunks = accrue._chunks.of(Counted(x, y), lambda: accrue._chunks._Asked(workers=3))
            while (some := chunks.next(4)) is not None:
                self.assertLessEqual(len(some), 20)
                taken += len(some)
                most = max(most, len(asked) - taken)
        self.assertEqual((taken, sorted(asked)), (len(x), list(range(len(x)))))
        self.assertLessEqual(most, 20)
        trainer = accrue.Trainer(layers(), Samples(), workers=2, **FEW)
        for data in (Samples(), iter(X)):
            np.testing.assert_array_equal(trainer.predict(data), trainer.predict(X))
        for data, workers, *words in ((Samples(x, Y, ValueError("torn")), 2, "sample 37 of x", "ValueError: torn"),
                                      (x, 2, "workers is for samples that are fetched, but x is an array"),
                                      (iter(x), 2, "workers is for samples by their index", "a stream"),
                                      (Samples(x, y), 0, "workers is 0")):
            self.refuses(lambda data=data, workers=workers: accrue.predict(self.result, data, workers=workers), *words)

    def test_of_mapped_files_are_answered(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(accrue._data, "_MAPPED_BYTES", 1000):
            np.save(os.path.join(folder, "x.npy"), self.x)
            self.answers(lambda: np.load(os.path.join(folder, "x.npy"), mmap_mode="r"))

    def test_by_names_take_inputs_alone(self):
        x = accrue.input(16)
        network = accrue.Network({"x": x}, {"y": accrue.Linear(16, 3)(x, name="last")})
        trainer = accrue.Trainer(network, {"x": X, "y": Y}, **FEW)
        weights = trainer.run().weights
        items = [{"x": x, "y": y} for x, y in zip(X, Y)]
        for found in (trainer.predict(items), accrue.predict(weights, items, network, micro_batch=4),
                      trainer.predict({"x": Elsewhere(X)}),
                      accrue.predict(weights, [{"z": item["x"]} for item in items], network, columns={"x": "z"},
                                     micro_batch=4)):
            np.testing.assert_array_equal(found["y"], trainer.predict({"x": X})["y"])

    def test_are_transformed_as_a_trainers_data(self):
        def twice(x):
            return 2 * x

        trainer = accrue.Trainer(layers(), Samples(), transform=twice, **FEW)
        weights = trainer.run().weights
        expected = trainer.predict(2 * X)
        np.testing.assert_array_equal(trainer.predict(Samples()), expected)
        np.testing.assert_array_equal(accrue.predict(weights, list(X), layers(), micro_batch=4), trainer.predict(X))
        np.testing.assert_array_equal(
            accrue.predict(weights, Samples(), layers(), transform=lambda x, y: (2 * x, y), micro_batch=4), expected)

    def test_that_cannot_be_are_refused(self):
        for x, *words in ((Samples(self.x, Y, ValueError("torn")), "sample 37 of x", "ValueError: torn"),
                          (Samples(self.x, Y, (X[0, 1:], 0)), "sample 37 of x is float32 [15]", "[16] of sample 0"),
                          (iter(()), "x has no samples"), ([(1, 2, 3)], "3 parts")):
            self.refuses(lambda: self.trainer.predict(x), *words)
            self.refuses(lambda: accrue.predict(self.result, x, layers()), "x")
        for name in ("columns", "transform"):
            self.refuses(lambda: accrue.predict(self.result, X, layers(), **{name: len}), f"expected no {name}")
        if torch:
            loader = DataLoader(TensorDataset(torch.tensor(X)), 5, shuffle=True)
            self.refuses(lambda: self.trainer.predict(loader), "shuffle=True", "in the order")


class Bad(Case):
    def test_tests_are_refused_before_the_training(self):
        tokens = random.integers(0, 50, (20, 16)).astype(np.int32)
        steps = []
        for model, data, test, word in (
                (layers(), (X, Y), (X[:, :8], Y), "x [50, 8], which the network does not take"),
                (layers(), (X, Y), (X, Y + 5), "the label 7"), (layers(), (X, Y), (X, X), "data has"),
                (layers(), (X, Y), (X[:0], Y[:0]), "no samples"), (layers(), list(zip(X, Y)), list(zip(X[:, :8], Y)), "x [50, 8]"),
                (layers(), list(zip(X, Y)), list(zip(X, [*Y[:-1], 9])), "the label 9"),
                ("mlp-small", (X, Y), (X[:, :8], Y), "x [50, 1, 1, 8]"), (layers(), (X, Y), tokens, "tokens"),
                ("gpt-tiny", tokens, (X, Y), "test has no")):
            options = {**FEW, "on_step": steps.append, **({"layers": 1} if model == "gpt-tiny" else {})}
            with self.subTest(test=word):
                self.refuses(lambda: accrue.train(model, data, test=test, **options), word)
                if isinstance(test, tuple) and len(test[0]) and model != "gpt-tiny":
                    self.refuses(lambda: accrue.train(model, data, validation=data, test=test, **options), word)
        self.refuses(lambda: accrue.train("gpt-tiny", tokens, validation=tokens, test=tokens + 40, layers=1,
                                          on_step=steps.append, **FEW), "knows 50 tokens")
        self.refuses(lambda: accrue.train("mlp-small", (X, Y), validation=(X, Y), test=(X, Y + 9), on_step=steps.append, **FEW),
                     "the label 11")
        self.assertEqual(steps, [])

    def test_labels_that_count_nowhere_at_all(self):
        self.refuses(lambda: accrue.train(layers(), list(zip(X, np.full(50, -100))), **FEW), "-100 for each sample")
        pixelwise = accrue.Sequential([accrue.Conv2d(3, 2, 3, padding=1)])
        nothing = np.full((50, 8, 10), -100)
        self.refuses(lambda: accrue.train(pixelwise, list(zip(PIXELS, nothing)), **FEW), "-100 for each sample")
        nothing[16:20] = 1
        self.same(accrue.train(pixelwise, list(zip(PIXELS, nothing)), **FEW), accrue.train(pixelwise, (PIXELS, nothing), **FEW))

    def test_pairs_are_called_so(self):
        expected = accrue.train(layers(), (X, Y), **FEW)
        for data in (tuple(zip(X, Y)), [[x, y] for x, y in zip(X, Y)], [[x.tolist(), int(y)] for x, y in zip(X, Y)]):
            self.same(accrue.train(layers(), data, **FEW), expected)
        self.refuses(lambda: accrue.train(layers(), list(zip(X, Y)), epoch_samples=3, **FEW), "samples by their index")

    def test_samples_are_named_with_their_cause(self):
        for bad, *words in ((KeyError("gone"), "KeyError", "gone"), ((X[0, :5], 0), "float32 [5]", "float32 [16]"),
                            ((X[0].astype(float), 0), "float64 [16]", "float32 [16]"), ((X[0], 9), "has 9", "0 to 2"),
                            ((X[0], -1), "has -1"), (X[0], "ndarray", "(x, y)"), ((X[0], "cat"), "str 'cat'"),
                            ((X[0], 0, 1), "3 parts")):
            with self.subTest(bad=bad):
                error = self.refuses(lambda: accrue.train(layers(), Samples(bad=bad), **FEW), "sample 37", *words)
                if isinstance(bad, BaseException):
                    self.assertIs(error.__cause__, bad)

    def test_lengths_are_refused(self):
        class Growing(Samples):
            length = 50

            def __len__(self):
                return self.length

            def __getitem__(self, i):
                self.length += i == 20
                return super().__getitem__(i)

        self.refuses(lambda: accrue.train(layers(), Growing(), **FEW), "51 samples", "50 before")
        self.refuses(lambda: accrue.train(layers(), Samples(X[:0], Y[:0]), **FEW), "no samples")

    def test_one_hot_classes_are_refused(self):
        self.refuses(lambda: accrue.train(layers(), Samples(y=np.eye(3, dtype=np.float32)[Y]), **FEW), "one 1 in each row")

    def test_data_of_no_kind_are_refused(self):
        class Sparse:
            nnz, toarray = 0, None

        self.refuses(lambda: accrue.train(layers(), (Sparse(), Y), **FEW), "is sparse", "toarray()")
        if datasets:
            parts = datasets.DatasetDict(train=datasets.Dataset.from_dict({"x": X.tolist()}))
            self.refuses(lambda: accrue.train(layers(), parts, **FEW), "DatasetDict of train", "data['train']")
        self.refuses(lambda: accrue.train(layers(), 5, **FEW), "int", "samples by their index")
        self.refuses(lambda: accrue.train(layers(), object(), **FEW), "object")
        self.refuses(lambda: accrue.train(layers(), "digits", columns=("a", "b"), **FEW), "columns is for")
        self.refuses(lambda: accrue.train(layers(), "digits", epoch_samples=4, **FEW), "epoch_samples is for")


class Files(Case):
    def test_that_are_mapped_train_with_the_bits_of_arrays(self):
        # More than 64 MiB, almost all of it holes.
        N, wide = 4200, 4096
        network = accrue.Sequential([accrue.Linear(wide, 4, activation="relu"), accrue.Linear(4, 3)])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.npy"
            whole = np.lib.format.open_memmap(path, "w+", np.float32, (N + 3, wide))
            x = np.zeros((N, wide), np.float32)
            x[::500] = whole[3::500] = random.standard_normal((9, wide))
            whole.flush()
            y = np.arange(N) % 3
            options = {"threads": 2, "micro_batch": 64, "effective_batch": 512, "epochs": 1, "seed": 3}
            expected = accrue.train(network, (x, y), test=(x[:8], y[:8]), **options)
            mapped = np.load(path, mmap_mode="r")
            self.assertEqual(_fetched._file_of(mapped[3:])[1:], (str(path), path.stat().st_size - x.nbytes))
            for rows in (mapped[3:], np.load(path, mmap_mode="c")[3:]):
                result = accrue.train(network, (rows, y), test=(x[:8], y[:8]), memory_limit="400MiB", **options)
                self.same(result, expected)
                # Windows in the ring, not the file.
                self.assertLess(result.memory["this run"]["data"], x.nbytes)
            reversed_rows = accrue.train(network, (mapped[:2:-1], y), test=(x[:8], y[:8]), **options)
            self.same(reversed_rows, accrue.train(network, (x[::-1], y), test=(x[:8], y[:8]), **options))


class Streams(Case):
    def test_train_with_the_bits_of_arrays_in_their_order(self):
        expected = accrue.train(layers(), (X, Y), no_shuffle=True, **FEW)

        def stream():
            yield from zip(X, Y)

        starts = []

        def endless():
            starts.append(1)
            while True:
                yield from zip(X, Y)

        class Again:
            def __iter__(self):
                return iter(zip(X, Y))

        for data in (stream, endless, Again()):
            self.same(accrue.train(layers(), data, epoch_samples=50, **FEW), expected)
        # To see the first sample, for all epochs, and for the score.
        self.assertEqual(len(starts), 3)

    def test_resume_within_an_epoch(self):
        def samples():
            yield from zip(X, Y)

        def scaled(x, rng):
            return np.float32(x * (1 if rng is None else rng.random(dtype=np.float32)))

        options = {**FEW, "transform": scaled, "epoch_samples": 50}
        expected = accrue.train(layers(), samples, **options)
        with tempfile.TemporaryDirectory() as folder:
            trainer = accrue.Trainer(layers(), samples, checkpoint_dir=folder, checkpoint_every=1, **options)
            trainer.run(on_step=lambda step: step.step < 2)
            del trainer
            rest = accrue.train(layers(), samples, checkpoint_dir=folder, resume=True, **options)
        np.testing.assert_array_equal(rest.losses, expected.losses[2:])
        for name in expected.weights:
            np.testing.assert_array_equal(rest.weights[name], expected.weights[name])

    def test_of_unknown_or_wrong_length_are_refused(self):
        def stream():
            yield from zip(X, Y)

        self.refuses(lambda: accrue.train(layers(), stream, **FEW), "epoch_samples=N")
        self.refuses(lambda: accrue.train(layers(), stream, epoch_samples=60, **FEW), "ended after 50 samples")
        self.refuses(lambda: accrue.train(layers(), stream(), epoch_samples=50, **FEW), "gives its samples once")
        self.refuses(lambda: accrue.train(layers(), stream, epoch_samples=50, no_shuffle=False, **FEW), "order of its own")
        self.refuses(lambda: accrue.train(layers(), lambda a: stream(), epoch_samples=50, **FEW), "without arguments")


class Transforms(Case):
    def test_change_samples_alike(self):
        expected = accrue.train(layers(), (2 * X, Y), **FEW)
        for data in (Samples(), (X, Y), list(zip(X, Y))):
            self.same(accrue.train(layers(), data, transform=lambda x: 2 * x, **FEW), expected)
        self.same(accrue.train(layers(), Samples(), transform=lambda x, y: (2 * x, y), **FEW), expected)

    def test_at_random_depend_on_seed_epoch_and_index_alone(self):
        def noise(x, rng):
            return x if rng is None else x + rng.standard_normal(x.shape).astype(np.float32)

        results = [accrue.train(layers(), Samples(), transform=noise, **{**FEW, "threads": threads, "micro_batch": m},
                                workers=threads) for threads, m in ((1, 4), (2, 4))]
        self.same(results[1], results[0])
        drawn = set()

        def draws(x, rng):
            drawn.add(None if rng is None else rng.random())
            return x

        accrue.train(layers(), Samples(), transform=draws, **FEW)
        self.assertEqual(drawn, {None} | {np.random.default_rng([3, epoch, i]).random()
                                          for epoch in (0, 1) for i in range(50)})
        seen = [X[i] + np.random.default_rng([3, 0, i]).standard_normal(16).astype(np.float32) for i in range(50)]
        epoch = {**FEW, "epochs": 1}
        self.same(accrue.train(layers(), Samples(), transform=noise, **epoch),
                  accrue.train(layers(), (np.array(seen), Y), test=(X, Y), **epoch))

    def test_are_functions(self):
        self.refuses(lambda: accrue.train(layers(), Samples(), transform=3, **FEW), "transform is 3")
        self.refuses(lambda: accrue.train("mlp-small", "digits", transform=lambda x: x, **FEW), "folder of images")

    @unittest.skipUnless(Image, "needs Pillow")
    def test_take_the_images_of_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            write_images(folder)
            order = sorted(range(40), key=lambda i: i % 3), sorted(range(40, 50), key=lambda i: i % 3)
            parts = [((255 - PIXELS[part]).astype(np.uint8), Y[part]) for part in order]
            expected = accrue.train(convolutions(), parts[0], test=parts[1], classes="a,b,c", **FEW)
            found = accrue.train(convolutions(), folder, transform=lambda image: image.point(lambda v: 255 - v), **FEW)
            self.same(found, expected)


class NamesOfData(Case):
    def test_are_those_of_what_was_given(self):
        def samples():
            yield from zip(X, Y)

        for data, options, name in ((Samples(), {}, "Samples"), (samples, {"epoch_samples": 50}, "samples"),
                                    (list(zip(X, Y)), {}, "list"), ((X, Y), {}, "arrays")):
            self.refuses(lambda: accrue.train(layers(), data, loss="bce", **options, **FEW), f": {name} has classes")
            self.refuses(lambda: accrue.train(layers(), data, augment="flip", **options, **FEW), f"data set '{name}'")


class NamesOfClasses(Case):
    GIVEN = {"b": 2.0, "c": 0.5}

    def weighed(self, data, **options):
        expected = accrue.train(layers(), (X, Y), class_weights=[1, 2, 0.5], **FEW)
        self.same(accrue.train(layers(), data, class_weight=self.GIVEN, **options, **FEW), expected)
        self.refuses(lambda: accrue.train(layers(), data, class_weight={"d": 2.0}, **options, **FEW),
                     "the key 'd'", "their names a, b, c")

    def test_of_samples(self):
        samples = Samples()
        samples.classes = ["a", "b", "c"]
        self.weighed(samples)
        self.refuses(lambda: accrue.train(layers(), Samples(), class_weight=self.GIVEN, **FEW), "names that classes= has")

    @unittest.skipUnless(datasets, "needs datasets")
    def test_of_a_class_label(self):
        features = datasets.Features({"x": datasets.Sequence(datasets.Value("float32")),
                                      "y": datasets.ClassLabel(names=["a", "b", "c"])})
        self.weighed(datasets.Dataset.from_dict({"x": X, "y": Y}, features=features), columns=("x", "y"))

    @unittest.skipUnless(Image, "needs Pillow")
    def test_of_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            write_images(folder)
            expected = accrue.train(convolutions(), folder, class_weights=[1, 2, 0.5], **FEW)
            self.same(accrue.train(convolutions(), folder, class_weight=self.GIVEN, **FEW), expected)
            self.refuses(lambda: accrue.train(convolutions(), folder, class_weight={"d": 2.0}, **FEW),
                         "the key 'd'", "their names a, b, c")


@unittest.skipUnless(torch, "needs PyTorch")
class OfTorch(Case):
    def test_train_with_the_bits_of_arrays(self):
        expected = accrue.train(layers(), (X, Y), **FEW)
        tensors = TensorDataset(torch.tensor(X), torch.tensor(Y))
        options = {name: value for name, value in FEW.items() if name != "effective_batch"}
        self.same(accrue.train(layers(), tensors, **FEW), expected)
        self.same(accrue.train(layers(), DataLoader(tensors, 16, shuffle=True), **options), expected)
        self.same(accrue.train(layers(), DataLoader(tensors, 16, shuffle=True, num_workers=2), workers=1, **options), expected)
        in_order = accrue.train(layers(), (X, Y), no_shuffle=True, **FEW)
        self.same(accrue.train(layers(), DataLoader(tensors, 16), **options), in_order)
        half = accrue.train(layers(), (X[:25], Y[:25]), **FEW)
        self.same(accrue.train(layers(), Subset(tensors, range(25)), **FEW), half)

        class Stream(IterableDataset):
            def __iter__(self):
                return iter(tensors)

        self.same(accrue.train(layers(), DataLoader(Stream(), 16), epoch_samples=50, **options), in_order)

    def test_elements_past_the_graph_are_refused(self):
        class Past(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x.data)

        self.refuses(lambda: accrue.train(Past(16, 3), (X, Y), **FEW), "x.data", "expected x.detach()")

    def test_modules_learn_from_them(self):
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        self.same(accrue.train(module, Samples(), **FEW), accrue.train(module, (X, Y), **FEW))

    def test_loaders_are_heeded_or_refused_by_name(self):
        tensors = TensorDataset(torch.tensor(X), torch.tensor(Y))
        cases = ((DataLoader(tensors, 8), "batch_size=8", "effective_batch is 16"),
                 (DataLoader(tensors, 16, num_workers=2), "num_workers=2", "workers=2"),
                 (DataLoader(tensors, 16, drop_last=True), "drop_last"),
                 (DataLoader(tensors, 16, generator=torch.Generator()), "generator", "seed="),
                 (DataLoader(tensors, 16, sampler=WeightedRandomSampler([1.0] * 50, 50)), "WeightedRandomSampler"),
                 (DataLoader(tensors, 16, sampler=RandomSampler(tensors, True)), "replacement"),
                 (DataLoader(tensors, batch_size=None), "batch_size=None"),
                 (DataLoader(tensors, batch_sampler=BatchSampler(SequentialSampler(tensors), 8, False)), "batch_size=8"),
                 (DataLoader(tensors, batch_sampler=[[1, 2], [3]]), "batch_sampler list"),
                 (DataLoader(tensors, 16, sampler=DistributedSampler(tensors, 2, 0)), "DistributedSampler", "ranks"))
        for loader, *words in cases:
            self.refuses(lambda: accrue.train(layers(), loader, **FEW), "DataLoader", *words)


    def test_samplers_give_their_order(self):
        tensors = TensorDataset(torch.tensor(X), torch.tensor(Y))
        options = {name: value for name, value in FEW.items() if name != "effective_batch"}
        order = random.permutation(50)[:33].tolist()
        chosen = (X[order], Y[order])
        for loader, data, no_shuffle in (
                (DataLoader(tensors, batch_sampler=BatchSampler(RandomSampler(tensors), 16, False)), (X, Y), False),
                (DataLoader(tensors, batch_sampler=BatchSampler(SequentialSampler(tensors), 16, False)), (X, Y), True),
                (DataLoader(tensors, 16, sampler=order), chosen, True),
                (DataLoader(tensors, 16, sampler=SubsetRandomSampler(order)), chosen, False)):
            self.same(accrue.train(layers(), loader, **options),
                      accrue.train(layers(), data, no_shuffle=no_shuffle, **FEW))

    def test_a_collate_fn_acts_on_samples_alone_or_is_refused(self):
        tensors = TensorDataset(torch.tensor(X), torch.tensor(Y))
        options = {name: value for name, value in FEW.items() if name != "effective_batch"}

        def collated(change):
            return lambda batch: (change(torch.stack([x for x, _ in batch])), torch.stack([y for _, y in batch]))

        self.same(accrue.train(layers(), DataLoader(tensors, 16, shuffle=True, collate_fn=collated(lambda x: 2 * x)), **options),
                  accrue.train(layers(), (2 * X, Y), **FEW))
        for change, word in ((lambda x: x.flip(0), "mixes the samples"), (lambda x: x + torch.rand(1), "draws at random"),
                             (lambda x: x[:, :11 + len(x)], "of one shape")):
            self.refuses(lambda: accrue.train(layers(), DataLoader(tensors, 16, collate_fn=collated(change)), **FEW),
                         "collate_fn", word)
        self.refuses(lambda: accrue.train(layers(), DataLoader(tensors, 16, collate_fn=lambda batch: batch), **FEW),
                     "collate_fn makes list")

    def test_collators_of_transformers(self):
        try:
            import tokenizers
            import transformers
        except ImportError:
            self.skipTest("needs transformers")
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(20)}, unk_token="w0"))
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", mask_token="w19")
        ids = [random.integers(1, 19, 4 + i % 5).tolist() for i in range(24)]

        class Records(torch.utils.data.Dataset):
            def __init__(self, labels):
                self.labels = labels

            def __len__(self):
                return 24

            def __getitem__(self, i):
                return {"input_ids": ids[i], "attention_mask": [1] * len(ids[i]), **({"labels": i % 2} if self.labels else {})}

        few = {"threads": 1, "micro_batch": 4, "steps": 2}
        gpt = {"vocabulary": 20, "context": 8, "layers": 1, **few}
        documents = [np.array(row, np.int32) for row in ids]
        expected = accrue.train("gpt-tiny", documents, effective_batch=8, no_shuffle=True, **gpt)
        for collate in (transformers.DataCollatorWithPadding(tokenizer),
                        transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)):
            self.same(accrue.train("gpt-tiny", DataLoader(Records(False), 8, collate_fn=collate), **gpt), expected)
        self.same(accrue.train("gpt-tiny", Records(False), effective_batch=8, no_shuffle=True, **gpt), expected)
        masks = DataLoader(Records(False), 8, collate_fn=transformers.DataCollatorForLanguageModeling(tokenizer))
        self.refuses(lambda: accrue.train("gpt-tiny", masks, **gpt), "mlm=True", "rng")
        torch.manual_seed(0)
        bert = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            max_position_embeddings=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
        padded = [row + [0] * (8 - len(row)) for row in ids]
        arrays = {"input_ids": np.array(padded), "attention_mask": (np.array(padded) > 0).astype(int), "labels": np.arange(24) % 2}
        loader = DataLoader(Records(True), 8, collate_fn=transformers.DataCollatorWithPadding(tokenizer, "max_length", 8))
        self.same(accrue.train(bert, loader, **few), accrue.train(bert, arrays, effective_batch=8, no_shuffle=True, **few))
        loader = DataLoader(Records(True), 8, collate_fn=transformers.DataCollatorWithPadding(tokenizer))
        self.refuses(lambda: accrue.train(bert, loader, **few), "padding='max_length'")
        # Each place tells the next token.
        torch.manual_seed(0)
        gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2,
                                                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        causal = {"input_ids": np.array(padded), "labels": np.where(np.array(padded) > 0, padded, -100)}
        rows = [{name: array[i] for name, array in causal.items()} for i in range(24)]
        self.same(accrue.train(gpt2, rows, effective_batch=8, **few), accrue.train(gpt2, causal, effective_batch=8, **few))


@unittest.skipUnless(pandas, "needs pandas")
class OfPandas(Case):
    def test_columns_train_with_the_bits_of_arrays(self):
        frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(16)])
        frame["kind"], frame["name"] = Y, "cat"
        names = list(frame.columns[:16])
        expected = accrue.train(layers(), (X, Y), **FEW)
        self.same(accrue.train(layers(), (frame[names], frame["kind"]), **FEW), expected)
        self.same(accrue.train(layers(), frame, columns=(names, "kind"), **FEW), expected)
        # Rows in another order have their labels with them.
        order = random.permutation(50)
        self.same(accrue.train(layers(), (frame[names].iloc[order], frame["kind"].iloc[order]), **FEW),
                  accrue.train(layers(), (X[order], Y[order]), **FEW))
        nullable = frame[names].astype("Float32")
        self.same(accrue.train(layers(), (nullable, frame["kind"].astype("Int64")), **FEW), expected)
        nullable.iloc[3, 1] = pandas.NA
        self.refuses(lambda: accrue.train(layers(), (nullable, frame["kind"]), **FEW), "missing elements in c1")
        kinds = pandas.Series(pandas.Categorical.from_codes(Y, ["a", "b", "c"]))
        self.same(accrue.train(layers(), (frame[names], kinds.cat.codes), **FEW), expected)
        self.refuses(lambda: accrue.train(layers(), (frame[names], kinds), **FEW), "y (category)", "cat.codes")
        self.refuses(lambda: accrue.train(layers(), (frame[names], frame[["kind"]]), **FEW), "y.reshape(-1)")
        self.refuses(lambda: accrue.train(layers(), frame, **FEW), "columns=(x, y)")
        self.refuses(lambda: accrue.train(layers(), frame, columns=([*names, "name"], "kind"), **FEW), "name (")


@unittest.skipUnless(datasets, "needs datasets")
class OfTheHub(Case):
    def test_columns_train_with_the_bits_of_arrays(self):
        features = datasets.Features({"x": datasets.Sequence(datasets.Value("float32")),
                                      "y": datasets.ClassLabel(names=["a", "b", "c"]), "z": datasets.Value("string")})
        data = datasets.Dataset.from_dict({"x": list(X), "y": Y, "z": ["no"] * 50}, features=features)
        self.same(accrue.train(layers(), data, columns=("x", "y"), **FEW), accrue.train(layers(), (X, Y), **FEW))
        self.refuses(lambda: accrue.train(layers(), data, columns=("x", "w"), **FEW), "no column 'w'", "x, y, z")
        self.same(accrue.train("mlp-small", data, columns=("x", "y"), **FEW), accrue.train("mlp-small", (X, Y), **FEW))
        x = accrue.input(16)
        network = accrue.Network({"x": x}, {"y": accrue.Linear(16, 3)(x, name="head")})
        self.refuses(lambda: accrue.train(network, data, **FEW), "z of sample 0", "columns= names the parts")
        named, listed = (accrue.train(network, data, columns={"x": "x", "y": "y"}, loss={"y": loss}, **FEW) for loss in (
            accrue.loss("cross_entropy", class_weight={"b": 2.0}), accrue.loss("cross_entropy", class_weights=[1, 2, 1])))
        self.same(named, listed)


class Texts(Case):
    options = {"threads": 1, "micro_batch": 2, "effective_batch": 4, "steps": 2, "seed": 1}

    def test_train_with_the_bits_of_their_file(self):
        texts = [f"The number {i} is followed by some more words." for i in range(30)]
        chats = [[{"role": "user", "content": f"Hi {i}"}, {"role": "assistant", "content": "Yes, my friend."}]
                 for i in range(30)]
        import json

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.jsonl")
            for name, items, more in (("text", texts, {"context": 32}), ("messages", chats, {"context": 96, "chat": "chatml"})):
                options = {**self.options, **more, "tokenizer": "bytes"}
                pathlib.Path(path).write_text("".join(json.dumps({name: item}) + "\n" for item in items))
                expected = accrue.train("gpt-tiny", path, **options)
                for data in (items, [{name: item} for item in items]):
                    self.same(accrue.train("gpt-tiny", data, **options), expected)
        self.refuses(lambda: accrue.train("gpt-tiny", texts, tokenizer=3, **self.options), "tokenizer is 3")
        self.refuses(lambda: accrue.train("gpt-tiny", texts, tokenizer="bytes", test=X, **self.options), "but test is ndarray")
        lacking = [{"text": text} for text in texts] + [{"text": float("nan")}]  # as a table has it
        self.refuses(lambda: accrue.train("gpt-tiny", lacking, tokenizer="bytes", **self.options), "sample 30", "as JSON")

    def test_of_other_kinds_train_with_the_bits_of_a_list(self):
        texts = [f"The number {i} is followed by some more words." for i in range(60)]
        options = {**self.options, "context": 32, "layers": 1, "tokenizer": "bytes"}
        expected = accrue.train("gpt-tiny", texts, **options)
        kinds = [(np.array(texts), {}), (iter(texts), {}), (lambda: iter(texts), {})]
        if pandas:
            kinds += [(pandas.Series(texts), {}), (pandas.DataFrame({"text": texts}), {}),
                      (pandas.DataFrame({"t": texts, "u": 1}), {"columns": "t"})]
            self.refuses(lambda: accrue.train("gpt-tiny", pandas.Series([*texts, float("nan")]), **options), "sample 60", "is nan")
        if datasets:
            data = datasets.Dataset.from_dict({"t": texts})
            kinds += [(data, {"columns": "t"}), (data.rename_column("t", "text"), {})]
            self.refuses(lambda: accrue.train("gpt-tiny", data, columns="u", **options), "no column 'u'")
        if torch:
            rest = {name: value for name, value in options.items() if name != "effective_batch"}
            self.same(accrue.train("gpt-tiny", DataLoader(texts, 4, shuffle=True), **rest), expected)
        for place, (data, more) in enumerate(kinds):
            with self.subTest(place):
                self.same(accrue.train("gpt-tiny", data, **more, **options), expected)
        with tempfile.TemporaryDirectory() as folder:  # resumed from a checkpoint
            accrue.train("gpt-tiny", texts, checkpoint_dir=folder, **{**options, "steps": 1})
            rest = accrue.train("gpt-tiny", iter(texts), checkpoint_dir=folder, resume=True, **options)
        np.testing.assert_array_equal(rest.losses, expected.losses[1:])

    def test_are_tested_by_texts(self):
        texts = [f"The number {i} is followed by some more words." for i in range(12)]
        chats = [[{"role": "user", "content": f"Hi {i}"}, {"role": "assistant", "content": "Yes, my friend."}]
                 for i in range(12)]
        for items, more in ((texts, {"context": 32}), (chats, {"context": 96, "chat": "chatml"})):
            options = {**self.options, **more, "tokenizer": "bytes"}
            tested = accrue.train("gpt-tiny", items[:8], test=items[8:], **options)
            self.assertEqual(tested.scored, "test")
            trainer = accrue.Trainer("gpt-tiny", items[:8], validation=items[8:], test=items[4:8], eval_every=1, **options)
            result = trainer.run()
            self.assertEqual(result.history["val_loss"][-1], tested.score["loss"])
            np.testing.assert_array_equal(result.losses, tested.losses)
            self.assertEqual(trainer.evaluate(items[8:]), tested.score)
            self.assertEqual(result.score, trainer.evaluate(items[4:8]))
            how = {name: value for name, value in options.items() if name not in ("effective_batch", "steps", "seed")}
            self.assertEqual(accrue.evaluate(result, "gpt-tiny", items[8:], **how), tested.score)
        pairs = [{"anchor": f"text {i}", "positive": f"number {i}"} for i in range(20)]
        for data, test, words in ((pairs, texts, ("are pairs of texts", "test has texts")),
                                  (texts, pairs, ("are texts", "test has pairs of texts"))):
            self.refuses(lambda data=data, test=test: accrue.train("gpt-tiny", data, test=test, tokenizer="bytes", context=32,
                                                                   **self.options), *words)

    def test_masks_and_labels_are_understood(self):
        lengths = random.integers(6, 17, 20)
        documents = [random.integers(0, 50, n).astype(np.int32) for n in lengths]
        ids = [np.concatenate([d, np.zeros(16 - len(d), np.int32)]) for d in documents]
        mask = [(np.arange(16) < n).astype(int) for n in lengths]
        labels = [np.where((np.arange(16) >= 3) & (m == 1), row, -100) for row, m in zip(ids, mask)]
        options = {**self.options, "vocabulary": 50}
        padded = {**options, "context": 15, "documents": "padded"}
        expected = accrue.train("gpt-tiny", documents, **padded)
        self.same(accrue.train("gpt-tiny", {"input_ids": ids, "attention_mask": mask}, **options), expected)
        learned = accrue.train("gpt-tiny", (documents, [np.arange(n) >= 3 for n in lengths]), **padded)
        whole = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        self.same(accrue.train("gpt-tiny", whole, **options), learned)
        records = [dict(zip(whole, row)) for row in zip(*whole.values())]
        self.same(accrue.train("gpt-tiny", records, **options), learned)
        shifted = {"input_ids": ids, "labels": [np.roll(row, -1) for row in ids]}
        self.refuses(lambda: accrue.train("gpt-tiny", shifted, **options), "sample 0", "not yet shifted")
        holes = {"input_ids": ids, "attention_mask": [np.arange(16) % 2] * 20}
        self.refuses(lambda: accrue.train("gpt-tiny", holes, **options), "side by side")
        self.refuses(lambda: accrue.train("gpt-tiny", {**whole, "token_type_ids": ids}, **options), "token_type_ids")
        for token in (2.5, 2**32 + 5):
            others = {"input_ids": [[1, 2, token]] * 20}
            self.refuses(lambda: accrue.train("gpt-tiny", others, **options), "sample 0", str(token), "integers of 32 bits")


if __name__ == "__main__":
    unittest.main()
