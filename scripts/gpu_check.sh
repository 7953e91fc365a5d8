#!/usr/bin/env bash
# Everything that needs a GPU, by one command: build, tests, sanitizers, measurements, and a page
# that compares them with the targets. Needs no network; changes nothing about the GPU.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly cmake_needed=3.25 all_parts=build,tests,sanitizer,bench,pytorch
readonly folder=build/gpu
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/gpu_check.sh OUT_DIR [options]
Builds for this machine's GPU and runs every check there is; writes summary.md (a page),
results.json and log.txt to OUT_DIR. Exits with 1 if a required step fails. Some ten minutes on
16 cores; where that is too long, a second call goes on with the build of the first:
--only build,tests,sanitizer, then --only bench,pytorch (with another OUT_DIR).
  --only PARTS   of $all_parts; what is missing of the build is made
  --prefix DIR   where the libraries are (see scripts/vendor_headers.sh), as DIR/usr
  --python PROG  the Python with PyTorch, for comparison (default: python3)
  --dry-run      print the steps and their time limits, and do nothing
END
}

fail() { echo "gpu_check: error: $*" >&2; exit 1; }

out='' parts=$all_parts prefix='' python=python3 dry_run=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --only | --prefix | --python)
      [[ $# -ge 2 ]] || fail "$1 needs a value"
      case $1 in
        --only) parts=$2 ;;
        --prefix) prefix=$(realpath --canonicalize-missing "$2")/usr ;;
        --python) python=$2 ;;
      esac
      shift ;;
    --dry-run) dry_run=true ;;
    -h | --help) usage; exit ;;
    -*) usage >&2; fail "unknown option '$1'" ;;
    *) out=$1 ;;
  esac
  shift
