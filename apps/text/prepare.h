#pragma once

#include "text/prepare.h"
#include "train/settings.h"

namespace accrue::app {

// `accrue text prepare`: writes the files that prepare_text() makes.
Settings settings_of(PrepareTextOptions& texts);
void prepare_corpus(const PrepareTextOptions& texts);

}  // namespace accrue::app
