#include "apps/font/draw.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "apps/cli/output.h"
#include "apps/font/generator.h"
#include "core/autograd.h"
#include "data/glyph_sheet.h"
#include "data/glyphs.h"
#include "kernels/arithmetic.h"
#include "train/glyph_drawings.h"

namespace accrue::app {
namespace {

// Glyphs of a split, all in one style.
struct Picked {
  const Dataset* data;
  std::vector<int32_t> samples;
};

// Finds the samples of a data set by style and character. One that is built in has numbered
// characters only.
class Catalogue {
 public:
  Catalogue(const Datasets& data, const std::string& directory) : data_(data) {
    if (holds_glyphs(directory)) manifest_ = read_glyph_manifest(directory);
  }

  int32_t style(const std::string& name) const {
    if (name.empty()) return 0;
    if (manifest_) return manifest_->style_number(name);
    check(name == "strokes", "there is no style '{}': expected strokes", name);
    return 0;
  }

  std::vector<int32_t> held_out(int32_t style) const {
    const int64_t count = data_.test.size() / styles();
    std::vector<int32_t> samples(static_cast<size_t>(count));
    std::iota(samples.begin(), samples.end(), static_cast<int32_t>(style * count));
    return samples;
  }

  // The characters of a text, in its order, of either split.
  Samples find(const std::string& text, int32_t style, DType dtype) const {
    std::vector<Samples> found;
    std::vector<std::string> missing;
    for (const char32_t code : from_utf8(text)) {
      const Picked one = place_of(code, style);
      if (one.data) found.push_back(gather(*one.data, one.samples, dtype));
      else if (code != U' ' && code != U'\n') missing.push_back(to_utf8(code));
    }
    check(
        missing.empty(),
        "{} not among the {} characters of the data set: expected others, or a directory prepared "
        "with them",
        fmt::join(missing, " "), manifest_->characters.size());
    check(!found.empty(), "there are no characters to draw in '{}': expected some", text);
    return joined(found);
  }

 private:
  int64_t styles() const { return data_.test.field("styles").classes; }

  Picked place_of(char32_t code, int32_t style) const {
    for (const Split split : {Split::test, Split::train}) {
      const std::vector<char32_t> characters = manifest_->characters_of(split);
      const auto found = std::ranges::find(characters, code);
      if (found == characters.end()) continue;
      const int64_t first = style * int64_t(characters.size());
      return {split == Split::test ? &data_.test : &data_.train,
              {static_cast<int32_t>(first + (found - characters.begin()))}};
    }
    return {nullptr, {}};
  }

  static Samples joined(const std::vector<Samples>& parts) {
    Samples all;
    for (const Samples::Field& field : parts.front().fields) {
      const Shape& one = field.values.shape();
      const Tensor values = Tensor::empty(one.with(0, int64_t(parts.size())), field.values.dtype(),
                                          Device::cpu, Category::data);
      for (size_t i = 0; i < parts.size(); ++i)
        values.slice(int64_t(i), int64_t(i) + 1).copy_from(parts[i][field.name]);
      all.fields.push_back({field.name, values});
    }
    return all;
  }

  const Datasets& data_;
  std::optional<GlyphManifest> manifest_;
};

// A row of drawings for each step from one style to the other.
GrayImage interpolation(const LoadedGenerator& generator, const Samples& samples, int32_t from,
                        int32_t to, int64_t steps) {
  const NoGrad no_grad;
  const Zi2ziGenerator& network = generator.network();
  const Pass pass = Pass::eval();
  const auto embedded = [&](int32_t style) {
    const std::vector<int32_t> indices(static_cast<size_t>(samples.size()), style);
    return network.style()(Tensor::from(indices, {samples.size()}, generator.device), pass);
  };
  const Tensor a = embedded(from), b = embedded(to);
  const auto encoded = network.encode(samples["sources"].to(generator.device), pass);
  std::vector<std::vector<GrayImage>> rows;
  for (int64_t i = 0; i < steps; ++i) {
    const double t = double(i) / double(steps - 1);
    const Tensor style = add(scale(a, 1 - t), scale(b, t));
    rows.push_back(to_images(network.draw_with(encoded, style, pass)));
  }
  return glyph_sheet(rows, samples.size());
}

}  // namespace

Settings settings_of(FontDrawOptions& asked, Options& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s = drawing_settings(options);
  s.group("Drawing")
      .add(asked.text, {.name = "text",
                        .decides = no_result,
                        .help = "Characters of the data set",
                        .takes = "TEXT",
                        .excludes = "all"})
      .add_flag(asked.all, true,
                {.name = "all",
                 .decides = no_result,
                 .help = "All characters that were held out",
                 .excludes = "text"})
      .add(asked.style,
           {"style", no_result, "The style to draw them in", "NAME", "the first of the data set"})
      .add(asked.between, {.name = "between",
                           .decides = no_result,
                           .help = "Two styles: what lies between them, step by step",
                           .takes = "NAME,NAME",
                           .excludes = "style"})
      .add(asked.steps, {.name = "steps",
                         .decides = no_result,
                         .help = "From one to the other, both included",
                         .range = {2, 1000},
                         .needs = "between"})
      .add(asked.out, {"out", no_result, "The sheet", "FILE.png"});
  return s;
}

void draw_font(const Options& options, const FontDrawOptions& asked) {
  check(asked.all != !asked.text.empty(),
        "nothing to draw is given: expected --text TEXT or --all");
  check(asked.between.empty() || asked.between.size() == 2,
        "--between has {}: expected two styles, with a comma between them",
        counted(int64_t(asked.between.size()), "style"));
  check(asked.text.empty() || holds_glyphs(options.data),
        "the built-in strokes are no characters of a script: expected --all instead of --text, or "
        "--data with a directory of accrue font prepare");
  const LoadedGenerator generator = load_generator(options);
  const Catalogue catalogue(generator.data, options.data);
  const bool between = !asked.between.empty();
  const int32_t style = catalogue.style(between ? asked.between[0] : asked.style);
  const DType dtype = generator.parameters.compute_dtype();
  const Samples samples = asked.all ? gather(generator.data.test, catalogue.held_out(style), dtype)
                                    : catalogue.find(asked.text, style, dtype);
  const GrayImage image =
      between
          ? interpolation(generator, samples, style, catalogue.style(asked.between[1]), asked.steps)
          : sheet_of(samples, draw_glyphs(generator.network(), samples, generator.device,
                                          options.micro_batch));
  write_png(asked.out, image);
  fmt::print("{}: {}, {}x{} pixels\n", asked.out, counted(samples.size(), "character"), image.width,
             image.height);
}

}  // namespace accrue::app
