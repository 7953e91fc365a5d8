#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/inside.h"

namespace accrue {

// The files of texts that were found, and in words what was left alone.
struct TextFiles {
  std::vector<std::filesystem::path> files{};
  std::vector<std::string> left_alone{};
};

// Finds files of texts: these paths, and what lies in folders among them or below, in the natural
// order of their names. In folders these are files of text, markup and source code and lines of
// JSON by their extensions, which .gz may follow. What else lies there, including names that begin
// with a dot and corpora, is left alone, and so are binary files by any name. Links are followed,
// but not to where they are. Throws Error for a path that is not there, for a file that is a table
// or binary, and where there is no text.
TextFiles find_text_files(const std::vector<std::string>& paths);

// Why a file is a table by its name, .csv, .tsv or .parquet, and what to do instead; nothing for
// any other.
std::string table_because(const std::filesystem::path& file);

// True for a file with lines of JSON by its name, .jsonl, .ndjson or .json, which .gz may
// follow.
bool holds_json_lines(const std::filesystem::path& path);

// True for a file of text by its name but JSON lines, and for a folder that has these, and lines of
// JSON that say so by their names (.jsonl, .ndjson), alone.
bool holds_texts(const std::filesystem::path& path);
// The first by the name alone, whatever is there.
bool has_json_lines(const std::filesystem::path& path);

// How a program makes UTF-8 of a file of this name, for errors.
std::string converted(const char* encoding, const std::string& name);

}  // namespace accrue
