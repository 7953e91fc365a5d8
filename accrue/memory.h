#pragma once

// Accounting of memory: limits, scopes, recordings of the ledger.
//
//     ledger(Device::cpu).set_limit(parse_bytes("1GiB"));
//     const MemoryScope scope("the first layer");
//     fmt::print("{}\n", to_string(ledger(Device::cpu).current()));

#include "core/ledger.h"
#include "core/memory_scope.h"
#include "core/usage.h"
#include "train/memory_trace.h"
