#pragma once

#include <chrono>

namespace accrue::detail {

// Adds up the time of a run but for that of others who have their turn in it, such as a score.
class Stopwatch {
 public:
  double seconds() const {
    const Clock::duration since = is_running_ ? Clock::now() - since_ : Clock::duration::zero();
    return std::chrono::duration<double>(before_ + since).count();
  }

  // While it lives, the stopwatch runs.
  class Running {
   public:
    explicit Running(Stopwatch& watch) : watch_(watch) { watch_.start(); }
    ~Running() { watch_.stop(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Stopwatch& watch_;
  };
  // While it lives, one that is running stands still.
  class Paused {
   public:
    explicit Paused(Stopwatch& watch) : watch_(watch) { watch_.stop(); }
    ~Paused() { watch_.start(); }
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    Stopwatch& watch_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void start() {
    since_ = Clock::now();
    is_running_ = true;
  }
  void stop() {
    before_ += Clock::now() - since_;
    is_running_ = false;
  }

  Clock::duration before_ = Clock::duration::zero();
  Clock::time_point since_{};
  bool is_running_ = false;
};

}  // namespace accrue::detail
