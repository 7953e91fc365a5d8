#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/graph_sizes.h"
#include "onnx/reader/file.h"

namespace accrue::detail {

// Numbers that a file holds, or that follow from them and from sizes. Where they follow from the
// number of samples, such as a shape, they are known at two numbers of samples, rehearsed_samples.
class OnnxConstant {
 public:
  // An initializer or an attribute, which is the same for any number of samples.
  explicit OnnxConstant(OnnxTensor tensor);
  // Numbers in this type, to which they are rounded.
  OnnxConstant(OnnxType type, const Shape& shape, std::vector<double> numbers);
  // The same for each of rehearsed_samples.
  OnnxConstant(OnnxType type, std::array<Shape, 2> shapes,
               std::array<std::vector<double>, 2> numbers);

  OnnxType type() const { return type_; }
  // At rehearsed_samples[i].
  const Shape& shape(size_t i = 0) const { return shapes_[i]; }
  const std::vector<double>& numbers(size_t i = 0) const;
  // True if the number of samples does not matter.
  bool is_fixed() const;
  // The initializer or attribute that it is; null if it was calculated.
  const OnnxTensor* initializer() const { return initializer_ ? &*initializer_ : nullptr; }

 private:
  OnnxType type_;
  std::array<Shape, 2> shapes_;
  std::optional<OnnxTensor> initializer_{};
  // One object if they are the same. That of an initializer is made when it is asked for.
  mutable std::array<std::shared_ptr<const std::vector<double>>, 2> numbers_{};
};

// A value of the file's graph: constant numbers, or else a value of the network, which is an input,
// a parameter or the result of a call.
struct OnnxValue {
  static constexpr size_t none = size_t(-1);

  std::string name{};                              // the file's; empty within a conversion
  OnnxType type = OnnxType::undefined;             // the file's; a Graph has f32 and i32 alone
  std::shared_ptr<const OnnxConstant> constant{};  // or
  size_t number = none;                            // in the recipe
  ValueSizes sizes{};                              // of a constant that is_fixed(), too
  bool is_parameter = false;
  // The dimension of the samples has outer x N x inner elements. outer is 1 unless dimensions in
  // front of the samples were joined with them.
  int64_t outer = 1;

  bool is_constant() const { return constant != nullptr; }
  bool is_whole() const { return sizes.dtype == DType::i32; }
  int rank() const { return int(sizes.shape.size()); }
};
using OnnxValues = std::vector<OnnxValue>;
// A value of a constant.
OnnxValue onnx_value_of(std::shared_ptr<const OnnxConstant> constant, const std::string& name = "");
// A constant that repeats for each sample, with size 1 in the place of the samples. Throws Error
// for one that depends on the number of samples in another way.
OnnxValue constant_for_one(const OnnxValue& constant);

// A number as an integer, no farther from 0 than 2^31. Throws Error for NaN.
int64_t onnx_integer(double number);

class OnnxRecipe;

// One node of the file while it becomes calls of a Graph. Nodes whose inputs are all constants
// never get here, unless their op cannot be folded (onnx/reader/folding.h).
//
// Every function throws Error that names the node for what the node does not have. Attributes that
// a conversion has not asked for are refused by name when it returns.
class OnnxConversion {
 public:
  OnnxConversion(const OnnxNode& node, OnnxValues inputs, OnnxRecipe& recipe);

  const OnnxNode& node;

  int64_t opset() const;
  // The number of inputs that the node names, and of the results that something needs.
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return node.outputs.size(); }
  // Whether input i is there: a trailing one may be missing, and any may be left out.
  bool has(size_t i) const;
  bool needs(size_t output) const;  // that something takes it
  const OnnxValue& operator[](size_t i) const;

  // Attributes. All that are asked for are understood.
  bool has(const std::string& attribute);
  int64_t integer(const std::string& attribute, int64_t by_default);
  double number(const std::string& attribute, double by_default);
  std::string text(const std::string& attribute, const std::string& by_default);
  Integers integers(const std::string& attribute, Integers by_default);
  // A dimension of input i, from the start.
  int dimension(const std::string& attribute, int64_t by_default, size_t i = 0);
  int dimension(int64_t axis, int rank) const;
  const OnnxTensor& tensor(const std::string& attribute);
  // An attribute that changes nothing here.
  void pass_over(const std::string& attribute);
  // Throws Error unless the attribute is left out or has this value.
  void expect(const std::string& attribute, int64_t value);

