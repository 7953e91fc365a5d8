#!/usr/bin/env bash
# Every check of accrue, as CI runs them: format, include directions, the tests as built for use
# and under the sanitizers, and the demo.
# shellcheck disable=SC2317  # step calls the checks by name
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
readonly root
readonly format_version=14

usage() {
  cat <<END
Usage: scripts/test.sh [options]
Sets up, builds with warnings as errors and runs every check; exits with 1 if one fails.
  --no-setup  install no packages
  --no-asan   leave out the tests under AddressSanitizer and UndefinedBehaviorSanitizer
  --no-demo   leave out the demo
END
}

setup=true asan=true demo=true
for argument in "$@"; do
  case $argument in
    --no-setup) setup=false ;;
    --no-asan) asan=false ;;
    --no-demo) demo=false ;;
    -h | --help) usage; exit ;;
    *) usage >&2; echo "test: error: unknown option '$argument'" >&2; exit 2 ;;
  esac
done

passed=0 failed=0 skipped=0
failures=() skips=()
heading() { printf '\n=== %s\n' "$1"; }
skip() { heading "SKIPPED: $1"; skipped=$((skipped + 1)); skips+=("$1"); }

# step NAME COMMAND...: one check. True if it passed.
step() {
  local name=$1
  shift
  heading "$name"
  if "$@" </dev/null; then
    passed=$((passed + 1))
  else
    heading "FAILED: $name"
    failed=$((failed + 1))
    failures+=("$name")
    return 1
  fi
}

finish() {
  heading summary
  [[ ${#skips[@]} -eq 0 ]] || printf 'skipped: %s\n' "${skips[@]}"
  [[ ${#failures[@]} -eq 0 ]] || printf 'failed: %s\n' "${failures[@]}"
  printf '%d passed, %d failed, %d skipped (%d s)\n' "$passed" "$failed" "$skipped" "$SECONDS"
  exit $((failed > 0))
}

# Not through bare git: a clone owned by another user is refused without safe.directory.
tracked_sources() {
  git -c safe.directory="$root" ls-files -z '*.h' '*.cpp' '*.cuh' '*.cu' 2>/dev/null ||
    find core kernels layers optim data apps tests \
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

build() {
  local preset=$1 launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake --preset "$preset" -DACCRUE_WERROR=ON -DACCRUE_TESTS=ON "${launcher[@]}" >/dev/null &&
    cmake --build --preset "$preset" --parallel "$(nproc)"
}

# The number of tests with this attribute of a JUnit report: tests, failures, disabled, skipped.
count_of() { sed -n "s/^.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1; }

# ctest's tests count one by one; one at a time, because each uses every core.
run_tests() {
  local preset=$1 report=$root/build/$1/junit.xml status=0 tests failures_here skipped_here
  heading "tests ($preset)"
  rm -f "$report"
  ctest --preset "$preset" --no-tests=error --timeout 1200 --output-junit "$report" </dev/null ||
    status=1
  if [[ ! -s $report ]]; then
    failed=$((failed + 1))
    failures+=("tests ($preset): ctest wrote no report")
    return
  fi
  tests=$(count_of "$report" tests)
  failures_here=$(count_of "$report" failures)
  skipped_here=$(($(count_of "$report" skipped) + $(count_of "$report" disabled)))
  if [[ $status -ne 0 && $failures_here -eq 0 ]]; then failures_here=1; fi
  [[ $failures_here -eq 0 ]] || failures+=("$failures_here of the tests ($preset)")
  [[ $skipped_here -eq 0 ]] || skips+=("$skipped_here of the tests ($preset)")
  passed=$((passed + tests - failures_here - skipped_here))
  failed=$((failed + failures_here))
  skipped=$((skipped + skipped_here))
}

build_and_test() {
  if step "build ($1)" build "$1"; then run_tests "$1"; else skip "tests ($1): no build"; fi
}

run_demo() (
  cd "$scratch" &&
    "$root/scripts/demo.sh" --no-setup --digits --epochs 1 --steps 50 -- \
      --save demo.safetensors --json demo.jsonl &&
    test -s demo.safetensors && test "$(wc -l <demo.jsonl)" -eq 50
)

scratch=$(mktemp -d)
readonly scratch
trap 'rm -rf "$scratch"' EXIT

if $setup; then step setup ./scripts/setup.sh || finish; fi
if formatter=$(clang_format); then
  step format check_format "$formatter"
else
  skip "format: it is defined by clang-format $format_version, which is not here"
fi
step "include directions" python3 scripts/check_includes.py
build_and_test release
if $asan; then
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
  export UBSAN_OPTIONS=print_stacktrace=1
  build_and_test asan
else
  skip "tests (asan): left out by --no-asan"
fi
if $demo; then step demo run_demo; else skip "demo: left out by --no-demo"; fi
finish
