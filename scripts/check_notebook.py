#!/usr/bin/env python3
"""Runs a notebook and compares its outputs with the stored ones.

The code must be the code that the stored outputs came from, and every cell must have as many
outputs as then, with the same words. Numbers may differ, because other processors round and time
differently; the notebook itself asserts what it needs. Figures must exist, and are not compared.

Usage: check_notebook.py [--write] NOTEBOOK
  --write  store the outputs instead, figures in 64 colours
"""

import base64
import hashlib
import io
import os
import re
import sys

import nbclient
import nbformat
from PIL import Image


def code_hash(notebook):
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()


def words(output):
    """An output's text without its numbers, and the kinds of data that it has. Tables are sorted by
    numbers, which the processor decides, so lines may come in any order."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    text = re.sub(r"[\d.]+", "0", data.get("text/plain", ""))
    if "image/png" in data:
        text = ""
    return sorted(data), sorted(" ".join(line.split()) for line in text.splitlines())


def shrink(output):
    data = output.get("data", {})
    if "image/png" in data:
        figure = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
        png = io.BytesIO()
        figure.quantize(64).save(png, "png", optimize=True)
        data["image/png"] = base64.b64encode(png.getvalue()).decode()


def errors(stored, ran):
    if stored.metadata.get("outputs_of") != code_hash(stored):
        yield "the outputs are of other code"
    for old, new in zip(stored.cells, ran.cells):
        if old.cell_type == "code" and [*map(words, old.outputs)] != [*map(words, new.outputs)]:
            yield (f"cell {old.id}: stored is {[*map(words, old.outputs)]}, "
                   f"but it now says {[*map(words, new.outputs)]}")


def main():
    if not sys.argv[1:] or sys.argv[1:-1] not in ([], ["--write"]):
        sys.exit(__doc__)
    path = sys.argv[-1]
    stored = nbformat.read(path, as_version=4)
    ran = nbformat.read(path, as_version=4)
    beside = {"metadata": {"path": os.path.dirname(os.path.abspath(path))}}  # as Jupyter runs it
    nbclient.NotebookClient(ran, timeout=300, record_timing=False, resources=beside).execute()
    if "--write" in sys.argv:
        for cell in ran.cells:
            for output in cell.get("outputs", []):
                shrink(output)
        ran.metadata = {"kernelspec": stored.metadata.kernelspec, "outputs_of": code_hash(ran)}
        nbformat.write(ran, path)
        return
    found = [*errors(stored, ran)]
    for error in found:
        print(f"check_notebook: error: {path}: {error}: look at the outputs, and store right ones by"
              " scripts/check_notebook.py --write", file=sys.stderr)
    print(f"{path}: ran its {sum(cell.cell_type == 'code' for cell in ran.cells)} cells of code")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
