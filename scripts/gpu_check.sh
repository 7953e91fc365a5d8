#!/usr/bin/env bash
# Everything that needs a GPU, by one command: build, tests, measurements, sanitizers, and a page
# that compares them with the targets. Needs no network; changes nothing about the GPU.
# shellcheck disable=SC2317  # the parts are called by name
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# In the order of their worth, since a machine may be lent for minutes.
readonly cmake_needed=3.25 all_parts=build,tests,kernels,train,pytorch,sanitizer,memory,cli
readonly folder=build/gpu
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/gpu_check.sh OUT_DIR [options]
Says what is missing on this machine, builds for its GPU and runs every check there is, the most
useful first; after each part OUT_DIR has a new summary.md (a page), results.json and log.txt. Ended
early, by a time limit, say, it goes on where it stopped when called again with the same OUT_DIR:
steps that passed are not repeated, those that failed come again at the end; all of them if the
sources or the GPU are others. Exits with 1 if a required step failed or was not reached. From
nothing some fifteen minutes on 16 cores.
  --only PARTS   of $all_parts;
                 the build is made or brought up to date in any case
  --prefix DIR   where the libraries are (see scripts/vendor_headers.sh), as DIR/usr
  --python PROG  the Python with PyTorch, for comparison (default: python3)
  --dry-run      print what is missing, the steps and their time limits, and do nothing
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

# pip's cmake and ninja lie in folders of their own, which need not be on the PATH.
find_tools() {
  local package place
  for package in cmake:CMAKE_BIN_DIR ninja:BIN_DIR; do
    place=$("$python" -c "import ${package%:*} as p; print(p.${package#*:})" 2>/dev/null) &&
      PATH=$PATH:$place
  done
  [[ ! -x /usr/local/cuda/bin/nvcc ]] || PATH=$PATH:/usr/local/cuda/bin
}

cmake_is_new_enough() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
  [[ -n $version ]] && printf '%s\n' "$cmake_needed" "$version" | sort --version-sort --check=quiet
}

# The names of those packages whose header the compiler does not find; CMake has the last word.
missing_headers() {
  local nvcc place
  local folders=("$prefix"/include{,/eigen3} /usr/include/eigen3 /usr/local/include/eigen3)
  if nvcc=$(command -v "${CUDACXX:-nvcc}"); then
    folders+=("$(dirname "$(dirname "$(realpath "$nvcc")")")/include")
  fi
  place=$("$python" -c 'import nvidia.cudnn as c; print(list(c.__path__)[0])' 2>/dev/null) &&
    folders+=("$place/include")
  g++ -x c++ -E -P "${folders[@]/#/-I}" - 2>/dev/null <<'END' | grep .
#if !__has_include(<fmt/core.h>)
fmt
#endif
#if !__has_include(<Eigen/Core>)
Eigen
#endif
#if !__has_include(<CLI/CLI.hpp>)
CLI11
#endif
#if !__has_include(<nlohmann/json.hpp>)
json
#endif
#if !__has_include(<catch2/catch.hpp>) && !__has_include(<catch2/catch_all.hpp>)
Catch2
#endif
#if !__has_include(<zlib.h>)
zlib
#endif
#if !__has_include(<jpeglib.h>)
libjpeg
#endif
#if !__has_include(<png.h>)
libpng
#endif
#if !__has_include(<cublasLt.h>)
cublasLt
#endif
#if !__has_include(<cudnn.h>)
cuDNN
#endif
END
}

# The header and the library of cuBLASLt that Python's packages hold, two words: of use where the
# toolkit has none, but not where CMake looks.
cublas_of_python() {
  "$python" - 2>/dev/null <<'END'
import glob, nvidia
for place in nvidia.__path__:
    for header in glob.glob(place + "/*/include/cublasLt.h"):
        folder = header.removesuffix("/include/cublasLt.h")
        print(folder + "/include", *glob.glob(folder + "/lib/libcublasLt.so.*"))
END
}

