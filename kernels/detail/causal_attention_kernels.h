#pragma once

#include <cmath>
#include <optional>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/causal_attention.h"

namespace accrue {

// Heads that lie side by side in the rows of a tensor [N, T, columns], from some column on.
template <class T>
struct Heads {
  T* data;
  int64_t rows, stride, size;  // T, the columns, and D

  // The channels of head h in row t of sample n.
  HOST_DEVICE T* at(int64_t n, int64_t t, int64_t h) const {
    return data + (n * rows + t) * stride + h * size;
  }
};

struct HeadColumns {
  View rows;
  int64_t first = 0;

  template <class T>
  Heads<T> of(int64_t size) const {
    return {rows.as<T>() + first, rows.shape[1], rows.shape[2], size};
  }
};

struct CausalInputs {
  HeadColumns q, k, v;
  View positions;  // has no data if each row is one document
  AttentionHeads heads;
};

// `first` is the column of the target's rows at which the heads begin.
struct HeadTarget {
  std::optional<GradTarget> target;
  int64_t first = 0;

  explicit operator bool() const { return target.has_value(); }
  // Has no data if there is no target.
  HeadColumns columns() const { return target ? HeadColumns{target->grad, first} : HeadColumns{}; }
  template <class T>
  Heads<T> of(int64_t size) const {
    return columns().of<T>(size);
  }
};

struct CausalTargets {
  HeadTarget dq, dk, dv;
};

struct CausalSizes {
  int64_t N, H, G, D, Tq, T;

  explicit CausalSizes(const CausalInputs& x)
      : N(x.q.rows.shape[0]),
        H(x.heads.queries),
        G(x.heads.groups),
        D(x.heads.size),
        Tq(x.q.rows.shape[1]),
        T(x.k.rows.shape[1]) {}
  HOST_DEVICE int64_t heads_of_group() const { return H / G; }
  // The token of query i.
  HOST_DEVICE int64_t token(int64_t i) const { return T - Tq + i; }
  // The number of pairs of a query and a key that it sees, if rows are single documents.
  double pairs() const {
    return double(N) * double(H) * double(Tq) * (double(T - Tq) + double(Tq + 1) / 2);
  }
  // The number of elements of q, k and v.
  double elements() const { return double(N * D) * double(Tq * H + 2 * T * G); }
  // The factor of the scores.
  double scale() const { return 1 / std::sqrt(static_cast<double>(D)); }
};

}  // namespace accrue
