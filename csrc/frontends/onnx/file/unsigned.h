#pragma once
// Unsigned integers of ONNX files, which engines hold in wider signed ones.

#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/dtype.h"

namespace tv::onnx {

/// Whether it is uint16, uint32 or uint64.
bool is_wider_unsigned(int32_t onnx_type);
/// These by name, and what holds each: where it has the same size, bit for bit.
std::map<std::string, DType> wider_unsigned();

}  // namespace tv::onnx
