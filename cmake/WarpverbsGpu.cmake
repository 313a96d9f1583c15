# Finds the compilers of the GPU builds, or fails with a message before anything is built.
if(WARPVERBS_CUDA)
  find_program(WARPVERBS_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin DOC "The CUDA compiler")
  if(NOT CMAKE_CUDA_COMPILER AND NOT WARPVERBS_NVCC)
    message(FATAL_ERROR "WARPVERBS_CUDA is on, but nvcc is neither on PATH nor in /usr/local/cuda/bin. Install the CUDA "
      "toolkit (12.2 or later), or name its compiler with -DCMAKE_CUDA_COMPILER=<path of nvcc>.")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${WARPVERBS_NVCC}" CACHE FILEPATH "The CUDA compiler")
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.2)
    message(FATAL_ERROR "warpverbs needs CUDA 12.2 or later for C++20 in kernels, but ${CMAKE_CUDA_COMPILER} is "
      "${CMAKE_CUDA_COMPILER_VERSION}. Name a newer one with -DCMAKE_CUDA_COMPILER=<path of nvcc>.")
  endif()
endif()

# HIP code is compiled by clang directly, because CMake's HIP language requires a complete ROCm.
if(WARPVERBS_HIP)
  set(WARPVERBS_HIP_ARCHITECTURE gfx90a CACHE STRING "The AMD GPU to compile for")
  find_program(WARPVERBS_HIP_COMPILER NAMES amdclang++ clang++ clang++-14 HINTS /opt/rocm/bin
    DOC "A clang++ that compiles HIP")
  if(NOT WARPVERBS_HIP_COMPILER)
    message(FATAL_ERROR "WARPVERBS_HIP is on, but neither amdclang++ nor clang++ is on PATH. Install ROCm or clang "
      "(14 or later), or name one with -DWARPVERBS_HIP_COMPILER=<path of clang++>.")
  endif()
endif()
