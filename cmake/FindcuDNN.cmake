# cuDNN as target cuDNN::cuDNN, from the CUDA toolkit, the system, or the nvidia-cudnn package in
# Python's site-packages (a folder nvidia/cudnn with include and lib).
if(NOT cuDNN_ROOT)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -c "import nvidia.cudnn as c; print(list(c.__path__)[0])"
      OUTPUT_VARIABLE cudnn_of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
set(cudnn_places ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_INCLUDE_DIRS}/.. /usr/local/cuda /usr/local
    ${cudnn_of_python})
find_path(cuDNN_INCLUDE_DIR cudnn.h HINTS ${cudnn_places} PATH_SUFFIXES include)
find_library(cuDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cudnn_places}
             PATH_SUFFIXES lib64 lib lib/x86_64-linux-gnu)
if(cuDNN_INCLUDE_DIR AND EXISTS ${cuDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${cuDNN_INCLUDE_DIR}/cudnn_version.h cudnn_versions
       REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" cudnn_versions "${cudnn_versions}")
  string(REPLACE ";" "." cuDNN_VERSION "${cudnn_versions}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR
                                  VERSION_VAR cuDNN_VERSION
                                  REASON_FAILURE_MESSAGE
                                    "name its folder with -DcuDNN_ROOT=DIR, or build without CUDA: -DACCRUE_CUDA=OFF")
if(cuDNN_FOUND AND NOT TARGET cuDNN::cuDNN)
  add_library(cuDNN::cuDNN UNKNOWN IMPORTED)
  set_target_properties(cuDNN::cuDNN PROPERTIES
    IMPORTED_LOCATION ${cuDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${cuDNN_INCLUDE_DIR})
endif()
