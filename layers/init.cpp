#include "layers/init.h"

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "core/random.h"

namespace accrue {

Init Init::lecun_uniform(int64_t fan_in) { return uniform(1 / std::sqrt(double(fan_in))); }
Init Init::kaiming_normal(int64_t fan) { return normal(std::sqrt(2 / double(fan))); }
Init Init::xavier_uniform(int64_t fan_in, int64_t fan_out) {
  return uniform(std::sqrt(6 / double(fan_in + fan_out)));
}

template <class T>
void Init::fill(std::span<T> values, uint64_t seed, uint64_t stream) const {
  RandomStream random(seed, stream);
  const auto draw = [&]() -> double {
    switch (kind) {
      case Kind::constant: return scale;
      case Kind::uniform: return scale * random.uniform(-1, 1);
      case Kind::normal: return mean + scale * random.normal();
    }
    return 0;
  };
  for (T& value : values) value = static_cast<T>(draw());
  std::fill_n(values.begin() + first_zero, zeros, T(0));
}

template void Init::fill(std::span<float>, uint64_t, uint64_t) const;
template void Init::fill(std::span<double>, uint64_t, uint64_t) const;

Init detail::weight_init(InitScheme scheme, int64_t fan_in, int64_t fan_out) {
  switch (scheme) {
    case InitScheme::kaiming: return Init::kaiming_normal(fan_in);
    case InitScheme::kaiming_fan_out: return Init::kaiming_normal(fan_out);
    case InitScheme::xavier: return Init::xavier_uniform(fan_in, fan_out);
    case InitScheme::lecun: return Init::lecun_uniform(fan_in);
    case InitScheme::normal: break;
  }
  return Init::normal(0.02);
}

}  // namespace accrue
