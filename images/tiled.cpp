#include "images/tiled.h"

#include "images/tiles.h"

namespace accrue {

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
