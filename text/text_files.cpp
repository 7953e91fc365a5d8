#include "text/text_files.h"

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
#include "text/corpus.h"

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
      else found_.files.push_back(entry);
    }
    above_.pop_back();
  }
  void say_others() const {
    if (others_.empty()) return;
    const auto n = std::ssize(others_);
    found_.left_alone.push_back(fmt::format("{} {} in folders, no text by {} name: {}", n,
                                            n == 1 ? "entry" : "entries", n == 1 ? "its" : "their",
                                            some_of(others_)));
  }

 private:
  TextFiles& found_;
  std::vector<fs::path> above_;  // the folders that are being read
  std::vector<std::string> others_;
};

std::string trimmed(const std::string& text) {
  constexpr const char* space = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

// A value for an error.
std::string shown(const json& value) {
  constexpr size_t most = 60;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string text_in(const json& object, const char* name, const std::string& where) {
  const json value = object.value(name, json());
  check(value.is_string(), "{}: {} is {}, expected text", where, name, shown(value));
  return value.get<std::string>();
}

// What stands before and after a message's content, the second up to the token that ends it, and
// after that.
struct Frame {
  std::string before, end, after;
};

Frame frame_of(ChatForm form, const std::string& role) {
  if (form == ChatForm::chatml) return {"<|im_start|>" + role + "\n", "<|im_end|>", "\n"};
  return {"<|start_header_id|>" + role + "<|end_header_id|>\n\n", "<|eot_id|>", ""};
}

TextDocument document_of_messages(const json& messages, ChatForm form, const std::string& where) {
  static const std::set<std::string> roles{"system", "user", "assistant", "tool"};
  check(messages.is_array() && !messages.empty(),
        "{}: messages is {}, expected a list of objects with role and content", where,
        shown(messages));
  TextDocument document{.has_end_of_text = false};
  // What is not to be learned is one part up to what is.
  std::string before = form == ChatForm::llama3 ? "<|begin_of_text|>" : "";
  for (const json& message : messages) {
    check(message.is_object(), "{}: a message is {}, expected an object with role and content",
          where, shown(message));
    const std::string role = text_in(message, "role", where);
    check(roles.contains(role),
          "{}: a message's role is '{}', expected system, user, assistant or tool", where, role);
    std::string content = text_in(message, "content", where);
    if (form == ChatForm::llama3) content = trimmed(content);
    const Frame frame = frame_of(form, role);
    before += frame.before;
    if (role == "assistant") {
      document.parts.push_back({std::exchange(before, ""), false});
      document.parts.push_back({content + frame.end, true});
    } else {
      before += content + frame.end;
    }
    before += frame.after;
  }
  if (!before.empty()) document.parts.push_back({before, false});
  return document;
}

TextDocument document_of_sample(const json& object, const std::string& where) {
  TextDocument document{.has_end_of_text = false, .is_sample = true};
  for (const char* name : {"anchor", "positive", "negative"}) {
    if (name == std::string("negative") && !object.contains(name)) continue;
    document.parts.push_back({text_in(object, name, where)});
    check(!document.parts.back().text.empty(), "{}: {} is empty, expected text", where, name);
  }
  return document;
}

// Reads a file as one document. Returns its bytes.
int64_t read_whole(const fs::path& file, const DocumentSink& sink) {
  constexpr size_t least = size_t{1} << 20;
  ByteStream stream(file);
  std::string text;
  int64_t bytes = 0;
  for (bool is_first = true;; is_first = false) {
    // Twice as many where there was no place to cut, so that no byte is seen many times.
    const size_t had = text.size(), step = std::max(least, had);
    text.resize(had + step);
    const size_t read = stream.read(std::as_writable_bytes(std::span(text).subspan(had)));
    text.resize(had + read);
    if (is_first) take_utf8_mark(text, file);
    if (read < step) break;
    const size_t taken = sink.add_beginning(text);
    bytes += static_cast<int64_t>(taken);
    text.erase(0, taken);
  }
  if (!text.empty()) sink.add(text, true);
  bytes += std::ssize(text);
  if (bytes > 0) sink.end(true);
  return bytes;
}

}  // namespace

const std::map<std::string, ChatForm>& chat_form_names() {
  static const std::map<std::string, ChatForm> names{{"chatml", ChatForm::chatml},
                                                     {"llama3", ChatForm::llama3}};
  return names;
}

TextDocument document_of_json(const std::string& line, ChatForm form, const std::string& where,
                              std::map<std::string, int64_t>& unused) {
  constexpr int most_levels = 32;
  constexpr int64_t most_elements = int64_t{1} << 20;
  const json object = parse_strict_json(line, most_levels, where, most_elements);
  constexpr const char* expected =
      "expected an object with text, with prompt and completion, with messages, or with anchor and "
      "positive";
  check(object.is_object(), "{} is {}: {}", where, shown(object), expected);
  const bool has_text = object.contains("text"), has_messages = object.contains("messages"),
             has_pair = object.contains("prompt") && object.contains("completion"),
             has_sample = object.contains("anchor") && object.contains("positive");
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  check(has_text + has_messages + has_pair + has_sample == 1, "{} has {}: {}", where,
        names.empty() ? "nothing" : some_of(names), expected);
  for (const std::string& name : names) {
    const bool is_used = has_text       ? name == "text"
                         : has_messages ? name == "messages"
                         : has_sample ? name == "anchor" || name == "positive" || name == "negative"
                                      : name == "prompt" || name == "completion";
    if (!is_used) ++unused[name];
  }
  if (has_messages) return document_of_messages(object["messages"], form, where);
  if (has_sample) return document_of_sample(object, where);
  if (has_text) return {.parts = {{text_in(object, "text", where), true}}};
  return {.parts = {{text_in(object, "prompt", where), false},
                    {text_in(object, "completion", where), true}}};
}

bool holds_json_lines(const fs::path& path) {
  std::error_code ignored;
  return has_json_lines(path) && fs::is_regular_file(path, ignored);
}

TextFiles find_text_files(const std::vector<std::string>& paths) {
  TextFiles found;
  TextFinder finder(found);
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    check(!is_folder || !holds_corpus(path), "'{}' is a corpus already: expected texts", path);
    if (is_folder) finder.add(path);
    else found.files.push_back(InputFile(path).path());
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
  if (!document.has_end_of_text && !document.is_sample && sink.begin_chat) sink.begin_chat();
  for (const TextDocument::Part& part : document.parts) {
    if (!part.text.empty()) sink.add(part.text, part.is_learned);
    bytes += std::ssize(part.text);
    if (document.is_sample) sink.end(false);
  }
  if (!document.is_sample) sink.end(document.has_end_of_text);
  return bytes;
}

bool has_something_to_learn(const TextDocument& document) {
  const bool has_text = std::ranges::any_of(
      document.parts, [](const TextDocument::Part& part) { return !part.text.empty(); });
  return has_text && std::ranges::any_of(document.parts, [&](const TextDocument::Part& part) {
           return part.is_learned && (document.has_end_of_text || !part.text.empty());
         });
}

}  // namespace

