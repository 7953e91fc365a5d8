#pragma once

#include <algorithm>
#include <cstdint>

#include "core/host_device.h"
#include "core/shape.h"

namespace accrue {

// Which elements of x belong to an output of a reduction: x's dimensions in runs that are kept or
// reduced, neighbours of one kind as one, and none of size 1. Outputs and terms are numbered row by
// row.
struct Reduction {
  static constexpr int most = Shape::max_rank / 2;  // runs of a kind
  struct Run {
    int64_t size = 1, stride = 0;
  };
  Run kept[most], reduced[most];  // the innermost last
  int64_t outputs = 1, terms = 1, pieces = 1;
  // True if neighbours in x are terms of one output, false if they are of different outputs.
  bool by_rows = true;

  // Bit d of `dims` says whether dimension d is reduced.
  Reduction(const Shape& x, unsigned dims) {
    enum class Kind { none, kept, reduced } last = Kind::none;
    int at_kept = most, at_reduced = most;
    int64_t stride = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      const Kind kind = (dims >> d & 1) != 0 ? Kind::reduced : Kind::kept;
      (kind == Kind::reduced ? terms : outputs) *= x[d];
      if (x[d] != 1) {
        Run* const runs = kind == Kind::reduced ? reduced : kept;
        int& at = kind == Kind::reduced ? at_reduced : at_kept;
        if (kind == last) runs[at].size *= x[d];
        else runs[--at] = {x[d], stride};
        if (last == Kind::none) by_rows = kind == Kind::reduced;
        last = kind;
      }
      stride *= x[d];
    }
    // Few outputs of many terms have these cut into pieces, so that all threads have work. The
    // pieces follow from the shape alone.
    constexpr int64_t piece = 16384, most_items = 256;
    if (outputs > 0)
      pieces = std::clamp<int64_t>(terms / piece, 1, std::max<int64_t>(1, most_items / outputs));
  }

  // The first of a piece's terms.
  HOST_DEVICE int64_t first_term(int64_t piece) const { return terms * piece / pieces; }
  // Where an output's elements begin, and how far from there its term is.
  HOST_DEVICE int64_t offset_of_output(int64_t o) const { return offset(kept, o); }
  HOST_DEVICE int64_t offset_of_term(int64_t t) const { return offset(reduced, t); }
  // Elements that lie side by side and are terms of one output or of neighbouring outputs.
  int64_t neighbours() const { return by_rows ? reduced[most - 1].size : kept[most - 1].size; }

 private:
  HOST_DEVICE static int64_t offset(const Run (&runs)[most], int64_t i) {
    int64_t sum = 0;
    for (int run = most - 1; i > 0; --run) {
      const int64_t size = runs[run].size;
      const bool is_outermost = i < size;  // then there is nothing to divide
      sum += (is_outermost ? i : i % size) * runs[run].stride;
      i = is_outermost ? 0 : i / size;
    }
    return sum;
  }
};

}  // namespace accrue
