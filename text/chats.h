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
// It has parts, or of ChatForm::own a chat to be written. What a form does not write of a message
// goes to `unused`. Throws Error, which begins with `where`, for what is no chat, and for tools
// that a form cannot call.
TextDocument document_of_chat(const nlohmann::json& record, const std::string& line, ChatForm form,
                              const std::string& where, std::map<std::string, int64_t>& unused);

// A prompt with one of its answers, of which all is learned that the answer adds. Both are lists of
// messages, also in ShareGPT's names, and the answer may be a text, that of the assistant. `record`
// is the one that they are from.
TextDocument document_of_answer(const nlohmann::json& record, const nlohmann::json& prompt,
                                const nlohmann::json& answer, ChatForm form,
                                const std::string& where, std::map<std::string, int64_t>& unused);

// A record as document_of_chat() takes it, as far as the assistant is to go on. Throws Error also
// if its last message is an answer already.
ChatPrompt prompt_of_chat(const nlohmann::json& record, const ChatWriting& chats,
                          const std::string& where);

// The tokens that frame a message in this form; none of ChatForm::own.
const std::vector<std::string>& marks_of(ChatForm form);
// Why chats cannot be written in this form: a mark that is no token. Bytes have none but bytes.
std::string missing_mark(ChatForm form, const TokenizerFiles& tokenizer);

}  // namespace accrue
