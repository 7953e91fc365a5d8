#include "images/image_tensor.h"

#include <array>
#include <vector>

#include "core/inside.h"

namespace accrue {

Tensor image_tensor(const Image& image, const Normalization& normalization, DType dtype,
                    Device device) {
  const Shape shape{1, image.channels, image.height, image.width};
  check(shape.numel() > 0, "an image of {} has no pixels: expected some", shape);
  check_normalization(normalization, shape, "[image_tensor] mean");
  const Tensor pixels = Tensor::from(image.pixels, shape),
               x = Tensor::empty(shape, dtype, Device::cpu);
  const std::array fields{FieldViews{.encoding = Encoding::pixel,
                                     .out = x.view(),
                                     .all = pixels.view(),
                                     .normalization = normalization}};
  gather_samples(fields, {}, Tensor::from(std::vector<int32_t>{0}, {1}).view());
  return device == Device::cpu ? x : x.to(device);
}

}  // namespace accrue
