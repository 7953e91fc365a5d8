#!/usr/bin/env bash
# Tries accrue on a bare Debian 13, which debootstrap makes. Runs README's first command as on a
# fresh machine: Debian's GCC must warn of nothing. Then compiles every source by itself with that
# GCC, and all sources together with the newest clang, at -O1 to save time. Warnings are errors.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() {
  echo "Usage: scripts/check_debian.sh   as root; downloads 400 MB, needs 3 GB of disk" >&2
  echo "       scripts/check_debian.sh --available   says what is missing, and fails if anything is" >&2
  exit 2
}
if [[ ${1:-} == --available ]]; then
  missing=
  if ! command -v debootstrap >/dev/null; then missing="no debootstrap"
  elif [[ $(id -u) -ne 0 ]]; then missing="not root"
  elif ! unshare --mount --pid --fork true 2>/dev/null; then missing="no mounts allowed here"
  fi
  [[ -z $missing ]] || { echo "$missing"; exit 1; }
  exit
fi
[[ $# -eq 0 ]] || usage

debian=$(mktemp -d)
trap 'rm -rf --one-file-system "$debian"' EXIT
# in_debian COMMAND: runs it by bash, in the project's folder. Its mounts end with its namespace.
in_debian() {
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i \
      HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin http_proxy="${http_proxy:-}" \
      bash -c "set -e; cd /root/accrue; $1"' "$debian" "$1"
}

debootstrap --variant=minbase trixie "$debian" >/dev/null
mkdir "$debian/root/accrue"
tar --create --exclude=./build --exclude=./.git --exclude=./data/mnist . |
  tar --extract --directory "$debian/root/accrue"

echo "--- README's first command"
in_debian "scripts/demo.sh --digits --epochs 1
  ! grep --with-filename --line-number 'warning:' build/release/build.log"

echo "--- every source by itself, by GCC"
in_debian "apt-get install --quiet --quiet --yes --no-install-recommends libboost-context-dev >/dev/null
  scripts/check_syntax.py --all -DACCRUE_WERROR=ON"

clang=$(in_debian "apt-cache pkgnames clang-" | grep --extended-regexp '^clang-[0-9]+$' |
  sort --version-sort | tail -n 1)
echo "--- all sources together, by $clang"
in_debian "apt-get install --quiet --quiet --yes --no-install-recommends \
    $clang libomp-${clang#clang-}-dev >/dev/null
  cmake -B build/clang --preset simt-release -DCMAKE_CXX_COMPILER=${clang/clang/clang++} \
    -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' -DCMAKE_UNITY_BUILD=ON \
    -DACCRUE_WERROR=ON -DACCRUE_TESTS=ON >/dev/null
  cmake --build build/clang --parallel $(nproc)
  build/clang/tests/accrue_tests '[ops]'"
