#!/usr/bin/env python3
"""Count what a project sees that includes one of accrue's headers.

    scripts/count_names.py [HEADER ...] [--list]

For each header (accrue/accrue.h without any): how many of the project's own headers it reaches, and how many different
names these declare in the namespace accrue, those of accrue::detail apart. Needs Python's libclang.
"""

import argparse
import pathlib
import subprocess
import sys

import clang.cindex as clang

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {clang.CursorKind.CLASS_DECL, clang.CursorKind.STRUCT_DECL, clang.CursorKind.ENUM_DECL,
         clang.CursorKind.FUNCTION_DECL, clang.CursorKind.VAR_DECL, clang.CursorKind.TYPE_ALIAS_DECL,
         clang.CursorKind.CLASS_TEMPLATE, clang.CursorKind.FUNCTION_TEMPLATE, clang.CursorKind.TYPEDEF_DECL,
         clang.CursorKind.TYPE_ALIAS_TEMPLATE_DECL, clang.CursorKind.CONCEPT_DECL
         if hasattr(clang.CursorKind, "CONCEPT_DECL") else clang.CursorKind.CLASS_DECL}


def system_includes():
    shown = subprocess.run(["g++", "-E", "-x", "c++", "-", "-v"], input="", capture_output=True, text=True, check=True).stderr
    block = shown.split("#include <...> search starts here:")[1].split("End of search list.")[0]
    return [argument for line in block.split("\n") if line.strip() for argument in ("-isystem", line.strip())]


def seen_from(header):
    unit = clang.Index.create().parse(
        "seen.cpp", args=["-std=c++20", f"-I{ROOT}", "-DFMT_HEADER_ONLY", *system_includes()],
        unsaved_files=[("seen.cpp", f'#include "{header}"\n')])
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
            if child.kind == clang.CursorKind.NAMESPACE:
                visit(child, inner if child.spelling in ("detail", "cpu", "cuda") else into)
            elif child.kind in KINDS and child.spelling and not child.spelling.startswith("("):
                into.add(child.spelling.split("<")[0])

    for cursor in unit.cursor.get_children():
        if cursor.kind == clang.CursorKind.NAMESPACE and cursor.spelling == "accrue" and cursor.location.file.name in own:
            visit(cursor, names)
    return own, names, inner


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", nargs="*", default=["accrue/accrue.h"])
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    for header in options.headers:
        own, names, inner = seen_from(header)
        print(f"{header}: {len(own)} headers, {len(names)} names, {len(inner)} in detail, cpu and cuda")
        if options.list:
            print("\n".join(sorted(names)))


if __name__ == "__main__":
    main()
