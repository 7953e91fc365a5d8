#pragma once

// Networks that train each other.

#include "train/game.h"
