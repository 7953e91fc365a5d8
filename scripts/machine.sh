# shellcheck shell=bash
# Finds out about this machine, builds the program for it, and checks that the tests used its GPU.
# Other scripts source this file.

fail() { echo "$(basename "$0" .sh): error: $*" >&2; exit 1; }
# need_value OPTION VALUE...
need_value() { [[ $# -ge 2 ]] || fail "$1 needs a value"; }

# True if CMake finds a CUDA compiler. Sets CUDACXX if the compiler's installer did not put it on
# the PATH.
have_nvcc() {
  [[ -z ${CUDACXX:-} ]] || return 0
  ! command -v nvcc >/dev/null || return 0
  [[ -x /usr/local/cuda/bin/nvcc ]] && export CUDACXX=/usr/local/cuda/bin/nvcc
}

have_gpu() { command -v nvidia-smi >/dev/null && [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]]; }

# ccache stores -march=native only by name, so a cache from another machine needs another namespace.
CCACHE_NAMESPACE=$(grep --max-count=1 '^flags' /proc/cpuinfo | cksum)
export CCACHE_NAMESPACE
# Builds in neighbouring folders share the objects that are the same in both.
CCACHE_BASEDIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CCACHE_BASEDIR

# CMake's options to compile through ccache if it is installed, one a line.
ccache_options() {
  ! command -v ccache >/dev/null || printf '%s\n' -DCMAKE_{CXX,CUDA}_COMPILER_LAUNCHER=ccache
}

# ON if the compiler is CI's, GCC 12. Other compilers' warnings are shown and are no errors.
warnings_are_errors() {
  if [[ $(echo '__GNUC__ __clang__' | "${CXX:-c++}" -E -P -x c++ -) == '12 __clang__' ]]; then echo ON
  else echo OFF
  fi
}

# device_tests_ran FOLDER: a test on a missing device would pass by doing nothing, so ctest's report
# must have every device test as run.
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

# show_progress NAME: reads Ninja's lines and prints the progress of NAME, on a terminal in one
# line, elsewhere at each quarter.
show_progress() {
  local line built of quarter shown=0
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    built=${BASH_REMATCH[1]} of=${BASH_REMATCH[2]}
    quarter=$((4 * built / of))
    if [[ -t 1 ]]; then
      printf '\r%s: %d of %d' "$1" "$built" "$of"
    elif [[ $quarter -gt $shown ]]; then
      echo "$1: $built of $of"
      shown=$quarter
    fi
  done
  [[ ! -t 1 ]] || echo
}

# The compiler's messages in a log of Ninja's, without the commands.
errors_in() { awk '/^FAILED: / { getline; shown = 1; next } /^\[[0-9]+\// { shown = 0 } shown' "$1"; }

# build_program PRESET OPTIONS...: builds the program, in a subshell because it changes the working
# directory. Compiles many sources together, like scripts/test.sh.
build_program() (
  set -o pipefail
  cd "$root" || exit
  log=build/$1/build.log
  mkdir -p "build/$1"
  mapfile -t launchers < <(ccache_options)
  if ! cmake --preset "$@" -DCMAKE_UNITY_BUILD=ON "${launchers[@]}" >"$log"; then
    echo "build: CMake's messages are in $root/$log" >&2
    exit 1
  fi
  if ! cmake --build --preset "$1" --target accrue 2>&1 | tee -a "$log" |
    show_progress "building build/$1/apps/accrue"; then
    errors_in "$log" | head -n 40 >&2
    echo "build: all of the compiler's messages are in $root/$log" >&2
    exit 1
  fi
)

# build_for_machine [DOMAINS]: builds the program, with all domains or these, and sets $program. Builds
# for the GPU if there is one and a CUDA compiler is installed.
build_for_machine() {
  local preset=release domains="-DACCRUE_DOMAINS=${1:-all}"
  if have_nvcc && have_gpu; then
    if build_program cuda "$domains" -DCMAKE_CUDA_ARCHITECTURES=native; then preset=cuda
    else echo "the CUDA build failed (its messages are above): going on without the GPU" >&2
    fi
  fi
  [[ $preset == cuda ]] || build_program release "$domains" || return 1
  program=$root/build/$preset/apps/accrue
}
