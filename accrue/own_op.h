#pragma once

// What an op of one's own needs; its CUDA kernels also include <accrue/core/launch.cuh>.

#include "kernels/backend.h"
