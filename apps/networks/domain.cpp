#include "networks/domain.h"

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "core/inside.h"
#include "tables/predict.h"

namespace accrue::app {
namespace {

void predict(const Request& request, const AnswerFiles& asked) {
  predict_table(request, asked, spoken());
}

std::vector<std::pair<std::string, std::string>> about_model(const Request& request) {
  const auto& files = request.domains.get<NetworkFiles>();
  return files.facts(request.sample);
}

}  // namespace

ProgramDomain networks_domain() {
  return {.make = [] { return std::unique_ptr<Domain>(std::make_unique<NetworkFiles>()); },
          .about_model = about_model,
          .predict = predict};
}

}  // namespace accrue::app
