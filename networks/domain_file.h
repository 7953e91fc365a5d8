#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/sample_spec.h"
#include "onnx/reader/network.h"

namespace accrue::detail {

// "'images' float32 [batch, 3, 224, 224]"
std::string described(const OnnxValueInfo& value);

// An ONNX file that is trained as a network of one input and one output. It is parsed once for all
// the models that a plan makes.
class NetworkFile {
 public:
  // How the file becomes a network.
  struct Choice {
    std::vector<std::string> trained;  // constants that are trained
    std::string output;                // empty: the only one
    // A last op of one of these names is left out, because the loss takes what comes before it.
    std::set<std::string> left_out;
    Shape sample;  // of the input

    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // Throws Error as OnnxFile::read() does.
  explicit NetworkFile(const std::filesystem::path& path);

  const OnnxFile& file() const { return *file_; }
  std::string name() const { return file_->path.string(); }
  // A checksum of all bytes of the file, and their number.
  const std::string& checksum() const { return checksum_; }

  // The input. Throws Error unless there is one, of a known number of sizes.
  const OnnxValueInfo& input() const;
  // The output of this name; without a name the only one. Throws Error, with the names that there
  // are.
  const OnnxValueInfo& output(const std::string& name) const;
  // Images [C, H, W] or features, and labels, masks or targets, by the numbers of sizes that the
  // first input and this output have. Free sizes are examples.
  SampleSpec sample(const std::string& output) const;
  // Throws Error, with what to do, unless the file takes samples of this shape.
  void check_takes(const Shape& sample, const std::string& whose) const;
  // The height and width of images, if the file says both.
  std::optional<std::string> image_size() const;

  // The name of the last op of this output, before nodes that only hand it on: "Softmax". Empty if
  // the output is an input, or if the op's axis is not the classes'.
  std::string last_op(const std::string& output) const;
  // The network. The last one is kept. Throws Error as OnnxNetwork does.
  std::shared_ptr<const OnnxNetwork> network(const Choice& choice) const;
  // A network of all inputs and outputs, as the file has them.
  std::shared_ptr<const OnnxNetwork> whole(const std::vector<std::string>& trained) const;
  // The shape of the answer to one sample.
  Shape answer(const Choice& choice) const;

 private:
  // The name of the value that answers: the output, or what its last op takes.
  std::string answer_of(const Choice& choice) const;

  std::shared_ptr<const OnnxFile> file_;
  std::string checksum_;
  mutable std::mutex mutex_;
  mutable std::optional<Choice> choice_;
  mutable std::shared_ptr<const OnnxNetwork> network_;
};

}  // namespace accrue::detail
