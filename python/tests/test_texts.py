"""Texts and embeddings of language models."""

import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import accrue
from accrue import _writing


class Texts(unittest.TestCase):
    def test_generates(self):
        text = "abcdefgh " * 200
        tokens = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        weights = accrue.train("gpt-tiny", tokens, context=32, documents="stream", vocabulary=257,
                               micro_batch=8, effective_batch=16, steps=3, lr=3e-3).weights
        prompt = tokens[:9]
        written = accrue.generate(weights, prompt, max_new_tokens=5, temperature=0)
        self.assertEqual(written.dtype, np.int32)
        np.testing.assert_array_equal(written[:9], prompt)
        known = prompt
        for _ in range(5):  # the same as without keys and values of earlier tokens
            logits = accrue.predict(weights, known[None])[0, -1]
            known = np.append(known, logits.argmax())
        np.testing.assert_array_equal(written, known)
        parts = []
        whole = accrue.generate(weights, "abc", max_new_tokens=5, temperature=0, on_text=parts.append)
        self.assertEqual(whole, "abc" + "".join(parts))
        self.assertEqual(accrue.generate(weights, "abc", max_new_tokens=5, seed=3),
                         accrue.generate(weights, "abc", max_new_tokens=5, seed=3))
        np.testing.assert_array_equal(
            accrue.generate(weights, prompt, temperature=0, on_text=lambda token: False), known[:10])
        with self.assertRaises(ZeroDivisionError):
            accrue.generate(weights, prompt, on_text=lambda token: 1 / 0)
        with self.assertRaisesRegex(accrue.Error, "max_new_tokens is 0"):
            accrue.generate(weights, prompt, max_new_tokens=0)
        with self.assertRaisesRegex(accrue.Error, "has not learned from pairs of texts"):
            accrue.embed(weights, ["a"])

    def test_writes_as_the_program_does(self):
        tokens = np.frombuffer(b"abcdefgh " * 200, np.uint8).astype(np.int32)
        with tempfile.TemporaryDirectory() as folder:
            weights = accrue.train("gpt-tiny", tokens, context=32, documents="stream", steps=3,
                                   vocabulary=257, micro_batch=8, effective_batch=16, save=f"{folder}/w.safetensors").weights
            said = subprocess.run(
                [sys.executable, "-m", "accrue", "text", "write", "--weights",
                 f"{folder}/w.safetensors", "--prompt", "abc", "--tokens", "9", "--seed", "2"],
                capture_output=True, check=True).stdout
        self.assertEqual(accrue.generate(weights, "abc", max_new_tokens=9, seed=2),
                         said.decode("utf-8", "replace")[:-1])


class Embeddings(unittest.TestCase):
    def test_of_texts_that_are_fetched(self):
        records = [{"anchor": f"text {i}", "positive": f"number {i}"} for i in range(60)]
        result = accrue.train("gpt-tiny", records, tokenizer="bytes", context=32, layers=1, steps=1, micro_batch=4,
                              effective_batch=8)
        texts = [f"a text, number {i}" for i in range(70)]
        expected = accrue.embed(result.weights, texts, micro_batch=4)
        self.assertEqual(len(expected), 70)
        kinds = [iter(texts), lambda: iter(texts), np.array(texts), [{"text": text} for text in texts],
                 [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts],
                 ({"input_ids": list(text.encode()) + [0], "attention_mask": [1] * len(text) + [0]} for text in texts)]
        try:
            import datasets

            kinds.append(datasets.Dataset.from_dict({"text": texts}))
            other = datasets.Dataset.from_dict({"title": texts, "place": texts})
            np.testing.assert_array_equal(accrue.embed(result, other, micro_batch=4, columns="title"), expected)
            with self.assertRaisesRegex(accrue.Error, "names title, place: expected columns='text'"):
                accrue.embed(result, other)
        except ImportError:
            pass
        for place, kind in enumerate(kinds):
            with self.subTest(place):
                np.testing.assert_array_equal(accrue.embed(result, kind, micro_batch=4), expected)

    def test_by_the_objects_of_tokenizers(self):
        try:
            import tokenizers
        except ImportError:
            self.skipTest("needs tokenizers")
        own = tokenizers.Tokenizer(tokenizers.models.BPE())
        own.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        own.decoder = tokenizers.decoders.ByteLevel()
        letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        own.train_from_iterator(["some text, a number"] * 5, tokenizers.trainers.BpeTrainer(
            vocab_size=280, initial_alphabet=letters, special_tokens=["<|endoftext|>"], show_progress=False))
        result = accrue.train("gpt-tiny", [{"anchor": f"text {i}", "positive": f"number {i}"} for i in range(200)],
                              tokenizer=own, context=32, layers=1, steps=1, micro_batch=4, effective_batch=8)
        ids = np.array(own.encode("a text").ids, np.int32)
        np.testing.assert_array_equal(accrue.embed(result, ["a text"], tokenizer=own), accrue.embed(result, [ids]))
        result = accrue.train("gpt-tiny", [f"some text {i}" for i in range(200)], tokenizer=own, context=8, layers=1, steps=1, micro_batch=4,
                              effective_batch=8)
        written = accrue.generate(result, "some ", tokenizer=own, temperature=0, max_new_tokens=3)
        tokens = accrue.generate(result, np.array(own.encode("some ").ids, np.int32), temperature=0, max_new_tokens=3)
        self.assertTrue(written.startswith("some ") and own.decode(list(tokens)).startswith(written), (written, tokens))
        stopped = accrue.generate(result, "some ", tokenizer=own, on_text=lambda text: np.False_)
        self.assertLess(len(stopped), len("some ") + 5)
        with self.assertRaisesRegex(accrue.Error, "tokenizer is 3"):
            accrue.generate(result, "some ", tokenizer=3)
        for ask in (accrue.generate, accrue.embed):
            with self.assertRaisesRegex(accrue.Error, "a network of the caller's own: expected accrue.predict"):
                ask(result, "some ", accrue.Sequential(accrue.Linear(2, 3)))


