#pragma once

#include "apps/domains.h"
#include "text/sampling.h"
#include "text/tokenizer.h"

namespace accrue::app {

// Every --sample-every windows a language model in training goes on from a prompt as `text write`
// without options would, but briefly: a line on the terminal, in the log and in TensorBoard. The
// training's results have the same bits with and without it.
class TextSamples : public Observer {
 public:
  // The prompt is --sample-prompt, or the beginning of the data set that is held out, which is on
  // the cpu. Throws Error if the data's tokenizer is not known, and for a prompt that is too long.
  TextSamples(const Request& options, Trainer& trainer, RunLog& log, const Dataset& held_out);
  void on_window(const Player& player) override;

 private:
  std::string written() const;

  const std::optional<int64_t> sample_every_;
  Trainer& trainer_;
  RunLog& log_;
  TokenizerPtr tokenizer_;
  std::vector<int32_t> prompt_;
  int64_t tokens_ = 0;
};

}  // namespace accrue::app