TextsRead read_texts(const std::vector<fs::path>& files, ChatForm form, const DocumentSink& sink) {
  TextsRead result;
  std::map<std::string, int64_t> unused;
  std::vector<std::string> empty;
  const auto count = [&](const std::string& where, int64_t texts) {
    const int64_t before = std::exchange(result.texts_of_sample, texts);
    check(before == 0 || before == texts,
          "{} is a sample of {}, but those before it are of {}: expected as many in all", where,
          counted(texts, "text"), counted(before, "text"));
  };
  for (const fs::path& file : files) {
    if (!has_json_lines(file)) {
      count("'" + file.string() + "'", 1);
      const int64_t bytes = read_whole(file, sink);
      if (bytes == 0) empty.push_back("'" + file.string() + "'");
      result.bytes += bytes;
      continue;
    }
    Lines lines(file);
    for (std::string line; lines.next(line);) {
      if (trimmed(line).empty()) continue;
      const TextDocument document = document_of_json(line, form, lines.here(), unused);
      count(lines.here(), document.is_sample ? std::ssize(document.parts) : 1);
      if (has_something_to_learn(document)) result.bytes += give(document, sink);
      else empty.push_back(lines.here());
    }
  }
  if (!empty.empty())
    result.left_alone.push_back(fmt::format(
        "{} without a text to learn: {}", counted(std::ssize(empty), "document"), some_of(empty)));
  std::vector<std::string> unused_names;
  for (const auto& [name, times] : unused)
    unused_names.push_back(fmt::format("{} ({})", name, times));
  if (!unused_names.empty())
    result.left_alone.push_back("values in JSON by the names " + some_of(unused_names));
  return result;
}

}  // namespace accrue
