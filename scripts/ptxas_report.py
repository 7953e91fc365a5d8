#!/usr/bin/env python3
"""What nvcc makes of the CUDA kernels: registers, spills, shared memory and 128-bit accesses.

    scripts/ptxas_report.py                              every kernel, as a table
    scripts/ptxas_report.py accumulate optimizer_step    those of kernels/accumulate.cu, ...
    scripts/ptxas_report.py --markdown docs/ptxas.md     a short table

Compiles as a build by preset cuda does, for one architecture, without a GPU. Exits with 1 if a
kernel spills registers, or if one of those that every parameter goes through is meant to access 16
bytes at a time (its first template argument, the width, is above 1) and has no 128-bit load.
Accesses are counted in the machine code where nvdisasm is found (CUDA toolkit; in Python the
package nvidia-cuda-nvdisasm), else in PTX.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every parameter goes through their kernels: the short table has each of them.
STEP_KERNELS = ("accumulate", "optimizer_step")


@dataclasses.dataclass
class Kernel:
    source: str
    name: str
    registers: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    wide_loads: int = 0
    wide_stores: int = 0

    def faults(self):
        width = self.source in STEP_KERNELS and re.search(r"_kernel<(\d+),", self.name)
        if self.spill_bytes:
            yield f"{self.name} spills {self.spill_bytes} bytes"
        if width and int(width.group(1)) > 1 and not self.wide_loads:
            yield f"{self.name} has no 128-bit load"


def output_of(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def compile_commands(build):
    """By stem, how a build by nvcc compiles a source: all but the target and the output."""
    database = build / "compile_commands.json"
    if not database.is_file():
        output_of(["cmake", "--preset", "cuda", "-B", build], cwd=ROOT)
    commands = {}
    for entry in json.loads(database.read_text()):
        source = pathlib.Path(entry["file"])
        if source.suffix != ".cu" or "tests" in source.relative_to(ROOT).parts:
            continue
        words = shlex.split(entry["command"])
        first = next(i for i, word in enumerate(words) if word.endswith("nvcc"))
        kept = [word for word in words[first:] if not word.startswith("--generate-code")]
        for option, values in (("-o", 1), ("-c", 1), ("-MT", 1), ("-MF", 1), ("-MD", 0)):
            if option in kept:
                place = kept.index(option)
                del kept[place:place + 1 + values]
        commands[source.stem] = kept + [str(source)]
    return commands


def find_nvdisasm(nvcc):
    beside = pathlib.Path(shutil.which(nvcc) or nvcc).resolve().parent / "nvdisasm"
    python = [pathlib.Path(place) / "nvidia" for place in sys.path]
    python = [found for place in python for found in place.glob("cu*/bin/nvdisasm")]
    for candidate in [shutil.which("nvdisasm"), beside, *python]:
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def resources(report):
    """By mangled name, what `ptxas -v` says of each kernel."""
    kernels, current, of_entry = {}, None, False
    for line in report.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            current = kernels[entry.group(1)] = Kernel("", "")
        elif properties := re.search(r"Function properties for (\w+)", line):
            # Of the kernel itself, or of a function that the kernel before it calls.
            of_entry = properties.group(1) in kernels
        elif frame := re.search(r"(\d+) bytes stack frame, (\d+) .*stores, (\d+) .*loads", line):
            current.stack_bytes += int(frame.group(1))
            current.spill_bytes += int(frame.group(2)) + int(frame.group(3))
        elif of_entry and (used := re.search(r"Used (\d+) registers", line)):
            current.registers = int(used.group(1))
            shared = re.search(r"(\d+) bytes smem", line)
            current.shared_bytes = int(shared.group(1)) if shared else 0
    return kernels


def count_accesses(text, section, load, store):
    """By the kernels' readable names, because mangled ones differ from compilation to compilation:
    the loads and the stores."""
    counts, current = {}, None
    for line in text.splitlines():
        if found := re.match(section, line):
            current = counts[found.group(1)] = [0, 0]
        elif current:
            current[0] += bool(re.search(load, line))
            current[1] += bool(re.search(store, line))
    return dict(zip(readable(counts), counts.values()))


def inspect(source, command, architecture, nvdisasm):
    with tempfile.TemporaryDirectory() as scratch:
        cubin = f"{scratch}/kernels.cubin"
        command = command + [f"-arch={architecture}"]
        kernels = resources(output_of([*command, "-cubin", "-Xptxas", "-v", "-o", cubin]))
        if nvdisasm:
            counts = count_accesses(output_of([nvdisasm, cubin]), r"\.text\.(\w+):",
                                    r"\bLDG\.\S*128\b", r"\bSTG\.\S*128\b")
        else:
            ptx = f"{scratch}/kernels.ptx"
            output_of([*command, "-ptx", "-o", ptx])
            counts = count_accesses(
                pathlib.Path(ptx).read_text(), r".*\.entry (\w+)\(",
                r"\bld\.(?!param|shared|local)\S*(v4\.[fbsu]32|v2\.[fbsu]64)",
                r"\bst\.(?!param|shared|local)\S*(v4\.[fbsu]32|v2\.[fbsu]64)")
    for kernel, name in zip(kernels.values(), readable(kernels)):
        kernel.source, kernel.name = source, name
        kernel.wide_loads, kernel.wide_stores = counts[name]
    return list(kernels.values())


def readable(mangled):
    names = output_of(["c++filt", "-p", *mangled]).splitlines() if mangled else []
    return [re.sub(r"accrue::|cuda::|formula::|\(anonymous namespace\)::|^void ", "", name)
            for name in names]


def table(heads, rows):
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def kernel_table(kernels):
    return table(
        ["kernel", "registers", "spilled bytes", "stack", "shared", "128-bit loads", "stores"],
        [[f"`{k.name}`", k.registers, k.spill_bytes, k.stack_bytes, k.shared_bytes, k.wide_loads,
          k.wide_stores] for k in sorted(kernels, key=lambda k: (k.source, k.name))])


def short_report(kernels, how):
    by_source = collections.defaultdict(list)
    for kernel in kernels:
        by_source[kernel.source].append(kernel)
    of_step = [kernel for kernel in kernels if kernel.source in STEP_KERNELS]
    rows = [[f"{source}.cu", len(of_source), max(k.registers for k in of_source),
             sum(k.spill_bytes for k in of_source), max(k.stack_bytes for k in of_source),
             max(k.shared_bytes for k in of_source)]
            for source, of_source in sorted(by_source.items())]
    return f"""# What the compiler makes of the kernels

