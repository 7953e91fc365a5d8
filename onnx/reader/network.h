#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/parameters.h"
#include "layers/graph.h"
#include "onnx/reader/file.h"

namespace accrue::detail {

// How a file becomes a network.
struct OnnxReading {
  // Floating-point constants that are trained although no weight slot holds them.
  std::set<std::string> train{};
  // Sizes of one sample of inputs whose sizes the file leaves free, by the inputs' names, such as
  // the height and width of images.
  std::map<std::string, Shape> samples{};
  // The outputs that are wanted; empty: all.
  std::vector<std::string> outputs{};
};

// A network that an ONNX file describes, whose gradients are exact: its calls are a Graph's.
// The file is parsed once; make() makes as many models of it as plans need, which share the file,
// and load() gives a placed model the file's values.
//
// The number of samples is the first size of every input. It is free, also where the file says a
// number: then constant shapes that begin with this number begin with N.
//
// What Conv, ConvTranspose, Gemm, MatMul, Gather of a constant (an embedding), the normalizations,
// PRelu and the recurrent layers hold in their weight slots is trained, and so is a bias that an
// Add gives to a convolution or product. Other constants are listed in `constants`.
class OnnxNetwork {
 public:
  struct Input {
    std::string name;
    std::vector<std::optional<int64_t>> sizes;  // of one sample; none: free, and not given yet
    DType dtype;                                // f32, or i32 for integers and truth values
    // Whether the network calculates with the integers, or compares them: expected 0 or 1.
    bool is_truth = false;
  };
  struct Weight {
    std::string name;  // the initializer's
    Shape shape;
    bool is_buffer = false;  // running statistics
  };

  // Throws Error that names the node and what to do for a file that cannot be trained.
  OnnxNetwork(std::shared_ptr<const OnnxFile> file, OnnxReading reading = {});
  ~OnnxNetwork();

  const OnnxFile& file() const;
  const std::vector<Input>& inputs() const;
  const std::vector<std::string>& outputs() const;
  // The output's sizes for one sample.
  Shape output_shape(const std::string& name) const;
  const std::vector<Weight>& weights() const;
  // Floating-point initializers that no weight slot holds, and which `train` may name.
  const std::vector<std::string>& constants() const;
  // Sentences for the user: batch norms that were fused away, dropout that is gone, and how to
  // export for training.
  const std::vector<std::string>& notes() const;
  // The number of calls that the network makes.
  size_t calls() const;

  // A model, without values until it is placed and load() is called.
  std::unique_ptr<Graph> make() const;
  // The file's values of these parameters and buffers, by their names, and their rounded copies.
  void load(const Parameters& parameters) const;
  // The original file with the values of `parameters` in place of its initializers'.
  std::string with(const Parameters& parameters) const;

 private:
  struct Content;
  std::unique_ptr<const Content> content_;
};

}  // namespace accrue::detail
