#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"
#include "text/tokenizer.h"

namespace accrue {

// A byte-pair encoding of SentencePiece (Kudo and Richardson, "SentencePiece", 2018), as used by
// Llama 2 and TinyLlama. Pieces are texts in which U+2581 stands for a space.
struct SentencePieces {
  // The numbers are those in files of SentencePiece and GGUF.
  enum class Kind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

  std::string name;  // for errors
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<Kind> kinds;
  bool adds_space = true;    // add_dummy_prefix: put a space before a text
  int32_t end_of_text = -1;  // none
  std::vector<int32_t> before_text{}, after_text{};
};

// encode() splits a text into characters and repeatedly joins two neighbors whose joined text is a
// normal piece: the piece with the highest score first, and among equals the leftmost. User-defined
// pieces are found before that, longest first, and stay whole. A character without a piece becomes
// the pieces of its bytes, <0x00> to <0xFF>. If there are no such pieces, a run of characters
// without pieces becomes one unknown piece. These are SentencePiece's tokens, with three
// exceptions. Control tokens are found in texts, and the text after one is encoded like the
// beginning of a text, as in llama.cpp. A byte that is not UTF-8 counts as a character by itself
// rather than U+FFFD. Unused pieces are not intermediate steps toward longer pieces.
// decode() removes the space that encode() adds. It spells the unknown piece " U+2047 ", as
// SentencePiece does.
// Throws Error if the numbers of pieces, scores and kinds differ, and if scores are not finite.
// Also throws Error for pieces that are empty, duplicate, or normal and longer than 1024 bytes, if
// only some of the 256 bytes have pieces, and if there are neither bytes nor an unknown piece.
TokenizerPtr make_sentencepiece_bpe(SentencePieces pieces);
// The pieces of a tokenizer of this kind; null for another kind.
const SentencePieces* sentencepieces_in(const Tokenizer& tokenizer);

// Replaces U+2581 with spaces, and spaces with U+2581.
std::string with_plain_spaces(std::string_view piece);
std::string as_piece(std::string_view text);

}  // namespace accrue
