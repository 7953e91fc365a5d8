#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "core/inside.h"
#include "core/tensor.h"
#include "text/corpus.h"
#include "text/language_model.h"
#include "train/stop.h"

namespace accrue::python {

namespace nb = nanobind;

// A caller's documents of tokens.
struct Tokens {
  CorpusPtr corpus;            // with the given vocabulary, or one that ends with the largest token
  std::optional<int64_t> row;  // the length of each document, if they are the rows of one array
};

// Tokens, or nothing if `data` is of another kind:
//   tokens             integers [L], a document; [N, L], a document in each row; or a list of
//                      documents [L]
//   (tokens, learned)  and bool of the same shapes: whether a token is to be learned, or only read
// Elements of 16 or 32 bits in C order are not copied: they must not change while the corpus lives.
// Throws Error for a document without tokens, tokens that are not in [0, vocabulary),
// and `learned` of other shapes.
std::optional<Tokens> tokens_of(nb::handle data, std::optional<int64_t> vocabulary = {});
// The logits f32 [N, T, V] on the cpu for rows [N, T], a document each, computed for `micro_batch`
// rows at a time. Throws Error for documents of several lengths, for longer documents than the
// model's context, and for tokens that the model does not know.
Tensor logits_of(const Tokens& rows, const LanguageModel& model, int64_t micro_batch, Device device,
                 const StopRequest& stop);
// The embeddings f32 [N, E] on the cpu of documents of any lengths (embed(), text/text_pairs.h).
// Throws Error for longer documents than the model's context and for tokens that it does not know.
Tensor embeddings_of(const Tokens& documents, const LanguageModel& model, int64_t micro_batch,
                     Device device, const StopRequest& stop);

}  // namespace accrue::python
