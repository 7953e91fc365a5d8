#include "images/augmentation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "data/samples.h"
#include "kernels/judged.h"

namespace accrue {
namespace {

// Keeps these random numbers apart from every other use of the seed.
constexpr uint64_t augmentation_stream = uint64_t{0x6175} << 48;

double number_of(std::string_view text, const std::string& name, double low, double high) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && stop == text.data() + text.size() && low <= value && value <= high,
        "augmentation {}={}: expected a number of {} to {}", name, text, low, high);
  return value;
}

// A pixel of a plane [H, W], at a place that may lie outside.
template <class T>
T at(const T* plane, int64_t H, int64_t W, int64_t y, int64_t x, T outside = 0) {
  return 0 <= y && y < H && 0 <= x && x < W ? plane[y * W + x] : outside;
}

uint8_t mixed(const uint8_t* plane, int64_t H, int64_t W, double y, double x) {
  const double top = std::floor(y), left = std::floor(x), down = y - top, across = x - left;
  const auto t = static_cast<int64_t>(top), l = static_cast<int64_t>(left);
  const double upper = (1 - across) * at(plane, H, W, t, l) + across * at(plane, H, W, t, l + 1);
  const double lower =
      (1 - across) * at(plane, H, W, t + 1, l) + across * at(plane, H, W, t + 1, l + 1);
  return static_cast<uint8_t>((1 - down) * upper + down * lower + 0.5);
}

template <class T>
T nearest(const T* plane, int64_t H, int64_t W, double y, double x, T outside) {
  return at(plane, H, W, static_cast<int64_t>(std::floor(y + 0.5)),
            static_cast<int64_t>(std::floor(x + 0.5)), outside);
}

// planes[c, y, x] = sample(planes[c], the place that (y, x) shows)
template <class T, class Sample>
void move_planes(std::span<T> planes, const Shape& shape, const Augmenting& by, Sample sample) {
  if (std::ranges::equal(by.across, Augmenting{}.across) &&
      std::ranges::equal(by.down, Augmenting{}.down))
    return;
  const int64_t C = shape[1], H = shape[2], W = shape[3];
  const std::vector<T> before(planes.begin(), planes.end());
  T* to = planes.data();
  for (int64_t c = 0; c < C; ++c)
    for (int64_t y = 0; y < H; ++y)
      for (int64_t x = 0; x < W; ++x) {
        const double right = double(x) + 0.5 - double(W) / 2,
                     below = double(y) + 0.5 - double(H) / 2;
        const double from_x = by.across[0] * right + by.across[1] * below +
                              by.across[2] * double(W) + double(W) / 2 - 0.5;
        const double from_y =
            by.down[0] * right + by.down[1] * below + by.down[2] * double(H) + double(H) / 2 - 0.5;
        *to++ = sample(&before[static_cast<size_t>(c * H * W)], H, W, from_y, from_x);
      }
}

void light(std::span<uint8_t> pixels, const Augmenting& by) {
  if (by.brightness == 1 && by.contrast == 1) return;
  const double mean =
      double(std::accumulate(pixels.begin(), pixels.end(), int64_t{0})) / double(pixels.size());
  for (uint8_t& pixel : pixels) {
    const double lit = by.brightness * (mean + by.contrast * (double(pixel) - mean));
    pixel = static_cast<uint8_t>(std::clamp(lit, 0.0, 255.0) + 0.5);
  }
}

}  // namespace

Augmentation detail::parse_augmentation(const std::string& text) {
  Augmentation result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const bool has_number = equals < part.size();
    const auto number = [&](double usual, double low, double high) {
      return has_number ? number_of(std::string_view(part).substr(equals + 1), name, low, high)
                        : usual;
    };
    if (name == "flip" && !has_number) result.flip = true;
    else if (name == "vflip" && !has_number) result.vflip = true;
    else if (name == "rotate") result.rotate = number(10, 0, 180);
    else if (name == "crop") result.crop = number(0.8, 0.01, 1);
    else if (name == "brightness") result.brightness = number(0.2, 0, 1);
    else if (name == "contrast") result.contrast = number(0.2, 0, 1);
    else
      fail(
          "augmentation '{}': expected flip, vflip, rotate[=DEGREES], crop[=PART], "
          "brightness[=PART] or contrast[=PART], with commas between them",
          part);
  }
  return result;
}

// Draws every number, also for changes that the user does not want. So one more change leaves the
// numbers of the others as they are.
Augmenting detail::draw_augmenting(const Augmentation& asked, uint64_t seed, int64_t epoch,
                                   int64_t sample) {
  RandomStream random(seed + mix_bits(static_cast<uint64_t>(epoch) + 1),
                      augmentation_stream + static_cast<uint64_t>(sample));
  const bool is_mirrored = random.uniform() < 0.5f, is_turned_over = random.uniform() < 0.5f;
  const double flip = asked.flip && is_mirrored ? -1 : 1;
  const double vflip = asked.vflip && is_turned_over ? -1 : 1;
  const auto between = [&](double low, double high) {
    return low + (high - low) * double(random.uniform());
  };
  const double angle = between(-asked.rotate, asked.rotate) * std::numbers::pi / 180;
  const double part = between(asked.crop, 1), room = (1 - part) / 2;
  const double right = between(-room, room), below = between(-room, room);
  const double c = asked.rotate > 0 ? std::cos(angle) : 1,
               s = asked.rotate > 0 ? std::sin(angle) : 0;
  Augmenting by{.across = {flip * part * c, -vflip * part * s, right},
                .down = {flip * part * s, vflip * part * c, below},
                .brightness = between(1 - asked.brightness, 1 + asked.brightness),
                .contrast = between(1 - asked.contrast, 1 + asked.contrast)};
  if (asked.crops_anywhere) by.place = {.across = between(0, 1), .down = between(0, 1)};
  return by;
}

DrawChange detail::changes_of(const Augmentation& augmentation) {
  if (!augmentation.is_any()) return nullptr;
  return [augmentation](uint64_t seed, int64_t epoch, int64_t sample) -> SampleChange {
    const Augmenting by = draw_augmenting(augmentation, seed, epoch, sample);
    return {by.place, [by](std::span<std::byte> row, const Field& field) {
              augment_row(row, field.encoding, field.values.shape(), by,
                          field.unjudged_value ? not_judged : 0);
            }};
  };
}

void detail::augment_row(std::span<std::byte> row, Encoding encoding, const Shape& shape,
                         const Augmenting& by, int32_t outside) {
  if (shape.rank() != 4) return;
  const auto nearest_or = [](auto outside) {
    return [=](const auto* plane, int64_t H, int64_t W, double y, double x) {
      return nearest(plane, H, W, y, x, outside);
    };
  };
  switch (encoding) {
    case Encoding::pixel:
      move_planes(elements_of<uint8_t>(row), shape, by, mixed);
      return light(elements_of<uint8_t>(row), by);
    case Encoding::mask:
      return move_planes(elements_of<uint8_t>(row), shape, by, nearest_or(uint8_t{0}));
    case Encoding::index:
      return move_planes(elements_of<int32_t>(row), shape, by, nearest_or(outside));
    case Encoding::weight:
    case Encoding::number: break;
  }
}

}  // namespace accrue
