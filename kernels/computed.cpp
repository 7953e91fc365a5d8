#include "kernels/computed.h"

#include "kernels/backend.h"
#include "kernels/detail/channel_sums.h"

namespace accrue {

Tensor detail::as_computed(const Tensor& parameter) {
  const auto& variable = parameter.variable();
  if (!variable || !variable->copy.defined()) return parameter;
  Tensor y = variable->copy.saved().reshape(parameter.shape());
  record("as_computed", y, {parameter}, [parameter = Edge(parameter)](Tensor& dy) {
    const auto target = claim_grad(parameter);
    if (!target) return;
    // Each element is the sum over one.
    const Shape rows{1, dy.numel()};
    sum_channels({target->grad, target->beta}, dy.reshape(rows).view());
  });
  return y;
}

}  // namespace accrue