Written by `scripts/ptxas_report.py --markdown FILE`, which prints every kernel without the option
and fails if one spills. {how}

## The kernels that every parameter goes through

The first template argument is the number of elements that a thread takes at a time; the kernels of
width 1 are for addresses that are not aligned to 16 bytes. Loads and stores are instructions (loops
are unrolled). Accumulating 16-bit gradients loads the sum by 128 bits, the gradient by 64.

{kernel_table(of_step)}

## All of them

{table(["source", "kernels", "most registers", "spilled bytes", "largest stack", "most shared"], rows)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="STEM", help="default: every .cu")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "ptxas",
                        help="a build by preset cuda; configured if it is not there")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the short table")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    commands = compile_commands(options.build)
    unknown = sorted(set(options.sources) - set(commands))
    if unknown:
        parser.error(f"no {unknown[0]}.cu; there are {', '.join(sorted(commands))}")
    wanted = options.sources or sorted(commands)
    nvcc = commands[wanted[0]][0]
    nvdisasm = find_nvdisasm(nvcc)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(
            lambda stem: inspect(stem, commands[stem], options.architecture, nvdisasm), wanted)
        kernels = [kernel for result in results for kernel in result]

    release = re.search(r"release ([\d.]+)", output_of([nvcc, "--version"])).group(1)
    how = (f"nvcc {release}, {options.architecture}, accesses counted in"
           f" {'the machine code' if nvdisasm else 'PTX (no nvdisasm here)'}.")
    print(f"{kernel_table(kernels)}\n\n{len(kernels)} kernels. {how}")
    if options.markdown:
        options.markdown.write_text(short_report(kernels, how))
    faults = [fault for kernel in kernels for fault in kernel.faults()]
    for fault in faults:
        print(f"ptxas_report: error: {fault}", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
