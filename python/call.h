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

// True for the path of a file of texts that the module has written (python/accrue/_texts.py).
bool are_written_texts(nb::handle data);

// The result of a function: the outputs of its command; the JSON that its command writes with
// --json; or answers to the caller's samples. For answers the command reads and scores no samples.
enum class Gives { outputs, json, answers };

// A function of the module, which does what a command of the program does. Its keyword arguments
// are the command's settings, with underscores.
struct Door {
  std::string function, command;
  std::vector<std::string> own{};  // settings for which the function declares arguments itself
  Gives gives = Gives::outputs;
  bool has_vocabulary = true;
  // The name of the argument that takes weights.
  std::string weights = "init";

  bool has(const Setting& setting) const;
  // True if the function itself declares an argument of the setting's name.
  bool has_own(const Setting& setting) const;
  // The name of the argument for a setting.
  std::string argument_for(const std::string& setting) const;
};

// A caller's request to a command: values for its settings, and the caller's own data and network.
class Call {
 public:
  // Each option is one of the door's settings, the file `config` of more, or of what it trains on
  // the `vocabulary` of tokens and the `sample_weight` of arrays. Throws Error.
  Call(const Door& door, const nb::kwargs& options);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // A file, or weights by name.
  void add_weights(nb::handle weights);
  // A name, a language model's config.json or its directory, a GGUF file, or a network of layers.
  void add_model(nb::handle model);
  // A network of layers, or None.
  void add_network(nb::handle network);
  // A name or a directory, tokens, or arrays x and y; `test`, likewise arrays or tokens, or for
  // texts a file of texts that the module has written.
  void add_data(nb::handle data, nb::handle test);
  // The same with samples that are scored during the run, by default after each epoch.
  void add_validation(nb::handle data, nb::handle validation);
  void add(const std::string& setting, nb::handle value);
  Taken taken() const { return given_.taken(); }
  bool has(const std::string& setting) const;
  bool has_arrays() const { return given_.arrays || tokens_.train || !test_texts_.empty(); }
  const Given& given() const { return given_; }

  // The memory on the cpu that was held before this call.
  const Usage& held_before() const { return held_before_; }

  // Runs `work` as the program would run the command with these options, without the GIL. Throws
  // Error, which names arguments, and anything that `work` throws. Returns the ranks, which must
  // outlive all that `work` has made; null if there are none.
  std::shared_ptr<Ranks> run(const std::function<void(app::AskedOfNetworks&)>& work);
  // Spells messages about this call; complete once run() has begun its work.
  const Spelling& spelling() const { return spelling_; }

 private:
  // The value of an argument. `setting` is empty if the argument is named like its setting.
  struct Value {
    std::string argument, setting;
    nb::object value;
  };

  void set_vocabulary(nb::handle value);
  void add_sample_weights();
  void add_arrays();
  void add_data_by_name(nb::handle data, nb::handle test);
  bool take_network(nb::handle model);
  void add_tokens(const Tokens& tokens, nb::handle test);
  // Gives the setting its value, and counts it as given.
  void give(const Setting& setting, const std::string& text, Request& request);
  void give_all(const Settings& settings, Request& request);
  void give_config(const Settings& settings, Request& request);
  const Setting& setting_of(const Value& value, const Settings& settings) const;
  std::string file_of(nb::handle weights);

  const Door door_;
  const Usage held_before_ = ledger(Device::cpu).current();
  std::vector<Value> values_;
  nb::object config_ = nb::none(), sample_weights_ = nb::none(), losses_ = nb::none();
  Given given_;
  Corpora tokens_;
  std::string test_texts_;
  std::optional<int64_t> vocabulary_;
  std::optional<PretrainedModel> language_model_;
  std::filesystem::path folder_;  // of the temporary file with weights
  Paths paths_;                   // read in addition to the settings' own
  Spelling spelling_;
};

}  // namespace accrue::python
