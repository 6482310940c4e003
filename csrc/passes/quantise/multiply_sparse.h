#pragma once
// Products whose constant weights are 2:4 sparse (Value::two_four) read them without their zeros.

#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/passes/kit/node_alone.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// What became of the weight of a product, where settings.sparse_weights asks for it.
struct SparseOutcome {
  std::string tensor;               ///< its name
  std::string source, module_path;  ///< of the product
  std::string outcome;              ///< "read as 2:4 sparse" or "read dense: " and why
};

/// Whether at most two of each four neighbours along dimension `dim` of a constant matrix are not
/// zero, as its weights' Value::two_four say.
bool is_two_four(const Graph& graph, const std::vector<int32_t>& made_by, ValueId value,
                 size_t dim);

/// A weight that products sum along one dimension of, a multiple of 8 long.
struct SparseCandidate {
  ValueId weight = kNoValue;
  size_t along = 0;
};
std::vector<SparseCandidate> candidates_of(const Graph& graph);

/// Removes Value::two_four from the weights that products should read dense: decided by time where
/// `us` is given, else by rule. Runs before any pass that joins weights. `outcomes`, where given,
/// gets one of each product with a constant matrix of floats.
Graph choose_sparse(Graph graph, const DeviceProfile& device, const GraphUs& us,
                    std::vector<SparseOutcome>* outcomes = nullptr);

/// Makes tv::matmul_sparse of products with weights that still have it, and packs these in the
/// weight program, which refuses others.
Graph multiply_sparse(Graph graph);

}  // namespace tv
