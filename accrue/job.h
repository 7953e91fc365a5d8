#pragma once

// A whole training, plan or scoring by the settings of the program.

#include "accrue/domains.h"
#include "job/job.h"
