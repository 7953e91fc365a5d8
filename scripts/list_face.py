#!/usr/bin/env python3
"""Writes accrue/README.md, the names in accrue/accrue.h by subject, from the headers.

    scripts/list_face.py            writes the page
    scripts/list_face.py --check    fails if the page is out of date, or an example does not compile

A subject is a header of accrue/ that accrue.h includes. Its comment is a sentence and, indented, some lines of use. The
page lists the names that its includes declare in the namespace accrue, each with the first sentence of its comment. If
several subjects reach a header, it belongs to the one that includes it itself, or else to the first.
"""

import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

from count_names import INCLUDE, ROOT, declarations, reached

LONGEST = 200  # characters in a sentence
PAGE = ROOT / "accrue" / "README.md"
# In order from the tensors up: a header that many subjects reach belongs to the lowest.
SUBJECTS = ("tensor autograd memory ops losses module init layers models optimizers window data files objective trainer game "
            "plan job onnx images fonts text").split()
BESIDE = "own_op eigen font_files report".split()
# The parameters of the examples' functions.
GIVEN = ("const Tensor& x, const Tensor& labels, Layer& model, Parameters& parameters, Optimizer& optimizer, "
         "const Datasets& data, TrainingOptions options")
FORWARD = re.compile(r"^(?:class|struct) \w+;$")
COMPILE = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-variable", "-Wno-unused-but-set-variable",
           "-Wno-missing-field-initializers", "-Wno-unused-parameter"]
INTRODUCTION = """# The face of accrue

The names in `accrue/accrue.h`, header by header, each with the first sentence of its contract. The whole contract stands
in the header that the page names above it. These headers keep everything else in `accrue::detail`, which users need not
know and which changes without notice.

`scripts/list_face.py` makes this page from the headers. In the lines of use, `x` and `labels` are tensors, `model` is a
layer with its `parameters`, `data` are two data sets, `options` are a training's, and `accrue` is the namespace.
"""


def comment_of(path):
    """The comment of a thin header: its sentences, and its lines of use."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = [line[2:] for line in re.search(r"#pragma once\n\n((?://.*\n)+)", text).group(1).splitlines()]
    words = " ".join(line.strip() for line in lines if line and not line.startswith("     ")).strip()
    return words, [line[5:] for line in lines if line.startswith("     ")]


def sentence(path, comment, number):
    """The first sentence of a comment."""
    if comment is None:
        return ""
    lines = []
    for line in (ROOT / path).read_text(encoding="utf-8").split("\n")[comment:number]:
        if not line.startswith("//") or line.startswith("//   "):
            break
        if line == "//":
            break
        lines.append(line[2:].strip())
    words = " ".join(lines)
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!et al)\.(?= |$)", words)
    words = words[:end.start()] if end else words
    while len(words) > LONGEST or any(words.count(a) != words.count(b) for a, b in ("()", "[]")):
        clause = max(words.rfind(mark) for mark in (", ", "; ", ": "))
        if clause < 0:
            break
        words = words[:clause]
    return words.rstrip(":.,") + "." if words else ""


def owned():
    """The headers of each subject."""
    direct = {s: INCLUDE.findall((ROOT / f"accrue/{s}.h").read_text(encoding="utf-8")) for s in SUBJECTS}
    owner = {}
    for subject in SUBJECTS:
        for header in direct[subject]:
            owner.setdefault(header, subject)
    for subject in SUBJECTS:
        for header in reached(f"accrue/{subject}.h"):
            owner.setdefault(header, subject)
    return {s: [h for h in reached("accrue/accrue.h") if owner.get(h) == s
                and h not in {f"accrue/{name}.h" for name in (*SUBJECTS, *BESIDE)}] for s in SUBJECTS}


def page():
    """The page, and the names that have no comment."""
    included = {pathlib.Path(p).stem for p in INCLUDE.findall((ROOT / "accrue/accrue.h").read_text(encoding="utf-8"))}
    if included != set(SUBJECTS):
        sys.exit(f"accrue.h and the subjects of this script differ: {', '.join(sorted(included ^ set(SUBJECTS)))}")
    out, shown, silent = [INTRODUCTION], set(), []
    for subject, headers in owned().items():
        words, use = comment_of(f"accrue/{subject}.h")
        out.append(f"## accrue/{subject}.h\n\n{words}\n")
        out.append("\n".join(f"    {line}".rstrip() for line in use) + "\n")
        for header in headers:
            names = {}
            lines = (ROOT / header).read_text(encoding="utf-8").split("\n")
            for name, comment, number in declarations(header):
                if name not in shown and not FORWARD.match(lines[number]):
                    names[name] = names.get(name) or sentence(header, comment, number)
            if not names:
                continue
            shown |= set(names)
            silent += [f"{header}: {name} has no comment" for name, words in names.items() if not words]
            out.append(f"{header}\n")
            alike = itertools.groupby(names.items(), key=lambda item: item[1])
            out.append("\n".join(f"- {', '.join(f'`{name}`' for name, _ in group)}" + (f": {words}" if words else "")
                                 for words, group in alike) + "\n")
    out.append("## Not part of accrue.h\n")
    out.append("\n".join(f"- accrue/{name}.h: {comment_of(f'accrue/{name}.h')[0]}" for name in BESIDE) + "\n")
    return "\n".join(out), silent


def examples():
    """One source with all lines of use, a function for each subject."""
    out = ['#include "accrue/accrue.h"', "using namespace accrue;"]
    for subject in SUBJECTS:
        path = f"accrue/{subject}.h"
        use = comment_of(path)[1]
        if not use:
            sys.exit(f"{path} shows no use")
        out += [f"void use_{subject}({GIVEN}) {{", f'#line 1 "the lines of use of {path}"', *use, "}"]
    return "\n".join(out) + "\n"


def main():
    if "--check" not in sys.argv:
        PAGE.write_text(page()[0], encoding="utf-8")
        return
    written, silent = page()
    if silent:
        sys.exit("\n".join(silent))
    if PAGE.read_text(encoding="utf-8") != written:
        sys.exit("accrue/README.md is not what the headers say: run scripts/list_face.py")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "examples.cpp")
        source.write_text(examples(), encoding="utf-8")
        sys.exit(subprocess.run([*COMPILE, f"-I{ROOT}", str(source)], check=False).returncode)


if __name__ == "__main__":
    main()
