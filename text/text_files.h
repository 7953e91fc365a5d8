#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue {

// The files of texts that were found, and messages about paths that were left out.
struct TextFiles {
  std::vector<std::filesystem::path> files{};
  std::vector<std::string> left_alone{};
};

// Finds files of texts: the given files, and the files in or below the given folders, in the
// natural order of their names. In folders, the extension decides: text, markup, source code and
// lines of JSON are found, also with .gz at the end. Everything else in folders is left out,
// including corpora and names that begin with a dot, and so are binary files of any name. Follows
// links, but not into a folder that contains them. Throws Error for a missing path, for a given
// file that is a table or binary, and if there is no text.
TextFiles find_text_files(const std::vector<std::string>& paths);

// The reason why a file is a table, by its extension .csv, .tsv or .parquet, and what to do
// instead; empty for other files.
std::string table_because(const std::filesystem::path& file);

// True for a file if its extension says that it has lines of JSON: .jsonl, .ndjson or .json, also
// with .gz at the end.
bool holds_json_lines(const std::filesystem::path& path);

// True for a file of text, by its name, that does not have lines of JSON. Also true for a folder
// that contains only such files and .jsonl and .ndjson files.
bool holds_texts(const std::filesystem::path& path);
// Like holds_json_lines(), but checks the name only; the file need not exist.
bool has_json_lines(const std::filesystem::path& path);

// A shell command that converts a file of this name to UTF-8, for error messages.
std::string converted(const char* encoding, const std::string& name);

}  // namespace accrue
