#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/judged.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {

// Heads for the tests of linear_cross_entropy().

// A head with V outputs and E inputs, applied at places with these labels.
struct Head {
  size_t V, E;
  std::vector<int32_t> labels;
  OwnLogit own = OwnLogit::counts;

  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
  Shape x_shape() const { return {rows(), static_cast<int64_t>(E)}; }
  Shape w_shape() const { return {static_cast<int64_t>(V), static_cast<int64_t>(E)}; }

  // The losses of all judged rows. Exponentials are relative to the label's logit.
  Values losses(const Values& x, const Values& w) const {
    Values losses, row(V);
    for (size_t r = 0; r < labels.size(); ++r) {
      if (labels[r] == not_judged) continue;
      for (size_t v = 0; v < V; ++v) {
        row[v] = 0;
        for (size_t e = 0; e < E; ++e) row[v] += x[r * E + e] * w[v * E + e];
      }
      const double of_label = row[static_cast<size_t>(labels[r])];
      double sum = 0;
      for (size_t v = 0; v < V; ++v)
        if (own == OwnLogit::counts || v != r) sum += std::exp(row[v] - of_label);
      losses.push_back(std::log(sum));
    }
    return losses;
  }
  double loss(const Values& x, const Values& w) const {
    const Values all = losses(x, w);
    double sum = 0;
    for (const double loss : all) sum += loss;
    return all.empty() ? 0 : sum / static_cast<double>(all.size());
  }
};

inline Head random_head(size_t rows, size_t V, size_t E) {
  Head head{V, E, std::vector<int32_t>(rows)};
  RandomStream random(3);
  for (int32_t& label : head.labels)
    label = static_cast<int32_t>(random.below(static_cast<uint32_t>(V)));
  return head;
}

inline Values uniform(int64_t size, uint64_t stream) {
  RandomStream random(stream);
  Values values(static_cast<size_t>(size));
  for (double& v : values) v = random.uniform(-1, 1);
  return values;
}

template <class T = float>
Tensor leaf(const Values& values, const Shape& shape) {
  return require_grad(
      Tensor::from(std::vector<T>(values.begin(), values.end()), shape, test_device()));
}

// A loss, and its gradients.
struct Outcome {
  double loss;
  Values dx, dw;

  bool operator==(const Outcome&) const = default;
};

}  // namespace accrue::test
