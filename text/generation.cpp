#include "text/generation.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "data/strict_json.h"
#include "text/config_file.h"

namespace accrue {
namespace {

using nlohmann::json;

constexpr int64_t top_k_of_generate = 50;

std::optional<ConfigFile> file_in(const Metadata& files, const char* name) {
  constexpr int most_levels = 16;
  constexpr int64_t most_elements = 1 << 16;
  const auto found = files.find(name);
  if (found == files.end()) return {};
  return std::optional<ConfigFile>(
      std::in_place, name, parse_strict_json(found->second, most_levels, name, most_elements),
      generation_keys());
}

// One token, or several.
std::vector<int32_t> ends_of(const ConfigFile& config) {
  json ends = config["eos_token_id"];
  if (ends.is_null()) return {};
  if (!ends.is_array()) ends = json::array({ends});
  std::vector<int32_t> all;
  for (const json& end : ends) {
    check(end.is_number_integer() && end >= 0 && end <= INT32_MAX,
          "{}: eos_token_id is {}, expected the number of a token, or several", config.where(),
          config["eos_token_id"].dump());
    all.push_back(end.get<int32_t>());
  }
  return all;
}

}  // namespace

Generation generation_in(const Metadata& files) {
  Generation result;
  const auto said = file_in(files, "generation_config.json"), model = file_in(files, "config.json");
  if (!said) {
    if (model) result.ends = ends_of(*model);
    return result;
  }
  result.ends = ends_of(*said);
  result.unheeded = said->asks_for();
  Sampling& sampling = result.sampling;
  sampling.repetition_penalty = said->number("repetition_penalty", 1);
  if (!said->flag("do_sample", false)) return result;
  sampling.temperature = said->number("temperature", 1);
  sampling.top_p = said->number("top_p", 1);
  const json& top_k = (*said)["top_k"];
  sampling.top_k = top_k.is_null() ? top_k_of_generate : top_k == 0 ? 0 : said->count("top_k");
  check_sampling(sampling);
  return result;
}

}  // namespace accrue
