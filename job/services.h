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

// What a job's door does for it, beside taking its words.
struct JobServices {
  // Throws Error if such an output cannot be written. Nothing is to be where the name is empty.
  std::function<void(const std::string& name)> check = [](const std::string& name) {
    if (!name.empty()) check_writable(name);
  };
  // Writes all of an output at once.
  std::function<void(const std::string& name, std::string_view text)> write =
      [](const std::string& name, std::string_view text) { write_text_atomically(name, text); };
  // Takes lines where they cannot be a file; nothing if they can.
  std::function<std::function<void(std::string_view)>(const std::string& name)> lines_to =
      [](const std::string&) { return nullptr; };
  // The rates of the machine, beside which a profile shows what kernels reach; 0 if nobody
  // measures.
  std::function<MachineRates(Device, DType)> rates = [](Device, DType) { return MachineRates(); };
  // Makes what looks on while the requested model is trained; if null, nothing does. `held_out`,
  // the test data, lies on the cpu.
  std::function<std::unique_ptr<Observer>(const Request&, Trainer&, RunLog&,
                                          const Dataset& held_out)>
      watch{};
};

}  // namespace accrue::detail
