#pragma once

// Data sets, tables and the loader.

#include "data/dataset.h"
#include "data/loader.h"
#include "data/table.h"
