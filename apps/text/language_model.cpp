#include "apps/text/language_model.h"

namespace accrue::app {

const Text& check_language_model(const Request& options) {
  const Text* const text = options.domains.of_model_as<Text>(options.model_name);
  check(text != nullptr,
        "{} holds weights of a network {}: expected a language model's, as accrue train --save "
        "writes them",
        options.init, options.model_name);
  return *text;
}

}  // namespace accrue::app
