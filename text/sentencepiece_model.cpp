#include "text/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace accrue {
namespace {

using nlohmann::json;

// A field of a protocol-buffers message: a number, or bytes.
struct ProtoField {
  uint64_t number = 0, value = 0;
  std::string_view bytes{};
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  bool next(ProtoField& field) {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = {.number = key >> 3};
    switch (key & 7) {
      case 0: field.value = varint(); break;
      case 1: field.value = fixed(8); break;
      case 2: field.bytes = take(varint()); break;
      case 5: field.value = fixed(4); break;
      default: fail_here();
    }
    return true;
  }

 private:
  [[noreturn]] void fail_here() const {
    fail("'{}' is no model of SentencePiece, or is damaged; copy it again", name_);
  }
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) fail_here();
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    fail_here();
  }
  uint64_t fixed(size_t bytes) {
    uint64_t value = 0;
    const std::string_view taken = take(bytes);
    std::memcpy(&value, taken.data(), bytes);  // little-endian, like the processor
    return value;
  }

  std::string_view rest_;
  const std::string& name_;
};

// The numbers of fields in sentencepiece_model.proto.
constexpr uint64_t pieces_field = 1, trainer_field = 2, normalizer_field = 3;
constexpr uint64_t model_type_field = 3, whitespace_suffix_field = 24, bos_field = 41,
                   eos_field = 42;
constexpr uint64_t charsmap_field = 2, dummy_prefix_field = 3, remove_whitespace_field = 4,
                   escape_field = 5;
constexpr uint64_t bpe = 2;

struct Model {
  SentencePieces pieces;
  uint64_t type = 1, bos = 1, eos = 2;
  bool has_suffixes = false, has_charsmap = false, removes_spaces = true, escapes_spaces = true;
};

void each_field(std::string_view bytes, const std::string& name,
                const std::function<void(const ProtoField&)>& use) {
  Message message(bytes, name);
  for (ProtoField field; message.next(field);) use(field);
}

void add_piece(std::string_view bytes, Model& model) {
  std::string piece;
  float score = 0;
  uint64_t kind = 1;
  each_field(bytes, model.pieces.name, [&](const ProtoField& field) {
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) kind = field.value;
  });
  check(1 <= kind && kind <= 6, "'{}': the piece '{}' is of type {}, expected 1 to 6",
        model.pieces.name, piece, kind);
  model.pieces.pieces.push_back(std::move(piece));
  model.pieces.scores.push_back(score);
  model.pieces.kinds.push_back(static_cast<SentencePieces::Kind>(kind));
}

Model parsed(std::string_view bytes, const std::string& name) {
  Model model;
  model.pieces.name = name;
  each_field(bytes, name, [&](const ProtoField& part) {
    if (part.number == pieces_field) add_piece(part.bytes, model);
    if (part.number == trainer_field)
      each_field(part.bytes, name, [&](const ProtoField& field) {
        if (field.number == model_type_field) model.type = field.value;
        if (field.number == whitespace_suffix_field) model.has_suffixes = field.value != 0;
        if (field.number == bos_field) model.bos = field.value;
        if (field.number == eos_field) model.eos = field.value;
      });
    if (part.number == normalizer_field)
      each_field(part.bytes, name, [&](const ProtoField& field) {
        if (field.number == charsmap_field) model.has_charsmap = !field.bytes.empty();
        if (field.number == dummy_prefix_field) model.pieces.adds_space = field.value != 0;
        if (field.number == remove_whitespace_field) model.removes_spaces = field.value != 0;
        if (field.number == escape_field) model.escapes_spaces = field.value != 0;
      });
  });
  return model;
}

// Adds the special tokens that the files beside the model name but that are not pieces, as control
// tokens after the pieces. Throws Error for other tokens unless they are unchanged pieces.
void add_named_beside(SentencePieces& model, const FilesBesideTokenizer& beside) {
  json tokenizer{{"model", {{"vocab", json::object()}}}, {"added_tokens", json::array()}};
  for (size_t i = 0; i < model.pieces.size(); ++i) tokenizer["model"]["vocab"][model.pieces[i]] = i;
  add_special_tokens(tokenizer, beside, model.name);
  json& added = tokenizer["added_tokens"];
  std::sort(added.begin(), added.end(), [](const json& a, const json& b) {
    return a["id"].get<int64_t>() < b["id"].get<int64_t>();
  });
  for (const json& token : added) {
    const std::string spelling = token["content"];
    for (const char* const flag : {"lstrip", "rstrip", "single_word"})
      check(token[flag] != true,
            "'{}': the token '{}' has {}, which is not supported beside pieces: expected the GGUF "
            "file of the model",
            model.name, spelling, flag);
    if (std::ranges::find(model.pieces, spelling) != model.pieces.end()) continue;
    check(
        token["special"] == true && token["id"] == model.pieces.size(),
        "'{}' has {} pieces, and '{}', which a file beside it names as token {}, is none of them: "
        "expected a special token with the next number, or the GGUF file of the model",
        model.name, model.pieces.size(), spelling, token["id"].dump());
    model.pieces.push_back(spelling);
    model.scores.push_back(0);
    model.kinds.push_back(SentencePieces::Kind::control);
  }
}

}  // namespace

SentencePieces read_sentencepiece_model(std::string_view bytes, const FilesBesideTokenizer& beside,
                                        const std::string& name) {
  Model model = parsed(bytes, name);
  SentencePieces& pieces = model.pieces;
  check(!pieces.pieces.empty(), "'{}' is no model of SentencePiece: it has no pieces", name);
  check(model.type == bpe, "'{}' is a model of type {}: expected {}, a byte-pair encoding", name,
        model.type, bpe);
  check(!model.has_charsmap && !model.removes_spaces && model.escapes_spaces && !model.has_suffixes,
        "'{}' changes a text before it is cut ({}), which is not supported", name,
        model.has_charsmap     ? "by a normalization"
        : model.removes_spaces ? "spaces are removed"
                               : "spaces stay spaces, or follow words");
  add_named_beside(pieces, beside);
  const auto number_of = [&](const char* named, uint64_t own) {
    const json names = special_token_names(beside);
    const auto found = std::ranges::find(pieces.pieces, names.value(named, ""));
    if (found != pieces.pieces.end()) return static_cast<int32_t>(found - pieces.pieces.begin());
    return own < pieces.pieces.size() ? static_cast<int32_t>(own) : -1;
  };
  const auto is_asked = [&](const char* flag, bool otherwise) {
    return beside.config.value(flag, json(otherwise)) == true;
  };
  if (const auto adds = beside.config.find("add_prefix_space");
      adds != beside.config.end() && adds->is_boolean())
    pieces.adds_space = adds->get<bool>();
  pieces.end_of_text = number_of("eos_token", model.eos);
  const int32_t begin = number_of("bos_token", model.bos);
  if (is_asked("add_bos_token", true) && begin >= 0) pieces.before_text = {begin};
  if (is_asked("add_eos_token", false) && pieces.end_of_text >= 0)
    pieces.after_text = {pieces.end_of_text};
  return std::move(pieces);
}

bool is_of_sentencepiece(const json& tokenizer) {
  const json model = tokenizer.is_object() ? tokenizer.value("model", json()) : json();
  return model.is_object() && model.value("byte_fallback", json(false)) == true;
}

}  // namespace accrue
