#include "apps/images/commands.h"

#include <CLI/CLI.hpp>

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "data/byte_stream.h"
#include "images/data_check.h"
#include "images/domain.h"
#include "images/predict.h"
#include "job/memory_advice.h"

namespace accrue::app {
namespace {

// With a network of another domain, what that domain does.
void predict(const Request& options, const PredictOptions& asked) {
  const ProgramDomain& domain =
      program_domains().at(options.domains.number_of_model(options.model_name));
  if (!domain.predict || answers_images(options)) return predict_images(options, asked, spoken());
  AnswerFiles files{.out = asked.out, .paths = asked.images, .force = asked.force};
  if (asked.split) files.unheeded.emplace_back("split");
  if (asked.overlays) files.unheeded.emplace_back("overlay");
  if (asked.tile) files.unheeded.emplace_back("tile");
  domain.predict(options, files);
}

void add_predict(CommandLine& line) {
  const auto asked = std::make_shared<PredictOptions>();
  Request& options = line.options();
  CLI::App& command = line.add(line.program(),
                               {.name = "predict",
                                .description = "The answers of saved weights to each sample",
                                .settings = settings_of(*asked, options),
                                .work = [&options, asked] { predict(options, *asked); },
                                .needed = {"--weights", "--out"},
                                .advice = advice_for_evaluation},
                               options);
  command
      .add_option("images", asked->images, "Images to answer to, and folders of them, or a table")
      ->type_name("FILE|DIR");
}

void add_check(CommandLine& line, CLI::App& data) {
  const auto asked = std::make_shared<DataCheckOptions>();
  const Settings settings = settings_of(*asked);
  line.known.append(settings);
  line.add(
          data,
          {.name = "check",
           .description = "Find the bad files of a data set of images",
           .settings = settings,
           .work = [asked] { reading(asked->directory, [&] { check_images(*asked, spoken()); }); }},
          line.options())
      .add_option("directory", asked->directory, "The folder")
      ->type_name("DIR")
      ->required();
}

}  // namespace

DomainCommands images_commands() { return {.of_networks = add_predict, .of_data = add_check}; }

}  // namespace accrue::app
