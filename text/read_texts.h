#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"
#include "text/documents.h"

namespace accrue {

// Receives documents.
struct DocumentSink {
  // Receives a part of a document, or the rest of a part, and the ranges in it that users wrote.
  std::function<void(std::string_view text, bool is_learned, Letters written)> add;
  std::function<void(bool with_end_of_text)> end;
  // Receives the beginning of a part that is to be learned and continues. Returns how many bytes
  // are consumed; the next call begins with the others. If no bytes are consumed, the next call has
  // twice as many.
  std::function<size_t(std::string_view text)> add_beginning{};
  // Announces a chat. Its form alone determines which tokens begin and end it.
  std::function<void()> begin_chat{};
  // Receives a text whose parts are to be tokenized together. If it is not set, the parts are added
  // one by one.
  std::function<void(const std::vector<TextDocument::Part>& parts)> add_as_one{};
};

struct TextsRead {
  int64_t bytes = 0;
  std::vector<std::string> left_alone{};
  int64_t texts_of_sample = 0;  // 1 if each document stands for itself
  bool has_preferences = false;
  std::map<std::string, int64_t> control{};  // spellings in the output of templates, and how often
  std::vector<std::string> warnings{};       // about files that are not UTF-8, and about templates
  int64_t chats = 0;
};

// Reads the documents of files. Each line of a .jsonl, .ndjson or .json file is a document; every
// other file is a single document. Memory does not depend on a file's length as long as
// add_beginning() consumes bytes. Empty documents and documents with nothing to learn are left out.
// Throws Error, which names the file and the line, also for samples with different numbers of
// texts, and for lines that are not UTF-8.
TextsRead read_texts(const std::vector<std::filesystem::path>& files, const ChatWriting& chats,
                     const DocumentSink& sink, const FieldNames& names = {});

}  // namespace accrue
