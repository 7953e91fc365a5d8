#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/inside.h"
#include "text/corpus.h"
#include "text/documents.h"
#include "train/settings.h"

namespace accrue {

struct PrepareTextOptions {
  std::vector<std::string> texts;  // as find_text_files() takes them
  std::string tokenizer = "bytes";
  std::optional<int64_t> train_tokenizer{};  // of so many tokens, from the texts, instead
  double hold_out = CorpusFacts{}.hold_out;
  // What the spelling of control tokens, such as <|im_start|>, becomes in documents and messages.
  ControlInTexts control = ControlInTexts::tokens;
  std::optional<ChatForm> chat{};     // none: the tokenizer's own template, or else ChatML
  std::vector<std::string> fields{};  // as field_names() takes them
  std::string out{};                  // the directory to make; empty: in memory
};

// The settings that say what lines of JSON mean, of `text prepare` and of whatever else reads them.
Settings settings_of_lines(std::optional<ChatForm>& chat, std::vector<std::string>& fields,
                           const ActsWith& acts_with = {}, const std::string& data = {});

struct PreparedText {
  CorpusPtr corpus;
  int64_t learned = 0;  // tokens that are to be
  int64_t bytes = 0;    // of the texts
  std::vector<std::string> left_alone{};
  std::vector<std::string> warnings{};
};

const std::map<std::string, ControlInTexts>& control_in_texts_names();

// Makes texts a corpus, a directory that appears complete or not at all, or in memory, where it
// knows no tokenizer but bytes. Throws Error as find_text_files(), read_texts() and CorpusWriter
// do.
PreparedText prepare_text(const PrepareTextOptions& options);

}  // namespace accrue
