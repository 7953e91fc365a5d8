#pragma once

#include "device.h"

namespace simt {

// Memory that a library's algorithm was given to work in. Its content is nobody's business but the
// library's: as much as the algorithm asked for is filled with garbage before and after, so that an
// overlap with anything else shows.
struct Workspace {
  void* data;
  size_t bytes;
  size_t asked = bytes;

  void scribble() const;
};

// submit() for a library: takes the lock, and refuses after a failure of the device.
cudaError_t submit_library_work(cudaStream_t stream, Work work);

// The libraries are loaded when their handles are made, after whatever the program had made by
// then, and at exit they are gone before that is destroyed. unload_at_exit() is for the making of a
// handle; a call that comes when they are gone ends the process with a report.
void unload_at_exit();
void require_loaded(const char* call);

}  // namespace simt