class OwnNetworks(unittest.TestCase):
    """A caller's own network writes, too, over all tokens anew."""

    def network(self, rows, looks_ahead=False, vocabulary=257):
        tokens = accrue.input(rows, dtype="int32", name="tokens")
        h = accrue.cumsum(accrue.Embedding(vocabulary, 8)(tokens, name="words"), 1).tanh()
        if looks_ahead:
            h = h + h.mean(1, keepdim=True)
        return accrue.Network({"tokens": tokens}, {"logits": accrue.Linear(8, vocabulary)(h, name="head")})

    def setUp(self):
        random = np.random.default_rng(0)
        self.weights = accrue.Weights({"words.weight": random.normal(size=(257, 8)).astype(np.float32),
                                       "head.weight": random.normal(size=(257, 8)).astype(np.float32),
                                       "head.bias": random.normal(size=257).astype(np.float32)})
        self.prompt = np.array([5, 9, 2], np.int32)

    def test_write_tokens(self):
        known = self.prompt
        for _ in range(6):
            logits = accrue.predict(self.weights, {"tokens": known[None]}, self.network(len(known)))["logits"]
            known = np.append(known, logits[0, -1].argmax()).astype(np.int32)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # tokens have no pixels whose normalization is unknown
            accrue.predict(self.weights, {"tokens": known[None]}, self.network(len(known)))
            accrue.generate(self.weights, self.prompt, self.network(8), max_new_tokens=1)
        for rows in (8, 20):  # the last token is never read
            written = accrue.generate(self.weights, self.prompt, self.network(rows), max_new_tokens=6, temperature=0)
            self.assertEqual(written.dtype, np.int32)
            np.testing.assert_array_equal(written, known)
        seen = []
        some = accrue.generate(self.weights, list(self.prompt), self.network(20), max_new_tokens=6, temperature=0,
                               on_text=lambda token: seen.append(token) or len(seen) < 2)
        np.testing.assert_array_equal(some, known[:5])
        self.assertEqual(seen, list(known[3:5]))
        with self.assertRaises(ZeroDivisionError):
            accrue.generate(self.weights, self.prompt, self.network(20), max_new_tokens=6, on_text=lambda token: 1 / 0)

    def test_draw_as_language_models_do(self):
        text = np.frombuffer(b"abcdefgh " * 100, np.uint8).astype(np.int32)
        model = accrue.train("gpt-tiny", text, context=16, documents="stream", vocabulary=257, layers=1, micro_batch=8,
                             effective_batch=16, steps=2)

        class Growing(_writing._Growing):  # by the model's own logits
            def next(self, micro_batch):
                rows = super().next(micro_batch)
                return None if rows is None else rows["tokens"][:, :len(self.tokens)]

            def take(self, answers):
                super().take({"logits": np.pad(answers, ((0, 0), (0, self.room - answers.shape[1]), (0, 0)))})

        for options in ({"seed": 3}, {"seed": 4, "temperature": 0.7, "top_k": 20}, {"top_p": 0.5, "repetition_penalty": 1.3}):
            expected = accrue.generate(model, text[:4], max_new_tokens=8, **options)
            asked = _writing.Asked(max_new_tokens=8, **options)
            growing = Growing(_writing._Writer(text[:4], asked, False), 11, asked, "tokens", "logits")
            np.testing.assert_array_equal(accrue._accrue.predict(model.weights, growing), expected)

    def test_write_texts(self):
        options = {"max_new_tokens": 9, "seed": 2, "tokenizer": "bytes"}
        parts = []
        written = accrue.generate(self.weights, "abc", self.network(40), on_text=parts.append, **options)
        self.assertTrue(written.startswith("abc"))
        tokens = accrue.generate(self.weights, np.frombuffer(b"abc", np.uint8).astype(np.int32), self.network(40),
                                 **{**options, "tokenizer": ""})
        self.assertEqual(written, bytes(token for token in tokens if token < 256).decode("utf-8", "replace"))
        self.assertEqual(len(parts), 9)
        with self.assertRaisesRegex(accrue.Error, "^prompt is a text, and a network of the caller's own says no tokenizer"):
            accrue.generate(self.weights, "abc", self.network(40))

    def test_that_cannot_write_are_refused(self):
        x = accrue.input(20)
        for network, words, options in (
                (self.network(20, looks_ahead=True), "the network's answers depend on later tokens", {}),
                (self.network(7), "takes rows of 7 tokens, but prompt and max_new_tokens need 8", {}),
                (accrue.Network(x, accrue.Linear(20, 3)(x)), "expected one of tokens alone", {}),
                (self.network(20), "max_new_tokens is 0", {"max_new_tokens": 0}),
                (self.network(20), "top p of 2", {"top_p": 2}), (self.network(20), "width has no effect", {"width": 2})):
            with self.subTest(words), self.assertRaisesRegex(accrue.Error, words):
                accrue.generate(self.weights, self.prompt, network, **{"max_new_tokens": 6, **options})
        with self.assertRaisesRegex(accrue.Error, r"prompt is int64 \[1, 2\]: expected a text, or tokens"):
            accrue.generate(self.weights, [[1, 2]], self.network(20))

    def test_modules_write_after_their_training(self):
        try:
            import torch
        except ImportError:
            self.skipTest("needs torch")

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11)

            def forward(self, tokens):
                return self.head(torch.tanh(torch.cumsum(self.words(tokens), 1)))

        tokens = np.arange(60).reshape(10, 6) % 11
        result = accrue.train(Net(), (tokens[:, :-1], tokens[:, 1:]), epochs=60, effective_batch=10, micro_batch=10, lr=3e-2)
        module = Net()
        module.load_state_dict(result.state_dict())
        known = [3]
        for _ in range(7):  # longer than the rows that it has learned
            known.append(int(module(torch.tensor([known]))[0, -1].argmax()))
        for model in ((result,), (module,), (result.weights, module)):
            weights, *own = model
            written = accrue.generate(weights, [3], *own, max_new_tokens=7, temperature=0)
            np.testing.assert_array_equal(written, known)


