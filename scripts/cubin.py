"""Reads nvcc's objects: machine code (cubins, which are ELF files) and each kernel's attributes for
the driver. Knows the layout of CUDA 12 and 13. cuobjdump and nvdisasm would print the same, but not
every toolkit has them.
"""

import collections
import struct

FATBIN_MAGIC, FATBIN_ELF = 0xBA55ED50, 2
# Attributes in .nv.info, and in .nv.info.KERNEL.
STACK_SIZE, REGISTERS, MAX_THREADS = 0x12, 0x2F, 0x05
ENTRY = 0x10  # in a symbol's st_other: a kernel, not a function that kernels call
# In the 128 bits of an instruction: the operations, one for each kind of address, and the size.
LOAD_GLOBAL, STORE_GLOBAL, SIZE_128 = (0x381, 0x981), (0x386, 0x986), 6

Section = collections.namedtuple("Section", "name data bytes")


def _sections(elf):
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    for name, kind, _, _, offset, length in heads:
        start = heads[names][4] + name
        no_bits = kind == 8
        yield Section(elf[start:elf.index(b"\0", start)].decode(),
                      b"" if no_bits else elf[offset:offset + length], length)


def cubins(host_object):
    """Yields (architecture, cubin) for each cubin in an object that nvcc wrote: 90 for sm_90."""
    fatbin = b"".join(s.data for s in _sections(host_object) if s.name == ".nv_fatbin")
    at = 0
    while at < len(fatbin):
        magic, _, head, length = struct.unpack_from("<IHHQ", fatbin, at)
        if magic != FATBIN_MAGIC:
            at += 8  # the linker's padding between two of them
            continue
        entry, at = at + head, at + head + length
        while entry < at:
            kind, _, head, size = struct.unpack_from("<HHIQ", fatbin, entry)
            if kind == FATBIN_ELF:
                cubin = fatbin[entry + head:entry + head + size]
                if not cubin.startswith(b"\x7fELF"):
                    raise ValueError("the machine code is compressed: compile with -no-compress")
                yield struct.unpack_from("<I", fatbin, entry + 28)[0], cubin
            entry += head + size


def _attributes(info):
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # in other forms the size is the value
            yield attribute, struct.unpack_from(f"<{size // 4}I", info, at)
            at += size


def _wide_accesses(code):
    counts = [0, 0]
    for low, high in struct.iter_unpack("<QQ", code):
        if high >> 9 & 7 == SIZE_128:
            counts[0] += low & 0xFFF in LOAD_GLOBAL
            counts[1] += low & 0xFFF in STORE_GLOBAL
    return counts


def kernels(cubin):
    """By mangled name: registers and bytes of stack of a thread, bytes of shared memory, the
    threads that a block has at most (0 if no bounds are stated), 128-bit loads and stores."""
    sections = {section.name: section for section in _sections(cubin)}
    names, symbols = sections[".strtab"].data, []
    for name, _, other, _, _, _ in struct.iter_unpack("<IBBHQQ", sections[".symtab"].data):
        symbols.append((names[name:names.index(b"\0", name)].decode(), other))
    of_symbol = collections.defaultdict(dict)
    for attribute, values in _attributes(sections[".nv.info"].data):
        if attribute in (REGISTERS, STACK_SIZE):
            of_symbol[symbols[values[0]][0]][attribute] = values[1]
    # If this section is declared, every block also has this much shared memory for the system.
    reserved = 1024 if ".nv.shared.reserved.0" in sections else 0
    result = {}
    for name in (name for name, other in symbols if other & ENTRY):
        threads = dict(_attributes(sections[f".nv.info.{name}"].data)).get(MAX_THREADS, (0, 1, 1))
        shared = sections.get(f".nv.shared.{name}")
        loads, stores = _wide_accesses(sections[f".text.{name}"].data)
        result[name] = {
            "registers": of_symbol[name][REGISTERS],
            "stack_bytes": of_symbol[name].get(STACK_SIZE, 0),
            "shared_bytes": shared.bytes - reserved if shared else 0,
            "bounds": threads[0] * threads[1] * threads[2],
            "wide_loads": loads,
            "wide_stores": stores,
        }
    return result
