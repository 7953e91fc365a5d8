#!/usr/bin/env python3
"""Checks that what the documents name exists, how they are written, and how comments begin.

- A path of a file of this project, in a document's prose or as the target of a link, exists: from
  the root or from the document's folder. `x.h`, of one letter, stands for any file.
- A function or member in backticks that looks like C++, `symbol()` or `Class::member`, occurs in
  the code of the sources. Scripts, which call other libraries, and CMake's files count, too.
- A sentence of a document has at most 40 words. Code in backticks is one word, and so is a list of
  such code; blocks of code, tables, and items of lists that explain an option have no sentences.
- A document says things in plain words, in tables, too: it has no turn of phrase of DIALECT.
- The same holds for comments of sources and scripts, docstrings, and what the program says in
  strings. Lines of a comment that are indented by three spaces are formulas or tables.
- A comment in a source begins with a sentence, not with "Of" or "Those".
- Messages of libraries name no --options of the program, because not every caller has them. Domains
  have settings and may name them, and so may a message with another program's command.

Usage: check_words.py [DOCUMENT ...]
"""

import ast
import functools
import io
import json
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXTENSIONS = "h|cpp|cu|cuh|py|sh|md|ipynb|png|txt|in|cmake|proto|js|css|html|json|yml"
SOURCES = ("*.h", "*.cpp", "*.cu", "*.cuh")
BESIDE = ("*.py", "*.cmake", "CMakeLists.txt")  # whose words are symbols, too
PATH = re.compile(
    r"(?<![\w/.~$*<-])((?:[\w.-]+/)*[\w.-]*(?:\{[\w,]+\})?[\w.-]*\."
    rf"(?:{EXTENSIONS}|\{{[a-z,]+\}}))(?![\w/*-])")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"((?:\w+(?:::|\.))*~?\w+)(?:<[^()]*>)?\(")
MEMBER = re.compile(r"(?:\w+::)+~?\w+")
# Files of these kinds are known by their names alone; others may be anybody's.
NAMED_ALONE = {"h", "cpp", "cu", "cuh", "py", "sh", "md"}
WRITTEN = {"summary.md"}  # by runs of the program
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OTHERS_COMMAND = re.compile(r"--preset|python3 -c")
NO_LIBRARIES = {"apps", "examples", "job", "python", "scripts", "tests"}
FRAGMENT = re.compile(r"//\s*(Of|Those)\s")
MOST_WORDS = 40  # of a sentence
MARKED = re.compile(r"(?s)`[^`]+`")
CODE_LIST = re.compile(r"CODE(?:,?\s+(?:and\s+|or\s+|to\s+)?CODE)+")
LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"(?:[-*]|\d+\.)\s")
ABBREVIATIONS = ("al", "e\\.g", "i\\.e", "vs", "cf", "No", "Fig")
SENTENCE_END = re.compile("".join(rf"(?<!\b{word})" for word in ABBREVIATIONS) +
                          r"[.!?][\"')*]*(?=\s|$)")
# A sentence, or a clause after a colon.
BEGINS = r"(?:^(?:[-*]\s+|\d+\.\s+)?|(?<=[.!?:;]\s))"
# Turns of phrase that a stranger stumbles over, and what to write instead.
DIALECT = {
    "of these, of those": (re.compile(
        r"(?<!\bone )(?<!\bsome )(?<!\beach )\bof (?:these|those)\b"
        r"(?=[,.;:)]|\s+(?:is|are|was|were|has|have|for|in|on|with|and|or|by|at|the|an?|its)\b)"),
        "name the things"),
    "those of": (re.compile(r"\b[Tt]hose\s+of\b"), "name the things again"),
    "what ... of them": (re.compile(r"\bwhat\b[^.;:]{0,50}\bof\s+(?:them|it|these|those)\b"),
                         "name the part"),
    "is what": (re.compile(r"\b(?:is|are|was)\s+what\b"), "begin with the subject"),
    "What ... is": (re.compile(BEGINS + r"What\s+(?!to\b)[a-z][^?]*?[.;](?=\s|$)", re.M),
                    "begin with a noun"),
    "is said": (re.compile(r"\b(?:is|are|was|were)\s+said\b"), "say who says it"),
    "heed": (re.compile(r"\bheed(?:s|ed)?\b"), "use: takes effect"),
    "in the mean": (re.compile(r"\bin the mean\b"), "use: on average"),
    "one's own": (re.compile(r"\bone's\s+own\b"), "use: your own"),
    "of so many": (re.compile(r"\bof\s+so\s+many\b"), "give the number"),
    "Of ...": (re.compile(BEGINS + r"Of\s+(?!course\b)", re.M), "begin with the subject"),
    "what is there": (re.compile(r"\bwhat\s+(?:is|are)\s+there\b"), "name the things"),
}


