#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// Controls of the SIMT runner; tests and debugging sessions use them, product code never does.
namespace simt {

// Seed of every order that CUDA leaves open: blocks of a grid, threads of a block, the streams'
// turns.
void set_seed(uint64_t seed);

// Memory of the device in bytes; a cudaMalloc beyond it fails with cudaErrorMemoryAllocation.
void set_device_memory(size_t bytes);

// Elements of the largest tensor that cuDNN takes, 2^31 - 1 at first.
void set_largest_tensor(size_t elements);
// cudaMemcpyAsync to or from pageable host memory may return at once (deferred) or wait for the
// stream: CUDA promises neither. With `either`, the seed decides for each copy.
enum class PageableCopies { either, deferred, waiting };
void set_pageable_copies(PageableCopies copies);

// A device that reads pageable memory itself (cudaDevAttrPageableMemoryAccess) copies from there
// when the stream comes to it, without staging.
void set_pageable_access(bool direct);

// Captures fail at their piece of work number `works`, counted from 0, and at all later ones, as if
// it were not allowed in a capture. Either the call that submits it returns the error, or only
// cudaStreamEndCapture() does.
enum class RefusedBy { call, end };
void refuse_captures_from(size_t works, RefusedBy by);

// How long NCCL's work waits for other processes before the device fails and reports what is
// missing; two minutes at first.
void set_nccl_patience(double seconds);

// Bytes (and blocks) that cudaMalloc has handed out and cudaFree has not taken back.
size_t live_device_bytes();
size_t live_device_blocks();

// The work given to streams, graphs under capture included, since reset_launches(). Library calls
// are the calls of cuBLASLt and cuDNN that compute; each is at least one kernel on a GPU. A graph
// that is launched counts as one, whatever is in it. `slow_products` are the library calls among
// them whose products, in 16 bits or TF32, have extents, strides or addresses with which cuBLASLt's
// heuristic does not promise tensor cores.
struct Launches {
  int64_t kernels = 0, library_calls = 0, graphs = 0, slow_products = 0;
};
Launches launches();
void reset_launches();

// The error of the last failed kernel, copy or library call, in words; empty if none has failed.
std::string last_report();

// Drops all work that has not run, captures under way, the sticky error and the report, and
// restores the defaults of the settings above. Device memory, streams, events and graphs stay as
// they are.
void reset();

}  // namespace simt
