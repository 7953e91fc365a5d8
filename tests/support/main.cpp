#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <sys/prctl.h>

#include <algorithm>
#include <iostream>
#include <string_view>
#include <vector>

#include "core/cuda.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/skipped.h"

// Catch's own main(), compiled in its library: with Catch2 v2, compiling it takes longer than any
// of the tests. The linker renames our main() to __wrap_main (tests/CMakeLists.txt).
extern "C" int __real_main(int argc, char** argv);

namespace accrue::test {
namespace {

// Tests of ops get allocations of exactly the size asked for: a memory checker then sees accesses
// beyond them. All other tests use cached blocks, as programs do. Each test starts without the
// blocks that the test before it cached, because under AddressSanitizer the runner opens and closes
// all device memory whenever it runs work.
class ChooseBlocks : public TestListener {
 public:
  using TestListener::TestListener;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    if (test_device() != Device::cuda) return;
    const bool op = test.tagsAsString().find("[ops]") != std::string::npos;
    const auto mode = op ? BlockCache::Mode::direct : BlockCache::Mode::caching;
    if (std::exchange(mode_, mode) != mode) cuda::blocks().set_mode(mode);
    cuda::blocks().release_cached();
  }

 private:
  BlockCache::Mode mode_ = BlockCache::Mode::caching;
};
CATCH_REGISTER_LISTENER(ChooseBlocks)

// After the last test no memory should be in use. Prints the groups of allocations that are, by
// name, and returns their number.
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

// Takes our own arguments, and passes the others to Catch.
int run(int argc, char** argv) {
  // Lets any process debug this one, where the system allows only parents to: if a test hangs,
  // scripts/limit.py shows its stacks by gdb.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  std::string device = "cpu";
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--device" && i + 1 < argc) device = argv[++i];
    else if (std::string_view(argv[i]) == "--full") set_full();
    else rest.push_back(argv[i]);
  }
  rest.push_back(nullptr);
  if (device != "cpu" && device != "cuda") {
    std::cerr << "--device " << device << ": expected cpu or cuda\n";
    return 1;
  }
  if (device == "cuda") {
    if (const std::string reason = cuda::unavailable_reason(); !reason.empty()) {
      say_skipped(reason);
      return skipped_status;
    }
    set_test_device(Device::cuda);
  }
  const int failed = __real_main(static_cast<int>(rest.size()) - 1, rest.data());
  const int status = std::max(failed, leaks());
  return status == 0 && has_skipped() ? skipped_status : status;
}

}  // namespace
}  // namespace accrue::test

extern "C" int __wrap_main(int argc, char** argv) { return accrue::test::run(argc, argv); }
