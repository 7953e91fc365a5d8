#pragma once

#include "apps/text/write.h"
#include "apps/text/writing_model.h"

namespace accrue::app {

// `accrue text write --chat`: answers to lines of standard input, or to the chats in a file, as the
// model's own template writes them.
void answer_lines(WritingModel& model, const Request& options, const WriteOptions& asked);
void answer_messages(WritingModel& model, const Request& options, const WriteOptions& asked);

}  // namespace accrue::app
