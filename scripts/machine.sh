# shellcheck shell=bash
# Tells what this machine has for CUDA, and whether the tests used it. Other scripts source this.

# True where CMake finds a CUDA compiler, by CUDACXX where its installer did not put it on the path.
have_nvcc() {
  [[ -z ${CUDACXX:-} ]] || return 0
  ! command -v nvcc >/dev/null || return 0
  [[ -x /usr/local/cuda/bin/nvcc ]] && export CUDACXX=/usr/local/cuda/bin/nvcc
}

have_gpu() { command -v nvidia-smi >/dev/null && [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]]; }

# A cache that came from another machine knows -march=native by name, not by what it meant there.
CCACHE_NAMESPACE=$(grep --max-count=1 '^flags' /proc/cpuinfo | cksum)
export CCACHE_NAMESPACE
# Builds in folders beside each other share the objects in which they do not differ.
CCACHE_BASEDIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CCACHE_BASEDIR

# CMake's options for compiling through ccache where it is installed, one a line.
ccache_options() {
  ! command -v ccache >/dev/null || printf '%s\n' -DCMAKE_{CXX,CUDA}_COMPILER_LAUNCHER=ccache
}

# ON where the compiler is the one that CI has, GCC 12. Others warn of other things, which are shown
# and fail nobody.
warnings_are_errors() {
  if [[ $(echo '__GNUC__ __clang__' | "${CXX:-c++}" -E -P -x c++ -) == '12 __clang__' ]]; then echo ON
  else echo OFF
  fi
}

# device_tests_ran FOLDER: a test on a device that is not there would pass by doing nothing, so ctest's
# report must call every one of them run.
device_tests_ran() {
  local tests
  tests=$(grep -o '<testcase name="[^"]*-cuda".*status="[a-z]*"' "$1/junit.xml") || {
    echo "error: $1 has no tests on Device::cuda (named *-cuda)" >&2
    return 1
  }
  if grep --invert-match 'status="run"' <<<"$tests"; then
    echo "error: the tests above did not run" >&2
    return 1
  fi
}

# build_program PRESET OPTIONS...: the program; subshell, because of the working directory.
build_program() (
  cd "$root"
  mapfile -t launchers < <(ccache_options)
  cmake --preset "$@" "${launchers[@]}" >/dev/null && cmake --build --preset "$1" --target accrue
)

# Builds the program, for the GPU where there is one and a CUDA compiler, and sets $program.
build_for_machine() {
  local preset=release
  if have_nvcc && have_gpu; then
    if build_program cuda -DCMAKE_CUDA_ARCHITECTURES=native; then preset=cuda
    else echo "the CUDA build failed (its messages are above): going on without the GPU" >&2
    fi
  fi
  [[ $preset == cuda ]] || build_program release || return 1
  program=$root/build/$preset/apps/accrue
}
