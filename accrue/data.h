#pragma once

// Data sets, tables and the loader.
//
//     const Table table = read_csv("flowers.csv");
//     Loader loader(data.train, {.effective_batch_size = 64, .micro_batch_size = 16});
//     loader.start_epoch(1);
//     while (const MicroBatch* micro = loader.next())
//       fmt::print("{}\n", (*micro)["images"].shape());

#include "data/dataset.h"
#include "data/loader.h"
#include "data/table.h"
