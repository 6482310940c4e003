#pragma once
// spirv-val, through SPIRV-Tools' C++ interface.

#include <cstdint>
#include <spirv-tools/libspirv.hpp>
#include <string>
#include <vector>

namespace tv {

/// What the SPIR-V validator says of `words` for Vulkan 1.3; "" where it is valid.
inline std::string spirv_problem(const std::vector<uint32_t>& words) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_3);
  std::string problem;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { problem += std::string(message) + "\n"; });
  spvtools::ValidatorOptions options;
  options.SetScalarBlockLayout(true);
  if (tools.Validate(words.data(), words.size(), options)) return "";
  return problem.empty() ? "not valid" : problem;
}

}  // namespace tv
