#include "text/corpus.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/random.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie");

// Copies tokens and returns the largest; those that are negative as i32 are larger than any.
template <class T>
uint32_t copy_tokens(std::span<int32_t> out, const std::byte* from) {
  const auto* const tokens = reinterpret_cast<const T*>(from);
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    largest = std::max<uint32_t>(largest, tokens[i]);
    out[i] = static_cast<int32_t>(tokens[i]);
  }
  return largest;
}

}  // namespace

uint64_t SectionHash::value() const { return mix_bits(hash_); }

Corpus::Corpus(CorpusFacts facts, Parts parts)
    : facts_(std::move(facts)), parts_(std::move(parts)), begins_{0} {
  for (const auto& piece : parts_.tokens)
    begins_.push_back(begins_.back() + std::ssize(piece) / parts_.token_bytes);
}

void Corpus::read(std::span<int32_t> out, int64_t begin) const {
  check(0 <= begin && begin + std::ssize(out) <= size(),
        "tokens {} to {} are not in {}, which has {}", begin, begin + std::ssize(out),
        facts_.source, size());
  while (!out.empty()) {
    const auto next = std::ranges::upper_bound(begins_, begin);
    const auto piece = static_cast<size_t>(next - begins_.begin()) - 1;
    const std::span<int32_t> part =
        out.first(static_cast<size_t>(std::min<int64_t>(std::ssize(out), *next - begin)));
    const std::byte* const from =
        parts_.tokens[piece].data() + (begin - begins_[piece]) * parts_.token_bytes;
    const uint32_t largest = parts_.token_bytes == 2 ? copy_tokens<uint16_t>(part, from)
                                                     : copy_tokens<uint32_t>(part, from);
    if (largest >= facts_.vocabulary) {
      const auto bad = std::ranges::find(part, static_cast<int32_t>(largest)) - part.begin();
      fail("{}: token number {} is {}, expected 0 to {}; the files are damaged", facts_.source,
           begin + bad, largest, facts_.vocabulary - 1);
    }
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

const Corpus::Documents& Corpus::documents() const {
  std::call_once(asked_, [&] { documents_ = parts_.documents(); });
  return documents_;
}

}  // namespace accrue
