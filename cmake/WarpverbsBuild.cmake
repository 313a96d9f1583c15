# Settings that every target of this project shares; users of the installed library see none of them.
add_library(warpverbs_build INTERFACE)
target_compile_features(warpverbs_build INTERFACE cxx_std_20)
target_compile_options(warpverbs_build INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${WARPVERBS_WERROR}>>:-Werror>)
find_package(Threads REQUIRED)
target_link_libraries(warpverbs_build INTERFACE Threads::Threads)

if(WARPVERBS_SANITIZE)
  add_compile_options(-fsanitize=${WARPVERBS_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${WARPVERBS_SANITIZE})
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
