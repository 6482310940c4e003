#pragma once
// scatter along one dimension, where each element of the result looks through the indices that
// could name it, so that the order is fixed. Long dimensions of indices stay native.

#include <string>
#include <vector>

#include "converters/kit/steps.h"

namespace tv {

/// The launch of a kernel of the node's arguments self, dim, index, and src or value: operands x,
/// index, y and src, or the parameter fill; SCATTER_AXES says how an element finds its indices.
Step scatter_step(const NodeContext& context, const Builder& builder, const std::string& kernel);

/// Why so many indices along the dimension are not looked through, or "".
std::string scatter_refusal(const NodeContext& context, const Expr& indices);

/// Small graphs of one such operator, of several dtypes.
std::vector<Graph> scatter_examples(const std::string& op);

}  // namespace tv
