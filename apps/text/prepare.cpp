#include "apps/text/prepare.h"

#include "apps/cli/messages.h"
#include "core/error.h"

namespace accrue::app {

Settings settings_of(PrepareTextOptions& texts) {
  constexpr Decides result = Decides::result;
  Settings s;
  s.group("Texts")
      .add(texts.texts, {"text", result,
                         "Files of text or of JSON lines (text, prompt and completion, messages, "
                         "conversations, instruction and output, prompt, chosen and rejected, or "
                         "anchor, positive and maybe negative), and folders of them",
                         reads("FILE|DIR")})
      .append(settings_of_lines(texts.chat, texts.fields))
      .add(texts.control, control_in_texts_names(),
           {.name = "text-may-contain-control",
            .decides = result,
            .help = "Whether a document or message that spells a control token, such as "
                    "<|endoftext|>, gets the token; no: its letters are ordinary text"})
      .add(texts.tokenizer, {"tokenizer", result,
                             "bytes, a tokenizer.json, or a directory with that or with "
                             "vocab.bpe and encoder.json",
                             reads("FILE|DIR")})
      .add(texts.train_tokenizer, {.name = "train-tokenizer",
                                   .decides = result,
                                   .help = "Learn a tokenizer with N tokens from the texts",
                                   .takes = "N",
                                   .range = {.low = 257},
                                   .excludes = "tokenizer"})
      .add(texts.hold_out, {.name = "hold-out",
                            .decides = result,
                            .help = "The fraction of the documents that is for the test",
                            .range = {.low = 0, .high = 0.99, .without_low = true}})
      .group("Output")
      .add(texts.out, {.name = "out",
                       .decides = result,
                       .help = "The directory to make",
                       .takes = writes("DIR", Path::answers),
                       .asked_by = AskedBy::most_runs});
  return s;
}

void prepare_corpus(const PrepareTextOptions& texts) {
  const PreparedText made = prepare_text(texts);
  const Corpus& corpus = *made.corpus;
  const int64_t tokens = corpus.size();
  const int64_t documents = std::ssize(corpus.documents().ends), P = corpus.facts().texts_of_sample;
  say("{}, {}{}, {:.2f} bytes a token, to {}\n",
      P == 1 ? counted(documents, "document")
             : fmt::format("{} of {} texts", counted(documents / P, "sample"), P),
      counted(tokens, "token"),
      made.learned == tokens ? "" : fmt::format(", {} of them to be learned", made.learned),
      double(made.bytes) / double(tokens), texts.out);
  for (const std::string& each : made.left_alone) say("left alone: {}\n", each);
  for (const std::string& each : made.warnings) say_error("warning: {}\n", each);
}

}  // namespace accrue::app
