#include "library.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simt {
namespace {

bool unloaded = false;

}  // namespace

void Workspace::scribble() const {
  if (bytes == 0) return;
  require_device(data, bytes, "a library's workspace");
  std::memset(data, 0xff, asked);
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
