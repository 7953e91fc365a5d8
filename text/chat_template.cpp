#include "text/chat_template.h"

#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/byte_stream.h"
#include "data/filter.h"
#include "data/strict_json.h"
#include "text/special_tokens.h"

namespace accrue {
namespace embedded {
extern const std::string_view chat_template_py;
}

namespace {

using nlohmann::json;

constexpr int most_levels = 32;
constexpr int64_t most_elements = int64_t{1} << 20;

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

// Parses a line that the process has printed.
json said_by_python(std::string_view line, const std::string& where, const std::string& name) {
  const json said = parse_strict_json(std::string(line), most_levels,
                                      "what python3 said of " + where, most_elements);
  check(!said.contains("error"), "{}: the chat template of '{}': {}", where, name,
        said.value("error", ""));
  return said;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::in(const std::map<std::string, std::string>& files,
                                             const std::string& name) {
  const FilesBesideTokenizer beside = files_beside_tokenizer(files, name);
  const auto own_file = files.find("chat_template.jinja");
  const json text = own_file != files.end() ? json(own_file->second)
                                            : beside.config.value("chat_template", json());
  if (text.is_null()) return {};
  const json head{{"template", text}, {"special_tokens", special_token_names(beside)}};
  return ChatTemplate(head.dump(-1, ' ', true) + "\n", name);
}

void ChatTemplate::take_additional(const std::filesystem::path& folder,
                                   std::map<std::string, std::string>& files) {
  namespace fs = std::filesystem;
  std::error_code none;
  const auto main = files.find("chat_template.jinja");
  std::map<std::string, std::string> named;
  for (fs::directory_iterator entry(folder / "additional_chat_templates", none), end;
       !none && entry != end; entry.increment(none))
    if (entry->path().extension() == ".jinja") {
      const std::vector<std::byte> content = file_content(entry->path());
      named[entry->path().stem().string()].assign(reinterpret_cast<const char*>(content.data()),
                                                  content.size());
    }
  if (named.empty()) return;
  if (main != files.end()) {
    named["default"] = main->second;
    files.erase(main);
  }
  json config = files_beside_tokenizer(files, folder.string()).config;
  config["chat_template"] = json::array();
  for (const auto& [name, text] : named)
    config["chat_template"].push_back({{"name", name}, {"template", text}});
  files["tokenizer_config.json"] = config.dump(2);
}

std::string ChatTemplate::rendered(size_t lines, const ControlWords& control,
                                   const std::function<std::string(size_t)>& line) const {
  constexpr size_t most_bytes = size_t{1} << 30, before = 2;
  const std::string of_control = json{{"spellings", control.spellings},
                                      {"are_letters", control.become == ControlInTexts::letters}}
                                     .dump(-1, ' ', true) +
                                 "\n";
  size_t next = 0;
  const auto input = [&]() -> std::string {
    if (next >= lines + before) return "";
    if (next >= before) return line(next++ - before);
    return next++ == 0 ? head_ : of_control;
  };
  Filtered run =
      run_filter({"python3", "-c", std::string(embedded::chat_template_py)}, input, most_bytes);
  check_ran(run, name_);
  return std::move(run.output);
}

std::vector<ChatTemplate::Written> ChatTemplate::write(const std::vector<Task>& tasks,
                                                       const ControlWords& control) const {
  if (tasks.empty()) return {};
  const std::string output = rendered(tasks.size(), control, [&](size_t i) {
    const TextDocument::Chat& chat = tasks[i].chat;
    return fmt::format("{{\"record\": {}, \"learned\": {}, \"answer\": {}}}\n", chat.record,
                       json(chat.learned).dump(), chat.answer ? json(*chat.answer).dump() : "null");
  });
  std::vector<Written> all;
  std::string_view rest = output;
  for (const Task& task : tasks) {
    const std::string_view answer = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(answer.size() + 1, rest.size()));
    const json said = said_by_python(answer, task.where, name_);
    Written written;
    const json& parts = said.at("parts");
    for (size_t i = 0; i + 2 < parts.size(); i += 3) {
      TextDocument::Part part{parts[i].get<std::string>(), parts[i + 1].get<bool>()};
      for (const size_t begin : parts[i + 2].get<std::vector<size_t>>())
        part.written.push_back({begin, begin + 1});
      written.parts.push_back(std::move(part));
    }
    written.control = said.at("control").get<std::map<std::string, int64_t>>();
    written.endless = said.at("endless").get<int64_t>();
    written.unheeded = said.at("unheeded").get<std::vector<std::string>>();
    all.push_back(std::move(written));
  }
  return all;
}

std::string ChatTemplate::checksum() const {
  return fmt::format("{:08x}",
                     crc32_z(0, reinterpret_cast<const Bytef*>(head_.data()), head_.size()));
}

ChatPrompt ChatTemplate::prompt(const std::string& record, const std::string& where) const {
  const std::string answer = rendered(1, {}, [&](size_t) {
    return fmt::format("{{\"record\": {}, \"goes_on\": true}}\n", record);
  });
  const json said = said_by_python(answer, where, name_);
  return {said.at("text"), said.at("end"), said.at("unheeded")};
}

}  // namespace accrue
