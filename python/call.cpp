#include "python/call.h"

#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "python/arrays.h"
#include "python/layers.h"
#include "text/domain.h"

namespace accrue::python {

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

namespace {

// The value of an option: several as "a,b".
std::string value_of(nb::handle object) {
  if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object))
    return text_of(object);
  std::vector<std::string> parts;
  for (nb::handle part : object) parts.push_back(text_of(part));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

Call::Call(const std::string& command, const nb::kwargs& options) : arguments_{command} {
  for (const auto& [key, value] : options) {
    std::string name = nb::cast<std::string>(key);
    if (name == "vocabulary" && command != "info" && command != "eval") {
      set_vocabulary(value);
      continue;
    }
    std::ranges::replace(name, '_', '-');
    add(name, value);
  }
}

void Call::set_vocabulary(nb::handle value) {
  if (value.is_none()) return;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  int64_t tokens = 0;
  check(nb::try_cast(value, tokens) && 1 <= tokens && tokens <= most,
        "vocabulary={}: expected a number of tokens, 1 to {}", text_of(value), most);
  vocabulary_ = tokens;
}

Call::~Call() {
  try {
    if (folder_.is_valid()) folder_.attr("cleanup")();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("accrue");
  }
}

void Call::add(const std::string& name, nb::handle value) {
  if (value.is_none() || value.is(Py_False)) return;
  if (value.is(Py_True)) return arguments_.push_back("--" + name);
  const std::string text = value_of(nb::isinstance<nb::dict>(value) ? file_of(value) : value);
  check(text != "-", "--{} -: expected the name of a file", name);
  arguments_.push_back(fmt::format("--{}={}", name, text));
}

void Call::add_model(nb::handle model) {
  const Layer* network = nullptr;
  if (!nb::try_cast(model, network, false) || !network) {
    if (model.is_none()) return;
    std::filesystem::path path = text_of(model);
    if (path.extension() == ".gguf") return add("base", model);
    if (path.filename() == "config.json") path = path.parent_path();
    if (!std::filesystem::exists(path / "config.json")) return add("model", model);
    language_model_ = read_pretrained_config(path);
    arguments_.push_back("--model=" + language_model_->name);
    return;
  }
  std::string description = network->describe();
  std::ranges::replace(description, '\n', ';');
  given_.network = Given::Network{network->factory(), std::move(description)};
  arguments_.push_back(fmt::format("--model={}", given_model));
}

void Call::add_data(nb::handle data, nb::handle test) {
  const bool is_named =
      data.is_none() || nb::isinstance<nb::str>(data) || nb::hasattr(data, "__fspath__");
  const auto tokens = is_named ? std::nullopt : tokens_of(data, vocabulary_);
  check(
      tokens || !vocabulary_,
      "vocabulary is for tokens alone: expected integers [L] or [N, T] as data, or no vocabulary");
  if (is_named) {
    check(test.is_none(), "test is for arrays alone: expected data=(x, y), or no test");
    return add("data", data);
  }
  if (tokens) return add_tokens(*tokens, test);
  const SampleShape shape = sample_shape();
  given_.arrays = std::make_shared<Datasets>(Datasets{dataset_of(data, "data", shape), {}});
  Datasets& both = *given_.arrays;
  both.test = test.is_none() ? dataset_of(data, "data", shape) : dataset_of(test, "test", shape);
  both.test.is_trained_on = test.is_none();
  for (size_t i = 0; i < both.train.fields.size(); ++i) {
    const int64_t classes = std::max(both.train.fields[i].classes, both.test.fields[i].classes);
    both.train.fields[i].classes = both.test.fields[i].classes = classes;
  }
  arguments_.push_back(fmt::format("--data={}", given_data));
}

// Rows of the caller's stay rows unless he asks for others.
void Call::add_tokens(const Tokens& tokens, nb::handle test) {
  tokens_ = {tokens.corpus, tokens.corpus};
  if (!test.is_none()) {
    const auto others = tokens_of(test, vocabulary_);
    check(others.has_value(), "test has no tokens, but data has: expected integers in both");
    tokens_.test = others->corpus;
  }
  arguments_.push_back(fmt::format("--data={}", given_tokens));
  if (!tokens.row || has("context")) return;
  check(*tokens.row > 1, "data has rows of one token: expected at least 2, or a list of documents");
  add("context", nb::int_(*tokens.row - 1));
  if (!has("documents")) add("documents", nb::str("padded"));
}

void Call::run(const std::function<void(app::Asked&)>& work) {
  const nb::gil_scoped_release release;
  ledger(Device::cpu).set_limit(std::nullopt);
  app::Asked asked;
  for (const auto& domain : asked.options.domains)
    if (auto* const text = dynamic_cast<Text*>(domain.get())) {
      text->given = tokens_;
      if (language_model_) text->sizes = language_model_->sizes;
    }
  if (language_model_) asked.options.class_count_of_weights = language_model_->vocabulary;
  asked.options.domains.add(given_.clone());
  app::with_arguments(asked, arguments_, [&] { work(asked); });
}

bool Call::has(const std::string& option) const {
  return std::ranges::any_of(arguments_, [&](const std::string& argument) {
    return argument.starts_with("--" + option + "=");
  });
}

// Weights that are not in a file yet.
nb::object Call::file_of(nb::handle weights) {
  folder_ = nb::module_::import_("tempfile").attr("TemporaryDirectory")();
  const nb::object path = folder_.attr("name") + nb::str("/weights.safetensors");
  weights.attr("save")(path);
  return path;
}

}  // namespace accrue::python
