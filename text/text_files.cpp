#include "text/text_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "data/lines.h"
#include "data/strict_json.h"
#include "data/words.h"
#include "text/chat_template.h"
#include "text/chats.h"
#include "text/corpus.h"
#include "text/json_values.h"
#include "text/utf8.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The extension in small letters, without that of compression.
std::string kind_of(const fs::path& file) {
  const std::string extension = lower(file.extension().string());
  return extension == ".gz" ? lower(file.stem().extension().string()) : extension;
}

bool has_json_lines(const fs::path& file) {
  const std::string kind = kind_of(file);
  return kind == ".jsonl" || kind == ".ndjson" || kind == ".json";
}

bool is_text_by_name(const fs::path& file) {
  static const std::set<std::string> known{
      ".txt", ".text", ".md",  ".markdown", ".rst", ".org",   ".adoc",  ".tex", ".jsonl", ".ndjson",
      ".c",   ".h",    ".cc",  ".cpp",      ".cxx", ".hpp",   ".cu",    ".cuh", ".py",    ".js",
      ".ts",  ".jsx",  ".tsx", ".java",     ".kt",  ".scala", ".go",    ".rs",  ".rb",    ".php",
      ".lua", ".pl",   ".r",   ".jl",       ".hs",  ".ml",    ".swift", ".cs",  ".sh",    ".sql"};
  return known.contains(kind_of(file));
}

std::string parquet_because(const fs::path& file) {
  return fmt::format(
      "Parquet: expected its rows as lines of JSON, which `python3 -c \"import pandas; "
      "pandas.read_parquet('{}').to_json('{}.jsonl', orient='records', lines=True)\"` writes",
      file.filename().string(), file.stem().string());
}

// How many of every second byte are 0.
int64_t zeros_from(std::string_view text, size_t first) {
  int64_t zeros = 0;
  for (size_t i = first; i < text.size(); i += 2) zeros += text[i] == '\0';
  return zeros;
}

std::string converted(const char* encoding, const std::string& name) {
  return fmt::format(", which `iconv -f {} -t UTF-8 '{}' > NEW-FILE` makes of it", encoding, name);
}

// Why a file is not read as a text, and what to do instead; nothing if it is. Bytes tell binary
// files as they tell git: those of 0, and besides more than a few of other control characters.
std::string no_text_because(const fs::path& file) {
  constexpr size_t looked_at = size_t{1} << 16;
  constexpr int64_t usual_share = 100;
  if (std::string table = table_because(file); !table.empty()) return table;
  const std::string name = file.filename().string();
  std::string text(looked_at, '\0');
  text.resize(ByteStream(file).read(std::as_writable_bytes(std::span(text))));
  if (text.starts_with("PAR1")) return parquet_because(file);
  if (text.starts_with("%PDF-")) return "a PDF: expected its text, which `pdftotext` writes";
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return {};  // take_utf8_mark()
  const auto controls = std::ranges::count_if(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && byte != 0x1b && (byte < '\b' || byte > '\r');
  });
  const auto zeros = std::ranges::count(text, '\0');
  for (const size_t first : {size_t{0}, size_t{1}})
    if (const auto there = zeros_from(text, first); there == zeros && 4 * zeros > std::ssize(text))
      return "text in UTF-16 without a mark, it seems: expected UTF-8" +
             converted(first == 0 ? "UTF-16BE" : "UTF-16LE", name);
  if (zeros == 0 && controls * usual_share <= std::ssize(text)) return {};
  return fmt::format(
      "no text: {} of its first {} bytes are {}, as in programs, archives and UTF-16; expected "
      "text in UTF-8",
      zeros > 0 ? zeros : controls, text.size(), zeros > 0 ? "0" : "control characters");
}

// Walks through folders.
class TextFinder {
 public:
  explicit TextFinder(TextFiles& found) : found_(found) {}

  void add(const fs::path& folder) {
    std::error_code error;
    above_.push_back(fs::canonical(folder, error));
    std::vector<fs::path> entries;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
      entries.push_back(entry->path());
    check(!error, "'{}' cannot be listed: {}", folder.string(), error.message());
    std::ranges::sort(entries, [](const fs::path& a, const fs::path& b) {
      return natural_less(a.filename().string(), b.filename().string());
    });
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename().string();
      const fs::file_status status = fs::status(entry, error);
      const bool is_folder = fs::is_directory(status);
      if (name.starts_with('.') || (!is_folder && !fs::is_regular_file(status)) ||
          (is_folder &&
           (std::ranges::count(above_, fs::canonical(entry, error)) > 0 || holds_corpus(entry))))
        others_.push_back(name);
      else if (is_folder) add(entry);
      else if (!is_text_by_name(entry)) others_.push_back(name);
      else if (!no_text_because(entry).empty()) binary_.push_back(name);
      else found_.files.push_back(entry);
    }
    above_.pop_back();
  }
  void say_others() const {
    say(others_, "name");
    say(binary_, "bytes");
  }

 private:
  TextFiles& found_;
  void say(const std::vector<std::string>& entries, const char* what) const {
    if (entries.empty()) return;
    const auto n = std::ssize(entries);
    found_.left_alone.push_back(fmt::format("{} {} in folders, no text by {} {}: {}", n,
                                            n == 1 ? "entry" : "entries", n == 1 ? "its" : "their",
                                            what, some_of(entries)));
  }

  std::vector<fs::path> above_;  // the folders that are being read
  std::vector<std::string> others_, binary_;
};

