#!/usr/bin/env bash
# Runs every check of accrue, as in CI: format, include directions, the tests in a release build and
# under the sanitizers (the CUDA kernels too, on the host), a build by nvcc, and the demo.
# shellcheck disable=SC2317  # step calls the checks by name
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
readonly root
readonly format_version=14
# shellcheck source=scripts/machine.sh
source scripts/machine.sh
# shellcheck source=scripts/steps.sh
source scripts/steps.sh

usage() {
  cat <<END
Usage: scripts/test.sh [options]
Sets up, builds (with warnings as errors if the compiler is GCC 12, as in CI) and runs every check;
exits with 1 if one fails.
  --no-setup  install no packages
  --no-simt   leave out the tests under the sanitizers, with the CUDA kernels run on the host
  --no-cuda   leave out the build by nvcc (always left out if there is no nvcc)
  --no-demo   leave out the demo
  --thorough  also the checks for a release: 100 kills, random configurations, PyTorch and
              TensorBoard as judges (from ACCRUE_TEST_PYTHON or python3), a minute of fuzzing for
              each parser, and a bare Debian 13, whose GCC compiles each source alone and whose
              newest Clang compiles all together
END
}

setup=true simt=true cuda=true demo=true thorough=false
for argument in "$@"; do
  case $argument in
    --no-setup) setup=false ;;
    --no-simt) simt=false ;;
    --no-cuda) cuda=false ;;
    --no-demo) demo=false ;;
    --thorough) thorough=true ;;
    -h | --help) usage; exit ;;
    *) usage >&2; echo "test: error: unknown option '$argument'" >&2; exit 2 ;;
  esac
done

scratch=$(mktemp -d)
readonly scratch
trap 'stop_lanes; rm -rf "$scratch"' EXIT

# Times two small fixed tasks, which tell a slow machine from slow checks.
machine_rate() {
  local TIMEFORMAT='%U s of CPU'
  echo "$(nproc) processors, load $(cut -d ' ' -f 1-3 /proc/loadavg)"
  printf 'compile <regex>: '
  time echo '#include <regex>
std::regex expression("a+");' | "${CXX:-c++}" -O2 -x c++ -c -o /dev/null -
  printf 'count to ten million in Python: '
  time python3 -c 'for _ in range(10**7): pass'
} 2>&1

# Without safe.directory git refuses a clone that another user owns.
tracked_sources() {
  git -c safe.directory="$root" ls-files -z '*.h' '*.cpp' '*.cuh' '*.cu' 2>/dev/null ||
    find . -path ./build -prune -o \
      \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print0
}

