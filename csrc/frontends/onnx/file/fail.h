#pragma once
// What a reader of ONNX files says.

#include <string>

#include "runtime/base/error.h"

namespace tv::onnx {

/// Throws Error(kUser).
[[noreturn]] inline void fail(const std::string& message) {
  throw Error(ErrorKind::kUser, message);
}

}  // namespace tv::onnx
