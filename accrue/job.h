#pragma once

// A whole training, plan or scoring, described by the program's settings.
//
//     Request request(all_domains());
//     request.give("data", "digits");
//     Job job(std::move(request));
//     TrainingRun run = job.train();
//     run.run();

#include "accrue/domains.h"
#include "job/job.h"
