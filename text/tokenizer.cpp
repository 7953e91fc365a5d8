#include "text/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

class Bytes : public Tokenizer {
 public:
  int64_t size() const override { return end + 1; }
  int32_t end_of_text() const override { return end; }

  std::vector<int32_t> encode(std::string_view text, TextPlace, Letters) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }

  Beginning encode_beginning(std::string_view text, TextPlace place, Letters) const override {
    return {encode(text, place, {}), text.size()};
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      check(0 <= token && token <= end, "token {} is outside [0, {})", token, size());
      if (token != end) text += static_cast<char>(token);
    }
    return text;
  }

 private:
  static constexpr int32_t end = 256;
};

}  // namespace

bool detail::is_within(Letters letters, size_t at) {
  const auto next = std::ranges::upper_bound(letters, at, {}, &ByteRange::begin);
  return next != letters.begin() && at < std::prev(next)->end;
}

std::vector<int32_t> detail::encode_with_beginning(const Tokenizer& tokenizer,
                                                   std::string_view text) {
  std::vector<int32_t> tokens = tokenizer.before_text();
  const std::vector<int32_t> own = tokenizer.encode(text);
  tokens.insert(tokens.end(), own.begin(), own.end());
  return tokens;
}

TokenizerPtr bytes_tokenizer() { return std::make_shared<Bytes>(); }

}  // namespace accrue
