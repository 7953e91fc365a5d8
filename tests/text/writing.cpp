// Writing by a language model, without the program: functions receive the texts and answers, and
// notices the messages.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/domains.h"
#include "apps/domains.h"
#include "job/load_data.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "text/chat_writer.h"
#include "text/domain.h"
#include "text/writing_model.h"
#include "train/weights.h"

namespace accrue::test {
namespace {

// Collects the messages, one line each, warnings with "! " in front.
struct Heard {
  std::vector<std::string> lines;
  Notices notices{[this](Notices::Kind kind, std::string_view text) {
    lines.push_back((kind == Notices::Kind::warning ? "! " : "") + std::string(text));
  }};
};

// The request for a small GPT of bytes, with random weights that it saves.
Request tiny_model(const TemporaryDirectory& folder, int64_t positions) {
  Request made(all_domains());
  made.model_name = "gpt-tiny";
  made.domains.get<Text>().sizes = {.layers = 1, .heads = 1, .width = 8, .positions = positions};
  const SampleSpec rows = Text::rows_of_tokens(positions, 257);
  const auto model = made.factory(rows)();
  const Parameters parameters =
      place(*model, DType::f32, Device::cpu, 7, GradientStorage::on_demand);
  Request request(all_domains());
  request.init = (folder.path() / "w.safetensors").string();
  request.device = Device::cpu;
  write_safetensors(request.init, named_tensors(parameters), made.metadata_of(rows));
  return with_settings_of_weights(request, {});
}

}  // namespace

TEST_CASE("a model hands on its prompt and each piece that it writes", "[text]") {
  const TemporaryDirectory folder;
  Heard heard;
  WritingModel model(tiny_model(folder, 16), "", heard.notices);
  REQUIRE(model.positions() == 16);
  std::vector<std::string> pieces;
  const auto take = [&](const std::string& text) { pieces.push_back(text); };
  model.write("ab", 5, {.temperature = 0}, take);
  REQUIRE(pieces.size() == 6);
  REQUIRE(pieces.front() == "ab");
  const std::vector<std::string> first = std::exchange(pieces, {});
  model.write("ab", 5, {.temperature = 0}, take);
  REQUIRE(pieces == first);
  // A text that would be too long is refused before anything is written.
  pieces.clear();
  REQUIRE_ERROR(model.write("ab", 15, {}, take), "2 tokens and --tokens 15 are 17");
  REQUIRE(pieces.empty());
  REQUIRE(heard.lines.empty());
}

TEST_CASE("answers join their chats, and notices say how they are drawn", "[text]") {
  const TemporaryDirectory folder;
  Heard heard;
  WritingModel model(tiny_model(folder, 256), "", heard.notices);
  ChatWriter as_made(model, {.tokens = 3}, heard.notices);
  REQUIRE(heard.lines ==
          std::vector<std::string>{
              "the tokenizer 'bytes' has no chat template: messages are written as ChatML",
              "tokens are drawn as by generate() with the model's files: the likeliest token each "
              "time"});
  std::string parts;
  const auto take = [&](const std::string& part) { parts += part; };
  Chat chat = Chat::begun_by("Be brief.");
  chat.ask("a", "line 1");
  REQUIRE(as_made.answer(chat, take) == 3);
  REQUIRE(chat.record["messages"].size() == 3);
  REQUIRE(chat.record["messages"][0]["role"] == "system");
  REQUIRE(chat.record["messages"][2]["role"] == "assistant");
  // A second question continues the chat.
  chat.ask("b", "line 2");
  as_made.answer(chat, take);
  REQUIRE(chat.record["messages"].size() == 5);
  REQUIRE_ERROR(chat.ask("\xfc", "line 3"), "line 3 is not UTF-8");
  // In a chat with ShareGPT's names, the answer has them, too.
  const auto file =
      folder.write("c.json", R"({"conversations": [{"from": "human", "value": "a"}]})");
  std::vector<Chat> chats = chats_in(file.string());
  REQUIRE(chats.size() == 1);
  as_made.answer(chats[0], take);
  REQUIRE(chats[0].record["conversations"][1]["from"] == "gpt");
  // A sampling that the user asks for needs no notice.
  heard.lines.clear();
  const ChatWriter as_asked(model, {.tokens = 3, .sampling = Sampling{}}, heard.notices);
  REQUIRE(heard.lines.size() == 1);
}

}  // namespace accrue::test
