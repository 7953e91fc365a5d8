#include "layers/tiled.h"

#include <algorithm>
#include <vector>

namespace accrue {
namespace {

// A tile's place in rows or columns, and the part of it that is kept.
struct Stretch {
  int64_t begin, end, kept_begin, kept_end;
};

std::vector<Stretch> stretches(int64_t length, int64_t size, int64_t overlap) {
  std::vector<Stretch> all;
  for (int64_t begin = 0;; begin += size - overlap) {
    const int64_t end = std::min(begin + size, length);
    const bool last = end == length;
    all.push_back(
        {begin, end, begin == 0 ? 0 : begin + overlap / 2, last ? length : end - overlap / 2});
    if (last) return all;
  }
}

// Copies [height, width] of each plane from one image's corner to another's, in host tensors
// [N, C, H, W] of one type.
void copy_rectangles(const Tensor& to, int64_t to_top, int64_t to_left, const Tensor& from,
                     int64_t top, int64_t left, int64_t height, int64_t width) {
  const auto element = static_cast<int64_t>(size_of(from.dtype()));
  const auto place = [&](const Tensor& images, int64_t plane, int64_t y, int64_t x) {
    return static_cast<std::byte*>(images.view().data) +
           ((plane * images.size(2) + y) * images.size(3) + x) * element;
  };
  for (int64_t plane = 0; plane < from.size(0) * from.size(1); ++plane)
    for (int64_t y = 0; y < height; ++y)
      std::copy_n(place(from, plane, top + y, left), width * element,
                  place(to, plane, to_top + y, to_left));
}

}  // namespace

Tiled::Tiled(const Module& model, int64_t size, int64_t overlap)
    : model_(model), size_(size), overlap_(overlap) {
  check(0 <= overlap && overlap < size && overlap % 2 == 0,
        "tiles of {} pixels that overlap by {}: expected an even overlap, smaller than a tile",
        size, overlap);
}

Tensor Tiled::forward(Tensor x, const Pass& pass) const {
  check(x.shape().rank() == 4, "tiles of x {}: expected images [N, C, H, W]", x.shape());
  const int64_t H = x.size(2), W = x.size(3);
  if (H <= size_ && W <= size_) return model_(std::move(x), pass);
  const Device device = x.device();
  const auto on_host = [](const Tensor& tensor) {
    return tensor.device() == Device::cpu ? tensor : tensor.to(Device::cpu);
  };
  const Tensor images = on_host(x);
  x = {};
  Tensor y;
  for (const Stretch& rows : stretches(H, size_, overlap_))
    for (const Stretch& columns : stretches(W, size_, overlap_)) {
      const int64_t height = rows.end - rows.begin, width = columns.end - columns.begin;
      Tensor tile = Tensor::empty({images.size(0), images.size(1), height, width}, images.dtype(),
                                  Device::cpu, Category::activations);
      copy_rectangles(tile, 0, 0, images, rows.begin, columns.begin, height, width);
      if (device != Device::cpu) tile = tile.to(device, Category::activations);
      const Tensor answer = on_host(model_(std::move(tile), pass));
      check(answer.shape().rank() == 4 && answer.size(2) == height && answer.size(3) == width,
            "a model in tiles answers {} to images {}x{}: expected images of their size",
            answer.shape(), height, width);
      if (!y.defined())
        y = Tensor::empty({answer.size(0), answer.size(1), H, W}, answer.dtype(), Device::cpu,
                          Category::activations);
      copy_rectangles(y, rows.kept_begin, columns.kept_begin, answer, rows.kept_begin - rows.begin,
                      columns.kept_begin - columns.begin, rows.kept_end - rows.kept_begin,
                      columns.kept_end - columns.kept_begin);
    }
  return device == Device::cpu ? y : y.to(device, Category::activations);
}

std::string Tiled::describe() const {
  return fmt::format("tiles of {} pixels that overlap by {}", size_, overlap_);
}

}  // namespace accrue
