# What every accrue target is compiled with: link to accrue_options.
add_library(accrue_options INTERFACE)
target_include_directories(accrue_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_compile_options(accrue_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-fno-math-errno>")
if(ACCRUE_WERROR)
  target_compile_options(accrue_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                         "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>")
endif()
if(ACCRUE_NATIVE)
  target_compile_options(accrue_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(ACCRUE_CUDA)
  # fmt believes that nvcc knows too little of constant expressions to check format strings.
  # 1675: nvcc does not know GCC's pragma for unrolling.
  target_compile_options(accrue_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-DFMT_USE_CONSTEXPR=1;-diag-suppress=1675>")
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake 3.25 does not know that nvcc 12 has C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()
if(ACCRUE_CUDA OR ACCRUE_SIMT)
  target_compile_definitions(accrue_options INTERFACE ACCRUE_WITH_CUDA)
endif()

# accrue_cuda_sources(sources...): has the runner's build take .cu sources for C++.
function(accrue_cuda_sources)
  if(ACCRUE_SIMT)
    foreach(source ${ARGN})
      if(source MATCHES "[.]cu$")
        set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
      endif()
    endforeach()
  endif()
endfunction()

# accrue_library(NAME SOURCES... CUDA sources... WITHOUT_CUDA sources... LINK targets...
# PRIVATE targets...): one layer of the architecture.
function(accrue_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;CUDA;WITHOUT_CUDA;LINK;PRIVATE" ${ARGN})
  if(TARGET accrue::cuda_libraries)
    list(APPEND ARG_SOURCES ${ARG_CUDA})
    list(APPEND ARG_LINK accrue::cuda_libraries)
  else()
    list(APPEND ARG_SOURCES ${ARG_WITHOUT_CUDA})
  endif()
  add_library(accrue_${name} STATIC ${ARG_SOURCES})
  add_library(accrue::${name} ALIAS accrue_${name})
  target_link_libraries(accrue_${name} PUBLIC accrue_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
  accrue_cuda_sources(${ARG_CUDA})
endfunction()
