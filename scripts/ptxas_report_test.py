"""Tests of ptxas_report.py: its rules on made-up kernels, and a planted one that nvcc compiles."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

import cubin
import ptxas_report

NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc", path=os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))


def kernel(name="kernel", **properties):
    return ptxas_report.Kernel("made_up", name, **properties)


def looping(*loops, name="kernel"):
    return kernel(name, registers=32, bounds=256, loops=list(loops))


def faults(**properties):
    return "; ".join(kernel(**properties).faults())


class Rules(unittest.TestCase):
    def test_registers_of_a_block_without_bounds(self):
        found = faults(registers=98, bounds=0)
        self.assertIn("states no __launch_bounds__", found)
        self.assertIn("1024 threads of 98 registers take 106,496 of 65,536", found)

    def test_registers_of_a_block_with_bounds(self):
        self.assertIn("106,496", faults(registers=98, bounds=1024))
        self.assertEqual(faults(registers=98, bounds=512), "")
        # A thread gets registers in units of 8, and four warps get them at a time.
        self.assertEqual(faults(registers=64, bounds=1024), "")
        self.assertIn("73,728", faults(registers=65, bounds=1024))
        self.assertIn("69,632", faults(registers=130, bounds=481))

    def test_shared_memory_and_stack(self):
        self.assertEqual(faults(registers=8, bounds=32, shared_bytes=48 << 10), "")
        self.assertIn("above 48 KiB", faults(registers=8, bounds=32, shared_bytes=(48 << 10) + 1))
        self.assertIn("keeps 8 bytes", faults(registers=8, bounds=32, stack_bytes=8))

    def test_width(self):
        for name, bytes_at_a_time in [
                ("accumulate_kernel<4, float, Half>", 16), ("accumulate_kernel<1, float, Half>", 0),
                ("moments_kernel<32, 8, BFloat16, float>", 16),
                ("moments_kernel<32, 1, BFloat16, float>", 0), ("find_nonfinite_kernel<4>", 16),
                ("dropout_kernel<4, true, Half>", 8),
                ("channel_sums_kernel<4, 1, Plain<Half>, float>", 8),
                ("channel_sums_kernel<4, 1, Plain<float>, float>", 16), ("fill_kernel<float>", 0)]:
            narrow = kernel(name, registers=32, bounds=256)
            wide = kernel(name, registers=32, bounds=256, wide_loads=1)
            with self.subTest(name):
                self.assertEqual(narrow.vector_bytes, bytes_at_a_time)
                self.assertEqual(list(narrow.faults()),
                                 [f"{name} has no 128-bit load"] if bytes_at_a_time == 16 else [])
                self.assertEqual(list(wide.faults()), [])

    def test_width_of_stores(self):
        name = "resize_kernel<4, float>"
        self.assertEqual(faults(name=name, registers=32, bounds=256, wide_loads=1),
                         f"{name} has no 128-bit store")
        self.assertEqual(faults(name=name, registers=32, bounds=256, wide_stores=1), "")

    def test_place_of_the_width(self):
        self.assertEqual(ptxas_report.width_places("""
            template <int team, int width, class T, class W = Wide<T>>
            __global__ void __launch_bounds__(large_team, 1)
                moments_kernel(W* mean) {}
            template <int width>
            __device__ void no_kernel(float* x) {}
            template <class T>
            __global__ void narrow_kernel(T* x) {}
            template <int width> __global__ void bare_kernel(T* x) {}"""),
            {"moments_kernel": 1, "bare_kernel": 0})

    def test_every_kernel_with_a_width_is_found(self):
        sources = [path.read_text() for path in ptxas_report.cuda_sources()]
        written = sum(len(re.findall(r"\bint width\b[^{;]*?__global__", source))
                      for source in sources)
        self.assertGreater(written, 0)
        self.assertEqual(len(ptxas_report.all_width_places()), written)

    def test_main_loops(self):
        counts = {"memory": 2, "integer": 3, "float": 1, "other": 1}
        inner = counts | {"tensor": 0, "all": 7, "ways": 8, "has_loops": False}
        larger = inner | {"ways": 9, "integer": 5}
        outer = inner | {"tensor": 4, "all": 40, "ways": 50, "has_loops": True}
        whole = outer | {"ways": 90}
        self.assertEqual(ptxas_report.main_loop(looping(whole, outer, inner)), outer)
        self.assertEqual(ptxas_report.main_loop(looping(inner, larger)), larger)
        self.assertIsNone(ptxas_report.main_loop(looping()))
        page = ptxas_report.loop_table([looping(outer, name="of_products"),
                                        looping(name="without")])
        self.assertIn("| `of_products` | 50 | 40 | 4 | 2 | 3 | 1 | 1 | 2.5 |", page)
        self.assertNotIn("without", page)

    def test_targets_of_branches(self):
        # As nvdisasm shows them in code for sm_90.
        for at, low, high, distance in [
                (0xB0, 0x448947, 0x2FEA0003800000, 0x110),
                (0x2080, 0x2000F81947, 0xFEA0003800000, 0x23E0),
                (0x2690, 0xFFFFFFF800408947, 0xFEA000383FFFF, -0x700)]:
            self.assertEqual(cubin._target_of_branch(at, low, high), at + 16 + distance)

    def test_the_shortest_pass(self):
        move, product, again = (0x7202, 0), (0x723C, 0), (0x7947, 0x3800000)

        def skip(count, guard):
            return guard | count * 4 << 16, 0x3800000
        code = [skip(2, 0x0947), move, move, skip(1, 0x7947), move, product, again]
        self.assertEqual(cubin._shortest_pass(code, 0, 6), [0, 3, 5, 6])
        code[2] = product
        self.assertEqual(cubin._shortest_pass(code, 0, 6), [0, 1, 2, 3, 5, 6])

    # The expected numbers are cudaOccMaxActiveBlocksPerMultiprocessor's (cuda_occupancy.h) for an
    # H100.
    def test_blocks_of_a_multiprocessor(self):
        for registers, bounds, shared, blocks in [
                (98, 1024, 0, 0), (98, 256, 0, 2), (32, 256, 0, 8),
                (33, 256, 64, 6), (8, 1, 0, 32), (80, 512, 1024, 1),
                (64, 1024, 256, 1), (30, 256, 40000, 5), (48, 97, 0, 10)]:
            with self.subTest(registers=registers, bounds=bounds, shared=shared):
                self.assertEqual(kernel(registers=registers, bounds=bounds,
                                        shared_bytes=shared).blocks, blocks)


# Takes two registers for each value, because it uses the first value together with the last.
PLANTED = """
constexpr int N = 46;
__device__ void use_many_registers(double* x) {
  double values[N];
  for (int i = 0; i < N; ++i) values[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < N; ++i) x[i * 1024 + threadIdx.x] = values[N - 1 - i] - values[i];
}
__global__ void unbounded(double* x) { use_many_registers(x); }
__global__ void __launch_bounds__(16 * 16) bounded(double* x) { use_many_registers(x); }
__global__ void __launch_bounds__(1024) spilling(double* x) { use_many_registers(x); }

