#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/inside.h"
#include "text/documents.h"
#include "text/tokenizers.h"

namespace accrue {

// The document of a record with `messages`, or with ShareGPT's `conversations`; `line` is its text.
// The document has parts or, with ChatForm::own, a chat that a template is to write. Fields of a
// message that the form does not write are counted in `unused`. Throws Error, which begins with
// `where`, if the record is not a chat, or if it has tools, which only some forms can call.
TextDocument document_of_chat(const nlohmann::json& record, const std::string& line, ChatForm form,
                              const std::string& where, std::map<std::string, int64_t>& unused);

// A prompt with one of its answers. All text that the answer adds is learned. Both are lists of
// messages, in ShareGPT's names if they use them; the answer may also be a text, which the
// assistant says. `record` is the record that contains them.
TextDocument document_of_answer(const nlohmann::json& record, const nlohmann::json& prompt,
                                const nlohmann::json& answer, ChatForm form,
                                const std::string& where, std::map<std::string, int64_t>& unused);

// The beginning of a chat that the assistant is to continue, from a record as document_of_chat()
// takes it. Throws Error also if the last message is already an answer.
ChatPrompt prompt_of_chat(const nlohmann::json& record, const ChatWriting& chats,
                          const std::string& where);

// The tokens that frame a message in this form; none for ChatForm::own.
const std::vector<std::string>& marks_of(ChatForm form);
// The reason why chats cannot be written in this form, such as a mark that is not a token; empty if
// they can. The bytes tokenizer has no marks.
std::string missing_mark(ChatForm form, const TokenizerFiles& tokenizer);

}  // namespace accrue
