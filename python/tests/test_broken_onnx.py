"""ONNX files that are broken, or that accrue does not take: each is one error that names what is wrong, and nothing is
written."""

import contextlib
import os
import pathlib
import tempfile
import unittest

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


def numbers(name, *sizes):
    return numpy_helper.from_array(np.full(sizes, 0.5, np.float32), name)


def whole(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def node(op, inputs, outputs="y", name="culprit", **attributes):
    return h.make_node(op, inputs.split(), outputs.split(), name=name, **attributes)


def value(name, *sizes, type=None):
    return h.make_tensor_value_info(name, type or T.FLOAT, sizes)


def model(nodes, weights=(), inputs=None, outputs=None, opset=17, **more):
    """A model that maps x [N, 4] to y, unchecked."""
    graph = h.make_graph(nodes, "g", inputs or [value("x", "N", 4)], outputs or [value("y", "N", 3)], list(weights),
                         **more)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)


def linear(*before, weights=(), taken="x", **options):
    """A product with a weight behind these nodes."""
    return model([*before, node("Gemm", f"{taken} w", name="linear")], [numbers("w", 4, 3), *weights], **options)


def changed(of, change):
    change(of)
    return of


def elsewhere(location, **entries):
    """A weight in another file."""
    def change(made):
        weight = made.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = T.EXTERNAL
        for key, text in dict(location=location, **entries).items():
            weight.external_data.add(key=key, value=text)
    return changed(linear(), change)


def with_dims(*dims):
    return changed(linear(), lambda made: (made.graph.initializer[0].ClearField("dims"),
                                           made.graph.initializer[0].dims.extend(dims)))


def branch():
    return h.make_graph([node("Identity", "x", "b", "within")], "branch", [], [value("b", "N", 4)])


def many(*sizes):
    return dict(inputs=[value("x", "N", *sizes)])


