#include "text/read_texts.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/lines.h"
#include "data/words.h"
#include "text/chat_template.h"
#include "text/text_files.h"
#include "text/utf8.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The range of a text that a user wrote as a whole.
std::array<ByteRange, 1> all_of(std::string_view text) { return {{{0, text.size()}}}; }

// Reads a file as one document. Returns its bytes.
int64_t read_whole(const fs::path& file, const DocumentSink& sink,
                   std::vector<std::string>& warnings) {
  constexpr size_t least = size_t{1} << 20;
  ByteStream stream(file);
  std::string text;
  int64_t bytes = 0;
  NotUtf8 other;
  for (bool is_first = true;; is_first = false) {
    // Reads twice as many bytes if there was no place to cut, so no byte is scanned many times.
    const size_t had = text.size(), step = std::max(least, had);
    text.resize(had + step);
    const size_t read = stream.read(std::as_writable_bytes(std::span(text).subspan(had)));
    text.resize(had + read);
    if (is_first) take_utf8_mark(text, file);
    other.add(std::string_view(text).substr(had));
    if (read < step) break;
    const size_t taken = sink.add_beginning(text);
    bytes += static_cast<int64_t>(taken);
    text.erase(0, taken);
  }
  if (!text.empty()) sink.add(text, true, all_of(text));
  bytes += std::ssize(text);
  if (other.count() > 0)
    warnings.push_back(fmt::format(
        "'{}' is not UTF-8: {} of its {} bytes, of which the first is number {}, become tokens one "
        "by one; expected UTF-8{}, if that is its encoding",
        file.string(), other.count(), bytes, other.first(),
        converted("WINDOWS-1252", file.filename().string())));
  if (bytes > 0) sink.end(true);
  return bytes;
}

// Passes a document to the sink. Returns its size in bytes, or 0 if nothing is to be learned.
int64_t give(const TextDocument& document, const DocumentSink& sink) {
  int64_t bytes = 0;
  const bool is_chat = !document.has_end_of_text && !document.is_sample;
  if (is_chat && sink.begin_chat) sink.begin_chat();
  const bool is_one = document.is_one_text && sink.add_as_one;
  if (is_one) sink.add_as_one(document.parts);
  for (const TextDocument::Part& part : document.parts) {
    if (!part.text.empty() && !is_one)
      sink.add(part.text, part.is_learned,
               is_chat ? Letters(part.written) : Letters(all_of(part.text)));
    bytes += std::ssize(part.text);
    if (document.is_sample) sink.end(false);
  }
  if (!document.is_sample) sink.end(document.has_end_of_text);
  return bytes;
}

bool has_something_to_learn(const TextDocument& document) {
  if (document.chat) return document.chat->answer || !document.chat->learned.empty();
  const bool has_text = std::ranges::any_of(
      document.parts, [](const TextDocument::Part& part) { return !part.text.empty(); });
  return has_text && std::ranges::any_of(document.parts, [&](const TextDocument::Part& part) {
           return part.is_learned && (document.has_end_of_text || !part.text.empty());
         });
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n\v\f") == line.npos;
}

// Passes the documents of lines to a sink in order. It collects chats, because one process of the
// model's template then writes many of them.
class Waiting {
 public:
  Waiting(const ChatWriting& chats, const DocumentSink& sink,
          std::map<std::string, int64_t>& unused, std::map<std::string, int64_t>& control)
      : chats_(chats), sink_(sink), unused_(unused), control_(control) {}

  void add(TextDocument document, const std::string& where) {
    if (document.chat) bytes_ += document.chat->record.size();
    for (const TextDocument::Part& part : document.parts) bytes_ += part.text.size();
    documents_.push_back({std::move(document), where});
    if (bytes_ >= most_bytes || !chats_.own) give_all();
  }
  void give_all() {
    std::vector<ChatTemplate::Task> chats;
    for (const auto& [document, where] : documents_)
      if (document.chat) chats.push_back({*document.chat, where});
    std::vector<ChatTemplate::Written> written;
    if (!chats.empty()) written = chats_.own->write(chats, chats_.control);
    auto next = written.begin();
    for (auto& [document, where] : documents_) {
      if (document.chat) {
        for (const std::string& name : next->unheeded) ++unused_[name];
        answers += std::ssize(document.chat->learned);
        endless += next->endless;
        for (const auto& [spelling, times] : next->control) control_[spelling] += times;
        document = {.parts = std::move((next++)->parts),
                    .has_end_of_text = false,
                    .is_one_text = true,
                    .is_answer = document.is_answer};
      }
      check(!document.is_answer || has_something_to_learn(document),
            "{}: chosen or rejected has nothing to learn: expected two answers", where);
      if (has_something_to_learn(document)) bytes_given += give(document, sink_);
      else empty.push_back(where);
    }
    documents_.clear();
    bytes_ = 0;
  }

