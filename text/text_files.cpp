#include "text/text_files.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/words.h"
#include "text/corpus.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The extension in small letters; the one before .gz if the file is compressed.
std::string kind_of(const fs::path& file) {
  const std::string extension = lower(file.extension().string());
  return extension == ".gz" ? lower(file.stem().extension().string()) : extension;
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

// The number of zeros among every second byte, from byte `first` on.
int64_t zeros_from(std::string_view text, size_t first) {
  int64_t zeros = 0;
  for (size_t i = first; i < text.size(); i += 2) zeros += text[i] == '\0';
  return zeros;
}

// The reason why a file is not read as text, and what to do instead; empty if it is text. Like git,
// recognizes binary files by zero bytes, and also by a certain share of other control characters.
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

// Searches folders for texts.
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

}  // namespace

bool has_json_lines(const fs::path& file) {
  const std::string kind = kind_of(file);
  return kind == ".jsonl" || kind == ".ndjson" || kind == ".json";
}

std::string converted(const char* encoding, const std::string& name) {
  return fmt::format(", which `iconv -f {} -t UTF-8 '{}' > NEW-FILE` makes of it", encoding, name);
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

}  // namespace accrue
