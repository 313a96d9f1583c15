# Installs everything that is built. Components, which the Debian packages follow:
#
#   libraries      shared libraries
#   development    headers, static libraries, the device library's bitcode, the CMake package and pkg-config files
#   programs       warpverbs-doctor, -filed, -gpuiod, -info, -perf and -trace
#   python         the Python package, in WARPVERBS_PYTHON_DIR
#   softhca        the software HCA with its CMake target and softhca_control.h
#   documentation  documents and the sources of the examples
#
# The CMake package has a component for each target: device, device_cpu, host, transport, gpuio, softhca, and the adapters to other
# libraries, mpi and rdmacm. Each library has a pkg-config file.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/warpverbs")
set(pkg_config_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# warpverbs_install_library(<layer> DESCRIPTION <text> [REQUIRES <module>...] [PRIVATE <module>...] [LIBS <option>...]
#                           [CFLAGS <option>...])
#
# REQUIRES  pkg-config modules whose headers the public headers include
# PRIVATE   modules, and LIBS options, that only a static library's users link
function(warpverbs_install_library layer)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESCRIPTION" "REQUIRES;PRIVATE;LIBS;CFLAGS")
  set(target warpverbs_${layer})
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(file_sets ${target} INTERFACE_HEADER_SETS)
  if(file_sets)
    list(TRANSFORM file_sets PREPEND "FILE_SET;")
  else()
    set(file_sets "")
  endif()
  install(TARGETS ${target} EXPORT warpverbs-${layer}
    LIBRARY COMPONENT libraries NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development
    ${file_sets})
  install(EXPORT warpverbs-${layer} NAMESPACE warpverbs:: DESTINATION "${package_dir}")

  get_target_property(type ${target} TYPE)
  set(libs "")
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    set(libs "-L\${libdir}" -l${target})
  endif()
  set(private_libs "")
  if(type STREQUAL "SHARED_LIBRARY")
    set(private_libs ${arg_LIBS})
  else()
    list(APPEND libs ${arg_LIBS})
    list(APPEND arg_REQUIRES ${arg_PRIVATE})
    set(arg_PRIVATE "")
  endif()
  set(lines "")
  foreach(field Requires=arg_REQUIRES Requires.private=arg_PRIVATE Libs=libs Libs.private=private_libs)
    string(REGEX MATCH "(.*)=(.*)" field ${field})
    if(${CMAKE_MATCH_2})
      list(JOIN ${CMAKE_MATCH_2} " " values)
      string(APPEND lines "${CMAKE_MATCH_1}: ${values}\n")
    endif()
  endforeach()
  string(STRIP "${lines}" lines)
  list(TRANSFORM arg_CFLAGS PREPEND " " OUTPUT_VARIABLE cflags)
  list(JOIN cflags "" cflags)
  file(RELATIVE_PATH to_prefix "/${pkg_config_dir}" "/")
  string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/warpverbs.pc.in" "${PROJECT_BINARY_DIR}/warpverbs-${layer}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/warpverbs-${layer}.pc" DESTINATION "${pkg_config_dir}")
endfunction()

warpverbs_install_library(device DESCRIPTION "RDMA verbs for GPU kernels: headers of the data path")
warpverbs_install_library(device_cpu DESCRIPTION "RDMA verbs for GPU kernels: the device library for threads of the processor"
  REQUIRES warpverbs-device)
warpverbs_install_library(host DESCRIPTION "RDMA verbs for GPU kernels: queue pairs, memory and connections"
  REQUIRES warpverbs-device libibverbs PRIVATE libmlx5 LIBS -pthread -ldl)
warpverbs_install_library(transport DESCRIPTION "RDMA verbs for GPU kernels: asynchronous transfers by host code"
  REQUIRES warpverbs-host LIBS -pthread CFLAGS -DASIO_STANDALONE -DASIO_HAS_STD_ALIGNED_ALLOC=1)
set(gpuio_cflags -I\${includedir}/warpverbs/gpuio)  # programs written for 3FS include <hf3fs_usrbio.h>
if(ENABLE_GDR)
  list(APPEND gpuio_cflags -DHF3FS_GDR_ENABLED)
endif()
warpverbs_install_library(gpuio DESCRIPTION "Storage to GPU memory: the C API of 3FS's USRBIO"
  PRIVATE warpverbs-transport LIBS -pthread -lstdc++ CFLAGS ${gpuio_cflags})
warpverbs_install_library(rdmacm DESCRIPTION "RDMA verbs for GPU kernels: connections by rdma_cm"
  REQUIRES warpverbs-host PRIVATE librdmacm LIBS -pthread)
warpverbs_install_library(mpi DESCRIPTION "RDMA verbs for GPU kernels: connections by MPI; compile with mpicxx"
  REQUIRES warpverbs-host)

file(RELATIVE_PATH libraries_from_programs "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
if(TARGET warpverbs-doctor)
  set(programs warpverbs-doctor warpverbs-info warpverbs-perf warpverbs-trace)
  if(BUILD_SHARED_LIBS)
    set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
  endif()
  install(TARGETS ${programs} COMPONENT programs)
endif()
foreach(program warpverbs-gpuiod warpverbs-filed)
  if(NOT TARGET ${program})
    continue()
  endif()
  if(BUILD_SHARED_LIBS)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
  endif()
  install(TARGETS ${program} COMPONENT programs)
endforeach()
if(TARGET softhca)
  install(TARGETS softhca EXPORT warpverbs-softhca COMPONENT softhca)
  # Not exported: softhca finds it by its path, and no target links it.
  install(TARGETS softhca_preload LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/softhca" COMPONENT softhca)
  install(EXPORT warpverbs-softhca NAMESPACE warpverbs:: DESTINATION "${package_dir}" COMPONENT softhca)
  install(FILES src/softhca/control/softhca_control.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT softhca)
endif()

set(device_library_folder "${CMAKE_INSTALL_LIBDIR}/warpverbs")
if(TARGET warpverbs_device_files)
  get_target_property(device_files warpverbs_device_files FILES)
  install(FILES ${device_files} DESTINATION "${device_library_folder}")
endif()
configure_package_config_file(cmake/warpverbs-config.cmake.in warpverbs-config.cmake INSTALL_DESTINATION "${package_dir}"
  PATH_VARS device_library_folder)
write_basic_package_version_file(warpverbs-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/warpverbs-config.cmake" "${PROJECT_BINARY_DIR}/warpverbs-config-version.cmake"
  DESTINATION "${package_dir}")

# The folders are those of the source tree, so that links between these documents resolve.
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documentation)
install(FILES include/warpverbs/README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}/include/warpverbs" COMPONENT documentation)
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documentation
  PATTERN docs/man EXCLUDE PATTERN docs/site EXCLUDE)
