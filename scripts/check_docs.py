#!/usr/bin/env python3
"""Checks what the documents say of the program, as a reader would find out.

Every command of accrue in a code block must have the options that it is shown with. Blocks are run
that are marked by a comment, which a browser does not show, in the line above them:

    <!-- run -->

Every line of such a block is a command. Where lines begin with "$ ", only those are commands, and
what follows each is its output. A command must succeed, or fail in a block that is marked
<!-- run, fails -->. The lines of output that are shown must come in this order, alone or between
others; "..." stands for any text. The blocks of one document run in one scratch folder, from the
top, so that one may use what another has written.

    <!-- part of kernels/prelu.cpp -->

is a piece of a source. Pieces of one name are joined, beside the project's sources, and every .cpp
must compile.

Usage: check_docs.py PROGRAM [DOCUMENT ...]
"""

import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from check_words import ROOT, documents, text_of

MARK = re.compile(r"<!-- (run)(, fails)? -->|<!-- part of (\S+) -->")
COMPILE = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
           "-Wno-missing-field-initializers"]
COMMANDS = {"train", "eval", "predict", "plan", "info", "report", "bench", "data", "font",
            "text", "export", "completion"}
GROUPS = {"bench", "data", "font", "text"}  # of commands


def blocks(lines):
    """Yields (first line's number, lines, mark or None) of each indented or fenced block."""
    i, mark = 0, None
    while i < len(lines):
        fenced = lines[i].startswith("```")
        if fenced or (lines[i].startswith("    ") and lines[i].strip()):
            begin = i + fenced
            end = begin
            while end < len(lines) and (
                    not lines[end].startswith("```") if fenced else
                    lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            cut = 0 if fenced else 4
            yield begin + 1, [line[cut:].rstrip() for line in lines[begin:end]], mark
            i, mark = end + fenced, None
            continue
        if lines[i].strip():
            mark = MARK.search(lines[i])
        i += 1


def commands(block):
    """Yields (offset, command, lines of output) of a block of commands; continued lines joined."""
    prompts = any(line.startswith("$ ") for line in block)
    i = 0
    while i < len(block):
        begin, line = i, block[i]
        while line.endswith("\\") and i + 1 < len(block):
            i += 1
            line = line[:-1] + " " + block[i].strip()
        i += 1
        if prompts and not line.startswith("$ "):
            continue
        output = []
        while prompts and i < len(block) and not block[i].startswith("$ "):
            output.append(block[i].strip())
            i += 1
        if line.strip():
            yield begin, line.removeprefix("$ ").strip(), [text for text in output if text]


def parts_of(command):
    """The commands of a line of shell that are accrue's, as lists of words."""
    for part in re.split(r"&&|\|\||;|\|", re.sub(r"(^|\s)#.*", "", command)):
        try:
            words = shlex.split(part)
        except ValueError:
            continue
        words = [word for word in words if not re.fullmatch(r"\w+=.*", word)]
        if len(words) > 1 and re.fullmatch(r"(\$|.*/)?accrue", words[0]):
            yield words[1:]


class Checker:
    def __init__(self, program):
        self.program = program
        self.helps = {}
        self.errors = []
        self.checked = self.run = self.compiled = 0

    def options(self, path):
        if path not in self.helps:
            shown = subprocess.run([self.program, *path, "--help-all"], capture_output=True,
                                   text=True, check=False)
            self.helps[path] = set(re.findall(r"--[a-z][a-z0-9-]*", shown.stdout))
        return self.helps[path]

    def check_options(self, where, command):
        for words in parts_of(command):
            path = tuple(itertools.takewhile(re.compile("[a-z]+").fullmatch,
                                             words[:2 if words[0] in GROUPS else 1]))
            if not path or path[0] not in COMMANDS:
                continue
            self.checked += 1
            for word in words:
                option = word.split("=")[0]
                if option.startswith("--") and option not in self.options(path):
                    self.errors.append(f"{where}: accrue {' '.join(path)} has no {option}")

    def execute(self, where, command, output, folder, fails):
        self.run += 1
        path = f"{pathlib.Path(self.program).parent}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path},
                              text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if (done.returncode != 0) != fails:
            self.errors.append(f"{where}: '{command}' ends with {done.returncode}:\n{done.stdout}")
            return
        rest = iter(done.stdout.splitlines())
        for expected in output:
            pattern = ".*".join(re.escape(text) for text in expected.split("..."))
            if not any(re.fullmatch(pattern, line.strip()) for line in rest):
                self.errors.append(f"{where}: '{command}' prints no line '{expected}' in its place:"
                                   f"\n{done.stdout}")
                return

    def compile(self, document, parts, folder):
        for file, text in parts.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        for file in parts:
            if not file.endswith(".cpp"):
                continue
            self.compiled += 1
            done = subprocess.run([*COMPILE, f"-I{folder}", f"-I{ROOT}", str(folder / file)],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.errors.append(f"{document}: {file} does not compile:\n{done.stderr}")

    def check(self, document):
        lines = text_of(document).splitlines()
        name = document.relative_to(ROOT) if document.is_relative_to(ROOT) else document
        parts = {}
        with tempfile.TemporaryDirectory() as folder:
            for number, block, mark in blocks(lines):
                if mark and mark[3]:
                    parts[mark[3]] = parts.get(mark[3], "") + "\n".join(block) + "\n"
                    continue
                for offset, command, output in commands(block):
                    where = f"{name}:{number + offset}"
                    self.check_options(where, command)
                    if mark:
                        self.execute(where, command, output, folder, bool(mark[2]))
            self.compile(name, parts, pathlib.Path(folder))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    checker = Checker(str(pathlib.Path(sys.argv[1]).resolve()))
    for document in [pathlib.Path(name).resolve() for name in sys.argv[2:]] or documents():
        checker.check(document)
    for error in checker.errors:
        print(f"check_docs: error: {error}", file=sys.stderr)
    print(f"{checker.checked} commands have the options they are shown with,"
          f" {checker.run} were run, {checker.compiled} sources compiled")
    sys.exit(bool(checker.errors))


if __name__ == "__main__":
    main()
