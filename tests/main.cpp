#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <iostream>

#include "core/cuda.h"
#include "tests/catch.h"
#include "tests/device.h"

namespace accrue::test {
namespace {

// Ops run on allocations of exactly their size, so that a memory checker sees what goes beyond;
// everything else on cached blocks, as programs do.
class ChooseBlocks : public TestListener {
 public:
  using TestListener::TestListener;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    if (test_device() != Device::cuda) return;
    const bool op = test.tagsAsString().find("[ops]") != std::string::npos;
    const auto mode = op ? BlockCache::Mode::direct : BlockCache::Mode::caching;
    if (std::exchange(mode_, mode) != mode) cuda::blocks().set_mode(mode);
  }

 private:
  BlockCache::Mode mode_ = BlockCache::Mode::caching;
};
CATCH_REGISTER_LISTENER(ChooseBlocks)

// After the last test no memory is in use. Returns how much is, by name, and says so.
int leaks() {
  int found = 0;
  for (const Device device : {Device::cpu, Device::cuda, Device::meta, Device::meta_cuda})
    for (const AllocationGroup& group : ledger(device).largest(5)) {
      std::cerr << "leaked on " << name(device) << ": " << group.count << " x " << group.each.type()
                << " '" << group.each.name() << "'\n";
      ++found;
    }
  return found;
}

int run(int argc, char** argv) {
  Catch::Session session;
  std::string device = "cpu";
  session.cli(session.cli() | clara::Opt(device, "cpu|cuda")["--device"]("the device under test"));
  if (const int status = session.applyCommandLine(argc, argv)) return status;
  if (device != "cpu" && device != "cuda") {
    std::cerr << "--device " << device << ": expected cpu or cuda\n";
    return 1;
  }
  if (device == "cuda") {
    if (const std::string reason = cuda::unavailable_reason(); !reason.empty()) {
      std::cout << "SKIPPED: " << reason << '\n';
      return 0;
    }
    set_test_device(Device::cuda);
  }
  const int failed = session.run();
  return std::max(failed, leaks());
}

}  // namespace
}  // namespace accrue::test

int main(int argc, char** argv) { return accrue::test::run(argc, argv); }
