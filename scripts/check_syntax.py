#!/usr/bin/env python3
"""Compiles each source by itself, for its errors and warnings alone (-fsyntax-only).

The builds of scripts/test.sh and scripts/demo.sh compile many sources together, so a source may use
a header that only another source includes. Without --all, compiles the sources that changed since
the branch left origin's main, and those that include changed files; on main itself, the changes of
the last 50 commits. Uncommitted changes count. All of them would take a few minutes of a processor:
--limit N takes the first, beginning with the changed files, then the files that include them, and
so on.

A source that both presets have, release and simt (CUDA sources as C++), is compiled as in release.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from check_words import ROOT, SOURCES, files_like

PRESETS = ("release", "simt")
COMMITS_ON_MAIN = 50
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def git(*arguments):
    """Lines of output, or None if git fails or is not installed."""
    # A clone owned by another user is refused without safe.directory.
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.splitlines()


def first_commit_to_leave_out():
    head = git("rev-parse", "HEAD")
    for branch in ("@{upstream}", "origin/HEAD", "origin/main"):
        base = git("merge-base", "HEAD", branch)
        if base and base != head:
            return base[0]
    commits = git("rev-list", f"--max-count={COMMITS_ON_MAIN + 1}", "HEAD")
    return commits[-1] if commits else None


def changed_since(commit):
    names = git("diff", "--name-only", commit, "--", *SOURCES)
    if names is None:
        sys.exit(f"check_syntax: error: git knows no commit {commit}")
    return {*names, *(git("ls-files", "--others", "--exclude-standard", "--", *SOURCES) or [])}


def includes_of(path):
    """Files of this project that a file includes; the runner's headers have the names of CUDA's."""
    names = INCLUDE.findall((ROOT / path).read_text(encoding="utf-8"))
    candidates = (name for used in names for name in (used, f"tests/simt/include/{used}"))
    return {name for name in candidates if (ROOT / name).is_file()}


def with_what_includes(changed):
    includers = {}
    for file in files_like(SOURCES):
        path = file.relative_to(ROOT).as_posix()
        for included in includes_of(path):
            includers.setdefault(included, []).append(path)
    found = sorted(changed)
    seen = set(found)
    for path in found:  # the loop appends to it
        new = [includer for includer in includers.get(path, ()) if includer not in seen]
        found += new
        seen.update(new)
    return found


def configure(preset, options):
    """The compile command and folder of each source, by its path from the root."""
    folder = ROOT / "build" / "syntax" / preset
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "--preset", preset, "-DACCRUE_TESTS=ON",
                    "-DCMAKE_UNITY_BUILD=OFF", *options], check=True, stdout=subprocess.DEVNULL)
    commands = {}
    for entry in json.loads((folder / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(folder):
            generate(folder, path)
        else:
            commands.setdefault(path.relative_to(ROOT).as_posix(), entry)
    return commands


def generate(folder, source):
    """Makes a generated source (protobuf's), whose header others may include, without building its
    dependencies: CMake makes it depend on all libraries that its own library links to."""
    if not source.exists():
        command = subprocess.run(["ninja", "-C", folder, "-t", "commands", "-s",
                                  source.relative_to(folder)],
                                 check=True, capture_output=True, text=True).stdout
        subprocess.run(command, shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def compile_alone(entry):
    arguments = shlex.split(entry["command"])
    output = arguments.index("-o")
    del arguments[output:output + 2]
    arguments.remove("-c")  # Clang would warn that it has no effect
    ran = subprocess.run([*arguments, "-fsyntax-only"], cwd=entry["directory"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return ran.returncode, ran.stdout


def main():
    parser = argparse.ArgumentParser(
        epilog="Other options are CMake's.", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--all", action="store_true", help="every source")
    parser.add_argument("--since", metavar="COMMIT", help="sources that changed since this commit")
    parser.add_argument("--limit", metavar="N", type=int, help="at most N of these sources")
    parser.add_argument("--list", action="store_true", help="name the sources; compile nothing")
    arguments, options = parser.parse_known_args()

    commit = arguments.since or first_commit_to_leave_out()
    if not arguments.all and commit is None:
        print("check_syntax: no history here, which would tell what changed: nothing to check")
        return 0
    commands = {}
    for preset in reversed(PRESETS):
        commands.update(configure(preset, options))
    chosen, why = list(commands), ""
    if not arguments.all:
        found = with_what_includes(changed_since(commit))
        found = [path for path in found if path in commands]
        chosen = found[:arguments.limit]
        why = f" of {len(found)} that changed since {commit[:10]}, or include what did"
    if arguments.list:
        print("\n".join(chosen))
        return 0

    failures = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for status, said in pool.map(compile_alone, map(commands.get, chosen)):
            failures += status != 0
            print(said, end="", file=sys.stderr)
    print(f"check_syntax: {len(chosen)} sources{why}: {failures} do not compile alone")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
