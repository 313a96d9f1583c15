# Manual pages and bash completion of the programs. They belong to the components of their programs.
option(WARPVERBS_MAN "Make manual pages of the programs' --help if help2man is installed" ${PROJECT_IS_TOP_LEVEL})
find_program(WARPVERBS_HELP2MAN help2man DOC "Makes manual pages of --help")
set(man "${PROJECT_SOURCE_DIR}/docs/man")
set(pages)
foreach(program softhca warpverbs-doctor warpverbs-filed warpverbs-gpuiod warpverbs-info warpverbs-perf warpverbs-trace)
  if(NOT TARGET ${program})
    continue()
  endif()
  set(component programs)
  if(program STREQUAL "softhca")
    set(component softhca)
  endif()
  # help2man runs the program.
  if(WARPVERBS_MAN AND WARPVERBS_HELP2MAN AND NOT WARPVERBS_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    set(page "${PROJECT_BINARY_DIR}/man/${program}.1")
    add_custom_command(OUTPUT "${page}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/man"
      COMMAND "${WARPVERBS_HELP2MAN}" --no-info --source "warpverbs ${PROJECT_VERSION}" --manual warpverbs
        --include "${man}/${program}.h2m" --output "${page}" "$<TARGET_FILE:${program}>"
      COMMAND sed -i -f "${man}/page.sed" "${page}"
      DEPENDS ${program} "${man}/${program}.h2m" "${man}/page.sed"
      COMMENT "Making the manual page of ${program}" VERBATIM)
    list(APPEND pages "${page}")
    if(WARPVERBS_INSTALL)
      install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT ${component} OPTIONAL)
    endif()
  endif()
  if(WARPVERBS_INSTALL)  # bash finds a completion by the name of its program
    install(FILES "${PROJECT_SOURCE_DIR}/src/programs/completion.bash" RENAME ${program} COMPONENT ${component}
      DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  endif()
endforeach()
if(pages)
  add_custom_target(man ALL DEPENDS ${pages})
endif()
