#pragma once
// bfloat16 matrices with a glslang that has no GL_EXT_bfloat16 (15.1): the kernel is written and
// compiled with float16_t, and the module's 16-bit float type is then rewritten. Kernels touch that
// type only to fill matrices with bits; 16-bit storage is integers (tv.glsl).

#include <cstdint>
#include <vector>

namespace tv {

/// In a kernel's text: rewrite its module.
inline constexpr const char* kBfloat16Pragma = "#pragma tv_bfloat16";

/// The module with OpTypeFloat 16 as bfloat16 and SPV_KHR_bfloat16 declared.
std::vector<uint32_t> to_bfloat16(const std::vector<uint32_t>& words);

}  // namespace tv
