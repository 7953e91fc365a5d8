#!/usr/bin/env python3
"""Writes docs/ops.md, the ops of graphs and of Python, from their list and the headers that say what they compute.

    scripts/list_ops.py                 writes the page
    scripts/list_ops.py --check         fails if the page is out of date, or an op has no contract
    scripts/list_ops.py --cpp FILE      writes the same texts as C++, from which Python's docstrings are made

An op's signature stands in the list (layers/graph_op_list.cpp, layers/graph_general_ops.cpp), a formula's in
kernels/detail/elementwise_formulas.h. Its contract is the comment above the function of its name in a header of
kernels/, or of the functions that ELSEWHERE names. A new op needs a line in SUBJECTS.
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
    "scaled_dot_product_attention": "is_causal=True: query t sees key s if s <= t.",
    "attention_rows": "is_causal=True: query t sees key s if s <= t. Without key and value, query is qkv.",
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


def cpp(all_ops):
    out = ["// Made by scripts/list_ops.py.", '#include "python/op_docs.h"', "",
           "const std::vector<accrue::python::OpDoc>& accrue::python::op_docs() {",
           "  static const std::vector<OpDoc> all{"]
    for of_subject in all_ops.values():
        for name, _, onnx, where, lines in of_subject:
            more = [f"ONNX: {onnx}."] if onnx else []
            text = "\n".join([*lines, "", " ".join([*more, f"Contract: {where}."])])
            out.append(f'      {{"{name}", R"doc({text})doc"}},')
    return "\n".join([*out, "  };", "  return all;", "}", ""])


def main():
    all_ops, silent = ops()
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
