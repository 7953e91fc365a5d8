#include "kernels/gather_samples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/backend.h"
#include "kernels/detail/pixel_planes.h"

namespace accrue {
namespace cpu {
namespace {

// out[k, p, :] = formula_of(p)(all[picked[k], p, :]), where p counts the planes of a sample.
template <class T, class S, class FormulaOf>
void gather_rows(const FieldViews& field, const int32_t* picked, int64_t planes,
                 FormulaOf formula_of) {
  const int64_t n = field.out.shape[0], size = field.out.numel() / n, plane = size / planes;
  const S* source = field.all.as<const S>();
  const auto line = int64_t(64 / sizeof(S));
  for (int64_t k = 0; k < n; ++k) {
    // Shuffled samples are not in the cache. Prefetching the next sample is three times as fast.
    if (k + 1 < n)
      for (int64_t i = 0; i < size; i += line)
        __builtin_prefetch(source + picked[k + 1] * size + i);
    T* out = field.out.as<T>() + k * size;
    const S* in = source + picked[k] * size;
    for (int64_t p = 0; p < planes; ++p, out += plane, in += plane) {
      const auto f = formula_of(p);
      for (int64_t i = 0; i < plane; ++i) out[i] = T(f.template operator()<Wide<T>>(in[i]));
    }
  }
}

void gather_field(const FieldViews& field, const int32_t* picked) {
  const auto same = [](int64_t) { return formula::Same{}; };
  if (field.encoding == Encoding::index)
    return gather_rows<int32_t, int32_t>(field, picked, 1, same);
  if (field.encoding == Encoding::weight) return gather_rows<float, float>(field, picked, 1, same);
  dispatch_floating(field.out.dtype, [&]<class T>() {
    switch (field.encoding) {
      case Encoding::pixel: {
        const PixelPlanes planes(field.normalization);
        return gather_rows<T, uint8_t>(field, picked, planes.count,
                                       [&](int64_t p) { return planes.formulas[p]; });
      }
      case Encoding::mask:
        return gather_rows<T, uint8_t>(field, picked, 1,
                                       [](int64_t) { return formula::MaskPixel{}; });
      case Encoding::number:
      case Encoding::weight:
      case Encoding::index: break;
    }
    dispatch_wide(field.all.dtype, [&]<class S>() { gather_rows<T, S>(field, picked, 1, same); });
  });
}

}  // namespace

void gather_samples(std::span<const FieldViews> fields, View samples, View index, View position) {
  const int64_t N = fields.front().all.shape[0], n = fields.front().out.shape[0];
  const int32_t* picked = index.as<const int32_t>();
  if (position.data) {
    int32_t& begin = *position.as<int32_t>();
    picked += std::exchange(begin, begin + int32_t(n));
  }
  for (int64_t k = 0; k < n; ++k) {
    check(0 <= picked[k] && picked[k] < N, "sample {} is not in a data set of {} samples",
          picked[k], N);
    if (samples.data) samples.as<int32_t>()[k] = picked[k];
  }
  for (const FieldViews& field : fields) gather_field(field, picked);
}

}  // namespace cpu

// The kernel reads one row of the data set for each index.
template <>
struct detail::WorkOf<cpu::gather_samples> {
  Work operator()(std::span<const FieldViews> fields, const View& samples, const View&,
                  const View& position) const {
    const int64_t n = fields.front().out.shape[0];
    double bytes = bytes_of(samples) + double(n) * size_of(DType::i32) + 2 * bytes_of(position);
    for (const FieldViews& field : fields) {
      const double share = double(n) / double(field.all.shape[0]);
      bytes += double(bytes_of(field.out)) + share * double(bytes_of(field.all));
    }
    return {.bytes = bytes};
  }
};

namespace cuda {
decltype(cpu::gather_samples) gather_samples;
}  // namespace cuda

namespace {

void gather(std::span<const FieldViews> fields, View samples, View index, View position,
            int64_t n) {
  check(!fields.empty(), "[gather_samples] no fields: expected at least one");
  check(fields.size() <= most_fields || !position.data || samples.data,
        "[gather_samples] the next samples of {} fields: expected at most {}, or a place for their "
        "numbers",
        fields.size(), most_fields);
  DType floating = DType::i32;
  for (const auto& [encoding, out, all, normalization] : fields) {
    if (!comes_as_stored(encoding) && floating == DType::i32) floating = out.dtype;
    check(out.shape == all.shape.with(0, n) && stores(encoding, all.dtype) &&
              all.shape[0] == fields.front().all.shape[0] &&
              out.dtype == encoded_dtype(encoding, floating),
          "[gather_samples] {} {} of {} samples from {} {}", name(out.dtype), out.shape, n,
          name(all.dtype), all.shape);
    if (encoding == Encoding::pixel)
      check_normalization(normalization, all.shape, "[gather_samples] mean");
    check(out.device == index.device && all.device == index.device,
          "[gather_samples] from {} to {} by an index on {}: expected one device", name(all.device),
          name(out.device), name(index.device));
  }
  if (n == 0) return;
  const auto gather_some = [&](size_t begin, View numbers, View picked, View advanced) {
    launch<cpu::gather_samples, cuda::gather_samples>(
        index.device, fields.subspan(begin, std::min(most_fields, fields.size() - begin)), numbers,
        picked, advanced);
  };
  gather_some(0, samples, index, position);
  // Where the first kernel advances the position, it has written the samples that it took.
  const View picked = position.data ? samples : index;
  for (size_t begin = most_fields; begin < fields.size(); begin += most_fields)
    gather_some(begin, View{}, picked, View{});
}

}  // namespace

void detail::check_normalization(const Normalization& normalization, const Shape& samples,
                                 std::string_view what) {
  const auto& [mean, std] = normalization;
  const int64_t C = samples.rank() > 1 ? samples[1] : 1;
  const auto fits = [&](const std::vector<double>& values) {
    const auto count = static_cast<int64_t>(values.size());
    return count == 1 || (count == C && count <= most_channels);
  };
  check(fits(mean) && fits(std),
        "{} {}, standard deviation {} of samples {}: expected one number each, or one for each of "
        "the {} channels, at most {}",
        what, fmt::join(mean, ","), fmt::join(std, ","), samples, C, most_channels);
  check(std::ranges::all_of(mean, [](double x) { return std::isfinite(x); }) &&
            std::ranges::all_of(std, [](double x) { return std::isfinite(x) && x > 0; }),
        "{} {}, standard deviation {}: expected finite ones, above 0", what, fmt::join(mean, ","),
        fmt::join(std, ","));
}

void detail::gather_samples(std::span<const FieldViews> fields, View samples, View index) {
  gather(fields, samples, index, {}, index.numel());
}

void detail::gather_next_samples(std::span<const FieldViews> fields, View samples, View order,
                                 View position) {
  check(!fields.empty() && position.numel() == 2 && position.device == order.device,
        "[gather_next_samples] {} fields, position {} on {}: expected fields, and [2] on {}",
        fields.size(), position.shape, name(position.device), name(order.device));
  gather(fields, samples, order, position, fields.front().out.shape[0]);
}

}  // namespace accrue
