#include "apps/commands/info.h"

#include <nlohmann/json.hpp>
#include <set>

#include "apps/cli/messages.h"
#include "apps/cli/nccl.h"
#include "apps/cli/output.h"
#include "apps/cli/ranks.h"
#include "apps/commands/convolutions.h"
#include "apps/domains.h"
#include "core/build.h"
#include "core/cuda.h"
#include "core/error.h"
#include "job/averages.h"
#include "job/environment.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "kernels/compiled_isa.h"
#include "kernels/parallel.h"
#include "train/relative_cost.h"

namespace accrue::app {

namespace {

using Json = nlohmann::ordered_json;

// The facts about this machine that domains report.
std::vector<std::pair<std::string, std::string>> facts_of_domains() {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const ProgramDomain& domain : program_domains())
    if (domain.about_machine) std::ranges::move(domain.about_machine(), std::back_inserter(facts));
  return facts;
}

// The facts about the model that its domain reports.
std::vector<std::pair<std::string, std::string>> facts_of_model(const Request& options) {
  const size_t number = options.domains.number_of_model(options.model_name);
  const auto& domains = program_domains();
  if (number >= domains.size()) return {};  // a network of a caller's
  const auto about = domains[number].about_model;
  return about ? about(options) : std::vector<std::pair<std::string, std::string>>{};
}

// A number, or a list of two where rows and columns differ.
Json to_json(PerAxis a) { return a.is_even() ? Json(a.h) : Json({a.h, a.w}); }

Json to_json(const ChosenConvolution& chosen) {
  const Convolution& c = chosen.convolution;
  const ConvGeometry& g = c.geometry;
  return {{"product", name(c.product)},
          {"N", c.N},
          {"C", g.C},
          {"H", g.H},
          {"W", g.W},
          {"O", g.O},
          {"GH", g.GH},
          {"GW", g.GW},
          {"KH", g.KH},
          {"KW", g.KW},
          {"stride", to_json(g.stride)},
          {"padding", to_json(g.padding)},
          {"dilation", to_json(g.dilation)},
          {"groups", g.groups},
          {"dtype", name(c.dtype)},
          {"count", chosen.count},
          {"algorithm", chosen.choice.algorithm},
          {"math", chosen.choice.math},
          {"workspace_bytes", chosen.choice.workspace_bytes},
          {"scratch_bytes", chosen.choice.scratch_bytes},
          {"parts", chosen.choice.parts},
          {"padded", chosen.choice.padded},
          {"ms", chosen.seconds ? Json(*chosen.seconds * 1e3) : Json()}};
}

// The printed facts as JSON.
std::string to_json(const Request& options, const Layer& model, const Parameters& parameters,
                    double flops,
                    const std::optional<std::vector<ChosenConvolution>>& convolutions) {
  Json json{{"environment", environment(wanted_device(options))},
            {"matrix_products", matrix_products()},
            {"cuda", cuda::unavailable_reason().empty()},
            {"mpi", describe_mpi()},
            {"nccl", describe_nccl()}};
  for (const auto& [name, fact] : facts_of_domains()) json[name] = fact;
  for (const auto& [name, fact] : facts_of_model(options)) json["file"][name] = fact;
  json.update({{"model", options.model_title()},
               {"description", model.describe()},
               {"parameters", parameters.count()},
               {"flops_per_training_sample", flops}});
  for (const auto& entry : parameters.entries()) {
    const auto sizes = entry.tensor.shape().sizes();
    json["tensors"][entry.name] = std::vector(sizes.begin(), sizes.end());
  }
  if (convolutions) {
    json["micro_batch"] = options.micro_batch;
    json["precision"] = name_in(precision_names(), options.precision);
    json["convolutions"] = Json::array();
    for (const ChosenConvolution& each : *convolutions)
      json["convolutions"].push_back(to_json(each));
  }
  return json.dump(2) + "\n";
}

// The samples that the shown network is made for: of the data, which is read only if the command
// names it, of the weights (--init) if they say them, or of the model.
SampleSpec shown_sample(const Request& options) {
  for (const Setting& setting : settings_of(options))
    if ((setting.about.name == "data" || setting.about.saved == Saved::by_domain) &&
        options.given.contains(setting.about.name))
      return options.sample_in(load_data(options, DataUse::training, spoken()).train);
  const bool is_said = !options.sample.fields.empty() && options.sample.input().shape.rank() > 0;
  return is_said ? options.sample : options.domains.model(options.model_name).sample;
}

}  // namespace