def documents():
    beside = ("README.md", "CONTRIBUTING.md", "tests/README.md", "tests/simt/README.md")
    return [ROOT / name for name in beside] + [
        path for folder in ("docs", "accumulate", "kernels") for kind in ("*.md", "*.ipynb")
        for path in sorted((ROOT / folder).rglob(kind))]


def text_of(document):
    """A document's text; for a notebook that of its Markdown cells, in which lines are counted."""
    text = document.read_text(encoding="utf-8")
    if document.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"]
                       if cell["cell_type"] == "markdown")


def folders():
    return [path for path in sorted(ROOT.iterdir())
            if path.is_dir() and not path.name.startswith(".") and path.name != "build"]


def files_like(patterns):
    return [path for pattern in patterns for folder in folders()
            for path in sorted(folder.rglob(pattern))]


@functools.cache
def file_names():
    return {path.name for folder in folders() for path in folder.rglob("*") if path.is_file()} | {
        path.name for path in ROOT.iterdir() if path.is_file()}


def code_of(text):
    """A source's text without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


@functools.cache
def symbols():
    """Every word of the sources' code."""
    words = set()
    for path in files_like(SOURCES):
        words.update(re.findall(r"\w+", code_of(path.read_text(encoding="utf-8"))))
    for path in [*files_like(BESIDE), ROOT / "CMakeLists.txt"]:
        if not path.name.endswith("_test.py"):
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return words


def prose(text):
    """A document without its blocks of code, line for line."""
    lines, fenced, block, before = [], False, False, ""
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
            lines.append("")
            continue
        block = line.startswith("    ") and (block or not before.strip())
        lines.append("" if fenced or block else line)
        before = "" if block else line
    return "\n".join(lines)


def alternatives(path):
    """kernels/linear.{h,cpp} is two files."""
    found = re.search(r"\{([\w,]+)\}", path)
    if not found:
        return [path]
    return [path.replace(found[0], one) for one in found[1].split(",")]


def is_placeholder(path):
    return len(pathlib.PurePath(path).name.split(".")[0]) == 1


def has_file(path, folder, made):
    """Whether `path`, in a document in `folder` with the files `made` as blocks, names a file."""
    inside = path.removeprefix("accrue/")  # as installed
    stem = path.rsplit(".", 1)[0]
    if any((base / one).exists() for base in (ROOT, folder, folder / "include")
           for one in (path, inside)) or any(one.rsplit(".", 1)[0] == stem for one in made):
        return True
    name = pathlib.PurePath(path).name
    if "/" in path:
        first = path.split("/")[0]
        return first == "build" or not ((ROOT / first).is_dir() or (folder / first).is_dir())
    return name in file_names() or any(pathlib.PurePath(one).stem == name.rsplit(".", 1)[0]
                                       for one in made)


