#!/usr/bin/env bash
# Everything that needs a GPU, by one command: the program and its tests, from a bundle or built here,
# then scripts/gpu_check.py with them. Needs no network; changes nothing about the GPU.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root cmake_needed=3.25
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/gpu_check.sh OUT_DIR [options] [-- options of scripts/gpu_check.py]
Runs every check that needs a GPU, the most useful first, and ends in time; OUT_DIR then has summary.md
(a page), results.json and log.txt. Exits with 1 if a required check failed.
  --bundle FILE  program and tests that scripts/gpu_bundle.sh built on another machine; without it, or
                 where they do not start, both are built here for the machine's GPU
  --prefix DIR   where the libraries to build with are (see scripts/vendor_headers.sh), as DIR/usr
  --python PROG  the Python that has PyTorch, beside which accrue is timed (default: python3)
  --seconds N    how long it may take, the build included (default: 500)
  --failed FILE  only what failed, by the results.json of an earlier call, and in more detail
  --runner DIR   a build with the runner (preset simt-release) in place of the GPU, to try the checks
  --missing      say what this machine lacks, and do nothing
END
}

fail() { echo "gpu_check: error: $*" >&2; exit 1; }

out='' bundle='' prefix='' python=python3 seconds=500 runner='' only_missing=false options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --bundle | --prefix | --python | --seconds | --failed | --runner)
      [[ $# -ge 2 ]] || fail "$1 needs a value"
      case $1 in
        --bundle) bundle=$(realpath --canonicalize-missing "$2") ;;
        --prefix) prefix=$(realpath --canonicalize-missing "$2")/usr ;;
        --python) python=$2 ;;
        --seconds) seconds=$2 ;;
        --failed) options+=(--failed "$(realpath --canonicalize-missing "$2")") ;;
        --runner) runner=$(realpath --canonicalize-missing "$2") ;;
      esac
      shift ;;
    --missing) only_missing=true ;;
    -h | --help) usage; exit ;;
    --) shift; options+=("$@"); break ;;
    -*) usage >&2; fail "unknown option '$1'" ;;
    *) out=$(realpath --canonicalize-missing "$1") ;;
  esac
  shift
done
[[ -n $out ]] || $only_missing || { usage >&2; exit 2; }
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "--seconds $seconds: expected a positive number"
cd "$root" || exit 1

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
  [[ -n $runner ]] || have_gpu || echo "an NVIDIA GPU and its driver (nvidia-smi lists none)"
  command -v "$python" >/dev/null || echo "$python: name another one by --python"
  compute_sanitizer >/dev/null ||
    echo "compute-sanitizer, of the CUDA toolkit: without it no memcheck and no racecheck"
  "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
    echo "PyTorch that can use the GPU, for $python: without it nothing to be timed beside"
  [[ -z $bundle$runner ]] || return
  have_nvcc || echo "nvcc: install the CUDA toolkit, 12 or newer, or name it by CUDACXX"
  cmake_is_new_enough || echo "cmake, $cmake_needed or newer: $python -m pip install cmake"
  command -v ninja >/dev/null || echo "ninja: $python -m pip install ninja"
  if ! command -v g++ >/dev/null; then
    echo "g++ (so that no library can be looked for): apt-get install g++"
    return
  fi
  for name in $(missing_headers); do
    case $name in
      cublasLt)
        [[ -n $(cublas_of_python) ]] ||
          echo "cublasLt, of the CUDA toolkit: apt-get install libcublas-dev-VERSION" ;;
      cuDNN) echo "cuDNN 9: $python -m pip install nvidia-cudnn-cuVERSION (of nvcc: 12 or 13)" ;;
      *)
        echo "$name: scripts/setup.sh, or scripts/vendor_headers.sh DIR elsewhere, --prefix DIR" ;;
    esac
  done
}