# By the fault, how the file is made, and a pattern of the error.
FILES = {
    "opset 5": (lambda: linear(opset=5), "opset is 5"),
    "opset 99": (lambda: linear(opset=99), "opset is 99"),
    "no opset": (lambda: changed(linear(), lambda m: m.ClearField("opset_import")), "opset"),
    "no graph": (lambda: changed(linear(), lambda m: m.ClearField("graph")), "no ONNX file"),
    "no outputs": (lambda: changed(linear(), lambda m: m.graph.ClearField("output")), "no outputs"),
    "an output that nothing gives": (lambda: linear(outputs=[value("z", "N", 3)]), "'z'"),
    "a missing initializer": (lambda: linear(node("Add", "x gone", "h"), taken="h"), "culprit.*'gone'"),
    "a cycle": (lambda: linear(node("Add", "x b", "a", "first"), node("Relu", "a", "b"), taken="b"), "first|culprit"),
    "an output that is given twice": (lambda: linear(node("Relu", "x", "y")), "'y'"),
    "an input that a node gives": (lambda: linear(node("Relu", "x", "x")), "'x'"),
    "an initializer that is there twice": (lambda: linear(weights=[numbers("w", 4, 3)]), "'w'"),
    "an input that is there twice": (lambda: linear(inputs=[value("x", "N", 4)] * 2), "'x'"),
    "an initializer with too few elements": (lambda: with_dims(4, 4), "'w'"),
    "an initializer of huge sizes": (lambda: with_dims(1 << 40, 1 << 40), "'w'"),
    "an initializer of a negative size": (lambda: with_dims(-4, 3), "'w'.*-4"),
    "a weight of text": (lambda: model([node("Gemm", "x w")], [h.make_tensor("w", T.STRING, [4, 3], [b"a"] * 12)]),
                         "culprit|'w'"),
    "a weight of whole numbers": (lambda: model([node("Gemm", "x w")], [numpy_helper.from_array(
        np.ones((4, 3), np.int64), "w")]), "culprit|'w'"),
    "a weight in 8 bits": (lambda: model([node("Gemm", "x w")], [h.make_tensor(
        "w", T.FLOAT8E4M3FN, [4, 3], bytes(12), raw=True)]), "culprit|'w'"),
    "sparse initializers": (lambda: linear(sparse_initializer=[h.make_sparse_tensor(
        numbers("w2", 1), whole("i", 3), [4, 3])]), "sparse"),
    "a file outside": (lambda: elsewhere("../weights.bin"), "'w'.*beside"),
    "a file by its full path": (lambda: elsewhere("/etc/passwd"), "'w'.*beside"),
    "a file that is not there": (lambda: elsewhere("gone.bin"), "'w'.*gone.bin"),
    "a file that is too short": (lambda: elsewhere("short.bin"), "'w'.*short.bin"),
    "an offset beyond the end": (lambda: elsewhere("short.bin", offset="99"), "'w'.*short.bin"),
    "an offset that is no number": (lambda: elsewhere("short.bin", offset="-1"), "'w'.*offset"),
    "a link out of the folder": (lambda: elsewhere("link.bin"), "'w'.*link"),
    "control flow": (lambda: linear(node("If", "c", "h", then_branch=branch(), else_branch=branch()), taken="h",
                                    weights=[numpy_helper.from_array(np.array(True), "c")]), "culprit.*control flow"),
    "a loop": (lambda: linear(node("Loop", "m c x", "h", body=h.make_graph(
        [], "body", [value("i"), value("d", type=T.BOOL), value("b", "N", 4)],
        [value("d", type=T.BOOL), value("b", "N", 4)])), taken="h", weights=[
            whole("m", 3), numpy_helper.from_array(np.array(True), "c")]), "culprit"),
    "a quantized product": (lambda: model(
        [node("MatMulInteger", "x w")], [h.make_tensor("w", T.INT8, [4, 3], [1] * 12)],
        [value("x", "N", 4, type=T.UINT8)], [value("y", "N", 3, type=T.INT32)]), "culprit"),
    "a quantized weight": (lambda: model(
        [node("DequantizeLinear", "q s", "w"), node("Gemm", "x w", name="linear")],
        [h.make_tensor("q", T.INT8, [4, 3], [1] * 12), numpy_helper.from_array(np.float32(0.1), "s")]), "culprit"),
    "another domain": (lambda: linear(node("FusedGelu", "x", "h", domain="com.microsoft"), taken="h"), "culprit"),
    "functions": (lambda: changed(linear(), lambda m: m.functions.append(h.make_function(
        "own", "F", ["a"], ["b"], [node("Relu", "a", "b")], [h.make_opsetid("", 17)]))), "function.*F"),
    "an unknown op": (lambda: linear(node("Frobnicate", "x", "h"), taken="h"), "Frobnicate.*culprit"),
    "an unknown attribute": (lambda: linear(node("Relu", "x", "h", slope=0.1), taken="h"), "culprit.*slope"),
    "an attribute of another kind": (lambda: linear(node("Transpose", "x", "h", perm=[0.5, 1.5]), taken="h"),
                                     "culprit.*perm"),
    "an attribute that is there twice": (lambda: changed(
        linear(node("LeakyRelu", "x", "h", alpha=0.1), taken="h"),
        lambda m: m.graph.node[0].attribute.append(m.graph.node[0].attribute[0])), "culprit.*alpha"),
    "sizes that depend on data": (lambda: model(
        [node("NonZero", "x", "i"), node("Cast", "i", "y", "cast", to=T.FLOAT)], outputs=[value("y", 2, "K")]),
        "culprit"),
    "a shape that depends on data": (lambda: model(
        [node("Reshape", "x s", "h"), node("Gemm", "h w", name="linear")], [numbers("w", 4, 3)],
        [value("x", "N", 4), value("s", "N", type=T.INT64)]), "culprit"),
    "arithmetic on data's integers": (lambda: model(
        [node("Add", "t t", "u"), node("Gather", "w u", "y", "embedding")], [numbers("w", 40, 3)],
        [value("t", "N", 4, type=T.INT64)], [value("y", "N", 4, 3)]), "embedding.*data"),
    "complex numbers": (lambda: model([node("Gemm", "x w")], [numbers("w", 4, 3)],
                                      [value("x", "N", 4, type=T.COMPLEX64)]), "'x'|culprit"),
    "no input": (lambda: model([node("Identity", "w")], [numbers("w", 4, 3)], [value("unused", "N", 4)],
                               [value("y", 4, 3)]), "y|input"),
    "no weights": (lambda: model([node("Relu", "x")], outputs=[value("y", "N", 4)]), "no weights to train"),
    "an output without samples": (lambda: linear(node("ReduceMean", "x", "h", axes=[0], keepdims=1), taken="h",
                                                 outputs=[value("y", 1, 3)]), "culprit|linear|y"),
    "a softmax over the samples": (lambda: linear(node("Softmax", "x", "h", axis=0), taken="h"), "culprit"),
    "a tensor of nine dimensions": (lambda: changed(linear(), lambda m: (
        m.graph.initializer[0].ClearField("dims"), m.graph.initializer[0].dims.extend([4, 3] + [1] * 7))), "'w'"),
    "a shape that the file states wrongly": (lambda: linear(node("Relu", "x", "h"), taken="h",
                                                            value_info=[value("h", "N", 5)]), "culprit|'h'"),
    "an output of another shape": (lambda: linear(outputs=[value("y", "N", 7)]), "linear|'y'"),
    "a product of sizes that do not fit": (lambda: model([node("Gemm", "x w")], [numbers("w", 5, 3)]), "culprit"),
    "a convolution of other channels": (lambda: model(
        [node("Conv", "x w")], [numbers("w", 2, 5, 3, 3)], outputs=[value("y", "N", 2, 6, 6)], **many(3, 8, 8)),
        "culprit"),
    "a kernel of another shape": (lambda: model(
        [node("Conv", "x w", kernel_shape=[5, 5])], [numbers("w", 2, 3, 3, 3)], outputs=[value("y", "N", 2, 6, 6)],
        **many(3, 8, 8)), "culprit"),
    "a kernel larger than the image": (lambda: model(
        [node("Conv", "x w")], [numbers("w", 2, 3, 9, 9)], outputs=[value("y", "N", 2, 1, 1)], **many(3, 8, 8)),
        "culprit"),
    "a stride of 0": (lambda: model(
        [node("Conv", "x w", strides=[0, 0])], [numbers("w", 2, 3, 3, 3)], outputs=[value("y", "N", 2, 6, 6)],
        **many(3, 8, 8)), "culprit"),
    "a convolution in groups that do not divide": (lambda: model(
        [node("Conv", "x w", group=2)], [numbers("w", 2, 3, 3, 3)], outputs=[value("y", "N", 2, 6, 6)],
        **many(3, 8, 8)), "culprit"),
    "a permutation that is none": (lambda: linear(node("Transpose", "x", "h", perm=[0, 0]), taken="h"), "culprit"),
    "a concatenation along no dimension": (lambda: linear(node("Concat", "x x", "h", axis=5), taken="h"), "culprit"),
    "a reshape that does not fit": (lambda: linear(node("Reshape", "x s", "h"), taken="h", weights=[whole("s", -1, 7)]),
                                    "culprit"),
    "an embedding that is too short": (lambda: model(
        [node("Gather", "w i", "h"), node("Mul", "x h", name="product")],
        [numbers("w", 2, 4), whole("i", 5)], outputs=[value("y", "N", 4)]), "culprit"),
    "a fill of huge sizes": (lambda: linear(
        node("ConstantOfShape", "s", "f"), node("ReduceSum", "f", "m", "sum"), node("Add", "x m", "h", "add"),
        taken="h", weights=[whole("s", 1 << 31, 1 << 20)]), "culprit"),
    "a range of huge size": (lambda: linear(
        node("Range", "a b c", "r"), node("ReduceSum", "r", "m", "sum", keepdims=0),
        node("Cast", "m", "f", "cast", to=T.FLOAT), node("Add", "x f", "h", "add"), taken="h",
        weights=[numpy_helper.from_array(np.int64(v), n) for n, v in (("a", 0), ("b", 1 << 60), ("c", 1))]), "culprit"),
    "too few inputs": (lambda: model([node("Gemm", "x")]), "culprit"),
    "a sum of huge size": (lambda: linear(
        node("Reshape", "a s", "b", "reshape"), node("Add", "a b", "c"), node("ReduceSum", "c", "m", "sum", keepdims=0),
        node("Add", "x m", "h", "add"), taken="h", weights=[
            whole("s", -1, 1), numbers("a", 1 << 18)]), "culprit|reshape"),
}


