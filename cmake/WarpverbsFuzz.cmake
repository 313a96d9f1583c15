set(WARPVERBS_FUZZ_SECONDS 60 CACHE STRING "Seconds that each fuzzer runs as a test")

add_custom_target(fuzzers)

# warpverbs_fuzzer(<name> SOURCES <file>... [LIBRARIES <target>...])
#
# Adds a libFuzzer program <name>_fuzzer and a test fuzz.<name>, which runs it for WARPVERBS_FUZZ_SECONDS, starting from the
# inputs in corpus/<name>. New inputs go to the build folder. Findings go there, too: crash-*, leak-*, ...
function(warpverbs_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${name}_fuzzer ${arg_SOURCES})
  target_link_libraries(${name}_fuzzer PRIVATE warpverbs_build ${arg_LIBRARIES})
  target_link_options(${name}_fuzzer PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name}_fuzzer)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${folder}/corpus")
  add_test(NAME fuzz.${name} WORKING_DIRECTORY "${folder}"
    COMMAND ${name}_fuzzer -max_total_time=${WARPVERBS_FUZZ_SECONDS} -timeout=10 -max_len=4096
      -print_final_stats=1 "${folder}/corpus" "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
  math(EXPR limit "${WARPVERBS_FUZZ_SECONDS} + 120")
  set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT ${limit})
endfunction()
