#include "apps/fonts/generator.h"

#include "apps/cli/messages.h"
#include "data/safetensors.h"
#include "fonts/domain.h"
#include "job/load_data.h"
#include "job/machine.h"

namespace accrue::app {

Settings drawing_settings(Request& options) {
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init, trained_weights("A generator's, as font train saves them"))
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Glyphs in memory at a time",
                                 .range = above_zero,
                                 .asked_by = AskedBy::most_runs,
                                 .elsewhere = called_batch("the glyphs in memory")});
  return s.append(all.only({"data", "image-size", "precision"}))
      .append(all.in({"Machine"}).where(acts_on_answers));
}

namespace {

// Throws Error unless the weights are a generator's.
void check_generator(const Request& options) {
  check(!options.init.empty(),
        "there is nothing to draw with: expected --weights FILE.safetensors");
  check(dynamic_cast<const Fonts*>(&options.domains.of_model(options.model_name)) != nullptr,
        "{} holds weights of a network {}: expected a generator's, as accrue font train --save "
        "writes them",
        options.init, options.model_name);
}

}  // namespace

LoadedGenerator load_generator(const Request& options) {
  const Device device = apply_machine_settings(options, spoken());
  check_generator(options);
  Datasets data = load_data(options, DataUse::training, spoken());
  const SampleSpec sample = options.sample_in(data.train);
  return {load_network(options, sample, device), std::move(data), device};
}

LoadedGenerator load_generator_alone(const Request& options) {
  const Device device = apply_machine_settings(options, spoken());
  check_generator(options);
  const Metadata said = read_safetensors_metadata(options.init);
  check(said.contains("image") && said.contains("classes"),
        "{} does not say of which images and of how many styles its network is: expected weights "
        "that accrue font train --save wrote",
        options.init);
  return {load_network(options, options.sample, device), {}, device};
}

}  // namespace accrue::app
