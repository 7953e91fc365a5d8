#include "core/cuda.h"
#include "core/error.h"
#include "core/inside.h"

namespace accrue::cuda {
namespace {

bool tf32_is_allowed = false;

}  // namespace

std::string unavailable_reason() {
  return "this build has no CUDA backend (configure with --preset cuda)";
}

std::string describe_device() { return "none: " + unavailable_reason(); }

int device_count() { return 0; }
void use_device(int) {}

std::string device_address() { return {}; }

size_t total_memory() { return 0; }
size_t free_memory() { return 0; }

BlockCache& blocks() {
  static BlockCache none({[](size_t) { return nullptr; }, [](void*) {}});
  return none;
}
BlockCache& blocks_on_host() { return blocks(); }

void allow_tf32(bool allow) { tf32_is_allowed = allow; }
bool allows_tf32() { return tf32_is_allowed; }

// The functions below are never reached, because no tensor on Device::cuda can be made.
void* allocate(size_t) {
  require_device();
  return nullptr;
}
void deallocate(void*) {}
void* allocate_on_host(size_t) { return nullptr; }
void deallocate_on_host(void*) {}
void copy_to_device(void*, const void*, size_t) {}
void copy_to_host(void*, const void*, size_t) {}
void copy_on_device(void*, const void*, size_t) {}
void fill(const View&, double) {}
void synchronize() {}
PinnedBlock::PinnedBlock(size_t bytes, Category category)
    : allocation_({static_cast<int64_t>(bytes)}, DType::u8, Device::cpu, category) {
  require_device();
}
PinnedBlock::~PinnedBlock() = default;
void enqueue_copy_to_host(void*, const void*, size_t) {}
void enqueue_copy_to_device(void*, const void*, size_t) {}
Event::Event() = default;
Event::~Event() = default;
void Event::record() {}
bool Event::reached() const { return true; }
void Event::wait() const {}
Moment::Moment() = default;
Moment::~Moment() = default;
void Moment::record() {}
double Moment::seconds_since(const Moment&) const { return 0; }
SideStream::SideStream() = default;
SideStream::~SideStream() = default;
void SideStream::run(const std::function<void()>&) {}
void SideStream::join() {}
struct RecordedGraph {};
Graph::Graph(const std::function<void()>&) {}
Graph::~Graph() = default;
void Graph::launch() const {}

}  // namespace accrue::cuda
