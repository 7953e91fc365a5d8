"""examples/python/ten_jobs.py does its jobs, and other libraries' names for arguments say what they are here."""

import importlib.util
import inspect
import pathlib
import pickle
import re
import tempfile
import unittest

import accrue
import numpy as np
from accrue import _names

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "ten_jobs.py"


def example():
    spec = importlib.util.spec_from_file_location("ten_jobs", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@unittest.skipUnless(EXAMPLE.exists(), "the examples are not here")
class TenJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.jobs = example().run(cls.folder.name)

    def done(self, name, *needed):
        for module in needed:
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"no {module}")
        return self.jobs[name]()

    def test_arrays(self):
        accuracy, answers = self.done("arrays")
        self.assertGreater(accuracy, 80)
        self.assertEqual(answers.shape, (200,))

    def test_loader(self):
        self.assertGreater(self.done("loader", "torch"), 80)

    def test_accumulation(self):
        self.assertGreater(self.done("accumulation", "torch"), 70)

    def test_early_stopping(self):
        self.assertGreater(self.done("early_stopping"), 80)

    def test_schedule(self):
        lr = self.done("schedule")
        self.assertEqual(np.argmax(lr), 9)
        self.assertLess(lr[-1], 1e-4)

    def test_curves(self):
        self.assertEqual(len(self.done("curves", "matplotlib")), 2)

    def test_new_head(self):
        self.assertGreater(self.done("new_head"), 40)  # of five classes
        self.assertTrue(pathlib.Path(self.folder.name, "new_head.onnx").exists())

    def test_lora(self):
        self.assertIn("Weather in", self.done("lora"))

    def test_pairs(self):
        likeness = self.done("pairs")
        found = np.mean(likeness.argmax(axis=1) == np.arange(len(likeness)))
        self.assertGreater(found, 0.2)  # by chance 1 of 800

    def test_grid_search(self):
        self.assertEqual(self.done("grid_search", "sklearn"), {"classifier__lr": 1e-2})


class Names(unittest.TestCase):
    def test_of_other_libraries_say_what_is_meant(self):
        known = {name for function in (accrue.train, accrue.generate) for name in inspect.signature(function).parameters}
        for name, meant in _names.MEANT.items():
            with self.subTest(name):
                self.assertNotIn(name, known)
                self.assertIn(re.match(r"\w+", meant)[0], known)
                function = accrue.generate if re.match(r"\w+", meant)[0] in ("temperature", "max_new_tokens") else None
                with self.assertRaisesRegex(accrue.Error, f"no argument {name}; did you mean "):
                    function("x", "y", **{name: 1}) if function else accrue.train(**{name: 1})
        with self.assertRaisesRegex(accrue.Error, r"^Trainer\(\) has no argument max_epochs; did you mean epochs\?$"):
            accrue.Trainer(max_epochs=3)

    def test_values_of_other_libraries_say_what_is_meant(self):
        for options, words in (({"device": "gpu"}, "device is gpu: expected 'cuda'"),
                               ({"precision": "bf16-mixed"}, "precision is bf16-mixed: expected 'bf16'"),
                               ({"lora_targets": "all-linear"}, "lora_targets is all-linear: expected 'all'"),
                               ({"base": {}}, "base is weights in memory, but it stays in its file"),
                               ({"metrics": ["accuracy"]}, "metrics has 'accuracy', which scores have by themselves")):
            with self.subTest(words), self.assertRaisesRegex(accrue.Error, f"^{words}"):
                accrue.train("mlp-small", "digits", **options)
        with self.assertRaisesRegex(accrue.Error, "^model is w.safetensors, a file of weights: expected init="):
            accrue.train("w.safetensors", "digits")


