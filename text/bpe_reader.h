#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "text/bpe.h"

namespace accrue {

// Makes the description of a BPE from the contents of a tokenizer's files. Every error begins with
// the file's name.
class BpeReader {
 public:
  explicit BpeReader(std::string file) : file_(std::move(file)) { description_.name = file_; }

  // A whole tokenizer.json.
  void read_tokenizer(const nlohmann::json& tokenizer);
  bool has_token(const std::string& token) const {
    return number_of(token) != BpeDescription::none;
  }
  void end_texts_with(const std::string& token);
  // Throws Error if the files ask to end texts with a token other than the end-of-text token.
  void check_end_of_texts() const;

  BpeDescription take() { return std::move(description_); }

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> message, Args&&... args) const {
    if (!ok) fail("'{}' {}", file_, fmt::format(message, std::forward<Args>(args)...));
  }

  const nlohmann::json& object(const nlohmann::json& in, const char* name) const;
  std::string text(const nlohmann::json& in, const char* name) const;
  bool flag(const nlohmann::json& in, const char* name) const;
  bool flag(const nlohmann::json& in, const char* name, bool otherwise) const;
  int64_t number(const nlohmann::json& value, const std::string& of) const;

  void read_normalizer(const nlohmann::json& normalizer);
  void read_model(const nlohmann::json& model);
  void read_vocabulary(const nlohmann::json& vocabulary);
  void read_post_processor(const nlohmann::json& processor);
  void read_template(const nlohmann::json& processor);
  void add_merge(const std::string& left, const std::string& right);
  void add_merge(std::string_view line);
  void read_added(const nlohmann::json& token);
  void read_step(const nlohmann::json& step);
  void read_split(const nlohmann::json& split);
  void add_step(std::string_view pattern, bool keeps_matches, bool keeps_gaps);
  void place(int64_t number, std::string bytes);
  int32_t number_of(const std::string& token) const;

  std::string file_;
  BpeDescription description_;
  // A file may skip numbers, but a few tokens must not make a long list.
  int64_t max_tokens_ = 1024;
  bool has_byte_level_ = false;
  std::unordered_map<std::string, int32_t> vocabulary_, added_;  // numbers by spelling
};

}  // namespace accrue
