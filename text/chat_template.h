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

// The template with which the makers of a model wrote chats. Jinja2 renders it in a python3 process
// as apply_chat_template() of transformers does: in a sandbox, and with the tools, documents and
// chat_template_kwargs of a record.
class detail::ChatTemplate {
 public:
  // Reads the template from chat_template.jinja among the files of a tokenizer, or from
  // chat_template in its tokenizer_config.json, with the special tokens that these files name.
  // Returns nothing if there is no template. Error messages attribute it to `name`.
  static std::optional<ChatTemplate> in(const std::map<std::string, std::string>& files,
                                        const std::string& name);

  // Reads the templates additional_chat_templates/NAME.jinja that transformers stores beside
  // chat_template.jinja. If there are any, moves all templates into chat_template of
  // tokenizer_config.json, by name.
  static void take_additional(const std::filesystem::path& folder,
                              std::map<std::string, std::string>& files);

  struct Task {
    TextDocument::Chat chat;
    std::string where;
  };
  struct Written {
    std::vector<TextDocument::Part> parts;   // one text
    std::vector<std::string> unheeded;       // names of fields that do not change it
    std::map<std::string, int64_t> control;  // spellings in messages, and how often
    int64_t endless = 0;                     // learned answers that lack their end
  };
  // Writes each chat. If the template marks answers with {% generation %}, the marked text is
  // learned. Otherwise a message is learned by comparing two renderings: one up to and including
  // the message, and one of the messages before it with the beginning of an answer. The text that
  // the first adds to the second is learned, except for an eos_token that the template writes only
  // after the last message of a chat.
  // Throws Error if python3 or Jinja2 is missing. Throws Error that names the task if the template
  // refuses its messages, or if the rendering of the first messages is not the beginning of the
  // rendering of all messages.
  std::vector<Written> write(const std::vector<Task>& tasks,
                             const ControlWords& control = {}) const;

  // Identifies the template.
  std::string checksum() const;
  // The template's rendering of a record (JSON) with messages, and the beginning of an answer.
  // Throws Error in the same cases.
  ChatPrompt prompt(const std::string& record, const std::string& where) const;

 private:
  ChatTemplate(std::string head, std::string name)
      : head_(std::move(head)), name_(std::move(name)) {}
  // The output of the process for this number of input lines: one line of JSON for each.
  std::string rendered(size_t lines, const ControlWords& control,
                       const std::function<std::string(size_t)>& line) const;

  std::string head_, name_;  // the first line that the process reads
};

}  // namespace accrue
