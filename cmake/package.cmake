# `cpack` makes Debian packages of the program (accrue) and of the library (libaccrue-dev), and an
# archive of both. The preset package builds for every processor of this architecture.
set(CPACK_PACKAGE_CONTACT "accrue maintainers <maintainers@accrue.example>")
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME accrue-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
if(NOT ACCRUE_CUDA)  # Debian has no packages of CUDA's libraries
  list(APPEND CPACK_GENERATOR DEB)
endif()

# The files that Debian expects in each package, and for a program.
find_program(GZIP_PROGRAM gzip)
if(GZIP_PROGRAM)
  # The date is now, or SOURCE_DATE_EPOCH.
  string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  configure_file(packaging/changelog.in changelog @ONLY)
  execute_process(COMMAND ${GZIP_PROGRAM} -9nc ${PROJECT_BINARY_DIR}/changelog
                  OUTPUT_FILE ${PROJECT_BINARY_DIR}/changelog.gz)
  # The program itself prints the options for the manual page.
  set(man_page ${PROJECT_SOURCE_DIR}/packaging/man_page.sh)
  add_custom_command(OUTPUT accrue.1.gz
    COMMAND ${man_page} $<TARGET_FILE:accrue> | ${GZIP_PROGRAM} -9nc > accrue.1.gz
    DEPENDS accrue ${man_page} packaging/accrue.1 VERBATIM)
  add_custom_target(man_page ALL DEPENDS accrue.1.gz)
  install(FILES ${PROJECT_BINARY_DIR}/accrue.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          COMPONENT program)
  add_custom_command(OUTPUT accrue.bash accrue.zsh accrue.fish
    COMMAND accrue completion bash > accrue.bash
    COMMAND accrue completion zsh > accrue.zsh
    COMMAND accrue completion fish > accrue.fish DEPENDS accrue VERBATIM)
  add_custom_target(completion ALL DEPENDS accrue.bash)
  install(FILES ${PROJECT_BINARY_DIR}/accrue.bash COMPONENT program RENAME accrue
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${PROJECT_BINARY_DIR}/accrue.zsh COMPONENT program RENAME _accrue
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(FILES ${PROJECT_BINARY_DIR}/accrue.fish COMPONENT program
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  configure_file(packaging/copyright.in copyright @ONLY)
  foreach(component program development)
    string(REPLACE development libaccrue-dev package ${component})
    string(REPLACE program accrue package ${package})
    install(FILES ${PROJECT_BINARY_DIR}/copyright ${PROJECT_BINARY_DIR}/changelog.gz
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
  endforeach()
endif()

# Builds the program again for newer processors. On such a processor the program runs that build in
# its place (apps/cli/processor.h).
include(ExternalProject)
include(ProcessorCount)
ProcessorCount(processors)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(ACCRUE_PACKAGED_ISAS "")
endif()
foreach(isa ${ACCRUE_PACKAGED_ISAS})
  ExternalProject_Add(accrue_${isa}
    SOURCE_DIR ${PROJECT_SOURCE_DIR}
    BINARY_DIR ${PROJECT_BINARY_DIR}/${isa}
    CMAKE_ARGS -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_UNITY_BUILD=${CMAKE_UNITY_BUILD}
      -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
      -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
      -DACCRUE_NATIVE=OFF -DACCRUE_ISA=${isa} -DACCRUE_PACKAGED_ISAS= -DACCRUE_TESTS=OFF
      -DACCRUE_CUDA=${ACCRUE_CUDA} -DACCRUE_ONEDNN=${ACCRUE_ONEDNN}
      -DACCRUE_PROTOBUF=${ACCRUE_PROTOBUF} -DACCRUE_MPI=${ACCRUE_MPI} -DACCRUE_NCCL=${ACCRUE_NCCL}
      -DACCRUE_WERROR=${ACCRUE_WERROR}
    BUILD_COMMAND ${CMAKE_COMMAND} --build . --target accrue --parallel ${processors}
    BUILD_ALWAYS ON USES_TERMINAL_BUILD ON INSTALL_COMMAND "")
  install(PROGRAMS ${PROJECT_BINARY_DIR}/${isa}/apps/accrue
          DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/accrue/${isa} COMPONENT program)
endforeach()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "")
set(built_for "")
if(ACCRUE_NATIVE)
  set(built_for "\nCompiled for processors like that of the machine it was built on.")
endif()
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME accrue)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "potrace, python3-jinja2")  # font export, text prepare
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "A window of micro-batches takes the step of one big batch, exactly, in the\n\
memory of one micro-batch. The program trains, evaluates, plans for a memory\n\
budget and measures.${built_for}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libaccrue-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libeigen3-dev, potrace, python3-jinja2")
set(dev_depends libfmt-dev libjpeg-dev libpcre2-dev libpng-dev libutf8proc-dev
    zlib1g-dev)
if(oneDNN_FOUND)
  list(APPEND dev_depends libdnnl-dev)
endif()
if(Protobuf_FOUND)
  list(APPEND dev_depends libprotobuf-dev)
endif()
if(Freetype_FOUND)
  list(APPEND dev_depends libfreetype-dev)
endif()
list(JOIN dev_depends ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Tensors, autograd, kernels, layers, optimizers and data sets in which\n\
accumulating gradients is the contract of every kernel. A C++20\n\
library: static libraries, headers, CMake and pkg-config files.${built_for}")
include(CPack)
