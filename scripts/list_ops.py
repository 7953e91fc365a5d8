#!/usr/bin/env python3
"""Writes docs/ops.md, the ops of graphs and of Python, from their list and the headers that say what they compute.

    scripts/list_ops.py                 writes the page
    scripts/list_ops.py --check         fails if the page is out of date, or an op has no contract
    scripts/list_ops.py --cpp FILE      writes the same texts as C++, from which Python's docstrings are made

An op's signature stands in the list (layers/graph_op_list.cpp, layers/graph_general_ops.cpp), a formula's in
kernels/detail/elementwise_formulas.h. Its contract is the comment above the function of its name in a header of
kernels/, or of the functions that ELSEWHERE names. A new op needs lines in SUBJECTS and SUMMARIES, a new argument one in
ARGUMENTS.
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ops.md"
LISTS = "layers/graph_op_list.cpp", "layers/graph_general_ops.cpp"
FORMULAS = "kernels/detail/elementwise_formulas.h"
# The ops by subject: name, header, and the functions whose comments are the contract if the name is another.
SUBJECTS = {
    "Products and convolutions": {
        "linear": "linear", "matmul": "batched_matmul", "conv2d": "conv2d", "conv_transpose2d": "conv_transpose2d",
        "embedding": "embedding"},
    "Norms": {name: "norm" for name in ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")},
    "Attention": {"scaled_dot_product_attention": "attention", "attention_rows": "attention",
                  "causal_attention": "causal_attention", "self_attention": "self_attention", "softmax": "softmax",
                  "log_softmax": "softmax"},
    "Activations": {**{name: "pointwise" for name in ("relu", "gelu", "sigmoid", "tanh", "silu", "leaky_relu")},
                    "swiglu": "swiglu", "dropout": "dropout", "stochastic_depth": "dropout"},
    "Arithmetic": {"add": "arithmetic", "mul": "arithmetic", "scale": "arithmetic", "scale_add": "scale_add",
                   "clamp": "elementwise"},
    "Images": {"max_pool2d": "pool", "avg_pool2d": "pool", "adaptive_avg_pool2d": "adaptive_pool",
               "interpolate": "resize", "pixel_shuffle": "pixel_shuffle", "crop": "crop_or_pad", "pad": "pad"},
    "Shapes and moved data": {
        "reshape": "", "detach": "", "cat": "concat", "one_hot": "one_hot", "index_select": "gather", "gather": "gather",
        **{name: "rearrange" for name in ("flatten", "unsqueeze", "squeeze", "permute", "transpose", "slice", "split",
                                          "chunk", "stack", "roll", "flip", "expand", "tile")}},
    "Reductions": {name: "reduce" for name in ("sum", "mean", "amax", "amin", "var", "argmax", "argmin", "cumsum")},
}
# The functions, in order, where they are not the op's name alone.
ELSEWHERE = {
    "scaled_dot_product_attention": ["attention"], "cat": ["concat"], "interpolate": ["resize", "resize_by"],
    "chunk": ["split"], "rms_norm": ["layer_norm", "rms_norm"], "group_norm": ["layer_norm", "group_norm"],
    "instance_norm": ["layer_norm", "instance_norm"], "batch_norm": ["layer_norm", "batch_norm"],
    "log_softmax": ["softmax", "log_softmax"], "clamp": ["apply"], "argmin": ["amax", "argmin"],
    "argmax": ["amax", "argmax"], "gather": ["index_select", "gather"], "attention_rows": ["attention", "attention_rows"],
}
OWN = {
    "reshape": "y has x's elements, in their order, under another shape, at no cost. One size may be -1, which stands "
               "for the rest. Throws Error unless the number of elements agrees.",
    "detach": "y has x's elements, at no cost, and is a constant to differentiation: x gets no gradient of it.",
    "clamp": "y = min(max(input, min), max), without the bound that is None. A NaN stays one. Gradient: dy where input "
             "is between the bounds, else 0, also at a bound. ",
    "chunk": "As split(), in `chunks` slices of equal size, but for a smaller last one. There may be fewer.",
    "scaled_dot_product_attention": "is_causal=True: query t sees key s if s <= t. key_mask [N, S] hides keys where it is 0.",
    "attention_rows": "is_causal=True: query t sees key s if s <= t. key_mask [N, S] hides keys where it is 0. Without key "
                      "and value, query is qkv.",
}
# ONNX's operators, where there is one.
ONNX = {
    "linear": "Gemm or MatMul", "matmul": "MatMul", "conv2d": "Conv", "conv_transpose2d": "ConvTranspose",
    "embedding": "Gather", "layer_norm": "LayerNormalization", "group_norm": "GroupNormalization",
    "instance_norm": "InstanceNormalization", "batch_norm": "BatchNormalization", "softmax": "Softmax",
    "log_softmax": "LogSoftmax", "relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "leaky_relu": "LeakyRelu", "add": "Add", "mul": "Mul", "scale": "Mul", "clamp": "Clip", "max_pool2d": "MaxPool",
    "avg_pool2d": "AveragePool", "adaptive_avg_pool2d": "GlobalAveragePool for size 1", "interpolate": "Resize",
    "pixel_shuffle": "DepthToSpace", "crop": "Slice", "pad": "Pad", "reshape": "Reshape", "cat": "Concat",
    "one_hot": "OneHot", "index_select": "Gather", "gather": "GatherElements", "flatten": "Reshape",
    "unsqueeze": "Unsqueeze", "squeeze": "Squeeze", "permute": "Transpose", "transpose": "Transpose",
    "slice": "Slice", "split": "Split", "chunk": "Split", "expand": "Expand", "tile": "Tile", "sum": "ReduceSum",
    "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "argmax": "ArgMax", "argmin": "ArgMin",
    "cumsum": "CumSum", "dropout": "Dropout",
}
# Formulas by one function of kernels/detail/elementwise_functions.h, written out.
WRITTEN_OUT = {
    "softplus_of(a, beta, threshold)": "log(1 + exp(beta * a)) / beta, or a where beta * a > threshold",
    "softplus_slope_of(a, beta, threshold)": "sigmoid(beta * a), or dy where beta * a > threshold",
    "mish_of(a)": "a * tanh(log(1 + exp(a)))", "mish_slope_of(a)": "(its slope at a)",
    "-softplus_of(-a)": "-log(1 + exp(-a))", "formula::Sigmoid{}(-a)": "sigmoid(-a)",
    "remainder_of(a, b)": "a - b * floor(a / b)", "floor_quotient_of(a, b)": "floor(a / b)",
}
ALIASES = {"hard_sigmoid": "hardsigmoid", "hard_swish": "hardswish", "log_sigmoid": "logsigmoid"}
# A line for each op that is no formula, and a call of it in Python's console with its result. "x" is accrue.input(4, 6),
# "image" accrue.input(3, 8, 8), "index" accrue.input(5, dtype="int32"), and "w" a parameter of the sizes that follow it.
SUMMARIES = {
    "linear": ("Multiplies rows by a matrix of weights.", "accrue.linear(x, w[3, 6])", "[N, 4, 3]"),
    "matmul": ("Multiplies matrices.", "accrue.matmul(x, x.transpose(1, 2))", "[N, 4, 4]"),
    "conv2d": ("Convolves images with filters.", "accrue.conv2d(image, w[5, 3, 3, 3], padding=1)", "[N, 5, 8, 8]"),
    "conv_transpose2d": ("Convolves images with filters, transposed.",
                         "accrue.conv_transpose2d(image, w[3, 5, 2, 2], stride=2)", "[N, 5, 16, 16]"),
    "embedding": ("Looks up rows of a table of weights.", "accrue.embedding(index, w[10, 7])", "[N, 5, 7]"),
    "layer_norm": ("Normalizes the last dimensions.", "accrue.layer_norm(x, 6)", "[N, 4, 6]"),
    "rms_norm": ("Divides rows by their root mean square.", "accrue.rms_norm(x, 6)", "[N, 4, 6]"),
    "group_norm": ("Normalizes groups of channels.", "accrue.group_norm(x, 2)", "[N, 4, 6]"),
    "instance_norm": ("Normalizes each channel of a sample.", "accrue.instance_norm(image)", "[N, 3, 8, 8]"),
    "batch_norm": ("Normalizes each channel of a micro-batch.",
                   "accrue.batch_norm(image, b[3, 'mean'], b[3, 'var'], training=True)", "[N, 3, 8, 8]"),
    "scaled_dot_product_attention": ("Attends to values by products of queries and keys.",
                                     "accrue.scaled_dot_product_attention(image, image, image)", "[N, 3, 8, 8]"),
    "attention_rows": ("Attends by heads that lie side by side in rows.", "accrue.attention_rows(x, 2)", "[N, 4, 2]"),
    "causal_attention": ("Attends to values at a query's place or before it.", "accrue.causal_attention(x, x, x, 2)",
                         "[N, 4, 6]"),
    "self_attention": ("Attends to values at all places of an image.", "accrue.self_attention(x, x, x)", "[N, 4, 6]"),
    "softmax": ("Makes probabilities of logits.", "accrue.softmax(x, -1)", "[N, 4, 6]"),
    "log_softmax": ("Makes logarithms of probabilities of logits.", "accrue.log_softmax(x, -1)", "[N, 4, 6]"),
    "relu": ("Computes y = max(x, 0).", "accrue.relu(x)", "[N, 4, 6]"),
    "gelu": ("Computes y = x P(z <= x) for a normal z.", "accrue.gelu(x, approximate='tanh')", "[N, 4, 6]"),
    "sigmoid": ("Computes y = 1 / (1 + exp(-x)).", "accrue.sigmoid(x)", "[N, 4, 6]"),
    "tanh": ("Computes y = tanh(x).", "accrue.tanh(x)", "[N, 4, 6]"),
    "silu": ("Computes y = x / (1 + exp(-x)).", "accrue.silu(x)", "[N, 4, 6]"),
    "leaky_relu": ("Computes y = x, or a multiple of x where x is negative.", "accrue.leaky_relu(x, 0.1)", "[N, 4, 6]"),
    "swiglu": ("Multiplies silu of one half by the other.", "accrue.swiglu(x, x)", "[N, 4, 6]"),
    "dropout": ("Sets elements to 0 by chance, and enlarges the others.", "accrue.dropout(x, 0.5)", "[N, 4, 6]"),
    "stochastic_depth": ("Sets samples to 0 by chance, and enlarges the others.", "accrue.stochastic_depth(x, 0.1)",
                         "[N, 4, 6]"),
    "add": ("Adds values, element by element.", "accrue.add(x, x[:, :1])", "[N, 4, 6]"),
    "mul": ("Multiplies values, element by element.", "accrue.mul(x, x[:, :1])", "[N, 4, 6]"),
    "scale": ("Multiplies a value by a number.", "accrue.scale(x, 0.5)", "[N, 4, 6]"),
    "scale_add": ("Adds a value to a learned multiple of another.", "accrue.scale_add(x, w[1], x)", "[N, 4, 6]"),
    "clamp": ("Keeps elements between two bounds.", "accrue.clamp(x, min=0.0, max=6.0)", "[N, 4, 6]"),
    "max_pool2d": ("Takes the largest pixel of each window.", "accrue.max_pool2d(image, 2)", "[N, 3, 4, 4]"),
    "avg_pool2d": ("Takes the mean of each window of pixels.", "accrue.avg_pool2d(image, 2)", "[N, 3, 4, 4]"),
    "adaptive_avg_pool2d": ("Takes means of as many windows as are wanted.", "accrue.adaptive_avg_pool2d(image, 1)",
                            "[N, 3, 1, 1]"),
    "interpolate": ("Resizes images.", "accrue.interpolate(image, scale_factor=2.0, mode='bilinear')",
                    "[N, 3, 16, 16]"),
    "pixel_shuffle": ("Makes pixels of channels.", "accrue.pixel_shuffle(accrue.input(8, 4, 4), 2)", "[N, 2, 8, 8]"),
    "crop": ("Cuts images.", "accrue.crop(image, 1, 2, 4, 5)", "[N, 3, 4, 5]"),
    "pad": ("Adds elements around a value.", "accrue.pad(image, (1, 1, 0, 2))", "[N, 3, 10, 10]"),
    "reshape": ("Gives the elements another shape.", "accrue.reshape(x, (x.shape[0], 24))", "[N, 24]"),
    "detach": ("Makes a constant of a value.", "accrue.detach(x)", "[N, 4, 6]"),
    "cat": ("Joins values along a dimension.", "accrue.cat([x, x], 1)", "[N, 8, 6]"),
    "one_hot": ("Makes vectors of whole numbers, with one 1 each.", "accrue.one_hot(index[:, 0], 10)", "[N, 10]"),
    "index_select": ("Takes slices by their numbers.",
                     "accrue.index_select(x, 2, accrue.constant(np.array([0, 2], np.int32)))", "[N, 4, 2]"),
    "gather": ("Takes elements by their numbers.", "accrue.gather(x[:, :, 0], 1, index[:, :2])", "[N, 2]"),
    "flatten": ("Makes one dimension of several.", "accrue.flatten(image, 1)", "[N, 192]"),
    "unsqueeze": ("Adds a dimension of size 1.", "accrue.unsqueeze(x, 1)", "[N, 1, 4, 6]"),
    "squeeze": ("Leaves out a dimension of size 1.", "accrue.squeeze(x[:, :1], 1)", "[N, 6]"),
    "permute": ("Puts dimensions in another order.", "accrue.permute(image, (0, 2, 3, 1))", "[N, 8, 8, 3]"),
    "transpose": ("Exchanges two dimensions.", "accrue.transpose(x, 1, 2)", "[N, 6, 4]"),
    "slice": ("Takes a part of a dimension.", "accrue.slice(x, 2, 1, 6, 2)", "[N, 4, 3]"),
    "split": ("Cuts a value into slices of the sizes that are given.", "len(accrue.split(x, 2, 2))", "3"),
    "chunk": ("Cuts a value into a number of slices.", "len(accrue.chunk(x, 3, 2))", "3"),
    "stack": ("Joins values along a new dimension.", "accrue.stack([x, x], 1)", "[N, 2, 4, 6]"),
    "roll": ("Shifts elements, those at the end to the beginning.", "accrue.roll(x, 1, 2)", "[N, 4, 6]"),
    "flip": ("Turns the order of elements round.", "accrue.flip(x, 2)", "[N, 4, 6]"),
    "expand": ("Repeats dimensions of size 1.", "accrue.expand(x[:, :1], (x.shape[0], 5, 6))", "[N, 5, 6]"),
    "tile": ("Repeats a value.", "accrue.tile(x, (1, 2, 1))", "[N, 8, 6]"),
    "sum": ("Adds up elements.", "accrue.sum(x, 2)", "[N, 4]"),
    "mean": ("Takes means of elements.", "accrue.mean(x, 2, keepdim=True)", "[N, 4, 1]"),
    "amax": ("Takes the largest elements.", "accrue.amax(x, 2)", "[N, 4]"),
    "amin": ("Takes the smallest elements.", "accrue.amin(x, 2)", "[N, 4]"),
    "var": ("Takes variances of elements.", "accrue.var(x, 2)", "[N, 4]"),
    "argmax": ("Takes the places of the largest elements.", "accrue.argmax(x, 2)", "[N, 4] i32"),
    "argmin": ("Takes the places of the smallest elements.", "accrue.argmin(x, 2)", "[N, 4] i32"),
    "cumsum": ("Adds up elements along a dimension.", "accrue.cumsum(x, 2)", "[N, 4, 6]"),
}
# The meaning of an argument; ARGUMENTS_OF has another one for single ops.
ARGUMENTS = {
    "input": "The operand x.", "other": "The second operand, which is broadcast.",
    "condition": "Where it is true, or not 0, the result is of input.",
    "weight": "The learned weights.", "bias": "What is added, for each channel of the result.",
    "query": "What asks.", "key": "What is asked, as many as there are values.",
    "gate": "What silu is taken of.", "up": "What it is multiplied by.", "gamma": "The learned factor, of one element.",
    "index": "Whole numbers, int32.", "tensors": "Values, whose other dimensions agree.",
    "running_mean": "The mean of each channel that evaluation takes, a buffer.",
    "running_var": "The variance of each channel that evaluation takes, a buffer.",
    "dim": "The dimension, from 0; negative ones count from the last.",
    "dims": "The dimensions, from 0; negative ones count from the last.",
    "dim0": "The first dimension.", "dim1": "The second dimension.",
    "start_dim": "The first dimension to join.", "end_dim": "The last dimension to join.",
    "keepdim": "Whether the dimension stays, with size 1.",
    "kernel_size": "The window's size in pixels: one, or for rows and columns.",
    "stride": "Pixels from one window to the next: one, or for rows and columns.",
    "padding": "Pixels of padding on each side: one, or for rows and columns.",
    "dilation": "Pixels from one element of the window to the next: one, or for rows and columns.",
    "output_padding": "Pixels more below and on the right.", "groups": "Groups of channels that are convolved apart.",
    "ceil_mode": "Whether sizes are rounded up.", "count_include_pad": "Whether means count the padding.",
    "output_size": "The height and width of the result: one size, or two.",
    "num_groups": "How many groups the channels make.", "normalized_shape": "The sizes of the last dimensions.",
    "training": "Whether the micro-batch's moments are taken.", "eps": "Added to the variance.",
    "momentum": "The part of the batch's moments in the running ones.",
    "mode": "How elements between pixels are made.", "size": "The height and width of the result.",
    "scale_factor": "The factor on height and width.", "align_corners": "Whether the corners' pixels stay in place.",
    "upscale_factor": "The factor on height and width.", "pad": "Elements before and after, from the last dimension on.",
    "value": "The number that is added.", "shape": "The sizes; -1 stands for the rest.",
    "shifts": "By how many elements, for each dimension.", "chunks": "How many slices.",
    "split_size_or_sections": "The size of all slices, or of each.",
    "start": "The first element.", "end": "The element after the last; None: all.", "step": "Each so many-th element.",
    "top": "The first row.", "left": "The first column.", "height": "The number of rows.", "width": "The number of columns.",
    "num_classes": "The length of a vector.", "correction": "Subtracted from the number of elements.",
    "is_causal": "Whether a query sees the keys at its place and before alone.",
    "scale": "The factor on products; None: 1 / sqrt(their length).", "padding_idx": "The row that learns nothing.",
    "p": "The probability of 0.", "approximate": "Either none or tanh.", "negative_slope": "The factor below 0.",
    "factor": "The number.", "addend": "The number.", "divisor": "The number.", "dividend": "The number.",
    "minuend": "The number.", "exponent": "The number.", "heads": "How many heads.", "max": "The upper bound; None: none.",
    "min": "The lower bound; None: none.", "least": "The number below which it acts.",
    "threshold": "The number above which y is x.", "alpha": "A number of the formula.", "beta": "A number of the formula.",
    "lambd": "The width of what becomes 0.",
}
ARGUMENTS_OF = {
    ("expand", "size"): "The sizes; -1 leaves one as it is.", ("shrink", "bias"): "A number of the formula.",
    ("threshold", "value"): "The number that takes their place.", ("where", "input"): "The result where it is true.",
    ("where", "other"): "The result elsewhere.", ("tile", "dims"): "How often, for each dimension.",
    ("pad", "mode"): "Either constant, reflect, replicate or circular.",
    **{(name, "key_mask"): "Numbers [N, S], of which 0 hides a key; None: no key is hidden."
       for name in ("attention_rows", "scaled_dot_product_attention")},
    **{(name, "value"): "What is summed by the weights of attention."
       for name in ("attention_rows", "causal_attention", "self_attention", "scaled_dot_product_attention")},
    **{(name, "groups"): "How many heads of keys and values the heads share; None: as many as heads."
       for name in ("attention_rows", "causal_attention")},
}
NAMES = {1: ["input"], 2: ["input", "other"], 3: ["condition", "input", "other"]}
FUNCTION = r"^(?:inline )?(?:Tensor|std::vector<Tensor>) {}\("
INTRODUCTION = """# Ops

