#pragma once

// Whole networks by name.

#include "layers/models.h"
#include "layers/unet.h"
