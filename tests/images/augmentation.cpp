// Augmentation: how it changes pixels and masks. Only the seed, the epoch and the sample decide it.

#include "images/augmentation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "data/loader.h"
#include "data/samples.h"
#include "images/shapes.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

using Row = std::vector<uint8_t>;

Row augmented(Row row, const Shape& shape, const Augmenting& by,
              Encoding encoding = Encoding::pixel) {
  augment_row(std::as_writable_bytes(std::span(row)), encoding, shape, by);
  return row;
}

// The pixels of every sample of an epoch, from a given window on.
std::map<int32_t, std::vector<double>> seen(const Dataset& data, LoaderOptions options,
                                            int64_t epoch, int64_t window = 0) {
  options.effective_batch_size = 20;
  options.seed = 4;
  options.device = test_device();
  Loader loader(data, options);
  loader.start_epoch(epoch, window);
  std::map<int32_t, std::vector<double>> all;
  while (const MicroBatch* part = loader.next()) {
    const Tensor indices = on_host(part->indices);
    for (int64_t k = 0; k < part->size(); ++k)
      for (const char* field : {"images", "masks"}) {
        const Tensor row = on_host((*part)[field]).slice(k, k + 1);
        auto& values = all[indices.span<int32_t>()[static_cast<size_t>(k)]];
        if (row.dtype() == DType::i32)
          std::ranges::copy(row.span<int32_t>(), std::back_inserter(values));
        else std::ranges::copy(to_doubles(row), std::back_inserter(values));
      }
  }
  return all;
}

}  // namespace

TEST_CASE("images are mirrored, turned and moved", "[data]") {
  const Shape shape{1, 1, 3, 3}, wide{1, 2, 1, 3};
  const Row image{10, 20, 30, 40, 50, 60, 70, 80, 90};
  REQUIRE(augmented(image, shape, {}) == image);
  const Augmenting mirror{.across = {-1, 0, 0}}, over{.down = {0, -1, 0}};
  const Augmenting quarter{.across = {0, 1, 0}, .down = {-1, 0, 0}};
  for (const Encoding encoding : {Encoding::pixel, Encoding::mask}) {
    REQUIRE(augmented(image, shape, mirror, encoding) == Row{30, 20, 10, 60, 50, 40, 90, 80, 70});
    REQUIRE(augmented(image, shape, over, encoding) == Row{70, 80, 90, 40, 50, 60, 10, 20, 30});
    // Output (x, y) shows (y, -x): clockwise, in a system whose y goes down.
    REQUIRE(augmented(image, shape, quarter, encoding) == Row{70, 40, 10, 80, 50, 20, 90, 60, 30});
    // Outside of the image everything is black.
    REQUIRE(augmented(image, shape, {.across = {1, 0, 1.0 / 3}}, encoding) ==
            Row{20, 30, 0, 50, 60, 0, 80, 90, 0});
  }
  REQUIRE(augmented({1, 2, 3, 4, 5, 6}, wide, mirror) == Row{3, 2, 1, 6, 5, 4});
  // Half a pixel to the side: an image takes the mean of two pixels, a mask the nearest one.
  const Augmenting half{.across = {1, 0, 0.5 / 3}};
  REQUIRE(augmented({10, 20, 30, 4, 5, 7}, wide, half) == Row{15, 25, 15, 5, 6, 4});
  REQUIRE(augmented({10, 20, 30, 4, 5, 7}, wide, half, Encoding::mask) == Row{20, 30, 0, 5, 7, 0});
  std::vector<int32_t> classes{7, 8, 9};
  augment_row(std::as_writable_bytes(std::span(classes)), Encoding::index, {1, 1, 1, 3}, mirror);
  REQUIRE(classes == std::vector<int32_t>{9, 8, 7});
  augment_row(std::as_writable_bytes(std::span(classes)), Encoding::index, {1, 3}, mirror);
  REQUIRE(classes == std::vector<int32_t>{9, 8, 7});
  // If a mask can have pixels that are not judged, pixels outside of it are not judged.
  augment_row(std::as_writable_bytes(std::span(classes)), Encoding::index, {1, 1, 1, 3},
              {.across = {1, 0, 1.0 / 3}}, -1);
  REQUIRE(classes == std::vector<int32_t>{8, 7, -1});
}

TEST_CASE("pixels become brighter and more contrasted, masks do not", "[data]") {
  const Shape shape{1, 1, 1, 3};
  REQUIRE(augmented({10, 100, 220}, shape, {.brightness = 1.5}) == Row{15, 150, 255});
  // Contrast scales around the mean, 110.
  REQUIRE(augmented({10, 100, 220}, shape, {.contrast = 1.5}) == Row{0, 95, 255});
  REQUIRE(augmented({10, 100, 220}, shape, {.contrast = 0.5}) == Row{60, 105, 165});
  REQUIRE(augmented({0, 255, 0}, shape, {.brightness = 0.5}, Encoding::mask) == Row{0, 255, 0});
}

