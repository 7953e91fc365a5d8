#include "accumulate/ladder/arrays.h"

#include "core/random.h"

namespace accrue::ladder {
namespace {

// Views of the parameters' slices, each flat.
std::vector<View> slices(const Tensor& values, const std::vector<Parameters::Entry>& layout) {
  std::vector<View> views;
  for (const auto& entry : layout)
    views.push_back(values.slice(entry.offset, entry.offset + entry.tensor.numel()).view());
  return views;
}

Array make_array(Tensor initial, const Arrays& arrays) {
  Tensor values = initial.to(arrays.device, Category::workspace);
  std::vector<View> parameters = slices(values, arrays.layout);
  return {std::move(initial), std::move(values), std::move(parameters)};
}

// Random numbers for array number `stream`, zero in the gaps.
Array make_random(int64_t P, float low, uint64_t stream, const Arrays& arrays) {
  Tensor initial = Tensor::full({P}, 0, DType::f32, Device::cpu, Category::workspace);
  const auto& layout = arrays.layout;
  parallel_for(arrays.tensors(), P / arrays.tensors(), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const auto& entry = layout[static_cast<size_t>(p)];
      RandomStream random(stream, static_cast<uint64_t>(p));
      float* out = initial.view().as<float>() + entry.offset;
      for (int64_t i = 0; i < entry.tensor.numel(); ++i) out[i] = random.uniform(low, 1);
    }
  });
  return make_array(std::move(initial), arrays);
}

template <class T>
Array make_rounded(const Array& g, const Arrays& arrays) {
  Tensor initial =
      Tensor::empty(g.initial.shape(), dtype_of<T>(), Device::cpu, Category::workspace);
  const auto in = g.initial.span<float>();
  std::ranges::transform(in, initial.view().as<T>(), [](float x) { return T(x); });
  return make_array(std::move(initial), arrays);
}

}  // namespace

Arrays::Arrays(const Parameters& parameters, Device device_)
    : device(device_),
      layout(parameters.entries()),
      found(Tensor::full({1}, 0, DType::f32, device, Category::workspace)) {
  const int64_t P = parameters.values().numel();
  sum = make_random(P, -1, 1, *this);
  w = make_random(P, -1, 2, *this);
  g = make_random(P, -1, 3, *this);
  m = make_random(P, -1, 4, *this);
  v = make_random(P, 0, 5, *this);
  t.values = Tensor::full({P}, 0, DType::f32, device, Category::workspace);
  t.parameters = slices(t.values, layout);
  g_f16 = make_rounded<Half>(g, *this);
  g_bf16 = make_rounded<BFloat16>(g, *this);
}

void Arrays::reset() const {
  for (const Array* array : {&sum, &w, &m, &v}) array->reset();
}

int64_t Arrays::count() const {
  int64_t count = 0;
  for (const auto& entry : layout) count += entry.tensor.numel();
  return count;
}

Parameters layout_of(size_t bytes) {
  // A weight of 64 MiB does not stay in a cache between two operations on it.
  constexpr int64_t width = 4096;
  auto left = static_cast<int64_t>(bytes / sizeof(float));
  check(left > 0, "an array of {} bytes holds no float32", bytes);
  std::vector<Declaration> parameters;
  const auto declare = [&](const Shape& shape) {
    parameters.push_back({fmt::format("{}", parameters.size()), shape});
    left -= shape.numel();
  };
  while (left > 0) {
    const int64_t rows = std::min(left / width, width);
    if (rows > 0) declare({rows, width});
    if (left > 0) declare({std::min(left, width)});
  }
  return Parameters(parameters, {}, DType::f32, Device::meta);
}

}  // namespace accrue::ladder
