# Third-party packages, found once for every folder.

find_package(Threads REQUIRED)
find_path(TV_VULKAN_HEADERS vulkan/vulkan.h REQUIRED)  # the loader itself is opened at run time
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)

# spdlog and its fmt header-only, so that neither is linked.
add_library(tv_spdlog INTERFACE)
foreach(from spdlog::spdlog_header_only fmt::fmt-header-only)
  get_target_property(dirs ${from} INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(tv_spdlog SYSTEM INTERFACE ${dirs})
endforeach()
target_compile_definitions(tv_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY=1)
target_link_libraries(tv_spdlog INTERFACE Threads::Threads)

# Headers alone, compiled in: no header that is installed includes them.
find_package(nlohmann_json 3.10 QUIET)
if(nlohmann_json_FOUND)
  get_target_property(dirs nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
else()
  find_path(TV_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  set(dirs ${TV_JSON_INCLUDE})
endif()
add_library(tv_json INTERFACE)
target_include_directories(tv_json SYSTEM INTERFACE ${dirs})

# Debian's static libprotobuf is not position independent: the shared lite runtime is linked, and
# scripts/make_wheel.py takes it into the wheel under private names.
find_path(TV_PROTOBUF_INCLUDE google/protobuf/message_lite.h REQUIRED)
find_library(TV_PROTOBUF_LITE NAMES libprotobuf-lite.so libprotobuf.so REQUIRED)
find_program(TV_PROTOC protoc REQUIRED)

function(tv_protobuf target proto)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
  string(REGEX REPLACE "[.]proto$" ".pb" path ${path})
  set(out ${CMAKE_BINARY_DIR}/${path})
  add_custom_command(
    OUTPUT ${out}.cc ${out}.h
    COMMAND ${TV_PROTOC} --cpp_out=${CMAKE_BINARY_DIR} -I${CMAKE_SOURCE_DIR}
            ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${proto} VERBATIM)
  target_sources(${target} PRIVATE ${out}.cc ${out}.h)
  set_source_files_properties(${out}.cc PROPERTIES COMPILE_OPTIONS -w)
  target_include_directories(${target} SYSTEM PRIVATE ${TV_PROTOBUF_INCLUDE})
  target_link_libraries(${target} PRIVATE ${TV_PROTOBUF_LITE})
endfunction()

# glslang 12 to 15: the set of static libraries differs, the order matters.
find_path(TV_GLSLANG_INCLUDE glslang/Public/ShaderLang.h REQUIRED)
add_library(tv_glslang INTERFACE)
target_include_directories(tv_glslang SYSTEM INTERFACE ${TV_GLSLANG_INCLUDE})
set(glslang_libs)
foreach(lib glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler SPIRV
            glslang-default-resource-limits SPIRV-Tools-opt SPIRV-Tools)
  find_library(TV_LIB_${lib} NAMES ${lib})
  if(TV_LIB_${lib})
    list(APPEND glslang_libs ${TV_LIB_${lib}})
  endif()
endforeach()
if(NOT glslang_libs)
  message(FATAL_ERROR "glslang's libraries were not found; install glslang-dev and spirv-tools")
endif()
target_link_libraries(tv_glslang INTERFACE -Wl,--start-group ${glslang_libs} -Wl,--end-group
                      Threads::Threads)
