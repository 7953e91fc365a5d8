#pragma once

// The trainer, its options by name, and its logs.
//
//     settings_of(options).at("clip-norm").set("1");
//     Trainer trainer(options, data.train, Device::cpu);
//     Observer silent;
//     trainer.run(silent);

#include "train/observer.h"
#include "train/run_log.h"
#include "train/stop.h"
#include "train/trainer.h"
#include "train/training_options.h"
