#!/usr/bin/env python3
"""Pairs of texts: each function of Python's standard library, and its docstring.

    docstring_pairs.py > pairs.jsonl

writes them as `accrue text prepare` and sentence-transformers read them.
"""

import ast
import json
import pathlib
import sysconfig

OUTSIDE = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo"}


def functions_in(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        if text:
            yield f"{path.stem}.{node.name}({ast.unparse(node.args)})", text.split("\n\n")[0]


def main():
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    seen = set()
    for path in sorted(library.rglob("*.py")):
        if OUTSIDE & set(path.relative_to(library).parts):
            continue
        for function, text in functions_in(path):
            if text not in seen:  # the same text twice would be its own negative
                print(json.dumps({"anchor": " ".join(text.split()), "positive": function}))
            seen.add(text)


main()
