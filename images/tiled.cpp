#include "images/tiled.h"

#include <algorithm>

namespace accrue {
namespace {

std::vector<Stretch> stretches_of(int64_t length, int64_t size, int64_t overlap) {
  std::vector<Stretch> all;
  for (int64_t begin = 0;; begin += size - overlap) {
    const int64_t end = std::min(begin + size, length);
    const bool last = end == length;
    all.push_back(
        {begin, end, begin == 0 ? 0 : begin + overlap / 2, last ? length : end - overlap / 2});
    if (last) return all;
  }
}

Stretch shrunk(const Stretch& at, int64_t factor) {
  return {at.begin / factor, at.end / factor, at.own_begin / factor, at.own_end / factor};
}

struct Place {
  const Tensor& images;
  int64_t top, left;

  std::byte* row(int64_t plane, int64_t y) const {
    const Shape& shape = images.shape();
    return static_cast<std::byte*>(images.view().data) +
           ((plane * shape[2] + top + y) * shape[3] + left) *
               static_cast<int64_t>(size_of(images.dtype()));
  }
};

// Copies height x width of each plane between host tensors [N, C, H, W] of one type.
void copy_rectangles(const Place& to, const Place& from, int64_t height, int64_t width) {
  const int64_t bytes = width * static_cast<int64_t>(size_of(from.images.dtype()));
  for (int64_t plane = 0; plane < from.images.shape().numel(0, 2); ++plane)
    for (int64_t y = 0; y < height; ++y) std::copy_n(from.row(plane, y), bytes, to.row(plane, y));
}

}  // namespace

std::vector<Tile> tiles_of(int64_t H, int64_t W, int64_t size, int64_t overlap) {
  std::vector<Tile> all;
  for (const Stretch& rows : stretches_of(H, size, overlap))
    for (const Stretch& columns : stretches_of(W, size, overlap)) all.push_back({rows, columns});
  return all;
}

Tile shrunk(const Tile& tile, int64_t factor) {
  return {shrunk(tile.rows, factor), shrunk(tile.columns, factor)};
}

Tensor to_host(const Tensor& x) { return x.device() == Device::cpu ? x : x.to(Device::cpu); }

Tensor cut(const Tensor& images, const Tile& tile, Device device) {
  const auto& [rows, columns] = tile;
  const Tensor part = Tensor::empty({images.size(0), images.size(1), rows.size(), columns.size()},
                                    images.dtype(), Device::cpu);
  copy_rectangles({part, 0, 0}, {images, rows.begin, columns.begin}, rows.size(), columns.size());
  return device == Device::cpu ? part : part.to(device, Category::activations);
}

void paste_own(Tensor& images, const Tensor& answer, const Tile& tile, int64_t H, int64_t W) {
  const auto& [rows, columns] = tile;
  const Tensor part = to_host(answer);
  if (!images.defined())
    images = Tensor::empty({part.size(0), part.size(1), H, W}, part.dtype(), Device::cpu);
  copy_rectangles({images, rows.own_begin, columns.own_begin},
                  {part, rows.own_begin - rows.begin, columns.own_begin - columns.begin},
                  rows.own_size(), columns.own_size());
}

Tiled::Tiled(const Layer& model, int64_t size, int64_t overlap)
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
  const Tensor images = to_host(x);
  x = {};
  Tensor y;
  for (const Tile& tile : tiles_of(H, W, size_, overlap_)) {
    const Tensor answer = model_(cut(images, tile, device), pass);
    const int64_t height = tile.rows.size(), width = tile.columns.size();
    check(answer.shape().rank() == 4 && answer.size(2) == height && answer.size(3) == width,
          "a model in tiles answers {} to images {}x{}: expected images of their size",
          answer.shape(), height, width);
    paste_own(y, answer, tile, H, W);
  }
  return device == Device::cpu ? y : y.to(device, Category::activations);
}

std::string Tiled::describe() const {
  return fmt::format("tiles of {} pixels that overlap by {}", size_, overlap_);
}

}  // namespace accrue
