#include "core/error.h"
#include "core/inside.h"
#include "onnx/reader/file.h"

namespace accrue {
namespace {

[[noreturn]] void fail_without_protobuf() {
  fail(
      "an ONNX file is read with protobuf, without which accrue was built: install the packages "
      "libprotobuf-dev and protobuf-compiler (scripts/setup.sh does) and build again");
}

}  // namespace

std::shared_ptr<const OnnxFile> OnnxFile::read(const std::filesystem::path&) {
  fail_without_protobuf();
}

std::string detail::with_initializers(const std::filesystem::path&,
                                      const std::map<std::string, std::vector<double>>&) {
  fail_without_protobuf();
}

}  // namespace accrue
