#include "text/tokenizers.h"

#include <filesystem>

#include "core/error.h"
#include "text/corpus.h"

namespace accrue {

TokenizerPtr tokenizer_at(const std::string& name) {
  check(name == "bytes", "the tokenizer '{}' is not known: expected bytes", name);
  return bytes_tokenizer();
}

std::map<std::string, std::string> files_of_tokenizer(const std::string&) { return {}; }

TokenizerPtr Corpus::tokenizer() const {
  check(!facts_.tokenizer.empty(), "{} does not say which tokenizer made its tokens",
        facts_.source);
  if (facts_.tokenizer == "bytes") return tokenizer_at("bytes");
  return tokenizer_at(std::filesystem::path(facts_.tokenizer).parent_path().string());
}

}  // namespace accrue
