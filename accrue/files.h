#pragma once

// Files of tensors and of weights.
//
//     save_weights("model.safetensors", parameters);
//     load_weights("model.safetensors", parameters);
//     for (const auto& [name, tensor] : read_safetensors("model.safetensors"))
//       fmt::print("{} {}\n", name, tensor.shape());

#include "data/safetensors.h"
#include "train/weights.h"
