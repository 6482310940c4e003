#pragma once
// GLSL functions through which a kernel reaches one operand (listed in csrc/builder.h).

#include <string>

#include "csrc/codegen/kernel.h"
#include "csrc/codegen/kernel_words.h"

namespace tv {

/// Debug builds number the operands so that a report can name one.
struct AccessorOptions {
  bool check = false;  ///< every access is compared with storage_elements
  size_t number = 0;
  bool indexed = true;  ///< false: <name>_index, and the strides that it takes, are left out
};

/// <name>_T, <name>_V, <name>_raw, <name>_raw_store, <name>_vec4, <name>_raw_store4, <name>_index:
/// everything that touches memory. "" for an operand that is not stored.
std::string raw_accessors(const KernelOperand& operand, KernelWords& words,
                          const AccessorOptions& options);

/// <name>_load, <name>_load4, <name>_store, <name>_store4: through the view, the prologue and the
/// epilogue. The operands that the program reads must have been written before. `once`: the
/// operand is one number, which number_load reads before the kernel begins.
std::string element_accessors(const KernelOperand& operand, const KernelRequest& request,
                              bool once);
/// Whether each element is the same one.
bool is_number(const KernelOperand& operand);
std::string number_load(const KernelOperand& operand);

/// <name>_simd, <name>_simd_store2: neighbours, one a lane, for kernels that include simd.glsl.
std::string simd_accessors(const KernelOperand& operand, const KernelRequest& request);

}  // namespace tv
