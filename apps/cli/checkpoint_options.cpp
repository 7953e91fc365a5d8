#include "apps/cli/checkpoint_options.h"

#include <CLI/CLI.hpp>

namespace accrue::app {

void add_checkpoint_options(CLI::App& command, Options& o) {
  const std::string group = "Checkpoints";
  CLI::Option* directory =
      command
          .add_option("--checkpoint-dir", o.checkpoints.directory,
                      "Write checkpoints there, also at the end and when interrupted")
          ->type_name("DIR")
          ->group(group);
  command.add_option("--checkpoint-every", o.checkpoints.every, "Optimizer steps between two")
      ->check(positive())
      ->capture_default_str()
      ->needs(directory)
      ->group(group);
  command.add_option("--keep", o.checkpoints.keep, "How many checkpoints remain")
      ->check(positive())
      ->capture_default_str()
      ->needs(directory)
      ->group(group);
  command
      .add_flag("--resume", o.checkpoints.resume,
                "Go on from the latest whole checkpoint, from the start if there is none")
      ->needs(directory)
      ->group(group);
}

}  // namespace accrue::app
