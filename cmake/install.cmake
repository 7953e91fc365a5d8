# `cmake --install`: the program, and for other projects (docs/library.md) the libraries, the public
# headers, accrueConfig.cmake and accrue.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(parts core kernels layers optim accumulate data train ${ACCRUE_DOMAINS} report)
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

# Headers that only accrue's own sources use. Their declarations may differ with the flags that
# those are compiled with.
set(ACCRUE_PRIVATE_HEADERS added_tokens.h bpe.h bpe_reader.h byte_alphabet.h merges.h regex.h regex_syntax.h utf8.h word_cache.h word_splitter.h
    host_blocks.h joined_moments.h byte_stream.h lines.h attention_blocks.h attention_backward.h attention_forward.h drawing.h mask_colours.h descriptor.h tensor_core_attention.h memory_comparison.h page.h runs.h window_timeline.h bf16_pair.h dot_gemm.h gemm_bf16.h gemm_block.h strict_json.h json_values.h chats.h chat_template.h tokenizer_json.h
    indirect_gemm.h winograd.h winograd_points.h winograd_transforms.h conv_cudnn.h conv_frames.h conv_tiling.h json.h profile_json.h trace_events.h event_file.h onnx_graph.h onnx_trace.h histogram.h filter.h postscript.h potrace.h
    *_formulas.h *_kernels.h ladder)
set(not_installed ${ACCRUE_PRIVATE_HEADERS})
set(kinds PATTERN "*.h")
if(ACCRUE_CUDA)
  list(APPEND kinds PATTERN "*.cuh")
else()
  list(APPEND not_installed cuda_context.h graph_queue.h)
endif()
list(TRANSFORM not_installed REPLACE "(.+)" "PATTERN;\\1;EXCLUDE")
set(include_dir ${CMAKE_INSTALL_INCLUDEDIR}/accrue)
install(DIRECTORY ${parts} accrue/ DESTINATION ${include_dir} COMPONENT development
        FILES_MATCHING ${kinds} ${not_installed})
# Sources include "core/tensor.h". Installed headers include <accrue/core/tensor.h>, lest they find
# another project's core/.
install(CODE "set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${include_dir}\")" COMPONENT development)
install(CODE [[
  file(GLOB_RECURSE headers "${folder}/*.h" "${folder}/*.cuh")
  foreach(header IN LISTS headers)
    file(READ "${header}" text)
    string(REGEX REPLACE "#include \"([^\"]+)\"" "#include <accrue/\\1>" text "${text}")
    file(WRITE "${header}" "${text}")
  endforeach()
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
