#pragma once

#include <string>

#include "data/dataset.h"
#include "text/corpus.h"

namespace accrue {

namespace detail {

// The built-in corpus: short English-like documents of 50 to 300 bytes from a small grammar. What
// comes next often depends on something far back:
//   - a verb agrees in number with its subject, whatever stands between them: "The dogs near the
//     river that a king loves sleep."
//   - brackets of three kinds close in the order in which they were opened, within sentences that
//     continue after them;
//   - half of the documents are about a person with an invented name, which is spelled the same way
//     throughout the document.
// The tokens are bytes. Document i of a split depends only on (seed, split, i).
std::string grammar_document(Split split, int64_t i, uint64_t seed);

inline constexpr BuiltInOptions grammar_sizes{.train_size = 10'000, .test_size = 1'000};

}  // namespace detail

// The documents as a corpus for training and one for the test. Throws Error unless both sizes are
// at least 1.
detail::Corpora grammar_corpora(const BuiltInOptions& options = detail::grammar_sizes);

}  // namespace accrue