  int64_t bytes_given = 0;
  // The number of answers to be learned that templates wrote, and how many lack their end.
  int64_t answers = 0, endless = 0;
  std::vector<std::string> empty;  // documents without anything to learn

 private:
  static constexpr size_t most_bytes = size_t{8} << 20;

  const ChatWriting& chats_;
  const DocumentSink& sink_;
  std::map<std::string, int64_t>&unused_, &control_;
  std::vector<std::pair<TextDocument, std::string>> documents_;
  size_t bytes_ = 0;
};

}  // namespace

TextsRead read_texts(const std::vector<fs::path>& files, const ChatWriting& chats,
                     const DocumentSink& sink, const FieldNames& names) {
  TextsRead result;
  std::map<std::string, int64_t> unused;
  check(chats.form != ChatForm::own || chats.own != nullptr,
        "chats are to be written by a template, but there is none");
  Waiting waiting(chats, sink, unused, result.control);
  const auto count = [&](const std::string& where, int64_t texts, bool has_preferences = false) {
    const int64_t before = std::exchange(result.texts_of_sample, texts);
    const bool had = std::exchange(result.has_preferences, has_preferences);
    check(before == 0 || had == has_preferences,
          "{} {} chosen and rejected answers, but the lines before it {}: expected the same of "
          "all lines",
          where, has_preferences ? "has" : "has no", had ? "have" : "have none");
    check(before == 0 || before == texts,
          "{} is a sample of {}, but those before it are of {}: expected the same number in all "
          "samples",
          where, counted(texts, "text"), counted(before, "text"));
  };
  for (const fs::path& file : files) {
    if (!has_json_lines(file)) {
      count("'" + file.string() + "'", 1);
      waiting.give_all();
      const int64_t bytes = read_whole(file, sink, result.warnings);
      if (bytes == 0) waiting.empty.push_back("'" + file.string() + "'");
      result.bytes += bytes;
      continue;
    }
    Lines lines(file);
    for (std::string line; lines.next(line);) {
      if (is_blank(line)) continue;
      const size_t valid = valid_utf8_bytes(line);
      check(valid == line.size(),
            "{} is not UTF-8 at its byte {}: expected UTF-8{}, if that is its "
            "encoding",
            lines.here(), valid, converted("WINDOWS-1252", file.filename().string()));
      TextDocument document = document_of_json(line, chats.form, lines.here(), unused, names);
      result.chats += document.is_chat;
      const bool has_preferences = !document.answers.empty();
      count(lines.here(),
            has_preferences      ? std::ssize(document.answers)
            : document.is_sample ? std::ssize(document.parts)
                                 : 1,
            has_preferences);
      check(!document.is_chat || chats.impossible.empty(), "{}: {}", lines.here(),
            chats.impossible);
      for (TextDocument& answer : document.answers) waiting.add(std::move(answer), lines.here());
      if (!has_preferences) waiting.add(std::move(document), lines.here());
    }
  }
  waiting.give_all();
  result.bytes += waiting.bytes_given;
  constexpr size_t most_said = 5;
  if (const size_t all = result.warnings.size(); all > most_said) {
    result.warnings.resize(most_said);
    result.warnings.push_back(fmt::format("{} more files are not UTF-8", all - most_said));
  }
  const std::vector<std::string>& empty = waiting.empty;
  if (!empty.empty())
    result.left_alone.push_back(fmt::format(
        "{} without a text to learn: {}", counted(std::ssize(empty), "document"), some_of(empty)));
  if (waiting.endless > 0)
    result.warnings.push_back(fmt::format(
        "{} of {} end with their content, because the template writes the end of a turn with "
        "the next message. A model does not learn to stop there: expected a chat_template.jinja "
        "that ends "
        "each answer by itself",
        waiting.endless, counted(waiting.answers, "answer")));
  std::vector<std::string> unused_names;
  for (const auto& [name, times] : unused)
    unused_names.push_back(fmt::format("{} ({})", name, times));
  if (!unused_names.empty())
    result.left_alone.push_back("values in JSON by the names " + some_of(unused_names));
  return result;
}

}  // namespace accrue
