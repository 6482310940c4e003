#pragma once
// tv::dequantize, the one form of a quantised tensor in the Graph (csrc/graph/quantised.h).

#include "csrc/graph/quantised.h"
#include "csrc/rewriter.h"

namespace tv {

/// Adds the node; `shape` and `dtype` are the result's.
ValueId dequantize_of(Rewriter& rw, const Quantised& q, DType dtype, const Shape& shape);

/// "" if its formats are known and it has what they allow, else the reason.
std::string format_refusal(const Quantised& q);
/// "" if `q.input` holds the elements of a tensor of `shape`, else the reason, which names it.
std::string input_refusal(const Graph& graph, const Quantised& q, const Shape& shape);
/// "" if the tensor (or none) has one element for each block of a tensor of `shape`, else the
/// reason, which names it.
std::string blocks_refusal(const Graph& graph, ValueId id, const Shape& blocks, const Shape& shape);

/// Types of what decodes; converters look at what two elements a byte and blocks make of sizes.
inline constexpr const char* kDequantizedTypes = "input [*s .] -> [*s .] | input [] -> []";

}  // namespace tv
