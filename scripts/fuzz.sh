#!/usr/bin/env bash
# Builds the libFuzzer targets of accrue's parsers (tests/fuzz) under AddressSanitizer and
# UndefinedBehaviorSanitizer, and lets each mutate its corpus for a while.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<END
Usage: scripts/fuzz.sh [--seconds N] [--available]
Fuzzes every parser for N seconds (default 60); exits with 1 if one crashes, and leaves the file
that makes it crash in build/fuzz.
  --available  exit with 1, and say why, if this machine cannot
END
}

seconds=60 available=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --available) available=true ;;
    -h | --help) usage; exit ;;
    *) usage >&2; echo "fuzz: error: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift
done

compiler=$(command -v clang++ || true)
mkdir -p build/fuzz
# Clang may be installed without its runtime libraries (Debian: libclang-rt-dev).
if [[ -z $compiler ]] ||
  ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$compiler" -x c++ - -fsanitize=fuzzer,address -o build/fuzz/probe 2>/dev/null; then
  echo "no clang++ with libFuzzer (Debian: clang, libclang-rt-dev)"
  exit 1
fi
$available && exit

# Three sources include all others, so the compiler reads each header only a few times.
sources_of() { for folder in "$@"; do python3 scripts/fuzz_sources.py "$folder"; done; }
include() { sed 's/.*/#include "&"/'; }
protoc --proto_path=onnx --cpp_out=build/fuzz onnx.proto
(
  sources_of data images fonts
  printf '%s\n' onnx/reader/{file,parse}.cpp build/fuzz/onnx.pb.cc
  printf '%s\n' kernels/{backend,parallel,rotary}.cpp kernels/detail/wide_runs.cpp tests/fuzz/parsers.cpp
) | include >build/fuzz/data.cpp
sources_of text | include >build/fuzz/text.cpp
find core -name '*.cpp' ! -name build.cpp ! -name cuda.cpp ! -name graph_queue.cpp | sort | include >build/fuzz/core.cpp
# The parsers render no template.
echo 'const std::string_view accrue::embedded::chat_template_py;' >>build/fuzz/text.cpp
# Optimizes if that saves more time than it takes.
level=-O0
[[ $seconds -lt 10 ]] || level=-O1
flags=(-std=c++20 "$level" -g1 -I. -Ibuild/fuzz "-fsanitize=fuzzer-no-link,address,undefined"
       -fno-sanitize-recover=all)
objects=(build/fuzz/{core,data,text}.o)
printf '%s\n' core data text |
  xargs -I{} -P "$(nproc)" "$compiler" "${flags[@]}" -c build/fuzz/{}.cpp -o build/fuzz/{}.o

export UBSAN_OPTIONS=print_stacktrace=1
"$compiler" "${flags[@]}" -fsanitize=fuzzer tests/fuzz/target.cpp "${objects[@]}" \
  -lfmt -ljpeg -lpcre2-8 -lpng -lprotobuf-lite -lutf8proc -lz -pthread -o build/fuzz/target
fuzz() {
  mkdir -p "build/fuzz/corpus/$1"
  FUZZ_PARSER=$1 build/fuzz/target -max_total_time="$seconds" -timeout=60 -max_len=4096 -seed=1 \
    -malloc_limit_mb=64 -artifact_prefix=build/fuzz/ -verbosity=0 -print_funcs=0 -print_final_stats=1 \
    "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1"
}

parsers=(safetensors checkpoint idx npy csv png jpeg run_lengths labels masks folders cifar
         postscript corpora gguf onnx json_lines tokenizer)
running=() failed=()
for parser in "${parsers[@]}"; do
  fuzz "$parser" >"build/fuzz/$parser.log" 2>&1 &
  running+=("$!")
  # Runs at most one parser for each core at a time.
  while [[ $(jobs -rp | wc -l) -ge $(nproc) ]]; do sleep 0.1; done
done
for i in "${!parsers[@]}"; do
  wait "${running[i]}" || failed+=("${parsers[i]}")
  echo "--- ${parsers[i]}, $seconds s"
  cat "build/fuzz/${parsers[i]}.log"
done
[[ ${#failed[@]} -eq 0 ]] || { echo "fuzz: error: failed: ${failed[*]}" >&2; exit 1; }
