#!/usr/bin/env bash
# Builds the program with MPICH, beside a build with Open MPI, and lets two ranks of each train for
# a few steps: MPI only moves bytes, so the weights must have the same bits.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
# shellcheck source=scripts/machine.sh
source scripts/machine.sh
usage() {
  echo "Usage: scripts/check_mpich.sh BUILD_FOLDER" >&2
  echo "       scripts/check_mpich.sh --available   says what is missing, and fails if anything is" >&2
  exit 2
}
[[ $# -eq 1 ]] || usage
if [[ $1 == --available ]]; then
  for tool in mpirun.openmpi mpicxx.mpich mpiexec.mpich; do
    command -v "$tool" >/dev/null || { echo "no $tool"; exit 1; }
  done
  exit
fi

# Only cli/mpi.cpp depends on the kind of MPI, so only this source is compiled again. Its object is
# linked first and so replaces the one among the build's objects.
folder=build/mpich object=apps/CMakeFiles/accrue_exchange.dir/cli/mpi.cpp.o
mapfile -t launchers < <(ccache_options)
cmake -B "$folder" --preset release -DMPI_CXX_COMPILER=mpicxx.mpich \
  -DACCRUE_TESTS=OFF -DCMAKE_UNITY_BUILD=ON "${launchers[@]}" >/dev/null
cmake --build "$folder" --parallel "$(nproc)" --target "$object"
link=$(ninja -C "$folder" -t commands apps/accrue | tail -n 1)
program=$root/$folder/apps/accrue
(cd "$1" && eval "${link/ -o apps\/accrue / "$root/$folder/$object" -o "$program" }")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
training=(train --data digits --model mlp-small --effective-batch 96 --micro-batch 16 --steps 20)
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
  timeout 300 mpirun.openmpi -n 2 "$root/$1/apps/accrue" "${training[@]}" --threads 1 \
  --save "$scratch/openmpi"
timeout 300 mpiexec.mpich -n 2 "$program" "${training[@]}" --threads 1 \
  --save "$scratch/mpich" | tee "$scratch/said"
grep -q '^ranks: 2' "$scratch/said"
cmp "$scratch/openmpi" "$scratch/mpich"
"$program" info --model mlp-small | grep MPICH
