"""For scripts/gpu_check.py: finds what a machine lacks, and gets a program and its tests for the
machine's GPU, from a bundle or by a build here. Needs no network."""

import glob
import hashlib
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = pathlib.Path("/usr/local/cuda")
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".cmake", ".in", ".proto")
CMAKE_NEEDED = 3, 25
# Headers of each package to build with. One of them must exist; CMake has the last word.
HEADERS = {"fmt": ["fmt/core.h"], "Eigen": ["Eigen/Core"], "CLI11": ["CLI/CLI.hpp"],
           "json": ["nlohmann/json.hpp"], "Catch2": ["catch2/catch.hpp", "catch2/catch_all.hpp"],
           "zlib": ["zlib.h"], "libjpeg": ["jpeglib.h"], "libpng": ["png.h"],
           "PCRE2": ["pcre2.h"], "utf8proc": ["utf8proc.h"],
           "cublasLt": ["cublasLt.h"], "cuDNN": ["cudnn.h"]}
HELP = {"cublasLt": "cublasLt, of the CUDA toolkit: apt-get install libcublas-dev-VERSION",
        "cuDNN": "cuDNN 9: {python} -m pip install nvidia-cudnn-cuVERSION (of nvcc: 12 or 13)"}
OTHER_HELP = "{name}: scripts/setup.sh, or scripts/vendor_headers.sh DIR elsewhere, --prefix DIR"


def fail(text):
    raise SystemExit(f"gpu_check: error: {text}")


def output_of(*command, text=None):
    """Standard output, or nothing if the command fails or does not exist."""
    try:
        done = subprocess.run([str(word) for word in command], input=text, capture_output=True,
                              text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def stamp_of_sources(root=ROOT):
    """A checksum of what the programs are built from: sources and CMake's files, with their paths,
    outside of build folders."""
    stamp = hashlib.sha256()
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith(".")
                          and pathlib.Path(folder, name) != root / "build")
        for name in sorted(files):
            path = pathlib.Path(folder, name)
            if name == "CMakeLists.txt" or path.suffix in SOURCES:
                stamp.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return stamp.hexdigest()


def have_gpu():
    return output_of("nvidia-smi", "-L").startswith("GPU")


def compute_sanitizer():
    return shutil.which("compute-sanitizer") or next(
        iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)


