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
  std::optional<int64_t>
      train_tokenizer{};  // its vocabulary; learned from the texts in place of `tokenizer`
  double hold_out = CorpusFacts{}.hold_out;
  // The treatment of spellings of control tokens, such as <|im_start|>, in documents and messages.
  ControlInTexts control = ControlInTexts::tokens;
  std::optional<ChatForm> chat{};     // none: the tokenizer's own template, or else ChatML
  std::vector<std::string> fields{};  // as field_names() takes them
  std::string out{};                  // a new directory; empty: in memory
};

// The settings that say how to read lines of JSON, for `text prepare` and for all other readers of
// texts.
Settings settings_of_lines(std::optional<ChatForm>& chat, std::vector<std::string>& fields,
                           const ActsWith& acts_with = {}, const std::string& data = {});

struct PreparedText {
  CorpusPtr corpus;
  int64_t learned = 0;  // tokens to be learned
  int64_t bytes = 0;    // of the texts
  std::vector<std::string> left_alone{};
  std::vector<std::string> warnings{};
};

const std::map<std::string, ControlInTexts>& control_in_texts_names();

// Makes a corpus of texts: a directory, which appears only once it is complete, or in memory, where
// the only tokenizer is bytes. Throws Error in the same cases as find_text_files(), read_texts()
// and CorpusWriter.
PreparedText prepare_text(const PrepareTextOptions& options);

}  // namespace accrue
