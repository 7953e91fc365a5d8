#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "job/notices.h"
#include "job/request.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace accrue {

// What a language model has written after a window of its training, as one line with its control
// characters as escapes; or why it has not.
struct WrittenSample {
  int64_t window = 0;
  std::string line{}, error{};
};

// Keeps an eye on a language model in training: every --sample-every windows it goes on from a
// prompt as WritingModel would by a Sampling that nothing is asked of, but briefly, for `show`, the
// log and TensorBoard. The training's results have the same bits with and without it. The prompt is
// Text::sample_prompt, or the beginning of the data set that is held out, which is on the cpu.
// Warns of adapters beside a random base. Throws Error if the data's tokenizer is not known, and
// for a prompt that is too long.
std::unique_ptr<Observer> watch_writing(const Request& request, Trainer& trainer, RunLog& log,
                                        const Dataset& held_out, const Notices& notices,
                                        std::function<void(const WrittenSample&)> show);

}  // namespace accrue