compute_sanitizer() {
  command -v compute-sanitizer || compgen -G "/usr/local/cuda*/bin/compute-sanitizer" | head -n 1 |
    grep .
}

# Builds both for this machine's GPU, within the time that is left, and sets program and tests.
build_here() {
  local headers library folder=build/gpu
  local flags=(-B "$folder" -DCMAKE_CUDA_ARCHITECTURES=native -DACCRUE_TESTS=ON
               -DCMAKE_UNITY_BUILD=ON "-DPython3_EXECUTABLE=$(command -v "$python")")
  [[ -z $prefix ]] || flags+=("-DCMAKE_PREFIX_PATH=$prefix")
  if [[ $(missing_headers) == *cublasLt* ]] &&
    read -r headers library < <(cublas_of_python); then
    # Behind the toolkit's own headers.
    export CPLUS_INCLUDE_PATH=$headers${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}
    flags+=("-DCUDA_cublasLt_LIBRARY=$library")
  fi
  mapfile -t -O "${#flags[@]}" flags < <(ccache_options)
  echo "gpu_check: building in $folder (its messages: $out/build.txt)"
  if ! { cmake --preset cuda "${flags[@]}" &&
    timeout "$((seconds - SECONDS))" cmake --build "$folder" --parallel "$(nproc)" \
      --target accrue accrue_tests; } >"$out/build.txt" 2>&1; then
    tail -n 25 "$out/build.txt"
    fail "the build failed"
  fi
  program=$root/$folder/apps/accrue tests=$root/$folder/tests/accrue_tests
}

# What a bundle needs of CUDA lies in the folders of Python's packages or beside the compiler.
add_libraries_of_cuda() {
  local places
  places=$("$python" - 2>/dev/null <<'END'
import glob, nvidia
print(":".join(folder for place in nvidia.__path__ for folder in sorted(glob.glob(place + "/*/lib"))))
END
  )
  export LD_LIBRARY_PATH=$places:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

starts() {
  local lacking
  if lacking=$(ldd "$1" 2>&1 | grep 'not found'); then
    echo "gpu_check: $1 does not start: ${lacking//[$'\n\t']/ }"
    return 1
  fi
  "$1" "${@:2}" >/dev/null
}

find_tools
lacking=$(missing)
if [[ -n $lacking ]]; then printf 'missing here:\n%s\n' "  ${lacking//$'\n'/$'\n'  }"
else echo "missing here: nothing"
fi
! $only_missing || exit 0
[[ -n $runner ]] || have_gpu || fail "no NVIDIA GPU here: nothing can be checked"
mkdir -p "$out" || fail "cannot write to $out"
program='' tests=''
if [[ -n $runner ]]; then
  program=$runner/apps/accrue tests=$runner/tests/accrue_tests
  [[ -x $program && -x $tests ]] ||
    fail "no program and tests in $runner: cmake --preset simt-release, and build it"
  options+=(--runner)
elif [[ -n $bundle ]]; then
  unpacked=$root/build/gpu-bundle
  mkdir -p "$unpacked" && tar --extract --file "$bundle" --directory "$unpacked" ||
    fail "cannot unpack $bundle"
  add_libraries_of_cuda
  if starts "$unpacked/accrue" --version && starts "$unpacked/accrue_tests" --help; then
    program=$unpacked/accrue tests=$unpacked/accrue_tests
  else
    echo "gpu_check: the bundle does not start here; building instead"
  fi
fi
if [[ -z $program ]]; then
  if ! have_nvcc || ! cmake_is_new_enough || ! type ninja g++ "$python" >/dev/null 2>&1; then
    fail "nothing can be built without the tools named above"
  fi
  build_here
fi
if sanitizer=$(compute_sanitizer); then options+=(--sanitizer "$sanitizer"); fi
exec "$python" scripts/gpu_check.py "$out" --program "$program" --tests "$tests" \
  --seconds $((seconds > SECONDS ? seconds - SECONDS : 1)) "${options[@]}"
