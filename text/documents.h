#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace accrue::detail {

// How the messages of a chat become a text:
enum class ChatForm {
  own,     // as the template of the model's tokenizer writes them (text/chat_template.h)
  chatml,  // <|im_start|>role\ncontent<|im_end|>\n for each
  llama3   // <|begin_of_text|>, and <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>
           // for each, of the content without the white space around it
};
const std::map<std::string, ChatForm>& chat_form_names();

// A document as parts, each of which is made tokens by itself, as a model sees a prompt before it
// goes on from there.
struct TextDocument {
  struct Part {
    std::string text;
    bool is_learned = true;
    // Where in a chat somebody's own texts are, and not the form's; where a template wrote it, the
    // control tokens alone that messages spell, if these are to be letters.
    std::vector<ByteRange> written{};
  };
  std::vector<Part> parts{};
  // A chat has no end-of-text token, but what its form writes after the last message.
  bool has_end_of_text = true;
  // Each part is a document of its own: the texts of a sample, which are compared.
  bool is_sample = false;
  bool is_chat = false;
  // The parts are made tokens as one text, of which some tokens are learned.
  bool is_one_text = false;
  // What a template is still to write, instead of parts: a record with messages, as JSON, and the
  // numbers of those that are to be learned.
  struct Chat {
    std::string record;
    std::vector<int64_t> learned{};
    // If set, all is learned that goes beyond the messages before this one and the beginning of an
    // answer, in place of `learned`.
    std::optional<int64_t> answer{};
  };
  std::optional<Chat> chat{};
  // In place of all else: a prompt with its chosen answer, and with the rejected one.
  std::vector<TextDocument> answers{};
  bool is_answer = false;  // one of these
};

// The names in somebody's files of what is called otherwise here: {"text", "content"}.
using FieldNames = std::map<std::string, std::string>;
// Reads words such as text=content. Throws Error for any other.
FieldNames field_names(const std::vector<std::string>& words);

// The document of a line of JSON, an object with
//   text                    to be learned
//   prompt and completion   of which only the completion and the end-of-text token are
//   messages                a list of {"role", "content"}, of which the assistant's contents are,
//                           each with the token that ends it, but for messages that say "weight": 0
//                           or "train": false; or the same in ShareGPT's names, conversations with
//                           {"from", "value"}
//   instruction and output  and maybe an input: a prompt in Alpaca's words, and its completion
//   chosen and rejected     answers to a prompt, of which they, and the end-of-text token, are to
//                           be learned. The prompt is a text, or a list of messages; answers are
//                           texts or lists of messages. Without one it is what both begin with, as
//                           TRL finds it: of messages those that are equal, of texts what is,
//                           without the space at its end
//   anchor and positive     a sample of two texts, or of three with a `negative`, without
//                           end-of-text tokens; a label or score beside them has to be 1
// A value is found by the name that `names` has for its own. What nobody heeds goes to `unused`.
// Throws Error, which begins with `where`, for anything else.
TextDocument document_of_json(const std::string& line, ChatForm form, const std::string& where,
                              std::map<std::string, int64_t>& unused, const FieldNames& names = {});

class ChatTemplate;

// Spellings of control tokens, and what they become in the messages of a chat that a template
// writes.
struct ControlWords {
  std::vector<std::string> spellings{};
  ControlInTexts become = ControlInTexts::tokens;
};

// A chat up to where the assistant is to go on.
struct ChatPrompt {
  std::string text;
  std::string end{};                    // what follows an answer; empty if that is not known
  std::vector<std::string> unheeded{};  // names of what changes nothing of the text
};

// How the chats among documents are written.
struct ChatWriting {
  ChatForm form = ChatForm::chatml;
  const ChatTemplate* own = nullptr;  // of ChatForm::own
  std::string impossible{};           // why none can be written; empty if it can
  ControlWords control{};
};

// A value of JSON for an error, the text by a name in an object, and a text without the white space
// around it.
std::string shown(const nlohmann::json& value);
std::string text_in(const nlohmann::json& object, const char* name, const std::string& where);
std::string trimmed(const std::string& text);

}  // namespace accrue::detail