// The names by which sentence-transformers knows what says how far two texts belong together.
const std::set<std::string>& names_of_labels() {
  static const std::set<std::string> names{"label", "labels", "score", "scores"};
  return names;
}

TextDocument document_of_sample(const json& object, const std::string& where) {
  for (const std::string& name : names_of_labels()) {
    const json label = object.value(name, json());
    check(label.is_null() || label == json(1) || label == json(true),
          "{}: {} is {} beside anchor and positive, which are learned as texts that belong "
          "together: expected 1 or none; a text that does not belong is a `negative` beside the "
          "two, and grades are not learned",
          where, name, shown(label));
  }
  TextDocument document{.has_end_of_text = false, .is_sample = true};
  for (const char* name : {"anchor", "positive", "negative"}) {
    if (name == std::string("negative") && !object.contains(name)) continue;
    document.parts.push_back({text_in(object, name, where)});
    check(!document.parts.back().text.empty(), "{}: {} is empty, expected text", where, name);
  }
  return document;
}

// As Stanford's Alpaca words it, whose end is the beginning of the answer.
TextDocument document_of_alpaca(const json& object, const std::string& where) {
  const bool has_input = object.contains("input") && !object["input"].is_null();
  const std::string more = has_input ? text_in(object, "input", where) : "";
  std::string prompt = "Below is an instruction that describes a task";
  if (!more.empty()) prompt += ", paired with an input that provides further context";
  prompt += ". Write a response that appropriately completes the request.\n\n### Instruction:\n" +
            text_in(object, "instruction", where);
  if (!more.empty()) prompt += "\n\n### Input:\n" + more;
  return {
      .parts = {{prompt + "\n\n### Response:", false}, {text_in(object, "output", where), true}}};
}

bool is_list(const json& value) { return value.is_array(); }

// Where two texts stop being equal, before the space there and within no character of UTF-8.
size_t end_of_common(const std::string& a, const std::string& b) {
  auto end = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  while (end > 0 && end < a.size() && (static_cast<unsigned char>(a[end]) & 0xc0) == 0x80) --end;
  if (end > 0 && a[end - 1] == ' ') --end;
  return end;
}

// A prompt as it is given, or as what both answers begin with, and the answers to it.
struct Preference {
  json prompt, chosen, rejected;
};

Preference preference_in(const json& object, const std::string& where) {
  Preference found{object.value("prompt", json()), object["chosen"], object["rejected"]};
  auto& [prompt, chosen, rejected] = found;
  for (const auto& [name, value] : {std::pair{"chosen", &chosen}, {"rejected", &rejected}})
    check(value->is_string() || (value->is_array() && !value->empty()) || value->is_object(),
          "{}: {} is {}, expected text or a list of messages", where, name, shown(*value));
  for (json* const value : {&chosen, &rejected})
    if (value->is_object()) *value = json::array({*value});
  check(chosen.is_string() == rejected.is_string(),
        "{}: one of chosen and rejected is text and the other a list of messages: expected both "
        "alike",
        where);
  if (prompt.is_array() || (prompt.is_string() && chosen.is_string())) {
    check(!prompt.empty() && prompt != "", "{}: prompt is empty, expected text or messages", where);
    return found;
  }
  check(prompt.is_null() || prompt.is_string(),
        "{}: prompt is {}, expected text or a list of messages", where, shown(prompt));
  const std::string said = prompt.is_string() ? prompt.get<std::string>() : "";
  if (is_list(chosen)) {
    const auto ends = std::ranges::mismatch(chosen, rejected);
    prompt = json(json::array_t(chosen.begin(), ends.in1));
    chosen = json(json::array_t(ends.in1, chosen.end()));
    rejected = json(json::array_t(ends.in2, rejected.end()));
    const bool has_said = std::ranges::any_of(prompt, [&](const json& message) {
      return message.is_object() &&
             (message.value("content", json()) == said || message.value("value", json()) == said);
    });
    check(said.empty() || has_said,
          "{}: chosen and rejected do not begin with a message that is the prompt: expected it, or "
          "a prompt that is a list of messages",
          where);
  } else {
    const auto a = chosen.get<std::string>(), b = rejected.get<std::string>();
    const size_t end = end_of_common(a, b);
    prompt = a.substr(0, end);
    chosen = a.substr(end);
    rejected = b.substr(end);
  }
  check(!prompt.empty() && prompt != "" && !chosen.empty() && !rejected.empty() && chosen != "" &&
            rejected != "",
        "{}: chosen and rejected {}: expected a prompt beside them, or the same beginning in both",
        where, prompt.empty() || prompt == "" ? "begin differently" : "are each other's beginning");
  return found;
}

