#include "job/job.h"

#include "core/inside.h"
#include "job/checks.h"

namespace accrue {
namespace {

// Throws Error for settings that need more services than a job has by itself.
void check_without_services(const Request& request) {
  for (const Setting& setting : settings_of(request))
    check(!setting.is_output() || setting.text() != "-",
          "--{} -: a job has no standard output: expected the name of a file", setting.about.name);
  check(!request.sample_every,
        "--sample-every: only the command line program observes a job: "
        "expected no --sample-every, and your own observer");
}

}  // namespace

Job::Job(Request asked, Notices notices, Ranks* ranks)
    : request_(std::move(asked)), notices_(std::move(notices)) {
  check_without_services(request_);
  resolve(request_, settings_of(request_), {}, ranks ? ranks->count() : 1, {}, notices_);
  request_.ranks = ranks;
}

Job::Job(ResolvedRequest resolved, Notices notices, JobServices services)
    : request_(std::move(resolved.request)),
      notices_(std::move(notices)),
      services_(std::move(services)) {}

TrainingRun Job::train(const Usage& held_before) const {
  return {request_, notices_, services_, held_before};
}

PlannedTraining Job::plan(const RanksToPlan& ranks) const {
  return plan_training(request_, ranks, notices_);
}

Scores Job::score(std::optional<ScoredSplit> split, const StopRequest& stop) const {
  return score_of(request_, split, notices_, stop);
}

Tensor Job::predict(Dataset samples, const StopRequest& stop) const {
  return answers_of(request_, std::move(samples), notices_, stop);
}

void Job::export_onnx(const std::string& path, OnnxInput input) const {
  accrue::export_onnx(request_, path, input, notices_);
}

}  // namespace accrue
