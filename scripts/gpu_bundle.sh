#!/usr/bin/env bash
# Builds the program and its tests for GPUs of compute capability 9.0 (H100, H200) on a machine that
# needs no GPU. The archive is for a machine with such a GPU on which nothing can be installed.
# CUDA's libraries come with PyTorch there; scripts/gpu_check.py --bundle FILE finds them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# The bundle must start with the C library of Debian 12. Such machines often limit the size of
# uploads: of the bundle, and of it with the tracked files.
readonly glibc_needed=2.36 most_bytes=$((54 << 20)) most_together=$((64 << 20))
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

usage() {
  cat <<END
Usage: scripts/gpu_bundle.sh [FILE]
Builds accrue and accrue_tests for sm_90 and x86-64-v3, stripped, with the few shared libraries that
they need, unless FILE is of the sources as they are. Leaves out MPI, NCCL, oneDNN, protobuf and FreeType, which a GPU check does not use.
  FILE   the archive (default: build/gpu-bundle.tar.gz)
END
}

case ${1:-} in
  -h | --help) usage; exit ;;
  -*) usage >&2; fail "unknown option '$1'" ;;
esac
# check_size: the archive's, and with what git would send along.
check_size() {
  local bytes sources
  bytes=$(stat --format %s "$archive")
  [[ $bytes -le $most_bytes ]] || fail "$archive has $bytes bytes: expected at most $most_bytes"
  sources=$(git -C "$root" ls-files -z | (cd "$root" && xargs -0 stat --format %s) |
    awk '{sum += $1} END {print sum + 0}')
  [[ $((bytes + sources)) -le $most_together ]] ||
    fail "$archive and the sources have $bytes + $sources bytes: expected at most $most_together"
  echo "gpu_bundle: $((bytes / 1000000)) MB in $archive, $(((bytes + sources) / 1000000)) MB" \
    "together with the sources"
}

archive=$(realpath --canonicalize-missing "${1:-$root/build/gpu-bundle.tar.gz}")
folder=$root/build/cuda-bundle bundle=$root/build/gpu-bundle
cd "$root"
stamp=$(python3 "$root/scripts/gpu_machine.py")
stamp_of_archive() { tar --extract --to-stdout --file "$archive" ./sources.txt 2>/dev/null; }
if [[ -f $archive && $(stamp_of_archive) == "$stamp" ]]; then
  check_size
  echo "gpu_bundle: $archive is of these sources"
  exit
fi
have_nvcc || fail "no nvcc here: install the CUDA toolkit, 12 or newer, or name it by CUDACXX"

mapfile -t options < <(ccache_options)
# shellcheck disable=SC2016  # the loader expands $ORIGIN
cmake -B "$folder" --preset cuda -DCMAKE_CUDA_ARCHITECTURES=90-real -DCMAKE_UNITY_BUILD=ON \
  -DACCRUE_NATIVE=OFF -DACCRUE_ISA=x86-64-v3 -DACCRUE_TESTS=ON \
  -DACCRUE_{ONEDNN,MPI,NCCL,PROTOBUF}=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Freetype=ON \
  -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN/lib' \
  "${options[@]}" >/dev/null
cmake --build "$folder" --parallel "$(nproc)" --target accrue accrue_tests

rm -rf "$bundle"
mkdir -p "$bundle/lib"
for program in apps/accrue tests/accrue_tests; do
  install --strip "$folder/$program" "$bundle"
done
# Leaves out the C library, which must be the machine's own, and CUDA's, which come with PyTorch.
ldd "$folder/apps/accrue" "$folder/tests/accrue_tests" | awk '$2 == "=>" {print $1, $3}' | sort -u |
  while read -r name path; do
    case $name in
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux*) ;;
      libcu* | libnv*) echo "$name" ;;
      *) install --mode=644 --strip "$path" "$bundle/lib/$name" ;;
    esac
  done >"$bundle/libraries-of-cuda.txt"
echo "$stamp" >"$bundle/sources.txt"

newest=$(objdump -T "$bundle"/accrue* "$bundle"/lib/* |
  sed -n 's/.*GLIBC_\([0-9][0-9.]*\).*/\1/p' | sort --version-sort --unique | tail -n 1)
[[ $(printf '%s\n' "$newest" $glibc_needed | sort --version-sort | tail -n 1) == "$glibc_needed" ]] ||
  fail "the bundle needs GLIBC $newest; build it on Debian 12, which has $glibc_needed"
tar --create --gzip --file "$archive" --directory "$bundle" .
check_size
echo "gpu_bundle: for GLIBC $newest or newer; of CUDA it needs" \
  "$(paste --serial --delimiters ' ' "$bundle/libraries-of-cuda.txt")"
