#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/view.h"

namespace accrue {

// Processes, numbered from 0, that share the micro-batches of every window. To a window, a rank is
// nothing but more micro-batches. An implementation moves bytes between them; this class decides
// what is added and in which order, so that all ranks have the same bits, and the same in every
// run.
//
// Call every function here on all ranks, in the same order; each call waits for the others.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;

  // The size of the scratch for sum() and mean(), u8 on the cpu. A larger x goes through it in
  // pieces.
  static constexpr size_t scratch_bytes = size_t{1} << 20;

  // x[i] = sum_r x_r[i], added in float64 by ascending rank and rounded once. f32 or f64, cpu.
  void sum(View x, View scratch);
  // x[i] = x_0[i] + sum_r weight_r / W * (x_r[i] - x_0[i]), W the sum of the weights. Where the
  // ranks agree, this is exactly their value. A rank of weight 0 has no influence. f32 or f64, cpu.
  void mean(View x, double weight, View scratch);
  // Each rank's `own`, in their order.
  template <class T>
  std::vector<T> all_of(const T& own) {
    std::vector<T> all(static_cast<size_t>(count()));
    gather(all.data(), &own, sizeof(T));
    return all;
  }
  // Overwrites the `bytes` bytes at `data` with those of rank 0.
  void copy_from_first(void* data, size_t bytes);
  // True if `own` is true on any rank.
  bool any(bool own);
  // x[i] = sum_r x_r[i], added by ascending rank: for a few numbers.
  void add_up(std::span<double> x);

  // all[r] = own_r, `bytes` of each.
  virtual void gather(void* all, const void* own, size_t bytes) = 0;

 protected:
  // received[s] = sent_s[r] on rank r, `bytes` of each.
  virtual void exchange(void* received, const void* sent, size_t bytes) = 0;

 private:
  template <class T, class Add>
  void combine(View x, View scratch, Add add);
};

}  // namespace accrue
