#pragma once

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/op_table.h"

namespace accrue::test {

using Place = std::vector<int64_t>;

// The places of a shape in row-major order.
inline std::vector<Place> places_of(const Shape& shape) {
  std::vector<Place> places;
  for (int64_t n = 0; n < shape.numel(); ++n) {
    Place place(static_cast<size_t>(shape.rank()));
    int64_t rest = n;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      place[static_cast<size_t>(d)] = rest % shape[d];
      rest /= shape[d];
    }
    places.push_back(place);
  }
  return places;
}

inline size_t number_of(const Shape& shape, const Place& place) {
  int64_t number = 0;
  for (int d = 0; d < shape.rank(); ++d) number = number * shape[d] + place[static_cast<size_t>(d)];
  return static_cast<size_t>(number);
}

// y[i] = x[source(i)], or `other` where the source is an empty place, which x of rank 0 never is.
inline Op moved_op(const std::string& name, const Shape& x, const Shape& y,
                   const std::function<Tensor(const Tensor&)>& run,
                   const std::function<Place(Place)>& source, double other = 0, double depth = 1) {
  return {.name = fmt::format("{} of {} to {}", name, x, y),
          .inputs = {x},
          .run =
              [=](const auto& in) {
                const Tensor result = run(in[0]);
                check(result.shape() == y || in[0].shape() != x, "shape {}, expected {}",
                      result.shape(), y);
                return result;
              },
          .reference =
              [=](const auto& in) {
                Values values;
                for (const Place& i : places_of(y)) {
                  const Place j = source(i);
                  const bool is_outside = j.empty() && x.rank() > 0;
                  values.push_back(is_outside ? other : in[0][number_of(x, j)]);
                }
                return values;
              },
          .depth = depth};
}

// 0, 1, 2, ...
inline Tensor numbered(const Shape& shape, DType dtype = DType::f32) {
  Values values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0);
  return tensor_with(values, shape, dtype);
}

}  // namespace accrue::test
