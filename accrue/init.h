#pragma once

// Initial values.

#include "layers/init.h"
