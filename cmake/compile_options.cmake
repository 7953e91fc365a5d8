# Flags for accrue's own sources, which link to accrue_options; users' sources do not get them.
include(CheckCXXCompilerFlag)
add_library(accrue_options INTERFACE)
# accrue never reads errno or floating-point exception flags. Without these options the compiler
# could not vectorize loops that might set them.
target_compile_options(accrue_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers>"
  "$<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-trapping-math;-fopenmp-simd>")
# No one replaces accrue's functions by others of the same name, so the compiler may inline them in
# a shared library, too.
target_compile_options(accrue_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
# GCC spends a tenth of its time on garbage collection, which saves little memory in sources of this
# size.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(accrue_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()
# Clang warns of each loop that it may vectorize but could not. Such a loop is no mistake.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(accrue_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
endif()
if(ACCRUE_WERROR)
  target_compile_options(accrue_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                         "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>")
endif()
if(ACCRUE_ISA AND NOT ACCRUE_NATIVE)
  target_compile_options(accrue_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${ACCRUE_ISA}>)
endif()
if(ACCRUE_NATIVE)
  target_compile_options(accrue_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
# Under sanitizers these optimization levels override the build type's, which come before them on
# the command line. Libraries check their preconditions by assertions: for example, JSON's library
# checks that a field exists. In these builds GCC gives false warnings, -Wmaybe-uninitialized in the
# standard library's regex and -Wstringop-overflow in fmt.
set(ACCRUE_SANITIZE_LESS OFF)
add_library(accrue_sanitizers INTERFACE)
if(ACCRUE_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
      -Wno-maybe-uninitialized -Wno-stringop-overflow -UNDEBUG -D_GLIBCXX_ASSERTIONS
      -g1 $<IF:$<BOOL:$<TARGET_PROPERTY:ACCRUE_COMPILED_SOONER>>,-O0,-Og>)
  # GCC 12 moves 64 bytes as if they were aligned to 64, but in a frame of AddressSanitizer's
  # detect_stack_use_after_return they are not.
  if(ACCRUE_NATIVE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    check_cxx_compiler_flag(-mmove-max=256 ACCRUE_HAS_MOVE_MAX)
    if(ACCRUE_HAS_MOVE_MAX)
      list(APPEND sanitize -mmove-max=256 -mstore-max=256)
    endif()
  endif()
  # In the runner's build, the largest, the sanitizers leave out checks that take long and find
  # little: checks of an address before an access that AddressSanitizer checks anyway, alignment in
  # libraries that cast nothing to vectors, and the sources of accrue_unsanitized().
  if(ACCRUE_SIMT AND NOT ACCRUE_SANITIZE_ALL)
    set(ACCRUE_SANITIZE_LESS ON)
    set(casts_to_vectors "$<IN_LIST:$<TARGET_PROPERTY:NAME>,accrue_kernels;accrue_accumulate;accrue_data;accrue_ladder>")
    list(APPEND sanitize -fno-sanitize=null,object-size,pointer-overflow,vptr
         "$<$<NOT:${casts_to_vectors}>:-fno-sanitize=alignment>")
  endif()
  target_compile_options(accrue_sanitizers INTERFACE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:ACCRUE_UNSANITIZED>>>>:${sanitize}>")
  target_link_options(accrue_sanitizers INTERFACE -fsanitize=address,undefined)
endif()
target_link_libraries(accrue_options INTERFACE accrue_sanitizers)
if(ACCRUE_CUDA)
  # Users who include a header of accrue in a .cu need these flags, too. FMT_USE_CONSTEXPR: fmt
  # assumes that nvcc's constant expressions are too limited to check format strings. 1675: nvcc
  # does not know GCC's pragma for unrolling.
  target_compile_options(accrue_cuda_libraries INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-DFMT_USE_CONSTEXPR=1;-diag-suppress=1675>")
  include(nvcc_cxx20)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()
if(TARGET accrue_cuda_libraries)
  target_compile_definitions(accrue_cuda_libraries INTERFACE ACCRUE_WITH_CUDA)
endif()

# accrue_compile_sooner(TARGET): compiles faster, for sources without arithmetic worth optimizing.
function(accrue_compile_sooner target)
  set_property(TARGET ${target} PROPERTY ACCRUE_COMPILED_SOONER TRUE)
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endfunction()

# accrue_unsanitized(TARGET): compiles without sanitizers where they leave out checks, for sources
# that only run or test other code, or that other runs sanitize. With ccache their objects come from
# the release build, which compiles them in the same way.
function(accrue_unsanitized target)
  set_property(TARGET ${target} PROPERTY ACCRUE_UNSANITIZED ${ACCRUE_SANITIZE_LESS})
endfunction()

# accrue_compile_alike(TARGET NAME "options" sources...): gives the sources these options, and
# compiles them together with CMAKE_UNITY_BUILD=ON. CMake alone would compile sources with their own
# options one by one. The names in the sources must not clash.
function(accrue_compile_alike target name options)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set(together "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  accrue_write_including("${together}" ${ARGN})
  set_source_files_properties("${together}" PROPERTIES COMPILE_OPTIONS "${options}")
  target_sources(${target} PRIVATE "${together}")
endfunction()

# accrue_write_including(FILE sources...): writes FILE, which includes the sources and is compiled
# in their place.
function(accrue_write_including together)
  set(text "")
  foreach(source IN LISTS ARGN)
    string(APPEND text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT "${together}" CONTENT "${text}" @ONLY)
  set_source_files_properties("${together}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
endfunction()

# accrue_cuda_sources(sources...): makes the runner's build compile .cu sources as C++.
function(accrue_cuda_sources)
  if(ACCRUE_SIMT)
    foreach(source ${ARGN})
      if(source MATCHES "[.]cu$")
        set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
      endif()
    endforeach()
  endif()
endfunction()

# accrue_cuda_group(TARGET NAME sources...): compiles .cu sources together with
# CMAKE_UNITY_BUILD=ON, also with nvcc, which spends most of a small source's time on its headers.
# CMake itself does so for CUDA from 3.31 on.
function(accrue_cuda_group target name)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  if(ACCRUE_SIMT)  # a .cxx includes them, so they are C++ anyway
    set_property(SOURCE ${ARGN} PROPERTY COMPILE_OPTIONS)
    set_property(SOURCE ${ARGN} PROPERTY UNITY_GROUP ${name})
  elseif(ACCRUE_CUDA)
    set(together "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu")
    accrue_write_including("${together}" ${ARGN})
    target_sources(${target} PRIVATE "${together}")
  endif()
endfunction()

set(ACCRUE_LIBRARY_TYPE STATIC)
if(ACCRUE_SHARED)  # the program and Python's module share them in one wheel
  set(ACCRUE_LIBRARY_TYPE SHARED)
endif()

# accrue_library(NAME SOURCES... CUDA sources... WITHOUT_CUDA sources... LINK targets...
# PRIVATE targets...): one layer of the architecture, accrue::NAME here and when installed.
function(accrue_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;CUDA;WITHOUT_CUDA;LINK;PRIVATE" ${ARGN})
  if(TARGET accrue::cuda_libraries)
    list(APPEND ARG_SOURCES ${ARG_CUDA})
    list(APPEND ARG_LINK accrue::cuda_libraries)
  else()
    list(APPEND ARG_SOURCES ${ARG_WITHOUT_CUDA})
  endif()
  add_library(accrue_${name} ${ACCRUE_LIBRARY_TYPE} ${ARG_SOURCES})
  add_library(accrue::${name} ALIAS accrue_${name})
  if(ACCRUE_SHARED)
    target_link_options(accrue_${name} PRIVATE -Wl,-Bsymbolic-functions)
  endif()
  # Without a symbol to define, a shared library has the same objects as a static one.
  set_target_properties(accrue_${name} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL "")
  target_compile_features(accrue_${name} PUBLIC cxx_std_20)
  target_include_directories(accrue_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(accrue_${name} PRIVATE $<BUILD_INTERFACE:accrue_options>
                        PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
  accrue_cuda_sources(${ARG_CUDA})
endfunction()
