#include "text/prepare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "core/error.h"
#include "data/words.h"
#include "text/chat_template.h"
#include "text/chats.h"
#include "text/read_texts.h"
#include "text/text_files.h"
#include "text/tokenizers.h"
#include "train/step_options.h"

namespace accrue {
namespace {

TokenizerFiles tokenizer_for(const PrepareTextOptions& options, const TextFiles& texts) {
  if (!options.train_tokenizer) return tokenizer_with_files(options.tokenizer);
  WordCounts words;
  const ChatWriting chats{.form = options.chat.value_or(ChatForm::chatml),
                          .impossible =
                              "a chat needs tokens that mark its messages, which a "
                              "tokenizer learned from texts lacks: expected one that has them"};
  read_texts(texts.files, chats,
             {.add = [&](std::string_view text, bool, Letters) { words.add(text); },
              .end = [](bool) {},
              .add_beginning = [&](std::string_view text) { return words.add_beginning(text); }},
             field_names(options.fields));
  return trained_tokenizer(words, *options.train_tokenizer);
}

// The number of a text's tokens that belong to its first part: the tokens of the part alone, as far
// as they agree with the tokens of the text.
size_t tokens_of_beginning(const Tokenizer& tokenizer, std::string_view beginning, Letters letters,
                           const std::vector<int32_t>& tokens) {
  const std::vector<int32_t> alone = tokenizer.encode(beginning, TextPlace::begins, letters);
  return static_cast<size_t>(std::ranges::mismatch(alone, tokens).in2 - tokens.begin());
}

// Adds the tokens of a whole text, some of which are learned. A token may contain the end of one
// part and the beginning of the next. It is learned if the next part is learned, and not if only
// the earlier one is.
void add_as_one(const Tokenizer& tokenizer, const std::vector<TextDocument::Part>& parts,
                ControlInTexts control, CorpusWriter& writer) {
  std::string text;
  std::vector<ByteRange> letters;
  std::vector<int32_t> joined;
  std::vector<uint8_t> learned;
  for (const TextDocument::Part& part : parts) {
    if (part.text.empty()) continue;
    const Letters own = control == ControlInTexts::letters ? Letters(part.written) : Letters();
    for (const auto [begin, end] : own) letters.push_back({text.size() + begin, text.size() + end});
    text += part.text;
    const std::vector<int32_t> tokens = tokenizer.encode(part.text, TextPlace::begins, own);
    joined.insert(joined.end(), tokens.begin(), tokens.end());
    learned.resize(joined.size(), part.is_learned);
  }
  const std::vector<int32_t> tokens = tokenizer.encode(text, TextPlace::begins, letters);
  if (joined != tokens) {
    learned.assign(tokens.size(), 0);
    size_t bytes = 0, begin = 0;
    for (const TextDocument::Part& part : parts) {
      bytes += part.text.size();
      const size_t end =
          bytes == text.size()
              ? tokens.size()
              : std::max(begin,
                         tokens_of_beginning(tokenizer, std::string_view(text).substr(0, bytes),
                                             letters, tokens));
      std::fill(learned.begin() + std::ptrdiff_t(begin), learned.begin() + std::ptrdiff_t(end),
                uint8_t{part.is_learned});
      begin = end;
    }
  }
  writer.append(tokens, learned);
}

// Counts the control tokens that users' texts spell, by the tokens that the texts became.
class ControlCount {
 public:
  explicit ControlCount(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), names_(static_cast<size_t>(tokenizer.size())) {
    for (const auto& [name, token] : tokenizer.control_tokens())
      names_[static_cast<size_t>(token)] = name;
  }

  // Counts the control tokens in the ranges `written` of a text.
  void add(std::string_view text, Letters written, const std::vector<int32_t>& tokens) {
    count(tokens, 1);
    if (written.size() == 1 && written.front().end - written.front().begin == text.size()) return;
    std::string others(text);
    for (const auto [begin, end] : written | std::views::reverse) others.erase(begin, end - begin);
    count(tokenizer_.encode(others), -1);
  }
  void count(const std::vector<int32_t>& tokens, int64_t times) {
    for (const int32_t token : tokens)
      if (const std::string& name = names_[static_cast<size_t>(token)]; !name.empty())
        found[name] += times;
  }