def missing_files(text, folder, name):
    made = set(re.findall(r"<!-- part of (\S+) -->", text))
    for number, line in enumerate(prose(text).split("\n"), 1):
        named = [(path, False) for path in PATH.findall(re.sub(r"\w+://\S+", "", line))]
        named += [(path, True) for path in LINK.findall(line) if "://" not in path]
        for path, linked in named:
            if linked:
                if not (folder / path).exists():
                    yield f"{name}:{number}: no file {path} for a link"
                continue
            for one in alternatives(path):
                if is_placeholder(one) or pathlib.PurePath(one).name in WRITTEN:
                    continue
                if one.startswith(".") or "/" not in one and one.rsplit(".")[-1] not in NAMED_ALONE:
                    continue
                if not has_file(one, folder, made):
                    yield f"{name}:{number}: there is no {one}"


def names_in(code):
    """The names of functions and members that a piece between backticks has."""
    calls = [call for call in CALL.findall(code)
             if "." not in call and ("::" in call or code.startswith(call))]
    parts = [part for named in calls + MEMBER.findall(code) for part in named.split("::")]
    return {part.lstrip("~") for part in parts}


def missing_symbols(text, name, known):
    for number, line in enumerate(prose(text).split("\n"), 1):
        for code in CODE.findall(line):
            if not re.fullmatch(r"[\w:~<>, ]+(\(.*\))?", code) or re.search(r"\w\s+\w+\(", code):
                continue
            for symbol in sorted(names_in(code)):
                if symbol not in known:
                    yield f"{name}:{number}: no source has {symbol}, of `{code}`"


def paragraphs(text):
    """Yields (first line's number, text) of each paragraph and item of a list, code as CODE."""
    begin, lines = 0, []
    for number, line in enumerate([*prose(text).split("\n"), ""], 1):
        bare = line.strip()
        ends = not bare or bare[0] in "|<" or re.match(r"#+\s", bare)
        if lines and (ends or ITEM.match(bare)):
            whole = MARKED.sub(lambda code: "CODE" + "\n" * code[0].count("\n"), "\n".join(lines))
            whole = LINK_TEXT.sub(lambda link: link[1] + "\n" * (link[0].count("\n") -
                                                                 link[1].count("\n")), whole)
            yield begin, re.sub(r"\*\*|\*(?=\w)|(?<=\w)\*", "", whole)
            lines = []
        if not ends:
            begin = begin if lines else number
            lines.append(bare)


def cells(text):
    """Yields (line's number, text) of each cell of a table, code as CODE."""
    for number, line in enumerate(prose(text).split("\n"), 1):
        if line.startswith("|"):
            for cell in MARKED.sub("CODE", line).strip("|").split("|"):
                yield number, cell.strip()


def explains_option(lines, begin):
    """Whether the paragraph that begins there is an item like "- `--option`: what it does"."""
    return re.match(r"\s*[-*]\s+`--", lines[begin - 1]) is not None


def sentences(paragraph):
    """Yields (offset, sentence)."""
    begin = 0
    for end in SENTENCE_END.finditer(paragraph):
        yield begin, paragraph[begin:end.end()]
        begin = end.end()
    yield begin, paragraph[begin:]


def words_in(sentence):
    return sum(1 for word in CODE_LIST.sub("CODE", sentence).split() if re.search(r"\w", word))


def hard_to_read(text, name):
    """Sentences of a document that are too long, or in dialect."""
    lines = text.split("\n")
    for begin, paragraph in paragraphs(text):
        for offset, sentence in sentences(paragraph):
            words = words_in(sentence)
            if words > MOST_WORDS and not explains_option(lines, begin):
                first = begin + paragraph.count("\n", 0, offset + 1)
                yield (f"{name}:{first}: a sentence of {words} words, at most {MOST_WORDS}:"
                       f" {' '.join(sentence.split()[:6])} ...")
    for begin, piece in [*paragraphs(text), *cells(text)]:
        for phrase, (pattern, instead) in DIALECT.items():
            for found in pattern.finditer(piece):
                yield (f"{name}:{begin + piece.count(chr(10), 0, found.start())}: '{phrase}'"
                       f" in '{' '.join(found[0].split()[:8])}': {instead}")


