#include "core/inside.h"
#include "onnx/reader/conversion.h"

namespace accrue {

const OnnxConverters& detail::onnx_converters() {
  static const OnnxConverters all = [] {
    OnnxConverters found;
    for (const auto add :
         {add_onnx_network_conversions, add_onnx_elementwise_conversions,
          add_onnx_shape_conversions, add_onnx_gather_conversions, add_onnx_reduction_conversions,
          add_onnx_image_conversions, add_onnx_recurrent_conversions, add_onnx_layer_conversions,
          add_onnx_attention_conversions})
      add(found);
    return found;
  }();
  return all;
}

}  // namespace accrue
