#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"
#include "text/tokenizer.h"

namespace accrue {

// A byte-pair encoding of SentencePiece (Kudo and Richardson, "SentencePiece", 2018), as Llama 2
// and TinyLlama have it. Pieces are texts in which U+2581 stands for a space.
struct SentencePieces {
  // As SentencePiece and GGUF files number them.
  enum class Kind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

  std::string name;  // for errors
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<Kind> kinds;
  bool adds_space = true;    // before a text: add_dummy_prefix
  int32_t end_of_text = -1;  // none
  std::vector<int32_t> before_text{}, after_text{};
};

// encode() begins with the characters of a text and joins neighbours whose text is a normal piece,
// the one of the highest score first, and of equal ones the leftmost. User-defined pieces are found
// before, the longest first, and stay whole. A character that is no piece becomes the pieces of its
// bytes, <0x00> to <0xFF>, or where there are none the unknown piece, one for all in a row. These
// are SentencePiece's tokens. Otherwise than there, control tokens are found in texts, too, and
// what follows one begins anew, as in llama.cpp; a byte that is not UTF-8 is no U+FFFD, but a
// character by itself; and unused pieces are not passed on the way to longer ones.
// decode() leaves out the space that encode() adds. It spells the unknown piece " U+2047 ", as
// SentencePiece does.
// Throws Error for numbers of scores and kinds other than that of pieces, for pieces that are
// empty, there twice, or normal and longer than 1024 bytes, scores that are not finite, some bytes
// without all 256, and if there are neither bytes nor an unknown piece.
TokenizerPtr make_sentencepiece_bpe(SentencePieces pieces);
// What a tokenizer of this kind is made of; null for one of another kind.
const SentencePieces* sentencepieces_in(const Tokenizer& tokenizer);

// U+2581 as a space, and the other way round.
std::string with_plain_spaces(std::string_view piece);
std::string as_piece(std::string_view text);

}  // namespace accrue
