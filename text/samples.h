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

// A sample that a language model wrote after a window of its training: one line with control
// characters escaped, or the reason why it wrote none.
struct WrittenSample {
  int64_t window = 0;
  std::string line{}, error{};
};

// Writes samples during the training of a language model. Every --sample-every windows the model
// continues a prompt, like WritingModel with the default Sampling but briefly, and the result goes
// to `show`, the log and TensorBoard. The training's results have the same bits with and without
// it. The prompt is Text::sample_prompt, or the beginning of the held-out data set, which is on the
// cpu. Warns if adapters have a random base. Throws Error if the data's tokenizer is unknown, and
// if the prompt is too long.
std::unique_ptr<Observer> watch_writing(const Request& request, Trainer& trainer, RunLog& log,
                                        const Dataset& held_out, const Notices& notices,
                                        std::function<void(const WrittenSample&)> show);

}  // namespace accrue
