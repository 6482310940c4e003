#include "integrations/triton/calls.h"

#include <new>

#include "csrc/cli/text/command_error.h"

namespace tv::triton {
namespace {

struct TypeRow {
  DType ours;
  TRITONSERVER_DataType theirs;
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {DType::kF32, TRITONSERVER_TYPE_FP32, "FP32"},
    {DType::kF16, TRITONSERVER_TYPE_FP16, "FP16"},
    {DType::kBF16, TRITONSERVER_TYPE_BF16, "BF16"},
    {DType::kF64, TRITONSERVER_TYPE_FP64, "FP64"},
    {DType::kI64, TRITONSERVER_TYPE_INT64, "INT64"},
    {DType::kI32, TRITONSERVER_TYPE_INT32, "INT32"},
    {DType::kI16, TRITONSERVER_TYPE_INT16, "INT16"},
    {DType::kI8, TRITONSERVER_TYPE_INT8, "INT8"},
    {DType::kU8, TRITONSERVER_TYPE_UINT8, "UINT8"},
    {DType::kBool, TRITONSERVER_TYPE_BOOL, "BOOL"},
};

TRITONSERVER_Error_Code code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUser:
      return TRITONSERVER_ERROR_INVALID_ARG;
    case ErrorKind::kUnsupported:
      return TRITONSERVER_ERROR_UNSUPPORTED;
    case ErrorKind::kDevice:
      return TRITONSERVER_ERROR_UNAVAILABLE;
    case ErrorKind::kInternal:
      break;
  }
  return TRITONSERVER_ERROR_INTERNAL;
}

}  // namespace

void check(TRITONSERVER_Error* error) {
  if (!error) return;
  const std::string text = TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(error);
  throw Error(ErrorKind::kInternal, text);
}

void log_error(TRITONSERVER_Error* error) {
  if (!error) return;
  TRITONSERVER_Error* again = TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__,
                                                      TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  if (again) TRITONSERVER_ErrorDelete(again);
}

void log_info(const std::string& text) {
  TRITONSERVER_Error* error =
      TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, __FILE__, __LINE__, text.c_str());
  if (error) TRITONSERVER_ErrorDelete(error);
}

TRITONSERVER_Error* error_of(const std::exception& error) {
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INTERNAL;
  if (const auto* ours = dynamic_cast<const Error*>(&error)) code = code_of(ours->kind());
  if (dynamic_cast<const cli::CommandError*>(&error)) code = TRITONSERVER_ERROR_INVALID_ARG;
  if (dynamic_cast<const std::bad_alloc*>(&error)) code = TRITONSERVER_ERROR_UNAVAILABLE;
  if (dynamic_cast<const Cancelled*>(&error)) code = TRITONSERVER_ERROR_CANCELLED;
  return TRITONSERVER_ErrorNew(code, error.what());
}

Json json_of(TRITONSERVER_Message* message) {
  const char* base = nullptr;
  size_t size = 0;
  check(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  return Json::parse({base, size}, "the server's configuration");
}

TRITONSERVER_Message* message_of(const Json& json) {
  const std::string text = json.dump();
  TRITONSERVER_Message* message = nullptr;
  check(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size()));
  return message;
}

DType dtype_of(TRITONSERVER_DataType type) {
  for (const TypeRow& row : kTypes) {
    if (row.theirs == type) return row.ours;
  }
  return DType::kOther;
}

TRITONSERVER_DataType type_of(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.ours == dtype) return row.theirs;
  }
  return TRITONSERVER_TYPE_INVALID;
}

const char* type_name(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.ours == dtype) return row.name;
  }
  return "a type that Triton has not";
}

}  // namespace tv::triton
