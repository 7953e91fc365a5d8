# `cmake --install` installs the program, and for other projects (docs/library.md) the libraries,
# the public headers, accrueConfig.cmake and accrue.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(parts core kernels layers optim accumulate data onnx train job ${ACCRUE_DOMAINS} report)
list(TRANSFORM parts PREPEND accrue_ OUTPUT_VARIABLE libraries)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/accrue)

install(TARGETS accrue RUNTIME COMPONENT program)
install(FILES scripts/torch_training.py scripts/reference_models.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/accrue/scripts COMPONENT program)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
foreach(folder docs accumulate)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT program
          FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
endforeach()
install(FILES kernels/cpu/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/kernels/cpu COMPONENT program)

if(TARGET accrue_cuda_libraries)
  set_target_properties(accrue_cuda_libraries PROPERTIES EXPORT_NAME cuda_libraries)
  list(APPEND libraries accrue_cuda_libraries)
endif()
install(TARGETS ${libraries} accrue_all EXPORT accrueTargets
        ARCHIVE COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT accrueTargets NAMESPACE accrue:: DESTINATION ${package_dir} COMPONENT development)

# Headers for your own ops, which may draw random numbers and run on a GPU.
set(ACCRUE_MORE_HEADERS core/random.h)
if(ACCRUE_CUDA)
  list(APPEND ACCRUE_MORE_HEADERS core/cuda.h core/launch.cuh)
endif()
include(cmake/public_headers.cmake)
find_public_headers(ACCRUE_PUBLIC_HEADERS ${PROJECT_SOURCE_DIR} ${ACCRUE_MORE_HEADERS})
# Sources include "core/tensor.h". Installed headers include <accrue/core/tensor.h>, so they cannot
# find another project's core/. The install step finds the headers anew, because they may have
# changed since the configuration.
install(CODE "
  include(\"${PROJECT_SOURCE_DIR}/cmake/public_headers.cmake\")
  set(root \"${PROJECT_SOURCE_DIR}\")
  set(written \"${PROJECT_BINARY_DIR}/include/accrue\")
  set(include_dir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  find_public_headers(headers \${root} ${ACCRUE_MORE_HEADERS})" COMPONENT development)
install(CODE [[
  file(REMOVE_RECURSE ${written})
  foreach(header IN LISTS headers)
    file(READ ${root}/${header} text)
    string(REGEX REPLACE "#include \"(accrue/)?([^\"]+)\"" "#include <accrue/\\2>" text "${text}")
    string(REGEX REPLACE "^accrue/" "" header ${header})
    file(WRITE ${written}/${header} "${text}")
  endforeach()
  file(INSTALL ${written} DESTINATION ${include_dir})
]] COMPONENT development)

configure_package_config_file(packaging/accrueConfig.cmake.in accrueConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(accrueConfigVersion.cmake COMPATIBILITY SameMinorVersion)
set(package_files ${PROJECT_BINARY_DIR}/accrueConfig.cmake
    ${PROJECT_BINARY_DIR}/accrueConfigVersion.cmake cmake/FindPCRE2.cmake
    cmake/Findutf8proc.cmake)
if(oneDNN_FOUND)
  list(APPEND package_files cmake/FindoneDNN.cmake)
endif()
if(ACCRUE_CUDA)
  list(APPEND package_files cmake/FindcuDNN.cmake cmake/nvcc_cxx20.cmake)
endif()
install(FILES ${package_files} DESTINATION ${package_dir} COMPONENT development)

list(TRANSFORM parts PREPEND -laccrue_ OUTPUT_VARIABLE pc_libraries)
list(REVERSE pc_libraries)
set(pc_flags)
set(pc_requires fmt libjpeg libpcre2-8 libpng libutf8proc zlib)
if(Freetype_FOUND)
  list(APPEND pc_requires freetype2)
endif()
if(oneDNN_FOUND)
  list(APPEND pc_libraries -ldnnl ${OpenMP_CXX_FLAGS})
endif()
if(Protobuf_FOUND)
  list(APPEND pc_libraries -lprotobuf-lite)
endif()
if(ACCRUE_CUDA)
  list(APPEND pc_flags -DACCRUE_WITH_CUDA)
  list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE cuda_includes)
  list(APPEND pc_flags ${cuda_includes} -I${cuDNN_INCLUDE_DIR})
  list(APPEND pc_libraries -L${CUDAToolkit_LIBRARY_DIR} -lcublasLt -lcudart ${cuDNN_LIBRARY})
endif()
list(JOIN pc_requires " " pc_requires)
list(JOIN pc_flags " " pc_flags)
list(JOIN pc_libraries " " pc_libraries)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /${pc_dir} /)
configure_file(packaging/accrue.pc.in accrue.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/accrue.pc DESTINATION ${pc_dir} COMPONENT development)