class FirstGuesses(unittest.TestCase):
    """Calls as users of other libraries write them first are errors that say what to write here."""

    def setUp(self):
        random = np.random.default_rng(0)
        self.x = random.normal(size=(64, 20)).astype(np.float32)
        self.y = np.arange(64) % 3
        self.data = self.x, self.y
        self.network = accrue.Sequential(accrue.Linear(20, 3))

    def says(self, words, guess, kind=accrue.Error):
        with self.subTest(words), self.assertRaises(kind) as raised:
            guess()
        self.assertIn(words, str(raised.exception))

    def test_of_keras(self):
        network, x, y = self.network, self.x, self.y
        self.says("no attribute 'Dense'; did you mean Linear(INPUTS, OUTPUTS)?", lambda: accrue.Dense(32, "relu"),
                  AttributeError)
        for name in ("fit", "compile", "evaluate", "predict"):
            self.says("accrue.train(model, (x, y), ...)", lambda name=name: getattr(network, name)(x, y), AttributeError)
        self.says("samples and their labels are one argument, (x, y)", lambda: accrue.train(network, x, y))
        self.says("did you mean effective_batch", lambda: accrue.train(network, self.data, batch_size=64))
        self.says("did you mean validation?", lambda: accrue.train(network, self.data, validation_data=self.data))
        self.says("did you mean patience=N and keep_best=True", lambda: accrue.EarlyStopping(patience=3), AttributeError)
        self.says("did you mean on_step or on_epoch", lambda: accrue.train(network, self.data, callbacks=[print]))
        self.says("did you mean keep_best=True?", lambda: accrue.train(network, self.data, restore_best_weights=True))
        self.says("metrics has 'accuracy', which scores have by themselves",
                  lambda: accrue.train(network, self.data, metrics=["accuracy"]))
        self.says("expected cross-entropy", lambda: accrue.train(network, self.data, loss="sparse_categorical_crossentropy"))
        self.says("did you mean Weights.load(FILE), or init=FILE", lambda: accrue.load_model("w"), AttributeError)
        result = accrue.train(network, self.data, steps=1)
        self.says("did you mean the history itself, a dictionary?", lambda: result.history.history["loss"], AttributeError)
        self.says("samples and their labels are one argument, (x, y)", lambda: result.evaluate(x, y))
        self.says("did you mean micro_batch?", lambda: accrue.predict(result, x, batch_size=8))

    def test_of_lightning(self):
        self.says("did you mean epochs?", lambda: accrue.Trainer(max_epochs=10))
        trainer = accrue.Trainer(self.network, self.data, steps=1)
        self.says("did you mean run()?", lambda: trainer.fit(self.network, self.data), AttributeError)
        self.says("did you mean evaluate(data)?", lambda: trainer.validate(self.data), AttributeError)
        self.says("did you mean history?", lambda: trainer.callback_metrics["loss"], AttributeError)
        self.says("did you mean micro_batch, the samples in memory", lambda: accrue.train(accumulate_grad_batches=3))
        self.says("did you mean clip_norm?", lambda: accrue.train(gradient_clip_val=1.0))
        self.says("did you mean device, such as 'cuda'?", lambda: accrue.train(accelerator="gpu"))

    def test_of_skorch_and_scikit_learn(self):
        self.says("did you mean Classifier?", lambda: accrue.NeuralNetClassifier(self.network), AttributeError)
        self.says("did you mean loss?", lambda: accrue.train(self.network, self.data, criterion=None))
        try:
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("needs scikit-learn")
        self.says("Classifier() has no argument max_epochs; did you mean epochs?", lambda: accrue.Classifier(max_epochs=5),
                  TypeError)
        self.says("did you mean weight_decay?", lambda: accrue.Classifier(alpha=5), TypeError)
        self.says("did you mean random_state?", lambda: accrue.Regressor(seed=5), TypeError)
        self.says("expected options={...}", lambda: accrue.Regressor(clip_norm=1.0), TypeError)

    def test_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("needs torch")
        module = torch.nn.Linear(20, 3)
        for optimizer in (torch.optim.AdamW, torch.optim.AdamW(module.parameters())):
            self.says("optimizer is PyTorch's AdamW: expected its name",
                      lambda optimizer=optimizer: accrue.train(module, self.data, optimizer=optimizer))
        for loss in (torch.nn.CrossEntropyLoss, torch.nn.CrossEntropyLoss(), torch.nn.functional.cross_entropy):
            self.says("expected its name, such as 'cross_entropy'", lambda loss=loss: accrue.train(module, self.data, loss=loss))
        self.says("class_weights has one for each class", lambda: accrue.loss("cross_entropy", weight=torch.ones(3)))

    def test_of_transformers_and_sentence_transformers(self):
        for name, meant in (("learning_rate", "lr"), ("num_train_epochs", "epochs"), ("per_device_train_batch_size", "micro_batch"),
                            ("gradient_accumulation_steps", "micro_batch"), ("max_seq_length", "context"),
                            ("max_length", "context"), ("train_dataset", "data"), ("eval_dataset", "validation"),
                            ("load_in_4bit", "base=FILE"), ("target_modules", "lora_targets"), ("peft_config", "lora"),
                            ("max_grad_norm", "clip_norm"), ("lr_scheduler_type", "schedule"), ("warmup_ratio", "warmup_steps"),
                            ("output_dir", "checkpoint_dir")):
            self.says(f"did you mean {meant}", lambda name=name: accrue.train("gpt-tiny", "grammar", **{name: 1}))
        for name, meant in (("max_length", "max_new_tokens"), ("do_sample", "temperature=0"), ("num_return_sequences", "seed")):
            self.says(f"did you mean {meant}", lambda name=name: accrue.generate("w.safetensors", "a", **{name: 1}))
        self.says("did you mean lora=RANK", lambda: accrue.LoraConfig(r=8), AttributeError)
        self.says("did you mean train() on pairs of texts, and embed()?", lambda: accrue.SentenceTransformer("x"), AttributeError)
        result = accrue.train(self.network, self.data, steps=1)
        self.says("did you mean accrue.embed(result, texts)?", lambda: result.encode(["a"]), AttributeError)
        self.says("did you mean accrue.generate(result, prompt)?", lambda: result.generate("a"), AttributeError)


