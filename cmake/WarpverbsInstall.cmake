# Installs a CMake package with one component for each target that is built: device, host, transport, softhca, and the
# adapters to other libraries, mpi and rdmacm.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/warpverbs")

install(TARGETS warpverbs_device EXPORT warpverbs-device FILE_SET HEADERS FILE_SET gpu_headers)
install(EXPORT warpverbs-device NAMESPACE warpverbs:: DESTINATION "${package_dir}")
foreach(layer host transport)
  if(TARGET warpverbs_${layer})
    install(TARGETS warpverbs_${layer} EXPORT warpverbs-${layer} FILE_SET HEADERS FILE_SET gpu_headers)
    install(EXPORT warpverbs-${layer} NAMESPACE warpverbs:: DESTINATION "${package_dir}")
  endif()
endforeach()
foreach(adapter mpi rdmacm)
  if(TARGET warpverbs_${adapter})
    install(TARGETS warpverbs_${adapter} EXPORT warpverbs-${adapter} FILE_SET HEADERS)
    install(EXPORT warpverbs-${adapter} NAMESPACE warpverbs:: DESTINATION "${package_dir}")
  endif()
endforeach()
if(TARGET warpverbs-doctor)
  install(TARGETS warpverbs-doctor warpverbs-info warpverbs-perf)
endif()
if(TARGET softhca)
  install(TARGETS softhca EXPORT warpverbs-softhca)
  install(TARGETS softhca_preload)  # not exported: softhca finds it by its path, and no target links it
  install(EXPORT warpverbs-softhca NAMESPACE warpverbs:: DESTINATION "${package_dir}")
endif()

configure_package_config_file(cmake/warpverbs-config.cmake.in warpverbs-config.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(warpverbs-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/warpverbs-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/warpverbs-config-version.cmake" DESTINATION "${package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
