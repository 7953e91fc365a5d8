#pragma once

#include <string_view>

namespace accrue {

// The place where a tensor lives. The two meta devices have neither storage nor arithmetic. The
// same model code runs on them, and their memory ledgers predict the peak of a real run: `meta` for
// a run on the cpu, `meta_cuda` for a run on cuda.
enum class Device { cpu, cuda, meta, meta_cuda };

namespace detail {

constexpr std::string_view name(Device device) {
  switch (device) {
    case Device::cpu: return "cpu";
    case Device::cuda: return "cuda";
    case Device::meta: return "meta";
    case Device::meta_cuda: return "meta-cuda";
  }
  return "?";
}

constexpr bool is_meta(Device device) {
  return device == Device::meta || device == Device::meta_cuda;
}

// The meta device that predicts the memory of `device`.
constexpr Device meta_of(Device device) {
  return device == Device::cuda || device == Device::meta_cuda ? Device::meta_cuda : Device::meta;
}

// True if kernels on this device need the scratch of cuda, which differs from the scratch of the
// cpu.
constexpr bool plans_for_cuda(Device device) { return meta_of(device) == Device::meta_cuda; }

}  // namespace detail

}  // namespace accrue
