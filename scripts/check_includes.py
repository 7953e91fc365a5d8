#!/usr/bin/env python3
"""Checks that each part of accrue includes, and links to, only the parts below it.

    core <- kernels <- layers, optim, data;  optim <- accumulate
    layers, data <- onnx;  layers, accumulate, data, onnx <- train <- job <- images, fonts, text, tables <- accrue;
    images, tables <- networks <- accrue;  train <- report <- accrue
    all of them <- apps, tests;  apps <- python

The root's CMakeLists.txt lists the domains: images, fonts, text, tables and networks.
Only apps, tests and accumulate/ladder/ include the ladder's headers; they may also include
accrue/eigen.h, which needs core/ alone. apps, python and tests may include accrue/domains.h, the list of
domains.
train/, job/, domains and report/ neither print to the terminal nor parse the command line; train/ and
report/ do not name its options, either.
train/ and job/ name no domain: none of its models, and nothing that only its samples are made of. They
ask a Domain instead. Comments there may name domains, and so may messages of job/, which people read.
In apps/ only cli/messages.cpp prints, which does not throw.
A quoted include names a file of this project by its path from the root, and that file exists.
CUDA sources count bits by the device's own functions.
tests/simt stands alone: it uses no part of accrue, and its headers have the names of CUDA's.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BELOW = {"core", "kernels", "layers", "optim", "accumulate", "data", "onnx", "train"}
DOMAINS = re.search(r"set\(all_domains ([^)]+)\)",
                    (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1).split()
LIBRARY = (*sorted(BELOW), "job", *DOMAINS, "report")
PARTS = LIBRARY
MAY_USE = {
    "core": {"core"},
    "kernels": {"core", "kernels"},
    "layers": {"core", "kernels", "layers"},
    "optim": {"core", "kernels", "optim"},
    "data": {"core", "kernels", "data"},
    "onnx": {"core", "kernels", "layers", "data", "onnx"},
    "train": BELOW,
    "job": {*BELOW, "job"},
    **{domain: {*BELOW, "job", domain} for domain in DOMAINS},
    # Networks in files learn from data of other domains.
    "networks": {*BELOW, "job", "images", "tables", "networks"},
    "report": {"core", "data", "train", "report"},
    "accrue": {*LIBRARY, "accrue"},
    "accumulate": {"core", "kernels", "optim", "accumulate"},
    "apps": {*PARTS, "apps"},
    "python": {*PARTS, "apps", "python"},
    "tests": {*PARTS, "apps", "tests"},
}
EIGEN = "accrue/eigen.h"
DOMAIN_LIST = "accrue/domains.h"
RUNNER = pathlib.Path("tests", "simt")
# Naive kernels, which the library does not use.
LADDER = "accumulate/ladder"
SOURCES = {".h", ".cpp", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PRINTS = re.compile(r"\bfmt::print\(|\bstd::(cout|cerr|f?printf|fputs|puts)\b")
NOT_IN_LIBRARY = re.compile(r'<CLI/|\bstdout\b|\bstderr\b|\bfmt::print\("')
OPTION = re.compile(r'"[^"]*(?<![\w-])--[a-z]')
# These functions rest on built-ins of the host's compiler. nvcc takes them as constant expressions and
# compiles something else: std::countr_zero(x) was 32 for every x on a GPU, and right in the runner.
HOST_BITS = re.compile(
    r"\bstd::(count[lr]_(zero|one)|popcount|bit_(width|ceil|floor)|has_single_bit)\b")
# Models and data sets of domains, and words for their samples. Not among them are text, because every
# option is text, and pixel, an encoding of data (kernels/gather_samples.h).
DOMAIN_WORD = re.compile(
    r"(?<![A-Za-z])(gpt\d?|llama|zi2zi|u-?net|resnet\d*|mlp|cnn|mnist|images?|masks?|tokens?|glyphs?|fonts?|styles?|"
    r"corpus|corpora|chats?|captions?)(?![A-Za-z])")
WITHOUT_DOMAINS = ("train", "job")
# This folder writes another project's format, whose words it needs.
WORDS_OF_OTHERS = (pathlib.Path("train", "tensorboard"),)
MAY_NAME = {
    "GrayImage",  # a PNG file's (data/png.h)
    "Encoding::mask",  # data's
    '"mlp"',  # the default model
    "sa_mask", "stop_token",  # from systems' headers
    '"image-size"',  # a key in checkpoints of earlier versions (train/run_identity.cpp)
    '"samples, judged pixels or tokens."',  # a text in logs since the first version
}
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//.*')
NAME = re.compile(r"(?:Encoding::|Path::)?[A-Za-z_]\w*")
LINK = re.compile(r"\baccrue(?:::|_)(%s)\b" % "|".join(PARTS))


def include_error(root, part, source, line):
    found = INCLUDE.match(line)
    if not found:
        return None
    quoted, path = found.group(1) == '"', found.group(2)
    used = path.split("/")[0]
    is_study = part in ("apps", "tests") or source.is_relative_to(root / LADDER)
    if path.startswith(f"{LADDER}/") and not is_study:
        return f"{path} is there to be compared with, not to be used"
    if used in MAY_USE and "/" in path:
        may_list = path == DOMAIN_LIST and part in ("apps", "python", "tests")
        if used not in MAY_USE[part] and not (path == EIGEN and is_study) and not may_list:
            return f"{part} must not include {path}: it may use {', '.join(sorted(MAY_USE[part]))}"
        return None if (root / path).is_file() else f"no file {path}"
    if quoted:
        return f'"{path}" is not a path from the root of the project'
    return None


def program_error(part, line):
    if part == "apps" and PRINTS.search(line.split("//")[0]):
        return "apps must print by say() and say_error() (apps/cli/messages.h)"
    code = line.split("//")[0]
    if part in ("train", "job", *DOMAINS, "report") and NOT_IN_LIBRARY.search(code):
        return f"{part} must not print or parse the command line"
    if part in ("train", "report") and OPTION.search(code):
        return f"{part} must not name an option of the command line"
    return None


def domain_error(part, path, line):
    if part not in WITHOUT_DOMAINS or any(path.is_relative_to(ROOT / other) for other in WORDS_OF_OTHERS):
        return None
    if INCLUDE.match(line):
        return None
    code = COMMENT.sub(lambda found: found.group(1) or "", line)
    literals = [literal for literal in LITERAL.findall(code) if part == "train" or not re.search(" |--", literal)]
    for word in NAME.findall(LITERAL.sub('""', code)) + literals:
        if {word, f"{path.relative_to(ROOT)}: {word}"} & MAY_NAME or word.isupper():
            continue
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower().replace("_", " ")
        found = DOMAIN_WORD.search(parts)
        if found:
            return f"{part} names no domain, but has {word}: expected a question to a Domain, or a fact of its"
    return None


def device_error(path, line):
    used = HOST_BITS.search(line.split("//")[0]) if path.suffix in (".cu", ".cuh") else None
    return used and f"{used.group()} is the host's: a GPU has __ffs, __clz and __popc"


def runner_error(line):
    found = INCLUDE.match(line)
    if found and found.group(2).split("/")[0] in {*PARTS, "apps"}:
        return f"{RUNNER} stands alone: it must not include {found.group(2)}"
    return None


def link_error(part, line):
    above = [used for used in LINK.findall(line.split("#")[0]) if used not in MAY_USE[part]]
    if above:
        return f"{part} must not link to {', '.join(above)}"
    return None


def errors(root):
    for part in MAY_USE:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in SOURCES and path.is_relative_to(root / RUNNER):
                check = runner_error
            elif path.suffix in SOURCES:
                check = lambda line: (include_error(root, part, path, line) or
                                      program_error(part, line) or device_error(path, line) or
                                      domain_error(part, path, line))
            elif path.name == "CMakeLists.txt":
                check = lambda line: link_error(part, line)
            else:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                error = check(line)
                if error:
                    yield f"{path.relative_to(root)}:{number}: {error}"


if __name__ == "__main__":
    found = list(errors(ROOT))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    sys.exit(bool(found))
