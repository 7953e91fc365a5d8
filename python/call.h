#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands/commands_of_networks.h"
#include "core/ledger.h"
#include "python/arrays.h"
#include "python/given.h"
#include "python/spelling.h"
#include "python/tokens.h"
#include "python/values.h"
#include "text/pretrained.h"

namespace accrue::python {

namespace nb = nanobind;

// What a function gives its caller: what the command gives; what that writes as --json; or the
// answers to samples that it is handed, so that no samples are read, and no answers scored.
enum class Gives { outputs, json, answers };

// A function of the module, which does what a command of the program does. Its keyword arguments
// are the command's settings, with underscores.
struct Door {
  std::string function, command;
  std::vector<std::string> own{};  // settings that it has arguments of its own for
  Gives gives = Gives::outputs;
  bool has_vocabulary = true;
  // The name of the argument of weights.
  std::string weights = "init";

  bool has(const Setting& setting) const;
  // Whether an argument of the setting's name is the function's own.
  bool has_own(const Setting& setting) const;
  // The name of the argument for a setting.
  std::string argument_for(const std::string& setting) const;
};

// What a caller asks of a command: values for its settings, and the data and the network that he
// has himself.
class Call {
 public:
  // Each option is one of the door's settings, the file `config` of more, or the `vocabulary` of
  // the tokens that it trains on. Throws Error.
  Call(const Door& door, const nb::kwargs& options);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // A file, or weights by name.
  void add_weights(nb::handle weights);
  // A name, a language model's config.json or its directory, a GGUF file, or a network of layers.
  void add_model(nb::handle model);
  // A name or a directory, tokens, or arrays x and y; `test`, likewise arrays.
  void add_data(nb::handle data, nb::handle test);
  void add(const std::string& setting, nb::handle value);
  SampleShape sample_shape() const {
    return given_.network ? SampleShape::own : SampleShape::image;
  }
  bool has(const std::string& setting) const;
  bool has_arrays() const { return given_.arrays || tokens_.train; }

  // The memory on the cpu that others held before it.
  const Usage& held_before() const { return held_before_; }

  // Does the work that the program would do by these options. Others may run Python meanwhile.
  // Throws Error that names arguments, and what `work` throws. Returns what must outlive what the
  // work has made, if anything must.
  std::shared_ptr<Ranks> run(const std::function<void(app::AskedOfNetworks&)>& work);
  // That of what is said about it: complete once it runs.
  const Spelling& spelling() const { return spelling_; }

 private:
  // A value for a setting, by the name of the argument.
  struct Value {
    std::string argument, setting;
    nb::object value;
  };

  void set_vocabulary(nb::handle value);
  void add_tokens(const Tokens& tokens, nb::handle test);
  // Sets it, and counts it as given.
  void give(const Setting& setting, const std::string& text, Request& request);
  void give_all(const Settings& settings, Request& request);
  void give_config(const Settings& settings, Request& request);
  const Setting& setting_of(const Value& value, const Settings& settings) const;
  std::string file_of(nb::handle weights);

  const Door door_;
  const Usage held_before_ = ledger(Device::cpu).current();
  std::vector<Value> values_;
  nb::object config_ = nb::none();
  Given given_;
  Corpora tokens_;
  std::optional<int64_t> vocabulary_;
  std::optional<PretrainedModel> language_model_;
  std::filesystem::path folder_;  // of weights that were not in a file
  Paths paths_;                   // that are read beside the settings' own
  Spelling spelling_;
};

}  // namespace accrue::python
