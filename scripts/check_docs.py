#!/usr/bin/env python3
"""Checks the documents against the program: commands, options and output.

Every command of accrue in a code block must have the options that the block shows. An option in
prose or tables, such as `--epochs 3`, must exist in a command; if the option has a choice of
values, it must take the value shown. A table under the comment

    <!-- options: HEADING -->

names in its first column all options under this heading of `accrue train --help-all`, and no others.
This comment above a block, which a browser does not show, has the block run:

    <!-- run -->

Every line of such a block is a command. If some lines begin with "$ ", only those lines are
commands, and the lines after each are its output. A command must succeed, or fail in a block that
is marked <!-- run, fails -->. The lines of output that are shown must come in this order, alone or
between others; "..." stands for any text. The blocks of one document run in one scratch folder,
from the top, so a block may use files that an earlier one has written.

    <!-- part of kernels/prelu.cpp -->

marks a piece of a source. Pieces of one name are joined, beside the project's sources, and every
.cpp must compile.

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
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
TABLE = re.compile(r"<!-- options: (.+) -->")
# Options of the scripts here, of MPI's and Slurm's launchers, of containers and of llama.cpp.
OTHERS = {"--bind-to", "--busy", "--every-level", "--failed", "--jinja", "--map-by", "--mpi",
          "--network", "--processor-time", "--rehearse", "--runner", "--thorough", "--volume"}


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
        self.known, self.choices = self.completed()
        self.errors = []
        self.checked = self.named = self.run = self.compiled = 0

    def completed(self):
        """The words that shells complete: all options, and the choices of each option that has
        choices in every command."""
        script = subprocess.run([self.program, "completion", "bash"], capture_output=True,
                                text=True, check=True).stdout
        words = dict(re.findall(r"^ +'([^']*)'\) words='([^']*)'", script, re.MULTILINE))
        has = {}
        for path, following in words.items():
            for option in OPTION.findall("" if "--" in path else following):
                has.setdefault(option, []).append(set(words.get(path + option, "").split()))
        return set(has) | {"--help-all"}, {option: set.union(*choices) for option, choices in has.items()
                          if all(choices)}

    def options(self, path):
        if path not in self.helps:
            shown = subprocess.run([self.program, *path, "--help-all"], capture_output=True,
                                   text=True, check=False)
            self.helps[path] = set(re.findall(r"--[a-z][a-z0-9-]*", shown.stdout))
        return self.helps[path]

    def headings(self):
        """The options of train by their headings."""
        shown = subprocess.run([self.program, "train", "--help-all"], capture_output=True, text=True,
                               check=False).stdout
        parts = re.split(r"^(\S.*):$", shown, flags=re.MULTILINE)
        return {heading: set(re.findall(r"^  (--[a-z0-9-]+)", part, re.MULTILINE))
                for heading, part in zip(parts[1::2], parts[2::2])}

    def check_named(self, where, line):
        """Checks the options that a line of prose names."""
        for code in re.findall(r"`(--[^`]+)`", line):
            words = code.split()
            for word, following in zip(words, words[1:] + ["--"]):
                option, _, value = word.partition("=")
                if not OPTION.fullmatch(option) or option in OTHERS:
                    continue
                self.named += 1
                if option not in self.known:
                    self.errors.append(f"{where}: no command of accrue has {option}")
                value = value or following
                values = set(value.split("|")) if re.fullmatch(r"[a-z][a-z0-9|-]*", value) else set()
                if option in self.choices and not values <= self.choices[option]:
                    self.errors.append(f"{where}: {option} does not take {value}, but "
                                       f"{' '.join(sorted(self.choices[option]))}")

    def check_table(self, where, heading, lines):
        """Checks that a table has the options of a heading."""
        rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
        named = {option for row in rows for option in OPTION.findall(row.split("|")[1])}
        there = self.headings().get(heading, set())
        for option in sorted(named ^ there):
            state = "lacks" if option in there else "has"
            self.errors.append(f"{where}: the table of the options under '{heading}' {state} {option}")

    def check_prose(self, name, lines):
        fenced = False
        for i, line in enumerate(lines):
            fenced ^= line.startswith("```")
            if fenced or line.startswith("    "):
                continue
            self.check_named(f"{name}:{i + 1}", line)
            if mark := TABLE.search(line):
                rest = itertools.dropwhile(lambda line: not line.strip(), lines[i + 1:])
                self.check_table(f"{name}:{i + 1}", mark[1], rest)

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
        self.check_prose(name, lines)
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
    print(f"{checker.checked} commands have the options they are shown with, {checker.named} options"
          f" are known, {checker.run} were run, {checker.compiled} sources compiled")
    sys.exit(bool(checker.errors))


if __name__ == "__main__":
    main()
