#include "text/chats.h"

#include <set>
#include <utility>

#include "core/error.h"
#include "text/chat_template.h"

namespace accrue {
namespace {

using nlohmann::json;

bool is_nothing(const json& value) {
  return value.is_null() || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// Translates ShareGPT's names of roles.
const std::string& role_of_sharegpt(const std::string& from, const std::string& where) {
  static const std::map<std::string, std::string> roles{
      {"human", "user"},        {"user", "user"},      {"gpt", "assistant"},
      {"chatgpt", "assistant"}, {"bing", "assistant"}, {"assistant", "assistant"},
      {"system", "system"},     {"tool", "tool"}};
  const auto found = roles.find(from);
  check(found != roles.end(), "{}: a message is from '{}', expected {}", where, from,
        "human, gpt, system or tool");
  return found->second;
}

template <class Json>
Json messages_of_sharegpt(const Json& conversations, const std::string& where) {
  check(conversations.is_array() && !conversations.empty(),
        "{}: conversations is {}, expected a list of objects with from and value", where,
        shown(conversations));
  Json messages = Json::array();
  for (const Json& each : conversations) {
    check(each.is_object(), "{}: a message is {}, expected an object with from and value", where,
          shown(each));
    Json message = each;
    message["role"] = role_of_sharegpt(text_in(each, "from", where), where);
    message["content"] = text_in(each, "value", where);
    message.erase("from");
    message.erase("value");
    messages.push_back(std::move(message));
  }
  return messages;
}

// Whether a message is to be learned, by its role and its fields `weight` and `train`.
bool is_to_be_learned(const json& message, const std::string& role, const std::string& where) {
  const bool is_answer = role == "assistant";
  bool is_learned = is_answer;
  for (const char* const name : {"weight", "train"}) {
    const json value = message.value(name, json());
    if (value.is_null()) continue;
    const bool is_yes = value == true || value == 1, is_no = value == false || value == 0;
    check(is_yes || is_no, "{}: {} of a message is {}, expected 0 or 1", where, name, shown(value));
    check(is_no || is_answer,
          "{}: {} of a message of role '{}' is {}, but only the assistant's are learned", where,
          name, role, shown(value));
    is_learned &= is_yes;
  }
  return is_learned;
}

// Throws Error unless each message is an object with a role.
void check_messages(const json& messages, const std::string& where) {
  check(messages.is_array() && !messages.empty(),
        "{}: messages is {}, expected a list of objects with role and content", where,
        shown(messages));
  for (const json& message : messages) {
    check(message.is_object(), "{}: a message is {}, expected an object with role and content",
          where, shown(message));
    text_in(message, "role", where);
  }
}

// The text before a message's content, the token that ends the content, and the text after that
// token.
struct Frame {
  std::string before, end, after;
};

Frame frame_of(ChatForm form, const std::string& role) {
  if (form == ChatForm::chatml) return {"<|im_start|>" + role + "\n", "<|im_end|>", "\n"};
  return {"<|start_header_id|>" + role + "<|end_header_id|>\n\n", "<|eot_id|>", ""};
}

// Counts the fields of a message that the form does not write. Throws Error for tool calls, which
// would be part of an answer.
void look_for_unheeded(const json& message, const std::string& where,
                       std::map<std::string, int64_t>& unused) {
  static const std::set<std::string> known{"role", "content", "weight", "train"};
  for (const auto& [name, value] : message.items()) {
    if (known.contains(name) || is_nothing(value)) continue;
    check(name != "tool_calls" && name != "function_call",
          "{}: a message has {}, which this form of chats has no words for: expected the model's "
          "own template, of a tokenizer that has one",
          where, name);
    ++unused[name + " of a message"];
  }
}

// The assistant's messages from message `first` on are learned.
TextDocument document_in_form(const json& messages, size_t first, ChatForm form,
                              const std::string& where, std::map<std::string, int64_t>& unused) {
  static const std::set<std::string> roles{"system", "user", "assistant", "tool"};
  TextDocument document{.has_end_of_text = false, .is_chat = true};
  // Collects text that is not learned, up to the next text that is.
  TextDocument::Part before{form == ChatForm::llama3 ? "<|begin_of_text|>" : "", false};
  const auto write = [](TextDocument::Part& part, const std::string& content) {
    const size_t begin = part.text.size();
    part.text += content;
    part.written.push_back({begin, part.text.size()});
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    const std::string role = text_in(message, "role", where);
    check(roles.contains(role),
          "{}: a message's role is '{}', expected system, user, assistant or tool", where, role);
    look_for_unheeded(message, where, unused);
    std::string content = text_in(message, "content", where);
    if (form == ChatForm::llama3) content = trimmed(content);
    const Frame frame = frame_of(form, role);
    before.text += frame.before;
    if (i >= first && is_to_be_learned(message, role, where)) {
      document.parts.push_back(std::exchange(before, {.text = "", .is_learned = false}));
      TextDocument::Part answer;
      write(answer, content);
      answer.text += frame.end;
      document.parts.push_back(std::move(answer));
    } else {
      write(before, content);
      before.text += frame.end;
    }
    before.text += frame.after;
  }
  if (!before.text.empty()) document.parts.push_back(std::move(before));
  return document;
}

}  // namespace

TextDocument document_of_chat(const json& record, const std::string& line, ChatForm form,
                              const std::string& where, std::map<std::string, int64_t>& unused) {
  const auto conversations = record.find("conversations");
  const bool is_sharegpt = conversations != record.end();
  const json messages =
      is_sharegpt ? messages_of_sharegpt(*conversations, where) : record.at("messages");
  check_messages(messages, where);
  if (form != ChatForm::own) return document_in_form(messages, 0, form, where, unused);
  TextDocument::Chat chat{.record = line};
  for (size_t i = 0; i < messages.size(); ++i)
    if (is_to_be_learned(messages[i], messages[i]["role"], where))
      chat.learned.push_back(static_cast<int64_t>(i));
  if (is_sharegpt) {
    auto renamed = nlohmann::ordered_json::parse(line);  // keeps the order of the keys
    renamed["messages"] = messages_of_sharegpt(renamed["conversations"], where);
    renamed.erase("conversations");
    chat.record = renamed.dump();
  }
  return {.has_end_of_text = false, .is_chat = true, .chat = std::move(chat)};
}

TextDocument document_of_answer(const json& record, const json& prompt, const json& answer,
                                ChatForm form, const std::string& where,
                                std::map<std::string, int64_t>& unused) {
  const auto is_sharegpt = [](const json& list) {
    return list.is_array() && !list.empty() && list[0].is_object() && list[0].contains("from");
  };
  json messages = json::array();
  size_t first = 0;
  for (const json& each : {prompt, answer}) {
    first = messages.size();
    json added = each;
    if (each.is_string()) added = json::array({{{"role", "assistant"}, {"content", each}}});
    else if (is_sharegpt(each)) added = messages_of_sharegpt(each, where);
    check_messages(added, where);
    messages.insert(messages.end(), added.begin(), added.end());
  }
  for (size_t i = first; i < messages.size(); ++i)
    check(messages[i]["role"] != "assistant" || is_to_be_learned(messages[i], "assistant", where),
          "{}: a message of an answer is not to be learned, but preferences compare whole answers",
          where);
  TextDocument document{.has_end_of_text = false, .is_chat = true};
  if (form != ChatForm::own) {
    document = document_in_form(messages, first, form, where, unused);
  } else {
    json renamed = record;
    for (const char* const name : {"prompt", "chosen", "rejected"}) renamed.erase(name);
    renamed["messages"] = std::move(messages);
    document.chat = TextDocument::Chat{.record = renamed.dump(), .answer = int64_t(first)};
  }
  document.is_answer = true;
  return document;
}

ChatPrompt prompt_of_chat(const json& record, const ChatWriting& chats, const std::string& where) {
  check(chats.impossible.empty(), "{}: {}", where, chats.impossible);
  std::map<std::string, int64_t> unused;
  const std::string line = record.dump(-1, ' ', false, json::error_handler_t::replace);
  const TextDocument document = document_of_chat(record, line, chats.form, where, unused);
  const json written = document.chat ? json::parse(document.chat->record) : record;
  const json& messages = written.at(written.contains("messages") ? "messages" : "conversations");
  const json& last = messages.back();
  check(
      last.value("role", last.value("from", "")) != "assistant" && last.value("from", "") != "gpt",
      "{}: the last message is the assistant's: expected one that is to be answered", where);
  if (document.chat) return chats.own->prompt(document.chat->record, where);
  const Frame frame = frame_of(chats.form, "assistant");
  ChatPrompt prompt{.text = {}, .end = frame.end};
  for (const TextDocument::Part& part : document.parts) prompt.text += part.text;
  prompt.text += frame.before;
  for (const auto& [name, times] : unused) prompt.unheeded.push_back(name);
  return prompt;
}

const std::vector<std::string>& marks_of(ChatForm form) {
  static const std::map<ChatForm, std::vector<std::string>> marks{
      {ChatForm::own, {}},
      {ChatForm::chatml, {"<|im_start|>", "<|im_end|>"}},
      {ChatForm::llama3,
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}}};
  return marks.at(form);
}

std::string missing_mark(ChatForm form, const TokenizerFiles& tokenizer) {
  if (tokenizer.files.empty()) return "";
  for (const std::string& mark : marks_of(form))
    if (tokenizer.tokenizer->encode(mark).size() != 1)
      return fmt::format(
          "this form of chats marks messages by {}, which is no token of the tokenizer: expected "
          "its own template or another form",
          mark);
  return "";
}

}  // namespace accrue
