#pragma once
// Triton's errors and ours, and its messages as JSON.

#include <stdexcept>
#include <string>

#include "integrations/triton/triton.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv::triton {

/// Throws Error(kInternal) with what the server says, where it says something.
void check(TRITONSERVER_Error* error);
/// Drops an error that nobody could do anything about, with a line in the log.
void log_error(TRITONSERVER_Error* error);
void log_info(const std::string& text);

/// What answers a request that its client has given up.
struct Cancelled : std::runtime_error {
  Cancelled() : std::runtime_error("the request was cancelled") {}
};

/// An error as the server has it; the caller owns it.
TRITONSERVER_Error* error_of(const std::exception& error);

/// What a C function returns: no exception leaves the backend.
template <typename Work>
TRITONSERVER_Error* guarded(const Work& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    return error_of(error);
  } catch (...) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "an unknown exception");
  }
}

Json json_of(TRITONSERVER_Message* message);
/// As the server takes it; the caller deletes it.
TRITONSERVER_Message* message_of(const Json& json);

/// kOther, and TRITONSERVER_TYPE_INVALID, for what the other side has not.
DType dtype_of(TRITONSERVER_DataType type);
TRITONSERVER_DataType type_of(DType dtype);
/// "FP32", as messages and configurations (with TYPE_ before it) have it.
const char* type_name(DType dtype);

}  // namespace tv::triton
