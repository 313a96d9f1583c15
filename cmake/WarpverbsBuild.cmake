# Settings of all targets of this project. Users of the installed library do not get them.
add_library(warpverbs_build INTERFACE)
target_compile_features(warpverbs_build INTERFACE cxx_std_20)
# A mutex says what it guards: src/sync/mutex.hpp. Earlier clangs do not understand a function that returns a lock.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 16)
  set(WARPVERBS_THREAD_SAFETY_CHECK -Wthread-safety -Werror=thread-safety)
endif()
target_compile_options(warpverbs_build INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor>
  "$<$<COMPILE_LANGUAGE:CXX>:${WARPVERBS_THREAD_SAFETY_CHECK}>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${WARPVERBS_WERROR}>>:-Werror>)
find_package(Threads REQUIRED)
target_link_libraries(warpverbs_build INTERFACE Threads::Threads)

if(WARPVERBS_SANITIZE)
  # A finding of UBSan ends the test. By default it is only printed, and the test passes. Without vptr: it tests by a pipe whether
  # memory is readable, so it fails in tests that run out of file descriptors.
  add_compile_options(-fsanitize=${WARPVERBS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined -fno-sanitize=vptr)
  add_compile_definitions(WARPVERBS_INLINE=inline)  # with everything inlined and instrumented, tests compile for minutes
  add_link_options(-fsanitize=${WARPVERBS_SANITIZE})
  string(REGEX MATCH "address|thread" sanitizer "${WARPVERBS_SANITIZE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    string(SUBSTRING "${sanitizer}" 0 1 letter)
    set(runtime "lib${letter}san.so")
    add_compile_options(-Wno-maybe-uninitialized)  # the inserted checks cause false warnings, for example in <regex>
    add_compile_options(-Wno-tsan)  # Asio's fences are invisible to ThreadSanitizer; its mutexes suffice
  else()
    string(REPLACE "address" "asan" name "${sanitizer}")
    string(REPLACE "thread" "tsan" name "${name}")
    set(runtime "libclang_rt.${name}-${CMAKE_SYSTEM_PROCESSOR}.so")
    string(TOUPPER "${sanitizer}" upper)
    add_compile_definitions(__SANITIZE_${upper}__=1)  # as GCC defines it
    # Functions of GPU drivers are found at run time and called by types of our own, whose layout is the same.
    add_compile_options(-fno-sanitize=function)
    if(sanitizer STREQUAL "address")
      add_compile_options(-fsanitize-address-use-after-return=never)  # GCC's default, too: it takes a quarter of the tests' time
    endif()
  endif()
  if(NOT WARPVERBS_BUILD_FUZZERS)
    # The runtime must be loaded before all libraries that are built with it, even into programs that are not: softhca preloads
    # it. So all share one runtime, a shared library.
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=${runtime}
      OUTPUT_VARIABLE WARPVERBS_SANITIZER_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      cmake_path(GET WARPVERBS_SANITIZER_RUNTIME PARENT_PATH folder)
      add_link_options(-shared-libsan "LINKER:-rpath,${folder}")
    endif()
  endif()
endif()
if(WARPVERBS_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(PROJECT_IS_TOP_LEVEL)  # save time with a fast linker and a compiler cache if they are installed
  find_program(WARPVERBS_MOLD mold DOC "A linker that takes a fraction of GNU ld's time")
  if(WARPVERBS_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
  # GCC collects its garbage later. It collects often by default, and then walks through all that was precompiled.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
  find_program(WARPVERBS_CCACHE ccache DOC "A compiler cache")
  if(WARPVERBS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${WARPVERBS_CCACHE}")
  endif()
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# warpverbs_public_headers(<target> <folder>...): makes the headers of include/warpverbs/<folder> part of <target>.
#
# They are installed with the target. With CMAKE_VERIFY_INTERFACE_HEADER_SETS each is also compiled alone, except for headers
# that need a GPU's compiler. Headers of adapters, which need another library, belong to targets of their own: see
# warpverbs_adapter_header().
function(warpverbs_public_headers target)
  set(base "${PROJECT_SOURCE_DIR}/include")
  list(TRANSFORM ARGN PREPEND "${base}/warpverbs/" OUTPUT_VARIABLE folders)
  list(TRANSFORM folders APPEND "/*.hpp" OUTPUT_VARIABLE globs)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${globs})
  if("device" IN_LIST ARGN)
    list(APPEND headers "${base}/warpverbs/device_abi.h" "${base}/warpverbs/version.hpp")
  endif()
  list(FILTER headers EXCLUDE REGEX "/host/(mpi_exchange|rdma_cm)\\.hpp$")
  set(gpu_headers ${headers})
  list(FILTER gpu_headers INCLUDE REGEX "/arch/(cuda|hip)\\.hpp$")
  list(FILTER headers EXCLUDE REGEX "/arch/(cuda|hip)\\.hpp$")
  target_sources(${target}
    INTERFACE FILE_SET HEADERS BASE_DIRS "${base}" FILES ${headers}
    INTERFACE FILE_SET gpu_headers TYPE HEADERS BASE_DIRS "${base}" FILES ${gpu_headers})
  set_target_properties(${target} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
endfunction()

# warpverbs_adapter_header(<target> <header>): makes a header of include/warpverbs part of <target>.
function(warpverbs_adapter_header target header)
  set(base "${PROJECT_SOURCE_DIR}/include")
  target_sources(${target} INTERFACE FILE_SET HEADERS BASE_DIRS "${base}" FILES "${base}/warpverbs/${header}")
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()
