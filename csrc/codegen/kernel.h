#pragma once
// The border between lowering (which knows values, views and buffers) and code generation (which
// knows GLSL): one KernelRequest per kernel launch, one GeneratedKernel back.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/builder.h"
#include "csrc/settings.h"
#include "runtime/spec/engine_spec.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// One operand as the kernel sees it. The step's own operands come first and in its order; those
/// that a fused program reads follow.
///
/// Element i (row-major over `shape`) is at Σ coordinate_k(i) · strides_k elements from the
/// pushed address, which already includes the view's offset. `shape` and `strides` are collapsed:
/// no dimension of size 1, and neighbours that can be walked as one are one, so a dense operand
/// has at most one dimension with stride 1 (a scalar has none). Strides are 0 if it broadcasts.
struct KernelOperand {
  std::string name;           ///< step operands: as in the Step; fused inputs: "<operand>_in<k>"
  DType dtype = DType::kF32;  ///< stored type
  DType value_dtype = DType::kF32;  ///< type of <name>_load's result and <name>_store's argument,
                                    ///< before it is widened to <name>_T; = dtype without a program
  Shape shape, strides;
  Expr storage_elements;  ///< elements that may be touched from the pushed address
  bool read = false, write = false;
  bool vec4 = false;  ///< 16-byte aligned and dense (lowering has checked it)
  /// Elements i … i+3 (i % 4 == 0, row-major) lie side by side at a multiple of four elements.
  bool fours = false;
  /// False for an operand that a prologue computes: it has no storage, no address and no
  /// <name>_raw.
  bool stored = true;

  /// Fused prologue (of loads) or epilogue (of stores); null if there is none or for `plain`.
  /// A prologue's input k is request.operands[program_inputs[k]]. An epilogue's input 0 is the
  /// value given to <name>_store and input k + 1 is request.operands[program_inputs[k]]; its one
  /// result is stored. Fused inputs have as many elements as this operand: element i goes with
  /// element i.
  std::shared_ptr<const PointwiseProgram> program;
  std::vector<uint32_t> program_inputs;
};

struct KernelRequest {
  Step step;
  std::vector<KernelOperand> operands;
  /// tv::pointwise: the node's own program. Its inputs are the step operands "in0", "in1", …,
  /// already broadcast to the outputs' shape, its results go to "out0", "out1", ….
  std::shared_ptr<const PointwiseProgram> program;
};

/// In GeneratedKernel::operands, always the last where there: the engine's check buffer
/// (BufferKind::kCheck). With settings.check_addresses of every kernel, for accesses outside their
/// operands; with settings.check_indices of those that read indices or divide integers; always of
/// those that pack 2:4 sparse weights.
inline constexpr uint32_t kCheckOperand = UINT32_MAX;

struct GeneratedKernel {
  std::string glsl;  ///< whole text; equal text is one module
  std::vector<uint32_t> spec_constants;
  std::vector<uint32_t> operands;  ///< into request.operands, or kCheckOperand: whose
                                   ///< addresses are pushed, in order
  std::vector<ParamWord> words;    ///< after the addresses; where there is a kCheckOperand,
                                   ///< the last is for lowering to fill: the dispatch's
                                   ///< number
  bool param_block = false;        ///< addresses and words exceed the push constants
};

/// Writes the kernel's text and parameters. Sizes and strides are parameters (or specialisation
/// constants where the step asks), never literals, so that layers of different sizes share modules.
/// Throws Error(kInternal) if the template does not exist.
GeneratedKernel generate_kernel(const KernelRequest& request, const Settings& settings,
                                const DeviceProfile& device);

/// SPIR-V of a kernel's text; `name` is for messages. Cached in memory and in settings.cache_dir.
/// Thread-safe. Throws Error(kInternal) with the numbered source where it does not compile.
std::vector<uint32_t> compile_kernel(const std::string& name, const std::string& glsl,
                                     const Settings& settings);

}  // namespace tv
