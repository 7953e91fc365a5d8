#pragma once

#include "job/answer_files.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// Writes the answers of a network with saved weights to each row of a table into predictions.csv.
// Classes are answered by the most probable one and the probability of each, numbers by a column
// each, in its own unit, and labels by 1 for each that is more probable than not, and its
// probability. Rows have numbers from 0 on. The table needs the columns that the network sees, and
// is seen as the weights say. Throws Error as read_questions() does, for options of images, and if
// an answer would replace a file that is read or, unless `force`, a file that the program has not
// written.
void predict_table(const Request& options, const AnswerFiles& asked, const Notices& notices);

}  // namespace accrue
