# warpverbs_library(<layer> <source>...): adds the library warpverbs_<layer>, for users warpverbs::<layer>.
#
# A shared library exports only what WARPVERBS_EXPORT marks; if its folder has an exports.map, only what that names. The version
# script also hides the instances of the C++ library's templates. The inline namespace v0_2 changes with each minor version, and so does SOVERSION: a program of one minor version
# cannot run with another, and the loader says so.
function(warpverbs_library layer)
  set(target warpverbs_${layer})
  add_library(${target} ${ARGN})
  add_library(warpverbs::${layer} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${layer} POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:warpverbs_build>)
  if(BUILD_SHARED_LIBS)
    set(map "${CMAKE_CURRENT_SOURCE_DIR}/exports.map")
    if(NOT EXISTS "${map}")
      set(map "${PROJECT_BINARY_DIR}/exports.map")
      configure_file("${PROJECT_SOURCE_DIR}/cmake/exports.map.in" "${map}" @ONLY)
    endif()
    target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${map}" INSTALL_RPATH "$ORIGIN")
    if(NOT WARPVERBS_SANITIZE)  # a sanitizer's functions are in the program
      target_link_options(${target} PRIVATE LINKER:--no-undefined)
    endif()
  endif()
endfunction()

# warpverbs_internals(<target>): makes <target>_internals, a static library of the same objects, for tests of what the shared
# library hides. It is the library itself unless that is shared.
function(warpverbs_internals target)
  if(NOT BUILD_SHARED_LIBS)
    add_library(${target}_internals ALIAS ${target})
    return()
  endif()
  add_library(${target}_internals STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}>)
  set_target_properties(${target}_internals PROPERTIES LINKER_LANGUAGE CXX)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  target_link_libraries(${target}_internals PUBLIC ${libraries})
  foreach(usage INCLUDE_DIRECTORIES SYSTEM_INCLUDE_DIRECTORIES COMPILE_DEFINITIONS)
    set_target_properties(${target}_internals PROPERTIES
      INTERFACE_${usage} "$<TARGET_PROPERTY:${target},INTERFACE_${usage}>")
  endforeach()
endfunction()
