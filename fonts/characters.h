#pragma once

#include <string>

#include "fonts/glyphs.h"

namespace accrue::fonts {

// The characters that a text stands for: each once, in the order of the text, without spaces.
//   gb2312: the 6763 Chinese characters of that standard, the frequent ones first;
//   the name of a file: the characters of its UTF-8 text;
//   anything else: the characters of the text itself.
// Throws Error for a file that is missing or not UTF-8, and if there are no characters.
std::u32string characters_of(const std::string& text);

}  // namespace accrue::fonts
