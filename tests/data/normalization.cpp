// Pixels as networks see them.

#include <cmath>
#include <numeric>

#include "data/loader.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {

// Each pixel becomes (x / 255 - mean) / std, rounded to float32. A product with 1 / std may round
// otherwise.
TEST_CASE("pixels are normalized as the data set says", "[data]") {
  std::vector<uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  Dataset data{"test", "test", {{"images", Tensor::from(bytes, {256, 1, 1, 1}), Encoding::pixel}}};
  const auto gathered = [&](Device lies_on) {
    Loader loader(data.to(lies_on), {.effective_batch_size = 256,
                                     .micro_batch_size = 256,
                                     .shuffle = Shuffle::off,
                                     .device = test_device()});
    loader.start_epoch(0);
    return to_doubles((*loader.next())["images"]);
  };
  for (const Device lies_on : {Device::cpu, test_device()})
    for (const auto& [mean, std] : {std::pair{0.0, 1.0}, {0.1307, 0.3081}, {0.5, 0.5}}) {
      data.fields[0].normalization = {{mean}, {std}};
      const auto pixels = gathered(lies_on);
      for (size_t i = 0; i < pixels.size(); ++i)
        REQUIRE(std::abs(pixels[i] - (double(i) / 255 - mean) / std) <= 4 * 0x1p-24 / std);
    }
  data.fields[0].normalization.std = {0};
  REQUIRE_ERROR(gathered(test_device()),
                "mean 0.5, standard deviation 0: expected finite ones, above 0");
}

TEST_CASE("pixels are normalized channel by channel", "[data]") {
  constexpr int64_t N = 37, C = 3, plane = 35;
  std::vector<uint8_t> bytes(N * C * plane);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7919 >> 4);
  const Tensor images = Tensor::from(bytes, {N, C, 5, 7}, Device::cpu, Category::data);
  Dataset data{"test", "test", {{"images", images, Encoding::pixel}}};
  const std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};
  const auto require_normalized = [&](Device lies_on, const std::vector<double>& mean,
                                      const std::vector<double>& std) {
    data.fields[0].normalization = {mean, std};
    Loader loader(
        data.to(lies_on),
        {.effective_batch_size = 10, .micro_batch_size = 4, .seed = 3, .device = test_device()});
    for (const int64_t epoch : {0, 1}) {
      loader.start_epoch(epoch);
      while (const MicroBatch* part = loader.next()) {
        const auto pixels = to_doubles((*part)["images"]);
        const Tensor indices = on_host(part->indices);
        const auto samples = indices.span<int32_t>();
        for (size_t i = 0; i < pixels.size(); ++i) {
          const size_t c = i / plane % C;
          const auto from = static_cast<size_t>(samples[i / (C * plane)]) * C * plane;
          const double m = mean[mean.size() == 1 ? 0 : c], s = std[std.size() == 1 ? 0 : c];
          const double expected = (double(bytes[from + i % (C * plane)]) / 255 - m) / s;
          REQUIRE(std::abs(pixels[i] - expected) <= 4 * 0x1p-24 / s);
        }
      }
    }
  };
  for (const Device lies_on : {Device::cpu, test_device()}) {
    require_normalized(lies_on, mean, std);
    require_normalized(lies_on, mean, {0.25});
    require_normalized(lies_on, {0.5}, std);
  }
  for (const auto& [mean, std] : {std::pair<std::vector<double>, std::vector<double>>{{1, 2}, {1}},
                                  {{1}, {1, 2, 3, 4}},
                                  {{}, {1}}})
    REQUIRE_ERROR(require_normalized(test_device(), mean, std),
                  "expected one number each, or one for each of the 3 channels");
  REQUIRE_ERROR(require_normalized(test_device(), {0}, {1, 0, 1}), "expected finite ones, above 0");
}

}  // namespace accrue::test