done
[[ -n $out ]] || { usage >&2; exit 2; }
for part in ${parts//,/ }; do
  [[ ,$all_parts, == *,$part,* ]] || fail "no part '$part'; there are $all_parts"
done
wanted() { [[ ,$parts, == *,$1,* ]]; }

# pip's cmake and ninja lie in folders of their own, which need not be on the PATH.
find_tools() {
  local package place
  for package in cmake:CMAKE_BIN_DIR ninja:BIN_DIR; do
    place=$("$python" -c "import ${package%:*} as p; print(p.${package#*:})" 2>/dev/null) &&
      PATH=$PATH:$place
  done
  [[ ! -x /usr/local/cuda/bin/nvcc ]] || PATH=$PATH:/usr/local/cuda/bin
}

check_tools() {
  have_gpu || fail "no NVIDIA GPU here (nvidia-smi lists none): nothing can be checked"
  have_nvcc || fail "no nvcc here: install the CUDA toolkit, 12 or newer"
  local tool version
  for tool in cmake ninja g++ "$python"; do
    command -v "$tool" >/dev/null || fail "no $tool here"
  done
  version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
  printf '%s\n' "$cmake_needed" "$version" | sort --version-sort --check=quiet ||
    fail "cmake $version is too old: $cmake_needed or newer is needed"
}

# record NAME STATUS SECONDS NEED: a line for the user and one for the summary.
record() {
  printf '%-8s %4d s  %s\n' "$2" "$3" "$1" | tee -a "$out/log.txt"
  printf '{"step": "%s", "status": "%s", "seconds": %d, "need": "%s"}\n' "$@" \
    >>"$scratch/steps.jsonl"
}

# step PART NEED LIMIT NAME COMMAND...: NEED is required, or optional (its failure is told, but does
# not fail the whole), or budget (required, but being stopped by the limit is no failure).
step() {
  local part=$1 need=$2 limit=$3 name=$4 start=$SECONDS result status=passed
  shift 4
  wanted "$part" || return 0
  if $dry_run; then
    printf '%-9s %-8s %4d s  %s: %s\n' "$part" "$need" "$limit" "$name" "$*"
    return
  fi
  printf '\n=== %s: %s\n' "$name" "$*" >>"$out/log.txt"
  timeout --kill-after=10 "$limit" "$@" </dev/null >>"$out/log.txt" 2>&1
  result=$?
  if [[ $need == budget ]] && [[ $result -eq 124 || $result -eq 137 ]]; then status=stopped
  elif [[ $result -ne 0 ]]; then status=failed
  fi
  record "$name" "$status" $((SECONDS - start)) "$need"
  [[ $status != failed ]]
}

skip() { if $dry_run; then echo "skipped: $1"; else record "$1" skipped 0 optional; fi; }

build() {
  local options=(-B "$folder" -DCMAKE_CUDA_ARCHITECTURES=native -DACCRUE_TESTS=ON
                 "-DPython3_EXECUTABLE=$(command -v "$python")")
  if ! wanted build; then
    [[ ! -x $folder/apps/accrue || ! -x $folder/tests/accrue_tests ]] || return 0
    parts=build,$parts
  fi
  [[ -z $prefix ]] || options+=("-DCMAKE_PREFIX_PATH=$prefix")
  mapfile -t -O "${#options[@]}" options < <(ccache_options)
  step build required 90 configure cmake --preset cuda "${options[@]}" &&
    step build required 400 build cmake --build "$folder" --parallel "$(nproc)"
}

test_on_gpu() {
  step tests required 300 tests ctest --test-dir "$folder" --no-tests=error --timeout 240 \
    --output-on-failure --parallel 4 --output-junit "$root/$folder/junit.xml"
  step tests required 10 "the tests on the GPU ran" \
    bash -c "source scripts/machine.sh; device_tests_are run $folder"
}

sanitize() {
  wanted sanitizer || return 0
  local sanitizer check=(--error-exitcode 9 --print-limit 20)
  local tests=("$folder/tests/accrue_tests" --device cuda "[ops]")
  sanitizer=$(command -v compute-sanitizer || compgen -G "/usr/local/cuda*/bin/compute-sanitizer" |
    head -n 1)
  if [[ -z $sanitizer ]]; then
    skip "memcheck, racecheck, initcheck (no compute-sanitizer here)"
    return
  fi
  step sanitizer required 150 memcheck "$sanitizer" --tool memcheck "${check[@]}" "${tests[@]}"
  # Of our own kernels: instrumenting the libraries' is slow and tells nothing about these.
  check+=(--kernel-name kernel_substring=accrue)
  step sanitizer budget 90 racecheck "$sanitizer" --tool racecheck "${check[@]}" "${tests[@]}"
  step sanitizer budget 90 initcheck "$sanitizer" --tool initcheck "${check[@]}" "${tests[@]}"
}

bench_train() {
  local model=$1 split=$2 graphs=$3
  step bench required 30 "bench train $model $split, graphs $graphs" "$folder/apps/accrue" \
    bench train --device cuda --model "$model" --micro-batch "${split%x*}" \
    --accum "${split#*x}" --cuda-graphs "$graphs" --seconds 1 \
    --json "$scratch/train-$model-$split-$graphs.json"
}

# The splits that users ask for, and windows of 1 and of 8 micro-batches of 32.
bench() {
  local model split graphs
  step bench required 60 "bench kernels" "$folder/apps/accrue" bench kernels --device cuda \
    --seconds 6 --json "$scratch/kernels.json"
  for model in mlp cnn; do
    for split in 32x4 8x16 128x1 1x32 32x1 32x8; do
      for graphs in on off; do bench_train "$model" "$split" "$graphs"; done
    done
    step bench required 60 "bench memory $model" "$folder/apps/accrue" bench memory \
      --device cuda --model "$model" --effective-batch 128 --micro-batches 32 --ways fused --steps 5 \
      --json "$scratch/memory-$model.json"
  done
  for model in unet resnet; do
    step bench required 120 "bench memory $model" "$folder/apps/accrue" bench memory \
      --device cuda --model "$model" --effective-batch 256 --micro-batches 8,32 \
      --ways fused,recompute-all,moments --steps 3 --json "$scratch/memory-$model.json"
  done
}

compare_with_pytorch() {
  wanted pytorch || return 0
  if ! $dry_run &&
    ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    skip "beside PyTorch ($python has none that can use the GPU)"
    return
  fi
  step pytorch optional 240 "beside PyTorch" "$python" scripts/bench_pytorch.py --device cuda \
    --program "$folder/apps/accrue" --rounds 2 --seconds 1.5 --json "$scratch/pytorch.json" \
    mlp:32x4 cnn:32x4 mlp:8x16
}

find_tools
if ! $dry_run; then
  check_tools
  if ! mkdir -p "$out" || ! : >"$out/log.txt"; then fail "cannot write to $out"; fi
  out=$(cd "$out" && pwd)
fi
cd "$root" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! $dry_run; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader \
    >"$scratch/gpu.txt"
  { date --utc; cat "$scratch/gpu.txt"; nvcc --version; cmake --version; } >>"$out/log.txt" 2>&1
fi
if build; then
  test_on_gpu
  sanitize
  bench
  compare_with_pytorch
fi
$dry_run || "$python" scripts/gpu_summary.py "$scratch" "$out"
