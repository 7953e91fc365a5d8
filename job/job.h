#pragma once

#include "job/onnx.h"
#include "job/plan.h"
#include "job/score.h"
#include "job/training_run.h"

namespace accrue {

namespace detail {

// A request that resolve() (job/checks.h) has completed and checked against its caller's own
// settings.
struct ResolvedRequest {
  Request request;
};

}  // namespace detail

// A job for any caller: the command line program, Python or another C++ program. It reads what the
// file of its weights records, and checks that the settings of the request agree.
//
//   Request request(all_domains());
//   request.give("model", "cnn");
//   Job job(request);
//   TrainingRun run = job.train();
//   run.run();
//   run.score_on_test()->describe();
class Job {
 public:
  // Takes every setting of the program's training (settings_of(), job/request.h), except standard
  // output ("-") as an output and "sample-every": only the command line program supports these two.
  // `ranks`, if there are several processes, share the job and must outlive it. Throws Error as
  // resolve() does.
  explicit Job(Request asked, Notices notices = {}, Ranks* ranks = nullptr);
  Job(detail::ResolvedRequest resolved, Notices notices, detail::JobServices services);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Request& request() const { return request_; }

  // A training, ready to run. It must not outlive this job. `held_before` is the CPU memory that
  // the rest of this process holds. Throws Error.
  TrainingRun train(const Usage& held_before = {}) const;

  // Plans a training within the memory limit, or within all the memory of the device (job/plan.h).
  detail::PlannedTraining plan(const detail::RanksToPlan& ranks = {}) const;
  // The scores of the request's weights, and their answers to samples (job/score.h).
  detail::Scores score(std::optional<detail::ScoredSplit> split = {},
                       const StopRequest& stop = detail::never_stop) const;
  Tensor predict(Dataset samples, const StopRequest& stop = detail::never_stop) const;
  // Writes the network of the request's weights as an ONNX file (job/onnx.h).
  void export_onnx(const std::string& path,
                   detail::OnnxInput input = detail::OnnxInput::as_trained) const;

 private:
  Request request_;
  const Notices notices_;
  const detail::JobServices services_;
};

}  // namespace accrue