  // Elements of input i, which must be a constant that is the same for any number of samples...
  Integers integers(size_t i) const;
  std::vector<double> numbers(size_t i) const;
  double number(size_t i) const;  // the only one
  // ...or each element may be a multiple of the number of samples.
  Extents extents(size_t i) const;
  // An attribute until some opset, and an input since then: axes, split, pads. Nothing if it is
  // left out.
  std::optional<Integers> integers_of(const std::string& attribute, size_t input);

  // Sizes of input i. size() throws Error for one that depends on the number of samples.
  const Extents& sizes(size_t i) const { return (*this)[i].sizes.shape; }
  int rank(size_t i) const { return (*this)[i].rank(); }
  int64_t size(size_t i, int dim) const;
  // Where the file says a number of samples, sizes that begin with it begin with N.
  Extents with_samples(Extents sizes) const;
  // Input i. It is one row of a constant that has equal rows, one for each of the samples that the
  // file says, if another input of this rank has the samples first.
  OnnxValue for_each_sample(size_t i) const;
  // The dimension along which the samples lie; nothing if there is none.
  static std::optional<int> samples_dimension(const OnnxValue& value);
  // Throws Error if one of these dimensions has the samples in it: the result would depend on how a
  // window is split.
  void keep_apart(const OnnxValue& value, const std::vector<int>& dims) const;

  // Calls of a Graph. Constants among the operands become constants of the Graph, floating ones in
  // the type that the network computes in. A default OnnxValue is an operand that is left out.
  OnnxValue call(std::string_view op, const OnnxValues& operands,
                 const Graph::Attributes& attributes = {});
  OnnxValues call(std::string_view op, const OnnxValues& operands, size_t results,
                  const Graph::Attributes& attributes = {});
  // x in other sizes, one of which may be -1. Throws Error if that mixes samples.
  OnnxValue reshape(const OnnxValue& x, Extents shape);
  OnnxValue constant(std::vector<double> numbers, const Shape& shape,
                     OnnxType type = OnnxType::f32) const;
  OnnxValue constant(double number) const { return constant({number}, Shape{}); }
  // The value as floating numbers: 0 or 1 of whole numbers that are truth values, which come from
  // the data. A floating value is itself.
  OnnxValue as_numbers(const OnnxValue& value);
  // The same value with the type that the file gives it, such as boolean for a comparison.
  static OnnxValue typed(OnnxValue value, OnnxType type);
  // Running statistics in this slot: a buffer if they are an initializer, else constants, which no
  // pass may write. Throws Error for others.
  OnnxValue buffer(size_t i);
  // Tells the user something once.
  void note(const std::string& sentence);

  [[noreturn]] void fail(const std::string& why) const;
  template <class... Args>
  void check(bool ok, fmt::format_string<Args...> why, Args&&... args) const {
    if (!ok) [[unlikely]]
      fail(fmt::format(why, std::forward<Args>(args)...));
  }
  // Throws Error for attributes that were not asked for.
  void check_attributes() const;

 private:
  const OnnxAttribute* find(const std::string& attribute);

  OnnxValues inputs_;
  OnnxRecipe& recipe_;
  std::vector<std::string> asked_;
};

// How nodes of an op become calls: by the op's name, behind its domain and a dot unless that is
// ONNX's own ("accrue.LayerNorm", of onnx/reader/passes.h).
struct OnnxConverter {
  // Gives the node's outputs, in their order; the last ones may be missing where nothing needs
  // them.
  OnnxValues (*run)(OnnxConversion& c);
  // The inputs that are weight slots: a floating initializer there is trained, also where it gets
  // there through nodes that only move it.
  std::vector<size_t> weights{};
};
using OnnxConverters = std::map<std::string, OnnxConverter, std::less<>>;
// All of them; each file onnx/reader/conversions_*.cpp adds its own.
const OnnxConverters& onnx_converters();
void add_onnx_network_conversions(OnnxConverters& converters);  // Conv, MaxPool, Gemm, batch norms
void add_onnx_elementwise_conversions(OnnxConverters& converters);  // with Cast, Where
void add_onnx_shape_conversions(OnnxConverters& converters);
void add_onnx_gather_conversions(OnnxConverters& converters);
void add_onnx_reduction_conversions(OnnxConverters& converters);  // with Softmax and its like
void add_onnx_image_conversions(OnnxConverters& converters);      // other pools, Resize
void add_onnx_recurrent_conversions(OnnxConverters& converters);
void add_onnx_layer_conversions(OnnxConverters& converters);  // dropout, products, fused
void add_onnx_attention_conversions(OnnxConverters& converters);

}  // namespace accrue::detail
