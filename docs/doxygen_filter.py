#!/usr/bin/env python3
"""Prints a header as Doxygen is to see it: contracts are plain `//` comments, which it skips.

- A comment before a declaration, or behind one, becomes Doxygen's. One that stands alone is about
  the file. One that names a function also stands for it where it follows the first.
- Lines that are set in (formulas, tables) are shown as they stand. No other character means
  anything but itself, except what is between backticks.
- Comments in the bodies of functions stay what they are.
- Specialisations of other libraries' templates are left out: Doxygen cannot place them.
"""

import re
import sys

ALONE = re.compile(r"^(\s*)// ?(.*)$")
BEHIND = re.compile(r"^(\s*[^\s}#/].*?\s\s)// (.*)$")
SPECIAL = re.compile(r"([\\@#<>%&*_|\[\]])")
SCOPE = re.compile(r"^\s*(template\s*<[^>]*>\s*)?(namespace|class|struct|union|enum)\b")
FUNCTION = re.compile(r"(\w+)\(")


def prose(text):
    parts = text.split("`")
    parts[::2] = [SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def documentation(texts, margin, mark="///"):
    """The lines of a comment for Doxygen."""
    shown = False
    for text in texts:
        if text.startswith("  ") != shown and text:
            shown = not shown
            yield f"{margin}{mark} @{'verbatim' if shown else 'endverbatim'}"
        yield f"{margin}{mark} {text if shown else prose(text)}"
    if shown:
        yield f"{margin}{mark} @endverbatim"


class Scopes:
    """Whether the code read so far has come to the body of a function."""

    def __init__(self):
        self.statement, self.open = "", []

    def read(self, code):
        if code.startswith("#"):
            return
        for character in code + " ":
            if character == "{":
                self.open.append(bool(SCOPE.match(self.statement)))
            elif character == "}" and self.open:
                self.open.pop()
            self.statement = "" if character in "{};" else self.statement + character

    def in_body(self):
        return not all(self.open)


def filtered(lines):
    scopes, lines = Scopes(), [*lines, ""]
    said = []  # the comment on the declaration before this one
    foreign = False
    i = 0

    def comment(begin, column):
        """The texts of the comment lines from `begin` on that are set in by `column`."""
        texts = []
        while (found := ALONE.match(lines[begin + len(texts)])) and len(found[1]) == column:
            texts.append(found[2])
        return texts

    while i < len(lines):
        alone, behind = ALONE.match(lines[i]), BEHIND.match(lines[i])
        code = lines[i].split("//")[0]
        if scopes.in_body():
            yield lines[i]
            scopes.read(code)
        elif alone:
            said = comment(i, len(alone[1]))
            i += len(said) - 1
            if not lines[i + 1].strip():
                yield "/// @file"
            yield from documentation(said, alone[1])
        elif behind:
            texts = [behind[2], *comment(i + 1, len(behind[1]))]
            i += len(texts) - 1
            yield behind[1] + "///< " + prose(" ".join(texts))
            scopes.read(code)
        else:
            name = FUNCTION.search(code)
            follows = ALONE.match(lines[i - 1]) is None and not scopes.statement.strip()
            if name and follows and re.search(rf"\b{name[1]}\b", " ".join(said)):
                yield from documentation(said, "")
            if not code.strip():
                said = []
            if code.startswith("template <>"):
                foreign = True
                yield "/// @cond"
            yield lines[i]
            if foreign and code.startswith("};"):
                foreign = False
                yield "/// @endcond"
            scopes.read(code)
        i += 1


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(filtered(header.read().splitlines())))
