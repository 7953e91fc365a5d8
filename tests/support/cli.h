#pragma once

// Helpers for the tests of the program: they run it, and make and read its files.

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/memory.h"
#include "data/safetensors.h"
#include "fonts/glyphs.h"
#include "fonts/strokes.h"
#include "images/digits.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/paths.h"
#include "train/weights.h"

namespace accrue::test {

namespace fs = std::filesystem;

struct Output {
  int status;
  std::string text;  // stdout and stderr
};

inline Output shell(const std::string& command) {
  std::FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Output output;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

// The options that choose the device under test, for the subcommands that compute.
inline std::string device_arguments() { return fmt::format(" --device {} ", name(test_device())); }

struct Folder : TemporaryDirectory {
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
};

using Bytes = std::vector<unsigned char>;

inline void put(Bytes& bytes, uint32_t value) {
  for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<unsigned char>(value >> shift));
}

inline void write(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// A few of the program's digits, in MNIST's format. Tests on the runner and under AddressSanitizer
// train and score on them: there, scoring the program's 2000 test images would take most of a
// test's time.
inline const Folder& few_digits() {
  static const Folder folder;
  static const bool written = [] {
    for (const auto& [split, name] : {std::pair{Split::train, "train"}, {Split::test, "t10k"}}) {
      const Dataset digits = make_digits(split, {.train_size = 1400, .test_size = 40});
      const auto count = static_cast<uint32_t>(digits.size());
      Bytes images, labels;
      for (const uint32_t word : {0x803u, count, 28u, 28u}) put(images, word);
      for (const uint8_t pixel : digits["images"].span<uint8_t>()) images.push_back(pixel);
      for (const uint32_t word : {0x801u, count}) put(labels, word);
      for (const int32_t label : digits["labels"].span<int32_t>())
        labels.push_back(static_cast<unsigned char>(label));
      write(folder / (std::string(name) + "-images-idx3-ubyte"), images);
      write(folder / (std::string(name) + "-labels-idx1-ubyte"), labels);
    }
    return true;
  }();
  REQUIRE(written);
  return folder;
}

// True if training and scoring are to use few_digits() and narrow() models.
inline bool computes_slowly() { return on_runner() || sanitized(); }

// For tests that hold at any width.
inline std::string narrow() { return computes_slowly() ? " --width 0.25 " : " "; }

inline Output accrue_run(const std::string& arguments) {
  std::string command = program_path + " " + arguments;
  for (const char* computes : {"train", "eval", "predict", "bench train", "bench memory",
                               "bench kernels", "plan", "font train", "font draw", "font score"})
    if (arguments.starts_with(computes)) command += device_arguments();
  const bool loads =
      std::ranges::any_of(std::array{"train", "eval", "bench memory", "plan"},
                          [&](const char* command) { return arguments.starts_with(command); });
  const auto asks = [&](const char* option) { return arguments.find(option) != std::string::npos; };
  // Scoring is cheaper on the cpu. There the limits in tests of memory count the whole data set.
  const bool few = on_runner() || (computes_slowly() && !asks("memory"));
  if (few && loads && !asks("--data") && !asks("unet"))
    command += " --data " + few_digits().path().string();
  return shell(command);
}

inline std::string succeed(const std::string& arguments) {
  const Output output = accrue_run(arguments);
  INFO(arguments << "\n" << output.text);
  REQUIRE(output.status == 0);
  return output.text;
}

// Requires that the program fails with one clear error that contains `part`.
inline void refuse(const std::string& arguments, const std::string& part) {
  const Output output = accrue_run(arguments);
  INFO(arguments << "\n" << output.text);
  REQUIRE(output.status != 0);
  REQUIRE(output.status < 128);
  REQUIRE_THAT(output.text, ContainsSubstring(part));
}

inline Bytes idx_images(uint32_t count) {
  Bytes bytes;
  for (const uint32_t word : {0x803u, count, 28u, 28u}) put(bytes, word);
  for (uint32_t i = 0; i < count * 784; ++i)
    bytes.push_back(static_cast<unsigned char>(i * 7919 >> 3));
  return bytes;
}

inline Bytes idx_labels(uint32_t count) {
  Bytes bytes;
  for (const uint32_t word : {0x801u, count}) put(bytes, word);
  for (uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<unsigned char>(i % 10));
  return bytes;
}

// A small data set in MNIST's format: 40 training and 10 test images.
inline void write_idx_data(const Folder& folder) {
  write(folder / "train-images-idx3-ubyte", idx_images(40));
  write(folder / "train-labels-idx1-ubyte", idx_labels(40));
  write(folder / "t10k-images-idx3-ubyte", idx_images(10));
  write(folder / "t10k-labels-idx1-ubyte", idx_labels(10));
}

// Glyphs of side x side pixels, as accrue font prepare would write them: in each of two styles,
// brush and pen, 12 to train with and 4 held out.
inline void write_glyph_data(const std::string& directory, int64_t side = 32) {
  constexpr int64_t train = 12, test = 4;
  const Dataset strokes = make_strokes(Split::train, {.train_size = train + test, .side = side});
  GlyphManifest manifest{
      .size = side, .layout = "strokes", .styles = {{.name = "brush"}, {.name = "pen"}}};
  const auto sources = strokes["sources"].span<uint8_t>(),
             targets = strokes["targets"].span<uint8_t>();
  for (int64_t i = 0; i < train + test; ++i) {
    const char32_t code = U'\u4e00' + static_cast<char32_t>(i);
    manifest.characters.push_back({code, i % 4 == 3});
    for (const char* style : {"brush", "pen"}) {
      const auto& right = std::string(style) == "brush" ? targets : sources;
      GrayImage pair(side, 2 * side);
      for (int64_t y = 0; y < side; ++y)
        for (int64_t x = 0; x < side; ++x) {
          const auto at = static_cast<size_t>((i * side + y) * side + x);
          pair.at(y, x) = sources[at];
          pair.at(y, side + x) = right[at];
        }
      const fs::path path = glyph_pair_path(directory, style, code);
      fs::create_directories(path.parent_path());
      write_png(path, pair);
    }
  }
  write_glyph_manifest(directory, manifest);
}

inline std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// The lines about optimizer steps in a file of train --json, without the line of the test score
// that follows them.
inline std::vector<nlohmann::json> json_steps(const std::string& path) {
  auto lines = json_lines(path);
  std::erase_if(lines, [](const auto& line) { return !line.contains("step"); });
  return lines;
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The largest difference between two weight files.
inline double largest_difference(const std::string& a, const std::string& b) {
  return detail::largest_difference(read_safetensors(a), read_safetensors(b));
}

}  // namespace accrue::test
