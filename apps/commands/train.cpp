#include "apps/commands/train.h"

#include "accumulate/ladder/machine_rates.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/commands/progress.h"
#include "apps/domains.h"

namespace accrue::app {
namespace {

// Asks to stop after Ctrl-C, now after a second one. A run whose reader has gone, such as `| head`,
// stops as after the first.
Stop asked_to_stop() {
  if (interrupted_twice()) return Stop::now;
  return interrupted() || is_reader_gone() ? Stop::after_window : Stop::no;
}

// Measures the rates; they are 0 if there is not enough memory to measure them.
MachineRates rates_if_memory_suffices(Device device, DType dtype) {
  try {
    return ladder::measure_rates(device, dtype);
  } catch (const OutOfMemory&) {
    return {};
  }
}

}  // namespace

JobServices services_for(const Request& request) {
  const size_t domain = request.domains.number_of_model(request.model_name);
  const auto& own = program_domains();  // a caller may have added more domains
  JobServices services{.check = check_output,
                       .write = write_output,
                       .lines_to = lines_to,
                       .rates = rates_if_memory_suffices};
  if (domain < own.size()) services.watch = own[domain].watch;
  return services;
}

void train(const Request& request) {
  const Job job({request}, spoken(), services_for(request));
  TrainingRun run = job.train();
  const InterruptScope interrupts(run.trainer().options().is_first_rank() ? Answers::yes
                                                                          : Answers::no);
  Progress progress(run);
  try {
    run.run({&progress}, asked_to_stop);
  } catch (const Stopped& stopped) {
    fail("interrupted twice: {}", stopped.what());
  }
}

}  // namespace accrue::app
