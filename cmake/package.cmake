# What find_package(torch_vulkan) reads, beside the libraries: <prefix>/lib/cmake/torch_vulkan, where
# <prefix> is the folder of the Python package.
set(config_dir ${TV_LIB_DIR}/cmake/torch_vulkan)
set(TV_CONFIG_TO_LIB ../..)
set(public_headers
    # What applications include.
    runtime/engine runtime/error runtime/engine/timed_calls
    # What converters of a user's own include.
    csrc/builder csrc/converter csrc/rewriter csrc/settings csrc/user_code csrc/partition/unsupported csrc/graph/graph
    csrc/graph/pointwise_program
    # The compiler for TorchScript modules.
    python/bindings/script)
file(GLOB kit CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} converters/kit/*.h)
list(TRANSFORM kit REPLACE "\\.h$" "")
list(APPEND public_headers ${kit})
set(to_read ${public_headers})
while(to_read)  # and what these include
  list(POP_FRONT to_read header)
  file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/${header}.h lines REGEX "^#include \"(runtime|csrc|converters|python)/")
  foreach(line ${lines})
    string(REGEX REPLACE "^#include \"([^\"]*)\\.h\".*" "\\1" included ${line})
    if(NOT included IN_LIST public_headers)
      list(APPEND public_headers ${included})
      list(APPEND to_read ${included})
    endif()
  endforeach()
endwhile()
option(TV_WHEEL "The libraries leave this tree: headers go with them" OFF)
if(NOT TV_WHEEL)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${config_dir}
             OUTPUT_VARIABLE TV_CONFIG_TO_INCLUDE)
else()
  set(TV_CONFIG_TO_INCLUDE ../../../include)
  foreach(header ${public_headers})
    get_filename_component(folder ${header} DIRECTORY)
    file(COPY ${header}.h DESTINATION ${TV_LIB_DIR}/../include/${folder})
  endforeach()
endif()
configure_file(cmake/torch_vulkanConfig.cmake.in ${config_dir}/torch_vulkanConfig.cmake @ONLY)

# `cmake --install`: vkexec, its man page, and what C++ applications need, below a prefix. The libraries
# for torch stay with the Python package.
include(GNUInstallDirs)
install(TARGETS vk_runtime vk_compiler LIBRARY DESTINATION lib)
install(TARGETS vkexec RUNTIME DESTINATION bin)
install(FILES docs/man/vkexec.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
foreach(header ${public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header}.h DESTINATION include/${folder})
endforeach()
set(TV_CONFIG_TO_INCLUDE ../../../include)
configure_file(cmake/torch_vulkanConfig.cmake.in ${CMAKE_BINARY_DIR}/install/torch_vulkanConfig.cmake
               @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/install/torch_vulkanConfig.cmake DESTINATION lib/cmake/torch_vulkan)
