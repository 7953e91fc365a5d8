"""Texts and embeddings of language models."""

import subprocess
import sys
import tempfile
import unittest

import numpy as np

import accrue


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
            with self.assertRaisesRegex(accrue.Error, "a network of the caller's own: expected accrue.predict()"):
                ask(result, "some ", accrue.Sequential(accrue.Linear(2, 3)))


class Memory(unittest.TestCase):
    def test_is_released(self):
        x = np.ones((64, 20), np.float32)
        accrue.train(accrue.Sequential(accrue.Linear(20, 3)), (x, np.zeros(64, np.int32)))
        self.assertGreater(accrue.release(), 0)
        self.assertEqual(accrue.release(), 0)


if __name__ == "__main__":
    unittest.main()
