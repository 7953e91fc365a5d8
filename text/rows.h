#pragma once

#include <map>
#include <string>

#include "data/dataset.h"
#include "text/corpus.h"

namespace accrue {

// How documents become rows of T tokens, of which each has the next one as its label. The last
// token of a document is thus only a label. A longer document is cut into pieces of T tokens, of
// which the next one continues with the label of the last.
enum class DocumentRows {
  // Whole documents or pieces side by side, and padding. Of at most open_rows rows that have room
  // left, a piece comes into the one with the least room that suffices (best fit); where none has
  // room the fullest makes way for a new one.
  packed,
  padded,  // one document or piece in each row, and padding
  // All documents as one, cut every T tokens, as GPT-2 was trained: documents see their
  // predecessors.
  stream
};

namespace detail {

const std::map<std::string, DocumentRows>& document_rows_names();

inline constexpr int64_t open_rows = 64;

// What becomes of an answer that ends beyond the row in which its document begins. An answer is a
// run of tokens that are to be learned, in a document that has others, too, such as a prompt's.
enum class LongAnswers {
  leave_out,  // it is not learned
  cut         // what of it is in that row is
};
const std::map<std::string, LongAnswers>& long_answers_names();

}  // namespace detail

// How documents become rows.
struct RowOptions {
  using LongAnswers = detail::LongAnswers;
  int64_t context = 1024;  // T
  DocumentRows documents = DocumentRows::packed;
  LongAnswers long_answers = LongAnswers::leave_out;  // but of a stream
};

// Data sets of rows, for training and the test (CorpusFacts::hold_out), all of i32 [N, T], which
// are read from the corpus when they are needed:
//   tokens     in [0, vocabulary); padding is the end-of-text token
//   labels     the next token; not_judged (kernels/judged.h) for padding, and where the next token
//              is not to be learned (Corpus::is_learned)
//   positions  of a token within its document or piece; of a stream, in its row. t - positions[t]
//              is where the document of token t begins in the row. 0 for padding, of which each
//              token is a document of its own.
// The same documents stand side by side in each epoch; it is their rows that are shuffled. A longer
// document with answers is one piece, up to the last token that is learned there: what is beyond
// would be learned without its question. All of it is for training, or for the test. Rows take 12
// bytes of memory each, and 8 for each piece beyond the first.
// A corpus of samples of P texts (CorpusFacts::texts_of_sample) has a row for each, whose texts
// stand side by side, cut to T / P tokens; its first text says whether it is held out. In place of
// labels these have
//   lengths    i32 [N, P]: the tokens of each text; padding follows them
//   texts      i32 [N, 2 P]: if some are equal, a number for each as two digits of text_digit,
//              which those equal to it have, too, in both data sets; 0 for one that no other is
//              equal to
// Preferences (CorpusFacts::has_preferences) have a row for each sample, too, whose second text
// begins in its middle, and
//   answers    i32 [N, T]: labels, of what is the answer alone
// A sample with a longer text is left out. The prompt says whether it is held out.
// Throws Error unless 1 <= T < 2^24 and P <= T, and where there are no rows for the training or for
// the test.
Datasets rows_of(const detail::Corpora& corpora, const RowOptions& options);

namespace detail {

// How many answers there are, for training and the test, and how many are longer than a row; none
// of a stream, whose rows cut all.
struct AnswerCounts {
  int64_t all = 0, longer = 0;
};
AnswerCounts count_answers(const Corpora& corpora, const RowOptions& options);

inline constexpr int32_t text_digit = 4096;
// How many samples of texts have a positive that is the positive of another, or a negative, too.
int64_t samples_with_equal_positives(const Dataset& data);

}  // namespace detail

}  // namespace accrue
