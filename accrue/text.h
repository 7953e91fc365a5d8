#pragma once

// Texts and language models.

#include "text/grammar.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "text/rows.h"
#include "text/text_pairs.h"
