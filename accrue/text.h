#pragma once

// Texts and language models.
//
//     const Datasets rows = rows_of(grammar_corpora(), {.context = 64});
//     options.model = [] { return make_text_model(text_model("gpt-tiny")); };
//     options.objective = language_modeling();

#include "text/grammar.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "text/rows.h"
#include "text/text_pairs.h"