TEST_CASE("a sample's augmentation is within the ranges and depends on the sample", "[data]") {
  const Augmentation wish =
      parse_augmentation("flip,vflip,rotate=30,crop=0.6,brightness=0.3,contrast=0.4");
  constexpr int draws = 4000;
  int mirrored = 0, over = 0;
  double least_part = 1, most_angle = 0, least_light = 2, most_light = 0;
  for (int n = 0; n < draws; ++n) {
    const Augmenting by = draw_augmenting(wish, 1, 0, n);
    const double part = std::hypot(by.across[0], by.down[0]);
    const double turn = by.across[0] * by.down[1] - by.across[1] * by.down[0];
    mirrored += by.across[0] < 0;
    over += by.down[1] < 0;
    REQUIRE((turn < 0) == ((by.across[0] < 0) != (by.down[1] < 0)));
    REQUIRE(std::abs(by.across[2]) <= (1 - part) / 2 + 1e-9);
    REQUIRE(std::abs(by.down[2]) <= (1 - part) / 2 + 1e-9);
    REQUIRE(part <= 1 + 1e-9);
    least_part = std::min(least_part, part);
    most_angle = std::max(most_angle, std::abs(std::asin(std::clamp(by.down[0] / part, -1., 1.))));
    least_light = std::min(least_light, by.brightness);
    most_light = std::max(most_light, by.brightness);
    REQUIRE(std::abs(by.contrast - 1) <= 0.4);
  }
  // Five standard deviations of a fair coin.
  REQUIRE(std::abs(mirrored - draws / 2) < 5 * std::sqrt(draws) / 2);
  REQUIRE(std::abs(over - draws / 2) < 5 * std::sqrt(draws) / 2);
  // The probability that none of 4000 draws is in the last hundredth of a range is e^-40.
  REQUIRE((least_part >= 0.6 && least_part < 0.604));
  REQUIRE((most_angle < 0.5236 && most_angle > 0.5236 * 0.99));
  REQUIRE((least_light >= 0.7 && least_light < 0.706));
  REQUIRE((most_light < 1.3 && most_light > 1.294));
  // Without one of the options, the others stay the same.
  const Augmenting all = draw_augmenting(wish, 3, 2, 17),
                   less = draw_augmenting(parse_augmentation("brightness=0.3"), 3, 2, 17);
  REQUIRE(all.brightness == less.brightness);
  REQUIRE(all.brightness != draw_augmenting(wish, 3, 3, 17).brightness);
  REQUIRE(all.brightness != draw_augmenting(wish, 4, 2, 17).brightness);
}

TEST_CASE("neither split nor threads nor resumption change what is augmented", "[data]") {
  Dataset data = make_shapes(Split::test, {.test_size = 60});
  const auto plain = seen(data, {.micro_batch_size = 7}, 1);
  data.augmentation = changes_of(parse_augmentation("flip,rotate,crop,brightness"));
  REQUIRE(seen(data, {.micro_batch_size = 7}, 1) == plain);  // as for scores
  const auto first = seen(data, {.micro_batch_size = 7, .augment = Augment::yes}, 1);
  REQUIRE(first.size() == 60);
  REQUIRE(first != plain);
  REQUIRE(first != seen(data, {.micro_batch_size = 7, .augment = Augment::yes}, 2));
  // It depends on the sample, and not on its place in the order.
  REQUIRE(first ==
          seen(data, {.micro_batch_size = 7, .shuffle = Shuffle::off, .augment = Augment::yes}, 1));
  for (const int threads : {1, 3})
    for (const int64_t m : {1, 20})
      for (const int64_t window : {0, 2}) {
        const ThreadScope use(threads);
        const auto again = seen(data, {.micro_batch_size = m, .augment = Augment::yes}, 1, window);
        REQUIRE(again.size() == size_t(60 - 20 * window));
        for (const auto& [sample, pixels] : again) REQUIRE(pixels == first.at(sample));
      }
}