class Results(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(0)
        self.x = random.normal(size=(64, 4)).astype(np.float32)
        self.y = np.arange(64) % 3
        self.network = accrue.Sequential(accrue.Linear(4, 3))
        self.result = accrue.train(self.network, (self.x, self.y), loss="cross_entropy", steps=2)
        self.expected = accrue.predict(self.result.weights, self.x, self.network)

    def test_stand_where_weights_do(self):
        np.testing.assert_array_equal(accrue.predict(self.result, self.x), self.expected)
        np.testing.assert_array_equal(self.result.predict(self.x), self.expected)
        score = accrue.evaluate(self.result.weights, self.network, (self.x, self.y))
        self.assertEqual(self.result.evaluate((self.x, self.y)), score)
        again = accrue.train(self.network, (self.x, self.y), init=self.result, steps=1)
        same = accrue.train(self.network, (self.x, self.y), init=self.result.weights, steps=1)
        np.testing.assert_array_equal(again.losses, same.losses)
        with tempfile.TemporaryDirectory() as folder:
            accrue.export_onnx(self.result, f"{folder}/w.onnx")
            self.result.save(f"{folder}/w.safetensors")
            self.assertEqual(list(accrue.Weights.load(f"{folder}/w.safetensors")), list(self.result.weights))

    def test_remember_layers_when_pickled_but_not_values(self):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(self.result)).predict(self.x), self.expected)
        x = accrue.input(4)
        result = accrue.train(accrue.Network(x, accrue.Linear(4, 3)(x)), (self.x, self.y), steps=1)
        result.predict(self.x)
        with self.assertRaisesRegex(accrue.Error, "^weights are of a network of layers.* expected the network as model"):
            pickle.loads(pickle.dumps(result)).predict(self.x)

    def test_weights_of_layers_ask_for_their_network(self):
        for ask in (lambda: accrue.predict(self.result.weights, self.x),
                    lambda: accrue.export(self.result.weights, "w.onnx")):
            with self.assertRaisesRegex(accrue.Error, "^weights are of a network of layers, which they do not describe"):
                ask()
        with self.assertRaisesRegex(accrue.Error, "^weights is a network of layers, which has none by itself"):
            accrue.predict(self.network, self.x)


class Columns(unittest.TestCase):
    def test_of_texts_are_records(self):
        options = {"tokenizer": "bytes", "layers": 1, "context": 24, "micro_batch": 16, "effective_batch": 32, "steps": 1}
        columns = {"anchor": [str(n) for n in range(100)], "positive": [f"no {n}" for n in range(100)]}
        records = [dict(zip(columns, row)) for row in zip(*columns.values())]
        losses = [accrue.train("gpt-tiny", data, **options).losses for data in (columns, records)]
        np.testing.assert_array_equal(*losses)
        columns["positive"].pop()
        with self.assertRaisesRegex(accrue.Error, "^the columns of data have different lengths: anchor 100, positive 99"):
            accrue.train("gpt-tiny", columns, **options)


if __name__ == "__main__":
    unittest.main()
