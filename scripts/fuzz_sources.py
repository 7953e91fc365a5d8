#!/usr/bin/env python3
"""Prints the sources of one folder that tests/fuzz/parsers.cpp needs, as their includes tell.

A source belongs to the header of its name, or if there is none to all headers of its folder that it includes. From
parsers.cpp on, the script follows the sources of each included header, their headers, and so on. It leaves out the
engine and the files that lead there (BEYOND), because parsers make no networks.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("data", "fonts", "images", "text")
BEYOND = {"data/dataset.h", "data/samples.h", "images/image_samples.cpp", "images/images_to_answer.cpp",
          "text/domain_data.cpp", "text/domain_settings.cpp", "text/models.h", "text/pretrained.h"}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def includes(path):
    return INCLUDE.findall((ROOT / path).read_text(encoding="utf-8"))


def sources_of_headers():
    found = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in (ROOT / folder).glob("*.cpp"):
            source = f"{folder}/{path.name}"
            own = source[:-len("cpp")] + "h"
            headers = [own] if (ROOT / own).exists() else includes(source)
            for header in headers:
                if header.startswith(folder + "/"):
                    found[header].append(source)
    return found


def needed_by(start):
    of_header = sources_of_headers()
    needed, left = set(), [start]
    while left:
        path = left.pop()
        if path in needed:
            continue
        needed.add(path)
        for header in includes(path):
            if header.split("/")[0] in FOLDERS and header not in BEYOND:
                left += {header, *of_header[header]} - BEYOND
    return sorted(path for path in needed if path.endswith(".cpp") and path != start)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in FOLDERS:
        sys.exit(f"usage: fuzz_sources.py {'|'.join(FOLDERS)}")
    for source in needed_by("tests/fuzz/parsers.cpp"):
        if source.startswith(sys.argv[1] + "/"):
            print(source)
