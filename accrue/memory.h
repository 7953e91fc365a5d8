#pragma once

// Whose memory it is: scopes, recordings of the ledger.

#include "core/memory_scope.h"
#include "core/timeline.h"
#include "train/memory_trace.h"
