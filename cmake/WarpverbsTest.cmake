find_package(GTest REQUIRED)
include(GoogleTest)

# Precompiles the headers that nearly every test includes, if the preset allows precompiled headers.
add_library(warpverbs_test_headers OBJECT "${PROJECT_SOURCE_DIR}/tests/common/test_headers.cpp")
target_link_libraries(warpverbs_test_headers PRIVATE warpverbs_build GTest::gmock GTest::gtest)
target_precompile_headers(warpverbs_test_headers PRIVATE
  <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <random> <regex> <set> <span> <sstream> <string> <thread> <vector>)

option(WARPVERBS_WHOLE_PROGRAMS "Run the cases of a test program in one process, which is much faster" OFF)

# warpverbs_test(<name> [ONE_THREAD] [APART] [SPINS] [OPTIMISED] [WITHOUT_GPU] SOURCES <file>... [LIBRARIES <target>...] [SOFTHCA [<option>...]]
#                [ALONE <file>...] [SANITIZED <GoogleTest filter>] [LOCK <resource>] [TIMEOUT <seconds>])
#
# Adds a GoogleTest program. Each case is a CTest test. With WARPVERBS_WHOLE_PROGRAMS all cases together are one test in one
# process.
#
# ONE_THREAD  the program is not built with ThreadSanitizer: it has one thread, or its threads are those of softhca, which other
#             programs test
# APART       each case always has a process of its own: the cases start programs and wait for them, or change the process
# SPINS       nothing else runs meanwhile: the test's threads poll each other for most of its time, and on a busy processor each
#             exchange waits for the scheduler, up to a hundred times as long
# OPTIMISED   the test's code is always optimised, because it tests the device headers, which users optimise
# WITHOUT_GPU the cases expect a machine without a GPU: CUDA shows them none
# SOFTHCA     the program runs under `softhca <option>... -- `
# ALONE       sources that are left out of unity builds, because their names collide with those of others
# SANITIZED   the cases that a build with a sanitizer runs, where all of them take minutes
# LOCK        cases with the same lock run one at a time
# TIMEOUT     for each case; 120 s by default
#
# With WARPVERBS_TEST_NIC, programs that need neither options of softhca nor a fake GPU run on that ConnectX. Other programs are
# left out.
function(warpverbs_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONE_THREAD;APART;SPINS;OPTIMISED;WITHOUT_GPU" "SANITIZED;LOCK;TIMEOUT" "SOURCES;LIBRARIES;SOFTHCA;ALONE")
  if(arg_ONE_THREAD AND WARPVERBS_SANITIZE STREQUAL "thread")
    return()
  endif()
  if(WARPVERBS_TEST_NIC AND (arg_SOFTHCA OR "fake_cuda" IN_LIST arg_LIBRARIES))
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PRIVATE warpverbs_build ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  if(arg_OPTIMISED AND WARPVERBS_OPTIMISE_LIBRARIES_ONLY)
    # Without all inlining GCC takes a reference to an object without members for a read of it.
    target_compile_options(${name} PRIVATE -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  else()
    target_precompile_headers(${name} REUSE_FROM warpverbs_test_headers)
  endif()
  if(WARPVERBS_SANITIZE STREQUAL "thread")
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/common/libmlx5_seed.cpp")
  endif()
  set(launcher)
  if("SOFTHCA" IN_LIST ARGV AND NOT WARPVERBS_TEST_NIC)
    set(launcher "$<TARGET_FILE:softhca>" ${arg_SOFTHCA} --)  # unquoted: without options it expands to no argument
    set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "${launcher}")
    add_dependencies(${name} softhca)
  endif()
  set(cases *)
  if(arg_SANITIZED AND WARPVERBS_SANITIZE)
    set(cases ${arg_SANITIZED})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(properties RUN_SERIAL ${arg_SPINS} ENVIRONMENT "WARPVERBS_TEST_NIC=${WARPVERBS_TEST_NIC}"
    COST ${arg_TIMEOUT})  # long tests begin first, so that none of them runs alone at the end
  if(arg_WITHOUT_GPU)
    list(APPEND properties ENVIRONMENT_MODIFICATION CUDA_VISIBLE_DEVICES=set:)
  endif()
  if(arg_LOCK)
    list(APPEND properties RESOURCE_LOCK ${arg_LOCK})
  endif()
  if(WARPVERBS_WHOLE_PROGRAMS AND NOT arg_APART)
    add_test(NAME ${name} COMMAND ${launcher} $<TARGET_FILE:${name}> --gtest_brief=1 --gtest_filter=${cases})
    set_tests_properties(${name} PROPERTIES TIMEOUT 900 ${properties})
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER ${cases} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT ${arg_TIMEOUT} ${properties})
  endif()
endfunction()

# warpverbs_test_by_packets(<name> [SPINS] [FILTER <GoogleTest filter>] [SOFTHCA [<option>...]])
#
# Runs the whole program of a warpverbs_test() a second time, with connections that send packets even within a process. It must
# behave the same.
function(warpverbs_test_by_packets name)
  if(WARPVERBS_TEST_NIC)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "SPINS" "FILTER" "SOFTHCA")
  if(NOT arg_FILTER)  # an empty filter would run nothing
    set(arg_FILTER *)
  endif()
  add_test(NAME ${name}.ByPackets
    COMMAND softhca --no-direct ${arg_SOFTHCA} -- $<TARGET_FILE:${name}> --gtest_brief=1 --gtest_filter=${arg_FILTER})
  set_tests_properties(${name}.ByPackets PROPERTIES TIMEOUT 300 RUN_SERIAL ${arg_SPINS})
endfunction()
