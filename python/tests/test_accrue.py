"""Tests of the installed package: scripts/check_wheel.sh runs them in a bare environment."""

import json
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zlib

import numpy as np

import accrue


def samples(n=512, features=20, classes=3, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, features)).astype(np.float32)
    y = (x @ random.normal(size=(features, classes))).argmax(axis=1).astype(np.int32)
    return x, y


def png(pixels):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", *pixels.shape[::-1], 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def network():
    return accrue.Sequential([accrue.Linear(20, 32, activation="relu"), accrue.Linear(32, 3)])


def program(*arguments):
    ran = subprocess.run([sys.executable, "-m", "accrue", *arguments], capture_output=True,
                         text=True, check=False)
    return ran.stdout, ran.stderr


def run_python(code, *arguments):
    # The child takes SIGINT, even if the tests run in the background and ignore it.
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments],
                          capture_output=True, text=True, check=False, timeout=300,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


class Training(unittest.TestCase):
    def test_is_that_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "weights.safetensors")
            program("train", "--data", "digits", "--model", "mlp-small", "--steps", "5", "--save",
                    str(path))
            result = accrue.train("mlp-small", "digits", steps=5)
            saved = accrue.Weights.load(path)
            self.assertEqual(list(saved), list(result.weights))
            for name, array in saved.items():
                np.testing.assert_array_equal(array, result.weights[name])
            self.assertEqual(saved.metadata, {**result.weights.metadata, "format": "pt"})
            self.assertEqual(accrue.evaluate(path, data="digits")["test"], result.score)
        self.assertEqual(result.memory["this run"], result.memory["predicted"])

    def test_any_split_of_a_window_is_the_same_step(self):
        losses = [accrue.train(network(), samples(), effective_batch=64, micro_batch=micro,
                               lr=0.01).losses for micro in (64, 24, 1)]
        # A loss near 1 is a sum of 64 terms in float32; rounding in earlier steps is no larger.
        for other in losses[1:]:
            np.testing.assert_allclose(other, losses[0], rtol=64 * 2.0**-24)

    def test_says_what_it_skipped_and_scored(self):
        x, y = samples(64)
        x[5] = np.nan
        options = dict(micro_batch=4, effective_batch=16, no_shuffle=True, threads=1)
        result = accrue.train(network(), (x, y), **options)
        self.assertEqual((result.steps, result.skipped_windows, len(result.losses)), (3, 1, 4))
        self.assertTrue(np.isnan(result.losses[0]) and np.isfinite(result.losses[1:]).all())
        # The score is on the training samples; one of them has no finite loss.
        self.assertEqual(result.scored, "training")
        self.assertTrue(np.isnan(result.score["loss"]))
        self.assertGreater(result.score["accuracy"], 0)
        self.assertIn("training accuracy", repr(result))
        result = accrue.train(network(), (x, y), test=samples(32, seed=1), **options)
        self.assertEqual(result.scored, "test")
        self.assertTrue(np.isfinite(result.score["loss"]))
        self.assertIn("test accuracy", repr(result))
        # If no window is finite, there is nothing to keep.
        with self.assertRaisesRegex(accrue.Error, "no step was taken.*number 5 of"):
            accrue.train(network(), (x[:16], y[:16]), **options)

    def test_tells_losses_of_its_own_windows_alone(self):
        x, y = samples(64)
        with tempfile.TemporaryDirectory() as folder:
            options = dict(micro_batch=4, effective_batch=16, checkpoint_dir=folder, threads=1)
            accrue.train(network(), (x, y), steps=1, **options)
            result = accrue.train(network(), (x, y), resume=True, **options)
        self.assertEqual((result.steps, len(result.losses)), (4, 3))

    def test_learns_numbers(self):
        x, _ = samples(features=4)
        y = x @ np.array([1.0, -2.0, 0.5, 0.0], dtype=np.float32)
        result = accrue.train(accrue.Sequential([accrue.Linear(4, 1)]), (x, y), lr=0.05, epochs=20)
        self.assertLess(result.score["loss"], 1e-3)
        np.testing.assert_allclose(accrue.predict(result.weights, x[:8],
                                                  accrue.Sequential([accrue.Linear(4, 1)]))[:, 0],
                                   x[:8] @ result.weights["0.weight"][0] + result.weights["0.bias"],
                                   rtol=1e-5, atol=1e-6)

    def test_pixels_are_those_of_the_program(self):
        pixels = np.random.default_rng(1).integers(0, 256, size=(256, 12, 12), dtype=np.uint8)
        labels = (pixels.mean(axis=(1, 2)) > 127.5).astype(np.int64)
        trainer = accrue.Trainer("cnn", (pixels, labels), effective_batch=32, width=0.5)
        trainer.run()
        answers = trainer.predict(pixels).argmax(axis=1)
        self.assertAlmostEqual(trainer.evaluate()["accuracy"],
                               100 * np.mean(answers == labels), places=4)
        self.assertEqual(trainer.evaluate((pixels, labels)), trainer.evaluate())

    def test_learns_masks(self):
        random = np.random.default_rng(2)
        pixels = random.integers(0, 256, size=(192, 16, 16), dtype=np.uint8)
        there = pixels > 127
        options = {"effective_batch": 32, "epochs": 4, "lr": 0.03}
        # Each pixel tells its own class, so a convolution of 1 x 1 is enough.
        for y, planes in ((there, 1), (np.stack([there, ~there], axis=1), 2),
                          ((pixels // 86).astype(np.int64), 3)):
            network = accrue.Sequential([accrue.Conv2d(1, 8, 1), accrue.ReLU(),
                                         accrue.Conv2d(8, planes, 1)])
            runs = [accrue.Trainer(network, (pixels, y), micro_batch=micro, **options)
                    for micro in (32, 12)]
            losses = [trainer.run().losses for trainer in runs]
            # Sums over the pixels of 32 images in float32.
            np.testing.assert_allclose(losses[1], losses[0], rtol=32 * 256 * 2.0**-24)
            logits = runs[0].predict(pixels).astype(np.float64)
            self.assertEqual(logits.shape, (192, planes, 16, 16))
            if y.dtype == bool:
                found, wanted = logits > 0, y.reshape(logits.shape)
                loss = np.logaddexp(0, logits) - wanted * logits
            else:
                wanted = np.arange(3)[:, None, None] == y[:, None]
                found = np.arange(3)[:, None, None] == logits.argmax(axis=1)[:, None]
                loss = np.log(np.exp(logits).sum(axis=1)) - (wanted * logits).sum(axis=1)
            of_classes = (0, 2, 3)
            dice = 2 * (found & wanted).sum(axis=of_classes) / (
                found.sum(axis=of_classes) + wanted.sum(axis=of_classes))
            score = runs[0].evaluate()
            self.assertAlmostEqual(score["dice"], dice.mean(), places=6)
            self.assertAlmostEqual(score["loss"], loss.mean(), places=5)
            self.assertGreater(score["dice"], 0.8)
        result = accrue.train("unet", (pixels, there), steps=2, width=0.25, depth=2)
        self.assertIn("iou", result.score)

    def test_changes_of_images_are_of_pixels(self):
        pixels = np.random.default_rng(7).integers(0, 256, size=(64, 12, 12), dtype=np.uint8)
        y = pixels[:, 0, 0] % 3
        numbers = pixels[:, None].astype(np.float32) / 255
        layers = accrue.Sequential([accrue.Flatten(), accrue.Linear(8 * 8, 3)])
        options = {"micro_batch": 4, "effective_batch": 16}
        trained = [accrue.train(layers, (x, y), crop=8, **options) for x in (pixels, numbers)]
        self.assertEqual(trained[0].steps, 4)
        np.testing.assert_allclose(accrue.train(layers, (numbers * 2 - 1, y), crop=8,
                                                **options).losses, trained[0].losses, rtol=1e-5)
        self.assertFalse(np.allclose(trained[1].losses, trained[0].losses))
        trainer = accrue.Trainer(layers, (pixels, y), crop=8, **options)
        self.assertEqual(trainer.run().score, trainer.evaluate((pixels, y)))
        np.testing.assert_array_equal(trainer.predict(pixels), trainer.predict(
            np.ascontiguousarray(pixels[:, 2:10, 2:10])))
        for x, option in ((numbers, {"augment": "flip"}), (numbers, {"mean": 0.1}),
                          (numbers[:, 0], {"augment": "crop"}), (numbers, {"std": 0.1})):
            with self.assertRaisesRegex(accrue.Error, "^(augment|mean|std).* acts on pixels, but "
                                        "the images of data set 'arrays' are f32 .64, 1, 12, 12.: "
                                        "expected u8 .N, C, H, W. from 0 to 255, or"):
                accrue.train("cnn", (x, y), **options, **option)
        with self.assertRaisesRegex(accrue.Error, "are .64, 144.: expected images .N, C, H, W."):
            accrue.train(layers, (numbers.reshape(64, 144), y), crop=8, **options)

    def test_leaves_out_pixels_as_files_do(self):
        random = np.random.default_rng(6)
        pixels = random.integers(0, 256, size=(24, 16, 16), dtype=np.uint8)
        masks = np.where(random.random(pixels.shape) < 0.3, 255, pixels // 86)
        both = [(pixels[part], masks[part]) for part in (slice(16), slice(16, None))]
        options = {"ignore_mask": 255, "width": 0.5, "depth": 2, "micro_batch": 3,
                   "effective_batch": 8, "epochs": 2}
        with tempfile.TemporaryDirectory() as folder:
            for part, arrays in zip(("train", "test"), both):
                for kind, images in zip(("images", "masks"), arrays):
                    path = pathlib.Path(folder, part, kind)
                    path.mkdir(parents=True)
                    for i, image in enumerate(images):
                        (path / f"{i:02}.png").write_bytes(png(image.astype(np.uint8)))
            expected = accrue.train("unet", folder, **options)
        trainer = accrue.Trainer("unet", both[0], test=both[1], **options)
        result = trainer.run()
        np.testing.assert_array_equal(result.losses, expected.losses)
        self.assertEqual(list(result.score.values()), list(expected.score.values()))
        for name, array in expected.weights.items():
            np.testing.assert_array_equal(array, result.weights[name], name)
        self.assertEqual(result.memory["this run"], result.memory["predicted"])
        self.assertEqual(trainer.evaluate(both[1]), result.score)
        self.assertEqual(accrue.evaluate(result.weights, data=both[1], micro_batch=3),
                         result.score)
        self.assertEqual(trainer.predict(pixels).shape, (24, 3, 16, 16))
        for model, data, words in (("unet", (pixels, masks > 0), "expected masks of classes"),
                                   ("unet", "shapes", "expected a folder of images and masks"),
                                   ("mlp", (pixels, masks[:, 0, 0] // 99), "has no effect")):
            with self.assertRaisesRegex(accrue.Error, words):
                accrue.train(model, data, steps=1, ignore_mask=255)

    def test_takes_what_has_dlpack_without_a_copy(self):
        x, y = samples()

        class Held:  # like the arrays of torch, jax and others
            def __dlpack__(self, **_):
                return x.__dlpack__()

            def __dlpack_device__(self):
                return x.__dlpack_device__()

        expected = accrue.train(network(), (x, y), steps=3)
        result = accrue.train(network(), (Held(), y.tolist()), steps=3)
        np.testing.assert_array_equal(result.losses, expected.losses)
        # The trainer sees changes of elements that are not copied.
        trainer = accrue.Trainer(network(), (x, y), steps=3)
        x[:] = np.nan
        with self.assertRaisesRegex(accrue.Error, "not finite in 8 windows"):
            trainer.run()

    def test_makes_the_language_model_of_a_config(self):
        config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2,
                  "n_head": 2, "n_embd": 64, "n_positions": 64, "vocab_size": 300,
                  "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "config.json")
            path.write_text(json.dumps(config), encoding="utf-8")
            weights = accrue.train(path, steps=1, context=32).weights
            self.assertEqual(weights["transformer.wte.weight"].shape, (300, 64))
            self.assertIn("transformer.h.1.ln_1.weight", weights)
            self.assertNotIn("transformer.h.2.ln_1.weight", weights)
            path.write_text(json.dumps({**config, "vocab_size": 64}), encoding="utf-8")
            with self.assertRaisesRegex(accrue.Error, "^gpt2.* knows 64 tokens, but grammar has"):
                accrue.train(folder, steps=1)


class Glyphs(unittest.TestCase):
    options = {"width": 0.125, "micro_batch": 3, "effective_batch": 8, "epochs": 2,
               "init_scheme": "normal", "beta1": 0.5}

    def pairs(self, styles, characters=12, side=32):
        random = np.random.default_rng(8)
        shape = (styles, characters, side, side)
        return random.integers(0, 256, shape, np.uint8), random.integers(0, 256, shape, np.uint8)

    def write(self, folder, sources, targets, held_out):
        font = {"name": "", "file": "", "face": 0, "licence": ""}
        for k, (left, right) in enumerate(zip(sources, targets)):
            pathlib.Path(folder, f"style{k}").mkdir()
            for i, pair in enumerate(np.concatenate([left, right], axis=2)):
                pathlib.Path(folder, f"style{k}", f"U+{0x4E00 + i:X}.png").write_bytes(png(pair))
        pathlib.Path(folder, "manifest.json").write_text(json.dumps({
            "format": "accrue glyphs", "version": 1, "size": sources.shape[-1], "layout": "bbox",
            "source": font, "missing": [],
            "styles": [{"name": f"style{k}", "font": font} for k in range(len(sources))],
            "characters": [{"character": chr(0x4E00 + i), "held_out": i >= held_out}
                           for i in range(sources.shape[1])]}), encoding="utf-8")

    def test_are_drawn_as_those_of_files(self):
        sources, targets = self.pairs(styles=2)
        styles = np.repeat(np.arange(2), 12).reshape(2, 12)
        both = [tuple(a[:, part].reshape(-1, *a.shape[2:]) for a in (sources, targets, styles))
                for part in (slice(9), slice(9, None))]
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder, sources, targets, held_out=9)
            expected = accrue.train("zi2zi", folder, **self.options)
            path = pathlib.Path(folder, "weights.safetensors")
            expected.weights.save(path)
            drawn = accrue.predict(path, (both[1][0], both[1][2]), micro_batch=4)
            score = accrue.evaluate(path, data=both[1], micro_batch=3)
            self.assertEqual(accrue.evaluate(path, data=folder, split="test",
                                             micro_batch=3)["test"], score)
        trainer = accrue.Trainer("zi2zi", both[0], test=both[1], **self.options)
        result = trainer.run()
        np.testing.assert_array_equal(result.losses, expected.losses)
        self.assertEqual(result.score, expected.score)
        for name, array in expected.weights.items():
            np.testing.assert_array_equal(array, result.weights[name], name)
        self.assertEqual(result.memory["this run"], result.memory["predicted"])
        self.assertEqual(trainer.evaluate(both[1]), result.score)
        self.assertEqual(score, result.score)
        self.assertEqual(drawn.shape, (6, 1, 32, 32))
        np.testing.assert_array_equal(trainer.predict((both[1][0], both[1][2])), drawn)
        self.assertAlmostEqual(np.abs(drawn[:, 0] - (both[1][1] / 127.5 - 1)).mean(),
                               score["l1"], places=6)
        # The network keeps its styles, also those not asked for, and float32 gives what bytes give.
        np.testing.assert_allclose(
            accrue.predict(result.weights, (both[1][0][:2] / np.float32(127.5) - 1, [0, 0])),
            drawn[:2], atol=1e-5)
        again = accrue.train("zi2zi", both[0], init=result.weights, steps=1, **self.options)
        self.assertLess(again.losses[1], result.losses[1])  # the generator's
        plan = accrue.plan("zi2zi", both[0], memory="1GiB", effective_batch=8, width=0.125)
        self.assertEqual(plan["recommended"]["micro_batch"], 8)

    def test_say_what_is_wrong(self):
        sources, targets = (a[0] for a in self.pairs(styles=1, characters=8))
        styles = np.zeros(8, np.int64)
        result = accrue.train("zi2zi", (sources, targets, styles), steps=1, **self.options)
        for run, words in (
                (lambda: accrue.train("zi2zi", (sources, targets)), "draws the glyphs.*has images"),
                (lambda: accrue.train("cnn", (sources, targets, styles)), "has sources"),
                (lambda: accrue.train(network(), (sources, targets, styles)), "has sources"),
                (lambda: accrue.train("zi2zi", (sources, targets[:, 1:], styles)),
                 "sources are .8, 1, 32, 32., but targets are .8, 1, 31, 32.: expected the same"),
                (lambda: accrue.train("zi2zi", (sources, targets, styles[1:])),
                 "sources are .8, 1, 32, 32., but styles are .7.: expected .8."),
                (lambda: accrue.train("zi2zi", (sources, targets, styles - 1)),
                 "styles is -1 for sample 0: expected classes from 0 on"),
                (lambda: accrue.predict(result.weights, sources), "expected .sources, styles."),
                (lambda: accrue.predict(result.weights, (sources, styles + 1)), "1 .*style")):
            with self.assertRaisesRegex(accrue.Error, words):
                run()


def corpus(folder):
    """A corpus that the program prepared from prompts and answers: documents and which tokens are
    to be learned, for training and for the test."""
    random = np.random.default_rng(3)
    texts = [{"prompt": "Say it " + "again " * random.integers(9), "completion": "It. " * n}
             for n in random.integers(1, 30, size=60)]
    path = pathlib.Path(folder, "texts.jsonl")
    path.write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    program("text", "prepare", "--text", str(path), "--tokenizer", "bytes", "--hold-out", "0.3",
            "--out", str(pathlib.Path(folder, "corpus")))

    def column(name, dtype):
        return np.fromfile(pathlib.Path(folder, "corpus", f"{name}.bin"), dtype)

    tokens, ends = column("tokens", np.uint16), column("documents", np.uint64)[:-1].astype(int)
    learned = np.unpackbits(column("learned", np.uint8), bitorder="little")[:len(tokens)] > 0
    held_out = (column("sections", np.uint64) >> np.uint64(11)) * 2.0**-53 < 0.3
    both = list(zip(held_out, np.split(tokens, ends), np.split(learned, ends)))
    return [tuple(map(list, zip(*((t, is_learned) for held, t, is_learned in both
                                  if held == part)))) for part in (False, True)]


class Tokens(unittest.TestCase):
    options = {"micro_batch": 3, "effective_batch": 8, "context": 96, "epochs": 2, "layers": 1}

    def equal(self, result, expected):
        np.testing.assert_array_equal(result.losses, expected.losses)
        self.assertEqual(result.score, expected.score)
        for name, array in expected.weights.items():
            np.testing.assert_array_equal(array, result.weights[name], name)

    def test_train_as_files_do(self):
        with tempfile.TemporaryDirectory() as folder:
            train, test = corpus(folder)
            self.assertFalse(all(map(np.all, train[1])))
            for documents in ("packed", "padded", "stream"):
                options = {**self.options, "documents": documents}
                expected = accrue.train("gpt-tiny", pathlib.Path(folder, "corpus"), **options)
                result = accrue.train("gpt-tiny", train, test=test, **options)
                self.assertEqual(result.memory["this run"], result.memory["predicted"])
                if documents == "stream":
                    continue  # a stream runs across the held-out documents
                self.equal(result, expected)
                for kind in (np.int64, np.uint32):
                    others = [([t.astype(kind) for t in part[0]], part[1])
                              for part in (train, test)]
                    self.equal(accrue.train("gpt-tiny", others[0], test=others[1], **options),
                               expected)
            self.assertNotEqual(accrue.train("gpt-tiny", train[0], test=test, **options).losses[0],
                                expected.losses[0])

    def test_are_one_stream_or_rows(self):
        tokens = np.random.default_rng(4).integers(0, 300, size=2000)
        header = np.zeros(256, np.int32)
        header[:3] = 20240520, 1, len(tokens)
        with tempfile.TemporaryDirectory() as folder:
            for part in ("train", "val"):  # one document in each
                pathlib.Path(folder, f"{part}.bin").write_bytes(
                    header.tobytes() + tokens.astype(np.uint16).tobytes())
            mapped = np.memmap(pathlib.Path(folder, "train.bin"), np.uint16, "r", offset=1024)
            losses = [accrue.train("gpt-tiny", data, **self.options).losses
                      for data in (mapped, tokens, tokens.tolist())]
        np.testing.assert_array_equal(losses[1], losses[0])
        rows = tokens.reshape(50, 40)
        options = {**self.options, "context": None}
        self.equal(accrue.train("gpt-tiny", rows, **options),
                   accrue.train("gpt-tiny", list(rows), **{**options, "context": 39},
                                documents="padded"))
        trainer = accrue.Trainer("gpt-tiny", rows, **options)
        weights = trainer.run().weights
        logits = trainer.predict(rows[:7, :-1]).astype(np.float64)
        self.assertEqual(logits.shape, (7, 39, 300))
        loss = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, rows[:7, 1:, None],
                                                                  -1)[..., 0]
        learned = rows[:7] % 3 > 0
        for data, score in ((rows[:7], loss.mean()),
                            ((rows[:7], learned), loss[learned[:, 1:]].mean())):
            self.assertAlmostEqual(trainer.evaluate(data)["loss"], score, places=5)
            self.assertEqual(accrue.evaluate(weights, data=data, micro_batch=3),
                             trainer.evaluate(data))
        np.testing.assert_array_equal(accrue.predict(weights, rows[:7, :-1]),
                                      trainer.predict(rows[:7, :-1]))
        plan = accrue.plan("gpt-tiny", rows, memory="1GiB", effective_batch=8, layers=1)
        self.assertEqual(plan["recommended"]["micro_batch"], 8)

    def test_are_of_the_vocabulary_that_is_said(self):
        rows = np.arange(60).reshape(4, 15)
        options = {"micro_batch": 1, "effective_batch": 4, "layers": 1}
        trainer = accrue.Trainer("gpt-tiny", rows, vocabulary=80, **options)
        weights = trainer.run().weights
        self.assertEqual(weights["transformer.wte.weight"].shape[0], 80)
        self.assertEqual(trainer.predict(rows + 20).shape, (4, 15, 80))
        padded = np.where(rows == 59, 79, rows)  # the largest token gives the vocabulary, too
        plans = [accrue.plan("gpt-tiny", data, memory="1GiB", effective_batch=4, layers=1,
                             vocabulary=said) for data, said in ((rows, 80), (padded, None))]
        self.assertEqual(plans[0]["recommended"]["peak_bytes"],
                         plans[1]["recommended"]["peak_bytes"])
        self.assertEqual(accrue.train("gpt-tiny", rows, init=weights, vocabulary=60,
                                      **options).weights["transformer.wte.weight"].shape[0], 80)
        for data, test, said, more, words in (
                (rows, rows + 1, 60, {}, "^document 3 has the token 60 at 14: expected 0 to 59$"),
                (rows, None, 59, {}, "^document 3 has the token 59 at 14: expected 0 to 58$"),
                (rows, None, 81, {"init": weights}, "knows 80 tokens, but tokens has 81"),
                (rows, None, 0, {}, "^vocabulary=0: expected a number of tokens, 1 to "),
                (rows, None, "all", {}, "^vocabulary=all: expected a number of tokens"),
                ("grammar", None, 300, {}, "^vocabulary is for tokens alone: expected integers")):
            with self.assertRaisesRegex(accrue.Error, words):
                accrue.train("gpt-tiny", data, test=test, vocabulary=said, **options, **more)
        with self.assertRaisesRegex(accrue.Error, "vocabulary"):
            accrue.info("gpt-tiny", vocabulary=80)

    def test_say_what_is_wrong(self):
        rows = np.arange(60).reshape(4, 15)
        known = accrue.train("gpt-tiny", rows, micro_batch=1, effective_batch=4, layers=1).weights

        def train(data, **options):
            return accrue.train("gpt-tiny", data, micro_batch=1, effective_batch=4, **options)

        for run, words in (
                (lambda: train(rows - 16), "^document 0 has the token -16 at 0: expected 0 to "),
                (lambda: train(rows + 2, init=known), "document 3 .* the token 60 at 13, but the "
                                                      "model knows 60 tokens: expected 0 to 59"),
                (lambda: accrue.evaluate(known, data=rows + 2), "document 3 .* knows 60 tokens"),
                (lambda: accrue.predict(known, rows + 2), "document 3 .* knows 60 tokens"),
                (lambda: accrue.predict(known, [rows[0], rows[0, 1:]]), "of several lengths"),
                (lambda: train([rows[0], rows[1, :0]]), "document 1 has no tokens"),
                (lambda: train([rows[0], rows[0] * 0.5]),
                 "document 1 of data is float64 .15.: expected integers .L."),
                (lambda: train((rows, rows[:3] > 0)), "learned does not fit the tokens"),
                (lambda: train(rows[:, :1]), "rows of one token"),
                (lambda: train(rows, test=(rows, rows)), "test has no tokens, but data has"),
                (lambda: train(rows, sample_every=1), "does not say which tokenizer"),
                (lambda: train(rows * 0.5), "neither a name nor .x, y. nor integers")):
            with self.assertRaisesRegex(accrue.Error, words):
                run()


class Texts(unittest.TestCase):
    """Lines of JSON, and the tokenizer that weights were trained with."""
    options = {"context": 24, "micro_batch": 2, "effective_batch": 4, "steps": 2, "threads": 1}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(5)
        texts = [" ".join(random.choice(["one", "two", "three", "four"], size=9))
                 for _ in range(60)]
        cls.lines = cls.write("lines", [{"text": text} for text in texts])
        cls.pairs = cls.write("pairs", [{"anchor": text, "positive": text[::-1]}
                                        for text in texts])
        cls.corpus, cls.other = (cls.folder / name for name in ("corpus", "other"))
        backwards = cls.write("backwards", [{"text": text[::-1]} for text in texts])
        for file, corpus_of_it in ((cls.lines, cls.corpus), (backwards, cls.other)):
            program("text", "prepare", "--text", str(file), "--train-tokenizer", "270", "--out",
                    str(corpus_of_it))

    @classmethod
    def write(cls, name, rows):
        path = cls.folder / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return path

    def test_are_of_the_tokenizer_of_the_weights(self):
        weights = accrue.train("gpt-tiny", self.corpus, layers=1, **self.options).weights
        path = self.folder / "w.safetensors"
        weights.save(path)
        expected = accrue.train(data=self.corpus, init=weights, **self.options)
        expected_score = accrue.evaluate(weights, data=self.corpus, context=24)["test"]
        for init in (weights, path):
            result = accrue.train(data=self.lines, init=init, **self.options)
            np.testing.assert_array_equal(result.losses, expected.losses)
            self.assertEqual(accrue.evaluate(init, data=self.lines, context=24),
                             {"test": expected_score})
        options = {key: self.options[key] for key in ("context", "effective_batch", "threads")}
        for run in (lambda data: accrue.train(data=data, init=weights, **self.options),
                    lambda data: accrue.plan(data=data, init=path, memory="1GiB", **options),
                    lambda data: accrue.evaluate(weights, data=data, context=24)):
            with self.assertRaisesRegex(accrue.Error, "tokenizer .*other.* learned by .*corpus"):
                run(self.other)
        there, beside_weights = self.corpus / "tokenizer.json", self.folder / "tokenizer.json"
        there.rename(beside_weights)
        self.addCleanup(beside_weights.rename, there)
        self.assertEqual(accrue.evaluate(path, data=self.lines, context=24),
                         {"test": expected_score})
        with self.assertRaisesRegex(accrue.Error, "tokenizer"):
            accrue.evaluate(weights, data=self.lines, context=24)  # weights from no file

    def test_are_scored_on_what_is_held_out(self):
        trainer = accrue.Trainer("gpt-tiny", self.corpus, layers=1, **self.options)
        weights = trainer.run().weights
        score = trainer.evaluate()
        self.assertEqual(accrue.evaluate(weights, data=self.corpus, context=24), {"test": score})
        both = accrue.evaluate(weights, data=self.corpus, context=24, split="both")
        self.assertEqual(both["test"], score)
        self.assertGreater(both["training"]["tokens"], score["tokens"])

    def test_have_embeddings_where_pairs_were_learned(self):
        trainer = accrue.Trainer("gpt-tiny", self.pairs, layers=1, **self.options)
        weights = trainer.run().weights
        documents = [np.arange(3), np.arange(9)[::-1], np.array([7])]
        vectors = accrue.predict(weights, documents)
        self.assertEqual(vectors.shape, (3, 128))
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(trainer.predict(documents), vectors)
        for document, vector in zip(documents, vectors):  # independent of the other documents
            np.testing.assert_allclose(accrue.predict(weights, [document])[0], vector, atol=1e-6)
        self.assertEqual(accrue.evaluate(weights, data=self.pairs, context=24),
                         {"test": trainer.evaluate()})
        # A plain dict does not say that the network embeds.
        logits = accrue.predict(dict(weights), [documents[0]], model="gpt-tiny", layers=1)
        self.assertEqual(logits.shape, (1, 3, 257))


class Callbacks(unittest.TestCase):
    def test_are_told_each_window(self):
        steps = []
        result = accrue.train(network(), samples(), effective_batch=64, on_step=steps.append)
        self.assertEqual([s.step for s in steps], list(range(1, 9)))
        np.testing.assert_array_equal([s.loss for s in steps], result.losses)

    def test_may_raise(self):
        def stop(step):
            if step.step == 3:
                raise ValueError("enough")

        trainer = accrue.Trainer(network(), samples(), effective_batch=64)
        with self.assertRaisesRegex(ValueError, "enough"):
            trainer.run(stop)
        self.assertEqual(trainer.steps, 3)
        trainer.run()
        expected = accrue.train(network(), samples(), effective_batch=64)
        np.testing.assert_array_equal(trainer.losses, expected.losses)

    def test_interrupted_runs_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = run_python("""
                import os, signal, sys, accrue
                def interrupt(step):
                    if step.step == 5:
                        os.kill(os.getpid(), signal.SIGINT)
                try:
                    accrue.train("mlp-small", "digits", epochs=3, on_step=interrupt,
                                 checkpoint_dir=sys.argv[1])
                except KeyboardInterrupt:
                    print("interrupted")
                """, folder)
            self.assertEqual(ran.stdout, "interrupted\n", ran.stderr)
            self.assertTrue(list(pathlib.Path(folder).glob("step-*/checkpoint.json")))
            resumed = accrue.train("mlp-small", "digits", epochs=3, checkpoint_dir=folder,
                                   resume=True)
        expected = accrue.train("mlp-small", "digits", epochs=3)
        self.assertLess(len(resumed.losses), len(expected.losses))
        for name, array in expected.weights.items():
            np.testing.assert_array_equal(array, resumed.weights[name])

    def test_leave_nothing_behind(self):
        told = 0

        def count(_):
            nonlocal told
            told += 1

        def train():
            return accrue.train(network(), samples(), effective_batch=4, micro_batch=2, steps=1000,
                                epochs=100, on_step=count)

        train()
        train()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        references = sys.getrefcount(count)
        for _ in range(4):
            train()
        self.assertEqual(told, 6000)
        self.assertEqual(sys.getrefcount(count), references)
        # In KiB: 4000 leaked Steps, 200 bytes or more each, would show.
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 600)

    def test_copy_weights_when_activations_are_gone(self):
        wide = accrue.Sequential(accrue.Linear(1024, 16384), accrue.ReLU(), accrue.Linear(16384, 5))
        x = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
        trainer = accrue.Trainer(wide, (x, np.arange(1024) % 5), effective_batch=1024,
                                 micro_batch=1024, steps=1)
        in_training = 0

        def read_peak(_):
            nonlocal in_training
            in_training = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        result = trainer.run(on_step=read_peak)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = sum(array.nbytes for array in result.weights.values())
        self.assertLess(taken, result.memory["this run"]["activations"])
        self.assertLess(after - in_training, taken / 1024 / 2)  # in KiB


class Errors(unittest.TestCase):
    def test_have_the_words_of_the_program(self):
        def unspelt(text):
            return text.replace("--", "").replace("-", "_").replace("=", " ")

        for options in ({"model": "mlpp"}, {"lr": "abc"}, {"patience": 3},
                        {"effective_batch": 5, "micro_batch": 3, "accum": 4},
                        {"model": "resnet", "depth": 3}, {"data": "nowhere"}):
            with self.assertRaises(accrue.Error) as raised:
                accrue.train(**options)
            arguments = []
            for name, value in options.items():
                arguments += ["--" + name.replace("_", "-"), str(value)]
            self.assertNotIn("--", str(raised.exception))
            self.assertEqual(unspelt(f"accrue: error: {raised.exception}\n"),
                             unspelt(program("train", *arguments)[1]))

    def test_lack_of_memory_is_one_of_pythons_too(self):
        with self.assertRaisesRegex(MemoryError, "try: ") as raised:
            accrue.train("mlp", "digits", memory_limit="20MiB", micro_batch=4096,
                         effective_batch=4096)
        self.assertIsInstance(raised.exception, accrue.Error)
        accrue.train("mlp-small", "digits", steps=1)  # the limit is gone

    def test_say_what_is_wrong_with_arrays(self):
        x, y = samples()
        for data, words in (((x, y[:5]), "x has 512 samples, but y has 5"),
                            ((x, y - 1), "expected classes from 0 on"),
                            ((x, [str(k) for k in y]), "y is an array of <U1: expected numbers"),
                            ((x.astype(np.uint8), y), "pixels of images"),
                            ((x, y > 0), "expected masks, bool .N, H, W. or .N, K, H, W."),
                            ((x, np.stack([y, y], axis=1)), "one for each pixel"),
                            ((x,), "expected x and y, or for glyphs")):
            with self.assertRaisesRegex(accrue.Error, words):
                accrue.train(network(), data)
        with self.assertRaisesRegex(accrue.Error, "made of layers, but there is 3"):
            accrue.Sequential([3])
        with self.assertRaisesRegex(accrue.Error, "expected x .N, I. and w .O, I."):
            accrue.train(network(), "digits")


class Memory(unittest.TestCase):
    def test_is_that_of_a_run_whatever_else_is_held(self):
        def stop(step):
            if step.step == 2:
                raise StopIteration

        trainer = accrue.Trainer("mlp-small", "digits", steps=4)
        # The first trainer is freed only after the second has been made.
        trainer = accrue.Trainer("mlp-small", "digits", steps=4)
        with self.assertRaises(StopIteration):
            trainer.run(stop)
        self.assertEqual(trainer.memory["this run"], trainer.memory["predicted"])
        beside = accrue.Trainer("mlp-small", "digits")
        trainer.run()
        self.assertEqual(trainer.memory["this run"], trainer.memory["predicted"])
        del beside


class Tables(unittest.TestCase):
    def test_plans_can_be_trained(self):
        plan = accrue.plan("cnn", memory="13MiB")
        result = accrue.train("cnn", "digits", steps=1, memory_limit="13MiB", **plan.options())
        self.assertEqual(result.memory["this run"]["total"], plan["recommended"]["peak_bytes"])
        self.assertIn("->", repr(plan))
        self.assertIn("<table>", plan._repr_html_())

    def test_weights_are_a_dict(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "w.safetensors")
            weights = accrue.Weights({"a": np.arange(6, dtype=np.float32).reshape(2, 3)},
                                     {"said": "so"})
            weights.save(path)
            read = accrue.Weights.load(path)
        np.testing.assert_array_equal(read["a"], weights["a"])
        self.assertEqual(read.metadata, {"said": "so"})
        self.assertEqual(repr(read).split(), ["shape", "type", "a", "[2,", "3]", "float32"])

    def test_help_lists_the_options_of_the_program(self):
        self.assertIn("effective_batch", accrue.train.__doc__)
        stub = pathlib.Path(accrue.__file__).with_name("_accrue.pyi").read_text(encoding="utf-8")
        self.assertIn("effective_batch: int | None = None", stub)
        self.assertEqual(accrue.info()["parameters"], accrue.info("mlp")["parameters"])


class Package(unittest.TestCase):
    def test_imports_nothing_of_others(self):
        heavy = ("numpy", "torch", "sklearn", "scipy", "pandas", "matplotlib", "tqdm", "PIL", "onnx", "tokenizers",
                 "transformers")
        ran = run_python(f"import sys, accrue; print([name for name in {heavy} if name in sys.modules])")
        self.assertEqual(ran.stdout.strip(), "[]")

    def test_program_is_stopped_as_ever(self):
        with subprocess.Popen([sys.executable, "-m", "accrue", "train", "--epochs", "100"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            run.stdout.readline()
            run.stdout.readline()
            run.send_signal(signal.SIGINT)
            said, _ = run.communicate(timeout=60)
        self.assertIn("interrupted: stopped after a whole window", said)


if __name__ == "__main__":
    unittest.main()
