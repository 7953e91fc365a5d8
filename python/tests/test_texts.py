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


class Memory(unittest.TestCase):
    def test_is_released(self):
        x = np.ones((64, 20), np.float32)
        accrue.train(accrue.Sequential(accrue.Linear(20, 3)), (x, np.zeros(64, np.int32)))
        self.assertGreater(accrue.release(), 0)
        self.assertEqual(accrue.release(), 0)


if __name__ == "__main__":
    unittest.main()
