#include "library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simt {
namespace {

bool unloaded = false;

// The bytes at either end of a workspace that are filled. Whatever else may lie in it begins or
// ends there, because memory is given from the ends of a free block.
constexpr size_t end_bytes = 32 << 10;

}  // namespace

void Workspace::scribble() const {
  if (bytes == 0) return;
  require_device(data, bytes, "a library's workspace");
  const size_t filled = std::min(asked, end_bytes);
  std::memset(data, 0xff, filled);
  std::memset(static_cast<char*>(data) + asked - filled, 0xff, filled);
}

cudaError_t submit_library_work(cudaStream_t stream, Work work, bool is_slow_product) {
  return call([&] {
    ++device().launches.library_calls;
    device().launches.slow_products += is_slow_product;
    return submit(stream, std::move(work));
  });
}

void unload_at_exit() {
  std::atexit([] { unloaded = true; });
}

void require_loaded(const char* call) {
  if (!unloaded) return;
  std::fprintf(stderr, "%s was called at exit, when the library was gone\n", call);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace simt
