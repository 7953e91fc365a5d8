#!/usr/bin/env python3
"""Reports nvcc's CUDA kernels: registers, shared memory, launch bounds, 128-bit accesses.

    scripts/ptxas_report.py                              every kernel, as a table
    scripts/ptxas_report.py accumulate optimizer_step    kernels in accumulate/accumulate.cu, ...
    scripts/ptxas_report.py --loops tensor_core_attention    instructions of main loops
    scripts/ptxas_report.py --markdown docs/ptxas.md     a short table

Reads the objects of a build by preset cuda, which it brings up to date first; needs no GPU. Exits
with 1 if a kernel has one of these faults:

- It may fail to launch: it states no __launch_bounds__, or a block of that many threads needs more
  registers or shared memory than a block may have.
- It keeps anything in a stack, as spilled registers do.
- It is meant to access 16 bytes at a time (by its template argument `width`) and has no 128-bit
  load, or, for kernels in WIDE_STORES, no 128-bit store.
"""

import argparse
import collections
import dataclasses
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

import cubin

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every parameter goes through these sources' kernels, so the short table has each kernel. The table
# names sources, so it needs a build without CMAKE_UNITY_BUILD.
STEP_KERNELS = ("accumulate", "accumulate_bf16", "squared_norm", "optimizer_step")
# The instructions of these sources' loops are in the short page.
LOOP_KERNELS = ("tensor_core_attention", "linear_cross_entropy")
# A quarter of a multiprocessor issues an instruction a cycle, and makes 512 multiplications in 16
# bits, so m16n8k16 takes it 4 cycles.
TENSOR_CYCLES = 4
# Kernels that store vectors but load none: they gather elements one at a time, or load 16-bit
# elements for a vector of float.
WIDE_STORES = ("pixel_shuffle_kernel<", "pixel_shuffle_backward_kernel<", "resize_kernel<",
               "widen_kernel<", "elementwise_kernel<4, false, float, std::identity, ")
SIZES = {"double": 8, "float": 4, "BFloat16": 2, "Half": 2}
# The limits of a block and of a multiprocessor of compute capability 9.0. The rest of a
# multiprocessor's shared memory is for blocks that ask for it at run time.
BLOCK_REGISTERS = MULTIPROCESSOR_REGISTERS = 65536
BLOCK_SHARED, SYSTEM_SHARED, MULTIPROCESSOR_SHARED = 48 << 10, 1 << 10, 228 << 10
WARP, MOST_WARPS, MOST_BLOCKS, PARTITIONS = 32, 64, 32, 4


def width_places(source):
    """The index of the template argument `width` for each kernel in a text that has one."""
    template = (r"template <((?:[^<>]|<[^<>]*>)*)>\s*__global__\s+void\s+"
                r"(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(")
    parameters = {name: re.split(r",\s*", of) for of, name in re.findall(template, source)}
    return {name: of.index("int width") for name, of in parameters.items() if "int width" in of}


def cuda_sources():
    return [path for folder in ("core", "kernels", "accumulate", "tests")
            for path in sorted((ROOT / folder).rglob("*.cu*"))]


@functools.cache
def all_width_places():
    places = {}
    for path in cuda_sources():
        places |= width_places(path.read_text())
    return places


