#include "tables/moons.h"

#include <cmath>
#include <numbers>

#include "core/inside.h"
#include "core/random.h"
#include "tables/columns.h"

namespace accrue {
namespace {

Dataset make_part(int64_t N, uint64_t seed) {
  Dataset data{"moons", "synthesised"};
  data.fields = {{.name = "features",
                  .values = Tensor::empty({N, 2}, DType::f32, Device::cpu, Category::data),
                  .encoding = Encoding::number},
                 {.name = "targets",
                  .values = Tensor::empty({N}, DType::i32, Device::cpu, Category::data),
                  .encoding = Encoding::index,
                  .classes = 2,
                  .class_names = {"upper", "lower"}}};
  const auto x = data["features"].span<float>();
  const auto moon = data["targets"].span<int32_t>();
  for (int64_t n = 0; n < N; ++n) {
    RandomStream random(seed, uint64_t(n));
    const bool is_lower = n % 2 == 1;
    const double angle = std::numbers::pi * random.uniform();
    const double noise = 0.1 * (2 * random.uniform() - 1), more = 0.1 * (2 * random.uniform() - 1);
    x[size_t(2 * n)] = float((is_lower ? 0.5 - std::cos(angle) : std::cos(angle) - 0.5) + noise);
    x[size_t(2 * n + 1)] =
        float((is_lower ? 0.25 - std::sin(angle) : std::sin(angle) - 0.25) + more);
    moon[size_t(n)] = is_lower;
  }
  const TableColumns columns{.features = {{.name = "x"}, {.name = "y"}},
                             .targets = {{.name = "moon"}},
                             .loss = loss_of_classes,
                             .classes = {"upper", "lower"}};
  data.taught = {{table_key, columns.written()}, {"loss", columns.loss}};
  return data;
}

}  // namespace

Datasets detail::make_moons() { return {make_part(1000, 1), make_part(400, 2)}; }

}  // namespace accrue
