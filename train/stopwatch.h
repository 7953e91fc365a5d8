#pragma once

#include <chrono>

namespace accrue::detail {

// Adds up the time of a run, without the time of others that run in between, such as a score.
class Stopwatch {
 public:
  double seconds() const {
    const Clock::duration since = is_running_ ? Clock::now() - since_ : Clock::duration::zero();
    return std::chrono::duration<double>(before_ + since).count();
  }

  // The stopwatch runs while this object lives.
  class Running {
   public:
    explicit Running(Stopwatch& watch) : watch_(watch) { watch_.start(); }
    ~Running() { watch_.stop(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Stopwatch& watch_;
  };
  // A running stopwatch pauses while this object lives.
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
