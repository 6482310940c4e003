#pragma once
// Small floating-point numbers of ONNX files, which are held as their codes, in uint8.

#include <cstdint>
#include <string>

namespace tv::onnx {

/// The format of kSmallFloats (csrc/graph/quantised.h) that an ONNX type is; "": another type.
std::string small_float(int32_t onnx_type);

}  // namespace tv::onnx
