# What this binary is, for --version, `oxrse doctor` and checkpoints. The commit is looked up at every build, by running this file
# as a script; build_info.cpp is only rewritten, and recompiled, when its text changes.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE OXRSE_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT OXRSE_COMMIT)
    set(OXRSE_COMMIT "unknown")
  endif()
  configure_file(${TEMPLATE} ${RESULT} @ONLY)
  return()
endif()

# The first pass fills in what is known now; @OXRSE_COMMIT@ stays for the second.
set(OXRSE_COMMIT "@OXRSE_COMMIT@")
configure_file(${CMAKE_SOURCE_DIR}/cmake/build_info.cpp.in ${CMAKE_BINARY_DIR}/generated/build_info.cpp.in @ONLY)
set(build_info_cpp ${CMAKE_BINARY_DIR}/generated/build_info.cpp)
add_custom_target(oxrse_build_info BYPRODUCTS ${build_info_cpp} COMMENT ""
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DTEMPLATE=${CMAKE_BINARY_DIR}/generated/build_info.cpp.in -DRESULT=${build_info_cpp}
          -P ${CMAKE_SOURCE_DIR}/cmake/build_info.cmake)
target_sources(oxrse_core PRIVATE ${build_info_cpp})
add_dependencies(oxrse_core oxrse_build_info)
