// SentencePiece's byte-pair encodings, with small vocabularies written by hand.

#include "text/sentencepiece.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/cut_texts.h"
#include "tests/support/files.h"
#include "tests/support/gguf_bytes.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_file.h"

namespace accrue::test {
namespace sentencepiece {
namespace {

using Kind = SentencePieces::Kind;
using Tokens = std::vector<int32_t>;

struct Piece {
  std::string text;
  float score = 0;
  Kind kind = Kind::normal;
};

SentencePieces pieces_of(const std::vector<Piece>& pieces) {
  SentencePieces result{.name = "small"};
  for (const auto& [text, score, kind] : pieces) {
    result.pieces.push_back(text);
    result.scores.push_back(score);
    result.kinds.push_back(kind);
  }
  return result;
}

const std::vector<Piece> letters{{"<unk>", 0, Kind::unknown},  // 0
                                 {"<s>", 0, Kind::control},
                                 {"</s>", 0, Kind::control},
                                 {"ab", -1},
                                 {"bc", -1},
                                 {"\u2581a", -2},  // 5
                                 {"aa", -3},
                                 {"cab", -4},
                                 {"a", -10},
                                 {"b", -11},
                                 {"c", -12},  // 10
                                 {"\u2581", -13},
                                 {"<u>", 0, Kind::user_defined},
                                 {"[PAD]", -1000, Kind::unused}};

std::vector<Piece> with_bytes() {
  std::vector<Piece> all = letters;
  for (int i = 0; i < 256; ++i) all.push_back({fmt::format("<0x{:02X}>", i), 0, Kind::byte});
  return all;
}
constexpr int32_t first_byte = 14;

}  // namespace

TEST_CASE("pieces are joined by their scores, and of equal ones the leftmost", "[text]") {
  SentencePieces in = pieces_of(letters);
  in.adds_space = false;
  const TokenizerPtr plain = make_sentencepiece_bpe(in);
  REQUIRE(plain->encode("abc") == Tokens{3, 10});
  REQUIRE(plain->encode("bcab") == Tokens{4, 3});
  REQUIRE(plain->encode("ccab") == Tokens{10, 7});  // c and ab
  REQUIRE(plain->encode("aaa") == Tokens{6, 8});
  REQUIRE(plain->encode("a ab a") == Tokens{8, 11, 3, 5});
  REQUIRE(plain->encode("  a") == Tokens{11, 5});
  REQUIRE(plain->encode(std::string(301, 'a')) == [] {
    Tokens tokens(150, 6);
    tokens.push_back(8);
    return tokens;
  }());
  REQUIRE(plain->encode("").empty());
  REQUIRE(plain->size() == 14);
}

TEST_CASE("a space begins a text, and is left out when it is decoded", "[text]") {
  SentencePieces in = pieces_of(with_bytes());
  in.end_of_text = 2;
  const TokenizerPtr bpe = make_sentencepiece_bpe(in);
  REQUIRE(bpe->end_of_text() == 2);
  REQUIRE(bpe->encode("a a") == Tokens{5, 5});
  REQUIRE(bpe->encode("a</s>a") == Tokens{5, 2, 5});
  REQUIRE(bpe->encode("b<u>b") == Tokens{11, 9, 12, 9});
  REQUIRE(bpe->encode("[PAD]").size() == 6);
  for (const std::string text :
       {"a a", "a</s>a", " a", "  ", "", "</s>", "\u00e9\u2603", "b<u> b", "a\xff\xc3", "\t\n"})
    REQUIRE(bpe->decode(bpe->encode(text)) == text);
  REQUIRE(bpe->encode("\u00e9") == Tokens{11, first_byte + 0xc3, first_byte + 0xa9});
  REQUIRE(bpe->decode(Tokens{2, 5, 5, 0, 5}) == "</s>a a \u2047  a");
  REQUIRE_ERROR(bpe->decode(Tokens{500}), "token 500 is outside [0, 270)");
}

TEST_CASE("a text in parts has the same pieces as the whole text", "[text]") {
  const TokenizerPtr bpe = make_sentencepiece_bpe(pieces_of(with_bytes()));
  const std::string text = "ab  cab<u> a\nb\u2581 c <u>a</s>b  \xe2\x96 aab </s> bc\u00e9 a";
  check_every_cut(*bpe, text);
  REQUIRE(bpe->encode_beginning(text, TextPlace::begins).bytes == text.rfind("</s>"));
  // A space is added at the beginning of a text, but not at the beginning of a later part.
  REQUIRE(bpe->encode("ab a") == Tokens{11, 3, 5});
  REQUIRE(bpe->encode("ab") == Tokens{11, 3});
  REQUIRE(bpe->encode(" a", TextPlace::goes_on) == Tokens{5});
  std::vector<Piece> joining = with_bytes();
  joining.push_back({"b\u2581a", -0.5});
  REQUIRE(
      make_sentencepiece_bpe(pieces_of(joining))->encode_beginning(text, TextPlace::begins).bytes ==
      0);
}

TEST_CASE("characters that are no piece are the unknown one, once in a row", "[text]") {
  const TokenizerPtr bpe = make_sentencepiece_bpe(pieces_of(letters));
  REQUIRE(bpe->encode("xyza x \xff") == Tokens{11, 0, 8, 11, 0, 11, 0});
  // "xy" is a part of a piece, but not a piece itself.
  std::vector<Piece> more = letters;
  more.push_back({"xy", -1});
  const TokenizerPtr with_part = make_sentencepiece_bpe(pieces_of(more));
  REQUIRE(with_part->encode("xyxzxx") == Tokens{11, 14, 0});
  // Words do not split a text if a piece has a space in its middle.
  more.push_back({"c\u2581a", -0.5});
  more.push_back({"c\u2581", -0.25});
  REQUIRE(make_sentencepiece_bpe(pieces_of(more))->encode("c a") == Tokens{11, 15});
}

TEST_CASE("SentencePiece models that are not whole are refused", "[text]") {
  const auto refuse = [](const std::vector<Piece>& pieces, const std::string& part) {
    REQUIRE_ERROR(make_sentencepiece_bpe(pieces_of(pieces)), part);
  };
  const auto with = [](const Piece& piece) {
    std::vector<Piece> all = letters;
    all.push_back(piece);
    return all;
  };
  refuse(with({"ab"}), "has the token 'ab' twice");
  refuse(with({""}), "token 14 is empty");
  refuse(with({"d", std::nanf("")}), "the score of token 14 is nan");
  refuse(with({std::string(1025, 'x')}), "token 14 has 1025 bytes, expected at most 1024");
  refuse(with({"<0x41>", 0, Kind::byte}), "has tokens of 1 bytes and an unknown token");
  refuse(with({"<0xG1>", 0, Kind::byte}), "is the byte '<0xG1>', expected <0x00> to <0xFF>");
  refuse(std::vector<Piece>{Piece{"a"}}, "has tokens of 0 bytes and no unknown token");
  SentencePieces in = pieces_of(letters);
  in.scores.pop_back();
  REQUIRE_ERROR(make_sentencepiece_bpe(in), "14 tokens, scores of 13 and types of 14");
  REQUIRE_ERROR(make_sentencepiece_bpe(pieces_of(letters))->end_of_text(), "has no token for the");
}

TEST_CASE("a GGUF file's SentencePiece model can be kept as a file", "[text]") {
  using B = GgufBytes;
  SentencePieces in = pieces_of(letters);
  const auto file_with = [&](const std::vector<std::string>& without = {}) {
    const auto has = [&](const char* key) {
      return std::ranges::find(without, key) == without.end();
    };
    B file;
    file.string("general.name", "not the tokenizer's").string("tokenizer.ggml.model", "llama");
    file.list<std::string>("tokenizer.ggml.tokens", B::text, in.pieces);
    if (has("scores")) file.list<float>("tokenizer.ggml.scores", B::f32, in.scores);
    std::vector<int32_t> types;
    for (const Kind kind : in.kinds) types.push_back(static_cast<int32_t>(kind));
    if (has("types")) file.list<int32_t>("tokenizer.ggml.token_type", B::i32, types);
    file.count("tokenizer.ggml.eos_token_id", 2).string("tokenizer.chat_template", "{{ x }}");
    return file;
  };
  const TemporaryDirectory directory;
  const auto read = [&](const B& bytes) {
    return read_gguf_tokenizer(GgufFile(directory.write("model.gguf", bytes.file())));
  };
  B bytes = file_with();
  bytes.add("tokenizer.ggml.add_space_prefix", B::boolean, std::string(1, '\0'));
  const TokenizerFiles found = read(bytes);
  REQUIRE(found.name() == "tokenizer.gguf");
  const TemporaryDirectory kept;
  for (const auto& [name, content] : found.files) kept.write(name, content);
  REQUIRE(GgufFile(kept.path() / "tokenizer.gguf").keys().front() == "tokenizer.chat_template");
  for (const TokenizerPtr& bpe : {found.tokenizer, read_tokenizer(kept.path()),
                                  tokenizer_with_files(kept.path().string()).tokenizer,
                                  tokenizer_at((kept.path() / "tokenizer.gguf").string())}) {
    REQUIRE(bpe->encode("ab</s> ab") == Tokens{3, 2, 11, 3});
    REQUIRE(bpe->end_of_text() == 2);
    REQUIRE(bpe->before_text() == Tokens{1});  // by itself
    REQUIRE(bpe->after_text().empty());
  }
  B without = file_with();
  without.add("tokenizer.ggml.add_bos_token", B::boolean, std::string(1, '\0'));
  REQUIRE(read(without).tokenizer->before_text().empty());
  REQUIRE(tokenizer_with_files(kept.path().string()).files == found.files);
  REQUIRE(read(file_with()).tokenizer->encode("b") == Tokens{11, 9});
  REQUIRE_ERROR(read(file_with({"scores"})), "lacks the key 'tokenizer.ggml.scores'");
  REQUIRE_ERROR(read(file_with({"types"})), "lacks the key 'tokenizer.ggml.token_type'");
  in.scores.pop_back();
  REQUIRE_ERROR(read(file_with()), "14 tokens, scores of 13");
  in = pieces_of(letters);
  in.kinds.back() = static_cast<Kind>(7);
  REQUIRE_ERROR(read(file_with()), "a token is of type 7, expected 1 to 6");
  in = pieces_of(letters);
  bytes = file_with();
  bytes.add("tokenizer.ggml.remove_extra_whitespaces", B::boolean, std::string(1, '\1'));
  REQUIRE_ERROR(read(bytes), "normalizes texts");
  bytes = file_with();
  bytes.list<uint8_t>("tokenizer.ggml.precompiled_charsmap", B::u8, {1, 2});
  REQUIRE_ERROR(read(bytes), "normalizes texts");
}

}  // namespace sentencepiece
}  // namespace accrue::test
