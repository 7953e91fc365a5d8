#include "fonts/postscript.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/inside.h"

namespace accrue::fonts {
namespace {

using Point = TracedCurve::Point;

// The words of PostScript, without its comments, which end with their line.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  // Empty at the end.
  std::string_view next() {
    for (;;) {
      rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
      if (!rest_.starts_with('%')) break;
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    }
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \n"));
    rest_.remove_prefix(word.size());
    return word;
  }
  void expect(std::string_view wanted) {
    const std::string_view word = next();
    check(word == wanted, "'{}' where '{}' was expected", word.substr(0, 40), wanted);
  }
  void skip(int words) {
    for (int i = 0; i < words; ++i) next();
  }

 private:
  std::string_view rest_;
};

// In units, from the lower left corner.
struct Place {
  int64_t x, y;
};

// Reads a page: the operators that make curves, each after its numbers.
class PageReader {
 public:
  PageReader(Words& words, BitmapSize size)
      : words_(words),
        width_(size.width * postscript_unit),
        height_(size.height * postscript_unit) {}

  std::vector<TracedCurve> read() {
    words_.expect("save");
    words_.skip(2);
    words_.expect("translate");
    words_.skip(2);
    words_.expect("scale");
    words_.expect("0");
    words_.expect("setgray");
    std::string_view word = next_operator();
    while (word != "restore") {
      while (word == "moveto") {
        read_curve();
        word = next_operator();
      }
      check(word == "fill" && has(0), "'{}' where 'fill' was expected", word.substr(0, 40));
      word = next_operator();
    }
    check(has(0), "numbers before 'restore'");
    words_.expect("showpage");
    return std::move(curves_);
  }

 private:
  // Reads up to a word that is no number; the numbers before it are the operator's.
  std::string_view next_operator() {
    for (count_ = 0;; ++count_) {
      const std::string_view word = words_.next();
      int64_t number = 0;
      const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc() || stop != word.data() + word.size()) return word;
      check(count_ < numbers_.size(), "more numbers than an operator takes");
      numbers_[count_] = number;
    }
  }
  bool has(size_t numbers) const { return count_ == numbers; }

  // Reads the rest of a curve after its moveto.
  void read_curve() {
    check(has(2), "a moveto of {}", counted(int64_t(count_), "number"));
    here_ = {0, 0};
    TracedCurve& curve = curves_.emplace_back();
    curve.start = move(0);
    std::string_view word = next_operator();
    for (; word != "closepath"; word = next_operator()) {
      const bool line = word == "rlineto";
      check((line && has(2)) || (word == "rcurveto" && has(6)), "'{}' after {} in a curve",
            word.substr(0, 40), counted(int64_t(count_), "number"));
      curve.parts.push_back(line ? TracedCurve::Part{true, {}, {}, move(0)}
                                 : TracedCurve::Part{false, control(0), control(2), move(4)});
    }
    check(has(0) && !curve.parts.empty() && curve.parts.back().end == curve.start,
          "a curve that does not end where it begins");
  }
  Point move(size_t first) {
    here_ = there(first, 0);
    return in_pixels(here_);
  }
  // The control points of a curve within the bitmap may lie outside of the bitmap, by less than its
  // size.
  Point control(size_t first) const { return in_pixels(there(first, 1)); }

  // The place that two of the numbers lead to, at most `sizes` times its size outside the bitmap.
  Place there(size_t first, int64_t sizes) const {
    const auto along = [&](int64_t from, int64_t by, int64_t length) {
      const int64_t least = -sizes * length, most = length + sizes * length;
      check(by >= least - from && by <= most - from, "a curve leaves its bitmap");
      return from + by;
    };
    return {along(here_.x, numbers_[first], width_), along(here_.y, numbers_[first + 1], height_)};
  }
  static Point in_pixels(Place place) {
    return Point(double(place.x), double(place.y)) / double(postscript_unit);
  }

  Words& words_;
  int64_t width_, height_;
  Place here_{};
  std::array<int64_t, 6> numbers_{};
  size_t count_ = 0;
  std::vector<TracedCurve> curves_;
};

}  // namespace

std::vector<std::vector<TracedCurve>> read_postscript(std::string_view text,
                                                      std::span<const BitmapSize> sizes) {
  std::vector<std::vector<TracedCurve>> pages;
  try {
    check(text.starts_with("%!PS-Adobe-"), "no PostScript");
    Words words(text);
    for (const BitmapSize size : sizes) pages.push_back(PageReader(words, size).read());
    check(words.next().empty(), "more than that");
  } catch (const Error& error) {
    fail("potrace printed something else than outlines, for bitmap {} of {}: {}",
         std::min(pages.size() + 1, sizes.size()), sizes.size(), error.what());
  }
  return pages;
}

}  // namespace accrue::fonts