# Prints each thing that this machine lacks, and how to get it, on a line. (Only the runner needs
# Boost.)
missing() {
  local name
  have_gpu || echo "an NVIDIA GPU and its driver (nvidia-smi lists none)"
  have_nvcc || echo "nvcc: install the CUDA toolkit, 12 or newer, or name it by CUDACXX"
  cmake_is_new_enough || echo "cmake, $cmake_needed or newer: $python -m pip install cmake"
  command -v ninja >/dev/null || echo "ninja: $python -m pip install ninja"
  command -v "$python" >/dev/null || echo "$python: name another one by --python"
  if ! command -v g++ >/dev/null; then
    echo "g++ (so that no library can be looked for): apt-get install g++"
    return
  fi
  for name in $lacking_headers; do
    case $name in
      cublasLt)
        [[ -n $(cublas_of_python) ]] ||
          echo "cublasLt, of the CUDA toolkit: apt-get install libcublas-dev-VERSION" ;;
      cuDNN) echo "cuDNN 9: $python -m pip install nvidia-cudnn-cuVERSION (of nvcc: 12 or 13)" ;;
      *)
        echo "$name: scripts/setup.sh, or scripts/vendor_headers.sh DIR elsewhere, --prefix DIR" ;;
    esac
  done
  compute_sanitizer >/dev/null ||
    echo "compute-sanitizer, of the CUDA toolkit: without it no part 'sanitizer'"
  $has_torch || echo "PyTorch that can use the GPU, for $python: without it no part 'pytorch'"
}

compute_sanitizer() {
  command -v compute-sanitizer || compgen -G "/usr/local/cuda*/bin/compute-sanitizer" | head -n 1 |
    grep .
}

# One word for what the figures belong to: the sources that are built and the GPU.
fingerprint() {
  { cat "$measured/gpu.txt"
    find CMakeLists.txt cmake core kernels layers optim data fonts train report accrue study apps tests -type f \
      \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' -o -name '*.cmake' \
      -o -name CMakeLists.txt \) -print0 | LC_ALL=C sort --zero-terminated |
      xargs --null sha256sum; } | sha256sum
}

# record NAME STATUS SECONDS NEED: a line for the user and one for the summary.
record() {
  printf '%-8s %4d s  %s\n' "$2" "$3" "$1" | tee -a "$out/log.txt"
  printf '{"step": "%s", "status": "%s", "seconds": %d, "need": "%s"}\n' "$@" \
    >>"$measured/steps.jsonl"
}

# step NEED LIMIT NAME COMMAND...: NEED is required, or optional (its failure is told, but does not
# fail the whole), or budget (required, but being stopped by the limit is no failure). In the
# background, because bash would end only after a command in the foreground.
step() {
  local need=$1 limit=$2 name=$3 start=$SECONDS result status=passed log_bytes
  shift 3
  if $dry_run; then
    printf '%-9s %-8s %4d s  %s: %s\n' "$part" "$need" "$limit" "$name" "$*"
    return
  fi
  log_bytes=$(stat --format %s "$out/log.txt")
  printf '\n=== %s: %s\n' "$name" "$*" >>"$out/log.txt"
  timeout --kill-after=10 "$limit" "$@" </dev/null >>"$out/log.txt" 2>&1 &
  running=$!
  wait "$running"
  result=$?
  running=''
  if [[ $need == budget ]] && [[ $result -eq 124 || $result -eq 137 ]]; then status=stopped
  elif [[ $result -ne 0 ]]; then status=failed
  fi
  record "$name" "$status" $((SECONDS - start)) "$need"
  [[ $status != failed ]] ||
    { tail --bytes=+$((log_bytes + 1)) "$out/log.txt" | tail -n 12 | sed 's/^/    /'; false; }
}

