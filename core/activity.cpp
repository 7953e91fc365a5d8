#include "core/activity.h"

#include <utility>

namespace accrue {

Activity::~Activity() {
  if (!thread_.joinable()) return;
  if (!is_done_) {
    is_to_end_ = true;
    may_run_.release();
  }
  thread_.join();
}

void Activity::resume() {
  if (thread_.joinable()) may_run_.release();
  else thread_ = std::thread([this] { run(); });
  has_paused_.acquire();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Activity::run() {
  try {
    const MemoryScope scope(phase_, label_);
    body_();
  } catch (const Ended&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  body_ = nullptr;
  is_done_ = true;
  has_paused_.release();
}

void Activity::suspend() {
  has_paused_.release();
  may_run_.acquire();
  if (is_to_end_) throw Ended();
}

}  // namespace accrue
