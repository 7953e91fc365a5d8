# What every accrue target is compiled with: link to accrue_options.
add_library(accrue_options INTERFACE)
target_compile_options(accrue_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers -fno-math-errno)
target_include_directories(accrue_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
if(ACCRUE_WERROR)
  target_compile_options(accrue_options INTERFACE -Werror)
endif()
if(ACCRUE_NATIVE)
  target_compile_options(accrue_options INTERFACE -march=native)
endif()

# accrue_library(NAME SOURCES... LINK targets...): one layer of the architecture.
function(accrue_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(accrue_${name} STATIC ${ARG_SOURCES})
  add_library(accrue::${name} ALIAS accrue_${name})
  target_link_libraries(accrue_${name} PUBLIC accrue_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
endfunction()
