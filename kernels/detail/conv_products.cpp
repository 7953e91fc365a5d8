#include "kernels/detail/conv_products.h"

#include "kernels/backend.h"
#include "kernels/convolutions.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/winograd.h"
#include "kernels/detail/conv_cudnn.h"

namespace accrue {
namespace {

// The packed form of the filters for a product of N images: the one that their parameter keeps, if
// it keeps one, else a new one. Undefined if the product reads the filters as they lie.
Tensor packed_weights(const Filters& filters, Direction direction, const ConvGeometry& g,
                      int64_t N) {
  const View& w = filters.w;
  if (is_16_bit_dtype(w.dtype) || plans_for_cuda(w.device) || !cpu::winograd_pays(direction, g))
    return {};
  const auto make = [&] {
    const Tensor packed = Tensor::empty(
        {dispatch_wide(w.dtype, [&]<class T>() { return cpu::winograd_weights<T>(direction, g); })},
        w.dtype, w.device, Category::workspace);
    launch<cpu::pack_weights, cuda::pack_weights>(w.device, packed.view(), w, direction, g);
    return packed;
  };
  PackedForms* const own = filters.parameter ? filters.parameter->packed.get() : nullptr;
  if (!own || (own->keep() == Pack::where_it_pays && !cpu::winograd_packing_pays(direction, g, N)))
    return make();
  // Each part of the channels has a separate form for each direction.
  const auto at = reinterpret_cast<intptr_t>(w.data);
  return own->form(direction == Direction::gather ? at : ~at, make);
}

Tensor workspace_of(ConvolutionProduct product, const ConvGeometry& g, const View& x) {
  return conv_workspace({product, g, x.shape[0], x.dtype}, x.device);
}

}  // namespace

bool correlates_by_winograd(const ConvGeometry& g, const View& grid) {
  return !is_16_bit_dtype(grid.dtype) && !plans_for_cuda(grid.device) &&
         cpu::winograd_correlate_pays(g, grid.shape[0]);
}

Tensor conv_workspace(const Convolution& c, Device device) {
  ConvolutionTrace::note(c);
  const auto& [product, g, N, dtype] = c;
  const bool correlates = product == ConvolutionProduct::backward_filter;
  const Direction direction =
      product == ConvolutionProduct::forward ? Direction::gather : Direction::scatter;
  const int64_t bytes = plans_for_cuda(device)
                            ? (correlates ? cuda::correlate_workspace_bytes(g, N, dtype)
                                          : cuda::workspace_bytes(g, N, dtype))
                        : correlates ? cpu::correlate_bytes(g, N, dtype)
                                     : cpu::multiply_bytes(direction, g, N, dtype);
  return Tensor::empty({bytes}, DType::u8, device, Category::workspace);
}

void gather(GradTarget grid, const View& image, const Filters& w, const View& b,
            Activation activation, const ConvGeometry& g) {
  const Tensor packed = packed_weights(w, Direction::gather, g, image.shape[0]);
  launch<cpu::conv_gather, cuda::conv_gather>(
      image.device, grid, image, ConvWeights(w.w, packed), b, activation, g,
      workspace_of(ConvolutionProduct::forward, g, image).view());
}

void scatter(GradTarget image, const View& grid, const Filters& w, const View& b,
             const ConvGeometry& g) {
  const Tensor packed = packed_weights(w, Direction::scatter, g, grid.shape[0]);
  launch<cpu::conv_scatter, cuda::conv_scatter>(
      grid.device, image, grid, ConvWeights(w.w, packed), b, g,
      workspace_of(ConvolutionProduct::backward_data, g, grid).view());
}

void correlate(GradTarget w, const View& grid, const View& image, const ConvGeometry& g) {
  launch<cpu::conv_correlate, cuda::conv_correlate>(
      grid.device, w, grid, image, g,
      workspace_of(ConvolutionProduct::backward_filter, g, grid).view());
}

}  // namespace accrue
