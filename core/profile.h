#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/memory_scope.h"

namespace accrue::detail {

// The work of a kernel according to its formula, whatever algorithm the kernel uses.
struct Work {
  double flops = 0;  // floating-point operations of matrix products and convolutions, 0 for others
  double bytes = 0;  // read and written
  double spared_flops = 0;  // the part of `flops` that the kernel's algorithm saves
};

// The highest rates that a machine reaches.
struct MachineRates {
  double flops_per_s = 0;  // reached by a square product of gemm_size() in gemm_dtype
  double bytes_per_s = 0;  // read and written by a copy of copy_bytes, too large for caches
  DType gemm_dtype = DType::f32;
  static constexpr int64_t copy_bytes = 64 << 20;
  // Large enough to reach the highest rate. Smaller on the cpu, where rows a power of two apart
  // compete for the same lines of a cache, which would slow a larger product down.
  static int64_t gemm_size(Device device) { return device == Device::cuda ? 1024 : 512; }
};

// Measures the time of a thread's kernels and phases, from construction until stop() or
// destruction. launch() times each kernel (kernels/backend.h): by the host's clock on the cpu, by
// events in the stream on cuda, where a call only enqueues the kernel. The time between two kernels
// (allocations, autograd, copies, and on cuda waiting for the host) counts only for the phase.
// During a profile, no CUDA graph is recorded or replayed on its thread (core/replay.h), because a
// graph hides its kernels. Results have the same bits with and without a profile.
class Profile {
 public:
  // The calls of a kernel in one phase and op. Outside of ops, in a step for example, `op` is
  // empty.
  struct Row {
    Phase phase;
    Label op;
    std::string_view kernel;
    int64_t calls = 0;
    double us = 0;
    Work work = {};  // of all calls together
  };
  struct PhaseTime {
    Phase phase;
    double us;          // in this phase, without the phases within it
    double kernels_us;  // in kernels
  };
  // A kernel or, if `kernel` is empty, a phase. Times are since construction.
  struct Span {
    Phase phase;
    Label op, layer;
    std::string_view kernel;
    double begin_us, end_us;
    Work work;
    int64_t step, micro_batch;  // as Timeline::Moment counts them
  };

  // Keeps the spans up to the end of the first `traced_steps` steps (scopes of Phase::step), at
  // most most_spans. Rows and phases sum everything. On a meta device, kernels report their work,
  // but their time is only the host's. Throws Error if this thread is being profiled already.
  Profile(Device device, int64_t traced_steps);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  // Ends the measurement; call it on the thread that made this. Waits for the device. Throws Error
  // if a kernel failed.
  void stop();

  static constexpr size_t most_spans = 100'000;

  // The rows, longest first; complete after stop().
  std::vector<Row> rows() const;
  // The phases that took time, in the order of Phase. Phase::setup is the time outside of all other
  // phases.
  std::vector<PhaseTime> phases() const;
  // The spans in the order of their beginnings; they nest.
  const std::vector<Span>& spans() const { return spans_; }
  int64_t spans_left_out() const { return spans_left_out_; }
  // The sum of the phases' times.
  double total_us() const;
  int64_t steps() const { return step_; }
  Device device() const { return device_; }

  // The profile of this thread, or null if there is none or it profiles another device.
  static Profile* current() { return of_this_thread; }
  static Profile* current(Device device) {
    return of_this_thread && of_this_thread->device_ == device ? of_this_thread : nullptr;
  }

  // While alive, kernels of this thread are part of `op`, or of no op if it is empty.
  class OpScope {
   public:
    explicit OpScope(std::string_view op) : profile_(of_this_thread) {
      if (profile_) before_ = profile_->begin_op(op);
    }
    ~OpScope() {
      if (profile_) profile_->begin_op(before_.text());
    }
    OpScope(const OpScope&) = delete;
    OpScope& operator=(const OpScope&) = delete;

   private:
    Profile* profile_;
    Label before_;
  };
  // Assigns the kernels since the last op or change of phase to the forward of `op`. record() calls
  // this.
  static void end_forward(std::string_view op) {
    if (of_this_thread) of_this_thread->name_kernels(op);
  }

  // launch() calls these before and after a kernel.
  void begin_kernel(std::string_view kernel, Work work);
  void end_kernel();

  // MemoryScope calls these, which tell the profile of this thread, if there is one.
  static void enter(Phase phase) {
    if (of_this_thread) of_this_thread->open(phase);
  }
  static void leave() noexcept {
    if (of_this_thread) of_this_thread->close();
  }

 private:
  // Points in time: on cuda, known once the device has reached them.
  class Marks {
   public:
    explicit Marks(Device device);
    // Returns the number of a new mark.
    size_t mark();
    // The number of the last mark.
    size_t last() const { return last_; }
    // Returns the times of marks 0, 1, ..., in microseconds since the very first mark. Afterwards
    // the last mark has number 0, and the next will have number 1.
    std::vector<double> take_times();

   private:
    void set(size_t number);

    const Device device_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    size_t last_ = 0;
    std::vector<double> us_;                              // cpu
    std::vector<std::unique_ptr<cuda::Moment>> moments_;  // cuda
    double first_us_ = 0;                                 // of mark 0
  };
  struct Kernel {
    Row row;  // of this call alone
    Label layer;
    int64_t step, micro_batch;
    size_t begin, end = 0;  // marks; no end if it threw
  };
  struct OpenPhase {
    Phase phase;
    int64_t step, micro_batch;
    size_t begin;                         // mark
    std::optional<double> begin_us = {};  // set once the mark's time has been read
  };
  struct PhasePart {
    OpenPhase of;
    size_t begin, end;  // marks
    bool is_last;
  };
  using Key = std::tuple<Phase, Label, std::string_view>;

  Label begin_op(std::string_view op);
  void name_kernels(std::string_view op);
  void open(Phase phase);
  void close() noexcept;
  void end_part(bool is_last);
  void take_times();
  void add(Span span);

  static thread_local constinit Profile* of_this_thread;

  const Device device_;
  const int64_t traced_steps_;
  Marks marks_;
  std::vector<Kernel> kernels_;   // whose times have not been read yet
  std::vector<PhasePart> parts_;  // also not read yet
  std::vector<OpenPhase> open_;   // the innermost last
  size_t part_begin_ = 0;         // mark
  size_t unnamed_ = 0;            // the first of kernels_ that the next end_forward() names
  Label op_;
  int64_t step_ = 0, micro_batch_ = 0;

  std::map<Key, Row> rows_;
  std::map<Phase, PhaseTime> phases_;
  std::vector<Span> spans_;
  int64_t spans_left_out_ = 0;
};

}  // namespace accrue::detail