The functions that graphs call (layers/graph.h), which are Python's functions and methods of values
([python.md](python.md)). Each has its signature, ONNX's operator if there is one, the header with its contract, and the
contract. In the contracts x is the input, `Throws Error` raises `accrue.Error` in Python, and [the rule of
accumulation](gradients.md) says how backward writes gradients. `sizes` may hold multiples of the number of samples,
such as `x.shape[0]`; a `weight` is a parameter.

`scripts/list_ops.py` makes this page from the list of ops and the headers. Python's docstrings have the same text.
"""


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def signatures():
    """The rows of the list: name and "(input, dim: int = -1)"."""
    found = {}
    for path in LISTS:
        text = read(path)
        for row in re.finditer(r'\brow_of\(\s*((?:"[^"]*"\s*)+),', text):
            line = "".join(re.findall(r'"([^"]*)"', row.group(1)))
            found[line[:line.index("(")]] = line[line.index("("):]
        pattern = re.search(r'row_of\(fmt::format\("\{\}([^"]*)", name\)', text)
        if pattern:
            for name in re.findall(r'\n  add\("(\w+)",', text):
                found[name] = pattern.group(1)
    return found


def split_arguments(text):
    """The arguments of a macro, without the commas within parentheses and braces."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [*parts, text[begin:].strip()]


