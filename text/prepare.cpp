#include "text/prepare.h"

#include <fmt/ranges.h>

#include <utility>

#include "core/error.h"
#include "text/known_tokenizer.h"
#include "text/tokenizers.h"

namespace accrue {
namespace {

TokenizerFiles tokenizer_for(const PrepareTextOptions& options, const TextFiles& texts) {
  if (!options.train_tokenizer) return tokenizer_with_files(options.tokenizer);
  WordCounts words;
  read_texts(texts.files, options.chat,
             {.add = [&](std::string_view text, bool) { words.add(text); },
              .end = [](bool) {},
              .add_beginning = [&](std::string_view text) { return words.add_beginning(text); }});
  return trained_tokenizer(words, *options.train_tokenizer);
}

}  // namespace

PreparedText prepare_text(const PrepareTextOptions& options) {
  const TextFiles found = find_text_files(options.texts);
  const TokenizerFiles of_text = tokenizer_for(options, found);
  const TokenizerPtr& tokenizer = of_text.tokenizer;
  const bool keeps_tokenizer = !options.out.empty() || of_text.files.empty();
  CorpusWriter writer({.name = std::filesystem::path(options.texts.front()).filename().string(),
                       .source = fmt::format("{}", fmt::join(options.texts, ", ")),
                       .tokenizer = keeps_tokenizer ? of_text.name() : "",
                       .tokenizer_checksum = tokenizer_checksum(*tokenizer),
                       .vocabulary = tokenizer->size(),
                       .end_of_text = tokenizer->end_of_text(),
                       .hold_out = options.hold_out},
                      options.out, of_text.files);
  const auto add = [&](const std::vector<int32_t>& tokens, bool is_learned) {
    if (is_learned) writer.append(tokens);
    else writer.append(tokens, std::vector<uint8_t>(tokens.size(), 0));
  };
  auto place = TextPlace::begins;
  bool is_chat = false;
  const auto begin_text = [&](bool is_learned) {
    const TextPlace here = std::exchange(place, TextPlace::goes_on);
    if (here == TextPlace::begins && !is_chat) add(tokenizer->before_text(), is_learned);
    return here;
  };
  const TextsRead read = read_texts(found.files, options.chat,
                                    {.add =
                                         [&](std::string_view text, bool is_learned) {
                                           const TextPlace here = begin_text(is_learned);
                                           add(tokenizer->encode(text, here), is_learned);
                                         },
                                     .end =
                                         [&](bool with_end_of_text) {
                                           if (with_end_of_text)
                                             add({tokenizer->end_of_text()}, true);
                                           else if (!is_chat) add(tokenizer->after_text(), true);
                                           writer.end_document();
                                           place = TextPlace::begins;
                                           is_chat = false;
                                         },
                                     .add_beginning =
                                         [&](std::string_view text) {
                                           const Tokenizer::Beginning part =
                                               tokenizer->encode_beginning(text, place);
                                           if (part.bytes == 0) return part.bytes;
                                           begin_text(true);
                                           add(part.tokens, true);
                                           return part.bytes;
                                         },
                                     .begin_chat = [&] { is_chat = true; }});
  check(writer.documents() > 0, "there is nothing to learn in {}: {}",
        fmt::join(options.texts, ", "), fmt::join(read.left_alone, "; "));
  writer.set_texts_of_sample(read.texts_of_sample);
  PreparedText result{.bytes = read.bytes, .left_alone = found.left_alone};
  result.left_alone.insert(result.left_alone.end(), read.left_alone.begin(), read.left_alone.end());
  result.corpus = writer.finish();
  result.learned = writer.learned();
  return result;
}

}  // namespace accrue
