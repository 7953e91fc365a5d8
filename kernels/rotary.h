#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace accrue::detail {

// The elements of a head of `size` that form a pair: i and i + size / 2, as in Hugging Face's
// Llama, or 2 i and 2 i + 1, as in the paper and in GGUF files.
enum class RotaryLayout { halves, interleaved };

// The rotation of the pairs of each head.
struct Rotary {
  int64_t size;                     // of a head, an even number
  std::vector<double> frequencies;  // of its size / 2 pairs, in radians a position
  RotaryLayout layout = RotaryLayout::halves;
};

// Frequencies base^(-2 i / size) for 0 <= i < size / 2.
std::vector<double> rotary_frequencies(int64_t size, double base = 10000);

// Returns frequencies / factor, which brings positions closer together ("linear" in Hugging Face's
// rope_scaling). Throws Error unless factor > 0.
std::vector<double> scale_linearly(std::vector<double> frequencies, double factor);

// The scaling of Llama 3 ("llama3" in Hugging Face's rope_scaling, which uses the same names).
struct Llama3Scaling {
  double factor = 8;
  double low_freq_factor = 1, high_freq_factor = 4;
  double original_max_position_embeddings = 8192;
};

// w = original_max_position_embeddings * f / (2 pi) is the number of turns of a pair within the
// original context. f stays if w > high_freq_factor, and becomes f / factor if w < low_freq_factor.
// Between, it becomes (1 - s) * f / factor + s * f with
//   s = (w - low_freq_factor) / (high_freq_factor - low_freq_factor).
// Throws Error unless all four are above 0 and high_freq_factor > low_freq_factor.
std::vector<double> scale_as_llama3(std::vector<double> frequencies, const Llama3Scaling& scaling);

// Turns each pair (a, b) of each head of x by angle = positions[n, t] * frequencies[i] (Su et al.
// 2021).
//   y[n, t, h, a] = x[n, t, h, a] * cos(angle) - x[n, t, h, b] * sin(angle)
//   y[n, t, h, b] = x[n, t, h, a] * sin(angle) + x[n, t, h, b] * cos(angle).
// x is [N, T, heads * size], and positions i32 [N, T] are each token's place in its document. The
// angle, its sine and its cosine are computed once for all heads, in double: in float32 an angle of
// 32768 has lost its digits.
// Backward: dx is dy turned by -angle, because a rotation is orthogonal. Keeps only the positions.
// Writes y over x if it gets the last reference to x, and dx over dy where it can.
// Throws Error unless the shapes agree, size is even and at most 256, and there are size / 2
// frequencies.
Tensor rotary(Tensor x, const Rotary& rotary, const Tensor& positions);

}  // namespace accrue::detail
