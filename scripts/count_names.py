#!/usr/bin/env python3
"""Count the headers and names that a project sees if it includes one of accrue's headers.

    scripts/count_names.py [HEADER ...] [--list]
    scripts/count_names.py --check

For each header (accrue/accrue.h by default): how many of accrue's own headers it reaches, and how many different names
they declare in the namespace accrue, without the names in accrue::detail.

--check: fails if accrue.h shows more names than MOST beside the ops, which are PyTorch's functions and what they take
(kernels/), or one of TOO_GENERAL, or reaches core/inside.h. Declarations are
found by their layout, which is clang-format's. If Python's libclang is installed, it must find the same names.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 225
OPS = "kernels/"
# Words that another project is likely to have, and that do not tell what they are in accrue.
TOO_GENERAL = set("check fail name store wide positive record blend Own Look Count About Range Path Takes Edge Node Work "
                  "reads writes describe counted survey Example".split())
INSIDE = "core/inside.h"  # makes detail's names plain ones, for accrue's own sources
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)
NAMESPACE = re.compile(r"^namespace ?([\w:]*) ?\{$")
TYPE = re.compile(r"^(?:template <.*> )?(?:class|struct|enum class|enum|using) (\w+)(?: final)?(?: [:={]|;|$| \{)")
FUNCTION = re.compile(r"^(?:\[\[\w+\]\] )?(?:[\w:]+(?:<[^()]*>)?[&*]* )*[&*]?(\w+)\(")
VARIABLE = re.compile(r"^(?:extern |inline |constexpr |const )+[\w:<>, ]+[ &*](\w+)(?: =|\{|\[|;)")
# A formula of an elementwise op, whose function a macro declares.
FORMULAS = "kernels/detail/elementwise_formulas.h"
FORMULA = re.compile(r"^  (?:UN|BIN|TERN)ARY\((\w+), ")
NO_NAME = ("static_assert(", "friend ", "using namespace", "namespace", "#", "//", "}", " ")


def reached(header, root=ROOT):
    """The headers that this one reaches, itself included, in the order in which a compiler reads them."""
    found = []

    def visit(path):
        if path not in found:
            found.append(path)
            for used in INCLUDE.findall((root / path).read_text(encoding="utf-8")):
                visit(used)

    visit(header)
    return found


def formulas(root=ROOT):
    """The names of the formulas that have a function of their own."""
    listed = (root / FORMULAS).read_text(encoding="utf-8").split("#define ACCRUE_NAMED_FORMULAS")[1]
    return [found.group(1) for found in map(FORMULA.match, listed.split("\n")) if found]


def declarations(path, root=ROOT):
    """Yields (name, first line of its comment, number) of each declaration in the namespace accrue itself.

    A line of the namespace that is not indented begins a declaration, and the comment stands above it.
    """
    lines = (root / path).read_text(encoding="utf-8").split("\n")
    inside, comment = [], None
    for number, line in enumerate(lines):
        opened = NAMESPACE.match(line)
        if opened:
            inside.append(opened.group(1))
            comment = None
        elif line.startswith("}  // namespace"):
            inside.pop()
            comment = None
        elif inside != ["accrue"]:
            continue
        elif line.startswith("//"):
            comment = number if comment is None or not lines[number - 1].startswith("//") else comment
        elif not line:
            comment = None
        elif line.startswith("ACCRUE_NAMED_FORMULAS("):
            yield from ((name, comment, number) for name in formulas(root))
        elif not line.startswith(NO_NAME):
            if line.startswith("template <") and line.endswith(">"):
                continue
            found = TYPE.match(line) or VARIABLE.match(line) or FUNCTION.match(line)
            if found:
                yield found.group(1), comment, number


def face(root=ROOT):
    """The names that accrue.h shows, each with the headers that declare it."""
    names = collections.defaultdict(list)
    for header in reached("accrue/accrue.h", root):
        for name, _, _ in declarations(header, root):
            if header not in names[name]:
                names[name].append(header)
    return names


def seen_from(header):
    import clang.cindex as clang  # not on every machine
    kind = clang.CursorKind
    kinds = {kind.CLASS_DECL, kind.STRUCT_DECL, kind.ENUM_DECL, kind.FUNCTION_DECL, kind.VAR_DECL, kind.TYPE_ALIAS_DECL,
             kind.CLASS_TEMPLATE, kind.FUNCTION_TEMPLATE, kind.TYPEDEF_DECL, kind.TYPE_ALIAS_TEMPLATE_DECL,
             getattr(kind, "CONCEPT_DECL", kind.CLASS_DECL)}
    shown = subprocess.run(["g++", "-E", "-x", "c++", "-", "-v"], input="", capture_output=True, text=True, check=True).stderr
    block = shown.split("#include <...> search starts here:")[1].split("End of search list.")[0]
    system = [argument for line in block.split("\n") if line.strip() for argument in ("-isystem", line.strip())]
    unit = clang.Index.create().parse(
        "/nowhere/seen.cpp", args=["-std=c++20", f"-I{ROOT}", "-DFMT_HEADER_ONLY", *system],
        unsaved_files=[("/nowhere/seen.cpp", f'#include "{header}"\n')])
    errors = [d for d in unit.diagnostics if d.severity >= clang.Diagnostic.Error]
    if errors:
        sys.exit(f"{header}: {errors[0]}")
    own = {i.include.name for i in unit.get_includes() if i.include.name.startswith(str(ROOT))}
    names, inner = set(), set()

    def visit(cursor, into):
        for child in cursor.get_children():
            place = child.location.file
            if not place or place.name not in own:
                continue
            if child.kind == kind.NAMESPACE:
                visit(child, inner if child.spelling in ("detail", "cpu", "cuda") else into)
            elif child.kind in kinds and child.spelling and not child.spelling.startswith(("(", "operator")):
                into.add(child.spelling.split("<")[0])

    for cursor in unit.cursor.get_children():
        if cursor.kind == kind.NAMESPACE and cursor.spelling == "accrue" and cursor.location.file.name in own:
            visit(cursor, names)
    return own, names, inner


def errors():
    names = face()
    others = sum(not all(header.startswith(OPS) for header in headers) for headers in names.values())
    if others > MOST:
        yield (f"accrue.h shows {others} names that are no ops, and should show {MOST} at most: what a user need not know "
               "goes into accrue::detail")
    for name in sorted(TOO_GENERAL & set(names)):
        yield f"{names[name][0]}: accrue::{name} is too general a name for users to see: it goes into accrue::detail"
    for header in sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "accrue").glob("*.h")):
        if INSIDE in reached(header):
            yield f"{header} reaches {INSIDE}, which no public header may"
    try:
        compiled = seen_from("accrue/accrue.h")[1]
    except ImportError:
        print("SKIPPED: Python's libclang is not installed, so names are those that the layout shows")
    else:
        for name in sorted(compiled ^ set(names)):
            yield f"{name}: {'libclang alone' if name in compiled else 'the layout alone'} shows it"
    print(f"accrue.h: {len(names)} names")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", nargs="*", default=["accrue/accrue.h"])
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--check", action="store_true", help="fail if accrue.h shows too much")
    options = parser.parse_args()
    if options.check:
        found = list(errors())
        print("\n".join(found), file=sys.stderr, end="\n" if found else "")
        sys.exit(bool(found))
    for header in options.headers:
        own, names, inner = seen_from(header)
        print(f"{header}: {len(own)} headers, {len(names)} names, {len(inner)} in detail, cpu and cuda")
        if options.list:
            print("\n".join(sorted(names)))


if __name__ == "__main__":
    main()
