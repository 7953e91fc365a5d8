#include "block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <vector>

#include "cuda_pipeline.h"
#include "fiber.h"
#include "thread.h"

namespace simt {
namespace {

// Thrown through the frames of a kernel thread that will never go on.
struct Abandoned {};

bool same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

// The block that runs now. Its threads run one after another on one fiber, as ordinary function
// calls; only when a thread has to wait does the next one get a fiber of its own. A thread that
// waits switches to the next fiber itself: by way of run() each wait would be two switches.
class Block {
 public:
  void start_grid(const Launch& launch, Random& random);
  void run(uint3 index);

  int sync_block(Barrier barrier, bool predicate, Place place);
  uint64_t meet_warp(WarpOp op, unsigned mask, uint64_t value, unsigned source, Place place);
  unsigned lane() const { return current_->lane(); }
  void begin_copy(const Copy& copy, Place place);
  void commit_copies();
  void wait_for_copies(size_t groups);
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[noreturn]] static void run_threads(Fiber& fiber);

  void start_block(uint3 index);
  bool failed() const { return bool(exception_); }
  bool may_start() const { return !failed() && ready_.empty() && started_ < threads_.size(); }
  Fiber* next_fiber();
  Fiber& idle_fiber();
  void run_thread(Thread& thread, Fiber& fiber);
  void wait(Thread& self);
  void release(size_t first);
  bool complete(unsigned warp, unsigned mask, WarpOp op) const;
  void finish(unsigned warp, unsigned mask, WarpOp op, const Thread* self);
  void exchange(unsigned warp, unsigned lanes);
  void exit_thread(Thread& thread);
  void abandon_all();
  std::string where() const {
    return describe_kernel(launch_->kernel, launch_->grid, launch_->block, blockIdx);
  }

  const Launch* launch_ = nullptr;
  Random* random_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<unsigned> order_;  // the order in which threads start
  std::vector<unsigned> ready_;  // released threads; resumed before others start, last first
  std::vector<unsigned> present_, meeting_;  // lanes of each warp that have not exited; that wait
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Thread* current_ = nullptr;
  size_t started_ = 0, exited_ = 0, at_barrier_ = 0;
  int votes_ = 0, barrier_result_ = 0;
  const Thread* first_at_barrier_ = nullptr;
  std::exception_ptr exception_;
};

// The process has one, because work runs on one host thread at a time, and uses its fibers again
// and again. It is never destroyed: a fiber's frames end with the process.
Block& the_block() {
  static Block& block = *new Block;
  return block;
}

void Block::start_grid(const Launch& launch, Random& random) {
  launch_ = &launch;
  random_ = &random;
  const dim3 size = launch.block;
  threads_.assign(size_t(size.x) * size.y * size.z, {});
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].linear = i;
    threads_[i].index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
  }
  blockDim = size;
  gridDim = launch.grid;
}

void Block::start_block(uint3 index) {
  blockIdx = index;
  const unsigned n = threads_.size(), warps = (n + warp_lanes - 1) / warp_lanes;
  for (Thread& thread : threads_) {
    thread.state = Thread::State::not_started;
    thread.copies.clear();
  }
  present_.assign(warps, ~0u);
  if (n % warp_lanes != 0) present_.back() = (1u << n % warp_lanes) - 1;
  meeting_.assign(warps, 0);
  started_ = exited_ = at_barrier_ = 0;
  votes_ = 0;

  // The warps come in random order, and so do the lanes of each warp: any two threads may come in
  // either order, while warps that shuffle need no more than 32 fibers.
  std::vector<unsigned> warp_order(warps);
  std::iota(warp_order.begin(), warp_order.end(), 0u);
  random_->shuffle(std::span(warp_order));
  order_.clear();
  for (const unsigned warp : warp_order) {
    const size_t first = order_.size();
    for (unsigned i = warp * warp_lanes; i < std::min(n, (warp + 1) * warp_lanes); ++i) {
      order_.push_back(i);
    }
    random_->shuffle(std::span(order_).subspan(first));
  }
}

void Block::run(uint3 index) {
  start_block(index);
  while (exited_ < threads_.size() && !failed()) {
    if (Fiber* const next = next_fiber()) {
      next->resume();
    } else if (started_ < threads_.size()) {
      idle_fiber().resume();
    } else {
      exception_ = std::make_exception_ptr(Failure(
          cudaErrorLaunchFailure, where() + ": no thread can go on" + describe_block(threads_)));
    }
  }
  if (failed()) {
    abandon_all();
    std::rethrow_exception(std::exchange(exception_, nullptr));
  }
}

