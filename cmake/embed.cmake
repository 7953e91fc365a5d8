# accrue_embed(TARGET NAME FILE): defines accrue::embedded::NAME, the text of FILE, in TARGET; empty
# without a FILE. Sources that use it declare `extern const std::string_view NAME`.
function(accrue_embed target name file)
  set(text "")
  if(file)
    file(READ "${file}" text)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  endif()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp")
  file(CONFIGURE OUTPUT "${generated}" @ONLY CONTENT [[
#include <string_view>

namespace accrue::embedded {
extern const std::string_view @name@;
const std::string_view @name@ = R"embedded(@text@)embedded";
}  // namespace accrue::embedded
]])
  target_sources(${target} PRIVATE "${generated}")
endfunction()
