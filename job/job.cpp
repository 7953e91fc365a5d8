#include "job/job.h"

#include "job/checks.h"

namespace accrue {

Job::Job(Request asked, Notices notices, Ranks* ranks)
    : request_(std::move(asked)), notices_(std::move(notices)) {
  resolve(request_, settings_of(request_), {}, ranks ? ranks->count() : 1, {}, notices_);
  request_.ranks = ranks;
}

Job::Job(Resolved resolved, Notices notices, Services services)
    : request_(std::move(resolved.request)),
      notices_(std::move(notices)),
      services_(std::move(services)) {}

TrainingRun Job::train(const Usage& held_before) const {
  return {request_, notices_, services_, held_before};
}

}  // namespace accrue
