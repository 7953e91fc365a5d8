#include "library.h"

#include <cstring>

namespace simt {

void Workspace::scribble() const {
  if (bytes == 0) return;
  require_device(data, bytes, "a library's workspace");
  std::memset(data, 0xff, bytes);
}

cudaError_t submit_library_work(cudaStream_t stream, Work work) {
  return call([&] { return submit(stream, std::move(work)); });
}

}  // namespace simt
