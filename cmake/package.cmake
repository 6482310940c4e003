# What find_package(torch_vulkan) reads, beside the libraries: <prefix>/lib/cmake/torch_vulkan, where
# <prefix> is the folder of the Python package.
set(config_dir ${TV_LIB_DIR}/cmake/torch_vulkan)
set(TV_CONFIG_TO_LIB ../..)
option(TV_WHEEL "The libraries leave this tree: headers go with them" OFF)
if(NOT TV_WHEEL)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${config_dir}
             OUTPUT_VARIABLE TV_CONFIG_TO_INCLUDE)
else()
  set(TV_CONFIG_TO_INCLUDE ../../../include)
  foreach(header engine engine_spec vke_parts device device_profile dtype expr error)
    file(COPY runtime/${header}.h DESTINATION ${TV_LIB_DIR}/../include/runtime)
  endforeach()
endif()
configure_file(cmake/torch_vulkanConfig.cmake.in ${config_dir}/torch_vulkanConfig.cmake @ONLY)
