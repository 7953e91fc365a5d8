#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/samples.h"
#include "fonts/glyphs.h"

namespace accrue {

// Finds samples of glyphs by style and character. The built-in strokes are one style, and their
// characters have only numbers.
class GlyphCatalogue {
 public:
  // `directory` holds the manifest, or names the built-in data. `data` must outlive this.
  GlyphCatalogue(const Datasets& data, const std::string& directory);

  // The number of a style; an empty name means the first. Throws Error for an unknown name.
  int32_t style(const std::string& name) const;
  struct Glyphs {
    Samples samples;  // gathered in the given dtype
    // The identity of each character in every style: its code point, or its number among the
    // strokes.
    std::vector<int32_t> characters;
  };
  // All characters of the test set in a style.
  Glyphs held_out(int32_t style, DType dtype) const;
  // The characters of a text in its order, from either split; spaces are left out. Throws Error for
  // characters that the data set does not have, for no characters, and without a manifest.
  Glyphs find(const std::string& text, int32_t style, DType dtype) const;

 private:
  // Glyphs of a split, all in one style.
  struct Picked {
    const Dataset* data;
    std::vector<int32_t> samples;
  };
  int64_t styles() const { return data_.test.field("styles").classes; }
  Picked place_of(char32_t code, int32_t style) const;

  const Datasets& data_;
  std::optional<detail::GlyphManifest> manifest_;
};

}  // namespace accrue
