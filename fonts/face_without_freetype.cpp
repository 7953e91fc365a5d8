#include "core/error.h"
#include "core/inside.h"
#include "fonts/face.h"

namespace accrue::fonts {

struct Face::Opened {
  GlyphFont about;
};

const std::map<std::string, GlyphLayout>& glyph_layout_names() {
  static const std::map<std::string, GlyphLayout> names{{"bbox", GlyphLayout::bbox},
                                                        {"zi2zi", GlyphLayout::zi2zi}};
  return names;
}

Face::Face(const std::string& name) {
  fail("'{}' cannot be opened: this accrue was built without FreeType (Debian: libfreetype-dev)",
       name);
}
Face::~Face() = default;
Face::Face(Face&&) noexcept = default;
const GlyphFont& Face::about() const { return opened_->about; }
FontFacts Face::facts() const { return {}; }
std::optional<GrayImage> Face::draw(char32_t, int64_t, GlyphLayout) const { return std::nullopt; }
std::optional<GlyphPlacement> Face::placement(char32_t, int64_t, GlyphLayout) const {
  return std::nullopt;
}
std::optional<int> Face::advance(char32_t) const { return std::nullopt; }

}  // namespace accrue::fonts