TextDocument document_of_preference(const json& object, ChatForm form, const std::string& where,
                                    std::map<std::string, int64_t>& unused) {
  const Preference found = preference_in(object, where);
  TextDocument document;
  for (const json& answer : {found.chosen, found.rejected}) {
    if (is_list(found.prompt)) {
      document.answers.push_back(
          document_of_answer(object, found.prompt, answer, form, where, unused));
      continue;
    }
    TextDocument text{
        .parts = {{found.prompt.get<std::string>(), false}, {answer.get<std::string>(), true}},
        .is_one_text = true,
        .is_answer = true};
    for (TextDocument::Part& part : text.parts) part.written.push_back({0, part.text.size()});
    document.answers.push_back(std::move(text));
  }
  document.is_chat = is_list(found.prompt);
  return document;
}
// Calls values as they are called here. What already has such a name goes to `unused`. Returns
// whether there are any.
template <class Json>
bool take_names(Json& object, const FieldNames& names, std::map<std::string, int64_t>& unused) {
  bool has_some = false;
  for (const auto& [name, there] : names) {
    if (name == there || !object.contains(there)) continue;
    if (object.contains(name)) ++unused[name];
    Json value = object[there];
    object[name] = std::move(value);
    object.erase(there);
    has_some = true;
  }
  return has_some;
}

// What is the whole text of somebody.
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
    // Twice as many where there was no place to cut, so that no byte is seen many times.
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

}  // namespace

const std::map<std::string, ChatForm>& chat_form_names() {
  static const std::map<std::string, ChatForm> names{
      {"template", ChatForm::own}, {"chatml", ChatForm::chatml}, {"llama3", ChatForm::llama3}};
  return names;
}

FieldNames field_names(const std::vector<std::string>& words) {
  static const std::set<std::string> known{"text",          "prompt",      "completion", "messages",
                                           "conversations", "instruction", "input",      "output",
                                           "anchor",        "positive",    "negative",   "tools"};
  FieldNames names;
  for (const std::string& word : words) {
    const size_t is = word.find('=');
    check(is != word.npos && known.contains(word.substr(0, is)) && is + 1 < word.size(),
          "the field '{}': expected NAME=NAME_IN_THE_FILE, such as text=content, of {}", word,
          fmt::join(known, ", "));
    names[word.substr(0, is)] = word.substr(is + 1);
  }
  return names;
}

std::string table_because(const fs::path& file) {
  const std::string kind = kind_of(file);
  if (kind == ".parquet") return parquet_because(file);
  if (kind != ".csv" && kind != ".tsv") return {};
  return fmt::format(
      "a table: expected its rows as lines of JSON, which `python3 -c \"import csv, json; "
      "[print(json.dumps(row)) for row in csv.DictReader(open('{}', newline=''){})]\" > "
      "{}.jsonl` writes",
      file.filename().string(), kind == ".tsv" ? ", delimiter='\\t'" : "", file.stem().string());
}

