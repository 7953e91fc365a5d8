"""Tests of how the module takes options, and how it ends."""

import contextlib
import inspect
import io
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import numpy as np

import accrue


def samples(n=24, features=6):
    values = np.random.default_rng(0)
    return (values.normal(size=(n, features)).astype(np.float32),
            values.integers(0, 3, n).astype(np.int32))


def network():
    return accrue.Sequential([accrue.Linear(6, 4, activation="relu"), accrue.Linear(4, 3)])


BASE = {"threads": 1, "micro_batch": 4, "effective_batch": 8}
WEIGHTS = accrue.train(network(), samples(), steps=1, **BASE).weights

# Calls, each with a result that can be compared.
CALLS = {
    "train": lambda **options: accrue.train(network(), samples(), **BASE | options).losses,
    "Trainer": lambda **options: accrue.Trainer(network(), samples(), **BASE | options).steps,
    "plan": lambda **options: accrue.plan(network(), samples(),
                                          **{"memory": "1GiB", "effective_batch": 8} | options),
    "info": lambda **options: accrue.info("mlp-small", **options)["parameters"],
    "evaluate": lambda **options: accrue.evaluate(WEIGHTS, network(), samples(), **options),
    "predict": lambda **options: accrue.predict(WEIGHTS, samples()[0], network(), **options),
}


def run_python(code, *arguments, timeout=60):
    # The child takes SIGINT, even if the tests run in the background and ignore it.
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments],
                          capture_output=True, text=True, check=False, timeout=timeout,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


