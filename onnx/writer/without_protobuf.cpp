#include "core/error.h"
#include "core/inside.h"
#include "onnx/writer/onnx.h"

namespace accrue {

std::string onnx_of(const ExampleOf&, const Parameters&, const Metadata&,
                    const std::optional<Normalization>&) {
  fail(
      "an ONNX file is written with protobuf, without which accrue was built: install the packages "
      "libprotobuf-dev and protobuf-compiler (scripts/setup.sh does) and build again");
}

}  // namespace accrue
