#include "images/mask_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/inside.h"

namespace accrue {

void MaskValues::add(const Image& mask) {
  std::array<int64_t, 256> pixels{};
  for (const uint8_t value : mask.pixels) ++pixels[value];
  for (size_t v = 0; v < counts_.size(); ++v) counts_[v].pixels += pixels[v];
  // A mask of a few values, as most are, has no smoothed edges.
  if (std::ranges::count(pixels, 0) >= 256 - 3) return;
  const int64_t H = mask.height, W = mask.width;
  const uint8_t* pixel = mask.pixels.data();
  for (int64_t y = 0; y < H; ++y)
    for (int64_t x = 0; x < W; ++x, ++pixel) {
      const uint8_t value = *pixel;
      const std::array<uint8_t, 4> around{y > 0 ? pixel[-W] : value, y + 1 < H ? pixel[W] : value,
                                          x > 0 ? pixel[-1] : value, x + 1 < W ? pixel[1] : value};
      const auto [smallest, largest] = std::ranges::minmax(around);
      counts_[value].between += smallest < value && value < largest;
      counts_[value].alone += std::ranges::count(around, value) < 2;
    }
}

void MaskValues::add(const MaskValues& others) {
  for (size_t v = 0; v < counts_.size(); ++v) {
    counts_[v].pixels += others.counts_[v].pixels;
    counts_[v].between += others.counts_[v].between;
    counts_[v].alone += others.counts_[v].alone;
  }
}

std::vector<int> MaskValues::all(int unjudged) const {
  std::vector<int> values;
  for (int v = 0; v < 256; ++v)
    if (counts_[static_cast<size_t>(v)].pixels > 0 && v != unjudged) values.push_back(v);
  return values;
}

// Most pixels of a region are inside it. A class may really have single pixels, but hardly where
// one class changes into another.
std::string MaskValues::smoothed(int unjudged) const {
  constexpr size_t least_of_edges = 2, least_of_all = 8;
  const std::vector<int> values = all(unjudged);
  std::vector<int> of_edges, without_region;
  for (const int v : values) {
    const auto& [pixels, between, alone] = counts_[static_cast<size_t>(v)];
    if (2 * between >= pixels) of_edges.push_back(v);
    if (2 * between >= pixels || 2 * alone >= pixels) without_region.push_back(v);
  }
  const auto pixels_of = [&](const std::vector<int>& some) {
    int64_t pixels = 0;
    for (const int v : some) pixels += counts_[static_cast<size_t>(v)].pixels;
    return pixels;
  };
  for (const auto& [some, least] :
       {std::pair(of_edges, least_of_edges), std::pair(without_region, least_of_all)}) {
    const int64_t pixels = pixels_of(some), of_all = pixels_of(values);
    if (some.size() < least || 2 * some.size() < values.size() || 3 * pixels > of_all) continue;
    const std::vector<int> shown(some.begin(), some.begin() + std::min(std::ssize(some), 3L));
    return fmt::format(
        "have {} values, of which {} ({}{}) have no regions of their own, on {:.2g} % of the "
        "pixels, as smoothed edges (antialiasing) and JPEG leave them",
        values.size(), some.size(), fmt::join(shown, ", "),
        shown.size() < some.size() ? ", ..." : "", 100 * double(pixels) / double(of_all));
  }
  return {};
}

}  // namespace accrue
