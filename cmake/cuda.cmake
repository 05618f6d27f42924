# Room cuda. Where the emulation is built, g++ compiles the kernels: cuda/emulation provides what nvcc would.
add_library(oxrse_cuda STATIC cuda/devices.cpp)
target_link_libraries(oxrse_cuda PUBLIC oxrse_options oxrse_ops)
if(OXRSE_CUDA_EMULATION_STATUS STREQUAL "built in")
  file(GLOB kernels CONFIGURE_DEPENDS cuda/kernels/*.cu)
  file(GLOB scheduler CONFIGURE_DEPENDS cuda/emulation/*.cpp)
  target_sources(oxrse_cuda PRIVATE cuda/device.cpp ${scheduler} ${kernels})
  # -O1: templates of kernels are large, and the switches between fibers take most of the time anyway.
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;-O1;-Wno-unknown-pragmas")
  target_compile_definitions(oxrse_cuda PRIVATE OXRSE_HAVE_CUDA_EMULATION)
  target_link_libraries(oxrse_cuda PUBLIC oxrse_cpu PRIVATE oxrse_boost_context)
  if(OXRSE_SANITIZE STREQUAL "thread")
    # The scheduler's own data must not order the threads it runs: cuda/emulation/sanitizers.h.
    set_source_files_properties(${scheduler} PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread COMPILE_DEFINITIONS OXRSE_EMULATION_TSAN)
  endif()
endif()
