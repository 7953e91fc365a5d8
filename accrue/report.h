#pragma once

// The web page that compares runs. Not part of accrue.h.

#include "report/report.h"
