# Every dependency of the CPU build is a Debian/Ubuntu package; scripts/setup.sh installs them.
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
if(ACCRUE_ONEDNN)
  find_package(oneDNN)
  if(oneDNN_FOUND)  # which shares its work among OpenMP's threads unless it is told not to
    find_package(OpenMP REQUIRED COMPONENTS CXX)
  endif()
endif()
# For `train --log-dir`, which writes TensorBoard's files.
if(ACCRUE_PROTOBUF)
  find_package(Protobuf)
  if(NOT Protobuf_FOUND)
    message(STATUS "no protobuf (libprotobuf-dev, protobuf-compiler): train will not take --log-dir")
  endif()
endif()
# For `train` under mpirun. Only the program knows of it: libraries take any Ranks.
if(ACCRUE_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(STATUS "no MPI (libopenmpi-dev or libmpich-dev): train will be one process")
  endif()
endif()
# For fonts/, which draws what fonts have.
find_package(Freetype)
if(NOT Freetype_FOUND)
  message(STATUS "no FreeType (libfreetype-dev): font prepare and export will open no font")
endif()
# For `bench memory --report` and `report`, embedded in the program.
find_file(ChartJs_FILE chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT ChartJs_FILE)
  set(ChartJs_FILE "")
  message(STATUS "no Chart.js (libjs-chart.js): bench memory will not write reports")
endif()

# The CUDA sources are built by nvcc, or (ACCRUE_SIMT) by the C++ compiler against the runner's
# headers in tests/simt. Either way accrue::cuda_libraries is what they link to.
if(ACCRUE_SIMT)
  set(ACCRUE_CUDA OFF CACHE BOOL "Build the CUDA backend" FORCE)
  add_library(accrue_cuda_libraries INTERFACE)
  target_link_libraries(accrue_cuda_libraries INTERFACE accrue_simt)
elseif(ACCRUE_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # Machine code for each, and PTX of the last for newer devices.
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90 CACHE STRING
        "Compute capabilities to build for; native: this machine's")
  endif()
  enable_language(CUDA)
  # CMake 3.25, Debian 12's, gives a property to a library that CUDA 13 no longer has.
  if(NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 12 REQUIRED)
  find_package(cuDNN 9 REQUIRED)
  add_library(accrue_cuda_libraries INTERFACE)
  target_link_libraries(accrue_cuda_libraries INTERFACE
    CUDA::cudart CUDA::cublasLt cuDNN::cuDNN)
endif()
if(TARGET accrue_cuda_libraries)
  add_library(accrue::cuda_libraries ALIAS accrue_cuda_libraries)
endif()