def plain(formula, names):
    """A formula of C++ as one writes it on paper, with the names of the operands."""
    for code, words in WRITTEN_OUT.items():
        formula = formula.replace(code, words)
    formula = re.sub(r"std::|T\((?=[\w.* -]+\))|\b(\w+?)_of(?=\()|HUGE_VAL",
                     lambda m: m.group(1) or ("infinity" if m.group(0) == "HUGE_VAL" else
                                              "\0" if m.group(0) == "T(" else ""), formula)
    formula = re.sub("\0([^()]*)\\)", r"\1", formula)
    formula = re.sub(r"^T\((.*)\)$", r"\1", formula).replace("rint(", "round(")
    for letter, name in zip("abc", names):
        formula = re.sub(rf"\b{letter}\b", name, formula)
    return re.sub(r"\bd\b", "dy", formula)


def formulas():
    """The rows that are made of formulas: name, signature, ONNX's operator and text."""
    text = read(FORMULAS).replace("\\\n", "\n")
    found = {}
    for number, kind in enumerate(("UN", "BIN", "TERN"), 1):
        for match in re.finditer(rf"^  {kind}ARY\((?=\w+, \")", text, re.M):
            depth, end = 1, match.end()
            while depth:
                depth += (text[end] in "(") - (text[end] in ")")
                end += 1
            name, onnx, *rest = split_arguments(re.sub(r"\s+", " ", text[match.end():end - 1]))
            names, scalars = NAMES[number], []
            if number == 1:
                given = split_arguments(rest.pop(0)[3:-1]) if rest[0] != "S0" else (rest.pop(0), [])[1]
                scalars = list(zip(given[::2], given[1::2]))
            y, *gradients = rest
            lines = [f"y = {plain(y, names)}, element by element; operands are broadcast."
                     if number > 1 else f"y = {plain(y, names)}, element by element."]
            has_gradient = False
            for operand, (reads, gradient) in zip(names, zip(gradients[::2], gradients[1::2])):
                if reads != "NO":
                    has_gradient = True
                    lines.append(f"Gradient of {operand}: {plain(gradient, names)}.")
            if not has_gradient:
                lines.append("It has no gradient.")
            numbers = {scalar: f"{eval(value, {'HUGE_VAL': float('inf')}):g}" for scalar, value in scalars}
            more = "".join(f", {scalar}: float = {value}" for scalar, value in numbers.items())
            signature = f"({', '.join(names)}{more}){'' if has_gradient else ' -> constant'}"
            if name not in ("add", "mul", "clamp"):
                for each in [name, *([ALIASES[name]] if name in ALIASES else [])]:
                    found[each] = signature, onnx.strip('"'), lines
    return found


