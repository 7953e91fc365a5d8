#include "apps/text/language_model.h"

namespace accrue::app {

const Text& check_language_model(const Request& options) {
  const auto* const text = dynamic_cast<const Text*>(&options.domains.of_model(options.model_name));
  check(text != nullptr,
        "{} holds weights of a network {}: expected a language model's, as accrue train --save "
        "writes them",
        options.init, options.model_name);
  return *text;
}

}  // namespace accrue::app
