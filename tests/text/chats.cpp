// Chats as texts: in built-in forms, and by a model's template.

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/potrace.h"
#include "text/chat_template.h"
#include "text/prepare.h"
#include "text/text_files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

std::string unread(const std::string& text) { return std::string(text.size(), '~'); }

// The text of the first document, and the same with the bytes that are not learned as ~.
struct WrittenChat {
  std::string text, learned;
  int64_t tokens = 0;
  std::vector<std::string> left_alone, warnings;
  std::string form, ends;  // whether each end-of-text token is learned
};

WrittenChat written(const fs::path& folder, const std::string& lines, const std::string& tokenizer,
                    std::optional<ChatForm> form = {},
                    const std::vector<std::string>& fields = {}) {
  const fs::path file = folder / "chats.jsonl";
  std::ofstream(file) << lines;
  fs::remove_all(folder / "out");
  const PreparedText made = prepare_text({.texts = {file.string()},
                                          .tokenizer = tokenizer,
                                          .chat = form,
                                          .fields = fields,
                                          .out = (folder / "out").string()});
  const TokenizerPtr spells = made.corpus->tokenizer();
  std::vector<int32_t> tokens(made.corpus->documents().ends[0]);
  made.corpus->read(tokens, 0);
  WrittenChat chat{.tokens = std::ssize(tokens),
                   .left_alone = made.left_alone,
                   .warnings = made.warnings,
                   .form = made.corpus->facts().chat};
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == spells->end_of_text()) {
      chat.ends += made.corpus->is_learned(int64_t(i)) ? '1' : '0';
      continue;
    }
    const std::string piece = spells->decode(std::span(tokens).subspan(i, 1));
    chat.text += piece;
    chat.learned += made.corpus->is_learned(int64_t(i)) ? piece : unread(piece);
  }
  return chat;
}

// Makes a tokenizer of a few tokens with a chat template, and returns its folder.
std::string tokenizer_in(const TemporaryDirectory& folder, const std::string& chat_template) {
  const std::string out = (folder.path() / "tokenizer").string();
  fs::remove_all(out);
  prepare_text({.texts = {folder.write("t.txt", "user\n\nuser\n\nassistant\n\nassistant").string()},
                .train_tokenizer = 275,
                .out = out});
  fs::remove(fs::path(out) / "corpus.json");
  if (!chat_template.empty()) folder.write("tokenizer/chat_template.jinja", chat_template);
  return out;
}

constexpr const char* one_chat =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]})";

}  // namespace

TEST_CASE("messages say which are learned, and nothing in them is passed over", "[text]") {
  const TemporaryDirectory folder;
  const auto chat_of = [&](const std::string& messages) {
    return written(folder.path(), "{\"messages\": [" + messages + "]}", "bytes");
  };
  const std::string asks = R"({"role": "user", "content": "a"}, )";
  const auto answers = [](const std::string& more) {
    return R"({"role": "assistant", "content": "b")" + more + "}";
  };
  const std::string begin = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
  const std::string both = begin + "b<|im_end|>\n" + begin;
  for (const std::string no : {"\"weight\": 0", "\"train\": false"})
    REQUIRE(chat_of(asks + answers(", " + no) + ", " + asks + answers(", \"weight\": 1")).learned ==
            unread(both) + "b<|im_end|>~");
  REQUIRE(
      chat_of(asks + answers(R"(, "reasoning_content": "because", "name": "")")).left_alone ==
      std::vector<std::string>{"values in JSON by the names reasoning_content of a message (1)"});
  REQUIRE_ERROR(chat_of(asks + answers(R"(, "tool_calls": [{"function": {}}])")),
                "line 1: a message has tool_calls, which this form of chats has no words for");
  REQUIRE_ERROR(chat_of(asks + answers(", \"weight\": 0.5")),
                "weight of a message is 0.5, expected 0 or 1");
  REQUIRE_ERROR(chat_of(R"({"role": "user", "content": "a", "train": true})"),
                "but only the assistant's are learned");
}

TEST_CASE("records by other people's names are prompts and chats", "[text]") {
  const TemporaryDirectory folder;
  const auto is = [&](const std::string& line, const std::string& learned_of, const auto& text) {
    const WrittenChat chat = written(folder.path(), line, "bytes");
    REQUIRE(chat.text == text);
    REQUIRE(chat.learned == unread(text.substr(0, text.rfind(learned_of))) + learned_of +
                                unread(text.substr(text.rfind(learned_of) + learned_of.size())));
  };
  const std::string chatml =
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n";
  is(one_chat, "Yes<|im_end|>", chatml);
  is(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]})",
     "Yes<|im_end|>", chatml);
  const std::string below = "Below is an instruction that describes a task",
                    write = ". Write a response that appropriately completes the request.\n\n";
  is(R"({"instruction": "Add.", "input": "", "output": "2"})", "2",
     below + write + "### Instruction:\nAdd.\n\n### Response:2");
  is(R"({"instruction": "Add.", "input": "1 1", "output": "2"})", "2",
     below + ", paired with an input that provides further context" + write +
         "### Instruction:\nAdd.\n\n### Input:\n1 1\n\n### Response:2");
  const auto refused = [&](const std::string& line, const std::string& part) {
    REQUIRE_ERROR(written(folder.path(), line, "bytes"), part);
  };
  refused(R"({"conversations": [{"from": "observation", "value": "x"}]})",
          "a message is from 'observation', expected human, gpt, system or tool");
  refused(R"({"conversations": [{"role": "user", "content": "x"}]})",
          "from is null, expected text");
  refused(R"({"instruction": "x"})", "has instruction: expected an object with text");
}