def comments(header, function):
    """The comments above the functions of this name: lists of lines."""
    lines = read(header).split("\n")
    found = []
    for number, line in enumerate(lines):
        if not re.match(FUNCTION.format(function), line):
            continue
        while number > 0 and lines[number - 1] and not lines[number - 1].startswith("//"):
            number -= 1
        begin = number
        while begin > 0 and lines[begin - 1].startswith("//"):
            begin -= 1
        if begin < number and lines[begin:number] not in found:
            found.append(lines[begin:number])
    return [[line[3:] for line in comment] for comment in found]


def contract(name, header):
    """The lines of an op's contract."""
    lines = textwrap.wrap(OWN[name], 100) if name in OWN else []
    if not header:
        return lines
    for function in ELSEWHERE.get(name, [name]):
        for comment in comments(f"kernels/{header}.h", function):
            lines += comment
    return lines


def ops():
    """Everything about each op, by subject: (name, signature, ONNX's operator, header, lines)."""
    rows, made = signatures(), formulas()
    out, silent = {}, []
    for subject, of_subject in SUBJECTS.items():
        for name, header in of_subject.items():
            lines = contract(name, header)
            if name not in rows or not lines:
                silent.append(f"{name}: {'no contract in kernels/' + header + '.h' if name in rows else 'no such op'}")
                continue
            where = f"kernels/{header}.h" if header else "core/tensor.h"
            out.setdefault(subject, []).append((name, rows.pop(name), ONNX.get(name, ""), where, lines))
    silent += [f"{name}: expected a line in SUBJECTS" for name in rows if name not in made]
    for name, (signature, onnx, lines) in made.items():
        out.setdefault("Formulas", []).append((name, signature, onnx, FORMULAS, lines))
    return out, silent


