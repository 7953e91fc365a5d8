#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "onnx/reader/conversion.h"

namespace accrue::detail {

// Functions that several files of conversions need.

// The number for which a file's float32 stands, such as 1e-5 or 1 / 6: files hold most attributes
// and scalars in float32, and a network may compute in float64. The shortest decimal number that
// rounds to the same float32; a number that is no float32 is itself.
double meant_by(double number);

// The value as a floating operand: numbers of a file in the type that the network computes in, and
// whole numbers of data: bytes, or 0 and 1, which are checked as indices are.
OnnxValue number_operand(OnnxConversion& c, const OnnxValue& value);
// A result in the type of the first input.
OnnxValue like_first(const OnnxConversion& c, OnnxValue y);
// Numbers that are not rounded to float32.
OnnxValue real_constant(const OnnxConversion& c, std::vector<double> numbers, const Shape& shape);
// The only element of a constant that is the same for any number of samples.
std::optional<double> only_number(const OnnxValue& value);
// Operands broadcast as NumPy does it, through an op of two, one after the other.
OnnxValue folded(OnnxConversion& c, const std::string& op);
// An op of two operands, the second of which may be a number: then its op of one operand and a
// scalar, if it has one.
OnnxValue sum_of(OnnxConversion& c, const OnnxValue& x, double number);
OnnxValue times(OnnxConversion& c, const OnnxValue& x, double number);

// The p-th root of a sum of powers, whose gradient is 0 at 0, as PyTorch's norms have it.
OnnxValue p_root(OnnxConversion& c, const OnnxValue& sum, double p = 2);

// The product of all sizes in [begin, end). Throws Error, of the node, if two depend on the
// samples.
Extent extent_product(const OnnxConversion& c, const Extents& sizes, size_t begin, size_t end);
// x in images [N, C, H, W], from [N, C, L] as [N, C, 1, L].
OnnxValue as_image(OnnxConversion& c, const OnnxValue& x);
// An image's values in sizes of `rank` dimensions: 3 or 4.
OnnxValue from_image(OnnxConversion& c, const OnnxValue& image, int rank);
// A window over the places of an image: [rows, columns].
struct OnnxWindow {
  Integers kernel, strides, dilations, before, after;

  int64_t extent(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  bool is_symmetric() const { return before == after; }
};
// An attribute's numbers for rows and columns, of which a sequence has columns alone. Throws Error
// for numbers below the default.
Integers for_both(OnnxConversion& c, const std::string& name, int places, int64_t by_default);
// The node's strides, dilations and padding beside a kernel.
OnnxWindow window_of(OnnxConversion& c, const OnnxValue& image, int places, Integers kernel);
// An image with this value around it; less than 0 cuts off.
OnnxValue padded(OnnxConversion& c, const OnnxValue& image, const Integers& before,
                 const Integers& after, double value = 0);
// [0, rank)
std::vector<int> all_dimensions(int rank);
Integers as_integers(const std::vector<int>& dims);

}  // namespace accrue::detail
