#include "python/call.h"

#include <nanobind/stl/string.h>
#include <stdlib.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "job/config.h"
#include "job/meant.h"
#include "python/arrays.h"
#include "python/fetched.h"
#include "python/layers.h"
#include "python/named_data.h"
#include "python/network.h"
#include "python/output_losses_in.h"
#include "text/domain.h"

namespace accrue::python {
namespace {

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_path(nb::handle data) {
  return nb::isinstance<nb::str>(data) || nb::hasattr(data, "__fspath__");
}

}  // namespace

bool are_written_texts(nb::handle data) { return nb::hasattr(data, "_accrue_texts"); }

bool Door::has(const Setting& setting) const {
  const std::string& name = setting.about.name;
  // The setting `network` comes as the argument `model`.
  if (name == "network" || is_among(name, own)) return false;
  switch (gives) {
    case Gives::outputs: return true;
    case Gives::json: return name != "json";
    case Gives::answers: break;
  }
  return setting.acts_in() == ActsIn::answers;
}

bool Door::has_own(const Setting& setting) const {
  const std::string& name = setting.about.name;
  return is_among(name, own) && argument_for(name) == argument_name(name);
}

std::string Door::argument_for(const std::string& setting) const {
  return setting == "init" ? weights : argument_name(setting);
}

Call::Call(const Door& door, const nb::kwargs& options) : door_(door) {
  ledger(Device::cpu).set_limit(std::nullopt);  // removes an earlier call's limit
  for (const auto& [key, value] : options) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "vocabulary" && door.has_vocabulary) set_vocabulary(value);
    else if (name == "sample_weight" && door.has_vocabulary) sample_weights_ = nb::borrow(value);
    else if (name == "loss" && (nb::isinstance<nb::dict>(value) || nb::hasattr(value, "loss")))
      losses_ = nb::borrow(value);
    else if (name == "config") config_ = nb::borrow(value);
    else if (name == "class_weight" && door.gives != Gives::answers)  // as Keras calls the setting
      values_.push_back({name, "class-weights", nb::borrow(value)});
    else values_.push_back({name, "", nb::borrow(value)});
  }
}

Call::~Call() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void Call::set_vocabulary(nb::handle value) {
  if (value.is_none()) return;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  int64_t tokens = 0;
  check(!nb::isinstance<nb::bool_>(value) && nb::try_cast(value, tokens) && 1 <= tokens &&
            tokens <= most,
        "vocabulary={}: expected a number of tokens, 1 to {}", text_of(value), most);
  vocabulary_ = tokens;
}

void Call::add(const std::string& setting, nb::handle value) {
  values_.push_back({door_.argument_for(setting), setting, nb::borrow(value)});
}

void Call::add_weights(nb::handle weights) {
  check(!weights.is_none(), "{} is None: expected a safetensors file, or Weights", door_.weights);
  add("init", weights);
}

bool Call::take_network(nb::handle model) {
  const Layer* network = nullptr;
  if (!nb::try_cast(model, network, false) || !network) return false;
  const Network* graph = nullptr;
  nb::try_cast(model, graph, false);
  std::string description = network->describe();
  std::ranges::replace(description, '\n', ';');
  given_.network = Given::Network{network->factory(), std::move(description)};
  if (!graph) return true;
  given_.network->inputs = graph->inputs;
  given_.network->outputs = graph->outputs;
  return true;
}

void Call::add_network(nb::handle network) {
  check(network.is_none() || take_network(network),
        "model is {}: expected a network of layers, or none for one that the weights name",
        shown(network));
}

void Call::add_model(nb::handle model) {
  if (model.is_none()) return;
  if (take_network(model)) return add("model", nb::str(given_model));
  std::filesystem::path path = path_of(model, "model");
  check(!path.empty(),
        "model is empty: expected a name, a language model's config.json, a GGUF "
        "file, or a network of layers");
  if (path.extension() == ".gguf") return add("base", model);
  if (path.filename() == "config.json") path = path.parent_path();
  if (!std::filesystem::exists(path / "config.json")) return add("model", nb::str(path.c_str()));
  language_model_ = read_pretrained_config(path);
  for (const std::string& warning : language_model_->warnings)
    if (PyErr_WarnEx(PyExc_UserWarning, warning.c_str(), 1) < 0) throw nb::python_error();
  add("model", nb::str(language_model_->name.c_str()));
}

