#include "accumulate/summed_losses.h"

#include "core/inside.h"
#include "kernels/arithmetic.h"

namespace accrue {
namespace {

std::string describe(const NamedLoss& loss) {
  const auto& [samples, counted, on_device] = loss.weight;
  return on_device.defined() ? fmt::format("{} counts a number on the device", loss.name)
                             : fmt::format("{} counts {}", loss.name, counted);
}

bool count_alike(const Weight& a, const Weight& b) {
  if (a.samples != b.samples || a.on_device.defined() != b.on_device.defined()) return false;
  return a.on_device.defined() ? a.on_device.view().data == b.on_device.view().data
                               : a.counted == b.counted;
}

}  // namespace

SummedLoss sum_of_losses(std::span<const NamedLoss> losses) {
  check(!losses.empty(), "a sum of no losses: expected one or more");
  const NamedLoss& first = losses.front();
  Tensor sum;
  std::vector<Tensor> terms;
  for (const NamedLoss& each : losses) {
    check(count_alike(first.weight, each.weight),
          "{}, but {}: a window divides its gradients by one weight; expected losses that are "
          "means over the same",
          describe(first), describe(each));
    const Tensor own = each.factor == 1 ? each.value : scale(each.value, each.factor);
    sum = sum.defined() ? add(sum, own) : own;
    terms.push_back(each.value.detach());
  }
  return {Loss(sum, std::move(terms)), first.weight};
}

}  // namespace accrue
