#include "images/tiled_unet.h"

#include <algorithm>
#include <cmath>

#include "core/ceil_div.h"
#include "images/tiled.h"
#include "kernels/crop_or_pad.h"

namespace accrue {
namespace {

// The moments of groups, from the moments of their parts (Chan et al. 1979):
//   mean = sum_p n_p mean_p / n      variance = sum_p n_p (variance_p + (mean_p - mean)^2) / n
class MomentsOfParts {
 public:
  void add(const GroupMoments& part, int64_t elements) {
    const Tensor mean = to_host(part.mean), rstd = to_host(part.rstd);
    dispatch_wide(mean.dtype(), [&]<class T>() {
      means_.resize(mean.span<T>().size());
      squares_.resize(means_.size());
      for (size_t g = 0; g < means_.size(); ++g)
        add(g, double(mean.span<T>()[g]), double(rstd.span<T>()[g]), double(elements));
    });
    elements_ += double(elements);
  }

  GroupMoments moments(DType dtype, Device device) const {
    const Shape shape{static_cast<int64_t>(means_.size())};
    const GroupMoments all{Tensor::empty(shape, dtype, Device::cpu),
                           Tensor::empty(shape, dtype, Device::cpu)};
    dispatch_wide(dtype, [&]<class T>() {
      for (size_t g = 0; g < means_.size(); ++g) {
        all.mean.span<T>()[g] = static_cast<T>(means_[g]);
        all.rstd.span<T>()[g] = static_cast<T>(1 / std::sqrt(squares_[g] / elements_));
      }
    });
    if (device == Device::cpu) return all;
    return {all.mean.to(device, Category::activations), all.rstd.to(device, Category::activations)};
  }

 private:
  void add(size_t group, double mean, double rstd, double elements) {
    const double distance = mean - means_[group], sum = elements_ + elements;
    means_[group] += distance * elements / sum;
    squares_[group] += elements / (rstd * rstd) + distance * distance * elements_ * elements / sum;
  }

  double elements_ = 0;  // of a group
  std::vector<double> means_;
  std::vector<double> squares_;  // sums of squared distances from the mean, plus elements times eps
};

// The tiles of one level's images.
struct Level {
  int64_t H, W;
  std::vector<Tile> tiles;
  Device device;

  // Puts the answers for all tiles together, for images whose sides are divided by `factor`.
  template <class Answer>
  Tensor draw(int64_t factor, Answer&& answer) const {
    Tensor y;
    for (const Tile& tile : tiles)
      paste_own(y, answer(tile), shrunk(tile, factor), H / factor, W / factor);
    return y;
  }

  template <class Answer>
  GroupMoments measure(const GroupNorm& norm, Answer&& answer) const {
    MomentsOfParts sums;
    DType dtype{};
    for (const Tile& tile : tiles) {
      const auto& [rows, columns] = tile;
      const Tensor own =
          crop(answer(tile), rows.own_begin - rows.begin, columns.own_begin - columns.begin,
               rows.own_size(), columns.own_size());
      const GroupMoments moments = norm.moments(own);
      dtype = moments.mean.dtype();
      sums.add(moments, own.numel() / moments.mean.numel());
    }
    return sums.moments(dtype, device);
  }
};

// A block's two halves, run as far as the moments of its norms are known.
struct Block {
  const DoubleConv& layers;
  const Pass& pass;
  std::vector<GroupMoments> known{};

  // Runs from the output of the first convolution to the input of the first norm without moments,
  // or to the end if all have them.
  Tensor run(Tensor h) const {
    for (size_t half = 0; half < known.size(); ++half) {
      if (half > 0) h = layers.convolve(half, std::move(h), pass);
      h = layers.norm(half).normalize(h, known[half], pass);
    }
    return known.size() == 1 ? layers.convolve(1, std::move(h), pass) : h;
  }
  template <class FirstConvolution>
  void measure(const Level& level, FirstConvolution&& first) {
    for (const size_t half : {0, 1})
      known.push_back(
          level.measure(layers.norm(half), [&](const Tile& tile) { return run(first(tile)); }));
  }
};

}  // namespace

TiledUNet::TiledUNet(const UNet& unet, int64_t size) : unet_(unet), size_(size) {
  check(size > overlap && size % 2 == 0,
        "a U-Net in tiles of {} pixels: expected an even number above {}", size, overlap);
}

int64_t TiledUNet::size_at(size_t level) const {
  return std::max(size_ >> level & ~int64_t{1}, std::min<int64_t>(size_, 64));
}

Tensor TiledUNet::forward(Tensor x, const Pass& pass) const {
  check(x.shape().rank() == 4, "a U-Net and images {}: expected [N, C, H, W]", x.shape());
  check(!pass.training(), "a U-Net in tiles answers in evaluation only");
  const NoGrad no_grad;
  const int64_t H = x.size(2), W = x.size(3);
  if (H <= size_ && W <= size_) return unet_(std::move(x), pass);
  const Device device = x.device();
  x = to_host(x);
  const int64_t coarsest = int64_t{1} << (unet_.levels() - 1);
  const int64_t padded_H = round_up(H, coarsest), padded_W = round_up(W, coarsest);
  const bool is_padded = padded_H != H || padded_W != W;
  if (is_padded) x = crop_or_pad(x, padded_H, padded_W);
  x = level(0, std::move(x), device, pass);
  if (is_padded) x = crop_or_pad(x, H, W);
  return device == Device::cpu ? x : x.to(device, Category::activations);
}

Tensor TiledUNet::level(size_t i, Tensor x, Device device, const Pass& pass) const {
  const int64_t H = x.size(2), W = x.size(3);
  const Level level{H, W, tiles_of(H, W, size_at(i), overlap), device};
  const auto answer = [&](Tensor y) {
    return i == 0 ? unet_.head()(std::move(y), pass) : std::move(y);
  };

  Block encoder{unet_.encoder(i), pass};
  const auto encode_first = [&](const Tile& tile) {
    return encoder.layers.convolve(0, cut(x, tile, device), pass);
  };
  encoder.measure(level, encode_first);
  const auto skip = [&](const Tile& tile) { return encoder.run(encode_first(tile)); };
  if (i + 1 == unet_.levels())
    return level.draw(1, [&](const Tile& tile) { return answer(skip(tile)); });

  const Tensor coarse = this->level(
      i + 1, level.draw(2, [&](const Tile& tile) { return max_pool2d(skip(tile), {2}); }), device,
      pass);

  Block decoder{unet_.decoder(i), pass};
  const auto decode_first = [&](const Tile& tile) {
    const Tensor below = cut(coarse, shrunk(tile, 2), device);
    return decoder.layers.convolve_joined({skip(tile), unet_.up(i)(below, pass)}, pass);
  };
  decoder.measure(level, decode_first);
  return level.draw(1, [&](const Tile& tile) { return answer(decoder.run(decode_first(tile))); });
}

std::string TiledUNet::describe() const {
  return fmt::format("a U-Net in tiles of {} pixels", size_);
}

}  // namespace accrue