@unittest.skipUnless(onnx, "needs onnx")
class Broken(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.outside.joinpath("weights.bin").write_bytes(bytes(4096))
        self.folder = self.outside / "within"
        self.folder.mkdir()
        self.folder.joinpath("short.bin").write_bytes(bytes(40))
        self.folder.joinpath("link.bin").symlink_to(self.outside / "weights.bin")

    def check(self, content, expected):
        path = self.folder / "net.onnx"
        path.write_bytes(content)
        before = sorted(os.listdir(self.folder))
        x, y = np.zeros((4, 4), np.float32), np.zeros(4, np.int64)
        with self.assertRaisesRegex(accrue.Error, "(?s)" + expected) as raised:
            accrue.train(path, (x, y), effective_batch=4, micro_batch=4, save=self.folder / "out.safetensors",
                         checkpoint_dir=self.folder / "checkpoints")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return str(raised.exception)

    def test_each_is_one_error_by_name(self):
        # A file that accrue takes, which shows that the others are refused for what is wrong with them.
        path = self.folder / "net.onnx"
        path.write_bytes(linear().SerializeToString())
        accrue.from_onnx(path)
        for what, (make, expected) in FILES.items():
            with self.subTest(what):
                self.check(make().SerializeToString(), expected)

    def test_files_that_are_cut_off(self):
        content = linear().SerializeToString()
        for end in range(0, len(content), 7):
            with self.subTest(end), contextlib.suppress(accrue.Error):
                (self.folder / "net.onnx").write_bytes(content[:end])
                accrue.from_onnx(self.folder / "net.onnx")
        self.check(b"", "empty")
        self.check(b"just a text\n", "no ONNX file")
        self.check(content[:len(content) // 2], "no ONNX file")

    def test_names_that_are_no_files(self):
        for path in (self.folder / "gone.onnx", self.folder):
            with self.assertRaisesRegex(accrue.Error, path.name):
                accrue.from_onnx(path)
