#pragma once

// Several networks that train each other.
//
//     Window window(optimizer, ScheduleOptions{.base = 1e-3}, {.effective_batch_size = 64});
//     Game game({{.name = "generator",
//                 .window = window,
//                 .loss = [&](const Samples& s, const Pass& pass) {
//                   return mse_loss(model(s["images"], pass), s["masks"]);
//                 }}});

#include "train/game.h"