Settings heeded_by_info(const Settings& training) {
  // Besides the network, info shows the learning rates and the averages of a training.
  static const std::set<std::string> told{
      "accum",       "beta2-half-life", "dropout",     "effective-batch", "ema",         "lr",
      "micro-batch", "new-head",        "noise-scale", "schedule",        "warmup-steps"};
  return training.where([](const Setting& setting) {
    return acts_on_answers(setting) || told.contains(setting.about.name) ||
           setting.acts_with("schedule");
  });
}

Settings settings_of(InfoOptions& asked, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Output")
      .add(asked.seconds_to_time,
           {.name = "time-convolutions",
            .decides = no_result,
            .help = "On cuda, also time each convolution of a micro-step, for this long",
            .takes = "SECONDS",
            .range = {0, 1e6}})
      .add(options.json, {"json", no_result, "Write the same facts", writes("FILE", Path::text)});
  return s;
}

std::string info(const Request& options, const InfoOptions& asked) {
  apply_threads(options);
  say("accrue {} | compiled for {} | matrix products: {} | {}\nCUDA: {}\nMPI: {}\nNCCL: {}\n",
      version(), compiled_isa(), matrix_products(), counted(thread_count(), "thread"),
      cuda::describe_device(), describe_mpi(), describe_nccl());
  for (const auto& [name, fact] : facts_of_domains()) say("{}: {}\n", name, fact);
  say("\n");
  const auto facts = facts_of_model(options);
  for (const auto& [name, fact] : facts) say("{}: {}\n", name, fact);
  const SampleSpec shown = shown_sample(options);
  const ModelFactory new_model = options.factory(shown);
  const auto model = new_model();
  const Parameters parameters = place(*model, DType::f32, Device::meta, options.seed);
  const DomainModel about = options.domains.model(options.model_name);
  std::vector<int64_t> sample{1};
  std::ranges::copy(shown.input().shape.sizes(), std::back_inserter(sample));
  const double flops =
      training_flops_per_sample(new_model, Shape(sample), about.sample.input().encoding);
  say("{}: {} parameters, {:.2f} MFLOP a training sample\n{}\n", options.model_title(),
      parameters.count(), flops / 1e6, model->describe());
  for (const auto& entry : parameters.entries())
    say("  {:<24} {}\n", entry.name, entry.tensor.shape());
  for (const auto& buffer : parameters.buffer_entries())
    say("  {:<24} {} (buffer)\n", buffer.name, buffer.tensor.shape());
  std::optional<std::vector<ChosenConvolution>> convolutions;
  const bool sees_pixels = about.sample.input().encoding == Encoding::pixel;
  if (sees_pixels && wanted_device(options) == Device::cuda && cuda::unavailable_reason().empty()) {
    convolutions = chosen_convolutions(options, shown, asked.seconds_to_time);
    if (!convolutions->empty()) print(*convolutions);
  }
  say("\nlearning rate: {}\n", Schedule(options.schedule).describe());
  TrainingOptions training = options;
  const int64_t micro = options.micro_batch;
  training.batches.effective = options.effective_batch.value_or(
      micro == auto_micro_batch ? default_effective_batch : micro * options.accum.value_or(4));
  for (const std::string& line : describe_averages(training)) say("{}\n", line);
  std::string json = to_json(options, *model, parameters, flops, convolutions);
  if (!options.json.empty()) write_output(options.json, json);
  return json;
}

}  // namespace accrue::app