void Call::add_data_by_name(nb::handle data, nb::handle test) {
  check(given_.network.has_value() && !given_.network->inputs.empty(),
        "data is a dictionary, which networks of values learn from: expected a Network, or (x, y)");
  const auto& [make, description, inputs, outputs] = *given_.network;
  given_.arrays = std::make_shared<Datasets>(datasets_by_name(data, test, inputs));
  given_.has_names = true;
  if (!sample_weights_.is_none()) add_weights_by_name(*given_.arrays, sample_weights_, outputs);
  if (!losses_.is_none()) {
    const std::map<std::string, Shape> answers = shapes_of_answers(*given_.network);
    const nb::object classes =
        nb::cpp_function([&](const std::string& output, const std::string& target) {
          const Dataset& train = given_.arrays->train;
          return train.has(target) ? field_compared(train, target, answers, output).classes : 0;
        });
    const bool may_count_labels = door_.command != "eval";
    add("loss", nb::module_::import_("accrue._losses")
                    .attr("_text_of")(losses_, data, classes, may_count_labels));
  }
  add_arrays();
}

namespace {

// A network of layers answers with as many numbers as it knows classes, so that fetched labels need
// not be read to count them.
void tell_classes(nb::handle data, const Given& given) {
  if (!given.network || !nb::isinstance<nb::tuple>(data) || nb::len(data) != 2) return;
  const nb::object x = data[0], y = data[1];
  if (!is_fetched(y)) return;
  const auto classes = given.answers_to(
      dataset_of(x, nb::none(), given.taken()).fields.front().values.shape().with(0, 1));
  if (classes) y.attr("expect_classes")(*classes);
}

}  // namespace

void Call::add_data(nb::handle data, nb::handle test) {
  if (are_named(data)) return add_data_by_name(data, test);
  check(losses_.is_none(),
        "loss is of outputs by their names, but data has no names: expected a dictionary of "
        "arrays, or the name of a loss");
  check(!given_.network || given_.network->has_one_of_each(),
        "the network has {} and {}: expected data by their names, {{\"NAME\": array, ...}}",
        counted(std::ssize(given_.network->inputs), "input"),
        counted(std::ssize(given_.network->outputs), "output"));
  const bool is_named = data.is_none() || is_path(data);
  const auto tokens = is_named ? std::nullopt : tokens_of(data, vocabulary_);
  check(sample_weights_.is_none() || !(is_named || tokens),
        "sample_weight is for arrays alone: expected data=(x, y), or no sample_weight");
  check(
      tokens || !vocabulary_,
      "vocabulary is for tokens alone: expected integers [L] or [N, T] as data, or no vocabulary");
  if (is_named) {
    if (are_written_texts(test)) test_texts_ = nb::cast<std::string>(test);
    check(test.is_none() || !test_texts_.empty(),
          "test is for arrays alone: expected data=(x, y), or no test");
    return add("data", data);
  }
  if (tokens) return add_tokens(*tokens, test);
  tell_classes(data, given_);
  given_.arrays = std::make_shared<Datasets>(datasets_of(data, test, taken()));
  add_sample_weights();
  add_arrays();
}

void Call::add_arrays() {
  sign_fetched(given_.arrays->train);
  sign_fetched(given_.arrays->test);
  add("data", nb::str(given_data));
}

void Call::add_validation(nb::handle data, nb::handle validation) {
  check(
      are_written_texts(validation) || (!data.is_none() && !is_path(data)),
      "validation is for arrays alone: expected data=(x, y), or eval_every=\"epoch\", which scores "
      "the test samples of a data set");
  add_data(data, validation);
  if (!has("eval_every")) add("eval-every", nb::str("epoch"));
}

void Call::add_sample_weights() {
  if (sample_weights_.is_none()) return;
  const Dataset& train = given_.arrays->train;
  check(train.has("labels") || train.has("targets"),
        "sample_weight is for classes or numbers y: expected integers [N] or float32");
  append_weights(*given_.arrays, sample_weights_);
}

// Rows of the caller's stay rows unless he asks for others.
void Call::add_tokens(const Tokens& tokens, nb::handle test) {
  tokens_ = {tokens.corpus, tokens.corpus};
  if (!test.is_none()) {
    const auto others = tokens_of(test, vocabulary_);
    check(others.has_value(), "test has no tokens, but data has: expected integers in both");
    tokens_.test = others->corpus;
  }
  add("data", nb::str(given_tokens));
  if (!tokens.row || has("context")) return;
  check(*tokens.row > 1, "data has rows of one token: expected at least 2, or a list of documents");
  add("context", nb::int_(*tokens.row - 1));
  if (!has("documents")) add("documents", nb::str("padded"));
}

