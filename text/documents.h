#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace accrue::detail {

// How the messages of a chat become a text.
enum class ChatForm {
  own,     // as the template of the model's tokenizer writes them (text/chat_template.h)
  chatml,  // <|im_start|>role\ncontent<|im_end|>\n for each
  llama3   // <|begin_of_text|>, then <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>
           // for each, with white space around the content removed
};
const std::map<std::string, ChatForm>& chat_form_names();

// A document as parts. Each part is tokenized by itself, just as a model sees a prompt by itself
// before it continues it.
struct TextDocument {
  struct Part {
    std::string text;
    bool is_learned = true;
    // The ranges of text that are contents of messages rather than part of the form. In text that a
    // template wrote, only the control tokens that messages spell, if these are to become letters.
    std::vector<ByteRange> written{};
  };
  std::vector<Part> parts{};
  // A chat has no end-of-text token: its form writes the end of the last message.
  bool has_end_of_text = true;
  // Each part is a document of its own: a sample of texts to be compared.
  bool is_sample = false;
  bool is_chat = false;
  // The parts are tokenized together as one text, and some of its tokens are learned.
  bool is_one_text = false;
  // A chat that a template has not written yet, instead of parts: a record with messages, as JSON,
  // and the numbers of the messages to be learned.
  struct Chat {
    std::string record;
    std::vector<int64_t> learned{};
    // If set, the number of a message. All text after the messages before it and the beginning of
    // an answer is learned, and `learned` has no effect.
    std::optional<int64_t> answer{};
  };
  std::optional<Chat> chat{};
  // If not empty, replaces all other fields: the prompt with its chosen answer, and with the
  // rejected one.
  std::vector<TextDocument> answers{};
  bool is_answer = false;  // an element of `answers`
};

// Maps the names of fields here to their names in the user's files: {"text", "content"}.
using FieldNames = std::map<std::string, std::string>;
// Reads words such as text=content. Throws Error for a word of another form.
FieldNames field_names(const std::vector<std::string>& words);

// The document of a line of JSON, an object with
//   text                    to be learned
//   prompt and completion   only the completion and the end-of-text token are learned
//   messages                a list of {"role", "content"}; the assistant's contents are learned,
//                           each with the token that ends it, unless a message says "weight": 0 or
//                           "train": false. ShareGPT's names are accepted, too: conversations with
//                           {"from", "value"}
//   instruction and output  and maybe an input: a prompt in Alpaca's words, and its completion
//   chosen and rejected     answers to a prompt; they and the end-of-text token are learned. The
//                           prompt is a text, or a list of messages; answers are texts or lists of
//                           messages. Without a prompt it is the common beginning of both answers,
//                           as TRL finds it: equal messages, or equal text without the space at its
//                           end
//   anchor and positive     a sample of two texts, or of three with a `negative`, without
//                           end-of-text tokens; a label or score beside them must be 1
// `names` gives the names under which the user's files have these values. Fields that have no
// effect are counted in `unused`. Throws Error, which begins with `where`, for any other line.
TextDocument document_of_json(const std::string& line, ChatForm form, const std::string& where,
                              std::map<std::string, int64_t>& unused, const FieldNames& names = {});

class ChatTemplate;

// Spellings of control tokens, and what they become in messages that a template writes.
struct ControlWords {
  std::vector<std::string> spellings{};
  ControlInTexts become = ControlInTexts::tokens;
};

// A chat up to the point where the assistant is to continue.
struct ChatPrompt {
  std::string text;
  std::string end{};                    // the text after an answer; empty if unknown
  std::vector<std::string> unheeded{};  // names of fields that do not change the text
};

// How the chats among the documents are written.
struct ChatWriting {
  ChatForm form = ChatForm::chatml;
  const ChatTemplate* own = nullptr;  // the template for ChatForm::own
  std::string impossible{};           // the reason why chats cannot be written; empty if they can
  ControlWords control{};
};

// A JSON value for an error message; the text under a name in an object; and a text without the
// white space around it.
std::string shown(const nlohmann::json& value);
std::string text_in(const nlohmann::json& object, const char* name, const std::string& where);
std::string trimmed(const std::string& text);

}  // namespace accrue::detail
