#pragma once
// Memory for glslang, which is compiled without exceptions: where it runs out, what its functions
// hold is lost, and its process-wide lock with it. So what a call takes is set aside before it.

#include <glslang/Public/ShaderLang.h>

#include <cstddef>

namespace tv {

inline constexpr auto kGlslangMessages =
    static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);

/// Vulkan 1.3 and SPIR-V 1.6, for which glslang's tables are made.
void set_environment(glslang::TShader& shader);

/// Address space for what the current thread does in glslang. Where memory runs out meanwhile, it
/// is given back, and the allocation that failed is tried again.
class GlslangMemory {
 public:
  /// Throws OutOfMemoryError if there is not as much.
  explicit GlslangMemory(size_t bytes);
  ~GlslangMemory();
  GlslangMemory(const GlslangMemory&) = delete;

  /// False if that was done before.
  bool release() noexcept;

 private:
  void* pages_;
  const size_t bytes_;
};

/// Runs glslang's initialisation, the first call in a process, under its lock: once, and not again
/// where memory ran out all the same. Throws OutOfMemoryError, then and in each later call.
void initialize_glslang();

}  // namespace tv
