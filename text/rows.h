#pragma once

#include <map>
#include <string>

#include "data/dataset.h"
#include "text/corpus.h"

namespace accrue {

// How documents become rows of T tokens. The label of each token is the next token, so the last
// token of a document serves only as a label. A document that is too long for a row is cut into
// pieces of T tokens; the last label of a piece is the first token of the next one.
enum class DocumentRows {
  // Whole documents or pieces side by side, and padding. A piece goes into the open row with the
  // least sufficient room (best fit). At most open_rows rows are open; if a new one is needed, the
  // fullest is closed.
  packed,
  padded,  // one document or piece in each row, and padding
  // All documents as one sequence that is cut every T tokens, as GPT-2 was trained. Tokens attend
  // to the documents before them in their row.
  stream
};

namespace detail {

const std::map<std::string, DocumentRows>& document_rows_names();

inline constexpr int64_t open_rows = 64;

// The treatment of an answer that ends beyond the row in which its document begins. An answer is a
// run of tokens to be learned in a document that also has other tokens, such as a prompt.
enum class LongAnswers {
  leave_out,  // it is not learned
  cut         // the part within the row is learned
};
const std::map<std::string, LongAnswers>& long_answers_names();

}  // namespace detail

// How documents become rows.
struct RowOptions {
  using LongAnswers = detail::LongAnswers;
  int64_t context = 1024;  // T
  DocumentRows documents = DocumentRows::packed;
  LongAnswers long_answers = LongAnswers::leave_out;  // has no effect on a stream
};

// Data sets of rows for training and for the test (CorpusFacts::hold_out). All fields are i32 [N,
// T] and are read from the corpus when they are needed:
//   tokens     in [0, vocabulary); padding is the end-of-text token.
//   labels     the next token; not_judged (kernels/judged.h) for padding, and where the next token
//              is not to be learned (Corpus::is_learned).
//   positions  of a token within its document or piece; in a stream, within its row. The document
//              of token t begins at t - positions[t] in the row. 0 for padding, each token of which
//              is a document of its own.
// The arrangement of documents in rows is the same in every epoch; only the order of the rows is
// shuffled. A document with answers that is longer than a row becomes a single piece, which ends
// with the last token that is learned in its first row: the rest would be learned without its
// question. A document with answers belongs as a whole either to training or to the test. Rows take
// 12 bytes of memory each, and 8 bytes for each piece beyond the first.
// A corpus of samples of P texts (CorpusFacts::texts_of_sample) gets one row per sample. The texts
// lie side by side, each cut to T / P tokens; the hash of the first text decides whether the sample
// is held out, unless there is a test corpus of such samples. In place of labels the fields are
//   lengths    i32 [N, P]: the tokens of each text, which padding follows.
//   texts      i32 [N, 2 P], only if some texts are equal: a number for each text, as two digits in
//              base text_digit. Equal texts have the same number, also across the two data sets; a
//              text without an equal has 0.
// Preferences (CorpusFacts::has_preferences) also get one row per sample. The second text begins in
// the middle of the row. In place of labels the field is
//   answers    i32 [N, T]: the labels of the answers only.
// A sample is left out if one of its texts is too long. The hash of the prompt decides whether a
// sample is held out, unless there is a test corpus. Throws Error unless 1 <= T < 2^24 and P <= T,
// and if there are no rows for training or for the test.
Datasets rows_of(const detail::Corpora& corpora, const RowOptions& options);

namespace detail {

// The number of answers for training and for the test, and how many are longer than a row; none for
// a stream, whose rows cut all answers.
struct AnswerCounts {
  int64_t all = 0, longer = 0;
};
AnswerCounts count_answers(const Corpora& corpora, const RowOptions& options);

inline constexpr int32_t text_digit = 4096;
// The number of samples of texts whose positive is also the positive of another sample, or a
// negative.
int64_t samples_with_equal_positives(const Dataset& data);

}  // namespace detail

}  // namespace accrue
