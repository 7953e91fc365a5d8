#pragma once

// Everything that a training program needs of accrue, by subject. A program that defines its own op
// also includes <accrue/own_op.h>.

#include "accrue/autograd.h"
#include "accrue/data.h"
#include "accrue/files.h"
#include "accrue/fonts.h"
#include "accrue/game.h"
#include "accrue/images.h"
#include "accrue/init.h"
#include "accrue/job.h"
#include "accrue/layers.h"
#include "accrue/losses.h"
#include "accrue/memory.h"
#include "accrue/models.h"
#include "accrue/module.h"
#include "accrue/objective.h"
#include "accrue/onnx.h"
#include "accrue/ops.h"
#include "accrue/optimizers.h"
#include "accrue/plan.h"
#include "accrue/tensor.h"
#include "accrue/text.h"
#include "accrue/trainer.h"
#include "accrue/window.h"
