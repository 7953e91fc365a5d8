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

# The operations of sm_70 to sm_90 by kind: the low 9 bits of an instruction, whatever the kind of
# its operands. nvdisasm prints the names in the comments.
KINDS = {
    "tensor": (0x03C, 0x037, 0x03D, 0x03F),  # HMMA IMMA BMMA DMMA
    "memory": (0x181, 0x186, 0x184, 0x188, 0x03B, 0x1AE, 0x180, 0x185, 0x183, 0x187,
               # LDG STG LDS STS LDSM LDGSTS LD ST LDL STL
               0x182, 0x0B9, 0x18E, 0x1A8, 0x18C),  # LDC ULDC RED ATOMG ATOMS
    "integer": (0x024, 0x025, 0x027, 0x010, 0x012, 0x019, 0x011, 0x00C, 0x017, 0x013, 0x016,
                # IMAD IMAD.WIDE IMAD.HI IADD3 LOP3 SHF LEA ISETP IMNMX IABS PRMT
                0x002, 0x007, 0x109, 0x100, 0x101, 0x01C, 0x036, 0x048, 0x003, 0x005,
                # MOV SEL POPC FLO BREV PLOP3 VIADD VIMNMX P2R CS2R
                0x106, 0x105, 0x112, 0x111, 0x045, 0x0CA, 0x1C2,  # I2F F2I I2F F2I I2FP R2UR R2UR
                0x090, 0x0A4, 0x0A5, 0x092, 0x099, 0x091, 0x08C, 0x082, 0x087, 0x09C),
    # UIADD3 UIMAD UIMAD.WIDE ULOP3 USHF ULEA UISETP UMOV USEL UPLOP3
    "float": (0x021, 0x020, 0x023, 0x00B, 0x009, 0x00A, 0x008, 0x108, 0x030, 0x031, 0x032, 0x034,
              # FADD FMUL FFMA FSETP FMNMX FSET FSEL MUFU HADD2 HFMA2 HMUL2 HSETP2
              0x03E, 0x104, 0x029, 0x028, 0x02B, 0x02A),  # F2FP F2F DADD DMUL DFMA DSETP
}
KIND_OF = {operation: kind for kind, operations in KINDS.items() for operation in operations}
BRANCH, INSTRUCTION = 0x147, 16  # BRA, and the bytes of an instruction
# The operations that a pass through a loop does not leave out: HMMA, MUFU, LDGSTS.
WORK = (0x03C, 0x108, 0x1AE)

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


def _target_of_branch(at, low, high):
    """Where a branch leads: its distance from the next instruction is a number of words of 4 bytes
    with a sign, in bits 16 to 23 and 34 to 81."""
    words = (low >> 16 & 0xFF) | low >> 34 << 8 | (high & 0x3FFFF) << 38
    words -= words >> 55 << 56
    return at + INSTRUCTION + 4 * words


def _always_branches(low, high):
    """No predicate of the instruction or of the branch is asked, nor whether the warp diverges."""
    return low >> 12 & 0xF == 7 and high >> 23 & 0x1F == 7


def _shortest_pass(instructions, begin, end):
    """The fewest instructions from `begin` to `end` among the ways with most of WORK. Loops within
    are passed once."""
    best, following = {end: (0, -1)}, {end: None}
    for i in reversed(range(begin, end)):
        low, high = instructions[i]
        ways = [i + 1]
        if low & 0x1FF == BRANCH:
            target = _target_of_branch(i * INSTRUCTION, low, high) // INSTRUCTION
            ways = [] if _always_branches(low, high) else ways
            ways += [target] if i < target <= end else []
        ways = [way for way in ways if way in best]
        if ways:
            following[i] = max(ways, key=best.get)
            work, length = best[following[i]]
            best[i] = work + (low & 0x1FF in WORK), length - 1
    at, found = begin if begin in best else None, []
    while at is not None:
        found.append(at)
        at = following[at]
    return found or range(begin, end + 1)


def loops(code):
    """The loops of machine code, in its order: for each the number of instructions of a pass, by
    kind and of all kinds ("all"), that of all ways through it ("ways"), and whether it has loops.
    "other" are branches, barriers, shuffles and the like. The pass is the shortest one that makes
    all products of tensor cores, exponentials and copies to shared memory."""
    instructions = list(struct.iter_unpack("<QQ", code))
    spans = set()
    for i, (low, high) in enumerate(instructions):
        if low & 0x1FF == BRANCH:
            target = _target_of_branch(i * INSTRUCTION, low, high)
            if 0 <= target < i * INSTRUCTION:  # an endless branch to itself fills up the end
                spans.add((target // INSTRUCTION, i))
    found = []
    for begin, end in sorted(spans):
        counts = dict.fromkeys([*KINDS, "other"], 0)
        shortest = _shortest_pass(instructions, begin, end)
        for i in shortest:
            counts[KIND_OF.get(instructions[i][0] & 0x1FF, "other")] += 1
        inner = any(begin <= first and last <= end and (first, last) != (begin, end)
                    for first, last in spans)
        found.append(counts | {"all": len(shortest), "ways": end + 1 - begin,
                               "has_loops": inner})
    return found


def kernels(cubin):
    """By mangled name: registers and bytes of stack of a thread, bytes of shared memory, the
    threads that a block has at most (0 if no bounds are stated), 128-bit loads and stores, and
    loops()."""
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
        code = sections[f".text.{name}"].data
        loads, stores = _wide_accesses(code)
        result[name] = {
            "registers": of_symbol[name][REGISTERS],
            "stack_bytes": of_symbol[name].get(STACK_SIZE, 0),
            "shared_bytes": shared.bytes - reserved if shared else 0,
            "bounds": threads[0] * threads[1] * threads[2],
            "wide_loads": loads,
            "wide_stores": stores,
            "loops": loops(code),
        }
    return result
