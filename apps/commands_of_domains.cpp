#include "apps/commands_of_domains.h"

#include "apps/fonts/commands.h"
#include "apps/images/commands.h"
#include "apps/text/commands.h"

namespace accrue::app {

std::vector<DomainCommands> commands_of_domains() {
  return {images_commands(), fonts_commands(), text_commands()};
}

}  // namespace accrue::app
