#include "tables/domain.h"

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "core/inside.h"
#include "tables/predict.h"

namespace accrue::app {

ProgramDomain tables_domain() {
  return {.make = [] { return std::unique_ptr<Domain>(std::make_unique<Tables>()); },
          .predict = [](const Request& request,
                        const AnswerFiles& asked) { predict_table(request, asked, spoken()); }};
}

}  // namespace accrue::app
