#pragma once

// Differentiation: leaves, backward(), recompute().

#include "core/autograd.h"
