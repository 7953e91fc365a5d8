#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "onnx/reader/conversion.h"

namespace accrue::detail {

// The calls that the network of a file makes, from which as many Graphs are made as plans need.
class OnnxRecipe {
 public:
  struct Held {
    std::string name;
    Shape shape;
    bool is_buffer = false;
  };

  // `fixed_samples` is the number of samples that the file says, if it says one.
  OnnxRecipe(int64_t opset, std::optional<int64_t> fixed_samples)
      : opset(opset), fixed_samples(fixed_samples) {}

  const int64_t opset;
  const std::optional<int64_t> fixed_samples;

  OnnxValue input(const std::string& name, OnnxType type, ValueSizes sizes);
  // A weight or running statistics by the initializer's name, the same value each time.
  OnnxValue held(const OnnxTensor& initializer, bool is_buffer);
  // The constant as a value of the network. Throws Error if it depends on the number of samples in
  // another way than by repetition for each sample.
  OnnxValue tensor(const OnnxValue& constant);
  // Throws Error for sizes that do not fit, and for results with the samples in two dimensions.
  OnnxValues call(std::string_view op, const OnnxValues& operands, size_t results,
                  const Graph::Attributes& attributes, const std::string& scope);
  void output(const OnnxValue& value, const std::string& name);
  void note(const std::string& sentence);

  // Drops the steps that no output needs.
  void prune();
  std::unique_ptr<Graph> make() const;
  std::vector<Held> weights() const;  // and buffers, in the order of their first use
  // Inputs of integers that must be 0 or 1, because they become numbers by
  // OnnxConversion::as_numbers.
  std::set<std::string> truths() const;
  size_t calls() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Step {
    std::string name{};          // an input's, held one's or constant's; a call's scope
    std::optional<Held> held{};  // or
    std::shared_ptr<const std::vector<double>> numbers{};  // a constant's, or
    const GraphOp* op = nullptr;                           // none of the three: an input
    Shape shape{};                                         // a constant's
    DType dtype = DType::f32;                              // a constant's
    Graph::Attributes attributes{};
    std::vector<size_t> operands{}, results{};
    double weight = 1;  // see Graph::weigh()
  };

  OnnxValue added(Step step, OnnxType type, ValueSizes sizes);

  std::vector<Step> steps_;
  size_t values_ = 0;
  std::map<std::string, OnnxValue> held_;
  std::map<const OnnxConstant*, OnnxValue> tensors_;
  std::vector<std::shared_ptr<const OnnxConstant>> kept_;  // the keys of tensors_
  std::vector<std::pair<size_t, std::string>> outputs_;
  std::vector<std::string> notes_;
};

}  // namespace accrue::detail
