#include "thread.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>

namespace simt {
namespace {

std::string name(const Thread& thread) {
  if (thread.state == Thread::State::at_barrier) {
    switch (thread.barrier) {
      case Barrier::plain: return "__syncthreads";
      case Barrier::count: return "__syncthreads_count";
      case Barrier::all: return "__syncthreads_and";
      case Barrier::any: return "__syncthreads_or";
    }
  }
  switch (thread.op) {
    case WarpOp::sync: return "__syncwarp";
    case WarpOp::vote: return "a warp vote";
    case WarpOp::shuffle: return "a warp shuffle";
    case WarpOp::matrix: return "a tensor core's operation";
  }
  return "?";
}

}  // namespace

// Only exported symbols have a name here (link with -rdynamic); gdb's `info symbol` knows the
// others.
std::string kernel_name(const void* kernel) {
  Dl_info info{};
  if (dladdr(kernel, &info) == 0 || info.dli_sname == nullptr || info.dli_saddr != kernel) {
    return fmt::format("at {}", kernel);
  }
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr), std::free);
  return demangled ? demangled.get() : info.dli_sname;
}

std::string describe_wait(const Thread& thread) {
  const std::string mask = thread.state == Thread::State::in_warp
                               ? fmt::format(" with mask {:#010x}", thread.mask)
                               : std::string();
  return fmt::format("{}{} at {}:{} in {}", name(thread), mask, thread.place.file_name(),
                     thread.place.line(), thread.place.function_name());
}

std::string describe_block(const std::vector<Thread>& threads) {
  struct Group {
    size_t threads = 0;
    unsigned first = 0;
  };
  std::map<std::string, Group> groups;
  for (const Thread& thread : threads) {
    const std::string what =
        thread.state == Thread::State::exited ? "exited"
        : thread.state == Thread::State::at_barrier || thread.state == Thread::State::in_warp
            ? "wait in " + describe_wait(thread)
            : "could go on";
    Group& group = groups[what];
    if (group.threads++ == 0) group.first = thread.linear;
  }
  std::string lines;
  for (const auto& [what, group] : groups) {
    lines += fmt::format("\n  {} of {} threads {} (the first: thread {})", group.threads,
                         threads.size(), what, group.first);
  }
  return lines;
}

std::string describe_kernel(const void* kernel, const dim3& grid, const dim3& block, uint3 index) {
  return fmt::format("kernel {}, block ({}, {}, {}) of ({}, {}, {}), threads ({}, {}, {})",
                     kernel_name(kernel), index.x, index.y, index.z, grid.x, grid.y, grid.z,
                     block.x, block.y, block.z);
}

}  // namespace simt
