# Room cuda: the kernels, compiled by nvcc for GPUs and by g++ for the emulation, which provides what nvcc would. Both may be in one
# program: cuda/portable.h.

# What cuda/resources.txt says, as a source file.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/resources.txt)
file(READ cuda/resources.txt resources)
set(resources_cpp ${CMAKE_BINARY_DIR}/generated/cuda_resources.cpp)
file(CONFIGURE OUTPUT ${resources_cpp} @ONLY CONTENT [=[
namespace oxrse::cuda {
extern const char* const kResourcesText;
const char* const kResourcesText = R"(@resources@)";
}  // namespace oxrse::cuda
]=])

# What a GPU and the stand-in of its libraries have in common; nothing needs it where neither is built.
file(GLOB runtime CONFIGURE_DEPENDS cuda/runtime/*.cpp)
set(nvidia cuda/runtime/nvidia.cpp cuda/runtime/lt.cpp cuda/runtime/error.cpp)
list(TRANSFORM nvidia PREPEND ${CMAKE_SOURCE_DIR}/)
list(REMOVE_ITEM runtime ${nvidia})
if(NOT OXRSE_CUDA_STATUS MATCHES "^built in" AND NOT OXRSE_CUDA_EMULATION_STATUS MATCHES "^built in")
  set(runtime)
endif()
add_library(oxrse_cuda_runtime STATIC ${runtime} cuda/dispatch.cpp cuda/kernel_name.cpp cuda/resources.cpp ${resources_cpp})
target_link_libraries(oxrse_cuda_runtime PUBLIC oxrse_options oxrse_ops)

add_library(oxrse_cuda STATIC cuda/devices.cpp cuda/collectives.cpp)
target_link_libraries(oxrse_cuda PUBLIC oxrse_cuda_runtime)
file(GLOB kernels RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS cuda/kernels/*.cu cuda/ladder/*.cu)
file(GLOB hopper_kernels RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS cuda/kernels/sm_90a/*.cu)  # for that GPU alone

if(OXRSE_CUDA_EMULATION_STATUS MATCHES "^built in")
  # g++ compiles a file that includes the kernel's: to CMake a .cu file has one language.
  file(GLOB emulation CONFIGURE_DEPENDS cuda/emulation/*.cpp)
  set(emulated_kernels)
  foreach(kernel ${kernels} ${hopper_kernels})
    cmake_path(GET kernel STEM name)
    set(wrapper ${CMAKE_BINARY_DIR}/emulated/${name}.cpp)
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${kernel}\"\n")
    list(APPEND emulated_kernels ${wrapper})
  endforeach()
  add_library(oxrse_cuda_emulated STATIC ${emulation} ${emulated_kernels})
  target_link_libraries(oxrse_cuda_emulated PUBLIC oxrse_cuda_runtime PRIVATE oxrse_boost_context)
  set_source_files_properties(${CMAKE_BINARY_DIR}/emulated/table.cpp PROPERTIES COMPILE_DEFINITIONS OXRSE_HAVE_HOPPER)
  # -O1: templates of kernels are large, and the switches between fibers take most of the time anyway.
  set_source_files_properties(${emulated_kernels} PROPERTIES COMPILE_OPTIONS "-O1;-Wno-unknown-pragmas")
  if(OXRSE_SANITIZE STREQUAL "thread")
    # The scheduler's own data must not order the threads it runs: cuda/emulation/sanitizers.h.
    set_source_files_properties(${emulation} PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread COMPILE_DEFINITIONS OXRSE_EMULATION_TSAN)
  endif()
  target_compile_definitions(oxrse_cuda PRIVATE OXRSE_HAVE_CUDA_EMULATION)
  target_link_libraries(oxrse_cuda PUBLIC oxrse_cuda_emulated)
endif()

if(OXRSE_CUDA_STATUS MATCHES "^built in")
  set(CMAKE_CUDA_COMPILER ${OXRSE_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${OXRSE_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know that nvcc 13 has it
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  function(oxrse_nvcc_library name)
    add_library(${name} STATIC ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE fmt::fmt INTERFACE $<LINK_ONLY:oxrse_cuda_runtime>)
    set_target_properties(${name} PROPERTIES CUDA_STANDARD 20)
    # The same in tools/cuda_resources.sh. fmt 9 takes nvcc for a compiler without constexpr.
    target_compile_options(${name} PRIVATE -O3 --expt-relaxed-constexpr -DFMT_USE_CONSTEXPR=1)
  endfunction()
  oxrse_nvcc_library(oxrse_cuda_kernels ${kernels} cuda/runtime/launch.cu)
  # wgmma and setmaxnreg are instructions of sm_90a and of no other GPU, and not of "native", which would be sm_90.
  if(OXRSE_CUDA_ARCHITECTURES MATCHES "90a|native")
    oxrse_nvcc_library(oxrse_cuda_hopper ${hopper_kernels} cuda/runtime/tensor_map.cu)
    set_target_properties(oxrse_cuda_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/cuda/kernels/table.cu PROPERTIES COMPILE_DEFINITIONS OXRSE_HAVE_HOPPER)
    target_link_libraries(oxrse_cuda_hopper PRIVATE oxrse_cuda_kernels)
    target_link_libraries(oxrse_cuda_kernels PRIVATE oxrse_cuda_hopper)
  elseif(OXRSE_CUDA_ARCHITECTURES MATCHES "(^|;)90")
    message(NOTICE "OXRSE_CUDA_ARCHITECTURES has 90 and not 90a: attention's kernel for Hopper by wgmma is left out")
  endif()
  add_library(oxrse_cuda_nvidia STATIC ${nvidia})
  target_include_directories(oxrse_cuda_nvidia SYSTEM PRIVATE ${OXRSE_CUDA_INCLUDE})
  target_link_libraries(oxrse_cuda_nvidia PUBLIC oxrse_cuda_kernels oxrse_cuda_runtime ${OXRSE_CUBLASLT} ${OXRSE_CUDART} ${CMAKE_DL_LIBS} rt)
  target_compile_definitions(oxrse_cuda PRIVATE OXRSE_HAVE_CUDA)
  target_link_libraries(oxrse_cuda PUBLIC oxrse_cuda_nvidia)
endif()