class SamplesOfSeveralTexts(unittest.TestCase):
    """Pairs and preferences are scored on samples of the caller's choice."""

    def said(self, function):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = function()
        return result, " ".join(str(each.message) for each in said)

    def score_of(self, result, pairs):
        """The loss and the recall by their definition, from embeddings."""
        anchors, positives = (accrue.embed(result, [pair[name] for pair in pairs]).astype(np.float64)
                              for name in ("anchor", "positive"))
        likeness = 20 * anchors @ positives.T
        shifted = likeness - likeness.max(axis=1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(axis=1)) - np.diag(shifted)
        return losses.mean(), 100 * np.mean(likeness.argmax(axis=1) == np.arange(len(pairs)))

    def test_pairs(self):
        pairs = [{"anchor": f"text {i}", "positive": f"number {i * i}"} for i in range(40)]
        options = {"tokenizer": "bytes", "context": 32, "layers": 1, "micro_batch": 4, "effective_batch": 8, "steps": 3,
                   "lr": 1e-3}
        result = accrue.train("gpt-tiny", pairs[:24], test=pairs[24:], **options)
        self.assertEqual(result.scored, "test")
        self.assertEqual(result.score["samples"], 16)
        loss, recall = self.score_of(result, pairs[24:])
        # Softmax of 16 logits up to 20 from float32 states: 20 * 2^-23 * a few roundings.
        self.assertAlmostEqual(result.score["loss"], loss, delta=1e-4)
        self.assertEqual(result.score["recall@1"], recall)
        trainer = accrue.Trainer("gpt-tiny", pairs[:24], validation=pairs[24:32], test=pairs[32:], eval_every=1, **options)
        both = trainer.run()
        np.testing.assert_array_equal(both.losses, result.losses)  # all 24 are trained on, in the same order
        self.assertEqual(trainer.evaluate(pairs[24:]), result.score)
        self.assertEqual(trainer.evaluate(pairs[32:]), both.score)
        self.assertEqual(trainer.evaluate(pairs[24:32])["loss"], both.history["val_loss"][-1])
        columns = {name: [pair[name] for pair in pairs[24:]] for name in ("anchor", "positive")}
        self.assertEqual(trainer.evaluate(columns), result.score)
        self.assertEqual(accrue.evaluate(result, None, pairs[24:], tokenizer="bytes", context=32), result.score)
        with self.assertRaisesRegex(accrue.Error, "data is texts or tokens, but the trainer's is pairs of texts"):
            trainer.evaluate(["a text", "another"])

    def test_pairs_of_which_some_are_equal(self):
        pairs = [{"anchor": f"text {i}", "positive": f"number {i // 2}"} for i in range(24)]
        others = [{"anchor": f"text {i}", "positive": f"number {i}"} for i in range(24, 40)]
        options = {"tokenizer": "bytes", "context": 32, "layers": 1, "micro_batch": 4, "effective_batch": 8, "steps": 2}
        trainer = accrue.Trainer("gpt-tiny", pairs, validation=others, duplicates="ignore", **options)
        trainer.run()
        expected = accrue.evaluate(trainer, None, others, tokenizer="bytes", context=32)
        self.assertEqual(trainer.evaluate(others), expected)  # no text is equal to another
        trainer = accrue.Trainer("gpt-tiny", others[:12], validation=others[12:], **options)
        _, said = self.said(lambda: trainer.evaluate(pairs))
        self.assertIn("24 of 24 samples have a positive that is also another sample's", said)
        _, said = self.said(lambda: trainer.evaluate(others))
        self.assertEqual(said, "")

    def test_preferences(self):
        records = [{"prompt": f"What is {i}? ", "chosen": f"It is {i}.", "rejected": "No idea."} for i in range(40)]
        options = {"tokenizer": "bytes", "context": 96, "micro_batch": 2, "effective_batch": 4, "lora": 4}
        with tempfile.TemporaryDirectory() as folder:
            accrue.train("llama-tiny", [record["prompt"] for record in records], tokenizer="bytes", layers=1, context=32,
                         micro_batch=4, effective_batch=4, steps=1, save=f"{folder}/base.safetensors")
            options["base"] = f"{folder}/base.safetensors"
            trainer = accrue.Trainer(data=records[:20], validation=records[20:28], test=records[28:], eval_every=1, steps=2,
                                     **options)
            result = trainer.run()
            self.assertEqual((result.scored, result.score["samples"]), ("test", 12))
            self.assertEqual(trainer.evaluate(records[28:]), result.score)
            self.assertEqual(trainer.evaluate(records[20:28])["loss"], result.history["val_loss"][-1])
            self.assertNotEqual(result.score["loss"], result.history["val_loss"][-1])
            pairs = [{"anchor": "a", "positive": "b"}, {"anchor": "c", "positive": "d"}]
            with self.assertRaisesRegex(accrue.Error, "data is pairs of texts, but the trainer's is preferences"):
                trainer.evaluate(pairs)
            with self.assertRaisesRegex(accrue.Error, "the data are preferences, but the test has pairs of texts"):
                accrue.Trainer(data=records[:20], test=pairs, **options)


class Memory(unittest.TestCase):
    def test_is_released(self):
        x = np.ones((64, 20), np.float32)
        accrue.train(accrue.Sequential(accrue.Linear(20, 3)), (x, np.zeros(64, np.int32)))
        self.assertGreater(accrue.release(), 0)
        self.assertEqual(accrue.release(), 0)


if __name__ == "__main__":
    unittest.main()
