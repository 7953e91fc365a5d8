#pragma once

// The window: micro-batches whose gradients add up to one step.

#include "accumulate/window.h"
