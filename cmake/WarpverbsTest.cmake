find_package(GTest REQUIRED)
include(GoogleTest)

# warpverbs_test(<name> SOURCES <file>... [LIBRARIES <target>...] [SOFTHCA [<option>...]] [TIMEOUT <seconds>])
#
# A GoogleTest program, each of its cases a ctest test of its own. With SOFTHCA the program runs under
# `softhca <option>... -- `, so every case has a fresh software HCA.
function(warpverbs_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBRARIES;SOFTHCA")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE warpverbs_build ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  if("SOFTHCA" IN_LIST ARGV)
    set(launcher "$<TARGET_FILE:softhca>" ${arg_SOFTHCA} --)  # unquoted: no option, no argument
    set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "${launcher}")
    add_dependencies(${name} softhca)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT})
endfunction()