TEST_CASE("a form whose marks are no tokens is refused by line", "[text]") {
  const TemporaryDirectory folder;
  const std::string tokenizer = tokenizer_in(folder, "");
  REQUIRE_ERROR(written(folder.path(), std::string("\n") + one_chat, tokenizer),
                "chats.jsonl', line 2: this form of chats marks messages by <|im_start|>, which is "
                "no token of the tokenizer");
  REQUIRE_ERROR(written(folder.path(), one_chat, tokenizer, ChatForm::llama3),
                "by <|begin_of_text|>");
  REQUIRE_ERROR(written(folder.path(), one_chat, tokenizer, ChatForm::own),
                "has no chat template: expected a chat_template.jinja");
  REQUIRE_ERROR(written(folder.path(), one_chat, "bytes", ChatForm::own), "has no chat template");
}

// Skips a test if python3 or Jinja2 is missing.
#define NEEDS_JINJA                                                       \
  try {                                                                   \
    ChatTemplate::in({{"chat_template.jinja", "x"}}, "x")                 \
        ->write({{{R"({"messages": [{"role": "user"}]})", {}}, "here"}}); \
  } catch (const Error& error) {                                          \
    SKIP_LOUDLY(error.what());                                            \
  }                                                                       \
  static_assert(true)

TEST_CASE("chats are written by the template of a tokenizer", "[chats]") {
  NEEDS_JINJA;
  const TemporaryDirectory folder;
  const std::string tokenizer = tokenizer_in(folder, R"({{ bos_token }}{% for m in messages %}
[{{ m.role }}]

{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<end>
{% endfor %}{% if add_generation_prompt %}[assistant]

{% endif %})");
  folder.write("tokenizer/tokenizer_config.json", R"({"bos_token": {"content": "<s>"}})");
  const std::string begin = "<s>[user]\n\nHi<end>\n[assistant]\n\n";
  const WrittenChat one = written(folder.path(), one_chat, tokenizer);
  REQUIRE(one.text == begin + "Yes<end>\n");
  REQUIRE(one.learned == unread(begin) + "Yes<end>\n");
  REQUIRE(one.left_alone.empty());
  REQUIRE(fs::exists(folder.path() / "out/chat_template.jinja"));
  // The whole chat is tokenized as one text: a token that holds the beginning of the answer and the
  // end of the text before it is learned.
  const WrittenChat joined = written(folder.path(),
                                     R"({"messages": [{"role": "assistant",)"
                                     R"( "content": "\nx", "weight": 1, "mood": 3}]})",
                                     tokenizer);
  REQUIRE(joined.text.ends_with("\nx<end>\n"));
  REQUIRE(joined.left_alone[0] == "values in JSON by the names mood of a message (1)");
  REQUIRE(
      written(folder.path(),
              R"({"messages": [{"role": "user", "content": "Hi"},)"
              R"({"role": "assistant", "content": "A", "tool_calls": [{"z": "<&ü>", "a": 1}]}]})",
              tokenizer)
          .text == begin + R"(A[{"z": "<&ü>", "a": 1}]<end>)" + "\n");
  REQUIRE_ERROR(written(folder.path(), one_chat, tokenizer, ChatForm::chatml), "by <|im_start|>");

  const auto refused = [&](const std::string& chat_template, const std::string& part) {
    REQUIRE_ERROR(
        written(folder.path(), std::string("\n") + one_chat, tokenizer_in(folder, chat_template)),
        "line 2: the chat template of '" + (folder.path() / "tokenizer").string() + "': " + part);
  };
  refused("{{ raise_exception('no system here') }}", "no system here");
  refused("{% if %}", "Expected an expression");
  refused("{{ messages | length }}{{ messages[-1].content }}",
          "it cannot be told what is learned of message 2, because the template begins an answer");
}

TEST_CASE("answers are learned as the template writes them, or a warning says why not", "[chats]") {
  NEEDS_JINJA;
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& chat_template, const std::string& lines,
                         const std::vector<std::string>& fields = {}) {
    const std::string tokenizer = tokenizer_in(folder, chat_template);
    folder.write("tokenizer/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    return written(folder.path(), lines, tokenizer, {}, fields);
  };
  const std::string turns =
      R"({"messages": [{"role": "user", "content": "Hi", "name": null},)"
      R"( {"role": "assistant", "content": "A"}, {"role": "user", "content": "So"},)"
      R"( {"role": "assistant", "content": "B"}]})";
  // A template like Phi-3.5's, which also ends the chat.
  const std::string form =
      "{% for m in messages %}[{{ m.role[0] }}]{% if m.name is defined %}{{ m.name }}{% endif %}"
      "{{ m.content }}|{% endfor %}{% if add_generation_prompt %}[a]{% else %}{{ eos_token }}"
      "{% endif %}";
  const WrittenChat phi = write(form, turns);
  REQUIRE(phi.text == "[u]Hi|[a]A|[u]So|[a]B|");
  REQUIRE(phi.learned == unread("[u]Hi|[a]") + "A|" + unread("[u]So|[a]") + "B|");
  REQUIRE(phi.ends == "1");
  REQUIRE(phi.warnings.empty());
  // A template like Qwen3's: the empty thought before the last answer is not learned, because it
  // also begins an answer to be generated.
  const WrittenChat thought = write(
      "{% for m in messages %}[{{ m.role[0] }}]{% if m.role == 'assistant' %}<think></think>"
      "{% endif %}{{ m.content }}|{% endfor %}{% if add_generation_prompt %}[a]"
      "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
      "{% endif %}",
      turns.substr(0, turns.size() - 1) +
          R"(, "chat_template_kwargs": {"enable_thinking": false}})");
  REQUIRE(thought.learned ==
          unread("[u]Hi|[a]<think></think>") + "A|" + unread("[u]So|[a]<think></think>") + "B|");
  // A template like GLM's, whose answers have no end.
  const WrittenChat endless = write(
      "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}[a]{% endif %}",
      turns);
  REQUIRE(endless.warnings.size() == 1);
  REQUIRE(endless.warnings[0].starts_with("2 of 2 answers end with their content"));
  // A template writes JSON in the order of the line, also if fields have other names.
  const std::string tools = "{{ tools | tojson }}{{ messages[-1].content }}|";
  const WrittenChat asked =
      write("{% if add_generation_prompt %}{{ tools | tojson }}{% else %}" + tools + "{% endif %}",
            R"({"tools": [{"z": 1, "a": 2}], "chat": [{"role": "assistant",)"
            R"( "content": "A"}]})",
            {"messages=chat"});
  REQUIRE(asked.text == R"([{"z": 1, "a": 2}]A|)");
  REQUIRE(asked.form.starts_with("template "));
  REQUIRE(asked.form != phi.form);
  const WrittenChat shared =
      write("{% if add_generation_prompt %}{{ tools | tojson }}{% else %}" + tools + "{% endif %}",
            R"({"tools": [{"z": 1, "a": 2}], "conversations": [{"from": "gpt", "value": "A"}]})");
  REQUIRE(shared.text == asked.text);
  // Additional templates, which transformers keeps beside the first.
  fs::create_directories(folder.path() / "tokenizer/additional_chat_templates");
  folder.write("tokenizer/additional_chat_templates/tool_use.jinja",
               "[tools]{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string both = (folder.path() / "tokenizer").string();
  REQUIRE(written(folder.path(),
                  R"({"tools": [{}], "messages": [{"role": "assistant", "content": "A",)"
                  R"( "weight": 1}, {"role": "user", "content": "x"}]})",
                  both, {})
              .text == "[tools]Ax");
}

TEST_CASE("fields of a file may have other names, and tables are refused", "[text]") {
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& line, const std::vector<std::string>& fields) {
    return written(folder.path(), line, "bytes", {}, fields);
  };
  REQUIRE(write(R"({"content": "ab"})", {"text=content"}).text == "ab");
  const WrittenChat pair =
      write(R"({"q": "ab", "a": "cd", "prompt": "?"})", {"prompt=q", "completion=a"});
  REQUIRE(pair.text == "abcd");
  REQUIRE(pair.left_alone == std::vector<std::string>{"values in JSON by the names prompt (1)"});
  REQUIRE(pair.form.empty());
  REQUIRE(write(R"({"log": [{"role": "assistant", "content": "A"}]})", {"messages=log"}).form ==
          "chatml");
  REQUIRE_ERROR(write("{}", {"text"}), "the field 'text': expected NAME=NAME_IN_THE_FILE");
  REQUIRE_ERROR(write("{}", {"txt=a"}), "such as text=content, of anchor, ");
  for (const char* name : {"a.csv", "a.tsv", "a.parquet"})
    REQUIRE(table_because(name).find("a.jsonl") != std::string::npos);
}

TEST_CASE("an error names the missing program that renders templates", "[chats]") {
  const TemporaryDirectory folder;
  const std::string tokenizer = tokenizer_in(folder, "x");
  const auto refused = [&](const std::string& part) {
    REQUIRE_ERROR(written(folder.path(), one_chat, tokenizer), part);
  };
  fs::create_directory(folder.path() / "programs");
  const SearchedFirst nothing(folder.path() / "programs", true);
  refused("in python3, which is not on the PATH: apt-get install python3-jinja2");
  folder.write("programs/python3", "#!/bin/sh\nexit 3\n");
  fs::permissions(folder.path() / "programs/python3", fs::perms::owner_all);
  refused("which the python3 on the PATH lacks: apt-get install python3-jinja2");
}

}  // namespace accrue::test