class Machine:
    def __init__(self, options):
        self.options, self.python, self.stamp = options, options.python, None
        self.prefix = options.prefix and options.prefix / "usr"
        # pip installs cmake and ninja in folders that may not be on the PATH.
        places = [output_of(self.python, "-c", f"import {package} as p; print(p.{place})").strip()
                  for package, place in (("cmake", "CMAKE_BIN_DIR"), ("ninja", "BIN_DIR"))]
        places += [str(CUDA / "bin")] if (CUDA / "bin" / "nvcc").exists() else []
        os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *filter(None, places)])

    def nvcc(self):
        return shutil.which(os.environ.get("CUDACXX") or "nvcc")

    def cmake_is_new_enough(self):
        words = output_of("cmake", "--version").split()
        return len(words) > 2 and tuple(map(int, words[2].split(".")[:2])) >= CMAKE_NEEDED

    def folders_of_python(self, pattern):
        """The paths that match in the folders of NVIDIA's packages for Python."""
        places = output_of(self.python, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')")
        return sorted(itertools.chain.from_iterable(
            pathlib.Path(place).glob(pattern) for place in places.splitlines()))

    def cublas_of_python(self):
        """The header's folder and the library of cuBLASLt, for toolkits that have none; CMake does
        not look there."""
        for header in self.folders_of_python("*/include/cublasLt.h"):
            libraries = list(header.parent.parent.glob("lib/libcublasLt.so.*"))
            if libraries:
                return header.parent, libraries[0]
        return None

    def missing_headers(self):
        """The names of the packages whose headers the compiler does not find."""
        folders = [pathlib.Path("/usr/include/eigen3"), pathlib.Path("/usr/local/include/eigen3")]
        if self.prefix:
            folders += [self.prefix / "include", self.prefix / "include" / "eigen3"]
        if self.nvcc():
            folders.append(pathlib.Path(self.nvcc()).resolve().parent.parent / "include")
        folders += self.folders_of_python("cudnn/include")
        tests = "".join("#if !" + " && !".join(f"__has_include(<{header}>)" for header in headers) +
                        f"\n{name}\n#endif\n" for name, headers in HEADERS.items())
        includes = [f"-I{folder}" for folder in folders]
        return output_of("g++", "-x", "c++", "-E", "-P", *includes, "-", text=tests).split()

    def missing(self):
        """Each thing that this machine lacks, and how to get it."""
        options, python = self.options, self.python
        if not options.runner and not have_gpu():
            yield "an NVIDIA GPU and its driver (nvidia-smi lists none)"
        if not shutil.which(python):
            yield f"{python}: name another one by --python"
        if not compute_sanitizer():
            yield "compute-sanitizer, of the CUDA toolkit: without it no memcheck and no racecheck"
        if output_of(python, "-c", "import torch; print(torch.cuda.is_available())") != "True\n":
            yield (f"PyTorch that can use the GPU, for {python}:"
                   " without it nothing to be timed beside")
        if options.bundle or options.runner:
            return
        if not self.nvcc():
            yield "nvcc: install the CUDA toolkit, 12 or newer, or name it by CUDACXX"
        if not self.cmake_is_new_enough():
            yield (f"cmake, {'.'.join(map(str, CMAKE_NEEDED))} or newer:"
                   f" {python} -m pip install cmake")
        if not shutil.which("ninja"):
            yield f"ninja: {python} -m pip install ninja"
        if not shutil.which("g++"):
            yield "g++ (so that no library can be looked for): apt-get install g++"
            return
        for name in self.missing_headers():
            if name != "cublasLt" or not self.cublas_of_python():
                yield HELP.get(name, OTHER_HELP).format(name=name, python=python)

    def build(self, seconds):
        """Builds the program and the tests for this machine's GPU within the time."""
        folder, log = ROOT / "build" / "gpu", self.options.out / "build.txt"
        flags = ["-B", folder, "-DCMAKE_CUDA_ARCHITECTURES=native", "-DACCRUE_TESTS=ON",
                 "-DCMAKE_UNITY_BUILD=ON", f"-DPython3_EXECUTABLE={shutil.which(self.python)}"]
        if self.prefix:
            flags.append(f"-DCMAKE_PREFIX_PATH={self.prefix}")
        cublas = self.cublas_of_python() if "cublasLt" in self.missing_headers() else None
        environment = dict(os.environ)
        if cublas:
            # Behind the toolkit's own headers.
            environment["CPLUS_INCLUDE_PATH"] = os.pathsep.join(
                filter(None, [str(cublas[0]), os.environ.get("CPLUS_INCLUDE_PATH")]))
            flags.append(f"-DCUDA_cublasLt_LIBRARY={cublas[1]}")
        if shutil.which("ccache"):
            flags += [f"-DCMAKE_{each}_COMPILER_LAUNCHER=ccache" for each in ("CXX", "CUDA")]
        print(f"gpu_check: building in build/gpu (its messages: {log})", flush=True)
        with open(log, "w", encoding="utf-8") as file:
            for command in (["cmake", "--preset", "cuda", *flags],
                            ["timeout", str(max(1, int(seconds))), "cmake", "--build", folder,
                             "--parallel", str(os.cpu_count()),
                             "--target", "accrue", "accrue_tests"]):
                if subprocess.run(command, cwd=ROOT, env=environment, stdout=file,
                                  stderr=subprocess.STDOUT, check=False).returncode != 0:
                    print("\n".join(log.read_text().splitlines()[-25:]))
                    fail("the build failed")
        return folder / "apps" / "accrue", folder / "tests" / "accrue_tests"

    def unpack(self):
        """The bundle's program and tests, or None if they do not start here."""
        folder = ROOT / "build" / "gpu-bundle"
        try:
            with tarfile.open(self.options.bundle) as archive:
                archive.extractall(folder)
        except (OSError, tarfile.TarError):
            fail(f"cannot unpack {self.options.bundle}")
        stamp = folder / "sources.txt"
        self.stamp = stamp.read_text().strip() if stamp.exists() else ""
        # CUDA's libraries lie in the folders of Python's packages or beside the compiler.
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [
            *map(str, self.folders_of_python("*/lib")), str(CUDA / "lib64"),
            os.environ.get("LD_LIBRARY_PATH")]))
        programs = folder / "accrue", folder / "accrue_tests"
        for program, option in zip(programs, ("--version", "--help")):
            lacking = [line.strip() for line in output_of("ldd", program).splitlines()
                       if "not found" in line]
            if lacking:
                print(f"gpu_check: {program} does not start: {' '.join(lacking)}")
            if lacking or subprocess.run([program, option], check=False,
                                         stdout=subprocess.DEVNULL).returncode != 0:
                print("gpu_check: the bundle does not start here; building instead")
                self.stamp = None
                return None
        return programs

    def is_stale(self):
        """Whether the programs are from a bundle that was built of other sources."""
        return self.stamp is not None and self.stamp != stamp_of_sources()

    def programs(self, seconds_left):
        """The program and its tests; raises SystemExit if there is no way to get them."""
        runner = self.options.runner
        if runner:
            programs = runner / "apps" / "accrue", runner / "tests" / "accrue_tests"
            if not all(os.access(program, os.X_OK) for program in programs):
                fail(f"no program and tests in {runner}: cmake --preset simt-release, and build it")
            return programs
        programs = self.unpack() if self.options.bundle else None
        if programs:
            return programs
        if not (self.nvcc() and self.cmake_is_new_enough() and
                all(map(shutil.which, ("ninja", "g++", self.python)))):
            fail("nothing can be built without the tools named above")
        return self.build(seconds_left())


if __name__ == "__main__":  # for scripts/gpu_bundle.sh
    print(stamp_of_sources(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
