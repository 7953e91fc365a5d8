#pragma once

// tests/golden/zi2zi.safetensors, as scripts/golden_zi2zi.py wrote it, and the streams of numbers
// from which its runs start.

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "fonts/zi2zi_game.h"
#include "kernels/arithmetic.h"
#include "tests/support/device.h"
#include "tests/support/paths.h"
#include "train/training_options.h"

namespace accrue::test {

using Series = std::vector<double>;
// All values of a run by their golden names, with whole tensors.
using Played = std::map<std::string, Series>;
using Cut = std::vector<int64_t>;

inline constexpr int64_t glyphs_of_a_window = 8, glyph_windows = 10;

struct Configuration {
  std::string name;
  Zi2ziGame game;
  Order order;
  double head_scale;
  std::set<std::string> vanishing;  // parameters whose effect a later norm removes

  // Batch norm couples the samples of a micro-batch, or of the window.
  bool depends_on_cut() const { return game.networks.norm == NormKind::batch; }
};

inline Configuration configuration_of(const std::string& name, const Metadata& file) {
  const auto c = nlohmann::json::parse(file.at(name));
  Zi2ziGame game;
  game.networks = {.size = c["size"],
                   .channels = c["channels"],
                   .styles = c["styles"],
                   .width = c["ngf"],
                   .embedding = c["embedding"],
                   .upsampling = upsampling_names().at(c["up"]),
                   .skip = skip_names().at(c["skip"]),
                   .norm = glyph_norm_names().at(c["norm"]),
                   .self_attention = c["attention"],
                   .spectral_norm = c["spectral"],
                   .dropout = 0};
  game.losses.constancy = c["constancy"] == "tf" ? Constancy::original : Constancy::port;
  game.step.schedule.base = 1e-3;
  game.step.beta1 = 0.5;
  game.discriminator_lr = 2e-4;
  return {name, game, order_names().at(c["order"]), c["head_scale"],
          nlohmann::json::parse(file.at("vanishing"))[name]};
}

struct GoldenGlyphs {
  Metadata about;
  std::map<std::string, Tensor> tensors;
  GoldenGlyphs() {
    for (auto& [name, tensor] : read_safetensors(source_folder + "/tests/golden/zi2zi.safetensors",
                                                 Category::parameters, &about))
      tensors.emplace(name, tensor);
  }
  Configuration configuration(const std::string& name) const {
    return configuration_of(name, about);
  }
  std::vector<Configuration> configurations() const {
    std::vector<Configuration> all{configuration("32.simultaneous")};
    if (!on_runner())
      for (const std::string name :
           {"32.alternating", "64.alternating", "64.simultaneous", "32.batch"})
        all.push_back(configuration(name));
    return all;
  }
  // The expected numbers of a configuration, by their names within it. The two category losses of D
  // are added up.
  Played of(const Configuration& c) const {
    Played expected;
    for (const auto& [key, tensor] : tensors)
      if (key.starts_with(c.name + "."))
        expected[key.substr(c.name.size() + 1)] = to_doubles(tensor);
    Series& category = expected["D.category"] = expected.at("D.category_real");
    for (size_t w = 0; w < category.size(); ++w) category[w] += expected.at("D.category_fake")[w];
    expected.erase("D.category_real");
    expected.erase("D.category_fake");
    return expected;
  }
};

// SplitMix64 from the FNV-1a hash of a name.
inline std::vector<uint32_t> hashes(const std::string& name, int64_t count) {
  uint64_t seed = 14695981039346656037u;
  for (const char c : name) seed = (seed ^ uint8_t(c)) * 1099511628211u;
  std::vector<uint32_t> all;
  for (int64_t k = 0; k < count; ++k) {
    uint64_t z = seed + uint64_t(k + 1) * 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    all.push_back(uint32_t((z ^ (z >> 31)) >> 32));
  }
  return all;
}

inline Series stream(const std::string& name, int64_t count) {
  Series x;
  for (const uint32_t h : hashes(name, count)) x.push_back(double(h) / 2147483648.0 - 1);
  return x;
}

inline Tensor tensor_of(const Series& values, const Shape& shape, DType dtype) {
  if (dtype == DType::f64) return Tensor::from(values, shape, test_device());
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape, test_device());
}

}  // namespace accrue::test