def page(all_ops):
    out = [INTRODUCTION]
    for subject, of_subject in all_ops.items():
        out.append(f"## {subject}\n")
        if subject == "Formulas":
            out.append("kernels/elementwise.h says how operands are broadcast, which tensors are kept, and which "
                       "errors there are.\n\n| Op | ONNX | |\n|---|---|---|")
            out[-1] += "".join(f"\n| `{name}{signature}` | {onnx} | {' '.join(lines).replace('|', chr(92) + '|')} |"
                               for name, signature, onnx, _, lines in of_subject) + "\n"
            continue
        for name, signature, onnx, where, lines in of_subject:
            heads = [f"`{name}{signature}`", *([f"ONNX {onnx}"] if onnx else []), f"[{where}](../{where})"]
            body = "\n".join(f"    {line}".rstrip() for line in lines)
            out.append(f"### {name}\n\n{'; '.join(heads)}\n\n{body}\n")
    return "\n".join(out)


def argument_names(signature):
    """The names in "(input, dim: int = -1) -> constant"."""
    return [re.split("[:=]", part)[0].strip() for part in split_arguments(signature[1:signature.rindex(")")]) if part]


def example(name, signature):
    """Lines of Python's console: a call of the op, and its result."""
    if name in SUMMARIES:
        _, call, result = SUMMARIES[name]
        if not call:
            return ""
    else:
        operands = [n for n in argument_names(signature) if n in ("condition", "input", "other")]
        call, result = f"accrue.{name}({', '.join('x' for _ in operands)})", "[N, 4, 6]"
    lines = [f">>> {of} = accrue.input({sizes})" for of, sizes in
             (("x", "4, 6"), ("image", "3, 8, 8"), ("index", '5, dtype="int32"')) if re.search(rf"\b{of}\b", call)]
    for sizes in re.findall(r"\bw\[([^\]]*)\]", call):
        lines.append(f'>>> w = accrue.parameter(({sizes}), "w")')
    call = re.sub(r"\bb\[(\d+), '(\w+)'\]", r"accrue.buffer(\1, '\2')", re.sub(r"\bw\[[^\]]*\]", "w", call))
    return "\n".join([*lines, f">>> {call}", f"value {result}" if result.startswith("[") else result])