// The fiber whose turn it is: of a released thread, or an idle one that starts the next thread.
// nullptr if there is none, or if the block has failed: then run() makes one, or ends the block.
Fiber* Block::next_fiber() {
  if (failed()) return nullptr;
  if (!ready_.empty()) {
    Thread& thread = threads_[ready_.back()];
    ready_.pop_back();
    return thread.fiber;
  }
  return started_ < threads_.size() && !idle_.empty() ? &idle_fiber() : nullptr;
}

Fiber& Block::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&Block::run_threads, fibers_.size()));
    return *fibers_.back();
  }
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

void Block::run_threads(Fiber& fiber) {
  Block& block = the_block();
  while (true) {
    while (block.may_start())
      block.run_thread(block.threads_[block.order_[block.started_++]], fiber);
    Fiber* const next = block.next_fiber();
    block.idle_.push_back(&fiber);
    fiber.switch_to(next);
  }
}

void Block::run_thread(Thread& thread, Fiber& fiber) {
  thread.fiber = &fiber;
  thread.state = Thread::State::runs;
  current_ = &thread;
  threadIdx = thread.index;
  try {
    launch_->thread();
    exit_thread(thread);
  } catch (const Abandoned&) {
    fiber.after_catching();
  } catch (...) {
    exception_ = std::current_exception();
    fiber.after_catching();
  }
  thread.state = Thread::State::exited;
  ++exited_;
}

void Block::exit_thread(Thread& thread) {
  const unsigned warp = thread.warp();
  present_[warp] &= ~(1u << thread.lane());
  thread.state = Thread::State::exited;
  // This thread may have been the last one that the others waited for.
  for (unsigned lanes = meeting_[warp]; lanes != 0; lanes &= meeting_[warp]) {
    const unsigned lane = std::countr_zero(lanes);
    const Thread& other = threads_[warp * warp_lanes + lane];
    if (complete(warp, other.mask, other.op)) finish(warp, other.mask, other.op, nullptr);
    lanes &= lanes - 1;
  }
}

void Block::abandon_all() {
  ready_.clear();
  for (Thread& thread : threads_) {
    if (thread.state != Thread::State::not_started && thread.state != Thread::State::exited) {
      thread.fiber->resume();
    }
  }
}

void Block::refuse(const std::string& what) const {
  current_->fiber->before_throwing();
  throw Failure(cudaErrorLaunchFailure,
                fmt::format("{}, thread {}: {}", where(), current_->linear, what));
}

void Block::wait(Thread& self) {
  self.fiber->switch_to(next_fiber());
  current_ = &self;
  threadIdx = self.index;
  self.state = Thread::State::runs;
  if (!failed()) return;
  self.fiber->before_throwing();
  throw Abandoned{};
}

// Puts the threads from ready_[first] on, which have just become able to run, into random order.
void Block::release(size_t first) { random_->shuffle(std::span(ready_).subspan(first)); }

int Block::sync_block(Barrier barrier, bool predicate, Place place) {
  Thread& self = *current_;
  self.state = Thread::State::at_barrier;
  self.barrier = barrier;
  self.place = place;
  if (at_barrier_ == 0) {
    first_at_barrier_ = &self;
  } else if (!same(first_at_barrier_->place, place)) {
    refuse(fmt::format(
        "waits in {}, but thread {} waits in {}: all threads must come to one barrier",
        describe_wait(self), first_at_barrier_->linear, describe_wait(*first_at_barrier_)));
  }
  votes_ += predicate;
  if (++at_barrier_ < threads_.size()) {
    wait(self);
    return barrier_result_;
  }
  self.state = Thread::State::runs;
  barrier_result_ = std::exchange(votes_, 0);
  at_barrier_ = 0;
  for (const Thread& thread : threads_) {
    if (&thread != &self) ready_.push_back(thread.linear);
  }
  release(0);
  return barrier_result_;
}

uint64_t Block::meet_warp(WarpOp op, unsigned mask, uint64_t value, unsigned source, Place place) {
  Thread& self = *current_;
  self.state = Thread::State::in_warp;
  self.op = op;
  self.mask = mask;
  self.value = value;
  self.source = source;
  self.place = place;
  const unsigned warp = self.warp();
  if ((mask >> self.lane() & 1) == 0) {
    refuse(fmt::format("calls {}, which does not name its own lane {}", describe_wait(self),
                       self.lane()));
  }
  meeting_[warp] |= 1u << self.lane();
  if (complete(warp, mask, op)) {
    finish(warp, mask, op, &self);
    self.state = Thread::State::runs;
  } else {
    wait(self);
  }
  return self.value;
}

