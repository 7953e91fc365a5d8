#include "apps/cli/environment.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/cli/processor.h"
#include "core/cuda.h"
#include "kernels/parallel.h"
#include "train/build.h"

namespace accrue::app {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

}  // namespace

std::string shell_word(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-+=.,:/@%", c);
  });
  if (plain && !word.empty()) return word;
  // GCC 12 takes a literal before a string for overlapping memory (GCC bug 105651).
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(file, word, '\0');) {
    if (!text.empty()) text += ' ';
    text += shell_word(word);
  }
  return text;
}

std::string machine_name(Device device) {
  return device == Device::cuda ? cuda::describe_device() : processor();
}

nlohmann::ordered_json environment(Device device) {
  return {{"version", version()},
          {"compiler", ACCRUE_COMPILER},
          {"libraries", ACCRUE_LIBRARIES},
          {"matrix_products", matrix_products()},
          {"machine", machine_name(device)},
          {"device", name(device)},
          {"compiled_for", compiled_isa()},
          {"threads", thread_count()}};
}

}  // namespace accrue::app
