#pragma once
// What the compiler reads of the user's settings (docs/settings.md has them all).

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

struct Settings {
  double min_block_size = 5;                     ///< infinity: nothing is built
  /// On CUDA tensors: compute nodes that take PyTorch as long as the GPU's switch to an engine
  /// between its own kernels and back; a smaller engine is not worth it. 0: no such cost.
  double switch_nodes = 0;
  std::vector<std::string> torch_executed_ops;   ///< "aten::relu" (every overload) or "aten::add.Tensor"
  bool require_full_compilation = false;
  bool truncate_long_and_double = false;
  std::vector<DType> enabled_precisions;         ///< empty: the model's own
  bool use_fp32_acc = true;
  bool disable_tf32 = true;
  int64_t optimization_level = 3;
  int64_t workspace_size = 0;                    ///< bytes of scratch a tactic may use; 0: no limit
  std::string debug_dir;                         ///< "" : no dumps
  std::string cache_dir;                         ///< of compiled SPIR-V; "": none
  /// Beginnings of names of tactics that are taken before the rule's choice where they apply.
  std::vector<std::string> tactics;
  std::string timing_cache_path;                 ///< file of the tuner; "": kept in memory only
  bool check_addresses = false;                  ///< debug kernels: each access checked
  /// Indices out of range and integer divisors of 0 end a run with a BadValueError.
  bool check_indices = true;

  /// From a JSON object; an unknown field or a wrong type is an Error(kUser).
  static Settings from_json(const std::string& text);
};

}  // namespace tv
