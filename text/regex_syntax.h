#pragma once

#include <string>
#include <string_view>

namespace accrue {

// Oniguruma's regular expression in the words of PCRE2. Throws Error, saying what and where, for
// what means something else to PCRE2 and is not translated.
std::string pcre2_pattern(std::string_view pattern);

}  // namespace accrue