def round_up(n, step):
    return -(-n // step) * step


@dataclasses.dataclass
class Kernel:
    source: str
    name: str
    registers: int
    bounds: int
    shared_bytes: int = 0
    stack_bytes: int = 0
    wide_loads: int = 0
    wide_stores: int = 0
    loops: list = dataclasses.field(default_factory=list)

    # The toolkit's cuda_occupancy.h computes the same: a warp gets registers in units of 256, and
    # each of a multiprocessor's four partitions has a quarter of the registers and of the warps.
    @property
    def warp_registers(self):
        return round_up(self.registers * WARP, 256)

    def block_registers(self, threads):
        return self.warp_registers * round_up(-(-threads // WARP), PARTITIONS)

    @property
    def blocks(self):
        """How many blocks of the bounds' size a multiprocessor holds."""
        if self.bounds == 0 or any(self.misfits()):
            return 0
        warps = -(-self.bounds // WARP)
        by_registers = MULTIPROCESSOR_REGISTERS // PARTITIONS // self.warp_registers * PARTITIONS
        by_shared = MULTIPROCESSOR_SHARED // round_up(self.shared_bytes + SYSTEM_SHARED, 128)
        return min(by_registers // warps, by_shared, MOST_WARPS // warps, MOST_BLOCKS)

    @property
    def base_name(self):
        return self.name.split("<")[0]

    @property
    def vector_bytes(self):
        """Bytes of its first type that a thread accesses at a time; 0 without a width above 1. The
        first type may be one of a functor."""
        place = all_width_places().get(self.base_name)
        if place is None:
            return 0
        arguments = self.name.removeprefix(self.base_name + "<").removesuffix(">").split(", ")
        width = int(arguments[place])
        sizes = [SIZES[word] for word in re.findall(r"\w+", self.name) if word in SIZES]
        return width * (sizes or [4])[0] if width > 1 else 0

    def misfits(self):
        threads = self.bounds or 1024
        if self.block_registers(threads) > BLOCK_REGISTERS:
            yield (f"{self.name}: {threads} threads of {self.registers} registers take"
                   f" {self.block_registers(threads):,} of {BLOCK_REGISTERS:,}")
        if self.shared_bytes > BLOCK_SHARED:
            yield f"{self.name}: {self.shared_bytes:,} bytes of shared memory, above 48 KiB"

    def faults(self):
        if self.bounds == 0:
            yield f"{self.name} states no __launch_bounds__"
        yield from self.misfits()
        if self.stack_bytes:
            yield f"{self.name} keeps {self.stack_bytes} bytes of a thread in its stack"
        stores = self.name.startswith(WIDE_STORES)
        if self.vector_bytes >= 16 and not (self.wide_stores if stores else self.wide_loads):
            yield f"{self.name} has no 128-bit {'store' if stores else 'load'}"


def output_of(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def compilations(build):
    """nvcc's command for each source in a build, by the source's stem."""
    database = build / "compile_commands.json"
    if not database.is_file():
        output_of(["cmake", "--preset", "cuda", "-B", build, "-DCMAKE_CUDA_ARCHITECTURES=90-real"],
                  cwd=ROOT)
    return {pathlib.Path(entry["file"]).stem: shlex.split(entry["command"])
            for entry in json.loads(database.read_text()) if entry["file"].endswith(".cu")}


def readable(mangled):
    names = output_of(["c++filt", "-p", *mangled]).splitlines() if mangled else []
    return [re.sub(r"accrue::|detail::|cuda::|formula::|\(anonymous namespace\)::|^void ", "", name)
            for name in names]


def kernels_in(path, source, architecture=90):
    """The kernels of an object that nvcc wrote."""
    of_architecture = dict(cubin.cubins(path.read_bytes()))
    if architecture not in of_architecture:
        raise SystemExit(f"{path} has no machine code for sm_{architecture}, but for"
                         f" {sorted(of_architecture)}: see CMAKE_CUDA_ARCHITECTURES")
    found = cubin.kernels(of_architecture[architecture])
    return [Kernel(source, name, **kernel) for name, kernel in zip(readable(found), found.values())]


def table(heads, rows):
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def kernel_table(kernels):
    return table(
        ["kernel", "registers", "bounds", "blocks", "shared", "128-bit loads", "stores"],
        [[f"`{k.name}`", k.registers, k.bounds, k.blocks, k.shared_bytes, k.wide_loads,
          k.wide_stores] for k in sorted(kernels, key=lambda k: (k.source, k.name))])


def main_loop(kernel):
    """The smallest loop with the most products of tensor cores, or without such products the
    largest loop that has no other within it. None for a kernel without loops."""
    products = max((loop["tensor"] for loop in kernel.loops), default=0)
    if products:
        return min((loop for loop in kernel.loops if loop["tensor"] == products),
                   key=lambda loop: loop["ways"])
    return max((loop for loop in kernel.loops if not loop["has_loops"]),
               key=lambda loop: loop["ways"], default=None)


def loop_table(kernels):
    """A row for the main loop of each kernel: the instructions of all ways, and of a pass by kind.
    The last column is the cycles to issue a pass over the cycles of the tensor cores: above 1, the
    loop is bound by issuing."""
    kinds = [*cubin.KINDS, "other"]
    rows = [[f"`{kernel.name}`", loop["ways"], loop["all"], *(loop[kind] for kind in kinds),
             f"{loop['all'] / (TENSOR_CYCLES * loop['tensor']):.1f}" if loop["tensor"] else ""]
            for kernel in sorted(kernels, key=lambda k: (k.source, k.name))
            for loop in [main_loop(kernel)] if loop]
    return table(["main loop of", "all ways", "a pass", *kinds, "issue over tensor"], rows)


def span(numbers):
    least, most = min(numbers), max(numbers)
    return least if least == most else f"{least} to {most}"


def grouped(kernels, key):
    groups = collections.defaultdict(list)
    for kernel in kernels:
        groups[key(kernel)].append(kernel)
    return sorted(groups.items())


def step_kind(kernel):
    """The kernel's name, with the optimizer if it is a step."""
    optimizer = re.search(r"\w+Scalars", kernel.name)
    return f"`{kernel.base_name}<{optimizer[0]}>`" if optimizer else f"`{kernel.base_name}`"


def summary(kernels):
    return [len(kernels), span([k.registers for k in kernels]),
            ", ".join(map(str, sorted({k.bounds for k in kernels}))),
            span([k.blocks for k in kernels]), max(k.shared_bytes for k in kernels)]


def short_report(kernels, how):
    heads = ["registers", "bounds", "blocks", "most shared"]
    of_step = [kernel for kernel in kernels
               if kernel.source in STEP_KERNELS and not re.search("double|<1, ", kernel.name)]
    step_rows = [[name, *summary(of_name), span([k.wide_loads for k in of_name]),
                  span([k.wide_stores for k in of_name])]
                 for name, of_name in grouped(of_step, step_kind)]
    return f"""# What the compiler makes of the kernels

    scripts/ptxas_report.py                              every kernel, as a table
    scripts/ptxas_report.py --markdown docs/ptxas.md     this page

The script fails if a kernel may not launch, spills registers, or moves fewer bytes at a time than
meant. {how}

The table shows the kernels that every parameter goes through. "Bounds" is the largest number of
threads in a block, by `__launch_bounds__`; "blocks" is how many blocks of that size a multiprocessor
holds at a time (compute capability 9.0). Registers are a thread's, shared memory is a block's in
bytes.

A row has a kernel's variants for the types of gradients, moments and copies of the weights, in which
a thread takes 4 or 8 elements at a time. It leaves out variants of width 1, for addresses that are
not aligned to 16 bytes, and float64, which only the tests use. Loads and stores are instructions
(loops are unrolled). Accumulating 16-bit gradients loads the sum by 128 bits, the gradient by 64.

{table(["kernel", "variants", *heads, "128-bit loads", "stores"], step_rows)}

## Loops

    scripts/ptxas_report.py --loops tensor_core_attention linear_cross_entropy

shows the instructions of each kernel's main loop, by kind: the smallest loop with all products of
tensor cores, or else the largest without loops in it. On compute capability 9.0 a quarter of a
multiprocessor issues one instruction a cycle, and a product of m16n8k16 takes its tensor cores 4
cycles at their best rate. "Issue over tensor" is a pass's instructions over 4 times its products.
Where it is above 1, issuing takes longer than the tensor cores do. A pass is the shortest way through
a loop that makes all products, exponentials and copies to shared memory, once through loops within
it. In attention, a tile in which each query sees each key takes it. "All ways" counts the other
instructions as well. Shown are the kernels for bfloat16.

{loop_table([kernel for kernel in kernels if kernel.source in LOOP_KERNELS
             and re.search("BFloat16|logit_softmax_kernel<float>", kernel.name)])}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="STEM", help="default: every .cu")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "cuda-90-real",
                        help="a build by preset cuda for sm_90; configured if it is not there")
    parser.add_argument("--loops", action="store_true",
                        help="show the instructions of each kernel's main loop")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the short table")
    options = parser.parse_args()
    commands = compilations(options.build)
    unknown = sorted(set(options.sources) - set(commands))
    if unknown:
        parser.error(f"no {unknown[0]}.cu; there are {', '.join(sorted(commands))}")
    wanted = options.sources or sorted(commands)
    objects = [commands[stem][commands[stem].index("-o") + 1] for stem in wanted]
    output_of(["cmake", "--build", options.build, "--target", *objects])
    kernels = [kernel for stem, path in zip(wanted, objects)
               for kernel in kernels_in(options.build / path, stem)]

    nvcc = next(word for word in commands[wanted[0]] if word.endswith("nvcc"))
    release = re.search(r"release ([\d.]+)", output_of([nvcc, "--version"])).group(1)
    how = f"nvcc {release}, sm_90."
    shown = loop_table(kernels) if options.loops else kernel_table(kernels)
    print(f"{shown}\n\n{len(kernels)} kernels. {how}")
    if options.markdown:
        options.markdown.write_text(short_report(kernels, how))
    faults = [fault for kernel in kernels for fault in kernel.faults()]
    for fault in faults:
        print(f"ptxas_report: error: {fault}", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
