#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/profile.h"
#include "data/atomic_file.h"
#include "job/request.h"
#include "train/observer.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace accrue::detail {

// Services that the caller of a job provides: checking and writing outputs, measuring the machine's
// rates, and watching a training.
struct JobServices {
  // Throws Error if the output of this name cannot be written. An empty name means no output.
  std::function<void(const std::string& name)> check = [](const std::string& name) {
    if (!name.empty()) check_writable(name);
  };
  // Writes all of an output at once.
  std::function<void(const std::string& name, std::string_view text)> write =
      [](const std::string& name, std::string_view text) { write_text_atomically(name, text); };
  // For an output that is not a file, such as standard output or a pipe: returns a function that
  // takes lines. Returns null for a file.
  std::function<std::function<void(std::string_view)>(const std::string& name)> lines_to =
      [](const std::string&) { return nullptr; };
  // The rates of the machine, which a profile compares its kernels with; 0 if nobody measures them.
  std::function<MachineRates(Device, DType)> rates = [](Device, DType) { return MachineRates(); };
  // Makes an observer of the training of the requested model; if null, there is none. `held_out`,
  // the test data, lies on the cpu.
  std::function<std::unique_ptr<Observer>(const Request&, Trainer&, RunLog&,
                                          const Dataset& held_out)>
      watch{};
};

}  // namespace accrue::detail
