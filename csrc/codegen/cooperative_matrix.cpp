#include "csrc/codegen/cooperative_matrix.h"

#include "csrc/codegen/bfloat16.h"
#include "csrc/codegen/glsl_compiler.h"

namespace tv {

namespace {

constexpr int kFirstGlslang = 14;
constexpr int kFirstGlslangNv2 = 15;

// DenormPreserve and RoundingModeRTE of 16-bit floats, each with its capability (SPIR-V 1.4).
constexpr const char* kFloat16Controls =
    "#extension GL_EXT_spirv_intrinsics : require\n"
    "spirv_execution_mode(capabilities = [4464], 4459, 16);\n"
    "spirv_execution_mode(capabilities = [4467], 4462, 16);\n"
    "#define TV_FLOAT16_CONTROLS 1\n";

std::string component(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF32:
      return "float32";
    case DType::kI8:
      return "int8";
    case DType::kI32:
      return "int32";
    default:
      return std::string(name(dtype));
  }
}

}  // namespace

std::string matrix_refusal(const CooperativeMatrix& matrix, const DeviceProfile& device) {
  const std::string input = component(matrix.input), sum = component(matrix.sum);
  if (!device.multiplies(matrix.m, matrix.n, matrix.k, input, sum)) {
    return "the device multiplies no " + std::to_string(matrix.m) + "x" + std::to_string(matrix.n) +
           "x" + std::to_string(matrix.k) + " matrices of " + input + " with sums in " + sum;
  }
  if (matrix.denormals && !device.float16_controls) {
    return "the device does not promise to keep float16's denormals";
  }
  if (matrix.nv2 && !device.coop_matrix2) return "the device lacks VK_NV_cooperative_matrix2";
  if (glslang_major() < kFirstGlslang) {
    return "glslang " + std::to_string(glslang_major()) + " has no GL_KHR_cooperative_matrix";
  }
  if (matrix.nv2 && glslang_major() < kFirstGlslangNv2) {
    return "glslang " + std::to_string(glslang_major()) + " has no GL_NV_cooperative_matrix2";
  }
  return "";
}

uint32_t steps_of_bytes(const DeviceProfile& device) {
  for (const uint32_t k : {32U, 16U}) {
    if (device.multiplies(16, 16, k, component(DType::kI8), component(DType::kI32))) return k;
  }
  return 0;
}

std::string matrix_preamble(const CooperativeMatrix& matrix, const DeviceProfile& device) {
  std::string text =
      "#pragma use_vulkan_memory_model\n"
      "#extension GL_KHR_cooperative_matrix : require\n"
      "#extension GL_KHR_memory_scope_semantics : require\n"
      "#extension GL_EXT_buffer_reference2 : require\n";
  if (matrix.nv2) text += "#extension GL_NV_cooperative_matrix2 : require\n";
  if (matrix.input == DType::kBF16) {
    text += std::string(kBfloat16Pragma) + "\n";
  } else if (device.float16_controls) {
    text += kFloat16Controls;
  }
  return text;
}

}  // namespace tv
