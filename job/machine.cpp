#include "job/machine.h"

#include <algorithm>
#include <filesystem>

#include "core/cpus.h"
#include "core/cuda.h"
#include "core/inside.h"
#include "kernels/parallel.h"

namespace accrue {

Device wanted_device(const Request& request) {
  return request.device.value_or(cuda::unavailable_reason().empty() ? Device::cuda : Device::cpu);
}

void check_machine(const Request& request, const Settings& settings, int64_t processes) {
  const bool is_plan = settings.has("ranks"), is_on_gpu = wanted_device(request) == Device::cuda;
  const bool has_others = is_plan ? settings.at("ranks").text() != "1" : processes > 1;
  for (const Setting& setting : settings) {
    const std::string& name = setting.about.name;
    if (!request.given.contains(name)) continue;
    const auto check_effect = [&](bool has_effect, const char* here, const char* wanted) {
      check(has_effect, "--{} has no effect {}: expected {}, or no --{}", name, here, wanted, name);
    };
    switch (setting.about.acts_on) {
      case ActsOn::everything: break;
      case ActsOn::cpu: check_effect(!is_on_gpu, "on a GPU", "--device cpu"); break;
      case ActsOn::gpu: check_effect(is_on_gpu, "on the CPU", "--device cuda"); break;
      case ActsOn::several_processes:
        check_effect(has_others, "in one process",
                     is_plan ? "--ranks of 2 or more" : "several, as mpirun starts them");
    }
  }
}

void apply_threads(const Request& request) {
  const int64_t most = std::min(available_cpus(), most_threads);
  set_thread_count(static_cast<int>(std::min(request.threads, most)));
}

Device apply_machine_settings(const Request& request, const Notices& notices) {
  const Device device = wanted_device(request);
  if (request.device == Device::cuda) {
    const std::string reason = cuda::unavailable_reason();
    check(reason.empty(), "--device cuda cannot be used: {}; expected --device cpu", reason);
  }
  if (!request.device) {
    const std::string reason = cuda::unavailable_reason();
    if (reason.empty()) notices.say("device: cuda ({})", cuda::describe_device());
    else if (std::filesystem::exists("/dev/nvidiactl"))
      notices.say("device: cpu (not cuda, although there is a GPU: {})", reason);
  }
  const bool tf32 = request.precision == Precision::tf32;
  check(!tf32 || device == Device::cuda,
        "--precision tf32 needs a GPU's tensor cores, but this run is on {}: "
        "expected fp32, bf16 or fp16, or --device cuda",
        name(device));
  check_precision(request.precision, device);
  if (device == Device::cuda) cuda::allow_tf32(tf32);
  apply_threads(request);
  if (!request.memory_limit.empty()) {
    const size_t limit = parse_bytes(request.memory_limit);
    const Usage held = ledger(device).current();
    check(held.total() <= limit,
          "--memory-limit {} is less than the memory held before the run begins: {}; expected more "
          "than {}",
          format_bytes(limit), to_string(held), format_bytes(held.total()));
    ledger(device).set_limit(limit);
  }
  return device;
}

}  // namespace accrue