  std::map<std::string, int64_t> found;

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::string> names_;  // empty for other tokens
};

// A message about the counts; empty if there are none.
std::string said_of(std::map<std::string, int64_t> control) {
  std::erase_if(control, [](const auto& each) { return each.second <= 0; });
  int64_t all = 0;
  std::vector<std::string> names;
  for (const auto& [name, times] : control) {
    names.push_back(fmt::format("{} ({})", name, times));
    all += times;
  }
  if (names.empty()) return "";
  return fmt::format(
      "texts spell {}, which a model reads as control tokens: {}; if they are ordinary text, "
      "say that texts may not contain control tokens "
      "(text-may-contain-control no)",
      counted(all, "control token"), some_of(names));
}

}  // namespace

Settings settings_of_lines(std::optional<ChatForm>& chat, std::vector<std::string>& fields,
                           const ActsWith& acts_with, const std::string& data) {
  Settings s;
  s.group(data.empty() ? "Texts" : "Model and data")
      .add(chat, chat_form_names(),
           {.name = "chat",
            .decides = Decides::result,
            .help = "How messages are written: by the template of the model's tokenizer (which "
                    "needs python3-jinja2), as ChatML, or as Llama 3 does; auto: by the template, "
                    "or as ChatML if the tokenizer has none",
            .unset = "auto",
            .acts_with = acts_with,
            .data = data,
            .acts_in = ActsIn::samples})
      .add(fields, {.name = "field",
                    .decides = Decides::result,
                    .help = "The names in lines of JSON of text, prompt, completion, messages, "
                            "anchor, positive and others, such as text=content",
                    .takes = "NAME=NAME_THERE",
                    .unset = "their own",
                    .acts_with = acts_with,
                    .data = data,
                    .acts_in = ActsIn::samples});
  return s;
}

const std::map<std::string, ControlInTexts>& control_in_texts_names() {
  static const std::map<std::string, ControlInTexts> names{{"yes", ControlInTexts::tokens},
                                                           {"no", ControlInTexts::letters}};
  return names;
}

PreparedText prepare_text(const PrepareTextOptions& options) {
  const TextFiles found = find_text_files(options.texts);
  const TokenizerFiles of_text = tokenizer_for(options, found);
  const TokenizerPtr& tokenizer = of_text.tokenizer;
  const auto own = ChatTemplate::in(of_text.files, options.tokenizer);
  const ChatForm form = options.chat.value_or(own ? ChatForm::own : ChatForm::chatml);
  check(form != ChatForm::own || own,
        "the tokenizer '{}' has no chat template: expected a chat_template.jinja beside it, or a "
        "chat_template in tokenizer_config.json",
        options.tokenizer);
  const bool are_letters = options.control == ControlInTexts::letters;
  ChatWriting chats{
      form, own ? &*own : nullptr, missing_mark(form, of_text), {.become = options.control}};
  for (const auto& [name, token] : tokenizer->control_tokens())
    chats.control.spellings.push_back(name);
  ControlCount control(*tokenizer);
  const bool keeps_tokenizer = !options.out.empty() || of_text.files.empty();
  CorpusWriter writer({.name = std::filesystem::path(options.texts.front()).filename().string(),
                       .source = fmt::format("{}", fmt::join(options.texts, ", ")),
                       .tokenizer = keeps_tokenizer ? of_text.name() : "",
                       .tokenizer_checksum = tokenizer_checksum(*tokenizer),
                       .vocabulary = tokenizer->size(),
                       .end_of_text = tokenizer->end_of_text(),
                       .hold_out = options.hold_out,
                       .control = options.control},
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
  const TextsRead read =
      read_texts(found.files, chats,
                 {.add =
                      [&](std::string_view text, bool is_learned, Letters written) {
                        const TextPlace here = begin_text(is_learned);
                        const std::vector<int32_t> tokens =
                            tokenizer->encode(text, here, are_letters ? written : Letters());
                        if (!are_letters) control.add(text, written, tokens);
                        add(tokens, is_learned);
                      },
                  .end =
                      [&](bool with_end_of_text) {
                        if (with_end_of_text) add({tokenizer->end_of_text()}, true);
                        else if (!is_chat) add(tokenizer->after_text(), true);
                        writer.end_document();
                        place = TextPlace::begins;
                        is_chat = false;
                      },
                  .add_beginning =
                      [&](std::string_view text) {
                        const std::array all{ByteRange{0, text.size()}};
                        const Tokenizer::Beginning part = tokenizer->encode_beginning(
                            text, place, are_letters ? Letters(all) : Letters());
                        if (part.bytes == 0) return part.bytes;
                        control.count(part.tokens, 1);
                        begin_text(true);
                        add(part.tokens, true);
                        return part.bytes;
                      },
                  .begin_chat = [&] { is_chat = true; },
                  .add_as_one =
                      [&](const std::vector<TextDocument::Part>& parts) {
                        begin_text(false);
                        add_as_one(*tokenizer, parts, options.control, writer);
                      }},
                 field_names(options.fields));
  check(writer.documents() > 0, "there is nothing to learn in {}: {}",
        fmt::join(options.texts, ", "), fmt::join(read.left_alone, "; "));
  writer.set_texts_of_sample(read.texts_of_sample, read.has_preferences);
  if (read.chats > 0)
    writer.set_chat(name_in(chat_form_names(), form) +
                    (form == ChatForm::own ? " " + own->checksum() : ""));
  PreparedText result{
      .bytes = read.bytes, .left_alone = found.left_alone, .warnings = read.warnings};
  result.left_alone.insert(result.left_alone.end(), read.left_alone.begin(), read.left_alone.end());
  if (!are_letters)
    for (const auto& [name, times] : read.control) control.found[name] += times;
  if (std::string said = said_of(control.found); !said.empty())
    result.warnings.push_back(std::move(said));
  result.corpus = writer.finish();
  result.learned = writer.learned();
  return result;
}

}  // namespace accrue
