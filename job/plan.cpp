#include "job/plan.h"

namespace accrue {

std::string flags(const Alternative& a, const Request& request) {
  std::string text =
      fmt::format("--micro-batch {} --effective-batch {}", a.batches.micro, a.batches.effective);
  if (a.strategy != request.strategy)
    text += " --strategy " + name_in(strategy_names(), a.strategy);
  if (a.recompute != request.recompute)
    text += " --recompute " + name_in(recompute_names(), a.recompute);
  if (a.batch_norm_by != request.batch_norm_by)
    text += " --batch-norm-by " + name_in(batch_norm_by_names(), a.batch_norm_by);
  if (a.batches.piece != request.batches.piece)
    text += fmt::format(" --sequence-piece {}", a.batches.piece);
  return text;
}

}  // namespace accrue