def unexplained(all_ops):
    """Ops without a summary, and arguments without a text."""
    missing = []
    for subject, of_subject in all_ops.items():
        for name, signature, *_ in of_subject:
            if subject != "Formulas" and name not in SUMMARIES:
                missing.append(f"{name}: expected a line in SUMMARIES")
            missing += [f"{name}: expected its argument {each} in ARGUMENTS" for each in argument_names(signature)
                        if each not in ARGUMENTS and (name, each) not in ARGUMENTS_OF]
    return missing


def cpp(all_ops):
    out = ["// Made by scripts/list_ops.py.", '#include "python/op_docs.h"', "",
           "const std::vector<accrue::python::OpDoc>& accrue::python::op_docs() {",
           "  static const std::vector<OpDoc> all{"]
    for of_subject in all_ops.values():
        for name, signature, onnx, where, lines in of_subject:
            more = [f"ONNX: {onnx}."] if onnx else []
            text = "\n".join([*lines, "", " ".join([*more, f"Contract: {where}."])])
            summary = SUMMARIES[name][0] if name in SUMMARIES else f"Computes {lines[0].split('; ')[0].rstrip('.')}."
            arguments = "".join(f'{{"{each}", "{ARGUMENTS_OF.get((name, each), ARGUMENTS.get(each))}"}}, '
                                for each in argument_names(signature))
            out.append(f'      {{"{name}", R"doc({summary})doc", R"doc({text})doc", '
                       f'R"doc({example(name, signature)})doc", {{{arguments}}}}},')
    return "\n".join([*out, "  };", "  return all;", "}", ""])


def main():
    all_ops, silent = ops()
    silent += unexplained(all_ops)
    if silent:
        sys.exit("\n".join(silent))
    if "--cpp" in sys.argv:
        pathlib.Path(sys.argv[sys.argv.index("--cpp") + 1]).write_text(cpp(all_ops), encoding="utf-8")
    elif "--check" not in sys.argv:
        PAGE.write_text(page(all_ops), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page(all_ops):
        sys.exit("docs/ops.md is not what the headers say: run scripts/list_ops.py")


if __name__ == "__main__":
    main()
