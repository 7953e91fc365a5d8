"""Prints the answers of onnxruntime to an ONNX file.

Usage: verify.py FILE OUTPUT SIZE... with the input's elements, float32, on standard input. The
answers come as float32 on standard output.
"""
import sys

sys.path = [path for path in sys.path if path]  # without the working directory

try:
    import numpy
    import onnxruntime
except ImportError:
    sys.exit(3)

file, output, *sizes = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 3
session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
x = numpy.frombuffer(sys.stdin.buffer.read(), "<f4").reshape([int(size) for size in sizes])
given = session.get_inputs()[0]
types = {"tensor(double)": "float64", "tensor(float16)": "float16"}
y = session.run([output], {given.name: x.astype(types.get(given.type, "float32"))})[0]
sys.stdout.buffer.write(numpy.ascontiguousarray(y, "<f4").tobytes())