TEST_CASE("crops lie anywhere in training and in the middle elsewhere", "[data]") {
  // The value of a pixel, and the class in a mask, tell its place.
  constexpr int64_t N = 60, H = 9, W = 12, h = 4, w = 7;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> classes;
  for (int64_t i = 0; i < N * H * W; ++i) {
    pixels.push_back(static_cast<uint8_t>(i % (H * W)));
    classes.push_back(static_cast<int32_t>(i % (H * W)));
  }
  Dataset data{"places", "a test"};
  data.fields = {{.name = "images",
                  .values = Tensor::from(pixels, {N, 1, H, W}),
                  .encoding = Encoding::pixel,
                  .normalization = {.mean = {0}, .std = {1.0 / 255}}},
                 {.name = "masks",
                  .values = Tensor::from(classes, {N, 1, H, W}),
                  .encoding = Encoding::index,
                  .classes = H * W}};
  data.crop_to({h, w});
  data.augmentation = changes_of({.crops_anywhere = true});
  REQUIRE(data.field("images").shape_of(3) == Shape{3, 1, h, w});
  REQUIRE(data.is_streamed());

  const auto place_of = [&](const std::vector<double>& both) {
    const auto first = static_cast<int64_t>(both.front() + 0.5);
    for (int64_t i = 0; i < h * w; ++i) {
      const double expected = double(first + i / w * W + i % w);
      REQUIRE(both[static_cast<size_t>(i)] == Approx(expected).margin(1e-3));
      REQUIRE(both[static_cast<size_t>(h * w + i)] == expected);  // of the mask
    }
    return std::pair{first / W, first % W};
  };
  for (const auto& [sample, both] : seen(data, {.micro_batch_size = 7}, 0))
    REQUIRE(place_of(both) == std::pair<int64_t, int64_t>{(H - h + 1) / 2, (W - w + 1) / 2});
  std::map<int64_t, int> tops, lefts;
  const LoaderOptions training{.micro_batch_size = 7, .augment = Augment::yes};
  const auto epoch = seen(data, training, 0);
  for (const auto& [sample, both] : epoch) {
    const auto [top, left] = place_of(both);
    ++tops[top], ++lefts[left];
  }
  REQUIRE((tops.size() == H - h + 1 && tops.begin()->first == 0));
  REQUIRE((lefts.size() == W - w + 1 && lefts.begin()->first == 0));
  REQUIRE(epoch != seen(data, training, 1));
  Dataset numbers{"numbers", "a test"};
  numbers.fields = {{.name = "images",
                     .values = Tensor::full({2, 9}, 0, DType::f32, Device::cpu),
                     .encoding = Encoding::number}};
  REQUIRE_ERROR(numbers.crop_to({h, w}), "'numbers', whose images are [2, 9]: expected images");
  REQUIRE_ERROR(
      numbers.check_pixels("--augment flip"),
      "--augment flip acts on pixels, but the images of data set 'numbers' are f32 [2, 9]");
  // They are the same if they are read on demand, by other threads and in other micro-batches.
  for (Field& field : data.fields) {
    const Tensor held = std::exchange(
        field.values,
        Tensor::without_elements(field.values.shape(), field.values.dtype(), Device::cpu));
    field.read = [held](std::span<std::byte> row, int64_t n) {
      std::ranges::copy(row_of(held, n), row.begin());
    };
  }
  const ThreadScope use(3);
  REQUIRE(seen(data, {.micro_batch_size = 20, .augment = Augment::yes}, 0) == epoch);
  const auto rest = seen(data, training, 0, 1);
  REQUIRE(rest.size() == N - 20);
  for (const auto& [sample, both] : rest) REQUIRE(both == epoch.at(sample));
  REQUIRE_ERROR(data.crop_to({h, W + 1}), "a crop of 4x13 from the images of data set 'places'");
}

TEST_CASE("crops are augmented like images", "[data]") {
  Dataset data = make_shapes(Split::test, {.test_size = 20});
  data.crop_to({10, 16});
  data.augmentation = changes_of({.crops_anywhere = true});
  const LoaderOptions training{.micro_batch_size = 7, .augment = Augment::yes};
  const auto crops = seen(data, training, 0);
  data.augmentation = changes_of({.flip = true, .crops_anywhere = true});
  int same = 0, mirrored = 0;
  for (const auto& [sample, pixels] : seen(data, training, 0)) {
    std::vector<double> turned = crops.at(sample);
    for (auto row = turned.begin(); row != turned.end(); row += 16) std::reverse(row, row + 16);
    same += pixels == crops.at(sample);
    mirrored += pixels == turned;
  }
  REQUIRE(same + mirrored >= 20);
  REQUIRE((same > 0 && mirrored > 0));
}

TEST_CASE("augmentations are named", "[data]") {
  REQUIRE(!parse_augmentation("").is_any());
  const Augmentation wish = parse_augmentation("rotate,crop=0.5,contrast=0.3,flip");
  REQUIRE(wish == Augmentation{.flip = true, .rotate = 10, .crop = 0.5, .contrast = 0.3});
  REQUIRE_ERROR(parse_augmentation("flop"), "augmentation 'flop': expected flip, vflip");
  REQUIRE_ERROR(parse_augmentation("flip=1"), "'flip=1'");
  REQUIRE_ERROR(parse_augmentation("flip,,vflip"), "augmentation ''");
  REQUIRE_ERROR(parse_augmentation("crop=0"), "crop=0: expected a number of 0.01 to 1");
  REQUIRE_ERROR(parse_augmentation("rotate=x"), "rotate=x: expected a number of 0 to 180");
  REQUIRE_ERROR(parse_augmentation("rotate=nan"), "rotate=nan: expected");
}

}  // namespace accrue::test