TextDocument document_of_json(const std::string& line, ChatForm form, const std::string& where,
                              std::map<std::string, int64_t>& unused,
                              const FieldNames& names_there) {
  constexpr int most_levels = 32;
  constexpr int64_t most_elements = int64_t{1} << 20;
  check(
      !trimmed(line).starts_with('[') || trimmed(line).ends_with(']'),
      "{} begins a list: expected an object in each line, which `python3 -c \"import json, sys; "
      "[print(json.dumps(each)) for each in json.load(sys.stdin)]\" <LIST.json >LINES.jsonl` makes "
      "of a list",
      where);
  json object = parse_strict_json(line, most_levels, where, most_elements);
  constexpr const char* expected =
      "expected an object with text, with prompt and completion, with messages (or conversations), "
      "with instruction and output, with prompt, chosen and rejected, or with anchor and positive";
  check(object.is_object(), "{} is {}: {}", where, shown(object), expected);
  const bool is_renamed = take_names(object, names_there, unused);
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  // By the names that a record must have, those that it may.
  struct Kind {
    std::vector<std::string> needs, may{};
    std::function<TextDocument()> read;
  };
  const auto chat = [&] {
    if (!is_renamed) return document_of_chat(object, line, form, where, unused);
    auto ordered = nlohmann::ordered_json::parse(line);  // as a template writes what it has
    std::map<std::string, int64_t> counted_already;
    take_names(ordered, names_there, counted_already);
    return document_of_chat(object, ordered.dump(), form, where, unused);
  };
  std::vector<std::string> of_template;
  if (form == ChatForm::own) of_template = {"tools", "documents", "chat_template_kwargs"};
  std::vector<std::string> of_sample(names_of_labels().begin(), names_of_labels().end());
  of_sample.emplace_back("negative");
  std::vector<std::string> of_preference = of_template;
  of_preference.emplace_back("prompt");
  const std::vector<Kind> kinds{
      {.needs = {"text"},
       .read = [&]() -> TextDocument { return {.parts = {{text_in(object, "text", where)}}}; }},
      {.needs = {"messages"}, .may = of_template, .read = chat},
      {.needs = {"conversations"}, .may = of_template, .read = chat},
      {.needs = {"prompt", "completion"},
       .read = [&]() -> TextDocument {
         const json label = object.value("label", json());
         check(label != false && label != 0,
               "{}: label is {} beside prompt and completion, which would be learned: expected no "
               "such line, or a chosen and a rejected answer in one",
               where, shown(label));
         return {.parts = {{text_in(object, "prompt", where), false},
                           {text_in(object, "completion", where), true}}};
       }},
      {.needs = {"instruction", "output"},
       .may = {"input"},
       .read = [&] { return document_of_alpaca(object, where); }},
      {.needs = {"chosen", "rejected"},
       .may = of_preference,
       .read = [&] { return document_of_preference(object, form, where, unused); }},
      {.needs = {"anchor", "positive"}, .may = of_sample, .read = [&] {
         return document_of_sample(object, where);
       }}};
  const auto has_all = [&](const Kind& kind) {
    return std::ranges::all_of(kind.needs, [&](const auto& name) { return object.contains(name); });
  };
  check(std::ranges::count_if(kinds, has_all) == 1, "{} has {}: {}", where,
        names.empty() ? "nothing" : some_of(names), expected);
  const Kind& kind = *std::ranges::find_if(kinds, has_all);
  for (const std::string& name : names)
    if (std::ranges::count(kind.needs, name) + std::ranges::count(kind.may, name) == 0)
      ++unused[name];
  return kind.read();
}

bool holds_json_lines(const fs::path& path) {
  std::error_code ignored;
  return has_json_lines(path) && fs::is_regular_file(path, ignored);
}

bool holds_texts(const fs::path& path) {
  std::error_code error;
  const auto is_text = [](const fs::path& file) {
    return is_text_by_name(file) && !has_json_lines(file) && fs::is_regular_file(file);
  };
  if (!fs::is_directory(path, error)) return fs::exists(path, error) && is_text(path);
  bool has_some = false;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) continue;
    if (!is_text_by_name(entry->path()) || !fs::is_regular_file(entry->path())) return false;
    has_some = true;
  }
  return has_some;
}

TextFiles find_text_files(const std::vector<std::string>& paths) {
  TextFiles found;
  TextFinder finder(found);
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    check(!is_folder || !holds_corpus(path), "'{}' is a corpus already: expected texts", path);
    if (is_folder) {
      finder.add(path);
      continue;
    }
    found.files.push_back(InputFile(path).path());
    const std::string why = no_text_because(found.files.back());
    check(why.empty(), "'{}' is {}", path, why);
  }
  finder.say_others();
  check(!found.files.empty(),
        "there is no text in {}: expected files such as .txt, .md or .jsonl{}", some_of(paths),
        found.left_alone.empty() ? "" : fmt::format(" ({})", found.left_alone.front()));
  return found;
}

namespace {

// Gives a document to the sink. Returns its bytes, or nothing if there is nothing to be learned.
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

// Documents of lines that are given to a sink in their order, some at a time: of those which the
// model's template is to write, a process writes many.
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
  // What a template has written to be learned, and how many of these without their end.
  int64_t answers = 0, endless = 0;
  std::vector<std::string> empty;  // where there is nothing to learn

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
          "{} {} answers of which one is preferred, but those before it {}: expected the same of "
          "all",
          where, has_preferences ? "has" : "has no", had ? "have" : "have none");
    check(before == 0 || before == texts,
          "{} is a sample of {}, but those before it are of {}: expected as many in all", where,
          counted(texts, "text"), counted(before, "text"));
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
        "{} of {} end with their content, because the template leaves the end of a turn to the "
        "next message: it is not learned to stop there; expected a chat_template.jinja that ends "
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
