# Potrace by header and library, as target Potrace::Potrace. It comes with no configuration of its own.
find_path(Potrace_INCLUDE_DIR potracelib.h)
find_library(Potrace_LIBRARY potrace)
if(Potrace_LIBRARY)  # which alone knows its version
  file(STRINGS "${Potrace_LIBRARY}" Potrace_VERSION LIMIT_COUNT 1 REGEX "potracelib [0-9.]+$")
  string(REGEX REPLACE ".*potracelib " "" Potrace_VERSION "${Potrace_VERSION}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Potrace REQUIRED_VARS Potrace_LIBRARY Potrace_INCLUDE_DIR
                                  VERSION_VAR Potrace_VERSION)
if(Potrace_FOUND AND NOT TARGET Potrace::Potrace)
  add_library(Potrace::Potrace UNKNOWN IMPORTED)
  set_target_properties(Potrace::Potrace PROPERTIES
    IMPORTED_LOCATION ${Potrace_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${Potrace_INCLUDE_DIR})
endif()
