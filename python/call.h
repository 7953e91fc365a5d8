#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/program.h"
#include "core/ledger.h"
#include "python/given.h"
#include "python/tokens.h"
#include "text/pretrained.h"

namespace accrue::python {

namespace nb = nanobind;

std::string text_of(nb::handle object);

// What a caller asks of a command, in the words of the program: its options as arguments, and the
// data and the network that it has itself.
class Call {
 public:
  // Each option is one of the program's, with underscores, or the `vocabulary` of the tokens that
  // it trains on. Throws Error.
  Call(const std::string& command, const nb::kwargs& options);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void add(const std::string& name, nb::handle value);
  // A name, a language model's config.json or its directory, a GGUF file, or a network of layers.
  void add_model(nb::handle model);
  // A name or a directory, tokens, or arrays x and y; `test`, likewise arrays.
  void add_data(nb::handle data, nb::handle test);
  SampleShape sample_shape() const {
    return given_.network ? SampleShape::own : SampleShape::image;
  }
  bool has_arrays() const { return given_.arrays || tokens_.train; }

  // The memory on the cpu that others held before it.
  const Usage& held_before() const { return held_before_; }

  // Does the work that the program would do by these options. Others may run Python meanwhile.
  void run(const std::function<void(app::Asked&)>& work);

 private:
  void set_vocabulary(nb::handle value);
  void add_tokens(const Tokens& tokens, nb::handle test);
  bool has(const std::string& option) const;
  nb::object file_of(nb::handle weights);

  const Usage held_before_ = ledger(Device::cpu).current();
  std::vector<std::string> arguments_;
  Given given_;
  Corpora tokens_;
  std::optional<int64_t> vocabulary_;
  std::optional<PretrainedModel> language_model_;
  nb::object folder_;  // of weights that were not in a file
};

}  // namespace accrue::python
