#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"

namespace accrue {

// How accrue handles a key of another library's configuration.
enum class Heed {
  read,     // it affects the computation or the output, and accrue reads it
  nothing,  // accrue computes the same whatever its value
  fixed,    // another value would change the computation, and is refused
  writing   // another value would change the generated text; the user is told there
};

struct KnownKey {
  std::string_view name;  // or a prefix of several names, which ends with a dot
  Heed heed;
  std::string_view values{};  // of fixed and writing: the allowed ones, in JSON: "[false, null]"
};

// The treatment of keys that are not in the table. All are refused; or only those whose value is
// not null, false, 0 or empty are refused; or these cause a warning.
enum class UnknownKeys { refused, refused_if_set, warned_of };

// The known keys of one kind of configuration. Several files may share a table.
struct KnownKeys {
  std::vector<std::span<const KnownKey>> tables;
  UnknownKeys unknown;

  const KnownKey* find(std::string_view name) const;
  // Throws Error, which says what was expected, if a table refuses the value, or if an unknown key
  // is refused. Returns a warning, or an empty string. `where` is the prefix of messages:
  // "config.json: ".
  std::string judge(const std::string& where, std::string_view name,
                    const nlohmann::json& value) const;
  // Throws Error unless a table says that this key is read: a reader must not use other keys.
  void check_is_read(std::string_view name) const;
};

// A JSON object whose keys are all known, harmless, or refused. The constructor checks every key,
// so that no reader can overlook one.
class ConfigFile {
 public:
  // `where` is the name of the object in messages.
  ConfigFile(std::string where, const nlohmann::json& object, const KnownKeys& known);
  ~ConfigFile();

  const std::string& where() const { return where_; }
  // One warning for each key that is not known.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The values of keys that the table says are read. A null value counts as missing. Each function
  // throws Error for a value of another kind, and for a missing value without a default.
  const nlohmann::json& operator[](const char* name) const;
  bool has(const char* name) const;
  int64_t count(const char* name, std::optional<int64_t> otherwise = {}) const;  // above 0
  double number(const char* name, std::optional<double> otherwise = {}) const;   // above 0
  // Null is false, as in Python.
  bool flag(const char* name, bool otherwise) const;
  std::string word(const char* name, std::string otherwise) const;
  // The keys that the table says affect writing and whose values ask for something: "min_p 0.1".
  std::vector<std::string> asks_for() const;

 private:
  const std::string where_;
  const KnownKeys& known_;
  const std::unique_ptr<nlohmann::json> json_;
  std::vector<std::string> warnings_;
};

// The tables for the files of transformers and PEFT. rotary_keys() covers the contents of
// rope_scaling and rope_parameters.
const KnownKeys& gpt2_keys();
const KnownKeys& llama_keys();
const KnownKeys& mistral_keys();
const KnownKeys& qwen2_keys();
const KnownKeys& rotary_keys();
const KnownKeys& generation_keys();
const KnownKeys& lora_keys();
// The tables for GGUF files of Llama and Qwen2: keys of the architecture, without its name and dot,
// and all other keys.
const KnownKeys& gguf_architecture_keys();
const KnownKeys& gguf_other_keys();

}  // namespace accrue