struct alignas(16) Vector { unsigned short values[8]; };
template <bool copies, int width>
__global__ void __launch_bounds__(256) planted_sum_kernel(int* sum, const Vector* x, int n) {
  int of_thread = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    if constexpr (copies) {
      const Vector vector = x[i];
      for (const unsigned short value : vector.values) of_thread += value;
    } else {
      for (const unsigned short value : x[i].values) of_thread += value;
    }
  }
  sum[threadIdx.x] = of_thread;
}
template __global__ void planted_sum_kernel<false, 8>(int*, const Vector*, int);
template __global__ void planted_sum_kernel<true, 8>(int*, const Vector*, int);
"""


@unittest.skipUnless(NVCC, "there is no nvcc here")
class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "planted.cu").write_text(PLANTED)
            subprocess.run([NVCC, "--generate-code=arch=compute_90,code=[sm_90]", "-c",
                            "planted.cu", "-o", "planted.o"], cwd=scratch, check=True)
            found = ptxas_report.kernels_in(folder / "planted.o", "planted")
        cls.planted = {kernel.name.split("(")[0]: kernel for kernel in found}
        places = ptxas_report.width_places(PLANTED)
        cls.enterClassContext(mock.patch.object(ptxas_report, "all_width_places", lambda: places))

    def test_many_registers_without_bounds(self):
        found = self.planted["unbounded"]
        self.assertGreater(found.registers, 64)
        self.assertEqual((found.bounds, found.blocks), (0, 0))
        faults_found = "; ".join(found.faults())
        self.assertIn("states no __launch_bounds__", faults_found)
        self.assertIn(f"1024 threads of {found.registers} registers take", faults_found)

    def test_loops(self):
        main = ptxas_report.main_loop(self.planted["planted_sum_kernel<true, 8>"])
        self.assertGreaterEqual(main["memory"], 1)
        self.assertGreaterEqual(main["integer"], 8)  # sums of 8 numbers
        self.assertEqual((main["tensor"], main["float"], main["has_loops"]), (0, 0, False))
        # Its loops are unrolled.
        self.assertIsNone(ptxas_report.main_loop(self.planted["unbounded"]))

    def test_many_registers_with_bounds(self):
        found = self.planted["bounded"]
        self.assertGreater(found.registers, 64)
        self.assertEqual((found.bounds, list(found.faults())), (256, []))

    def test_registers_that_bounds_spill(self):
        found = self.planted["spilling"]
        self.assertEqual((found.bounds, found.registers), (1024, 64))
        self.assertIn("in its stack", "; ".join(found.faults()))

    def test_vectors_that_are_read_by_reference(self):
        narrow = self.planted["planted_sum_kernel<false, 8>"]
        self.assertEqual(list(narrow.faults()), [f"{narrow.name} has no 128-bit load"])
        self.assertEqual(list(self.planted["planted_sum_kernel<true, 8>"].faults()), [])