void Block::begin_copy(const Copy& copy, Place place) {
  for (const auto address : {reinterpret_cast<uintptr_t>(copy.to),
                             copy.zeros < copy.bytes ? reinterpret_cast<uintptr_t>(copy.from) : 0})
    if ((copy.bytes != 4 && copy.bytes != 8 && copy.bytes != 16) || address % copy.bytes != 0)
      refuse(
          fmt::format("copies {} bytes, which must be 4, 8 or 16 and aligned to as many, at "
                      "{}:{}",
                      copy.bytes, place.file_name(), place.line()));
  std::memset(copy.to, 0xff, copy.bytes);
  if (current_->copies.empty()) current_->copies.emplace_back();
  current_->copies.back().push_back(copy);
}

void Block::commit_copies() {
  if (current_->copies.empty()) current_->copies.emplace_back();
  current_->copies.emplace_back();
}

void Block::wait_for_copies(size_t groups) {
  std::vector<std::vector<Copy>>& copies = current_->copies;
  while (copies.size() > groups + 1) {
    for (const Copy& copy : copies.front()) {
      const size_t read = copy.bytes - std::min(copy.bytes, copy.zeros);
      std::memcpy(copy.to, copy.from, read);
      std::memset(static_cast<char*>(copy.to) + read, 0, copy.bytes - read);
    }
    copies.erase(copies.begin());
  }
}

bool Block::complete(unsigned warp, unsigned mask, WarpOp op) const {
  const unsigned lanes = mask & present_[warp];
  if ((meeting_[warp] & lanes) != lanes) return false;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const Thread& thread = threads_[warp * warp_lanes + std::countr_zero(left)];
    if (thread.mask != mask || thread.op != op) return false;
  }
  return true;
}

// Gives every lane its result before any of them runs on: none can overwrite what another still
// reads.
void Block::finish(unsigned warp, unsigned mask, WarpOp op, const Thread* self) {
  const unsigned lanes = mask & present_[warp];
  Thread* const threads = &threads_[warp * warp_lanes];
  if (op == WarpOp::shuffle) exchange(warp, lanes);
  if (op == WarpOp::vote || op == WarpOp::matrix) {
    unsigned ballot = 0;
    for (unsigned left = lanes; left != 0; left &= left - 1) {
      const unsigned lane = std::countr_zero(left);
      ballot |= unsigned(threads[lane].value != 0) << lane;
    }
    for (unsigned left = lanes; left != 0; left &= left - 1) {
      threads[std::countr_zero(left)].value = ballot;
    }
  }
  meeting_[warp] &= ~lanes;
  const size_t first = ready_.size();
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const Thread& thread = threads[std::countr_zero(left)];
    if (&thread != self) ready_.push_back(thread.linear);
  }
  release(first);
}

void Block::exchange(unsigned warp, unsigned lanes) {
  Thread* const threads = &threads_[warp * warp_lanes];
  uint64_t given[warp_lanes] = {};
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const unsigned lane = std::countr_zero(left);
    given[lane] = threads[lane].value;
  }
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    Thread& thread = threads[std::countr_zero(left)];
    if (thread.source >= warp_lanes || (lanes >> thread.source & 1) == 0) {
      const char* why = thread.source < warp_lanes && (thread.mask >> thread.source & 1) != 0
                            ? "has exited or does not exist"
                            : "is not in the mask";
      refuse(fmt::format("lane {} reads lane {}, which {}, by {}", thread.lane(), thread.source,
                         why, describe_wait(thread)));
    }
    thread.value = given[thread.source];
  }
}

}  // namespace

void run_grid(const Launch& launch, Random& random) {
  Block& block = the_block();
  block.start_grid(launch, random);
  const dim3 grid = launch.grid;
  std::vector<uint32_t> order(size_t(grid.x) * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0u);
  random.shuffle(std::span(order));
  for (const uint32_t i : order) block.run({i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y});
}

int sync_block(Barrier barrier, bool predicate, Place place) {
  return the_block().sync_block(barrier, predicate, place);
}

uint64_t meet_warp(WarpOp op, unsigned mask, uint64_t value, unsigned source, Place place) {
  return the_block().meet_warp(op, mask, value, source, place);
}

unsigned lane() { return the_block().lane(); }

void refuse(const std::string& what) { the_block().refuse(what); }

void begin_copy(void* to, const void* from, size_t bytes, size_t zeros, Place place) {
  the_block().begin_copy({to, from, bytes, zeros}, place);
}
void commit_copies() { the_block().commit_copies(); }
void wait_for_copies(size_t groups) { the_block().wait_for_copies(groups); }

}  // namespace simt
