# The NCCL transport is compiled once for each NCCL there is: the real one, and the stand-in of tests/comm/nccl/stand_in.
file(GLOB nccl_sources CONFIGURE_DEPENDS comm/transport/nccl*.cpp)
add_library(oxrse_nccl STATIC ${nccl_sources})
target_link_libraries(oxrse_nccl PUBLIC oxrse_comm)

add_library(oxrse_real_nccl INTERFACE)
target_compile_definitions(oxrse_real_nccl INTERFACE OXRSE_HAVE_NCCL)
target_include_directories(oxrse_real_nccl SYSTEM INTERFACE ${OXRSE_NCCL_INCLUDE} ${OXRSE_CUDART_INCLUDE})
if(OXRSE_NCCL_STATUS MATCHES "^built in")
  target_link_libraries(oxrse_nccl PRIVATE oxrse_real_nccl PUBLIC ${OXRSE_NCCL_LIBRARY} ${OXRSE_CUDART} ${CMAKE_DL_LIBS} rt)
elseif(OXRSE_NCCL_FOUND AND OXRSE_TESTS)
  # What is left out of the program still has to compile.
  add_library(oxrse_nccl_compiles OBJECT ${nccl_sources})
  target_link_libraries(oxrse_nccl_compiles PRIVATE oxrse_comm oxrse_real_nccl)
endif()

if(OXRSE_TESTS)
  file(GLOB stand_in_sources CONFIGURE_DEPENDS tests/comm/nccl/stand_in/*.cpp)
  add_library(oxrse_nccl_stand_in OBJECT ${nccl_sources} ${stand_in_sources})
  target_include_directories(oxrse_nccl_stand_in BEFORE PUBLIC tests/comm/nccl/stand_in)
  target_compile_definitions(oxrse_nccl_stand_in PRIVATE OXRSE_HAVE_NCCL)
  target_link_libraries(oxrse_nccl_stand_in PUBLIC oxrse_comm)
endif()
