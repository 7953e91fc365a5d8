#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "text/documents.h"

namespace accrue {

// The template by which a model's makers wrote chats, rendered by Jinja2 in a process of python3,
// as apply_chat_template() of transformers renders it: in a sandbox, and with tools, documents and
// chat_template_kwargs where a record has them.
class detail::ChatTemplate {
 public:
  // The chat_template.jinja among the files of a tokenizer, or the chat_template of its
  // tokenizer_config.json, with the special tokens that these files name; nothing if they have
  // none. Errors call it that of `name`.
  static std::optional<ChatTemplate> in(const std::map<std::string, std::string>& files,
                                        const std::string& name);

  // Takes what transformers keeps beside chat_template.jinja, additional_chat_templates/NAME.jinja:
  // all are then the chat_template of tokenizer_config.json, by name.
  static void take_additional(const std::filesystem::path& folder,
                              std::map<std::string, std::string>& files);

  struct Task {
    TextDocument::Chat chat;
    std::string where;
  };
  struct Written {
    std::vector<TextDocument::Part> parts;   // one text
    std::vector<std::string> unheeded;       // names of what changes nothing of it
    std::map<std::string, int64_t> control;  // that messages spell, and how often
    int64_t endless = 0;                     // answers that are learned without what ends them
  };
  // Writes each. What is learned of a message is what the template marks by {% generation %}, or
  // else what it writes of the messages up to this one beyond what it writes of those before and
  // the beginning of an answer, but for an eos_token that the template writes behind the last
  // message alone. Throws Error where python3 or Jinja2 is missing and, naming the
  // task, where the template refuses its messages or does not begin to write all as it writes the
  // first of them.
  std::vector<Written> write(const std::vector<Task>& tasks,
                             const ControlWords& control = {}) const;

  // Tells it from other templates.
  std::string checksum() const;
  // What it writes of a record with messages, given as JSON, and the beginning of an answer. Throws
  // Error in the same cases.
  ChatPrompt prompt(const std::string& record, const std::string& where) const;

 private:
  ChatTemplate(std::string head, std::string name)
      : head_(std::move(head)), name_(std::move(name)) {}
  // What the process prints of so many lines of JSON, a line each.
  std::string rendered(size_t lines, const ControlWords& control,
                       const std::function<std::string(size_t)>& line) const;

  std::string head_, name_;  // the first line that the process reads
};

}  // namespace accrue
