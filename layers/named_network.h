#pragma once

#include <string>
#include <vector>

#include "layers/module.h"

namespace accrue {

// A network with several inputs and outputs, which have names. A Graph is one; a network in plain
// code inherits from this class beside Layer:
//
//     class Detector : public Layer, public NamedNetwork { ... };
class NamedNetwork {
 public:
  NamedNetwork() = default;
  virtual ~NamedNetwork() = default;
  NamedNetwork(const NamedNetwork&) = delete;
  NamedNetwork& operator=(const NamedNetwork&) = delete;

  virtual std::vector<std::string> input_names() const = 0;
  virtual std::vector<std::string> output_names() const = 0;
  // The outputs of the names `wanted`, in that order, of a tensor for each of input_names(). Calls
  // that only other outputs need should not run. Throws Error for a name that is no output's.
  virtual std::vector<Tensor> outputs_of(std::vector<Tensor> inputs,
                                         const std::vector<std::string>& wanted,
                                         const Pass& pass) const = 0;
};

}  // namespace accrue
