#pragma once

#include "job/onnx.h"
#include "job/plan.h"
#include "job/score.h"
#include "job/training_run.h"

namespace accrue {

namespace detail {

// A request of which resolve() (job/checks.h) has made what can be done, by the settings of a door
// of its own.
struct ResolvedRequest {
  Request request;
};

}  // namespace detail

// What every door opens: the program, Python and other programs. It knows what the weights say that
// it begins with, and that what was asked for makes sense together.
//
//   Request request(all_domains());
//   request.give("model", "cnn");
//   Job job(request);
//   TrainingRun run = job.train();
//   run.run();
//   run.score_on_test()->describe();
class Job {
 public:
  // Every setting of the program's training may be given (settings_of(), job/request.h), but for
  // standard output ("-") and "sample-every", which only the program's door can follow. `ranks`
  // share it, if there are several, and must outlive this. Throws Error as resolve() does.
  explicit Job(Request asked, Notices notices = {}, Ranks* ranks = nullptr);
  Job(detail::ResolvedRequest resolved, Notices notices, detail::JobServices services);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Request& request() const { return request_; }

  // A training, ready to run. It must not outlive this. `held_before` is the memory on the cpu that
  // others in this process hold. Throws Error.
  TrainingRun train(const Usage& held_before = {}) const;

  // What fits the memory limit, or all that there is (job/plan.h).
  detail::PlannedTraining plan(const detail::RanksToPlan& ranks = {}) const;
  // The scores of the weights that it begins with, and their answers (job/score.h).
  detail::Scores score(std::optional<detail::ScoredSplit> split = {},
                       const StopRequest& stop = detail::never_stop) const;
  Tensor predict(Dataset samples, const StopRequest& stop = detail::never_stop) const;
  // Their network as an ONNX file (job/onnx.h).
  void export_onnx(const std::string& path,
                   detail::OnnxInput input = detail::OnnxInput::as_trained) const;

 private:
  Request request_;
  const Notices notices_;
  const detail::JobServices services_;
};

}  // namespace accrue
