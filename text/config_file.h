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

// What is done here with a key of another library's configuration.
enum class Heed {
  read,     // it says what is computed or written, and is read
  nothing,  // whatever it says, the same is computed here
  fixed,    // another value than these would change what is computed, and is refused
  writing   // another value than these would change what is written, and is said there
};

struct KnownKey {
  std::string_view name;  // or the beginning of several, with a dot at its end
  Heed heed;
  std::string_view values{};  // of one that is fixed, or of writing, in JSON: "[false, null]"
};

// What becomes of a key that is not in the table: all are refused; or those that are not null,
// false, 0 or empty, which ask for something; or of the latter it is warned.
enum class UnknownKeys { refused, refused_if_set, warned_of };

// The keys of a kind of configuration. That of several files may be shared.
struct KnownKeys {
  std::vector<std::span<const KnownKey>> tables;
  UnknownKeys unknown;

  const KnownKey* find(std::string_view name) const;
  // Throws Error, naming what was expected, for a value that a table refuses and for an unknown key
  // that is refused. Returns a warning, or nothing. `where` stands before the key: "config.json: ".
  std::string judge(const std::string& where, std::string_view name,
                    const nlohmann::json& value) const;
  // Throws Error for a key that a table does not call read: what is read must stand there.
  void check_is_read(std::string_view name) const;
};

// An object of JSON all of whose keys are known, harmless, or refused: they are judged as soon as
// it is there, so that no reader can pass one over.
class ConfigFile {
 public:
  // `where` names it in messages.
  ConfigFile(std::string where, const nlohmann::json& object, const KnownKeys& known);
  ~ConfigFile();

  const std::string& where() const { return where_; }
  // One for each key that is not known.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The values of keys that the table calls read. One that is null is not there. Each throws Error
  // for a value of another kind, and if there is none and nothing to take in its place.
  const nlohmann::json& operator[](const char* name) const;
  bool has(const char* name) const;
  int64_t count(const char* name, std::optional<int64_t> otherwise = {}) const;  // above 0
  double number(const char* name, std::optional<double> otherwise = {}) const;   // above 0
  // Null is false, as in Python.
  bool flag(const char* name, bool otherwise) const;
  std::string word(const char* name, std::string otherwise) const;
  // The keys that the table calls writing, with a value that asks for something: "min_p 0.1".
  std::vector<std::string> asks_for() const;

 private:
  const std::string where_;
  const KnownKeys& known_;
  const std::unique_ptr<nlohmann::json> json_;
  std::vector<std::string> warnings_;
};

// The tables of the files of transformers and PEFT; rotary_keys() is of what is within rope_scaling
// and rope_parameters.
const KnownKeys& gpt2_keys();
const KnownKeys& llama_keys();
const KnownKeys& mistral_keys();
const KnownKeys& qwen2_keys();
const KnownKeys& rotary_keys();
const KnownKeys& generation_keys();
const KnownKeys& lora_keys();
// The tables of GGUF files of Llama and Qwen2: keys of the architecture, without its name and dot,
// and all others.
const KnownKeys& gguf_architecture_keys();
const KnownKeys& gguf_other_keys();

}  // namespace accrue
