find_package(GTest REQUIRED)
include(GoogleTest)

# warpverbs_test(<name> [ONE_THREAD] SOURCES <file>... [LIBRARIES <target>...] [SOFTHCA [<option>...]]
#                [ALONE <file>...] [LOCK <resource>] [TIMEOUT <seconds>])
#
# A GoogleTest program, each of its cases a ctest test of its own. With SOFTHCA the program runs under
# `softhca <option>... -- `, so every case has a fresh software HCA. What has ONE_THREAD is not for ThreadSanitizer. Cases
# with the same LOCK run one at a time. Those of the SOURCES that are ALONE, as they have names that others have too, never
# share a compilation with others.
#
# With WARPVERBS_TEST_NIC, what needs neither an option of softhca nor a fake GPU runs on that ConnectX, and the rest is
# left out.
function(warpverbs_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONE_THREAD" "LOCK;TIMEOUT" "SOURCES;LIBRARIES;SOFTHCA;ALONE")
  if(arg_ONE_THREAD AND WARPVERBS_SANITIZE STREQUAL "thread")
    return()
  endif()
  if(WARPVERBS_TEST_NIC AND (arg_SOFTHCA OR "fake_cuda" IN_LIST arg_LIBRARIES))
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PRIVATE warpverbs_build ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  if(WARPVERBS_SANITIZE STREQUAL "thread")
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/common/libmlx5_seed.cpp")
  endif()
  if("SOFTHCA" IN_LIST ARGV AND NOT WARPVERBS_TEST_NIC)
    set(launcher "$<TARGET_FILE:softhca>" ${arg_SOFTHCA} --)  # unquoted: no option, no argument
    set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "${launcher}")
    add_dependencies(${name} softhca)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT} RESOURCE_LOCK "${arg_LOCK}" ENVIRONMENT "WARPVERBS_TEST_NIC=${WARPVERBS_TEST_NIC}")
endfunction()

# warpverbs_test_by_packets(<name> [FILTER <GoogleTest filter>] [SOFTHCA [<option>...]])
#
# Runs the program of a warpverbs_test() once more, whole, with connections that send packets even within a process: both
# ways behave the same.
function(warpverbs_test_by_packets name)
  if(WARPVERBS_TEST_NIC)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILTER" "SOFTHCA")
  add_test(NAME ${name}.ByPackets
    COMMAND softhca --no-direct ${arg_SOFTHCA} -- $<TARGET_FILE:${name}> --gtest_brief=1 --gtest_filter=${arg_FILTER})
  set_tests_properties(${name}.ByPackets PROPERTIES TIMEOUT 300)
endfunction()
