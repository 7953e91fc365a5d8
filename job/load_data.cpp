#include "job/load_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string_view>

#include "data/byte_stream.h"
#include "data/checkpoint_directory.h"
#include "data/safetensors.h"
#include "train/weights.h"

namespace accrue {
namespace {

// Throws Error for a given setting that has no effect with this data set.
void check_settings_of_data(const Request& request, const DataRequest& asked) {
  const Domain& domain = request.domains.of_data(asked.data);
  for (const Setting& setting : settings_of(request)) {
    const SettingFacts& about = setting.about;
    check(about.data.empty() || !asked.given.contains(about.name) ||
              domain.heeds(about.name, asked.data),
          "--{} has no effect with --data {}: expected {}, or no --{}", about.name, asked.data,
          about.data, about.name);
  }
}

void check_that_data_is_known(const Domains& domains, const std::string& data) {
  check(
      domains.claim(data) != Domain::Claim::none,
      "'{}' is neither a data set nor a directory: expected {}, a directory of images, of glyphs "
      "or of files in MNIST's format, a file or folder of texts, a file of JSON lines, or a table "
      "(FILE.csv){}",
      data, fmt::join(domains.data_sets(), ", "),
      is_name_on_hub(data) ? fmt::format("; one of this name on Hugging Face's hub is fetched by "
                                         "`hf download {} --repo-type dataset --local-dir DIR`",
                                         data)
                           : "");
}

void normalize(Dataset& data, const Request& request) {
  const Normalization pixels = request.domains.pixels();
  for (Field& field : data.fields) {
    field.normalization = pixels;
    if (field.encoding == Encoding::pixel)
      check_normalization(field.normalization, field.values.shape(), "--mean and --std:");
  }
}

std::string described(const Classes& classes, const Field& answer) {
  const bool is_one =
      classes.size() == 1 && !classes.have_names() && answer.encoding == Encoding::mask;
  return is_one && classes.values.empty() ? "one mask of foreground and background"
                                          : "the classes " + classes.describe();
}

// True if the classes are numbers from 0 on. The data at hand may then lack the last ones.
bool are_numbers(const Field& answer, const Classes& here, const Classes& network) {
  return answer.encoding == Encoding::index && !here.have_names() && !network.have_names() &&
         here.values.empty() && network.values.empty();
}

// Renumbers the data's classes as the network numbers them.
void match_to_weights(Datasets& data, const Request& request, DataUse use, const Notices& notices) {
  const std::optional<Classes>& network = request.classes_of_weights;
  const Field* const answer = request.told_apart(data.train);
  if (!answer || request.new_head) return;
  const Classes here = classes_of(*answer);
  if (!network) {
    if (use == DataUse::scoring) say_whose_classes(request, data.train, notices);
    return;
  }
  const ClassMatch match = match_classes(here, *network);
  const bool is_training = use == DataUse::training;
  const bool may_lack_some =
      use == DataUse::prediction || (!is_training && are_numbers(*answer, here, *network));
  const bool fits = may_lack_some ? match.is_known() : match.is_complete();
  if (!fits && is_training) {
    // The last layer is made new if its size differs, unless the network knows all of the data's
    // classes. For a run that resumes, the checkpoint is compared later as a whole.
    const bool is_resumed = request.weights != request.init;
    if (is_resumed || (here.size() != network->size() && !match.is_known())) return;
  }
  check(fits, "{} knows {}, but {} has {}: expected the same{}{}", request.weights,
        described(*network, *answer), data.train.name, described(here, *answer),
        is_training ? ", or --new-head to learn these with a new last layer" : "",
        here.have_names() ? "" : "; --classes names the data's classes, in their order");
  const std::string name = answer->name;
  for (Dataset* each : {&data.train, &data.test})
    for (Field& field : each->fields)
      if (field.name == name) renumber_classes(field, match, *network);
}

}  // namespace

void say_whose_classes(const Request& request, const Dataset& data, const Notices& notices) {
  const Field* const answer = request.told_apart(data);
  if (request.weights.empty() || !answer) return;
  if (answer->class_names.empty() && answer->class_values.empty()) return;
  notices.say("{} does not name its classes: the names of {} are used: {}", request.weights,
              data.name, classes_of(*answer).describe());
}

void check_inputs(const Dataset& data, Inputs learned, const std::string& whose,
                  const Request& request) {
  const DomainModel model = request.domains.model(request.model_name);
  if (data.fields.empty() || model.has_own_pixels || learned == Inputs::unknown) return;
  const auto has = [&](Encoding encoding) {
    return std::ranges::find(data.fields, encoding, &Field::encoding) != data.fields.end();
  };
  const bool has_pixels = has(Encoding::pixel);
  const bool says_how = request.given.contains("mean") && request.given.contains("std");
  check(!has_pixels || learned != Inputs::as_given || says_how,
        "{} has learned from numbers as they were given, but {} has pixels from 0 to 255: expected "
        "numbers (float32) made in the same way, or --mean and --std for (x / 255 - mean) / std of "
        "pixels x",
        whose, data.name);
  const Normalization pixels = request.domains.pixels();
  check(has_pixels || !has(Encoding::number) || learned != Inputs::pixels,
        "{} has learned from pixels x from 0 to 255, as (x / 255 - mean) / std with mean {} and "
        "std {}, but {} has numbers (float32): expected pixels (uint8)",
        whose, fmt::join(pixels.mean, ","), fmt::join(pixels.std, ","), data.name);
}

void warn_of_assumed_pixels(const Dataset& data, const Request& request, const Notices& notices) {
  const bool has_pixels =
      std::ranges::find(data.fields, Encoding::pixel, &Field::encoding) != data.fields.end();
  const Normalization pixels = request.domains.pixels();
  if (request.assumes_pixels && has_pixels)
    notices.warn(
        "{} does not say how its pixels were normalized: (x - {}) / {} is assumed; "
        "expected --mean and --std",
        request.init, fmt::join(pixels.mean, ","), fmt::join(pixels.std, ","));
}

void take_in(Dataset& data, const Request& request, const Notices& notices) {
  if (!data.about.empty()) notices.say("{}: {}", data.name, data.about);
  check_inputs(data, request.inputs_of_weights, request.weights, request);
  warn_of_assumed_pixels(data, request, notices);
  normalize(data, request);
}

Datasets load_data(const Request& request, DataUse use, const Notices& notices) {
  const DataRequest asked = request.data_request(use);
  check_that_data_is_known(request.domains, asked.data);
  check_settings_of_data(request, asked);
  Datasets data =
      reading(asked.data, [&] { return request.domains.of_data(asked.data).load(asked); });
  for (const auto& domain : request.domains) domain->augment(data.train, asked);
  take_in(data.train, request, notices);
  normalize(data.test, request);
  request.domains.of_model(request.model_name)
      .fit(data, request.domains.model(request.model_name), asked);
  match_to_weights(data, request, use, notices);
  for (const std::string& warning :
       request.domains.of_model(request.model_name).warnings(request.model_name, data.train))
    notices.warn("{}", warning);
  for (const std::string& remark :
       request.domains.of_model(request.model_name).remarks(request.model_name, data.train))
    notices.say("{}", remark);
  return data;
}

namespace {

// Throws Error if neither the file (it may be PyTorch's) nor the request names the model. Warns if
// numbers of the file are rounded.
void check_what_is_said(const Metadata& said, Request& request, const Notices& notices) {
  const auto is_given = [&](const char* name) { return request.given.contains(name); };
  const bool has_own_pixels = request.domains.model(request.model_name).has_own_pixels;
  const bool says = has_own_pixels || said.contains("model");
  check(says || is_given("model"),
        "{} does not say which model its weights are of: expected --model", request.init);
  request.assumes_pixels = !says && !(is_given("mean") && is_given("std"));
  if (request.precision != Precision::fp64 && holds_float64(request.init))
    notices.warn("{} holds float64, which is rounded to float32", request.init);
}

std::optional<Classes> classes_said(const Metadata& said, const std::string& file) {
  try {
    return classes_in(said);
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

// The name given with --model; empty if it was not given.
std::string asked_model(const Request& request) {
  if (!request.other_model.name.empty()) return request.other_model.name;
  return request.given.contains("model") ? request.model_name : std::string();
}

Domain& domain_of_model(Request& request) {
  return **std::next(request.domains.begin(),
                     int64_t(request.domains.number_of_model(request.model_name)));
}

// The samples that a file says its network was made for.
SampleSpec sample_said(const Metadata& said, const Request& request) {
  return request.domains.model(request.model_name).sample.as_said(said);
}

// The model that weights name. A file is looked for at its place in training, or else beside the
// weights.
std::string place_of_model(const std::string& model, const std::string& weights) {
  std::error_code ignored;
  if (!is_model_file(model) || std::filesystem::exists(model, ignored)) return model;
  const std::filesystem::path here =
      std::filesystem::path(weights).parent_path() / std::filesystem::path(model).filename();
  check(std::filesystem::exists(here, ignored),
        "{} holds weights of the network in '{}', which is not there: expected --model FILE.onnx, "
        "the file at its new place",
        weights, model);
  return here.string();
}

Request with_what_weights_say(const Request& request, const Notices& notices) {
  Request result = request;
  if (request.checkpoints.resume)
    result.weights = latest_weights_in(request.checkpoints.directory).string();
  const bool is_resumed = !result.weights.empty();
  if (!is_resumed) result.weights = request.init;
  if (result.weights.empty()) return result;
  const Metadata said = read_safetensors_metadata(result.weights);
  result.classes_of_weights = classes_said(said, result.weights);
  result.sample = sample_said(said, result);
  if (request.init.empty()) return result;
  if (!is_resumed) {
    check_what_is_said(said, result, notices);
    const auto inputs = said.find(inputs_key);
    if (inputs != said.end() && inputs->second == inputs_as_given)
      result.inputs_of_weights = Inputs::as_given;
    // A network may also see numbers beside pixels.
    if (said.contains("mean")) result.inputs_of_weights = Inputs::pixels;
  }
  const Settings settings = settings_of(result);
  std::string problems;
  for (const Setting& setting : settings) {
    const SettingFacts& about = setting.about;
    const auto found = said.find(about.name);
    if (!setting.is_saved() || found == said.end() || about.name == "model") continue;
    const bool is_given = request.given.contains(about.name);
    if (about.saved == Saved::with_scores) {
      if (!is_given && !found->second.empty()) setting.set(found->second);
    } else if (!is_given) setting.set(found->second);
    // A file that a setting names may have moved since, so its path is not compared; its domain
    // compares its content.
    else if (about.decides == Decides::result && setting.text() != found->second)
      problems += fmt::format("\n  --{} is {}, but they were trained with {}", about.name,
                              setting.text(), found->second);
  }
  // A model may have several names. Here everything is known that they depend on.
  if (const auto model = said.find("model"); model != said.end()) {
    const std::string asked = asked_model(request);
    // A file that the user names may be the one of the weights at another place. Its domain
    // compares its content.
    const bool has_moved = is_model_file(asked) && is_model_file(model->second);
    if (!has_moved) settings.at("model").set(place_of_model(model->second, result.weights));
    Domain& domain = domain_of_model(result);
    domain.remember(result.weights, said);
    const bool is_right = asked.empty() || asked == result.model_name ||
                          domain.is_called(result.model_name, asked) ||
                          !result.domains.implied_model(asked).empty();
    if (!is_right)
      problems += fmt::format("\n  --model is {}, but they were trained with {}", asked,
                              domain.title(result.model_name));
    if (!is_right && is_resumed) result.model_name = request.model_name;
    result.other_model = {};
  }
  result.sample = sample_said(said, result);
  for (const auto& domain : result.domains) domain->see(result.sample, said, request.given);
  // A run that resumes compares all its settings with the checkpoint later.
  check(is_resumed || problems.empty(),
        "{} holds weights of another network; leave out what the file says:{}", request.init,
        problems);
  return result;
}

// With the samples and the values of settings that a model in a file is made for.
void take_what_model_says(Request& request) {
  if (!is_model_file(request.model_name)) return;
  const Domain& domain = request.domains.of_model(request.model_name);
  if (request.sample.fields.empty()) request.sample = domain.models().front().sample;
  const Settings settings = settings_of(request);
  for (const auto& [name, value] : domain.implied_settings(request.given))
    if (settings.has(name) && settings.at(name).text().empty()) settings.at(name).set(value);
}

Request with_implied_model(Request request) {
  const std::string implied = request.domains.implied_model(asked_model(request));
  if (implied.empty()) return request;
  request.model_name = implied;
  request.other_model = {};
  return request;
}

// The settings that name files of weights to start from.
Settings settings_of_files(Request& request) {
  return settings_of(request).where([](const Setting& setting) {
    const Takes& takes = setting.about.takes;
    return takes.path == Path::input && takes.find(".safetensors") != std::string::npos;
  });
}

// Throws Error, with advice, for what users often give instead of a safetensors file.
void check_is_file_of_weights(const std::string& path, bool may_be_gguf) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path file = path;
  check(!fs::exists(file / "config.json", ignored),
        "'{0}' is a directory of transformers: expected a file of safetensors, which `accrue text "
        "import --from {0} --out FILE.safetensors` makes of it",
        path);
  check(fs::exists(file, ignored) || !is_name_on_hub(path),
        "there is no file '{0}': a model of this name on Hugging Face's hub is fetched by `hf "
        "download {0} --local-dir DIR`, and `accrue text import --from DIR --out FILE.safetensors` "
        "makes its weights",
        path);
  check(
      may_be_gguf || !is_gguf_file(file),
      "'{0}' is GGUF: expected safetensors, which `accrue text import --from {0}` makes of it, or "
      "--base {0}",
      path);
}

}  // namespace

bool is_name_on_hub(const std::string& path) {
  const std::filesystem::path name = path;
  std::error_code ignored;
  // A file name's extension has only letters; in a model's name such as "Llama-3.2-1B" it does not.
  const std::string end = name.extension().string();
  const bool is_file = end.size() > 1 && std::all_of(end.begin() + 1, end.end(), [](char c) {
                         return std::isalpha(static_cast<unsigned char>(c)) != 0;
                       });
  return name.is_relative() && name.has_parent_path() && name.has_filename() &&
         !name.parent_path().has_parent_path() && !is_file && !path.starts_with('.') &&
         !std::filesystem::exists(name.parent_path(), ignored);
}

bool is_gguf_file(const std::filesystem::path& path) {
  std::array<char, 4> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  return std::string_view(start.data(), start.size()) == "GGUF";
}

Request with_settings_of_weights(const Request& request, const Notices& notices) {
  Request known = request;
  for (const Setting& setting : settings_of_files(known))
    check_is_file_of_weights(setting.text(),
                             setting.about.takes.find(".gguf") != std::string::npos);
  Request result = with_what_weights_say(with_implied_model(request), notices);
  if (!result.other_model.name.empty()) fail("--{}", result.other_model.refusal);
  take_what_model_says(result);
  if (result.weights.empty()) return result;
  Domain& domain = domain_of_model(result);
  domain.remember(result.weights, read_safetensors_metadata(result.weights));
  result.class_count_of_weights = domain.classes_in(result.weights);
  if (result.class_count_of_weights)
    result.sample = result.sample.with(result.sample.input().shape, *result.class_count_of_weights);
  return result;
}

}  // namespace accrue