# once NEED LIMIT NAME COMMAND...: a step that an earlier call may have done: what passed or spent
# its limit is not repeated, and what failed only after all that is new (round: new, then again).
once() {
  local before=''
  if ! $dry_run; then
    before=$(sed -n "s/^{\"step\": \"$3\", \"status\": \"\([a-z]*\)\".*/\1/p" \
      "$measured/steps.before" | tail -n 1)
  fi
  case $round:$before in
    new: | again:failed) step "$@" ;;
    new:*) printf '%-8s before  %s\n' "$before" "$3" ;;
  esac
}

skip() {
  if $dry_run; then echo "skipped: $1"
  elif [[ $round == new ]]; then record "$1" skipped 0 optional
  fi
}

# Always, because it takes seconds where nothing has changed.
build_part() {
  local headers library options=(-B "$folder" -DCMAKE_CUDA_ARCHITECTURES=native -DACCRUE_TESTS=ON
                                 "-DPython3_EXECUTABLE=$(command -v "$python")")
  [[ -z $prefix ]] || options+=("-DCMAKE_PREFIX_PATH=$prefix")
  if [[ $lacking_headers == *cublasLt* ]] &&
    read -r headers library < <(cublas_of_python); then
    # Behind the toolkit's own headers.
    export CPLUS_INCLUDE_PATH=$headers${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}
    options+=("-DCUDA_cublasLt_LIBRARY=$library")
  fi
  mapfile -t -O "${#options[@]}" options < <(ccache_options)
  step required 120 configure cmake --preset cuda "${options[@]}" &&
    step required 420 build cmake --build "$folder" --parallel "$(nproc)" \
      --target accrue accrue_tests
}

# run_tests NAME LIMIT REGEX OPTIONS-OF-CTEST...
run_tests() {
  local report=$measured/$1
  $dry_run || mkdir -p "$report"
  once required "$2" "$1" ctest --test-dir "$folder" --no-tests=error --tests-regex "$3" \
    --timeout "$2" --output-on-failure --output-junit "$report/junit.xml" "${@:4}"
  once required 20 "$1 ran on the GPU" \
    bash -c "source scripts/machine.sh; device_tests_ran '$report'"
}

# Those of the command line start a process for every line they try.
# Without mpi-cuda: such a machine may lack MPI.
tests_part() { run_tests tests 300 '-cuda$' --exclude-regex '^cli|^mpi' --parallel 4; }
cli_part() { run_tests cli 580 '^cli.*-cuda$' --parallel 4; }

kernels_part() {
  once required 60 "bench kernels" "$folder/apps/accrue" bench kernels --device cuda \
    --seconds 6 --json "$measured/kernels.json"
}

# The splits that users ask for, and windows of 1 and of 8 micro-batches of 32.
train_part() {
  local model split graphs
  for split in 32x4 8x16 128x1 1x32 32x1 32x8; do
    for model in mlp cnn; do
      for graphs in on off; do
        once required 30 "bench train $model $split, graphs $graphs" "$folder/apps/accrue" \
          bench train --device cuda --model "$model" --micro-batch "${split%x*}" \
          --accum "${split#*x}" --cuda-graphs "$graphs" --seconds 1 \
          --json "$measured/train-$model-$split-$graphs.json"
      done
    done
  done
}

pytorch_part() {
  local configuration
  if ! $dry_run && ! $has_torch; then
    skip "beside PyTorch ($python has none that can use the GPU)"
    return
  fi
  for configuration in mlp:32x4 cnn:32x4 mlp:8x16; do
    once optional 180 "beside PyTorch, $configuration" "$python" scripts/bench_pytorch.py \
      --device cuda --program "$folder/apps/accrue" --rounds 2 --seconds 1.5 \
      --json "$measured/pytorch-${configuration/:/-}.json" "$configuration"
  done
}

