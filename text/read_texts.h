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

// Takes documents.
struct DocumentSink {
  // A part of a document, or the rest of that, and where it is somebody's text.
  std::function<void(std::string_view text, bool is_learned, Letters written)> add;
  std::function<void(bool with_end_of_text)> end;
  // A beginning of a part that is to be learned and goes on. Returns how many bytes are taken, the
  // others come again; it is asked with twice as many if none are.
  std::function<size_t(std::string_view text)> add_beginning{};
  // What follows is a chat, whose form alone says which tokens begin and end it.
  std::function<void()> begin_chat{};
  // A text whose tokens are those of all its parts together. Without it each part is added.
  std::function<void(const std::vector<TextDocument::Part>& parts)> add_as_one{};
};

struct TextsRead {
  int64_t bytes = 0;
  std::vector<std::string> left_alone{};
  int64_t texts_of_sample = 0;  // 1 if each document is one
  bool has_preferences = false;
  std::map<std::string, int64_t> control{};  // spellings in what templates wrote, and how often
  std::vector<std::string> warnings{};       // of files that are not UTF-8, and of templates
  int64_t chats = 0;
};

// Reads the documents of files: of .jsonl, .ndjson and .json one a line, of others one each, in
// memory that does not depend on its length as long as add_beginning() takes something. A document
// without a byte, or in which nothing is to be learned, is left alone. Throws Error, naming file
// and line, also for samples of fewer or more texts than others, and for lines that are not UTF-8.
TextsRead read_texts(const std::vector<std::filesystem::path>& files, const ChatWriting& chats,
                     const DocumentSink& sink, const FieldNames& names = {});

}  // namespace accrue
