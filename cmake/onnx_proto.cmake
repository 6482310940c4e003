# onnx-ml.proto comes with the onnx package of Python: the newest opset's, without a copy here. It is
# renamed, so that other libraries of the process that hold ONNX's messages (torch does) are not mixed
# with ours, and uses protobuf's lite runtime.
if(NOT TV_ONNX_PROTO AND NOT Python_EXECUTABLE)
  find_package(Python COMPONENTS Interpreter)
endif()
if(NOT TV_ONNX_PROTO AND Python_EXECUTABLE)
  execute_process(COMMAND ${Python_EXECUTABLE} -c
    "import importlib.util as u, os; print(os.path.join(u.find_spec('onnx').submodule_search_locations[0], 'onnx-ml.proto'))"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${found}")
    set(TV_ONNX_PROTO ${found} CACHE FILEPATH "onnx-ml.proto")
  endif()
endif()
if(NOT TV_ONNX_PROTO)
  file(GLOB folders ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/onnx)
  find_file(TV_ONNX_PROTO onnx-ml.proto PATHS ${folders} PATH_SUFFIXES onnx)
endif()
if(NOT TV_ONNX_PROTO OR NOT EXISTS "${TV_ONNX_PROTO}")
  message(FATAL_ERROR "onnx-ml.proto was not found. It comes with the Python package onnx: "
    "`pip install onnx` for the Python of Python_EXECUTABLE, or name the file with "
    "-DTV_ONNX_PROTO=/path/to/onnx-ml.proto")
endif()

file(READ ${TV_ONNX_PROTO} text)
string(REPLACE "\npackage onnx;" "\npackage tv.onnx_proto;" text "${text}")
if(NOT text MATCHES "optimize_for = LITE_RUNTIME")
  string(APPEND text "\noption optimize_for = LITE_RUNTIME;\n")
endif()
if(NOT text MATCHES "package tv.onnx_proto;")
  message(FATAL_ERROR "${TV_ONNX_PROTO} is not the onnx-ml.proto of package onnx")
endif()
file(WRITE ${TV_ONNX_DIR}/onnx_ml.proto.new "${text}")
configure_file(${TV_ONNX_DIR}/onnx_ml.proto.new ${TV_ONNX_DIR}/onnx_ml.proto COPYONLY)
add_custom_command(
  OUTPUT ${TV_ONNX_DIR}/onnx_ml.pb.cc ${TV_ONNX_DIR}/onnx_ml.pb.h ${TV_ONNX_DIR}/onnx_ml.descriptors
  COMMAND ${TV_PROTOC} --cpp_out=${TV_ONNX_DIR} --descriptor_set_out=${TV_ONNX_DIR}/onnx_ml.descriptors
          -I${TV_ONNX_DIR} ${TV_ONNX_DIR}/onnx_ml.proto
  DEPENDS ${TV_ONNX_DIR}/onnx_ml.proto VERBATIM)
set_source_files_properties(${TV_ONNX_DIR}/onnx_ml.pb.cc PROPERTIES COMPILE_OPTIONS -w)

# Which of their fields hold messages, for the limit on what a file may become.
find_library(TV_PROTOBUF NAMES libprotobuf.so libprotobuf.a REQUIRED)
add_executable(message_fields ${CMAKE_SOURCE_DIR}/cmake/message_fields.cpp)
target_include_directories(message_fields SYSTEM PRIVATE ${TV_PROTOBUF_INCLUDE})
target_link_libraries(message_fields PRIVATE tv_options ${TV_PROTOBUF} Threads::Threads)
add_custom_command(
  OUTPUT ${TV_ONNX_DIR}/onnx_ml.fields.h
  COMMAND message_fields ${TV_ONNX_DIR}/onnx_ml.descriptors ModelProto ${TV_ONNX_DIR}/onnx_ml.fields.h
  DEPENDS message_fields ${TV_ONNX_DIR}/onnx_ml.descriptors VERBATIM)
add_custom_target(tv_onnx_proto DEPENDS ${TV_ONNX_DIR}/onnx_ml.pb.cc ${TV_ONNX_DIR}/onnx_ml.pb.h
                  ${TV_ONNX_DIR}/onnx_ml.fields.h)