@contextlib.contextmanager
def working_in(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def annotations(function):
    return {name: parameter.annotation
            for name, parameter in inspect.signature(getattr(accrue, function)).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY}


class Draws:
    """Random keyword arguments, and the outcome to expect."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self):
        function = self.random.choice(list(CALLS))
        kind = self.random.choice(["wrong", "empty", "none", "unknown", "twice", "right"])
        types = annotations(function)
        name = self.random.choice(list(types))
        return (function, kind, *getattr(self, kind)(name, types[name]))

    # Each method returns the name that the error must contain, and the arguments.
    def wrong(self, name, type_):
        values = [1j, object(), b"x", {}]
        if type_.startswith("bool"):
            values += [1, 0, "yes", "", []]
        elif "'yes'" not in type_ and name != "test":
            values += [True, False, np.bool_(True)]
        return name, {name: self.random.choice(values)}

    def empty(self, name, type_):
        return name, {name: self.random.choice(["", []])}

    def none(self, name, type_):
        needed = ("threads", "micro_batch", "effective_batch", "memory")
        return name, {} if name in needed else {name: None}

    def unknown(self, name, type_):
        name += self.random.choice(["s", "_", "_size"])
        return name, {name: self.random.choice([None, False, True, 0, "x", []])}

    def twice(self, name, type_):
        other = name.replace("_", "-") if "_" in name else name.upper()
        return other, {name: None, other: None}

    def right(self, name, type_):
        choices = re.findall(r"'([^']*)'", type_)
        if choices:
            value = self.random.choice(choices)
        elif type_.startswith("bool"):
            value = True
        elif type_.startswith("int"):
            value = self.random.choice([2, np.int64(2), np.uint8(3)])
        elif type_.startswith("float"):
            value = self.random.choice([0.5, np.float32(0.25), np.array(0.5)])
        else:
            value = self.random.choice(["x", pathlib.Path("x")])
        return name, {name: value}


class Options(unittest.TestCase):
    def names(self, error, name, value):
        # The library says "strategy moments", without underscores, and a file by its own name.
        spelt = re.escape(name).replace("_", "[_ -]")
        if re.search(rf"(?<![\w-]){spelt}(?!\w)", str(error)):
            return True
        return isinstance(value, (str, pathlib.Path)) and f"'{value}'" in str(error)

    def test_by_chance_have_an_effect_or_are_refused_by_name(self):
        options = {f"--{name.replace('_', '-')}" for name in annotations("train")}
        expected = {name: call() for name, call in CALLS.items()}
        draws = Draws(57)
        succeeded = 0
        with tempfile.TemporaryDirectory() as folder, working_in(folder):
            for number in range(300):
                function, kind, name, arguments = draws.one()
                shown = f"{number}: {function}({arguments}), {kind}"
                try:
                    result = CALLS[function](**arguments)
                except accrue.Error as error:
                    self.assertNotEqual(kind, "none", f"{shown}: {error}")
                    self.assertTrue(self.names(error, name, arguments[name]), f"{shown}: {error}")
                    self.assertFalse(options & set(re.findall(r"--[a-z0-9-]+", str(error))),
                                     f"{shown}: {error}")
                    continue
                succeeded += 1
                self.assertIn(kind, ("none", "right"), shown)
                if kind == "none":
                    np.testing.assert_equal(result, expected[function], shown)
        self.assertGreater(succeeded, 50)

    def refused(self, words, function, **options):
        with self.assertRaisesRegex(accrue.Error, words):
            CALLS[function](**options)

    def test_are_values_and_never_words_of_a_command_line(self):
        for name in ("save", "json", "config", "profile"):
            self.refused(f"^{name} is empty: expected", "train", **{name: ""})
        self.refused("^save is True: expected FILE.safetensors$", "train", save=True)
        self.refused("^augment is empty: expected NAME", "train", augment=[])
        self.refused("^freeze is empty: expected NAME", "train", freeze=[])
        self.refused("^freeze is .'a,b'.: expected .*without a comma", "train", freeze=["a,b"])
        self.refused("^epochs is True: expected a whole number", "train", epochs=True)
        self.refused("^no_shuffle is 1: expected True or False", "train", no_shuffle=1)
        self.refused("^micro_batch is 0: expected a whole number above 0", "train", micro_batch=0)
        self.refused("^save is '-'", "train", save="-")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a, --lr=b.safetensors")
            CALLS["train"](steps=1, save=path)
            self.assertTrue(path.exists())

    def test_that_are_unknown_say_what_is_meant(self):
        self.refused("train.. has no argument shuffle; did you mean no_shuffle", "train",
                     shuffle=False)
        self.refused("predict.. has no argument softmax", "predict", softmax=False)
        self.refused("has no argument softmax", "predict", softmax=None)
        self.refused("learning_rate; did you mean lr.$", "train", learning_rate=None)
        self.refused("batch_size; did you mean effective_batch, .* beside micro_batch, .* at once.$",
                     "train", batch_size=8)
        self.refused("info.. has no argument vocabulary", "info", vocabulary=8)
        self.refused("predict.. has no argument hold_out", "predict", hold_out=0.5)

    def test_that_have_no_effect_are_refused(self):
        for name, value in (("width", 2), ("dropout", 0.5), ("init_scheme", "normal")):
            self.refused(f"^{name} has no effect on a network of layers", "train", **{name: value})
        self.refused("^hidden_size has no effect with model=sequential", "train", hidden_size=8)
        self.refused("^patience requires eval_every", "train", patience=3)
        self.refused("^split is for data sets alone", "evaluate", split="train")
        self.refused("^std acts on pixels", "predict", std=0.5)
        CALLS["train"](keep_best=False)  # False asks for nothing

    def test_are_numbers_as_python_has_them(self):
        expected = CALLS["train"](lr=0.25, steps=2)
        for lr in (np.float32(0.25), np.array(0.25), "0.25", np.float64(0.25)):
            np.testing.assert_array_equal(CALLS["train"](lr=lr, steps=np.int16(2)), expected)
        for lr in (1j, [0.25], np.ones(2), True, float("nan"), b"0.25"):
            self.refused("^lr is ", "train", lr=lr)

    def test_of_a_file_yield_to_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.toml")
            path.write_text("steps = 1\nno-shuffle = true\nlr = 0.25\n", encoding="utf-8")
            for options in ({}, {"no_shuffle": False}, {"lr": 0.5}):
                np.testing.assert_array_equal(
                    CALLS["train"](config=path, **options),
                    CALLS["train"](**{"steps": 1, "no_shuffle": True, "lr": 0.25} | options))
            path.write_text("stepss = 1\n", encoding="utf-8")
            self.refused("^config=.*stepss; did you mean steps", "train", config=path)

    def test_are_in_the_signatures(self):
        for function in CALLS:
            signature = inspect.signature(getattr(accrue, function))
            self.assertIn("micro_batch" if function != "plan" else "memory", signature.parameters)
        parameters = inspect.signature(accrue.train).parameters
        self.assertEqual(parameters["precision"].annotation,
                         "typing.Literal['bf16', 'fp16', 'fp32', 'fp64', 'tf32'] | None")
        self.assertEqual(parameters["freeze"].annotation, "str | typing.Sequence[str] | None")
        self.assertEqual(list(parameters)[:2], ["model", "data"])
        self.assertIn("effective_batch", accrue.Trainer.__init__.__doc__)
        self.assertIn("effective_batch", accrue.train.__doc__)
        stub = pathlib.Path(accrue.__file__).with_name("_accrue.pyi")
        if stub.exists():  # in the installed package
            for line in ("class Error(RuntimeError):", "class OutOfMemory(Error, MemoryError):"):
                self.assertIn(line, stub.read_text(encoding="utf-8"))


class Messages(unittest.TestCase):
    def test_name_the_argument_in_place_of_a_file_of_ours(self):
        other = {"0.weight": np.ones((2, 6), np.float32)}
        for call, words in (
                (lambda: accrue.predict(other, samples()[0], network()), "^weights does not fit"),
                (lambda: accrue.evaluate(other, network(), samples()), "^weights does not fit"),
                (lambda: CALLS["train"](init=other), "^init does not fit"),
                (lambda: accrue.evaluate({}, "mlp-small", "digits"), "weights"),
                (lambda: accrue.predict(3, samples()[0]), "^weights is 3: expected"),
                (lambda: accrue.predict(None, samples()[0]), "^weights is None: expected")):
            with self.assertRaisesRegex(accrue.Error, words) as raised:
                call()
            self.assertNotIn(tempfile.gettempdir(), str(raised.exception))

    def test_say_what_is_held_beyond_a_limit(self):
        with self.assertRaisesRegex(accrue.Error, "^memory_limit=1.0 KiB is less than the memory "
                                    "held before the run begins: .*data"):
            accrue.train(network(), samples(n=1000), memory_limit=1024, **BASE)
        accrue.train(network(), samples(n=1000), steps=1, **BASE)  # the limit is gone


class Threads(unittest.TestCase):
    def test_that_train_end_with_the_interpreter(self):
        for callback in ("None", "lambda step: None", "lambda step: time.sleep(100)"):
            ran = run_python(f"""
                import threading, time
                import numpy as np
                import accrue
                x = np.ones((64, 4), np.float32)
                layers = accrue.Sequential([accrue.Linear(4, 3)])
                began = threading.Event()
                def train():
                    trainer = accrue.Trainer(layers, (x, np.arange(64) % 3), epochs=10**6)
                    began.set()
                    trainer.run({callback})
                threading.Thread(target=train, daemon=True).start()
                began.wait()
                time.sleep(0.05)
                """)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), callback)

    def test_use_a_trainer_one_at_a_time(self):
        trainer = accrue.Trainer(network(), samples(), **BASE)
        running, go_on = threading.Event(), threading.Event()

        def wait(step):
            running.set()
            go_on.wait(60)

        thread = threading.Thread(target=trainer.run, args=(wait,))
        thread.start()
        running.wait(60)
        for use in (trainer.run, trainer.evaluate, lambda: trainer.predict(samples()[0]),
                    lambda: trainer.weights, lambda: trainer.memory,
                    lambda: trainer.save_weights("w")):
            with self.assertRaisesRegex(accrue.Error, "in use by another thread"):
                use()
        self.assertEqual((trainer.steps, trainer.is_finished), (1, False))
        go_on.set()
        thread.join()
        self.assertEqual((trainer.steps, trainer.is_finished), (3, True))

    def test_may_look_at_what_calls_them(self):
        looked = []
        trainer = accrue.Trainer(network(), samples(), **BASE)
        result = trainer.run(lambda step: looked.append(
            (trainer.steps, trainer.evaluate(), trainer.predict(samples()[0][:1]))))
        self.assertEqual([steps for steps, *_ in looked], [1, 2, 3])
        np.testing.assert_array_equal(result.losses, CALLS["train"]())
        trainer = accrue.Trainer(network(), samples(), **BASE)
        with self.assertRaisesRegex(accrue.Error, "runs already"):
            trainer.run(lambda step: trainer.run())
        self.assertEqual(trainer.steps, 1)


class Interrupts(unittest.TestCase):
    def test_end_what_goes_through_data(self):
        # Each takes minutes if it is not interrupted.
        ran = run_python("""
            import os, signal, threading, time
            import numpy as np
            import accrue
            x, y = np.ones((1 << 17, 64), np.float32), np.arange(1 << 17) % 3
            layers = accrue.Sequential([accrue.Linear(64, 4096), accrue.Linear(4096, 4096),
                                        accrue.Linear(4096, 3)])
            trainer = accrue.Trainer(layers, (x, y), micro_batch=1, effective_batch=1, steps=1,
                                     threads=1)
            weights = trainer.weights
            for name, call in (
                    ("predict", lambda: accrue.predict(weights, x, layers)),
                    ("evaluate", lambda: accrue.evaluate(weights, layers, (x, y))),
                    ("Trainer.predict", lambda: trainer.predict(x)),
                    ("Trainer.evaluate", lambda: trainer.evaluate((x, y))),
                    ("Trainer.run", trainer.run)):
                timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                try:
                    call()
                    print(name, "went on")
                except KeyboardInterrupt:
                    print(name)
            print(trainer.steps)
            """, timeout=100)
        self.assertEqual(ran.stdout.split("\n")[:-1],
                         ["predict", "evaluate", "Trainer.predict", "Trainer.evaluate",
                          "Trainer.run", "1"], ran.stderr)
        self.assertEqual(ran.stderr, "")

    def test_are_not_lost_in_what_prints(self):
        ran = run_python("""
            import os, signal, sys
            import accrue
            class Stream:
                def write(self, text):
                    if not text.startswith("mlp-small"):
                        return
                    os.kill(os.getpid(), signal.SIGINT)
                    sys.stderr.write("sent ")
                def flush(self):
                    pass
            before, sys.stdout = sys.stdout, Stream()
            try:
                accrue.train("mlp-small", "digits", quiet=False, epochs=1000)
            except KeyboardInterrupt:
                before.write("interrupted")
            """)
        self.assertEqual((ran.stdout, ran.stderr), ("interrupted", ""))

    def test_and_exceptions_let_nothing_be_scored(self):
        def stop(step):
            raise ValueError("enough")

        trainer = accrue.Trainer(network(), samples(), quiet=False, **BASE)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            with self.assertRaisesRegex(ValueError, "enough"):
                trainer.run(stop)
            self.assertNotIn("training accuracy", said.getvalue())
            self.assertIsNotNone(trainer.run().score)
            self.assertIn("training accuracy", said.getvalue())


if __name__ == "__main__":
    unittest.main()
