#pragma once

// Whole networks by name.
//
//     const auto mlp = make_model({.kind = ModelKind::mlp});
//     options.model = model_factory({.kind = ModelKind::unet, .width = 0.5, .classes = 1});

#include "layers/models.h"
#include "layers/unet.h"
