#pragma once

#include "device.h"

namespace simt {

// Memory that a library's algorithm was given to work in. Its content is nobody's business but the
// library's: it is filled with garbage before and after, so that an overlap with anything else
// shows.
struct Workspace {
  void* data;
  size_t bytes;

  void scribble() const;
};

// submit() for a library: takes the lock, and refuses after a failure of the device.
cudaError_t submit_library_work(cudaStream_t stream, Work work);

}  // namespace simt
