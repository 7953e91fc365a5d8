#pragma once

#include "device.h"

namespace simt {

// Memory in which a library's algorithm may work. Only the library may rely on its content: the
// bytes that the algorithm asked for are filled with garbage at both ends before and after it runs,
// which reveals an overlap with other memory.
struct Workspace {
  void* data;
  size_t bytes;
  size_t asked = bytes;

  void scribble() const;
};

// submit() for a library: takes the lock, and refuses after a failure of the device. A slow product
// is counted as such (simt::Launches).
cudaError_t submit_library_work(cudaStream_t stream, Work work, bool is_slow_product = false);

// A program loads a library when it makes the library's handle. At exit the library is gone before
// the objects that the program made earlier are destroyed. Functions that make a handle call
// unload_at_exit(). require_loaded() ends the process with a report if the library is gone.
void unload_at_exit();
void require_loaded(const char* call);

}  // namespace simt