sanitizer_part() {
  local sanitizer check=(--error-exitcode 9 --print-limit 20)
  local tests=("$folder/tests/accrue_tests" --device cuda "[ops]")
  if ! sanitizer=$(compute_sanitizer); then
    skip "memcheck, racecheck, initcheck (no compute-sanitizer here)"
    return
  fi
  # Calls that fail are tested for: a failing one is no finding.
  once required 240 memcheck "$sanitizer" --tool memcheck --report-api-errors no "${check[@]}" \
    "${tests[@]}"
  # Of our own kernels: instrumenting the libraries' is slow and tells nothing about these.
  once budget 120 racecheck "$sanitizer" --tool racecheck \
    --kernel-name kernel_substring=accrue "${check[@]}" "${tests[@]}"
  # Of all kernels: what an unobserved one of the libraries has written would count as never
  # written. We cannot mend what the libraries themselves read, hence optional.
  once optional 120 initcheck "$sanitizer" --tool initcheck "${check[@]}" "${tests[@]}"
}

memory_part() {
  local model
  for model in mlp cnn; do
    once required 60 "bench memory $model" "$folder/apps/accrue" bench memory --device cuda \
      --model "$model" --effective-batch 128 --micro-batches 32 --ways fused --steps 5 \
      --rounds 1 --json "$measured/memory-$model.json"
  done
  for model in unet resnet; do
    once required 120 "bench memory $model" "$folder/apps/accrue" bench memory --device cuda \
      --model "$model" --effective-batch 256 --micro-batches 8,32 \
      --ways fused,recompute-all,moments --steps 3 --rounds 1 \
      --json "$measured/memory-$model.json"
  done
}

# Puts aside the figures of other sources or of another GPU: they must not mix.
open_out() {
  if ! mkdir -p "$measured" || ! touch "$out/log.txt"; then fail "cannot write to $out"; fi
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader \
    >"$measured/gpu.txt"
  local now
  now=$(fingerprint)
  if [[ -s $measured/fingerprint && $(<"$measured/fingerprint") != "$now" ]]; then
    echo "the sources or the GPU have changed: what was measured before is in $measured.old"
    rm -rf "$measured.old"
    mv "$measured" "$measured.old"
    mkdir "$measured"
    mv "$measured.old/gpu.txt" "$measured"
    mv "$out/log.txt" "$measured.old"
  fi
  echo "$now" >"$measured/fingerprint"
  touch "$measured/steps.jsonl"
  cp "$measured/steps.jsonl" "$measured/steps.before"
  { date --utc; cat "$measured/gpu.txt"; nvcc --version; cmake --version; } >>"$out/log.txt" 2>&1
}

summarize() { $dry_run || "$python" scripts/gpu_summary.py "$measured" "$out" "${remaining[@]}"; }

# Told to end, it takes the step along and leaves a page of what it has.
interrupted() {
  [[ -z $running ]] || kill "$running"
  summarize
  exit "$1"
}

find_tools
has_torch=true running=''
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
  has_torch=false
lacking_headers=$(missing_headers)
lacking=$(missing)
if [[ -n $lacking ]]; then printf 'missing here:\n%s\n' "  ${lacking//$'\n'/$'\n'  }"
else echo "missing here: nothing"
fi
out=$(realpath --canonicalize-missing "$out")
measured=$out/measured
cd "$root" || exit 1
if ! $dry_run; then
  have_gpu || fail "no NVIDIA GPU here: nothing can be checked"
  if ! have_nvcc || ! cmake_is_new_enough || ! type ninja g++ "$python" >/dev/null 2>&1; then
    fail "nothing can be built without the tools named above"
  fi
  open_out
fi

remaining=(build)
for part in ${all_parts//,/ }; do
  [[ $part == build || ,$parts, != *,$part,* ]] || remaining+=("$part")
done
readonly wanted=("${remaining[@]:1}")
trap 'interrupted 143' TERM
trap 'interrupted 130' INT
round=new
while [[ ${#remaining[@]} -gt 0 ]]; do
  part=${remaining[0]}
  "${part}_part" || [[ $part != build ]] || break
  remaining=("${remaining[@]:1}")
  summarize
done
if ! $dry_run && [[ ${#remaining[@]} -eq 0 ]]; then
  round=again
  for part in "${wanted[@]}"; do "${part}_part"; done
fi
status=0
summarize || status=1
$dry_run || cat "$out/summary.md"
exit "$status"
