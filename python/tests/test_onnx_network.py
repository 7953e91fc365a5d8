"""Tests of an ONNX file in place of a model (docs/pytorch.md)."""

import pathlib
import tempfile
import unittest
import warnings

import numpy as np

import accrue

try:
    import onnx
except ImportError:
    onnx = None
else:
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper


def value(name, *sizes, type=None):
    return h.make_tensor_value_info(name, type or T.FLOAT, sizes)


def write(path, nodes, weights, inputs, outputs, opset=17, producer="own"):
    """Writes a model with these weights by name."""
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = h.make_graph(nodes, "g", inputs, outputs, stored)
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8, producer_name=producer)
    onnx.checker.check_model(made)
    path.write_bytes(made.SerializeToString())
    return path


def images(path, dtype=np.float32, size=8):
    """A convolution, a norm in training mode, a scale that no weight slot holds, and a head."""
    random = np.random.default_rng(1)
    kind = {np.float16: T.FLOAT16, np.float32: T.FLOAT, np.float64: T.DOUBLE}[dtype]
    weights = {"conv.weight": random.normal(size=(4, 3, 3, 3)), "bn.weight": np.ones(4), "bn.bias": np.zeros(4),
               "bn.running_mean": np.zeros(4), "bn.running_var": np.ones(4), "scale": np.full(4, 1.5),
               "fc.weight": random.normal(size=(5, 4)), "fc.bias": random.normal(size=5)}
    nodes = [h.make_node("Conv", ["x", "conv.weight"], ["1"], "conv", pads=[1, 1, 1, 1]),
             h.make_node("BatchNormalization", ["1", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"],
                         ["2", "mean", "var"], "bn", training_mode=1),
             h.make_node("Relu", ["2"], ["3"]), h.make_node("GlobalAveragePool", ["3"], ["4"]),
             h.make_node("Flatten", ["4"], ["5"]), h.make_node("Mul", ["5", "scale"], ["6"], "scaled"),
             h.make_node("Gemm", ["6", "fc.weight", "fc.bias"], ["y"], "fc", transB=1)]
    return write(path, nodes, {name: array.astype(dtype) for name, array in weights.items()},
                 [value("x", "N", 3, size, size, type=kind)], [value("y", "N", 5, type=kind)])


def tokens(path):
    """An embedding, of which a mask keeps some, and two heads."""
    random = np.random.default_rng(2)
    weights = {"table": random.normal(size=(7, 4)).astype(np.float32), "last": np.array([2], np.int64),
               "a.weight": random.normal(size=(4, 3)).astype(np.float32),
               "b.weight": random.normal(size=(4, 2)).astype(np.float32), "axis": np.array([1], np.int64)}
    nodes = [h.make_node("Gather", ["table", "tokens"], ["1"], "embedding"),
             h.make_node("Cast", ["mask"], ["2"], to=T.FLOAT), h.make_node("Unsqueeze", ["2", "last"], ["3"]),
             h.make_node("Mul", ["1", "3"], ["4"]), h.make_node("ReduceSum", ["4", "axis"], ["5"], keepdims=0),
             h.make_node("MatMul", ["5", "a.weight"], ["a"]), h.make_node("MatMul", ["5", "b.weight"], ["b"])]
    return write(path, nodes, weights, [value("tokens", "N", 6, type=T.INT64), value("mask", "N", 6, type=T.BOOL)],
                 [value("a", "N", 3), value("b", "N", 2)])


@unittest.skipUnless(onnx, "needs onnx")
class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(0)
        self.x = random.normal(size=(12, 3, 8, 8)).astype(np.float32)
        self.y = random.integers(0, 5, 12).astype(np.int32)
        self.options = dict(effective_batch=6, micro_batch=6, threads=1, no_shuffle=True, batch_norm="window",
                            batch_norm_by="keep")

    def test_a_line_trains_evaluates_and_answers(self):
        path = images(self.folder / "net.onnx")
        whole = accrue.train(path, (self.x, self.y), **self.options)
        split = accrue.train(str(path), (self.x, self.y), **(self.options | dict(micro_batch=4)))
        self.assertEqual(set(whole.weights), {"conv.weight", "bn.weight", "bn.bias", "bn.running_mean",
                                              "bn.running_var", "fc.weight", "fc.bias"})
        for name, array in whole.weights.items():
            np.testing.assert_allclose(split.weights[name], array, rtol=0, atol=1e-6)
        own = accrue.from_onnx(path)
        self.assertGreater(np.abs(whole.weights["conv.weight"] - own.weights["conv.weight"]).max(), 1e-5)
        plan = accrue.plan(path, (self.x, self.y), effective_batch=6, memory="1GiB", threads=1)
        self.assertIn("recommended", plan)
        self.assertIn("accuracy", accrue.evaluate(path, data=(self.x, self.y)))
        self.assertIn("accuracy", accrue.evaluate(whole.weights, path, (self.x, self.y)))
        answers = accrue.predict(whole.weights, self.x, path)
        self.assertEqual(answers.shape, (12, 5))
        self.assertEqual(accrue.predict(path, self.x).shape, (12, 5))
        trainer = accrue.Trainer(path, (self.x, self.y), **self.options)
        again = trainer.run()
        np.testing.assert_array_equal(again.weights["fc.weight"], whole.weights["fc.weight"])
        # Micro-batches of other sizes may cut sums elsewhere.
        np.testing.assert_allclose(trainer.predict(self.x), answers, rtol=0, atol=1e-6)
        self.assertEqual(accrue.info(path)["parameters"], sum(
            array.size for name, array in own.weights.items() if "running" not in name))
        with self.assertRaisesRegex(accrue.Error, "save"):
            whole.state_dict()

    def test_the_file_with_other_weights(self):
        for dtype in (np.float32, np.float64, np.float16):
            path = images(self.folder / "net.onnx", dtype)
            net = accrue.from_onnx(path)
            original = onnx.load(path)
            for initializer in original.graph.initializer:
                if initializer.name in net.weights:
                    np.testing.assert_array_equal(net.weights[initializer.name],
                                                  numpy_helper.to_array(initializer).astype(np.float64))
            result = accrue.train(net, (self.x, self.y), **self.options)
            self.assertEqual({array.dtype for array in result.weights.values()},
                             {np.dtype(np.float64 if dtype == np.float64 else np.float32)})
            net.save(self.folder / "tuned.onnx", result.weights)
            accrue.export(result.weights, self.folder / "other.onnx", path)
            tuned = onnx.load(self.folder / "tuned.onnx")
            self.assertEqual(tuned, onnx.load(self.folder / "other.onnx"))
            for before, after in zip(original.graph.initializer, tuned.graph.initializer):
                self.assertEqual((before.name, before.data_type), (after.name, after.data_type))
                self.assertEqual(before.dims, after.dims)
                expected = result.weights.get(before.name, numpy_helper.to_array(before))
                np.testing.assert_array_equal(numpy_helper.to_array(after), expected.astype(dtype))
            for made in (original, tuned):
                made.graph.ClearField("initializer")
            self.assertEqual(original, tuned)
        with self.assertRaisesRegex(accrue.Error, "no bytes"):
            accrue.export(result.weights, self.folder / "other.onnx", path, bytes=True)
        with self.assertRaisesRegex(accrue.Error, "conv.weight"):
            net.save(self.folder / "none.onnx", {"fc.bias": np.zeros(5, np.float32)})
        self.assertFalse((self.folder / "none.onnx").exists())

    def test_constants_are_trained_where_they_are_named(self):
        path = images(self.folder / "net.onnx")
        net = accrue.from_onnx(path)
        self.assertEqual(net.constants, ["scale"])
        self.assertNotIn("scale", net.weights)
        trained = accrue.from_onnx(path, train="scale")
        result = accrue.train(trained, (self.x, self.y), **self.options)
        self.assertGreater(np.abs(result.weights["scale"] - 1.5).max(), 0)
        with self.assertRaisesRegex(accrue.Error, "gone"):
            accrue.from_onnx(path, train=["gone"])

    def test_inputs_and_outputs_by_name(self):
        net = accrue.from_onnx(tokens(self.folder / "net.onnx"))
        self.assertEqual((net.inputs, net.outputs), (["tokens", "mask"], ["a", "b"]))
        random = np.random.default_rng(3)
        data = {"tokens": random.integers(0, 7, (12, 6)), "mask": random.integers(0, 2, (12, 6)).astype(bool),
                "a": random.integers(0, 3, 12), "b": random.normal(size=(12, 2)).astype(np.float32)}
        loss = {"a": "cross_entropy", "b": accrue.loss("mse", weight=0.5)}
        options = dict(effective_batch=6, threads=1, no_shuffle=True, loss=loss)
        whole = accrue.train(net, data, micro_batch=6, **options)
        split = accrue.train(net, data, micro_batch=4, **options)
        for name, array in whole.weights.items():
            np.testing.assert_allclose(split.weights[name], array, rtol=0, atol=1e-6)
        seen = {name: data[name] for name in net.inputs}
        answers = accrue.predict(net, seen)
        summed = (net.weights["table"][data["tokens"]] * data["mask"][..., None]).sum(1)
        for name in net.outputs:
            np.testing.assert_allclose(answers[name], summed @ net.weights[f"{name}.weight"], rtol=0, atol=1e-5)
        one = accrue.from_onnx(net.path, outputs="a")
        self.assertNotIn("b.weight", one.weights)
        accrue.train(one, ((data["tokens"], data["mask"]), data["a"]), effective_batch=6, micro_batch=6, threads=1)
        with self.assertRaisesRegex(accrue.Error, "a, b"):
            accrue.train(net, ((data["tokens"], data["mask"]), data["a"]), effective_batch=6, micro_batch=6, threads=1)
        with self.assertRaisesRegex(accrue.Error, "gone"):
            accrue.from_onnx(net.path, outputs="gone")

    def test_weights_in_nodes(self):
        path = images(self.folder / "net.onnx")
        model = onnx.load(path)
        held = [w for w in model.graph.initializer if w.name in ("conv.weight", "bn.running_mean", "fc.bias")]
        for weight in held:
            model.graph.initializer.remove(weight)
            model.graph.node.insert(0, h.make_node("Constant", [], [weight.name], value=weight))
        within = self.folder / "within.onnx"
        onnx.save(model, within)
        expected, found = (accrue.train(p, (self.x, self.y), **self.options) for p in (path, within))
        self.assertEqual(set(found.weights), set(expected.weights))
        for name, array in expected.weights.items():
            np.testing.assert_array_equal(found.weights[name], array)
        tuned = self.folder / "tuned.onnx"
        accrue.from_onnx(within).save(tuned, found.weights)
        self.assertEqual(len(onnx.load(tuned).graph.initializer), len(model.graph.initializer))
        for name, array in accrue.from_onnx(tuned).weights.items():
            np.testing.assert_array_equal(array, found.weights[name])

    def test_a_bias_of_one_number_in_a_node(self):
        weights = {"w": np.ones((4, 1), np.float32), "b": np.full(1, 0.5, np.float32)}
        head = {"Gemm": [h.make_node("Gemm", ["x", "w", "b"], ["y"])],
                "Add": [h.make_node("MatMul", ["x", "w"], ["1"]), h.make_node("Add", ["1", "b"], ["y"])]}
        x, y = np.random.default_rng(4).normal(size=(6, 4)).astype(np.float32), np.zeros((6, 1), np.float32)
        for name, nodes in head.items():
            held = [h.make_node("Constant", [], [n], value=numpy_helper.from_array(w, n)) for n, w in weights.items()]
            trained = []
            for stored, parts in ((weights, nodes), ({}, held + nodes)):
                path = write(self.folder / "net.onnx", parts, stored, [value("x", "N", 4)], [value("y", "N", 1)])
                trained.append(accrue.train(path, (x, y), loss="mse", effective_batch=6, micro_batch=3, threads=1))
            self.assertEqual(set(trained[1].weights), {"w", "b"}, name)
            self.assertNotEqual(trained[1].weights["b"][0], 0.5)
            np.testing.assert_array_equal(trained[1].weights["b"], trained[0].weights["b"])

    def test_norms_without_weights_have_none(self):
        # PyTorch writes them with a Constant of ones and one of zeros.
        weights = {"w": np.ones((4, 3), np.float32)}
        for op in ("LayerNormalization", "InstanceNormalization", "BatchNormalization"):
            along_rows = op == "LayerNormalization"  # the others have the channels before the places
            for scale, trained in ((1, {"w"}), (1.5, {"w", "s"})):
                rest = {"s": np.full(4, scale), "b": np.zeros(4), "mean": np.zeros(4), "var": np.ones(4)}
                slots = list(rest) if op == "BatchNormalization" else ["s", "b"]
                held = [h.make_node("Constant", [], [n], value=numpy_helper.from_array(rest[n].astype(np.float32), n))
                        for n in slots]
                nodes = [*held, h.make_node("Transpose", ["x"], ["rows"], perm=[0, 2, 1]),
                         h.make_node(op, ["rows" if along_rows else "x", *slots], ["n"]),
                         h.make_node("Transpose", ["n"], ["r"], perm=[0, 1, 2] if along_rows else [0, 2, 1]),
                         h.make_node("MatMul", ["r", "w"], ["y"])]
                path = write(self.folder / "net.onnx", nodes, weights, [value("x", "N", 4, 5)], [value("y", "N", 5, 3)])
                self.assertEqual(set(accrue.from_onnx(path).shapes) - {"mean", "var"}, trained, op)

    def test_norms_without_weights_have_none_where_pytorch_holds_them_as_initializers(self):
        for scale, shift, names, producer, trained in (
                (1, 0, ("val_2", "val_3"), "pytorch", set()),  # by dynamo=True, whose own constants are numbered
                (1, 0, ("ln.weight", "ln.bias"), "pytorch", {"ln.weight", "ln.bias"}),  # nobody has trained them yet
                (1, 0, ("val_2", "val_3"), "own", {"val_2", "val_3"}), (1, 0, ("val_a", "val_3"), "pytorch", {"val_a"}),
                (1.5, 0, ("val_2", "val_3"), "pytorch", {"val_2"}), (1, 1, ("val_2", "val_3"), "pytorch", {"val_3"})):
            held = dict(zip(names, (np.full(4, scale, np.float32), np.full(4, shift, np.float32))))
            nodes = [h.make_node("LayerNormalization", ["x", *names], ["n"]), h.make_node("MatMul", ["n", "w"], ["y"])]
            path = write(self.folder / "net.onnx", nodes, {"w": np.ones((4, 3), np.float32), **held}, [value("x", "N", 4)],
                         [value("y", "N", 3)], producer=producer)
            with self.subTest(names=names, producer=producer, scale=scale, shift=shift), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(set(accrue.from_onnx(path).shapes), {"w", *trained})

    def test_integers_that_become_numbers(self):
        weights = {"w": np.ones((4, 3), np.float32), "b": np.zeros(3, np.float32)}
        nodes = [h.make_node("Cast", ["x"], ["1"], to=T.FLOAT), h.make_node("Gemm", ["1", "w", "b"], ["y"])]
        path = write(self.folder / "net.onnx", nodes, weights, [value("x", "N", 4, type=T.INT64)],
                     [value("y", "N", 3)])
        x, y = np.arange(24).reshape(6, 4), np.zeros((6, 3), np.float32)
        options = dict(loss="mse", effective_batch=6, micro_batch=3, threads=1)
        accrue.train(path, (x % 2, y), **options)
        with self.assertRaisesRegex(accrue.Error, "x has 23.*expected 0 or 1"):
            accrue.train(path, (x, y), **options)

    def test_attention_that_is_refused_has_a_name_in_the_file(self):
        def attention(axis):
            nodes = [h.make_node("Transpose", ["x"], ["t"], "turn", perm=[0, 1, 3, 2]),
                     h.make_node("MatMul", ["x", "t"], ["s"], "scores"),
                     h.make_node("Softmax", ["s"], ["p"], "softmax", **axis),
                     h.make_node("MatMul", ["p", "x"], ["a"], "product"), h.make_node("MatMul", ["a", "w"], ["y"])]
            return write(self.folder / "net.onnx", nodes, {"w": np.ones((4, 3), np.float32)},
                         [value("x", "N", 2, 5, 4)], [value("y", "N", 2, 5, 3)], opset=11)

        net = accrue.from_onnx(attention({}))  # over all of a sample
        x = np.random.default_rng(3).normal(size=(2, 2, 5, 4)).astype(np.float32)
        scores = np.exp(x @ x.transpose(0, 1, 3, 2))
        expected = scores / scores.sum((1, 2, 3), keepdims=True) @ x @ net.weights["w"]
        np.testing.assert_allclose(accrue.predict(net, x), expected, rtol=0, atol=1e-5)
        with self.assertRaisesRegex(accrue.Error, "MatMul 'product': its softmax"):
            accrue.from_onnx(attention({"axis": 2}))

    def test_a_token_of_each_sample_in_a_file_of_one(self):
        random = np.random.default_rng(5)
        weights = {"token": random.normal(size=(1, 1, 4)).astype(np.float32),
                   "w": random.normal(size=(4, 3)).astype(np.float32)}
        nodes = [h.make_node("Concat", ["token", "x"], ["1"], axis=1), h.make_node("Relu", ["1"], ["2"]),
                 h.make_node("ReduceMean", ["2"], ["3"], axes=[1], keepdims=0),
                 h.make_node("MatMul", ["3", "w"], ["y"])]
        path = write(self.folder / "net.onnx", nodes, weights, [value("x", 1, 5, 4)], [value("y", 1, 3)])
        x = random.normal(size=(6, 5, 4)).astype(np.float32)
        joined = np.concatenate([np.broadcast_to(weights["token"], (6, 1, 4)), x], 1)
        net = accrue.from_onnx(path, train="token")
        expected = np.maximum(joined, 0).mean(1) @ weights["w"]
        np.testing.assert_allclose(accrue.predict(net, x), expected, rtol=0, atol=1e-5)
        options = dict(loss="mse", effective_batch=6, threads=1, no_shuffle=True)
        whole, split = (accrue.train(net, (x, expected + 1), micro_batch=micro, **options) for micro in (6, 4))
        self.assertGreater(np.abs(whole.weights["token"] - weights["token"]).max(), 0)
        np.testing.assert_allclose(split.weights["token"], whole.weights["token"], rtol=0, atol=1e-6)

    def test_sizes_that_the_file_leaves_free(self):
        path = images(self.folder / "net.onnx", size="S")
        accrue.train(path, (self.x, self.y), **self.options)
        net = accrue.from_onnx(path, samples=(3, 8, 8))
        accrue.train(net, (self.x, self.y), **self.options)
        accrue.from_onnx(path, samples={"x": (3, 6, 6)})
        with self.assertRaisesRegex(accrue.Error, "samples.*x|x.*samples"):
            accrue.from_onnx(path)

    def test_a_last_softmax_is_named(self):
        path = write(self.folder / "net.onnx",
                     [h.make_node("Flatten", ["x"], ["1"]), h.make_node("Gemm", ["1", "w"], ["logits"]),
                      h.make_node("Softmax", ["logits"], ["y"])],
                     {"w": np.random.default_rng(3).normal(size=(192, 5)).astype(np.float32)},
                     [value("x", "N", 3, 8, 8)], [value("y", "N", 5)])
        options = dict(effective_batch=6, micro_batch=4, threads=1)
        with self.assertWarnsRegex(UserWarning, 'outputs="logits"'):
            accrue.train(path, (self.x, self.y), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            accrue.train(accrue.from_onnx(path, outputs="logits"), (self.x, self.y), **options)
            accrue.train(path, (self.x, np.zeros((12, 5), np.float32)), loss="mse", **options)

    def test_notes_are_warnings(self):
        random = np.random.default_rng(4)
        path = write(self.folder / "net.onnx",
                     [h.make_node("Conv", ["x", "w", "b"], ["1"]), h.make_node("Relu", ["1"], ["2"]),
                      h.make_node("Flatten", ["2"], ["3"]), h.make_node("Gemm", ["3", "c"], ["y"])],
                     {"w": random.normal(size=(2, 3, 3, 3)).astype(np.float32), "b": np.zeros(2, np.float32),
                      "c": random.normal(size=(72, 5)).astype(np.float32)},
                     [value("x", 1, 3, 8, 8)], [value("y", 1, 5)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            net = accrue.from_onnx(path)
        self.assertEqual([str(each.message) for each in caught], [f"{path}: {note}" for note in net.notes])
        self.assertTrue(all(each.filename == __file__ for each in caught))
        # The file says one sample, and more are trained.
        accrue.train(net, (self.x, self.y), effective_batch=6, micro_batch=4, threads=1)


if __name__ == "__main__":
    unittest.main()