clang_format() {
  local candidate
  for candidate in "clang-format-$format_version" clang-format; do
    if [[ $("$candidate" --version 2>/dev/null) == *"version $format_version."* ]]; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

check_format() { tracked_sources | xargs -0 "$1" --dry-run -Werror; }

# build FOLDER PRESET OPTIONS...: compiles several sources together where names allow it, to save
# time.
build() {
  configure "$@" && cmake --build "$1" --parallel "$processors"
}
configure() {
  local launchers
  mapfile -t launchers < <(ccache_options)
  cmake -B "$1" --preset "${@:2}" "-DACCRUE_WERROR=$(warnings_are_errors)" -DACCRUE_TESTS=ON \
    -DACCRUE_TEST_LIMIT="$test_limit" \
    -DCMAKE_UNITY_BUILD=ON "${launchers[@]}" >/dev/null
}

# Builds the .cu sources, and the sources for which the toolkit's headers differ from the runner's.
# All other sources are the same in other builds.
build_for_nvcc() {
  local objects
  configure "$@" && mapfile -t objects < <(ninja -C "$1" -t targets all |
    grep --only-matching --extended-regexp \
      '^.*([.]cu|accrue_core[.]dir/(cuda|graph_queue)[.]cpp|/nccl[.]cpp)[.]o\b') &&
    cmake --build "$1" --parallel "$processors" --target "${objects[@]}"
}

# Builds the tests of threads, with only the libraries that they need.
build_thread_tests() {
  configure build/tsan tsan && cmake --build --preset tsan --parallel "$processors"
}

# The number of tests with this attribute of the JUnit $report: tests, failures, disabled, skipped.
count_of() { sed -n "s/^.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }

processors=$(nproc)
python=${ACCRUE_TEST_PYTHON:-python3}  # the judges'
left_out='thorough|full'
# Limits in seconds: several times what tests and builds take on two slow cores, and well below CI's
# 90 minutes.
test_limit=1200 build_limit=2700
if $thorough; then left_out=full test_limit=5400 build_limit=7200; fi
# With this a hanging Python program says where it hangs.
export PYTHONFAULTHANDLER=1

# run_tests NAME FOLDER OPTIONS-OF-CTEST...: counts ctest's tests one by one. tests/CMakeLists.txt
# limits the time of each; ctest's own limit is for a test whose children keep it from ending.
run_tests() {
  local name="tests ($1)" folder=$2 report=$root/$2/junit.xml status=0
  local tests failures_here skipped_here start=$SECONDS cpu
  heading "$name"
  rm -f "$report"
  timed ctest --test-dir "$folder" --parallel "$processors" --no-tests=error --output-on-failure \
    --timeout $((test_limit + 300)) --output-junit "$report" "${@:3}" </dev/null || status=1
  took "$name" $((SECONDS - start))
  if [[ ! -s $report ]]; then
    failed=$((failed + 1)) failures+=("$name: ctest wrote no report")
    return
  fi
  tests=$(count_of tests) failures_here=$(count_of failures)
  skipped_here=$(($(count_of skipped) + $(count_of disabled)))
  if [[ $status -ne 0 && $failures_here -eq 0 ]]; then failures_here=1; fi
  [[ $failures_here -eq 0 ]] || failures+=("$failures_here of the $name")
  [[ $skipped_here -eq 0 ]] || skips+=("$skipped_here of the $name")
  results+=("$(printf '%s: %d passed, %d failed, %d skipped' "$name" \
    $((tests - failures_here - skipped_here)) "$failures_here" "$skipped_here")")
  passed=$((passed + tests - failures_here - skipped_here))
  failed=$((failed + failures_here))
  skipped=$((skipped + skipped_here))
}

# Builds the module for the judges' Python, and runs them.
judge() {
  local settings=(-C build-dir=build/judged -C cmake.define.ACCRUE_MPI=ON)
  while read -r launcher; do settings+=(-C "cmake.define.${launcher#-D}"); done < <(ccache_options)
  CXX=${CXX:-c++} "$python" -m pip install . --quiet --no-deps --target "$scratch/judged" \
    "${settings[@]}" &&
    PYTHONPATH=$scratch/judged "$python" -m pytest -q -rs python/tests/judges
}

# Builds the example of five networks against an installed accrue, and has their steps judged.
judge_networks() {
  cmake --install build/release --prefix "$scratch/installed" >/dev/null &&
    cmake -S examples -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$scratch/installed" >/dev/null &&
    cmake --build "$scratch/examples" --target five_networks >/dev/null &&
    "$scratch/examples/five_networks" "$scratch/networks" &&
    PYTHONPATH=$scratch/judged ACCRUE_FIVE_NETWORKS=$scratch/networks \
      "$python" -m pytest -q -rs python/tests/judges/test_five_networks.py -k in_cpp
}

run_demo() (
  cd "$scratch" &&
    "$root/scripts/demo.sh" --no-setup --digits --epochs 1 --steps 30 -- \
      --save demo.safetensors --json demo.jsonl | tee demo.log &&
    test -s demo.safetensors && test "$(grep -c '"step"' demo.jsonl)" -eq 30 &&
    eval "$(tail -n 1 demo.log)" >/dev/null  # runs the last command that the demo prints
)

check_sources() {
  local formatter
  if formatter=$(clang_format); then
    step format check_format "$formatter"
  else
    skip "format: no clang-format $format_version, which defines it"
  fi
  step "include directions" python3 scripts/check_includes.py
  step "names and comments" python3 scripts/check_words.py
  step "names that accrue.h shows" python3 scripts/count_names.py --check
  step "the page of these names" python3 scripts/list_face.py --check
  step "the page of ops" python3 scripts/list_ops.py --check
  # Takes about a minute of a processor.
  step "sources by themselves" scripts/check_syntax.py --limit 20 \
    "-DACCRUE_WERROR=$(warnings_are_errors)"
  step "tests of the scripts" python3 -m unittest discover -s scripts -p '*_test.py'
}

check_cuda() {
  # Without a GPU no test can run, so one architecture is enough to see that nvcc compiles the
  # sources. The speed of the host's part does not matter.
  local folder=build/cuda-kernels architecture=90-real build_cuda=build_for_nvcc
  local cuda_flags=(-DCMAKE_CUDA_FLAGS_RELEASE="-O1 -DNDEBUG")
  if have_gpu; then
    folder=build/cuda-native architecture=native build_cuda=build cuda_flags=()
  elif $thorough; then
    folder=build/cuda-program build_cuda=build
  fi
  if ! $cuda; then
    skip "build (cuda): left out by --no-cuda"
  elif ! have_nvcc; then
    skip "build (cuda): no nvcc here, so nothing has been compiled for a GPU"
  elif limit=$build_limit step "build (cuda)" "$build_cuda" "$folder" cuda \
    "-DCMAKE_CUDA_ARCHITECTURES=$architecture" "${cuda_flags[@]}"; then
    step "cuda: launches fit, no spills, 16-byte loads" \
      python3 scripts/ptxas_report.py --build "$folder"
    if [[ $build_cuda == build ]]; then
      step "cuda: the program trains, on the cpu if there is no GPU" "$folder/apps/accrue" train --steps 2
    fi
    if have_gpu; then
      run_tests cuda "$folder" --label-exclude "$left_out" --tests-regex '-cuda$'
      step "cuda: the tests on a GPU ran" device_tests_ran "$folder"
    else
      skip "tests (cuda): no GPU here"
    fi
  else
    skip "tests (cuda): no build"
  fi
}

# Shares no objects with the builds release and simt.
check_other_builds() {
  local processors=$few_processors seconds=3
  ! $thorough || seconds=60
  check_cuda
  limit=$((900 + 40 * seconds)) step_if_available "fuzz: $seconds s a parser" scripts/fuzz.sh --seconds "$seconds"
  if step "build (tsan)" build_thread_tests; then
    step "threads: loops, reading ahead and signals" \
      build/tsan/tests/accrue_thread_tests "[threads],[interrupt],[data]"
  fi
  if $thorough; then
    limit=7200 step_if_available "a bare Debian 13" scripts/check_debian.sh
  else
    skip "a bare Debian 13: left out without --thorough"
  fi
}

check_judges() {
  local module
  if ! $thorough; then
    skip "checks for a release: left out without --thorough"
  elif "$python" -c 'import torch, safetensors, pytest' 2>/dev/null; then
    for module in torchvision transformers peft gguf tokenizers sentencepiece onnx onnxruntime fontTools \
      tensorboard; do
      "$python" -c "import $module" 2>/dev/null || skip "judge $module: no such module for $python"
    done
    [[ -x $(PATH=${ACCRUE_TEST_LLAMA_CPP:-$PATH} type -P llama-completion) ]] ||
      skip "judge llama.cpp: no llama-completion; set ACCRUE_TEST_LLAMA_CPP"
    limit=5400 step "judges: PyTorch and others beside Python's module" judge
  else
    skip "judges: no Python modules torch, safetensors and pytest for $python; set ACCRUE_TEST_PYTHON"
  fi
}

# Begins when the release build is there, and has been tested: the demo builds in its folder.
check_release() {
  local processors=$few_processors
  local -x CMAKE_BUILD_PARALLEL_LEVEL=$processors  # pip's
  check_judges
  if $built; then
    step_if_available "report in a browser" scripts/check_report.py \
      --program build/release/apps/accrue
    step "documents" scripts/check_docs.py build/release/apps/accrue
    step "installed: examples, pkg-config, packages" scripts/check_install.sh build/release
    [[ ! -d $scratch/judged ]] || step "judge: PyTorch beside five networks in C++" judge_networks
    limit=$build_limit step_if_available "Python's wheel in a bare environment" scripts/check_wheel.sh
    step_if_available "ranks of MPICH" scripts/check_mpich.sh build/release
    if command -v doxygen >/dev/null; then
      step "C++ documentation" cmake --build build/release --target docs
    else
      skip "C++ documentation: no doxygen"
    fi
  fi
  if $demo; then step demo run_demo; else skip "demo: left out by --no-demo"; fi
}

if $setup; then step setup ./scripts/setup.sh --tests || finish; fi
step "this machine" machine_rate
# A step often leaves a processor idle, so half as many processes work beside the long steps.
few_processors=$(((processors + 1) / 2))
beside "other builds" check_other_builds
check_sources
built=false
if limit=$build_limit step "build (release)" build build/release release; then
  built=true
  run_tests release build/release --label-exclude "$left_out"
else
  skip "tests (release): no build"
fi
join "other builds"
beside "release" check_release

if ! $simt; then
  skip "tests (simt): left out by --no-simt"
elif limit=$build_limit step "build (simt)" build build/simt simt "-DACCRUE_SANITIZE_ALL=$thorough"; then
  export UBSAN_OPTIONS=print_stacktrace=1
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
  run_tests simt build/simt --label-exclude "$left_out"
  step "simt: the CUDA tests ran" device_tests_ran build/simt
else
  skip "tests (simt): no build"
fi
join "release"

# Runs all combinations, which the release build has tried on the cpu.
if ! $simt; then
  skip "tests (simt-release): left out by --no-simt"
elif ! $thorough; then
  skip "tests (simt-release): left out without --thorough"
elif limit=$build_limit step "build (simt-release)" build build/simt-release simt-release \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG"; then
  run_tests simt-release build/simt-release --label-regex full --tests-regex cuda
  step "simt-release: the CUDA tests ran" device_tests_ran build/simt-release
else
  skip "tests (simt-release): no build"
fi
finish
