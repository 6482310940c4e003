#pragma once

#include <map>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/passes/quantise/multiply_integers.h"

namespace tv {

/// What became of a quantised tensor, the input of a tv::dequantize.
struct QuantisedOutcome {
  std::string tensor;               ///< its name
  std::string source, module_path;  ///< of the node
  std::string outcome;              ///< "read packed by 2 products"
};

/// The readers of a quantised weight as it is packed.
struct PackedReads {
  size_t products = 0, lookups = 0;
  size_t gathered = 0;   ///< products whose input is brought into another order first
  size_t four_bits = 0;  ///< products that read bytes in 4 bits each
  std::string tensor;    ///< the quantised tensor's name
};

/// What multiply_quantised was given.
struct BeforeMultiply {
  const std::vector<Node>& nodes;
  const std::vector<bool>& constant;  ///< by value
};

/// The outcomes of each tv::dequantize in `before` and of each of `integers`; `after` is the graph
/// that was made of it, `packed` says what reads which node's integers packed.
std::vector<QuantisedOutcome> outcomes_of_quantised(
    const Graph& after, const BeforeMultiply& before,
    const std::map<const Node*, PackedReads>& packed, IntegerReads integers);

}  // namespace tv
