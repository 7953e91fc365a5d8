#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "layers/graph.h"

namespace accrue {

// A parameter, buffer or constant. It is a module of the graph's, so that these are declared in the
// order of their first use, among layers.
class Graph::Held : public Module {
 public:
  Held(std::string name, Parameter parameter)
      : name_(std::move(name)), parameter_(std::move(parameter)) {
    declare(name_, parameter_);
  }
  Held(std::string name, Buffer buffer)
      : is_buffer_(true), name_(std::move(name)), buffer_(std::move(buffer)) {
    declare(name_, buffer_);
  }
  std::string describe() const override { return name_; }

  const std::string& name() const { return name_; }
  const Tensor& tensor() const { return is_parameter() ? parameter_.tensor : buffer_.tensor; }
  const Shape& shape() const { return is_buffer_ ? buffer_.shape : parameter_.shape; }
  bool is_parameter() const { return !is_buffer_; }
  const Parameter& parameter() const { return parameter_; }
  bool is_weight() const { return is_trainable() && parameter_.shape.rank() > 1; }
  bool is_trainable() const { return is_parameter() && !parameter_.source; }

  bool is_declared = false;

 private:
  bool is_buffer_ = false;
  std::string name_;
  Parameter parameter_;
  Buffer buffer_;
};

// An op of a graph with its attributes.
class Graph::Node : public Module {
 public:
  Node(const GraphOp& op, std::vector<OpValue> attributes)
      : op(op), attributes(std::move(attributes)) {
    for (const GraphOp::Argument* operand : op.operands())
      takes_weight_.push_back(operand->type == GraphOp::Argument::Type::weight);
  }

  const GraphOp& op;
  const std::vector<OpValue> attributes;

  bool takes_weight(size_t slot) const {
    return takes_weight_[std::min(slot, takes_weight_.size() - 1)];
  }

  // "softmax dim=-1"
  std::string describe() const override {
    std::string text = op.name;
    for (const std::string& each : written()) text += " " + each;
    return text;
  }
  bool is_random() const override { return op.is_random; }

  // The attributes that are not the signature's: "dim=-1".
  std::vector<std::string> written() const {
    std::vector<std::string> texts;
    const auto known = op.attributes();
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i]->is_required || attributes[i] != known[i]->by_default)
        texts.push_back(fmt::format("{}={}", known[i]->name, to_string(attributes[i])));
    return texts;
  }

  std::vector<Tensor> operator()(std::vector<Tensor> operands, const OpCall::Where& where) const {
    operands.resize(std::max(operands.size(), takes_weight_.size()));
    std::vector<Tensor> results;
    const Shape first = operands.front().shape();
    run(first, where.pass, [&] {
      OpCall call(op, std::move(operands), attributes, where);
      OpTrace* const trace = OpTrace::current();
      results = trace ? trace->run(op, call) : op.run(call);
      check(!results.empty(), "[{}] has no results", op.name);
      return results.front();
    });
    return results;
  }

 private:
  std::vector<bool> takes_weight_;  // of each operand in the signature
};

}  // namespace accrue