std::shared_ptr<Ranks> Call::run(const std::function<void(app::AskedOfNetworks&)>& work) {
  app::AskedOfNetworks asked;
  Text& text = asked.options.domains.get<Text>();
  text.given = tokens_;
  text.test_texts = test_texts_;
  if (language_model_) {
    text.sizes = language_model_->sizes;
    text.files = language_model_->files;
    asked.options.class_count_of_weights = language_model_->vocabulary;
  }
  asked.options.domains.add(given_.clone());
  const app::Command command = app::command_of_networks(door_.command, asked);
  for (const Setting& setting : command.settings)
    spelling_.add(setting, door_.argument_for(setting.about.name));
  spelling_.add("config", "config", {});
  std::shared_ptr<Ranks> ranks;
  spelling_.in([&] {
    give_all(command.settings, asked.options);
    if (given_.arrays)
      for (Dataset* each : {&given_.arrays->train, &given_.arrays->test})
        round_numbers(*each, compute_dtype(asked.options.precision));
    for (const std::string& needed : command.needed)
      check(asked.options.given.contains(needed.substr(2)), "{} is required", needed);
    const nb::gil_scoped_release release;
    ranks = app::perform(command, asked.options, paths_, [&] { work(asked); });
  });
  return ranks;
}

bool Call::has(const std::string& setting) const {
  return std::ranges::any_of(values_, [&](const Value& value) {
    return value.argument == argument_name(setting) && !value.value.is_none();
  });
}

void Call::give(const Setting& setting, const std::string& text, Request& request) {
  setting.give(text);
  request.given.insert(setting.about.name);
}

void Call::give_all(const Settings& settings, Request& request) {
  std::set<std::string> given;
  for (const Value& each : values_) {
    const Setting& setting = setting_of(each, settings);
    if (each.value.is_none()) continue;
    check(given.insert(setting.about.name).second,
          "{} is given twice, once by another argument: expected it once", each.argument);
    check(!given_.ignores(setting.about.name),
          "{} has no effect on a network of layers, which have their own: expected no {}",
          each.argument, each.argument);
    const bool is_of_weights = setting.about.name == "init" || setting.about.name == "weights";
    const bool are_weights = is_of_weights && nb::isinstance<nb::dict>(each.value);
    const std::string text =
        are_weights ? file_of(each.value) : text_for(setting, each.argument, each.value);
    check(text != "-", "{} is '-': expected the name of a file", each.argument);
    try {
      give(setting, text, request);
    } catch (const Error& error) {  // "micro-batch is 0: expected ..."
      fail("{}{}", each.argument, std::string(error.what()).substr(setting.about.name.size()));
    }
    spelling_.add(setting, each.argument);
  }
  give_config(settings, request);
}

// Gives the settings of the file `config` that no argument has given.
void Call::give_config(const Settings& settings, Request& request) {
  if (config_.is_none()) return;
  const std::string path = path_of(config_, "config");
  check(!path.empty(), "config is empty: expected a file such as the config.toml of a log");
  spelling_.add("config", "config", {path});
  paths_.read("--config " + path, path);
  const std::set<std::string> before = request.given;
  const Settings known = Settings(settings_of(request)).append(settings);
  for (const auto& [name, text] : settings_in_config(path, known))
    if (settings.has(name) && !before.contains(name)) give(settings.at(name), text, request);
}

const Setting& Call::setting_of(const Value& value, const Settings& settings) const {
  std::vector<std::string> names;
  for (const Setting& setting : settings) {
    const std::string& name = setting.about.name;
    if (name == value.setting) return setting;
    if (!door_.has(setting)) continue;
    if (value.setting.empty() && argument_name(name) == value.argument) return setting;
    names.push_back(name);
  }
  std::string name = value.argument;
  std::ranges::replace(name, '_', '-');
  const Settings known = settings.where([&](const Setting& each) { return door_.has(each); });
  const std::string meant = spelling_.of(meant_by(name, names, known));
  fail("{}() has no argument {}{}", door_.function, value.argument,
       meant.empty() ? "; help() lists all" : fmt::format("; did you mean {}?", meant));
}

// Writes weights in memory to a temporary file, and returns its path.
std::string Call::file_of(nb::handle weights) {
  std::string folder = std::filesystem::temp_directory_path() / "accrue-XXXXXX";
  check(mkdtemp(folder.data()) != nullptr, "{}: no directory for weights can be made in '{}'",
        door_.weights, std::filesystem::temp_directory_path().string());
  folder_ = folder;
  const std::string path = folder_ / "weights.safetensors";
  spelling_.add_file(path, door_.weights);
  nb::object all = nb::borrow(weights);
  if (!nb::hasattr(all, "save")) all = nb::module_::import_("accrue._results").attr("Weights")(all);
  all.attr("save")(nb::str(path.c_str()));
  return path;
}

}  // namespace accrue::python
