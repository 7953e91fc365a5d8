#include "apps/domains.h"

#include "apps/fonts/domain.h"
#include "apps/images/domain.h"
#include "apps/text/domain.h"

namespace accrue::app {

const std::vector<ProgramDomain>& program_domains() {
  static const std::vector<ProgramDomain> domains{images_of_program(), fonts_of_program(),
                                                  text_of_program()};
  return domains;
}

Domains all_domains() {
  std::vector<std::unique_ptr<Domain>> all;
  for (const ProgramDomain& domain : program_domains()) all.push_back(domain.make());
  return Domains(std::move(all));
}

}  // namespace accrue::app