def blocks_of_comments(lines):
    """Yields (first line's number, text) of comments, (number, is alone, text) each, that belong
    together: lines alone one after the other, or one beside code and those alone below it."""
    begin, block, before = 0, [], (0, True)
    for number, alone, text in [*lines, (0, True, "")]:
        joins = number == before[0] + 1 and alone and (before[1] or len(text) > 2)
        if block and not joins:
            yield begin, "\n".join(block) + "\n"
            block = []
        if number:
            begin = begin if block else number
            block.append("" if text.startswith("   ") else text.strip())
        before = (number, alone)


def comments_of_source(text):
    """Yields (line's number, whether it is alone, text) of comments that begin with //."""
    for number, line in enumerate(text.split("\n"), 1):
        bare = re.sub(STRING, lambda literal: "_" * len(literal[0]), line)
        at = bare.find("//")
        if at >= 0:
            yield number, not line[:at].strip(), re.sub(r"^[/!<*]*", "", line[at + 2:])


def comments_of_script(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], not token.line[:token.start[1]].strip(), token.string[1:]


def docstrings(text):
    """Yields (first line's number, text)."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and body and isinstance(
                body[0], ast.Expr) and isinstance(getattr(body[0].value, "value", None), str):
            yield body[0].lineno, body[0].value.value


def texts_in(path):
    """Yields (first line's number, text) of the texts in a source or script that people read."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from blocks_of_comments(comments_of_script(text))
        yield from docstrings(text)
        return
    yield from blocks_of_comments(comments_of_source(text))
    for number, line in enumerate(text.split("\n"), 1):
        for literal in STRING.findall(re.sub(r"//.*", "", line)):
            yield number, literal


def fragments(text, name):
    for number, line in enumerate(text.split("\n"), 1):
        if FRAGMENT.search(line):
            yield f"{name}:{number}: a comment begins with a fragment: {line.strip()}"


def options_in(text, name):
    """Options in the texts of a library's source."""
    for number, line in enumerate(text.split("\n"), 1):
        for literal in STRING.findall(line.split("//")[0]):
            found = OPTION.search(literal)
            if found and not OTHERS_COMMAND.search(literal):
                yield f"{name}:{number}: a library's text has {found[0]}, an option of the program"


def is_library(path):
    """False for sources that write the program's messages: they ask for a job or run a command."""
    parts = path.relative_to(ROOT).parts
    if parts[0] in NO_LIBRARIES or re.fullmatch(r"domain(_\w+)?\.cpp", path.name):
        return False
    headers = [path, path.with_suffix(".h")]
    return not any('#include "job/' in text_of(file) for file in headers if file.is_file())


def document_errors(document, known):
    text = text_of(document)
    name = document.relative_to(ROOT) if document.is_relative_to(ROOT) else document.name
    yield from missing_files(text, document.parent, name)
    yield from missing_symbols(text, name, known)
    yield from hard_to_read(text, name)


def source_errors(path):
    """Sentences that are hard to read in a source's or a script's comments and strings."""
    for number, text in texts_in(path):
        for error in hard_to_read(text, ""):
            line, what = error[1:].split(":", 1)
            yield f"{path.relative_to(ROOT)}:{int(line) + number - 1}:{what}"


def main():
    of = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or documents()
    found = [error for document in of for error in document_errors(document, symbols())]
    if not sys.argv[1:]:
        found += [error for path in files_like((*SOURCES, "*.py")) for error in source_errors(path)]
    found += [error for path in files_like(SOURCES)
              for error in fragments(path.read_text(encoding="utf-8"), path.relative_to(ROOT))]
    found += [error for path in files_like(SOURCES) if is_library(path)
              for error in options_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT))]
    for error in found:
        print(f"check_words: error: {error}", file=sys.stderr)
    print(f"the files, symbols and sentences of {len(of)} documents were looked up")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
