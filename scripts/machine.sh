# shellcheck shell=bash
# What this machine has for CUDA; sourced by the other scripts.

# True where CMake would find a CUDA compiler.
have_nvcc() {
  [[ -n ${CUDACXX:-} ]] || command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]
}

have_gpu() { command -v nvidia-smi >/dev/null && [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]]; }

# CMake's options for compiling through ccache where it is installed, one a line.
ccache_options() {
  ! command -v ccache >/dev/null || printf '%s\n' -DCMAKE_{CXX,CUDA}_COMPILER_LAUNCHER=ccache
}
