#include "text/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/filter.h"
#include "data/strict_json.h"

namespace accrue {
namespace embedded {
extern const std::string_view chat_template_py;
}

namespace {

using nlohmann::json;

constexpr int most_levels = 32;
constexpr int64_t most_elements = int64_t{1} << 20;

// What is in this file; an empty object if there is none.
json object_in(const std::map<std::string, std::string>& files, const char* file,
               const std::string& name) {
  const auto found = files.find(file);
  if (found == files.end()) return json::object();
  json value = parse_strict_json(found->second, most_levels, fmt::format("{} of '{}'", file, name),
                                 most_elements);
  check(value.is_object(), "{} of '{}' is no object", file, name);
  return value;
}

// A text, or an object with it as its content.
json special_tokens_of(const json& config) {
  json result = json::object();
  for (const auto& [key, value] : config.items()) {
    const json content = value.is_object() ? value.value("content", json()) : value;
    if (key.ends_with("_token") && content.is_string()) result[key] = content;
  }
  return result;
}

void check_ran(const Filtered& run, const std::string& name) {
  constexpr int no_jinja = 3;  // chat_template.py
  constexpr const char* to_do =
      "apt-get install python3-jinja2, or have chats written in another form than the template's";
  check(run.status != 127,
        "the chat template of '{}' is rendered by Jinja2 in python3, which is not on the PATH: {}",
        name, to_do);
  check(run.status != no_jinja,
        "the chat template of '{}' is rendered by Jinja2, which the python3 on the PATH lacks: {}",
        name, to_do);
  check(run.status == 0, "the chat template of '{}' cannot be rendered: python3 ended with {}: {}",
        name, run.status, run.errors);
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::in(const std::map<std::string, std::string>& files,
                                             const std::string& name) {
  const json config = object_in(files, "tokenizer_config.json", name);
  json special = special_tokens_of(object_in(files, "special_tokens_map.json", name));
  special.update(special_tokens_of(config));
  const auto own_file = files.find("chat_template.jinja");
  const json text =
      own_file != files.end() ? json(own_file->second) : config.value("chat_template", json());
  if (text.is_null()) return {};
  const json head{{"template", text}, {"special_tokens", special}};
  return ChatTemplate(head.dump(-1, ' ', true) + "\n", name);
}

std::vector<ChatTemplate::Written> ChatTemplate::write(const std::vector<Task>& tasks) const {
  if (tasks.empty()) return {};
  constexpr size_t most_bytes = size_t{1} << 30;
  size_t next = 0;
  const auto line = [&]() -> std::string {
    if (next > tasks.size()) return "";
    if (next++ == 0) return head_;
    const TextDocument::Chat& chat = tasks[next - 2].chat;
    return fmt::format("{{\"record\": {}, \"learned\": {}, \"answer\": {}}}\n", chat.record,
                       json(chat.learned).dump(), chat.answer ? json(*chat.answer).dump() : "null");
  };
  const Filtered run =
      run_filter({"python3", "-c", std::string(embedded::chat_template_py)}, line, most_bytes);
  check_ran(run, name_);
  std::vector<Written> all;
  std::string_view rest = run.output;
  for (const Task& task : tasks) {
    const std::string_view answer = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(answer.size() + 1, rest.size()));
    const json said = parse_strict_json(std::string(answer), most_levels,
                                        "what python3 said of " + task.where, most_elements);
    check(!said.contains("error"), "{}: the chat template of '{}': {}", task.where, name_,
          said.value("error", ""));
    Written written;
    const json& parts = said.at("parts");
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      written.parts.push_back({parts[i].get<std::string>(), parts[i + 1].get<bool>()});
    written.unheeded = said.at("unheeded").get<std::vector<std::string>>();
    all.push_back(std::move(written));
  }
  return all;
}

}  // namespace accrue
